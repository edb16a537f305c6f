//! `tombola block` and `unblock`: users whose draws do not touch the pools.

use clap::Args;

use super::{
    client::{ChangeArgs, Client, Outcome},
    users::{Kind, Sum, UserArgs, in_calls},
};
use crate::proto::{BlockUsersResponse, UnblockUsersResponse};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola block spring-wheel user-1 user-2 --reason \"scripted draws\"
  tombola block spring-wheel user-1 --undo")]
pub(super) struct BlockArgs {
    #[command(flatten)]
    users: UserArgs,
    /// Unblock them, as unblock does
    #[arg(long, env = "TOMBOLA_UNDO")]
    undo: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola unblock spring-wheel user-1")]
pub(super) struct UnblockArgs {
    #[command(flatten)]
    users: UserArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn block(client: &Client, args: BlockArgs) -> Outcome {
    if args.undo {
        let BlockArgs { users, change, .. } = args;
        return unblock(client, UnblockArgs { users, change }).await;
    }
    let sum = send(client, &args.users, &args.change, &Kind::Block).await?;
    let response = BlockUsersResponse {
        users: sum.users,
        replayed: sum.replayed,
    };
    client.show("BlockUsersResponse", &response, |_| {
        sum.describe("blocked that were not before")
    });
    Ok(())
}

pub(super) async fn unblock(client: &Client, args: UnblockArgs) -> Outcome {
    let sum = send(client, &args.users, &args.change, &Kind::Unblock).await?;
    let response = UnblockUsersResponse {
        users: sum.users,
        replayed: sum.replayed,
    };
    client.show("UnblockUsersResponse", &response, |_| {
        sum.describe("unblocked that were blocked")
    });
    Ok(())
}

/// Sends the change for all users of the list, which is checked first.
async fn send(client: &Client, users: &UserArgs, change: &ChangeArgs, kind: &Kind) -> Outcome<Sum> {
    let ids = users.all()?;
    let mut server = client.campaigns().await?;
    let change = change.resolve(client);
    in_calls(&mut server, &users.campaign, &ids, &change, kind).await
}
