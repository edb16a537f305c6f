//! The budget of a campaign: what was won today and in all, against what may be.

use maud::{Markup, html};

use super::prize_label;
use crate::{
    console::{
        i18n::Language,
        ui::{self, Column, live},
    },
    model::convert::{money_nanos, shown_money},
    proto::{BudgetStats, Campaign, Money},
};

/// What was won and what may be, of a day and in all.
fn parts(stats: &BudgetStats) -> [(Option<&Money>, Option<&Money>); 2] {
    [
        (stats.won_today.as_ref(), stats.per_day.as_ref()),
        (stats.won_total.as_ref(), stats.total.as_ref()),
    ]
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
        let share = money_nanos(won)
            .zip(money_nanos(most))
            .filter(|(_, most)| *most > 0);
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
    fn a_share_has_a_tenth_of_a_percent() {
        assert_eq!(share_of(1, 3), "33.3%");
        assert_eq!(share_of(3, 3), "100.0%");
    }
}
