//! `tombola grant`: bonus draws.

use clap::{Args, builder::RangedU64ValueParser};

use super::{
    client::{ChangeArgs, Client, Outcome, moment},
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
    #[arg(long, env = "TOMBOLA_DRAWS", value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=10_000))]
    draws: u32,
    /// When they lapse: 2026-11-20T20:00:00+08:00 or +24h [default: with the campaign]
    #[arg(long, env = "TOMBOLA_EXPIRE", value_name = "TIME", value_parser = Time::parse)]
    expire: Option<Time>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, args: GrantArgs) -> Outcome {
    let users = args.users.all()?;
    let mut server = client.campaigns().await?;
    let expire = match args.expire {
        Some(time) => Some(time::to_wire(
            moment(&mut server, &args.users.campaign, time).await?,
        )),
        None => None,
    };
    let kind = Kind::Grant {
        draws: args.draws,
        expire,
    };
    let sum = in_calls(
        &mut server,
        &args.users.campaign,
        &users,
        &args.change.resolve(),
        &kind,
    )
    .await?;
    let (users, replayed) = (sum.users, sum.replayed);
    client.show(
        "GrantDrawsResponse",
        &GrantDrawsResponse { users, replayed },
        |_| {
            let draws = counted(u64::from(args.draws), "bonus draw");
            sum.told(&format!("got {draws} each"))
        },
    );
    Ok(())
}
