//! What a store has lost, as the settled ledger has it, for `tombola recover` and `restore`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    client::Outcome,
    output::{Side, Table},
    sink_args::{SinkArgs, failed},
};
use crate::{
    ledger::{
        SinkError,
        audit::source::PostgresSource,
        lost::{Lost, LostEntry, lost},
    },
    model::text::{grouped, visible},
    store::entry::Body,
};

/// Lost entries that are named, of each partition.
const SHOWN_MAX: usize = 500;

/// What the ledger in PostgreSQL has of the losses of this store, by partition; none if no database
/// is named. `kept` has the last entry that each partition has kept. `has_fork`: the partitions may
/// have gone on since, in a fork whose entries are not lost.
pub(super) async fn find(
    sink: &SinkArgs,
    store_id: &str,
    kept: Vec<(u32, u64)>,
    has_fork: bool,
) -> Outcome<Option<BTreeMap<u32, Lost>>> {
    let Some(url) = sink.url_if_named()? else {
        return Ok(None);
    };
    let work = async {
        let mut source = PostgresSource::open_of(&url, store_id).await?;
        let mut found = BTreeMap::new();
        for (number, kept) in kept {
            let lost = lost(&mut source, number, kept, SHOWN_MAX, has_fork).await?;
            found.insert(number, lost);
        }
        Ok(found)
    };
    let found: Result<_, SinkError> = work.await;
    found.map(Some).map_err(|error| failed(&url, &error))
}

/// What was lost of a partition whose last acknowledged entry is this.
pub(super) fn text(lost: &Lost, acknowledged: u64) -> String {
    use Side::{Left, Right};
    if lost.count == 0 {
        return "  none of the lost entries was settled: nothing is known of them".into();
    }
    let columns = [
        ("entry", Right),
        ("time", Left),
        ("about", Left),
        ("what", Left),
        ("user", Left),
        ("request", Left),
        ("prizes", Left),
    ];
    let mut table = Table::new(columns);
    for entry in &lost.entries {
        table.row(cells(entry));
    }
    let mut lines = vec![table.render()];
    let more = lost.count - lost.entries.len() as u64;
    if more > 0 {
        lines.push(format!(
            "and {} more, up to entry {}",
            grouped(more),
            lost.last
        ));
    }
    if acknowledged > lost.last {
        lines.push(format!(
            "entries {} to {acknowledged} were not settled: nothing is known of them",
            lost.last + 1
        ));
    }
    lines.join("\n")
}

fn cells(lost: &LostEntry) -> [String; 7] {
    let row = &lost.row;
    let about = row.campaign.as_ref().or(row.envelope.as_ref());
    let text = |id: Option<&String>| id.map(|id| visible(id).into_owned()).unwrap_or_default();
    [
        row.id.sequence.to_string(),
        row.at.to_string(),
        text(about),
        what(lost),
        text(row.user.as_ref()),
        text(row.request.as_ref()),
        prizes(lost).join(", "),
    ]
}

/// The kind of the entry, and the amount of a packet or of a refund.
fn what(lost: &LostEntry) -> String {
    match &lost.body {
        Some(Body::Grab {
            packet,
            amount_minor,
            ..
        }) => format!("grab of packet {packet}: {amount_minor}"),
        Some(Body::Refund { amount_minor, .. }) => format!("refund: {amount_minor}"),
        _ => lost.row.kind.clone(),
    }
}

/// `mug (deck:1:17)`
fn prizes(lost: &LostEntry) -> Vec<String> {
    let wins = lost.wins.iter();
    wins.map(|win| format!("{} ({})", win.prize, win.unit))
        .collect()
}

/// As JSON.
pub(super) fn to_json(lost: &Lost) -> Value {
    let entries = lost.entries.iter().map(|lost| {
        let wins = lost.wins.iter();
        let wins = wins.map(|win| json!({ "prizeId": win.prize, "unitId": win.unit }));
        json!({
            "entry": lost.row.id.sequence.to_string(),
            "time": lost.row.at.to_string(),
            "kind": lost.row.kind,
            "campaignId": lost.row.campaign,
            "envelopeId": lost.row.envelope,
            "userId": lost.row.user,
            "requestId": lost.row.request,
            "wins": wins.collect::<Vec<_>>(),
        })
    });
    json!({
        "count": lost.count,
        "lastEntry": lost.last.to_string(),
        "entries": entries.collect::<Vec<_>>(),
    })
}
