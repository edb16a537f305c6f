//! Calls that show users to operators.

use tonic::Request;

use super::{
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    request::{self, Fields},
    views,
};
use crate::{
    chance::{hex, unhex},
    model::UserId,
    proto,
};

/// What the tokens of pages of blocked users begin with; the last user of the page before follows,
/// in hexadecimal.
const TOKEN_PREFIX: &str = "user-";

/// A user's record, limits and block.
pub(super) async fn get_user(
    desk: &Desk,
    request: Request<proto::GetUserRequest>,
) -> Reply<proto::GetUserResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let message = request.into_inner();
    let work = async {
        let (campaign, user) = request::user(&message.campaign_id, &message.user_id)?;
        let details = desk.user_details(&campaign, &user).await?;
        Ok(proto::GetUserResponse {
            user: Some(views::user(&user, &details)),
        })
    };
    desk.read(deadline, work).await
}

/// A page of blocked users.
pub(super) async fn list_blocked_users(
    desk: &Desk,
    request: Request<proto::ListBlockedUsersRequest>,
) -> Reply<proto::ListBlockedUsersResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let campaign = fields.campaign(&message.campaign_id);
        let size = fields.page_size(message.page_size);
        let after = read_token(&message.page_token);
        if after.is_none() {
            fields.add("page_token", "is not a token that this service gave");
        }
        let (campaign, after) = fields.finish(campaign.zip(after))?;
        let mut page = desk
            .blocked_users(&campaign, after.as_ref(), size + 1)
            .await?;
        let more = page.users.len() > size;
        page.users.truncate(size);
        let last = page.users.last().filter(|_| more);
        Ok(proto::ListBlockedUsersResponse {
            next_page_token: last.map(|last| token(&last.user)).unwrap_or_default(),
            users: page.users.iter().map(views::blocked_user).collect(),
            blocked_users: page.total,
        })
    };
    desk.read(deadline, work).await
}

/// The token of the page after a user.
pub(super) fn token(user: &UserId) -> String {
    format!("{TOKEN_PREFIX}{}", hex(user.as_str().as_bytes()))
}

/// The user after whom a page begins, if it is not the first page; none if the token is none of
/// ours.
pub(super) fn read_token(token: &str) -> Option<Option<UserId>> {
    if token.is_empty() {
        return Some(None);
    }
    let bytes = unhex(token.strip_prefix(TOKEN_PREFIX)?)?;
    let id = String::from_utf8(bytes).ok()?;
    UserId::parse("page_token", &id).ok().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_user() {
        for id in [
            "u",
            " ",
            "auth0|5f7c8",
            "\u{8001}\u{677f}",
            &"x".repeat(128),
        ] {
            let user = UserId::parse("user", id).unwrap();
            let token = token(&user);
            assert!(token.is_ascii() && !token.contains(' '), "{token}");
            assert_eq!(read_token(&token), Some(Some(user)));
        }
        assert_eq!(read_token(""), Some(None));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for bad in [
            "u",
            "user-",
            "user-7",
            "user-7x",
            "user-+7",
            "user-00",
            "user-ff",
            "user-\u{e9}",
        ] {
            assert_eq!(read_token(bad), None, "{bad}");
        }
        let long = format!("{TOKEN_PREFIX}{}", "78".repeat(129));
        assert_eq!(read_token(&long), None);
    }
}
