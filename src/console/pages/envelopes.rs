//! Envelopes: what happened lately, and one envelope with its grabs.

use axum::{
    extract::{Path, Query},
    response::{IntoResponse as _, Redirect, Response},
};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    forms::{self, Filter},
    lists::{self, Events, List as _},
    rows,
};
use crate::{
    console::{
        charts::{self, Part},
        layout::Place,
        ui::{self, fact, named, number},
        visit::{Contents, Visit},
    },
    proto::{Envelope, EnvelopeState, GetEnvelopeRequest, Grab, ListGrabsRequest},
};

/// Events or grabs on a page.
const PAGE_SIZE: u32 = 50;

/// Which envelopes.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// An envelope to open.
    #[serde(default)]
    envelope: String,
    #[serde(default)]
    page: String,
    done: Option<String>,
}

/// The latest events.
pub(in crate::console) async fn list(
    visit: Visit,
    Query(opened): Query<Asked>,
    Query(asked): Query<lists::Asked>,
) -> Response {
    let lang = visit.language;
    let id = opened.envelope.trim();
    if !id.is_empty() {
        return Redirect::to(&format!("/envelopes/{}", ui::encoded(id))).into_response();
    }
    let mut fields = vec![Filter::text("envelope", "envelope.envelope", "")];
    fields.extend(Events::filters(&asked));
    let events = events(&visit, &asked).await;
    let contents = html! {
        h1 { (lang.t("nav.envelopes")) }
        (forms::filter(lang, "/envelopes", &fields, Some([&asked.from, &asked.to])))
        (visit.section(events))
    };
    visit.page(Place::Envelopes, lang.t("nav.envelopes"), Ok(contents))
}

async fn events(visit: &Visit, asked: &lists::Asked) -> Contents {
    let lang = visit.language;
    let query = lists::Query {
        campaign: "",
        zone: &TimeZone::UTC,
        asked,
        size: PAGE_SIZE,
        token: asked.page.clone(),
    };
    let list = Events::read(visit, query).await?;
    let filters = Events::filters(asked);
    let mut used: Vec<_> = filters
        .iter()
        .map(|filter| (filter.name, filter.value))
        .collect();
    used.extend([("from", asked.from.as_str()), ("to", asked.to.as_str())]);
    let is_filtered = used.iter().any(|(_, value)| !value.is_empty());
    Ok(html! {
        p.files { a href=(ui::address("/envelopes.csv", &used)) download {
            (lang.t("csv.file"))
        } }
        (rows::behind(lang, list.complete_until.as_ref(), &TimeZone::UTC))
        @if list.elements.is_empty() && is_filtered {
            (ui::empty(&html! { p { (lang.t("list.no-match")) } }))
        } @else if list.elements.is_empty() {
            (ui::empty(&html! {
                p { strong { (lang.t("envelope.none")) } }
                p { (lang.t("envelope.begin")) }
                pre { code { "tombola envelope create new-year --sender boss --total 8888 \
                              --currency CNY --packets 10" } }
            }))
        } @else {
            p.hint { (lang.t("envelope.utc")) }
            (rows::events(lang, &list.elements))
        }
        (ui::next(lang, "/envelopes", &used, &list.next))
    })
}

/// One envelope.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = envelope(&visit, &id, &asked).await;
    visit.page(Place::Envelopes, &id, contents)
}

async fn envelope(visit: &Visit, id: &str, asked: &Asked) -> Contents {
    let lang = visit.language;
    let request = GetEnvelopeRequest {
        envelope_id: id.into(),
    };
    let response = visit.envelopes().get_envelope(request).await?.into_inner();
    let envelope = response.envelope.unwrap_or_default();
    let grabs = grabs(visit, &envelope, asked).await;
    let is_open = matches!(
        envelope.state(),
        EnvelopeState::Open | EnvelopeState::Scheduled
    );
    let state = envelope.state().as_str_name();
    Ok(html! {
        div.title {
            h1 { (envelope.envelope_id) }
            span class={ "badge envelope-" (i32::from(envelope.state())) } {
                (named(lang, "envelope-state", "ENVELOPE_STATE_", state))
            }
            @if envelope.test_clock { span.badge.test { (lang.t("campaign.test-clock")) } }
        }
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (sums(visit, &envelope))
        (facts(visit, &envelope))
        @if is_open { (forms::cancel(lang, id)) }
        section.card { h2 { (lang.t("envelope.grabs")) } (visit.section(grabs)) }
    })
}

/// Where the money is.
fn sums(visit: &Visit, envelope: &Envelope) -> Markup {
    let lang = visit.language;
    let refunded = envelope
        .refund
        .as_ref()
        .map_or(0, |refund| refund.amount_minor);
    let part = |class, name, units| Part { class, name, units };
    let parts = [
        part("won", lang.t("envelope.grabbed"), envelope.grabbed_minor),
        part(
            "waiting",
            lang.t("envelope.waiting"),
            envelope.waiting_minor,
        ),
        part("withdrawn", lang.t("envelope.refunded"), refunded),
    ];
    let amount = |minor| rows::amount(&envelope.currency, minor);
    html! {
        dl.facts {
            (fact(lang.t("envelope.total"), &html! { (amount(envelope.total_minor)) }))
            @for part in &parts { (fact(part.name, &html! { (amount(part.units)) })) }
            (fact(lang.t("envelope.packets"), &html! {
                (number(envelope.packets_grabbed.into())) " / " (number(envelope.packets.into()))
            }))
        }
        (charts::legend(&[
            ("won", lang.t("envelope.grabbed")),
            ("waiting", lang.t("envelope.waiting")),
            ("withdrawn", lang.t("envelope.refunded")),
        ]))
        (charts::shares("money", &envelope.envelope_id, &parts))
    }
}

fn facts(visit: &Visit, envelope: &Envelope) -> Markup {
    let lang = visit.language;
    let time = |moment: &Option<_>| ui::time(moment.as_ref(), &TimeZone::UTC);
    html! {
        section.card {
            h2 { (lang.t("envelope.facts")) }
            p.hint { (lang.t("envelope.utc")) }
            dl.pairs {
                dt { (lang.t("envelope.sender")) } dd { (envelope.sender_id) }
                dt { (lang.t("envelope.created")) } dd { (time(&envelope.create_time)) }
                dt { (lang.t("envelope.start")) } dd { (time(&envelope.start_time)) }
                dt { (lang.t("envelope.expire")) } dd { (time(&envelope.expire_time)) }
                @if let Some(refund) = &envelope.refund {
                    dt { (lang.t("envelope.refund-time")) } dd { (time(&refund.refund_time)) }
                }
                @if let Some(luckiest) = &envelope.luckiest {
                    dt { (lang.t("envelope.luckiest")) }
                    dd {
                        (luckiest.user_id) " · "
                        (rows::amount(&envelope.currency, luckiest.amount_minor))
                    }
                }
                @for (name, value) in &envelope.attributes {
                    dt { code { (name) } } dd { (value) }
                }
                dt { (lang.t("odds.commitment")) } dd { code.long { (envelope.seed_commitment) } }
            }
        }
    }
}

async fn grabs(visit: &Visit, envelope: &Envelope, asked: &Asked) -> Contents {
    let lang = visit.language;
    let id = &envelope.envelope_id;
    let request = ListGrabsRequest {
        envelope_id: id.clone(),
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
    };
    let list = visit.envelopes().list_grabs(request).await?.into_inner();
    let row = |grab: &Grab| {
        html! { tr {
            td.n { (grab.packet) }
            td { (grab.user_id) }
            td.n { (rows::amount(&envelope.currency, grab.amount_minor)) }
            td { (ui::time(grab.grab_time.as_ref(), &TimeZone::UTC)) }
        } }
    };
    Ok(html! {
        @if list.grabs.is_empty() {
            (ui::empty(&html! { p { (lang.t("envelope.no-grabs")) } }))
        } @else {
            (ui::scroll(lang.t("envelope.grabs"), &html! { table {
                thead { tr {
                    th.n scope="col" { (lang.t("envelope.packet")) }
                    th scope="col" { (lang.t("list.user")) }
                    th.n scope="col" { (lang.t("envelope.amount")) }
                    th scope="col" { (lang.t("list.time")) }
                } }
                tbody { @for grab in &list.grabs { (row(grab)) } }
            } }))
        }
        (ui::next(lang, &format!("/envelopes/{id}"), &[], &list.next_page_token))
    })
}
