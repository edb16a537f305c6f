//! `tombola grant`: gives users bonus draws.

use clap::Args;
use jiff::Timestamp;

use super::{
    client::{ChangeArgs, Client, Outcome, moment, whole},
    failure::Failure,
    output::counted,
    time::{self, Time},
    users::{Kind, UserArgs, in_calls},
};
use crate::proto::GrantDrawsResponse;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola grant spring-wheel --draws 2 --expire +24h user-1 user-2
  tombola grant spring-wheel --draws 1 --users-file winners.txt --request-id apology-1")]
pub(super) struct GrantArgs {
    #[command(flatten)]
    users: UserArgs,
    /// Bonus draws for each user
    #[arg(long, env = "TOMBOLA_DRAWS", value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    draws: u32,
    /// When they expire: 2026-11-20T20:00:00+08:00 or +24h [default: with the campaign]
    #[arg(long, env = "TOMBOLA_EXPIRE", value_name = "TIME", value_parser = Time::parse)]
    expire: Option<Time>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, args: GrantArgs) -> Outcome {
    let users = args.users.all()?;
    let mut server = client.campaigns().await?;
    let expire = match args.expire {
        Some(time) => Some(moment(&mut server, &args.users.campaign, time).await?),
        None => None,
    };
    let kind = Kind::Grant {
        draws: args.draws,
        expire: expire.map(time::to_wire),
    };
    let sum = in_calls(
        &mut server,
        &args.users.campaign,
        &users,
        &args.change.resolve(client),
        &kind,
    )
    .await
    .map_err(|failure| repeatable(failure, "--expire", args.expire, expire))?;
    let (users, replayed) = (sum.users, sum.replayed);
    client.show(
        "GrantDrawsResponse",
        &GrantDrawsResponse { users, replayed },
        |_| {
            let draws = counted(u64::from(args.draws), "bonus draw");
            sum.describe(&format!("got {draws} each"))
        },
    );
    Ok(())
}

/// A retry must have the same contents, but a time from now on is another one then. So the hint
/// names the moment to write. `named` is the time that `option` has, and `moment` what it meant.
pub(super) fn repeatable(
    failure: Box<Failure>,
    option: &str,
    named: Option<Time>,
    moment: Option<Timestamp>,
) -> Box<Failure> {
    let (Some(Time::After(_)), Some(moment)) = (named, moment) else {
        return failure;
    };
    if failure.reason == "REQUEST_ID_REUSED" {
        failure.advise(format!(
            "if this is a retry: write {option} as the moment that the first call had, a span \
             counts from now; else take another --request-id, or none"
        ))
    } else if failure.hint.contains("--request-id") {
        let hint = format!(
            "{}; write {option} {moment} in it, a span would count from then",
            failure.hint
        );
        failure.advise(hint)
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_grant_of_a_span_names_the_moment_to_repeat_it_with() {
        let expire = "2026-11-21T20:00:00Z".parse().unwrap();
        let lost = || Failure::change(tonic::Status::unavailable("gone"), "mine");
        let span = Time::parse("+24h").unwrap();
        let hint = repeatable(lost(), "--expire", Some(span), Some(expire)).hint;
        assert!(hint.contains("--request-id mine"), "{hint}");
        assert!(hint.contains("--expire 2026-11-21T20:00:00Z"), "{hint}");
        let absolute = Some(Time::At(expire));
        let hint = repeatable(lost(), "--expire", absolute, Some(expire)).hint;
        assert!(!hint.contains("--expire"), "{hint}");
    }
}
