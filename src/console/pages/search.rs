//! The search: campaigns, users, request ids, units and envelopes, in all campaigns that the
//! visitor may see.

use axum::{extract::Query, response::Response};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

use super::{
    definition,
    rows::{self, Of},
    zones::Zones,
};
use crate::{
    console::{
        layout::Place,
        ui,
        visit::{Contents, Visit, reason},
    },
    proto::{
        EnvelopeEvent, GetEnvelopeRequest, ListCampaignsRequest, ListDrawsRequest,
        ListEnvelopesRequest, ListOperationsRequest, ListWinsRequest, RecordedDraw,
        RecordedOperation, Win,
    },
};

/// Results of each kind.
const RESULTS: u32 = 20;
/// Campaigns that the form to look a user up offers.
const OFFERED: u32 = 50;

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
    let (campaigns, user, draws, wins, envelope, find) = tokio::join!(
        campaigns(visit, text),
        of_user(visit, text),
        by_request(visit, text),
        by_unit(visit, text),
        envelope(visit, text),
        find_user(visit, text),
    );
    let [user, draws, wins] = [user, draws, wins].map(unless_no_id);
    let rows = [&user, &draws, &wins].into_iter().flatten();
    let zones = Zones::read(visit, rows.flat_map(Found::campaigns)).await;
    let shown = |found: Result<Found, Status>| found.map(|found| found.shown(visit, &zones, text));
    let sections = [
        (lang.t("nav.campaigns"), campaigns, html! {}),
        (lang.t("search.user"), shown(user), find),
        (lang.t("search.request"), shown(draws), html! {}),
        (lang.t("search.unit"), shown(wins), html! {}),
        (lang.t("nav.envelopes"), envelope, html! {}),
    ];
    html! {
        @for (title, contents, more) in sections {
            section.card { h2 { (title) } (visit.section(contents)) (more) }
        }
    }
}

/// What one section of the results has.
#[derive(Debug, Default)]
struct Found {
    wins: Vec<Win>,
    draws: Vec<RecordedDraw>,
    acts: Vec<RecordedOperation>,
    events: Vec<EnvelopeEvent>,
    /// There are more of a kind than these.
    has_more: bool,
}

impl Found {
    /// The campaigns of all rows.
    fn campaigns(&self) -> impl Iterator<Item = &str> {
        let wins = self.wins.iter().map(|win| &win.campaign_id);
        let draws = self.draws.iter().map(|draw| &draw.campaign_id);
        let acts = self.acts.iter().map(|act| &act.campaign_id);
        wins.chain(draws).chain(acts).map(String::as_str)
    }

    fn shown(&self, visit: &Visit, zones: &Zones, text: &str) -> Markup {
        let lang = visit.language;
        let of = Of::Several(zones);
        let back = ui::address("/search", &[("q", text)]);
        let Self {
            wins,
            draws,
            acts,
            events,
            has_more,
        } = self;
        if wins.is_empty() && draws.is_empty() && acts.is_empty() && events.is_empty() {
            return nothing(visit);
        }
        html! {
            @if !wins.is_empty() {
                h3 { (lang.t("tab.wins")) } (rows::wins(of, lang, wins, &back))
            }
            @if !draws.is_empty() { h3 { (lang.t("tab.draws")) } (rows::draws(of, lang, draws)) }
            @if !acts.is_empty() {
                h3 { (lang.t("history.acts")) } (rows::operations(of, lang, acts))
            }
            @if !events.is_empty() {
                h3 { (lang.t("nav.envelopes")) } (rows::events(lang, events))
                p.hint { (lang.t("envelope.utc")) }
            }
            @if *has_more {
                p.hint { (lang.with("search.latest", &RESULTS.to_string())) }
            }
            @if self.campaigns().next().is_some() { p.hint { (lang.t("search.zones")) } }
        }
    }
}

/// Nothing in place of the refusal of a text that is no id: it is one of something else.
fn unless_no_id(found: Result<Found, Status>) -> Result<Found, Status> {
    match found {
        Err(status) if reason(&status) == "INVALID_REQUEST" => Ok(Found::default()),
        found => found,
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

/// A user's latest draws and wins, and what operators did for the user.
async fn of_user(visit: &Visit, text: &str) -> Result<Found, Status> {
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
    let acts = ListOperationsRequest {
        user_id: text.into(),
        page_size: RESULTS,
        ..ListOperationsRequest::default()
    };
    let events = ListEnvelopesRequest {
        user_id: text.into(),
        page_size: RESULTS,
        ..ListEnvelopesRequest::default()
    };
    let ledger = || visit.ledger();
    let draws = ledger().list_draws(draws).await?.into_inner();
    let wins = ledger().list_wins(wins).await?.into_inner();
    let acts = ledger().list_operations(acts).await?.into_inner();
    let events = ledger().list_envelopes(events).await?.into_inner();
    let has_more = [
        has_more(&draws.draws, &draws.next_page_token),
        has_more(&wins.wins, &wins.next_page_token),
        has_more(&acts.operations, &acts.next_page_token),
        has_more(&events.events, &events.next_page_token),
    ];
    Ok(Found {
        draws: draws.draws,
        wins: wins.wins,
        acts: acts.operations,
        events: events.events,
        has_more: has_more.contains(&true),
    })
}

/// Whether there are more results than those that were read.
fn has_more<T>(read: &[T], next_page_token: &str) -> bool {
    read.len() >= RESULTS as usize && !next_page_token.is_empty()
}

/// Looks the text up as a user of a campaign, which every store can.
async fn find_user(visit: &Visit, text: &str) -> Markup {
    let lang = visit.language;
    let request = ListCampaignsRequest {
        page_size: OFFERED,
        ..ListCampaignsRequest::default()
    };
    // Any campaign can be typed, whether or not the list has it.
    let list = visit.campaigns().list_campaigns(request).await;
    let known = list.map(|list| list.into_inner().campaigns);
    let known = known.unwrap_or_default();
    html! {
        form.line method="get" action="/users/find" {
            input type="hidden" name="user" value=(text);
            label { (lang.t("search.in-campaign"))
                input name="campaign" list="known-campaigns" required maxlength="128"
                    autocomplete="off";
            }
            datalist #known-campaigns {
                @for status in &known { option value=(definition(status).0.id) {} }
            }
            button type="submit" { (lang.t("user.find")) }
        }
        p.hint { (lang.t("search.in-campaign-hint")) }
    }
}

/// The draws of a request id: callers of several campaigns may have chosen the same.
async fn by_request(visit: &Visit, text: &str) -> Result<Found, Status> {
    let request = ListDrawsRequest {
        request_id: text.into(),
        page_size: RESULTS,
        ..ListDrawsRequest::default()
    };
    let list = visit.ledger().list_draws(request).await?.into_inner();
    Ok(Found {
        has_more: has_more(&list.draws, &list.next_page_token),
        draws: list.draws,
        ..Found::default()
    })
}

/// The wins of a unit. Each campaign has units of its own, which may have the same id.
async fn by_unit(visit: &Visit, text: &str) -> Result<Found, Status> {
    let request = ListWinsRequest {
        unit_id: text.into(),
        page_size: RESULTS,
        ..ListWinsRequest::default()
    };
    let list = visit.ledger().list_wins(request).await?.into_inner();
    Ok(Found {
        has_more: has_more(&list.wins, &list.next_page_token),
        wins: list.wins,
        ..Found::default()
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
