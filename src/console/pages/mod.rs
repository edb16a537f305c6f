//! The pages, one file each, and what they do in [`acts`].

pub(super) mod acts;
pub(super) mod alerts;
mod budget;
mod calendar;
pub(super) mod campaign;
pub(super) mod change;
pub(super) mod codes;
mod curve;
pub(super) mod envelopes;
pub(super) mod export;
mod fields;
mod forecast;
pub(super) mod forget;
mod forms;
pub(super) mod lists;
pub(super) mod many;
pub(super) mod new;
pub(super) mod odds;
pub(super) mod overview;
mod partitions;
pub(super) mod people;
pub(super) mod plan;
mod prizes;
mod problems;
pub(super) mod proposals;
pub(super) mod records;
mod refused;
mod replicas;
mod rows;
pub(super) mod schedule;
pub(super) mod search;
mod sent;
mod since;
pub(super) mod system;
mod templates;
mod troubles;
mod versions;
mod zones;

use axum::{http::StatusCode, response::Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use tonic::Status;

use super::{layout, ui, visit::Visit};
use crate::{
    model::convert::times::zone_named,
    proto::{Campaign, CampaignStatus, GetCampaignRequest},
};

/// A campaign as it stands.
async fn status(visit: &Visit, id: &str) -> Result<CampaignStatus, Status> {
    let request = GetCampaignRequest {
        campaign_id: id.into(),
        version: 0,
    };
    let response = visit.campaigns().get_campaign(request).await?.into_inner();
    Ok(response.status.unwrap_or_default())
}

/// The definition of a campaign, and its zone.
fn definition(status: &CampaignStatus) -> (Campaign, TimeZone) {
    let campaign = status.campaign.clone().unwrap_or_default();
    let zone = zone_named(&campaign.time_zone);
    (campaign, zone)
}

/// A prize by its name, with its id.
fn prize_name(campaign: &Campaign, id: &str) -> Markup {
    let prize = campaign.prizes.iter().find(|prize| prize.id == id);
    let name = prize.map_or("", |prize| prize.name.as_str());
    html! { @if name.is_empty() { (id) } @else { (name) " " span.id { (id) } } }
}

/// A prize by its name and id, as text.
fn prize_label(campaign: &Campaign, id: &str) -> String {
    let prize = campaign.prizes.iter().find(|prize| prize.id == id);
    match prize.map_or("", |prize| prize.name.as_str()) {
        "" => id.into(),
        name => format!("{name} ({id})"),
    }
}

/// The pages of a campaign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Summary,
    Schedule,
    Odds,
    Draws,
    Wins,
    Users,
    History,
    Change,
    Codes,
}

/// Head and navigation of a campaign's pages.
fn head(visit: &Visit, status: &CampaignStatus, tab: Tab) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let base = format!("/campaigns/{}", campaign.id);
    let tabs = [
        (Tab::Summary, "", lang.t("tab.summary")),
        (Tab::Schedule, "/schedule", lang.t("tab.schedule")),
        (Tab::Odds, "/odds", lang.t("tab.odds")),
        (Tab::Draws, "/draws", lang.t("tab.draws")),
        (Tab::Wins, "/wins", lang.t("tab.wins")),
        (Tab::Users, "/users", lang.t("tab.users")),
        (Tab::History, "/history", lang.t("tab.history")),
        (Tab::Change, "/change", lang.t("tab.change")),
        (Tab::Codes, "/codes", lang.t("tab.codes")),
    ];
    let has_codes = campaign.prizes.iter().any(|prize| prize.codes);
    let shown = tabs
        .iter()
        .filter(|(tab, ..)| *tab != Tab::Codes || has_codes);
    let name = if campaign.name.is_empty() {
        &campaign.id
    } else {
        &campaign.name
    };
    let mut all = tabs.iter();
    let current = all.find(|(known, ..)| *known == tab);
    visit.is_of(&campaign.id, name, current.map_or("", |(.., text)| text));
    html! {
        div.title {
            h1 { (name) }
            span data-live="state" { (ui::state(lang, status.state())) }
            @if status.test_clock { span.badge.test { (lang.t("campaign.test-clock")) } }
        }
        p.sub {
            code { (campaign.id) } " · "
            (ui::time(campaign.start_time.as_ref(), &zone)) " – "
            (ui::time(campaign.end_time.as_ref(), &zone)) " · "
            (campaign.time_zone) " · " (lang.with("campaign.version", &status.version.to_string()))
        }
        @if campaign.approval_required { p.hint { (lang.t("proposals.required")) } }
        nav.tabs aria-label=(lang.t("tab.label")) {
            @for (which, path, text) in shown {
                a href={ (base) (path) } aria-current=[(*which == tab).then_some("page")] {
                    (text)
                }
            }
        }
    }
}

/// No page has this address.
pub(super) async fn missing(headers: axum::http::HeaderMap) -> Response {
    let language = super::i18n::Language::of(&headers);
    layout::problem(language, StatusCode::NOT_FOUND, "error.missing", "/")
}
