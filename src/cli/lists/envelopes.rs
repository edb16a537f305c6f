//! `tombola envelopes`: envelopes that were created, packets that were grabbed, and refunds.

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use super::{List, ListArgs, Page, print};
use crate::{
    cli::{
        client::{Client, Ledger, Outcome, envelope_id, user_id},
        failure::Failure,
        output::Side,
        time::shown,
    },
    model::convert::sheets::ledger,
    proto::{EnvelopeEvent, EnvelopeEventKind, ListEnvelopesRequest, RefundCause},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Event {
    /// Envelopes that were created
    Created,
    /// Packets that were grabbed
    Grabbed,
    /// What went back
    Refunded,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola envelopes --event refunded --from 2026-12-01T00:00:00Z --format csv
  tombola envelopes --envelope new-year-1")]
pub(in crate::cli) struct EnvelopesArgs {
    /// Only this envelope's
    #[arg(long, env = "TOMBOLA_ENVELOPE", value_name = "ENVELOPE", value_parser = envelope_id)]
    envelope: Option<String>,
    /// Only what this user gave or grabbed
    #[arg(long, env = "TOMBOLA_USER", value_name = "USER", value_parser = user_id)]
    user: Option<String>,
    /// Only events of this kind
    #[arg(long, env = "TOMBOLA_EVENT", value_enum)]
    event: Option<Event>,
    #[command(flatten)]
    list: ListArgs,
}

pub(in crate::cli) async fn run(client: &Client, args: EnvelopesArgs) -> Outcome {
    let kind = match args.event {
        None => EnvelopeEventKind::Unspecified,
        Some(Event::Created) => EnvelopeEventKind::Created,
        Some(Event::Grabbed) => EnvelopeEventKind::Grabbed,
        Some(Event::Refunded) => EnvelopeEventKind::Refunded,
    };
    let request = ListEnvelopesRequest {
        envelope_id: args.envelope.unwrap_or_default(),
        user_id: args.user.unwrap_or_default(),
        kind: kind.into(),
        start_time: args.list.start_time(),
        end_time: args.list.end_time(),
        ..ListEnvelopesRequest::default()
    };
    let events = Events {
        server: client.ledger().await?,
        request,
    };
    print(client, events, &args.list, &TimeZone::UTC).await
}

pub(super) struct Events {
    pub(super) server: Ledger,
    pub(super) request: ListEnvelopesRequest,
}

impl List for Events {
    type Element = EnvelopeEvent;
    const NAME: &'static str = "events";
    const MESSAGE: &'static str = "tombola.v1.EnvelopeEvent";

    fn columns(&self) -> Vec<(&'static str, Side)> {
        use Side::{Left, Right};
        vec![
            ("time", Left),
            ("envelope", Left),
            ("event", Left),
            ("user", Left),
            ("amount_minor", Right),
            ("currency", Left),
            ("packets", Right),
            ("packet", Right),
            ("by", Left),
            ("ledger", Left),
        ]
    }

    fn row(&self, event: &EnvelopeEvent, zone: &TimeZone) -> Vec<String> {
        let number = |number: u32| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        vec![
            shown(event.event_time.as_ref(), zone),
            event.envelope_id.clone(),
            what(event).into(),
            event.user_id.clone(),
            event.amount_minor.to_string(),
            event.currency.clone(),
            number(event.packets),
            number(event.packet),
            event.operator.clone(),
            ledger(event.ledger_id),
        ]
    }

    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<EnvelopeEvent>> {
        self.request.page_size = size;
        self.request.page_token = token;
        let page = self.server.list_envelopes(self.request.clone()).await;
        let page = page.map_err(Failure::read)?.into_inner();
        Ok(Page {
            elements: page.events,
            next: page.next_page_token,
            complete_until: page.complete_until,
        })
    }
}

/// What happened.
pub(super) fn what(event: &EnvelopeEvent) -> &'static str {
    match (event.kind(), event.refund_cause()) {
        (EnvelopeEventKind::Unspecified, _) => "unknown",
        (EnvelopeEventKind::Created, _) => "created",
        (EnvelopeEventKind::Grabbed, _) => "grabbed",
        (EnvelopeEventKind::Refunded, RefundCause::Cancelled) => "refunded (cancelled)",
        (EnvelopeEventKind::Refunded, _) => "refunded (expired)",
    }
}
