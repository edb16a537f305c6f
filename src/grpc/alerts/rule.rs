//! When a campaign's sums, or what waits to be settled, are worth an alert.

use std::cmp::Reverse;

use crate::{
    grpc::{late_hours::LATE, ledger_stats::LAG_MAX},
    model::convert::{money_nanos, times::from_wire},
    proto::{
        Alert, AlertKind, AlertSeverity, BudgetStats, CampaignState, CampaignStatus,
        GetStatsResponse, LedgerStats, PrizeStats, Window, WindowState,
    },
};

/// For how long a missed hour is worth an alert, in seconds.
const MISSED_S: i64 = 48 * 60 * 60;
/// Stock is low below one of so many parts.
const LOW_PARTS: u64 = 20;
/// A budget is near from this part of it on, in percent, as for the alert of Prometheus.
const NEAR_PERCENT: u128 = 90;

/// All alerts of a campaign, the most urgent first.
pub(crate) fn of(status: &CampaignStatus, stats: &GetStatsResponse) -> Vec<Alert> {
    use AlertKind as Kind;
    let campaign = status.campaign.as_ref();
    let alert = |kind: AlertKind| Alert {
        campaign_id: campaign.map_or_else(String::new, |it| it.id.clone()),
        kind: kind.into(),
        severity: severity(kind).into(),
        ..Alert::default()
    };
    let of_prize = |kind, prize: &str| Alert {
        prize_id: prize.into(),
        ..alert(kind)
    };
    let mut alerts = Vec::new();
    if !stats.balanced {
        alerts.push(alert(Kind::Unbalanced));
    }
    if status.state() == CampaignState::Paused {
        alerts.push(alert(Kind::CampaignPaused));
    }
    for deck in stats.decks.iter().filter(|deck| !deck.stopped.is_empty()) {
        alerts.push(Alert {
            pool_id: deck.pool_id.clone(),
            ..alert(Kind::DeckStopped)
        });
    }
    let now_s = from_wire(stats.read_time.as_ref()).map_or(0, |now| now.as_second());
    let late = count(stats, |it| is_late(it, now_s)).saturating_add(stats.late_hours);
    for (kind, hours) in [
        (Kind::HoursMissed, count(stats, |it| is_missed(it, now_s))),
        (Kind::HoursLate, late),
    ] {
        if hours > 0 {
            alerts.push(Alert {
                hours,
                ..alert(kind)
            });
        }
    }
    if let Some(spent) = &stats.budget {
        let held = spent.held_prize_ids.iter();
        alerts.extend(held.map(|prize| of_prize(Kind::BudgetHeld, prize)));
        if spent.held_prize_ids.is_empty() && is_near(spent) {
            alerts.push(alert(Kind::BudgetNear));
        }
    }
    let is_over = matches!(
        status.state(),
        CampaignState::Ending | CampaignState::Closed
    );
    for prize in stats.prizes.iter().filter(|_| !is_over) {
        let id = &prize.prize_id;
        alerts.extend(shortage(prize).map(|kind| of_prize(kind, id)));
        if prize.paused {
            alerts.push(of_prize(Kind::PrizePaused, id));
        }
    }
    alerts.sort_by_key(|alert| Reverse(alert.severity));
    alerts
}

/// The alert of a ledger that is too far behind.
pub(super) fn of_ledger(ledger: &LedgerStats) -> Option<Alert> {
    let lag = ledger.lag.filter(|_| ledger.settled)?;
    let is_late = std::time::Duration::try_from(lag).is_ok_and(|lag| lag > LAG_MAX);
    is_late.then(|| Alert {
        kind: AlertKind::LedgerLag.into(),
        severity: severity(AlertKind::LedgerLag).into(),
        lag: Some(lag),
        ..Alert::default()
    })
}

/// How urgent alerts of a kind are.
fn severity(kind: AlertKind) -> AlertSeverity {
    match kind {
        AlertKind::Unspecified => AlertSeverity::Unspecified,
        AlertKind::Unbalanced | AlertKind::DeckStopped => AlertSeverity::Danger,
        AlertKind::CampaignPaused
        | AlertKind::HoursMissed
        | AlertKind::HoursLate
        | AlertKind::BudgetHeld
        | AlertKind::StockOut
        | AlertKind::PrizePaused
        | AlertKind::LedgerLag => AlertSeverity::Warning,
        AlertKind::BudgetNear | AlertKind::StockLow => AlertSeverity::Note,
    }
}

fn count(stats: &GetStatsResponse, is_counted: impl Fn(&Window) -> bool) -> u32 {
    let windows = stats.windows.iter().filter(|window| is_counted(window));
    u32::try_from(windows.count()).unwrap_or(u32::MAX)
}

fn is_missed(window: &Window, now_s: i64) -> bool {
    let end_s = window.end_time.as_ref().map_or(0, |end| end.seconds);
    window.state() == WindowState::Missed && now_s - end_s < MISSED_S
}

/// Whether an hour is still being filled although it began long ago.
fn is_late(window: &Window, now_s: i64) -> bool {
    let start = window.start_time.as_ref();
    let late_s = start.map_or(now_s, |start| start.seconds) + LATE.as_secs().cast_signed();
    window.state() == WindowState::Injecting && now_s >= late_s
}

/// Whether more than nine tenths of a budget are won.
fn is_near(stats: &BudgetStats) -> bool {
    let day = (&stats.won_today, &stats.per_day);
    let total = (&stats.won_total, &stats.total);
    [day, total].into_iter().any(|(won, most)| {
        let pair = money_nanos(won.as_ref()).zip(money_nanos(most.as_ref()));
        pair.is_some_and(|(won, most)| won * 100 > most * NEAR_PERCENT)
    })
}

/// The alert for what is left of a prize, if that is little.
fn shortage(prize: &PrizeStats) -> Option<AlertKind> {
    let there = prize.left + prize.waiting + prize.held;
    match () {
        () if prize.unlimited || prize.stock == 0 => None,
        () if there == 0 => Some(AlertKind::StockOut),
        // A prize of few units is low from the start.
        () if prize.stock >= LOW_PARTS && there < prize.stock / LOW_PARTS => {
            Some(AlertKind::StockLow)
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Money;

    fn kinds(stats: GetStatsResponse) -> Vec<AlertKind> {
        let stats = GetStatsResponse {
            balanced: true,
            ..stats
        };
        let alerts = of(&CampaignStatus::default(), &stats);
        alerts.iter().map(Alert::kind).collect()
    }

    #[test]
    fn stock_that_runs_out_is_seen() {
        let prize = |stock, left, waiting| PrizeStats {
            stock,
            left,
            waiting,
            ..PrizeStats::default()
        };
        assert_eq!(shortage(&prize(100, 5, 0)), None);
        assert_eq!(shortage(&prize(100, 2, 2)), Some(AlertKind::StockLow));
        assert_eq!(shortage(&prize(1, 0, 1)), None);
        assert_eq!(shortage(&prize(1, 0, 0)), Some(AlertKind::StockOut));
        assert_eq!(shortage(&prize(0, 0, 0)), None);
    }

    #[test]
    fn an_hour_that_is_filled_after_its_beginning_is_late() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let of_window = |state: WindowState, start_s| {
            kinds(GetStatsResponse {
                read_time: at(7_200),
                windows: vec![Window {
                    start_time: at(start_s),
                    end_time: at(start_s + 3_600),
                    state: state.into(),
                    ..Window::default()
                }],
                ..GetStatsResponse::default()
            })
        };
        let late = of_window(WindowState::Injecting, 7_140);
        assert_eq!(late, [AlertKind::HoursLate]);
        assert!(of_window(WindowState::Injecting, 7_150).is_empty());
        assert!(of_window(WindowState::Injected, 7_140).is_empty());
        let missed = of_window(WindowState::Missed, 0);
        assert_eq!(missed, [AlertKind::HoursMissed]);
        assert!(of_window(WindowState::Missed, -MISSED_S).is_empty());
    }

    #[test]
    fn an_hour_that_nobody_fills_is_late() {
        let alerts = of(
            &CampaignStatus::default(),
            &GetStatsResponse {
                balanced: true,
                late_hours: 2,
                ..GetStatsResponse::default()
            },
        );
        assert_eq!(alerts.len(), 1, "{alerts:?}");
        assert_eq!(
            (alerts[0].kind(), alerts[0].hours),
            (AlertKind::HoursLate, 2)
        );
    }

    #[test]
    fn a_ledger_that_somebody_settles_is_late_after_a_minute() {
        let lag_of = |settled, seconds| {
            let alert = of_ledger(&LedgerStats {
                settled,
                lag: Some(prost_types::Duration { seconds, nanos: 1 }),
                ..LedgerStats::default()
            });
            alert.map(|alert| (alert.kind(), alert.lag.unwrap_or_default().seconds))
        };
        assert_eq!(lag_of(true, 60), Some((AlertKind::LedgerLag, 60)));
        assert_eq!(lag_of(true, 59), None);
        assert_eq!(lag_of(false, 3_600), None);
        assert_eq!(of_ledger(&LedgerStats::default()), None);
    }

    #[test]
    fn a_budget_that_is_near_or_reached_is_seen() {
        let money = |units| {
            Some(Money {
                currency_code: "CNY".into(),
                units,
                nanos: 0,
            })
        };
        let of_budget = |won, held: &[&str]| {
            kinds(GetStatsResponse {
                budget: Some(BudgetStats {
                    per_day: money(100),
                    won_today: money(won),
                    held_prize_ids: held.iter().map(|id| (*id).to_owned()).collect(),
                    ..BudgetStats::default()
                }),
                ..GetStatsResponse::default()
            })
        };
        assert!(of_budget(90, &[]).is_empty());
        assert_eq!(of_budget(91, &[]), [AlertKind::BudgetNear]);
        assert_eq!(of_budget(95, &["car"]), [AlertKind::BudgetHeld]);
        assert!(!is_near(&BudgetStats::default()));
        assert!(is_near(&BudgetStats {
            won_total: money(2_000),
            total: money(2_000),
            ..BudgetStats::default()
        }));
    }

    #[test]
    fn what_is_urgent_comes_first() {
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
        let alerts = of(&status, &stats);
        let severities: Vec<_> = alerts.iter().map(Alert::severity).collect();
        use AlertSeverity::{Danger, Note, Warning};
        assert_eq!(severities, [Danger, Warning, Note]);
        assert_eq!(alerts[2].prize_id, "mug");
    }
}
