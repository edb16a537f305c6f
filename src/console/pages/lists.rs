//! The lists that the ledger has: draws, wins and acts of operators of a campaign, and what
//! happened to envelopes. Each is shown as pages and given as a file.

use std::future::Future;

use jiff::{civil::Date, tz::TimeZone};
use maud::Markup;
use serde::{Deserialize, Deserializer};
use tonic::Status;

use super::{
    Tab,
    forms::{Choices, Filter},
    rows::{self, Of},
    zones::Zones,
};
use crate::{
    console::{i18n::Language, visit::Visit},
    model::convert::{sheets, times::to_wire},
    proto::{
        DeliveryState, EnvelopeEvent, EnvelopeEventKind, Funding, ListDrawsRequest,
        ListEnvelopesRequest, ListOperationsRequest, ListWinsRequest, OperationKind, Outcome,
        RecordedDraw, RecordedOperation, Win,
    },
};

/// What names of the API begin with.
const OUTCOME: &str = "OUTCOME_";
const FUNDING: &str = "FUNDING_";
const DELIVERY: &str = "DELIVERY_STATE_";
const ACT: &str = "OPERATION_KIND_";
const EVENT: &str = "ENVELOPE_EVENT_KIND_";

/// The filters of a list; each list has its own of them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::console) struct Asked {
    #[serde(deserialize_with = "trimmed")]
    pub(super) user: String,
    #[serde(deserialize_with = "trimmed")]
    request: String,
    #[serde(deserialize_with = "trimmed")]
    prize: String,
    #[serde(deserialize_with = "trimmed")]
    unit: String,
    #[serde(deserialize_with = "trimmed")]
    operator: String,
    outcome: String,
    funding: String,
    delivery: String,
    pub(super) kind: String,
    /// The first and the last day, in the campaign's zone: `2026-11-29`.
    pub(super) from: String,
    pub(super) to: String,
    pub(super) page: String,
    /// The version whose differences from the one before are shown.
    pub(super) version: Option<u32>,
    pub(super) done: Option<String>,
}

/// What somebody has typed or pasted, without spaces around it: nobody means them.
fn trimmed<'de, D: Deserializer<'de>>(typed: D) -> Result<String, D::Error> {
    let text = String::deserialize(typed)?;
    Ok(text.trim().into())
}

/// What a page of a list asks for.
pub(in crate::console) struct Query<'a> {
    pub(super) campaign: &'a str,
    pub(super) zone: &'a TimeZone,
    pub(super) asked: &'a Asked,
    pub(super) size: u32,
    pub(super) token: String,
}

/// Moments between which elements are.
type Between = (
    Option<prost_types::Timestamp>,
    Option<prost_types::Timestamp>,
);

impl Query<'_> {
    /// From the beginning of the first day to the end of the last one.
    fn between(&self) -> Result<Between, Status> {
        let day = |name: &str, text: &str| match text {
            "" => Ok(None),
            text => text.parse::<Date>().map(Some).map_err(|_| {
                Status::invalid_argument(format!("{name}: write a day such as 2026-11-29"))
            }),
        };
        let begin = |day: Date| {
            let zoned = day.to_zoned(self.zone.clone()).ok()?;
            Some(to_wire(zoned.timestamp()))
        };
        let last = day("to", &self.asked.to)?;
        let after = last.map(|day| day.tomorrow().unwrap_or(day));
        let first = day("from", &self.asked.from)?;
        Ok((first.and_then(begin), after.and_then(begin)))
    }
}

/// A page of a list.
pub(in crate::console) struct Page<T> {
    pub(super) elements: Vec<T>,
    pub(super) next: String,
    pub(super) complete_until: Option<prost_types::Timestamp>,
}

/// The value of an enum of the API that a filter names; 0 for none.
fn chosen<E: Into<i32>>(
    (name, value): (&str, &str),
    prefix: &str,
    parse: impl Fn(&str) -> Option<E>,
) -> Result<i32, Status> {
    if value.is_empty() {
        return Ok(0);
    }
    let known = parse(&format!("{prefix}{value}"));
    let unknown = || Status::invalid_argument(format!("{name}: {value} is none of the choices"));
    known.map(Into::into).ok_or_else(unknown)
}

/// A list.
pub(in crate::console) trait List: 'static {
    type Element: Send;
    /// The last part of the page's address.
    const PATH: &'static str;
    /// The message of an empty list.
    const EMPTY: &'static str;

    /// Its filters other than days.
    fn filters(asked: &Asked) -> Vec<Filter<'_>>;

    /// Reads a page.
    fn read(
        visit: &Visit,
        query: Query<'_>,
    ) -> impl Future<Output = Result<Page<Self::Element>, Status>> + Send;

    /// The table of a page; `back` is its address.
    fn table(lang: Language, elements: &[Self::Element], zone: &TimeZone, back: &str) -> Markup;

    /// The names of the columns of a file.
    fn columns() -> Vec<&'static str>;

    /// A row of a file.
    fn row(element: &Self::Element, zone: &TimeZone) -> Vec<String>;
}

/// A list on a page of a campaign.
pub(in crate::console) trait Tabbed: List {
    const TAB: Tab;
}

impl Tabbed for Draws {
    const TAB: Tab = Tab::Draws;
}

impl Tabbed for Wins {
    const TAB: Tab = Tab::Wins;
}

impl Tabbed for Acts {
    const TAB: Tab = Tab::History;
}

/// Draws.
pub(in crate::console) struct Draws;

impl List for Draws {
    type Element = RecordedDraw;
    const PATH: &'static str = "draws";
    const EMPTY: &'static str = "list.no-draws";

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        vec![
            Filter::text("user", "list.user", &asked.user),
            Filter::text("request", "list.request", &asked.request),
            Filter::choice(
                "outcome",
                "list.result",
                &asked.outcome,
                Choices::of("outcome", OUTCOME, Outcome::as_str_name),
            ),
            Filter::choice(
                "funding",
                "list.funding",
                &asked.funding,
                Choices::of("funding", FUNDING, Funding::as_str_name),
            ),
        ]
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<RecordedDraw>, Status> {
        let (start_time, end_time) = query.between()?;
        let request = ListDrawsRequest {
            campaign_id: query.campaign.into(),
            user_id: query.asked.user.clone(),
            request_id: query.asked.request.clone(),
            page_size: query.size,
            page_token: query.token,
            start_time,
            end_time,
            outcome: chosen(
                ("outcome", &query.asked.outcome),
                OUTCOME,
                Outcome::from_str_name,
            )?,
            funding: chosen(
                ("funding", &query.asked.funding),
                FUNDING,
                Funding::from_str_name,
            )?,
        };
        let list = visit.ledger().list_draws(request).await?.into_inner();
        Ok(Page {
            elements: list.draws,
            next: list.next_page_token,
            complete_until: list.complete_until,
        })
    }

    fn table(lang: Language, draws: &[RecordedDraw], zone: &TimeZone, _: &str) -> Markup {
        rows::draws(Of::One(zone), lang, draws)
    }

    fn columns() -> Vec<&'static str> {
        sheets::draws::COLUMNS.into()
    }

    fn row(draw: &RecordedDraw, zone: &TimeZone) -> Vec<String> {
        sheets::draws::row(draw, zone)
    }
}

/// Wins.
pub(in crate::console) struct Wins;

impl List for Wins {
    type Element = Win;
    const PATH: &'static str = "wins";
    const EMPTY: &'static str = "list.no-wins";

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        vec![
            Filter::text("user", "list.user", &asked.user),
            Filter::text("prize", "units.prize", &asked.prize),
            Filter::text("unit", "list.unit", &asked.unit),
            Filter::choice(
                "delivery",
                "list.delivery",
                &asked.delivery,
                Choices::of("delivery", DELIVERY, DeliveryState::as_str_name),
            ),
        ]
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<Win>, Status> {
        let (start_time, end_time) = query.between()?;
        let request = ListWinsRequest {
            campaign_id: query.campaign.into(),
            user_id: query.asked.user.clone(),
            prize_id: query.asked.prize.clone(),
            unit_id: query.asked.unit.clone(),
            page_size: query.size,
            page_token: query.token,
            start_time,
            end_time,
            delivery_state: chosen(
                ("delivery", &query.asked.delivery),
                DELIVERY,
                DeliveryState::from_str_name,
            )?,
        };
        let list = visit.ledger().list_wins(request).await?.into_inner();
        Ok(Page {
            elements: list.wins,
            next: list.next_page_token,
            complete_until: list.complete_until,
        })
    }

    fn table(lang: Language, wins: &[Win], zone: &TimeZone, back: &str) -> Markup {
        rows::wins(Of::One(zone), lang, wins, back)
    }

    fn columns() -> Vec<&'static str> {
        sheets::wins::columns(false)
    }

    fn row(win: &Win, zone: &TimeZone) -> Vec<String> {
        sheets::wins::row(win, zone, false)
    }
}

/// Winners as they may be published: wins that were not revoked, with most of each user's id left
/// out.
pub(in crate::console) struct Winners;

impl List for Winners {
    type Element = Win;
    const PATH: &'static str = "winners";
    const EMPTY: &'static str = Wins::EMPTY;

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        Wins::filters(asked)
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<Win>, Status> {
        let mut page = Wins::read(visit, query).await?;
        page.elements.retain(sheets::wins::is_published);
        Ok(page)
    }

    fn table(lang: Language, wins: &[Win], zone: &TimeZone, back: &str) -> Markup {
        Wins::table(lang, wins, zone, back)
    }

    fn columns() -> Vec<&'static str> {
        sheets::wins::columns(true)
    }

    fn row(win: &Win, zone: &TimeZone) -> Vec<String> {
        sheets::wins::row(win, zone, true)
    }
}

/// Acts of operators.
pub(in crate::console) struct Acts;

impl List for Acts {
    type Element = RecordedOperation;
    const PATH: &'static str = "history";
    const EMPTY: &'static str = "history.none";

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        vec![
            Filter::text("operator", "list.operator", &asked.operator),
            Filter::text("user", "list.user", &asked.user),
            Filter::choice(
                "kind",
                "list.act",
                &asked.kind,
                Choices::of("act", ACT, OperationKind::as_str_name),
            ),
        ]
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<RecordedOperation>, Status> {
        let (start_time, end_time) = query.between()?;
        let request = ListOperationsRequest {
            campaign_id: query.campaign.into(),
            user_id: query.asked.user.clone(),
            operator: query.asked.operator.clone(),
            page_size: query.size,
            page_token: query.token,
            start_time,
            end_time,
            kind: chosen(
                ("kind", &query.asked.kind),
                ACT,
                OperationKind::from_str_name,
            )?,
        };
        let list = visit.ledger().list_operations(request).await?.into_inner();
        Ok(Page {
            elements: list.operations,
            next: list.next_page_token,
            complete_until: list.complete_until,
        })
    }

    fn table(lang: Language, acts: &[RecordedOperation], zone: &TimeZone, _: &str) -> Markup {
        rows::operations(Of::One(zone), lang, acts)
    }

    fn columns() -> Vec<&'static str> {
        sheets::operations::COLUMNS.into()
    }

    fn row(act: &RecordedOperation, zone: &TimeZone) -> Vec<String> {
        sheets::operations::row(act, zone)
    }
}

/// Acts of operators in all campaigns and on envelopes, in UTC.
pub(in crate::console) struct AllActs;

impl List for AllActs {
    type Element = RecordedOperation;
    const PATH: &'static str = Acts::PATH;
    const EMPTY: &'static str = Acts::EMPTY;

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        Acts::filters(asked)
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<RecordedOperation>, Status> {
        Acts::read(visit, query).await
    }

    fn table(lang: Language, acts: &[RecordedOperation], _: &TimeZone, _: &str) -> Markup {
        rows::operations(Of::Several(&Zones::default()), lang, acts)
    }

    fn columns() -> Vec<&'static str> {
        Acts::columns()
    }

    fn row(act: &RecordedOperation, zone: &TimeZone) -> Vec<String> {
        Acts::row(act, zone)
    }
}

/// What happened to envelopes.
pub(in crate::console) struct Events;

impl List for Events {
    type Element = EnvelopeEvent;
    const PATH: &'static str = "envelopes";
    const EMPTY: &'static str = "envelope.none";

    fn filters(asked: &Asked) -> Vec<Filter<'_>> {
        vec![
            Filter::text("user", "envelope.user", &asked.user),
            Filter::choice(
                "kind",
                "list.act",
                &asked.kind,
                Choices::of("event", EVENT, EnvelopeEventKind::as_str_name),
            ),
        ]
    }

    async fn read(visit: &Visit, query: Query<'_>) -> Result<Page<EnvelopeEvent>, Status> {
        let (start_time, end_time) = query.between()?;
        let request = ListEnvelopesRequest {
            user_id: query.asked.user.clone(),
            page_size: query.size,
            page_token: query.token,
            start_time,
            end_time,
            kind: chosen(
                ("kind", &query.asked.kind),
                EVENT,
                EnvelopeEventKind::from_str_name,
            )?,
            ..ListEnvelopesRequest::default()
        };
        let list = visit.ledger().list_envelopes(request).await?.into_inner();
        Ok(Page {
            elements: list.events,
            next: list.next_page_token,
            complete_until: list.complete_until,
        })
    }

    fn table(lang: Language, events: &[EnvelopeEvent], _: &TimeZone, _: &str) -> Markup {
        rows::events(lang, events)
    }

    fn columns() -> Vec<&'static str> {
        sheets::events::COLUMNS.into()
    }

    fn row(event: &EnvelopeEvent, zone: &TimeZone) -> Vec<String> {
        sheets::events::row(event, zone)
    }
}
