//! What an operator should look at: of one campaign, and of all with their store.

use axum::response::Response;
use maud::{Markup, html};

use super::overview::seconds;
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, number},
        visit::{Contents, Visit},
    },
    proto::{Alert, AlertKind, AlertSeverity, ListAlertsRequest, ListAlertsResponse},
};

/// Alerts of all campaigns that the first page shows, and that their own page shows.
const CARD_MAX: u32 = 5;
const PAGE_MAX: u32 = 1_000;

/// An alert in words, without its campaign.
pub(in crate::console) fn text(lang: Language, alert: &Alert) -> String {
    let hours = alert.hours.to_string();
    match alert.kind() {
        AlertKind::Unspecified => lang.t("alert.unknown").into(),
        AlertKind::Unbalanced => lang.t("alert.unbalanced").into(),
        AlertKind::CampaignPaused => lang.t("alert.paused").into(),
        AlertKind::DeckStopped => lang.with("alert.deck", &alert.pool_id),
        AlertKind::HoursMissed => lang.with("alert.missed", &hours),
        AlertKind::HoursLate => lang.with("alert.late", &hours),
        AlertKind::BudgetHeld => lang.with("alert.budget-held", &alert.prize_id),
        AlertKind::BudgetNear => lang.t("alert.budget-near").into(),
        AlertKind::StockLow => lang.with("alert.low", &alert.prize_id),
        AlertKind::StockOut => lang.with("alert.out", &alert.prize_id),
        AlertKind::PrizePaused => lang.with("alert.held", &alert.prize_id),
        AlertKind::LedgerLag => {
            let lag = alert.lag.unwrap_or_default();
            lang.with("alert.lag", &seconds(lang, &lag))
        }
    }
}

fn class(alert: &Alert) -> &'static str {
    match alert.severity() {
        AlertSeverity::Unspecified | AlertSeverity::Note => "note",
        AlertSeverity::Warning => "warning",
        AlertSeverity::Danger => "danger",
    }
}

/// Alerts of a campaign as a list, at most `most` of them.
pub(super) fn shown(lang: Language, alerts: &[Alert], most: usize) -> Markup {
    html! {
        @if !alerts.is_empty() {
            ul.alerts {
                @for alert in alerts.iter().take(most) {
                    li class=(class(alert)) { (text(lang, alert)) }
                }
                @if alerts.len() > most {
                    li { (lang.with("alert.more", &(alerts.len() - most).to_string())) }
                }
            }
        }
    }
}

async fn read(visit: &Visit, page_size: u32) -> Result<ListAlertsResponse, tonic::Status> {
    let request = ListAlertsRequest { page_size };
    Ok(visit.campaigns().list_alerts(request).await?.into_inner())
}

/// Alerts of several campaigns and of the store as a list, each with a link to what it is about.
fn linked(lang: Language, alerts: &[Alert]) -> Markup {
    html! {
        ul.alerts {
            @for alert in alerts {
                li class=(class(alert)) {
                    @if alert.campaign_id.is_empty() {
                        a href="/system" { (lang.t("alert.store")) }
                    } @else {
                        a href={ "/campaigns/" (alert.campaign_id) } { (alert.campaign_id) }
                    }
                    ": " (text(lang, alert))
                }
            }
        }
    }
}

/// The most urgent alerts of all campaigns, for the first page.
#[derive(Default)]
pub(super) struct Card {
    pub(super) shown: Markup,
    alerts: Vec<Alert>,
}

impl Card {
    /// Alerts of a campaign that the card does not show already, as a list.
    pub(super) fn others(&self, lang: Language, alerts: &[Alert], most: usize) -> Markup {
        let is_other = |alert: &&Alert| {
            let same = |shown: &Alert| {
                let of = |it: &Alert| (it.campaign_id.clone(), text(lang, it));
                of(shown) == of(alert)
            };
            !self.alerts.iter().any(same)
        };
        let others: Vec<_> = alerts.iter().filter(is_other).cloned().collect();
        shown(lang, &others, most)
    }
}

/// The card; empty if there are no alerts.
pub(super) async fn card(visit: &Visit) -> Card {
    let lang = visit.language;
    // The list of campaigns says why, if campaigns cannot be read.
    let Ok(found) = read(visit, CARD_MAX).await else {
        return Card::default();
    };
    let shown = html! {
        @if !found.alerts.is_empty() {
            section.card #alerts {
                h2 { (lang.t("alerts.title")) " (" (number(found.total)) ")" }
                (linked(lang, &found.alerts))
                @if found.total > found.alerts.len() as u64 {
                    p { a href="/alerts" { (lang.t("alerts.all")) } }
                }
            }
        }
    };
    Card {
        shown,
        alerts: found.alerts,
    }
}

/// The page with the alerts of all campaigns.
pub(in crate::console) async fn page(visit: Visit) -> Response {
    let contents = all(&visit).await;
    visit.page(Place::Campaigns, visit.language.t("alerts.title"), contents)
}

async fn all(visit: &Visit) -> Contents {
    let lang = visit.language;
    let found = read(visit, PAGE_MAX).await?;
    Ok(html! {
        h1 { (lang.t("alerts.title")) " (" (number(found.total)) ")" }
        @if found.incomplete { (ui::notice("warn", &html! { (lang.t("alerts.incomplete")) })) }
        @if found.alerts.is_empty() {
            (ui::empty(&html! { p { (lang.t("alerts.none")) } }))
        } @else {
            (linked(lang, &found.alerts))
            @if found.total > found.alerts.len() as u64 {
                p { (lang.with("alerts.more", &number(found.total - found.alerts.len() as u64))) }
            }
        }
        p.hint { (lang.t("alerts.hint")) }
    })
}
