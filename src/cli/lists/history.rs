//! `tombola user history`: what a user did, and what operators did to the user.

use clap::Args;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{
    Format, List, ListArgs, PAGE_SIZE,
    draws::Draws,
    envelopes::{self, Events},
    note_behind,
    operations::Operations,
    say_json,
};
use crate::{
    cli::{
        client::{Client, Outcome, user_id},
        output::{Side, Table, is_open, say},
        time::shown,
    },
    model::{
        convert::sheets::{csv, draws, operations},
        file,
    },
    proto::{ListDrawsRequest, ListEnvelopesRequest, ListOperationsRequest, OperationKind},
};

/// The columns.
const COLUMNS: [&str; 5] = ["time", "event", "about", "what", "request"];

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola user history user-1
  tombola user history user-1 --from 2026-12-01T00:00:00Z --format csv")]
pub(in crate::cli) struct HistoryArgs {
    /// The user
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    #[command(flatten)]
    list: ListArgs,
}

/// A line of the history.
struct Event {
    time: Option<prost_types::Timestamp>,
    cells: [String; 4],
    json: serde_json::Value,
}

pub(in crate::cli) async fn run(client: &Client, args: HistoryArgs) -> Outcome {
    let server = client.ledger().await?;
    let (start_time, end_time) = (args.list.start_time(), args.list.end_time());
    let draws = Draws {
        server: server.clone(),
        request: ListDrawsRequest {
            user_id: args.user.clone(),
            start_time,
            end_time,
            ..ListDrawsRequest::default()
        },
    };
    let events = Events {
        server: server.clone(),
        request: ListEnvelopesRequest {
            user_id: args.user.clone(),
            start_time,
            end_time,
            ..ListEnvelopesRequest::default()
        },
    };
    // Deliveries are listed only if they are asked for.
    let acts = [OperationKind::Unspecified, OperationKind::Deliver].map(|kind| Operations {
        server: server.clone(),
        request: ListOperationsRequest {
            user_id: args.user.clone(),
            kind: kind.into(),
            start_time,
            end_time,
            ..ListOperationsRequest::default()
        },
    });
    let limit = args.list.limit;
    let mut until = None;
    let mut history = collect(draws, limit, &mut until, of_draw).await?;
    history.extend(collect(events, limit, &mut until, of_envelope).await?);
    for acts in acts {
        history.extend(collect(acts, limit, &mut until, of_operation).await?);
    }
    let time = |event: &Event| event.time.map(|time| (time.seconds, time.nanos));
    history.sort_by_key(|event| std::cmp::Reverse(time(event)));
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    history.truncate(limit.unwrap_or(usize::MAX));
    show(&history, args.list.format(client), until.as_ref());
    note_behind(until.as_ref(), &TimeZone::UTC);
    Ok(())
}

/// The newest elements of a list.
async fn collect<L: List>(
    mut list: L,
    limit: Option<u64>,
    until: &mut Option<prost_types::Timestamp>,
    event: fn(&L::Element) -> Event,
) -> Outcome<Vec<Event>> {
    let (mut events, mut token) = (Vec::new(), String::new());
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 && is_open() {
        let size = u32::try_from(left).unwrap_or(PAGE_SIZE).min(PAGE_SIZE);
        let page = list.page(size, token).await?;
        left -= page.elements.len() as u64;
        events.extend(page.elements.iter().map(event));
        let earlier = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
        *until = [*until, page.complete_until]
            .into_iter()
            .flatten()
            .min_by_key(earlier);
        token = page.next;
        if token.is_empty() {
            break;
        }
    }
    Ok(events)
}

fn of_draw(draw: &crate::proto::RecordedDraw) -> Event {
    Event {
        time: draw.draw_time,
        cells: [
            "draw".into(),
            draw.campaign_id.clone(),
            draws::results(draw),
            draw.request_id.clone(),
        ],
        json: json!({"draw": file::to_json(Draws::MESSAGE, draw)}),
    }
}

fn of_envelope(event: &crate::proto::EnvelopeEvent) -> Event {
    Event {
        time: event.event_time,
        cells: [
            "envelope".into(),
            event.envelope_id.clone(),
            format!("{} {}", envelopes::what(event), event.amount_minor),
            String::new(),
        ],
        json: json!({"envelopeEvent": file::to_json(Events::MESSAGE, event)}),
    }
}

fn of_operation(act: &crate::proto::RecordedOperation) -> Event {
    Event {
        time: act.operation_time,
        cells: [
            "operation".into(),
            act.campaign_id.clone(),
            format!(
                "{} by {}",
                operations::what(act, &TimeZone::UTC),
                operations::by(act)
            ),
            act.request_id.clone(),
        ],
        json: json!({"operation": file::to_json(Operations::MESSAGE, act)}),
    }
}

/// Prints the history, which is complete only before `until` if that is given.
fn show(history: &[Event], format: Format, until: Option<&prost_types::Timestamp>) {
    let cells = |event: &Event| {
        let time = shown(event.time.as_ref(), &TimeZone::UTC);
        std::iter::once(time).chain(event.cells.clone())
    };
    match format {
        Format::Table if history.is_empty() => say("no draws, envelopes or operations"),
        Format::Table => {
            let mut table = Table::new(COLUMNS.map(|name| (name, Side::Left)));
            for event in history {
                table.row(cells(event));
            }
            say(&table.render());
        }
        Format::Csv => {
            let lines = history.iter().map(|event| csv::line(cells(event)));
            say(&(csv::line(COLUMNS) + &lines.collect::<String>()));
        }
        Format::Json => {
            let events = history.iter().map(|event| event.json.clone());
            say_json("history", events.collect(), until);
        }
    }
}
