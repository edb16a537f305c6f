//! The ledger of each partition on the page of the system: those in trouble first, the others on
//! demand.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::overview::seconds;
use crate::{
    console::{
        i18n::Language,
        ui::{self, Column, number},
    },
    grpc::LAG_MAX,
    proto::{GetStatsResponse, LedgerStats, PartitionLedger},
};

/// The state of a partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Halted,
    /// It does not do its work for another reason.
    Broken,
    /// Its entries wait to be settled for too long.
    Behind,
    Works,
}

/// The tables of all partitions.
pub(super) fn shown(lang: Language, ledger: &LedgerStats, stats: &GetStatsResponse) -> Markup {
    let halted: BTreeSet<_> = stats.halted.iter().map(|part| part.partition).collect();
    let state = |part: &PartitionLedger| match &part.lag {
        _ if halted.contains(&part.partition) => State::Halted,
        _ if !part.trouble.is_empty() => State::Broken,
        Some(lag) if ledger.settled && lag.seconds as u64 >= LAG_MAX.as_secs() => State::Behind,
        _ => State::Works,
    };
    let rows = ledger.partitions.iter().map(|part| (part, state(part)));
    let (good, bad): (Vec<_>, Vec<_>) = rows.partition(|(_, state)| *state == State::Works);
    html! {
        @if !bad.is_empty() {
            h3 { (lang.t("system.partitions-bad")) }
            (table(lang, lang.t("system.partitions-bad"), &bad, stats))
        }
        @if !good.is_empty() {
            details {
                summary { (lang.t("system.partitions-good")) " (" (good.len()) ")" }
                (table(lang, lang.t("system.partitions-good"), &good, stats))
            }
        }
    }
}

fn table(
    lang: Language,
    name: &str,
    rows: &[(&PartitionLedger, State)],
    stats: &GetStatsResponse,
) -> Markup {
    let columns = [
        Column::Number(lang.t("system.partition")),
        Column::Number(lang.t("system.entries")),
        Column::Number(lang.t("system.unsettled")),
        Column::Number(lang.t("system.lag")),
        Column::Text(lang.t("system.state")),
    ];
    let last = |partition| {
        let mut heads = stats.ledger_heads.iter();
        let head = heads.find(|head| head.partition == partition);
        head.map_or_else(|| "–".to_owned(), |head| number(head.sequence))
    };
    ui::table(
        name,
        &columns,
        &html! { @for (part, state) in rows { tr {
            th.n scope="row" { (part.partition) }
            td.n { (last(part.partition)) }
            td.n { (number(part.unsettled_entries)) }
            td.n { @match &part.lag { Some(lag) => { (seconds(lang, lag)) } None => { "–" } } }
            td { (badge(lang, *state, &part.trouble)) }
        } } },
    )
}

fn badge(lang: Language, state: State, trouble: &str) -> Markup {
    match state {
        State::Halted => html! {
            span.badge.state-paused { (lang.t("halt.badge")) } " " code { "tombola recover" }
        },
        State::Broken => html! {
            span.badge.state-paused { (lang.t("system.partition-broken")) } " "
            span lang="en" { (trouble) }
        },
        State::Behind => html! { span.badge.state-ending { (lang.t("system.partition-behind")) } },
        State::Works => html! { span.badge.state-running { (lang.t("system.partition-works")) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{HaltedPartition, LedgerId};

    #[test]
    fn partitions_in_trouble_stand_before_the_others() {
        let lag = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let part = |partition, seconds| PartitionLedger {
            partition,
            unsettled_entries: 1_000,
            lag: seconds,
            trouble: String::new(),
        };
        let broken = PartitionLedger {
            trouble: "partition 4 takes no writes".into(),
            ..part(4, None)
        };
        let mut ledger = LedgerStats {
            settled: true,
            partitions: vec![
                part(0, None),
                part(1, lag(59)),
                part(2, lag(61)),
                part(3, None),
                broken,
            ],
            ..LedgerStats::default()
        };
        let stats = GetStatsResponse {
            halted: vec![HaltedPartition {
                partition: 3,
                message: String::new(),
            }],
            ledger_heads: vec![LedgerId {
                partition: 3,
                sequence: 4_321,
            }],
            ..GetStatsResponse::default()
        };
        let page = shown(Language::ENGLISH, &ledger, &stats).into_string();
        let (bad, good) = page.split_once("<details>").unwrap();
        for part in [
            "Behind",
            "Halted</span> <code>tombola recover",
            "4,321",
            "takes no writes",
            "1m 1s",
        ] {
            assert!(bad.contains(part), "{part}: {bad}");
        }
        assert_eq!(good.matches("Works").count(), 2, "{good}");
        assert!(good.contains("(2)"), "{good}");
        let chinese = Language::of_tag("zh").unwrap();
        let page = shown(chinese, &ledger, &stats).into_string();
        assert!(page.contains("1 分钟 1 秒"), "{page}");
        // Nothing is behind a sink that is not there.
        ledger.settled = false;
        let page = shown(Language::ENGLISH, &ledger, &stats).into_string();
        assert!(!page.contains("Behind"), "{page}");
    }
}
