//! The search: campaigns, users, request ids, units and envelopes, in all campaigns that the
//! visitor may see.

use axum::{extract::Query, response::Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use super::{definition, rows};
use crate::{
    console::{
        layout::Place,
        ui,
        visit::{Contents, Visit, reason},
    },
    proto::{
        GetEnvelopeRequest, ListCampaignsRequest, ListDrawsRequest, ListEnvelopesRequest,
        ListWinsRequest,
    },
};

/// Results of each kind.
const RESULTS: u32 = 20;

/// What is searched.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    #[serde(default)]
    q: String,
    done: Option<String>,
}

/// The page.
pub(in crate::console) async fn page(visit: Visit, Query(asked): Query<Asked>) -> Response {
    let lang = visit.language;
    let text = asked.q.trim();
    let contents = match text {
        "" => ui::empty(&html! { p { (lang.t("search.begin")) } }),
        text => results(&visit, text).await,
    };
    let contents = html! {
        h1 { (lang.t("nav.search")) @if !text.is_empty() { ": " (text) } }
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (contents)
    };
    let title = match text {
        "" => lang.t("nav.search").into(),
        text => format!("{text} · {}", lang.t("nav.search")),
    };
    visit.page(Place::Elsewhere, &title, Ok(contents))
}

async fn results(visit: &Visit, text: &str) -> Markup {
    let lang = visit.language;
    let (campaigns, user, draws, wins, envelope) = tokio::join!(
        campaigns(visit, text),
        user(visit, text),
        request(visit, text),
        unit(visit, text),
        envelope(visit, text),
    );
    let sections = [
        (lang.t("nav.campaigns"), campaigns),
        (lang.t("search.user"), user),
        (lang.t("search.request"), draws),
        (lang.t("search.unit"), wins),
        (lang.t("nav.envelopes"), envelope),
    ];
    html! {
        @for (title, contents) in sections {
            section.card { h2 { (title) } (visit.section(contents)) }
        }
    }
}

fn nothing(visit: &Visit) -> Markup {
    html! { p.hint { (visit.language.t("search.nothing")) } }
}

/// Campaigns whose id or name contains the text.
async fn campaigns(visit: &Visit, text: &str) -> Contents {
    let request = ListCampaignsRequest {
        text: text.into(),
        page_size: RESULTS,
        ..ListCampaignsRequest::default()
    };
    let list = visit
        .campaigns()
        .list_campaigns(request)
        .await?
        .into_inner();
    let found = list.campaigns.iter();
    let found: Vec<_> = found.map(|status| (status, definition(status).0)).collect();
    Ok(html! {
        @if found.is_empty() { (nothing(visit)) }
        ul.plain { @for (status, campaign) in &found { li {
            a href={ "/campaigns/" (campaign.id) } { (campaign.name) " " span.id { (campaign.id) } }
            " " (ui::state(visit.language, status.state()))
        } } }
        @if !list.next_page_token.is_empty() {
            p.hint { (visit.language.with("search.more", &RESULTS.to_string())) }
        }
    })
}

/// A user's latest draws and wins.
async fn user(visit: &Visit, text: &str) -> Contents {
    let lang = visit.language;
    let draws = ListDrawsRequest {
        user_id: text.into(),
        page_size: RESULTS,
        ..ListDrawsRequest::default()
    };
    let wins = ListWinsRequest {
        user_id: text.into(),
        page_size: RESULTS,
        ..ListWinsRequest::default()
    };
    let events = ListEnvelopesRequest {
        user_id: text.into(),
        page_size: RESULTS,
        ..ListEnvelopesRequest::default()
    };
    let draws = visit.ledger().list_draws(draws).await?.into_inner().draws;
    let wins = visit.ledger().list_wins(wins).await?.into_inner().wins;
    let events = visit
        .ledger()
        .list_envelopes(events)
        .await?
        .into_inner()
        .events;
    let back = ui::address("/search", &[("q", text)]);
    Ok(html! {
        @if draws.is_empty() && wins.is_empty() && events.is_empty() { (nothing(visit)) }
        @if !wins.is_empty() {
            h3 { (lang.t("tab.wins")) }
            (rows::wins(lang, &wins, &TimeZone::UTC, &back))
        }
        @if !draws.is_empty() {
            h3 { (lang.t("tab.draws")) }
            (rows::draws(lang, &draws, &TimeZone::UTC))
        }
        @if !events.is_empty() {
            h3 { (lang.t("nav.envelopes")) }
            (rows::events(lang, &events))
        }
        @if !draws.is_empty() || !wins.is_empty() || !events.is_empty() {
            p.hint { (lang.t("search.utc")) }
        }
    })
}

/// The draws of a request id: callers of several campaigns may have chosen the same.
async fn request(visit: &Visit, text: &str) -> Contents {
    let lang = visit.language;
    let request = ListDrawsRequest {
        request_id: text.into(),
        page_size: RESULTS,
        ..ListDrawsRequest::default()
    };
    let draws = visit.ledger().list_draws(request).await?.into_inner().draws;
    Ok(html! {
        @if draws.is_empty() { (nothing(visit)) }
        @else { (rows::draws(lang, &draws, &TimeZone::UTC)) }
    })
}

/// The wins of a unit. Each campaign has units of its own, which may have the same id.
async fn unit(visit: &Visit, text: &str) -> Contents {
    let lang = visit.language;
    let request = ListWinsRequest {
        unit_id: text.into(),
        page_size: RESULTS,
        ..ListWinsRequest::default()
    };
    let wins = visit.ledger().list_wins(request).await?.into_inner().wins;
    let back = ui::address("/search", &[("q", text)]);
    Ok(html! {
        @if wins.is_empty() { (nothing(visit)) }
        @else { (rows::wins(lang, &wins, &TimeZone::UTC, &back)) }
    })
}

async fn envelope(visit: &Visit, text: &str) -> Contents {
    let request = GetEnvelopeRequest {
        envelope_id: text.into(),
    };
    match visit.envelopes().get_envelope(request).await {
        Ok(_) => Ok(html! { p { a href={ "/envelopes/" (ui::encoded(text)) } { (text) } } }),
        Err(status) => match reason(&status).as_str() {
            // A text that is no id of an envelope is one of something else.
            "ENVELOPE_NOT_FOUND" | "INVALID_REQUEST" => Ok(nothing(visit)),
            _ => Err(status),
        },
    }
}
