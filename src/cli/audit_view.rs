//! What an audit found, as tables in words and as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::output::{Side, Table, counted};
use crate::{
    chance::hex,
    ledger::audit::{Books, Check, Outcome as Report, PoolSums, PrizeSums},
    model::{CampaignId, PrizeNo, text::grouped},
    store::EnvelopeSums,
};

/// The most campaigns that are shown without being named.
const SHOWN_MAX: usize = 20;

/// In words; `named` are the campaigns to show.
pub(super) fn text(report: &Report, named: &[String], is_compared: bool) -> String {
    let mut parts = Vec::new();
    let all = report.campaigns.iter();
    let shown: Vec<_> = all
        .filter(|(id, _)| named.is_empty() || named.iter().any(|name| name == id.as_str()))
        .take(if named.is_empty() {
            SHOWN_MAX
        } else {
            usize::MAX
        })
        .collect();
    let rest = report.campaigns.len() - shown.len();
    for (id, books) in shown {
        parts.push(campaign(id, books));
    }
    if rest > 0 {
        parts.push(format!(
            "{} audited beside these: name them to show them",
            counted(rest as u64, "campaign")
        ));
    }
    if !report.envelopes.is_empty() {
        parts.push(envelopes(&report.envelopes));
    }
    let mut said = format!("{} entries read", grouped(report.entries));
    if report.orphaned > 0 {
        said = format!(
            "{said}, and {} that the store lost in a failover and that are not counted",
            grouped(report.orphaned)
        );
    }
    let compared = if is_compared {
        format!(
            "{} compared with the service",
            counted(report.compared, "campaign")
        )
    } else {
        "nothing was compared with the service".into()
    };
    let checks = Check::ALL.map(|check| match report.findings.count(check) {
        0 => format!("  yes  {}", check.promise()),
        found => format!("  NO   {}: {}", check.promise(), counted(found, "finding")),
    });
    parts.push(format!("{said}; {compared}\n{}", checks.join("\n")));
    let unknown = in_all(report, Books::unknown_limits);
    if unknown > 0 {
        parts.push(format!(
            "the limits of {} are not checked: entries of an earlier version have no definitions, \
             or the ids in them are those of users who were erased since",
            counted(unknown, "draw")
        ));
    }
    let unknown = in_all(report, Books::unknown_chance);
    if unknown > 0 {
        parts.push(format!(
            "the results of {} from campaigns with personal pools are not compared with the seed: \
             the service reveals it after the campaign's end",
            counted(unknown, "request")
        ));
    }
    parts.extend(uncovered(report));
    let findings: Vec<String> = report
        .findings
        .shown()
        .map(|finding| match (finding.partition, finding.sequence) {
            (Some(partition), Some(sequence)) => {
                format!(
                    "entry {sequence} of partition {partition}: {}",
                    finding.text
                )
            }
            _ => finding.text.clone(),
        })
        .collect();
    if !findings.is_empty() {
        parts.push(findings.join("\n"));
    }
    parts.join("\n\n")
}

/// What the books of all campaigns have counted.
fn in_all(report: &Report, count: impl Fn(&Books) -> u64) -> u64 {
    report.campaigns.values().map(count).sum()
}

/// From where on the running digests count, if that is not from the first entry to the last.
fn uncovered(report: &Report) -> Option<String> {
    if report.unchained == 0 {
        return None;
    }
    let chains = report.chains.iter();
    let lines = chains.filter_map(|(partition, &(chain, settled))| match chain {
        Some(chain) if chain.first == 1 && chain.last == settled => None,
        Some(chain) => Some(format!(
            "partition {partition}: of {settled}, the entries {} to {} are covered",
            chain.first, chain.last
        )),
        None => Some(format!(
            "partition {partition}: none of {settled} is covered"
        )),
    });
    let lines: Vec<_> = lines.collect();
    Some(format!(
        "no digest covers {} of the entries, which an earlier version has settled: a changed byte \
         of them is found only if something does not add up\n{}",
        grouped(report.unchained),
        lines.join("\n")
    ))
}

fn campaign(id: &CampaignId, books: &Books) -> String {
    use Side::{Left, Right};
    let mut prizes = Table::new([
        ("prize", Left),
        ("given", Right),
        ("in stock", Right),
        ("in pools", Right),
        ("won", Right),
        ("withdrawn", Right),
    ]);
    for (no, sums) in books.prizes() {
        let units = [
            sums.stock,
            sums.left,
            sums.waiting,
            sums.won,
            sums.withdrawn,
        ];
        prizes.row(
            [prize_name(books, *no)]
                .into_iter()
                .chain(units.map(grouped)),
        );
    }
    let mut pools = Table::new([
        ("pool", Left),
        ("prize", Left),
        ("put in", Right),
        ("won", Right),
        ("taken back", Right),
        ("in it", Right),
    ]);
    for ((pool, prize), sums) in books.pools() {
        let PoolSums {
            put,
            won,
            taken_back,
            waiting,
        } = *sums;
        let cells = [books.pool_name(*pool), prize_name(books, *prize)];
        pools.row(
            cells
                .into_iter()
                .chain([put, won, taken_back, waiting].map(grouped)),
        );
    }
    let draws = books.draws();
    format!(
        "{id}: {}, {} won, {}, {} gave nothing; {}\n{}\n\n{}",
        counted(draws.wins + draws.consolations + draws.nothings, "draw"),
        grouped(draws.wins),
        counted(draws.consolations, "consolation"),
        grouped(draws.nothings),
        counted(books.users(), "user"),
        prizes.render(),
        pools.render()
    )
}

fn prize_name(books: &Books, no: PrizeNo) -> String {
    let prizes = books.campaign().map(|campaign| &campaign.prizes);
    let prize = prizes.and_then(|prizes| prizes.get(usize::from(no.0)));
    prize.map_or_else(|| no.0.to_string(), |prize| prize.id.to_string())
}

fn envelopes(sums: &BTreeMap<String, EnvelopeSums>) -> String {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("envelopes in", Left),
        ("created", Right),
        ("open", Right),
        ("amount", Right),
        ("grabbed", Right),
        ("waiting", Right),
        ("refunded", Right),
    ]);
    for sums in sums.values() {
        table.row([
            sums.currency.clone(),
            grouped(sums.envelopes),
            grouped(sums.open),
            sums.created_minor.to_string(),
            sums.grabbed_minor.to_string(),
            sums.waiting_minor.to_string(),
            sums.refunded_minor.to_string(),
        ]);
    }
    table.render()
}

/// As JSON.
pub(super) fn to_json(report: &Report) -> Value {
    let checks: BTreeMap<&str, u64> = Check::ALL
        .iter()
        .map(|&check| (check.name(), report.findings.count(check)))
        .collect();
    let campaigns: BTreeMap<&str, Value> = report
        .campaigns
        .iter()
        .map(|(id, books)| (id.as_str(), campaign_json(books)))
        .collect();
    let envelopes: BTreeMap<&str, Value> = report
        .envelopes
        .iter()
        .map(|(currency, sums)| {
            let sums = json!({
                "envelopes": sums.envelopes,
                "open": sums.open,
                "createdMinor": sums.created_minor.to_string(),
                "grabbedMinor": sums.grabbed_minor.to_string(),
                "waitingMinor": sums.waiting_minor.to_string(),
                "refundedMinor": sums.refunded_minor.to_string(),
            });
            (currency.as_str(), sums)
        })
        .collect();
    json!({
        "entries": report.entries,
        "orphanedEntries": report.orphaned,
        "entriesWithoutDigest": report.unchained,
        "digests": digests(report),
        "campaignsCompared": report.compared,
        "limitsNotChecked": in_all(report, Books::unknown_limits),
        "resultsNotCompared": in_all(report, Books::unknown_chance),
        "campaigns": campaigns,
        "envelopes": envelopes,
        "findingsByCheck": checks,
        "findings": report.findings.shown().collect::<Vec<_>>(),
    })
}

fn digests(report: &Report) -> Vec<Value> {
    let chains = report.chains.iter();
    let digests = chains.filter_map(|(partition, (chain, _))| {
        let chain = chain.as_ref()?;
        Some(json!({
            "partition": partition,
            "firstEntry": chain.first,
            "lastEntry": chain.last,
            "sha256": hex(&chain.digest),
        }))
    });
    digests.collect()
}

fn campaign_json(books: &Books) -> Value {
    let prizes: BTreeMap<String, PrizeSums> = books
        .prizes()
        .iter()
        .map(|(no, sums)| (prize_name(books, *no), *sums))
        .collect();
    let pools: Vec<Value> = books
        .pools()
        .iter()
        .map(|((pool, prize), sums)| {
            json!({
                "pool": books.pool_name(*pool),
                "prize": prize_name(books, *prize),
                "put": sums.put,
                "won": sums.won,
                "takenBack": sums.taken_back,
                "waiting": sums.waiting,
            })
        })
        .collect();
    let draws = books.draws();
    json!({
        "wins": draws.wins,
        "consolations": draws.consolations,
        "nothings": draws.nothings,
        "users": books.users(),
        "prizes": prizes,
        "pools": pools,
    })
}
