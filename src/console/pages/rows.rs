//! Tables of what the ledger lists: draws, wins, acts of operators, events of envelopes.

use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::{forms, zones::Zones};
use crate::{
    console::{
        i18n::Language,
        ui::{
            self,
            Column::{Number, Text},
            named, number,
        },
    },
    model::{convert::sheets::operations::reason as why, money::Money},
    proto::{
        DeliveryState, DrawCause, EnvelopeEvent, Outcome, RecordedDraw, RecordedOperation,
        RecordedResult, Win,
    },
};

/// The page of a user in a campaign.
pub(super) fn user_address(campaign: &str, user: &str) -> String {
    let path = format!("/campaigns/{}/users", ui::encoded(campaign));
    ui::address(&path, &[user_field(user)])
}

/// A user in an address. What people type is meant without blanks around it, but ids may have some.
pub(super) fn user_field(user: &str) -> (&'static str, &str) {
    let name = if user.trim() == user { "user" } else { "id" };
    (name, user)
}

/// An amount with its currency.
pub(super) fn amount(currency: &str, minor: u64) -> String {
    Money::of_minor(currency, minor).to_string()
}

/// The campaigns of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// One campaign, which no column names, and its zone.
    One(&'a TimeZone),
    /// Several campaigns. Each time names its zone.
    Several(&'a Zones),
}

impl Of<'_> {
    /// The columns of a table, of which the second one is the campaign's.
    fn columns<'a>(self, lang: Language, others: &[&'a str]) -> Vec<ui::Column<'a>> {
        let mut columns: Vec<_> = others.iter().copied().map(Text).collect();
        if let Self::Several(_) = self {
            columns.insert(1, Text(lang.t("list.campaign")));
        }
        columns
    }

    fn cell(self, campaign: &str) -> Markup {
        html! {
            @if let Self::Several(_) = self {
                td {
                    @if campaign.is_empty() { "–" }
                    @else { a href={ "/campaigns/" (campaign) } { (campaign) } }
                }
            }
        }
    }

    /// A moment in the zone of a campaign.
    fn time(self, campaign: &str, moment: Option<&prost_types::Timestamp>) -> Markup {
        match self {
            Self::One(zone) => ui::time(moment, zone),
            Self::Several(zones) => {
                let zone = zones.of_campaign(campaign);
                html! {
                    (ui::time(moment, &zone)) " "
                    span.hint { (zone.iana_name().unwrap_or_default()) }
                }
            }
        }
    }
}

/// Draws with the cause of each result.
pub(super) fn draws(of: Of<'_>, lang: Language, draws: &[RecordedDraw]) -> Markup {
    let columns = [
        lang.t("list.time"),
        lang.t("list.user"),
        lang.t("list.result"),
        lang.t("list.request"),
    ];
    ui::table(
        lang.t("tab.draws"),
        &of.columns(lang, &columns),
        &html! {
            @for draw in draws { tr {
                td { (of.time(&draw.campaign_id, draw.draw_time.as_ref())) }
                (of.cell(&draw.campaign_id))
                td { a href=(user_address(&draw.campaign_id, &draw.user_id)) { (draw.user_id) } }
                td { ul.plain { @for one in &draw.results { li { (result(lang, one)) } } } }
                td { code { (draw.request_id) } }
            } }
        },
    )
}

fn result(lang: Language, recorded: &RecordedResult) -> Markup {
    let Some(result) = &recorded.result else {
        return html! {};
    };
    let outcome = named(lang, "outcome", "OUTCOME_", result.outcome().as_str_name());
    let class = format!("badge outcome-{}", i32::from(result.outcome()));
    html! {
        span class=(class) { (outcome) }
        @if !result.prize_id.is_empty() {
            " " (if result.prize_name.is_empty() { &result.prize_id } else { &result.prize_name })
        }
        @if let Some(why) = why_so(lang, recorded, result.outcome()) { " " span.hint { (why) } }
    }
}

/// What gave a unit, or why none was given.
fn why_so(lang: Language, recorded: &RecordedResult, outcome: Outcome) -> Option<String> {
    match (outcome, recorded.cause(), recorded.pool_id.as_str()) {
        (Outcome::Won, _, "") => Some(lang.t("list.by-guarantee").into()),
        (Outcome::Won, _, pool) => Some(lang.with("list.by-pool", pool)),
        (_, DrawCause::Unspecified, _) => None,
        (_, cause, _) => Some(named(lang, "cause", "DRAW_CAUSE_", cause.as_str_name())),
    }
}

/// Wins with their delivery, and the forms that change it.
pub(super) fn wins(of: Of<'_>, lang: Language, wins: &[Win], back: &str) -> Markup {
    let columns = [
        lang.t("list.time"),
        lang.t("list.user"),
        lang.t("units.prize"),
        lang.t("list.unit"),
        lang.t("list.delivery"),
    ];
    ui::table(
        lang.t("tab.wins"),
        &of.columns(lang, &columns),
        &html! {
            @for win in wins { tr {
                td { (of.time(&win.campaign_id, win.draw_time.as_ref())) }
                (of.cell(&win.campaign_id))
                td { a href=(user_address(&win.campaign_id, &win.user_id)) { (win.user_id) } }
                td { (if win.prize_name.is_empty() { &win.prize_id } else { &win.prize_name }) }
                td { code { (win.unit_id) } }
                td { (delivery(of, lang, win)) (forms::delivery(lang, win, back)) }
            } }
        },
    )
}

fn delivery(of: Of<'_>, lang: Language, win: &Win) -> Markup {
    let delivery = win.delivery.clone().unwrap_or_default();
    let state = match delivery.state() {
        DeliveryState::Unspecified => DeliveryState::Pending,
        state => state,
    };
    html! {
        span class={ "badge delivery-" (i32::from(state)) } {
            (named(lang, "delivery", "DELIVERY_STATE_", state.as_str_name()))
        }
        @if !delivery.reference.is_empty() { " " code { (delivery.reference) } }
        @if delivery.update_time.is_some() {
            " " (of.time(&win.campaign_id, delivery.update_time.as_ref()))
        }
    }
}

/// Who did what and why.
pub(super) fn operations(of: Of<'_>, lang: Language, acts: &[RecordedOperation]) -> Markup {
    let columns = [
        lang.t("list.time"),
        lang.t("list.operator"),
        lang.t("list.act"),
        lang.t("list.what"),
        lang.t("form.reason"),
    ];
    ui::table(
        lang.t("history.acts"),
        &of.columns(lang, &columns),
        &html! {
            @for act in acts { tr {
                td { (of.time(&act.campaign_id, act.operation_time.as_ref())) }
                (of.cell(&act.campaign_id))
                td {
                    (act.operator)
                    @if act.authenticated { " " span.badge { (lang.t("list.proven")) } }
                    @if !act.on_behalf_of.is_empty() { " (" (act.on_behalf_of) ")" }
                    @if !act.proposed_by.is_empty() {
                        " · " (lang.with("proposals.by", &act.proposed_by))
                    }
                }
                td { (named(lang, "act", "OPERATION_KIND_", act.kind().as_str_name())) }
                td { (subject(of, lang, act)) }
                td { (why(act)) }
            } }
        },
    )
}

fn subject(of: Of<'_>, lang: Language, act: &RecordedOperation) -> Markup {
    const USERS_MAX: usize = 3;
    let more = act.user_ids.len().saturating_sub(USERS_MAX);
    html! {
        @if act.version > 0 {
            (lang.with("campaign.version", &act.version.to_string())) " "
        }
        @for id in [&act.prize_id, &act.pool_id, &act.unit_id, &act.envelope_id, &act.reference] {
            @if !id.is_empty() { code { (id) } " " }
        }
        @if act.window_time.is_some() {
            (of.time(&act.campaign_id, act.window_time.as_ref())) " "
        }
        @for user in act.user_ids.iter().take(USERS_MAX) {
            a href=(user_address(&act.campaign_id, user)) { (user) } " "
        }
        @if more > 0 { (lang.with("list.more", &more.to_string())) " " }
        @if act.draws > 0 { (lang.with("list.draws", &number(act.draws.into()))) }
        @if act.codes > 0 { (lang.with("list.codes", &number(act.codes))) }
    }
}

/// What happened to envelopes.
pub(super) fn events(lang: Language, events: &[EnvelopeEvent]) -> Markup {
    ui::table(
        lang.t("nav.envelopes"),
        &[
            Text(lang.t("list.time")),
            Text(lang.t("envelope.envelope")),
            Text(lang.t("list.act")),
            Text(lang.t("list.user")),
            Number(lang.t("envelope.amount")),
        ],
        &html! {
            @for event in events { tr {
                td { (ui::time(event.event_time.as_ref(), &TimeZone::UTC)) }
                td { a href={ "/envelopes/" (event.envelope_id) } { (event.envelope_id) } }
                td { (named(lang, "event", "ENVELOPE_EVENT_KIND_", event.kind().as_str_name())) }
                td { (event.user_id) }
                td.n { (amount(&event.currency, event.amount_minor)) }
            } }
        },
    )
}

/// How far a list goes if settling is behind.
pub(super) fn behind(
    lang: Language,
    until: Option<&prost_types::Timestamp>,
    zone: &TimeZone,
) -> Markup {
    html! {
        @if until.is_some() {
            (ui::notice("warn", &html! { (lang.t("list.behind")) " " (ui::time(until, zone)) }))
        }
    }
}
