//! `tombola user`: one user in full, and who is blocked.

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;

use super::{
    check::limits,
    client::{Client, Outcome, campaign_id, user_id},
    failure::Failure,
    forget, lists,
    output::{Side, Table, counted},
    time::shown,
};
use crate::{
    model::text::{grouped, visible},
    proto::{
        BlockedUser, BonusDraws, GetUserRequest, GetUserResponse, ListBlockedUsersRequest,
        ListBlockedUsersResponse, User,
    },
};

#[derive(Subcommand, Clone, Debug)]
pub(super) enum UserCommand {
    /// Show a user's draws, wins, bonus draws, limits and block
    Show(ShowArgs),
    /// List what a user did in all campaigns and envelopes, and what operators did to the user
    History(lists::history::HistoryArgs),
    /// List the blocked users: since when, by whom and why
    Blocked(BlockedArgs),
    /// Erase a user from the settled ledger, for good
    Forget(forget::ForgetArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola user show spring-wheel user-1")]
pub(super) struct ShowArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The user
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola user blocked spring-wheel")]
pub(super) struct BlockedArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
}

pub(super) async fn run(client: &Client, command: UserCommand) -> Outcome {
    match command {
        UserCommand::Show(args) => show(client, args).await,
        UserCommand::History(args) => lists::history::run(client, args).await,
        UserCommand::Blocked(args) => blocked(client, args).await,
        UserCommand::Forget(args) => forget::run(client, args).await,
    }
}

async fn show(client: &Client, args: ShowArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let request = GetUserRequest {
        campaign_id: args.campaign.clone(),
        user_id: args.user,
    };
    let response = server.get_user(request).await.map_err(Failure::read)?;
    let zone = client.zone(&args.campaign).await;
    client.show("GetUserResponse", response.get_ref(), |response| {
        in_full(response, &zone)
    });
    Ok(())
}

async fn blocked(client: &Client, args: BlockedArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let mut all = ListBlockedUsersResponse::default();
    loop {
        let request = ListBlockedUsersRequest {
            campaign_id: args.campaign.clone(),
            page_size: 1_000,
            page_token: std::mem::take(&mut all.next_page_token),
        };
        let page = server.list_blocked_users(request).await;
        let page = page.map_err(Failure::read)?.into_inner();
        all.users.extend(page.users);
        all.next_page_token = page.next_page_token;
        all.blocked_users = page.blocked_users;
        if all.next_page_token.is_empty() {
            break;
        }
    }
    let zone = client.zone(&args.campaign).await;
    client.show("ListBlockedUsersResponse", &all, |all| list(all, &zone));
    Ok(())
}

fn in_full(response: &GetUserResponse, zone: &TimeZone) -> String {
    let user = response.user.clone().unwrap_or_default();
    let mut parts = vec![summary(&user, zone)];
    if let Some(user_limits) = &user.limits {
        parts.push(limits(user_limits, zone));
    }
    if !user.bonus_draws.is_empty() {
        parts.push(bonus_draws(&user.bonus_draws, zone));
    }
    parts.join("\n\n")
}

fn summary(user: &User, zone: &TimeZone) -> String {
    let bonus = match user.bonus_draws_used {
        0 => String::new(),
        used => format!(", {} of them bonus draws", grouped(used)),
    };
    let block = user.block.as_ref();
    let block = block.map_or_else(|| "no".into(), |block| block_line(block, zone));
    [
        format!("user     {}", visible(&user.user_id)),
        format!("draws    {}{bonus}", grouped(user.draws)),
        format!("wins     {}", grouped(user.wins)),
        format!("blocked  {block}"),
        format!("clock    {}", shown(user.read_time.as_ref(), zone)),
    ]
    .join("\n")
}

/// `since 2026-12-05T12:10:00+08:00 by anna: scripted draws`
fn block_line(block: &BlockedUser, zone: &TimeZone) -> String {
    if block.block_time.is_none() {
        return "since an older version of tombola, which kept no time and no reason".into();
    }
    let reason = match visible(&block.reason) {
        reason if reason.is_empty() => String::new(),
        reason => format!(": {reason}"),
    };
    let since = shown(block.block_time.as_ref(), zone);
    format!("since {since} by {}{reason}", visible(&block.operator))
}

fn bonus_draws(bonus_draws: &[BonusDraws], zone: &TimeZone) -> String {
    let mut table = Table::new([("bonus draws", Side::Right), ("lapse", Side::Left)]);
    for bonus in bonus_draws {
        let lapse = match &bonus.expire_time {
            None => "with the campaign".into(),
            time => shown(time.as_ref(), zone),
        };
        table.row([grouped(bonus.draws), lapse]);
    }
    table.render()
}

fn list(response: &ListBlockedUsersResponse, zone: &TimeZone) -> String {
    let listed = response.users.len() as u64;
    let unlisted = response.blocked_users.saturating_sub(listed);
    let mut parts = Vec::new();
    if listed > 0 {
        parts.push(users(&response.users, zone));
    }
    if unlisted > 0 {
        parts.push(format!(
            "not listed: {} that an older version of tombola blocked. It kept no id; \
             \"tombola user show CAMPAIGN USER\" says whether a user is blocked",
            counted(unlisted, "user")
        ));
    }
    if parts.is_empty() {
        parts.push("no user is blocked".into());
    }
    parts.join("\n\n")
}

fn users(users: &[BlockedUser], zone: &TimeZone) -> String {
    use Side::Left;
    let columns = [
        ("user", Left),
        ("blocked since", Left),
        ("by", Left),
        ("why", Left),
    ];
    let mut table = Table::new(columns);
    for user in users {
        table.row([
            user.user_id.clone(),
            shown(user.block_time.as_ref(), zone),
            user.operator.clone(),
            user.reason.clone(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(user: &str) -> BlockedUser {
        BlockedUser {
            user_id: user.into(),
            ..BlockedUser::default()
        }
    }

    #[test]
    fn blocked_users_that_cannot_be_listed_are_counted() {
        let text = |users: &[&str], blocked_users| {
            let response = ListBlockedUsersResponse {
                users: users.iter().map(|user| blocked(user)).collect(),
                next_page_token: String::new(),
                blocked_users,
            };
            list(&response, &TimeZone::UTC)
        };
        assert_eq!(text(&[], 0), "no user is blocked");
        assert!(!text(&["u"], 1).contains("not listed"));
        assert!(text(&["u"], 3).contains("not listed: 2 users"));
    }

    #[test]
    fn a_block_of_an_older_version_is_shown_without_a_time() {
        let line = block_line(&blocked("u"), &TimeZone::UTC);
        assert!(line.contains("older version"), "{line}");
    }
}
