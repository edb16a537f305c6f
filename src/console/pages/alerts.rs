//! What an operator should look at, as far as a campaign's sums show it.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::budget;
use crate::{
    console::i18n::Language,
    model::convert::times::from_wire,
    proto::{CampaignState, CampaignStatus, GetStatsResponse, PrizeStats, WindowState},
};

/// For how long a missed hour is worth an alert, in seconds.
const MISSED_S: i64 = 48 * 60 * 60;
/// How long after its beginning an hour is late that is still being filled, in seconds.
const LATE_S: i64 = 60;
/// Stock is low below one of so many parts.
const LOW_PARTS: u64 = 20;

/// How urgent an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Note,
    Warning,
    Danger,
}

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) urgency: Urgency,
    pub(super) text: String,
}

/// All alerts of a campaign, the most urgent first.
pub(super) fn of(lang: Language, status: &CampaignStatus, stats: &GetStatsResponse) -> Vec<Alert> {
    let mut alerts = Vec::new();
    let mut add = |urgency, text| alerts.push(Alert { urgency, text });
    if !stats.balanced {
        add(Urgency::Danger, lang.t("alert.unbalanced").into());
    }
    if status.state() == CampaignState::Paused {
        add(Urgency::Warning, lang.t("alert.paused").into());
    }
    for deck in stats.decks.iter().filter(|deck| !deck.stopped.is_empty()) {
        add(Urgency::Danger, lang.with("alert.deck", &deck.pool_id));
    }
    let now = from_wire(stats.read_time.as_ref()).map_or(0, |now| now.as_second());
    let missed = stats.windows.iter().filter(|window| {
        let end = window.end_time.as_ref().map_or(0, |end| end.seconds);
        window.state() == WindowState::Missed && now - end < MISSED_S
    });
    let missed = missed.count();
    if missed > 0 {
        add(
            Urgency::Warning,
            lang.with("alert.missed", &missed.to_string()),
        );
    }
    let late = stats.windows.iter().filter(|window| {
        let start = window
            .start_time
            .as_ref()
            .map_or(now, |start| start.seconds);
        window.state() == WindowState::Injecting && now - start >= LATE_S
    });
    let late = late.count();
    if late > 0 {
        add(Urgency::Warning, lang.with("alert.late", &late.to_string()));
    }
    if let Some(spent) = &stats.budget {
        for prize in &spent.held_prize_ids {
            add(Urgency::Warning, lang.with("alert.budget-held", prize));
        }
        if spent.held_prize_ids.is_empty() && budget::is_near(spent) {
            add(Urgency::Note, lang.t("alert.budget-near").into());
        }
    }
    let is_over = matches!(
        status.state(),
        CampaignState::Ending | CampaignState::Closed
    );
    for prize in stats.prizes.iter().filter(|_| !is_over) {
        match supply(prize) {
            Supply::Enough => {}
            Supply::Low => add(Urgency::Note, lang.with("alert.low", &prize.prize_id)),
            Supply::None => add(Urgency::Warning, lang.with("alert.out", &prize.prize_id)),
        }
        if prize.paused {
            add(Urgency::Warning, lang.with("alert.held", &prize.prize_id));
        }
    }
    alerts.sort_by_key(|alert| Reverse(alert.urgency));
    alerts
}

/// How much there is of a prize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    Enough,
    Low,
    None,
}

fn supply(prize: &PrizeStats) -> Supply {
    let there = prize.left + prize.waiting + prize.held;
    match () {
        () if prize.unlimited || prize.stock == 0 => Supply::Enough,
        () if there == 0 => Supply::None,
        // A prize of few units is low from the start.
        () if prize.stock >= LOW_PARTS && there < prize.stock / LOW_PARTS => Supply::Low,
        () => Supply::Enough,
    }
}

/// Alerts as a list, at most `most` of them.
pub(super) fn shown(lang: Language, alerts: &[Alert], most: usize) -> Markup {
    html! {
        @if !alerts.is_empty() {
            ul.alerts {
                @for alert in alerts.iter().take(most) {
                    li class=(match alert.urgency {
                        Urgency::Note => "note",
                        Urgency::Warning => "warning",
                        Urgency::Danger => "danger",
                    }) { (alert.text) }
                }
                @if alerts.len() > most {
                    li { (lang.with("alert.more", &(alerts.len() - most).to_string())) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Window;

    #[test]
    fn stock_that_runs_out_is_seen() {
        let prize = |stock, left, waiting| PrizeStats {
            stock,
            left,
            waiting,
            ..PrizeStats::default()
        };
        assert_eq!(supply(&prize(100, 5, 0)), Supply::Enough);
        assert_eq!(supply(&prize(100, 2, 2)), Supply::Low);
        assert_eq!(supply(&prize(1, 0, 1)), Supply::Enough);
        assert_eq!(supply(&prize(1, 0, 0)), Supply::None);
        assert_eq!(supply(&prize(0, 0, 0)), Supply::Enough);
    }

    #[test]
    fn an_hour_that_is_filled_after_its_beginning_is_late() {
        let lang = Language::of_tag("en").unwrap();
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let late = |state: WindowState, start_s| {
            let stats = GetStatsResponse {
                balanced: true,
                read_time: at(7_200),
                windows: vec![Window {
                    start_time: at(start_s),
                    end_time: at(start_s + 3_600),
                    state: state.into(),
                    ..Window::default()
                }],
                ..GetStatsResponse::default()
            };
            of(lang, &CampaignStatus::default(), &stats).len()
        };
        assert_eq!(late(WindowState::Injecting, 7_140), 1);
        assert_eq!(late(WindowState::Injecting, 7_150), 0);
        assert_eq!(late(WindowState::Injected, 7_140), 0);
    }

    #[test]
    fn a_budget_that_is_near_or_reached_is_seen() {
        let lang = Language::of_tag("en").unwrap();
        let money = |units| {
            Some(crate::proto::Money {
                currency_code: "CNY".into(),
                units,
                nanos: 0,
            })
        };
        let texts = |won, held: &[&str]| {
            let stats = GetStatsResponse {
                balanced: true,
                budget: Some(crate::proto::BudgetStats {
                    per_day: money(100),
                    won_today: money(won),
                    held_prize_ids: held.iter().map(|id| (*id).to_owned()).collect(),
                    ..crate::proto::BudgetStats::default()
                }),
                ..GetStatsResponse::default()
            };
            let alerts = of(lang, &CampaignStatus::default(), &stats);
            alerts.into_iter().map(|it| it.text).collect::<Vec<_>>()
        };
        assert!(texts(90, &[]).is_empty());
        assert_eq!(texts(95, &[]), ["More than 90% of the budget is won"]);
        assert_eq!(texts(95, &["car"]), ["The budget holds car"]);
    }

    #[test]
    fn what_is_urgent_comes_first() {
        let lang = Language::of_tag("en").unwrap();
        let status = CampaignStatus {
            state: CampaignState::Paused.into(),
            ..CampaignStatus::default()
        };
        let prize = PrizeStats {
            prize_id: "mug".into(),
            stock: 100,
            left: 1,
            ..PrizeStats::default()
        };
        let stats = GetStatsResponse {
            balanced: false,
            prizes: vec![prize],
            ..GetStatsResponse::default()
        };
        let urgencies: Vec<_> = of(lang, &status, &stats)
            .iter()
            .map(|it| it.urgency)
            .collect();
        assert_eq!(
            urgencies,
            [Urgency::Danger, Urgency::Warning, Urgency::Note]
        );
    }
}
