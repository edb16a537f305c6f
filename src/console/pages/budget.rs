//! The budget of a campaign: what was won today and in all, against what may be.

use maud::{Markup, html};

use super::prize_label;
use crate::{
    console::{
        i18n::Language,
        ui::{self, Column, live},
    },
    model::convert::shown_money,
    proto::{BudgetStats, Campaign, Money},
};

/// A budget is near from this part of it on, in percent, as for the alert of Prometheus.
const NEAR_PERCENT: u128 = 90;

/// An amount in the smallest units of a comparison: billionths.
fn nanos(money: Option<&Money>) -> Option<u128> {
    let money = money?;
    let whole = u128::try_from(money.units)
        .ok()?
        .checked_mul(1_000_000_000)?;
    Some(whole + u128::try_from(money.nanos).ok()?)
}

/// What was won and what may be, of a day and in all.
fn parts(stats: &BudgetStats) -> [(Option<&Money>, Option<&Money>); 2] {
    [
        (stats.won_today.as_ref(), stats.per_day.as_ref()),
        (stats.won_total.as_ref(), stats.total.as_ref()),
    ]
}

/// Whether more than nine tenths of a budget are won.
pub(super) fn is_near(stats: &BudgetStats) -> bool {
    parts(stats).into_iter().any(|(won, most)| {
        let pair = nanos(won).zip(nanos(most));
        pair.is_some_and(|(won, most)| won * 100 > most * NEAR_PERCENT)
    })
}

/// The budget as a card; nothing without one.
pub(super) fn shown(lang: Language, campaign: &Campaign, stats: Option<&BudgetStats>) -> Markup {
    let title = lang.t("budget.title");
    let columns = [
        Column::Text(lang.t("budget.time")),
        Column::Number(lang.t("budget.won")),
        Column::Number(lang.t("budget.most")),
        Column::Number(lang.t("budget.share")),
    ];
    let row = |key: &str, name: &str, (won, most): (Option<&Money>, Option<&Money>)| {
        let share = nanos(won).zip(nanos(most)).filter(|(_, most)| *most > 0);
        let share = share.map_or_else(|| "–".into(), |(won, most)| share_of(won, most));
        let most = most.map_or_else(|| lang.t("limits.none").into(), |it| shown_money(Some(it)));
        html! { tr {
            th scope="row" { (name) }
            td.n { (live(&format!("budget:{key}"), &shown_money(won))) }
            td.n { (most) }
            td.n { (live(&format!("budget-share:{key}"), &share)) }
        } }
    };
    html! {
        @if let Some(stats) = stats {
            @let [today, total] = parts(stats);
            @let held: Vec<_> = stats.held_prize_ids.iter()
                .map(|id| prize_label(campaign, id)).collect();
            section.card {
                h2 { (title) }
                (ui::table(title, &columns, &html! {
                    (row("today", lang.t("budget.today"), today))
                    (row("total", lang.t("budget.total"), total))
                }))
                p data-live="budget-held" {
                    @if !held.is_empty() { (lang.with("budget.held", &held.join(", "))) }
                }
            }
        }
    }
}

/// A share as a percentage.
fn share_of(won: u128, most: u128) -> String {
    let thousandths = won.saturating_mul(1_000) / most;
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_near_above_nine_tenths() {
        let money = |units| {
            Some(Money {
                currency_code: "CNY".into(),
                units,
                nanos: 0,
            })
        };
        let stats = |won, most| BudgetStats {
            won_today: money(won),
            per_day: money(most),
            won_total: money(won),
            ..BudgetStats::default()
        };
        assert!(!is_near(&stats(90, 100)));
        assert!(is_near(&stats(91, 100)));
        assert!(!is_near(&BudgetStats::default()));
        let in_all = BudgetStats {
            won_total: money(2_000),
            total: money(2_000),
            ..BudgetStats::default()
        };
        assert!(is_near(&in_all));
        assert_eq!(share_of(1, 3), "33.3%");
    }
}
