//! Changes for a list of users of any length, sent in calls of bounded size. `grant`, `block` and
//! `unblock` use it.

use std::{collections::HashSet, path::PathBuf};

use clap::Args;

use super::{
    client::{Campaigns, Change, Outcome, campaign_id, user_id},
    failure::Failure,
    input,
    output::counted,
    shell::quoted,
};
use crate::proto::{BlockUsersRequest, GrantDrawsRequest, UnblockUsersRequest};

/// The largest number of users in a call.
const CALL_USERS_MAX: usize = 1_000;

/// A campaign and some of its users.
#[derive(Args, Clone, Debug)]
pub(super) struct UserArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    pub(super) campaign: String,
    /// The users; a user who is named twice counts once
    #[arg(value_name = "USER", value_parser = user_id, required_unless_present = "users_file")]
    users: Vec<String>,
    /// A file with one user id per line, taken byte for byte; - reads standard input
    #[arg(long, env = "TOMBOLA_USERS_FILE", value_name = "FILE")]
    users_file: Option<PathBuf>,
}

/// The change to send.
pub(super) enum Kind {
    Grant {
        draws: u32,
        expire: Option<prost_types::Timestamp>,
    },
    Block,
    Unblock,
}

impl UserArgs {
    /// Every user once, in the order named; reports all wrong ids at once.
    pub(super) fn all(&self) -> Outcome<Vec<String>> {
        let mut users = self.users.clone();
        if let Some(path) = &self.users_file {
            users.extend(input::users(path)?);
        }
        let mut seen = HashSet::new();
        users.retain(|user| seen.insert(user.clone()));
        if users.is_empty() {
            return Err(Failure::refused(
                "NO_USERS",
                "the list names no user; nothing was sent",
            ));
        }
        Ok(users)
    }
}

/// The sum of all calls.
pub(super) struct Sum {
    pub(super) users: u32,
    named: usize,
    pub(super) replayed: bool,
}

impl Sum {
    pub(super) fn describe(&self, what: &str) -> String {
        let replayed = if self.replayed {
            " (some of it by earlier calls)"
        } else {
            ""
        };
        let named = counted(self.named as u64, "user");
        format!(
            "{} of {named} {what}{replayed}",
            crate::model::text::grouped(u64::from(self.users))
        )
    }
}

pub(super) async fn in_calls(
    server: &mut Campaigns,
    campaign: &str,
    users: &[String],
    change: &Change,
    kind: &Kind,
) -> Outcome<Sum> {
    let calls = users.len().div_ceil(CALL_USERS_MAX);
    let mut sum = Sum {
        users: 0,
        named: users.len(),
        replayed: false,
    };
    if calls > 1 {
        change.numbered(calls)?; // fails early if the longest id is too long
    }
    for (index, some) in users.chunks(CALL_USERS_MAX).enumerate() {
        let change = if calls > 1 {
            change.numbered(index + 1)?
        } else {
            change.clone()
        };
        let response = call(server, campaign, some, &change, kind).await;
        let (users, replayed) =
            response.map_err(|status| stopped(status, &change, calls, index))?;
        sum.users += users;
        sum.replayed |= replayed;
    }
    Ok(sum)
}

/// The failure of a call in the middle of a list: says how far it got, and how to go on without
/// repeating a change.
fn stopped(status: tonic::Status, change: &Change, calls: usize, index: usize) -> Box<Failure> {
    let failure = Failure::change(status, &change.request_id);
    if calls == 1 {
        return failure;
    }
    let whole = change
        .request_id
        .rsplit_once('.')
        .map_or("", |(whole, _)| whole);
    let done = counted((index * CALL_USERS_MAX) as u64, "user");
    failure.advise(format!(
        "{done} of the list are done; the same command with --request-id {} goes on and repeats \
         nothing",
        quoted(whole)
    ))
}

async fn call(
    server: &mut Campaigns,
    campaign: &str,
    users: &[String],
    change: &Change,
    kind: &Kind,
) -> Result<(u32, bool), tonic::Status> {
    let campaign_id = campaign.to_owned();
    let user_ids = users.to_vec();
    let Change {
        operator,
        reason,
        request_id,
    } = change.clone();
    Ok(match *kind {
        Kind::Grant { draws, expire } => {
            let expire_time = expire;
            let request = GrantDrawsRequest {
                campaign_id,
                user_ids,
                draws,
                expire_time,
                request_id,
                operator,
                reason,
            };
            let response = server.grant_draws(request).await?.into_inner();
            (response.users, response.replayed)
        }
        Kind::Block => {
            let request = BlockUsersRequest {
                campaign_id,
                user_ids,
                request_id,
                operator,
                reason,
            };
            let response = server.block_users(request).await?.into_inner();
            (response.users, response.replayed)
        }
        Kind::Unblock => {
            let request = UnblockUsersRequest {
                campaign_id,
                user_ids,
                request_id,
                operator,
                reason,
            };
            let response = server.unblock_users(request).await?.into_inner();
            (response.users, response.replayed)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_stops_half_way_says_how_it_goes_on() {
        let change = Change {
            operator: "cli".into(),
            reason: String::new(),
            request_id: "a.b.3".into(),
        };
        let text = stopped(tonic::Status::unavailable("gone"), &change, 5, 2).to_string();
        assert!(text.contains("2,000 users of the list are done"), "{text}");
        assert!(text.contains("--request-id a.b goes on"), "{text}");
    }
}
