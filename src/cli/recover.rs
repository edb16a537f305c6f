//! `tombola recover`: shows which entries a Redis store has lost in a rollback, and ends the halt
//! of its partitions.
//!
//! It works on Redis directly; services may run meanwhile.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;

use super::{
    client::{Change, ChangeArgs, Client, Outcome},
    errand::{self, failed},
    failure::{Exit, Failure},
    lost,
    output::{self, Side, Table},
    sink_args::SinkArgs,
    store_args::StoreArgs,
    terminal::confirm,
};
use crate::{
    ledger::lost::Lost,
    model::{OperatorId, RequestId, text::grouped},
    store::{
        Author,
        redis::{HaltedPartition, Recovery},
        withdrawal::Withdrawn,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola recover --redis-url redis://127.0.0.1
  tombola recover --redis-url redis://127.0.0.1 --postgres-url postgres://reader@127.0.0.1/ledger
  tombola recover --redis-url redis://127.0.0.1 --withdraw-due --reason \"failover of 3 May\"

A partition halts when a service finds that entries which it has acknowledged are gone: Redis was
rolled back by a failover or a restored backup. The best way on is to restore the data that has
these entries. Otherwise choose one of the two ways; each lets all halted partitions go on. With
--postgres-url the command names lost entries that were settled: who drew or grabbed, and what.")]
pub(super) struct RecoverArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    sink: SinkArgs,
    /// Go on, and withdraw every unit that could be won when the loss was noticed, so that none is
    /// won twice: of prizes of personal pools and guarantees, all that are in stock. Open envelopes
    /// end, and the packets that nobody has grabbed are refunded
    #[arg(long, env = "TOMBOLA_WITHDRAW_DUE", conflicts_with = "accept")]
    withdraw_due: bool,
    /// Go on as if nothing had happened: units that were won in the lost entries may be won again
    #[arg(long, env = "TOMBOLA_ACCEPT")]
    accept: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// What to do with units that may have been won in the lost entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Withdraw,
    Accept,
}

pub(super) async fn run(client: &Client, args: RecoverArgs) -> Outcome {
    let recovery = open(&args).await?;
    let halted = recovery.halted().await.map_err(failed)?;
    // Without the last entry that was kept, nobody knows which ones are lost.
    let kept = halted.iter();
    let kept = kept.filter_map(|part| Some((part.partition, part.halt.kept?)));
    let lost = lost_of(&args.sink, recovery.store_id(), kept.collect()).await?;
    let lost = &lost;
    let way = match (args.withdraw_due, args.accept) {
        (true, _) => Way::Withdraw,
        (_, true) => Way::Accept,
        _ => {
            show(client, &halted, lost, None);
            return Ok(());
        }
    };
    if halted.is_empty() {
        show(client, &halted, lost, None);
        return Ok(());
    }
    confirm(&question(&halted, way), args.yes)?;
    let author = author(&args.change)?;
    let mut withdrawn = BTreeMap::new();
    for partition in &halted {
        if way == Way::Withdraw {
            let taken = recovery.withdraw_due(partition, &author).await;
            withdrawn.insert(partition.partition, taken.map_err(failed)?);
        }
        recovery.go_on(partition, &author).await.map_err(failed)?;
    }
    show(client, &halted, lost, Some(&withdrawn));
    Ok(())
}

/// What the ledger has of the losses. PostgreSQL may be away for the same reason as Redis was, and
/// must not keep anybody from ending a halt.
async fn lost_of(sink: &SinkArgs, store_id: &str, kept: Vec<(u32, u64)>) -> Outcome<Named> {
    if kept.is_empty() && sink.url_if_named()?.is_some() {
        return Ok(Named::Not);
    }
    match lost::find(sink, store_id, kept, true).await {
        Ok(Some(lost)) => Ok(Named::Each(lost)),
        Ok(None) => Ok(Named::WithDatabase),
        Err(failure) if failure.exit == Exit::Usage => Err(failure),
        Err(failure) => {
            let why = &failure.message;
            output::note(&format!("the lost entries cannot be named: {why}"));
            Ok(Named::Not)
        }
    }
}

/// Whether the lost entries are named.
enum Named {
    /// By partition, as far as they were settled.
    Each(BTreeMap<u32, Lost>),
    /// They would be if the database of the ledger were named.
    WithDatabase,
    Not,
}

impl Named {
    fn of(&self, partition: u32) -> Option<&Lost> {
        match self {
            Self::Each(lost) => lost.get(&partition),
            Self::WithDatabase | Self::Not => None,
        }
    }
}

async fn open(args: &RecoverArgs) -> Outcome<Recovery> {
    let why = "only a store on Redis can be rolled back by a failover";
    let found = errand::look(&args.store, None, why).await?;
    Recovery::open(found).map_err(errand::not_opened)
}

pub(super) fn author(change: &ChangeArgs) -> Outcome<Author> {
    let Change {
        operator,
        reason,
        request_id,
    } = change.resolve_here();
    let usage = |problem: crate::model::Problem| Failure::usage(problem.message);
    Ok(Author::named(
        RequestId::parse("request", &request_id).map_err(usage)?,
        OperatorId::parse("operator", &operator).map_err(usage)?,
        reason,
    ))
}

fn question(halted: &[HaltedPartition], way: Way) -> String {
    let partitions = output::counted(halted.len() as u64, "partition");
    match way {
        Way::Withdraw => format!(
            "Let {partitions} go on without the lost entries, and withdraw every unit that could \
             be won when the loss was noticed?"
        ),
        Way::Accept => format!(
            "Let {partitions} go on without the lost entries? Units that were won in them may be \
             won again."
        ),
    }
}

/// Shows the losses, and once the partitions go on, also what was withdrawn.
fn show(
    client: &Client,
    halted: &[HaltedPartition],
    lost: &Named,
    went_on: Option<&BTreeMap<u32, Withdrawn>>,
) {
    let text = if client.json {
        format!("{:#}", as_json(halted, lost, went_on))
    } else {
        as_text(halted, lost, went_on)
    };
    output::say(&text);
}

fn as_text(
    halted: &[HaltedPartition],
    lost: &Named,
    went_on: Option<&BTreeMap<u32, Withdrawn>>,
) -> String {
    if halted.is_empty() {
        return "no partition is halted: no service has found acknowledged entries missing".into();
    }
    let mut lines = Vec::new();
    for partition in halted {
        let number = partition.partition;
        lines.push(format!(
            "partition {number}, halted at {}: {}",
            partition.halt.noticed_at,
            partition.halt.loss()
        ));
        lines.push(format!("  campaigns: {}", listed(&partition.campaigns)));
        lines.push(format!(
            "  open envelopes: {}",
            grouped(partition.envelopes.len() as u64)
        ));
        if let Some(lost) = lost.of(number) {
            lines.push(lost::text(lost, partition.halt.acknowledged));
        }
    }
    if let Named::WithDatabase = lost {
        lines.push(
            "Name the database of the ledger with --postgres-url to see what they were.".into(),
        );
    }
    match went_on {
        None => lines.push(
            "Restore the data that has these entries, or choose --withdraw-due or --accept (see \
             --help)."
                .into(),
        ),
        Some(withdrawn) => {
            lines.push("all of them go on in two seconds".into());
            lines.extend(withdrawn_table(withdrawn.values()));
        }
    }
    lines.join("\n")
}

fn listed<T: ToString>(ids: &[T]) -> String {
    if ids.is_empty() {
        return "none".into();
    }
    ids.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn withdrawn_table<'a>(
    withdrawn: impl IntoIterator<Item = &'a Withdrawn>,
) -> Option<String> {
    let columns = [("campaign", Side::Left), ("prize", Side::Left)];
    let mut table = Table::new(columns.into_iter().chain([("withdrawn", Side::Right)]));
    for (campaign, units) in withdrawn.into_iter().flat_map(|part| &part.units) {
        for (prize, units) in units {
            table.row([campaign.to_string(), prize.clone(), grouped(*units)]);
        }
    }
    (!table.is_empty()).then(|| table.render())
}

fn as_json(
    halted: &[HaltedPartition],
    lost: &Named,
    went_on: Option<&BTreeMap<u32, Withdrawn>>,
) -> serde_json::Value {
    let partitions = halted.iter().map(|partition| {
        let withdrawn = went_on.and_then(|all| all.get(&partition.partition));
        json!({
            "partition": partition.partition,
            "lastAcknowledged": partition.halt.acknowledged.to_string(),
            "lastKept": partition.halt.kept.map(|kept| kept.to_string()),
            "fork": partition.halt.replid,
            "noticedTime": partition.halt.noticed_at.to_string(),
            "campaigns": ids(&partition.campaigns),
            "openEnvelopes": ids(&partition.envelopes),
            "lost": lost.of(partition.partition).map(lost::to_json),
            "withdrawn": withdrawn.map(withdrawn_json),
        })
    });
    json!({ "halted": partitions.collect::<Vec<_>>(), "wentOn": went_on.is_some() })
}

fn ids<T: ToString>(ids: &[T]) -> Vec<String> {
    ids.iter().map(T::to_string).collect()
}

pub(super) fn withdrawn_json(withdrawn: &Withdrawn) -> serde_json::Value {
    let units: BTreeMap<_, _> = withdrawn
        .units
        .iter()
        .map(|(campaign, units)| (campaign.to_string(), units))
        .collect();
    json!({ "units": units, "envelopes": ids(&withdrawn.envelopes) })
}
