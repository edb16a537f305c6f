//! `tombola envelope`: creates, grabs from, shows and cancels envelopes.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use tonic::Request;

use super::{
    client::{ChangeArgs, Client, Envelopes, Outcome, envelope_id, user_id, whole},
    envelope_view as view,
    failure::Failure,
    input,
    output::say,
    terminal::confirm,
    time::{self, Time},
};
use crate::{
    model::{
        envelope::{AMOUNT_MINOR_MAX, PACKETS_MAX},
        file,
    },
    proto::{
        CancelEnvelopeRequest, CreateEnvelopeRequest, GetEnvelopeRequest, GetStatsRequest, Grab,
        GrabEnvelopeRequest, ListGrabsRequest, Split,
    },
};

/// Grabs per page.
const PAGE_SIZE: u32 = 1_000;

#[derive(Subcommand, Clone, Debug)]
pub(super) enum EnvelopeCommand {
    /// Create an envelope
    Create(Box<CreateArgs>),
    /// Grab a packet for a user
    Grab(GrabArgs),
    /// Show an envelope, and who grabbed what
    Show(ShowArgs),
    /// Refund what is left of an envelope now
    Cancel(CancelArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola envelope create new-year-1 --sender boss --total 8800 --currency CNY --packets 10
  tombola envelope create party --sender boss --total 100000 --currency CNY --packets 200 \
    --start +10m --ttl 2h --rain 5m")]
pub(super) struct CreateArgs {
    /// The envelope's id, never used before
    #[arg(value_name = "ENVELOPE", value_parser = envelope_id)]
    envelope: String,
    /// The user who gives it
    #[arg(long, env = "TOMBOLA_SENDER", value_name = "USER", value_parser = user_id)]
    sender: String,
    /// The whole amount in minor units, e.g. cents
    #[arg(long, env = "TOMBOLA_TOTAL", value_name = "MINOR",
          value_parser = whole::<i64>(1..=AMOUNT_MINOR_MAX))]
    total: i64,
    /// ISO 4217 code, e.g. CNY
    #[arg(long, env = "TOMBOLA_CURRENCY", value_name = "CODE")]
    currency: String,
    /// The number of packets, 1 to 100,000
    #[arg(long, env = "TOMBOLA_PACKETS", value_name = "N",
          value_parser = whole::<u32>(1..=PACKETS_MAX.into()))]
    packets: u32,
    /// Equal packets instead of random ones
    #[arg(long, env = "TOMBOLA_EQUAL")]
    equal: bool,
    /// The least amount of a packet, in minor units
    #[arg(long, env = "TOMBOLA_MIN", value_name = "MINOR", default_value_t = 1,
          value_parser = whole::<i64>(1..=AMOUNT_MINOR_MAX))]
    min: i64,
    /// When grabbing begins: 2026-11-20T20:00:00+08:00 or +10m [default: now]
    #[arg(long, env = "TOMBOLA_START", value_name = "TIME", value_parser = Time::parse)]
    start: Option<Time>,
    /// How long users can grab, up to 30d [default: 24h]
    #[arg(long, env = "TOMBOLA_TTL", value_name = "SPAN", value_parser = time::parse_span)]
    ttl: Option<SignedDuration>,
    /// Release packets at random moments over this time [default: all at the start]
    #[arg(long, env = "TOMBOLA_RAIN", value_name = "SPAN", value_parser = time::parse_span)]
    rain: Option<SignedDuration>,
    /// A user who may grab; repeat it for several users [default: every user]
    #[arg(long = "allow", env = "TOMBOLA_ALLOW", value_name = "USER", value_parser = user_id)]
    allow: Vec<String>,
    /// A file with the ids of users who may grab, one per line, taken byte for byte; - reads
    /// standard input
    #[arg(long, env = "TOMBOLA_ALLOW_FILE", value_name = "FILE")]
    allow_file: Option<PathBuf>,
    /// For your own use, returned with every grab; repeat it for several attributes
    #[arg(long = "attribute", env = "TOMBOLA_ATTRIBUTE", value_name = "KEY=VALUE",
          value_parser = attribute)]
    attributes: Vec<(String, String)>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola envelope grab new-year-1 user-1")]
pub(super) struct GrabArgs {
    /// The envelope
    #[arg(value_name = "ENVELOPE", value_parser = envelope_id)]
    envelope: String,
    /// The user who grabs
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola envelope show new-year-1")]
pub(super) struct ShowArgs {
    /// The envelope
    #[arg(value_name = "ENVELOPE", value_parser = envelope_id)]
    envelope: String,
    /// The largest number of grabs to show
    #[arg(
        long,
        env = "TOMBOLA_GRABS",
        value_name = "N",
        default_value_t = 100_000,
        value_parser = whole::<usize>(0..=100_000)
    )]
    grabs: usize,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example:\n  tombola envelope cancel new-year-1 --yes --reason \"wrong amount\""
)]
pub(super) struct CancelArgs {
    /// The envelope
    #[arg(value_name = "ENVELOPE", value_parser = envelope_id)]
    envelope: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(client: &Client, command: EnvelopeCommand) -> Outcome {
    match command {
        EnvelopeCommand::Create(args) => create(client, *args).await,
        EnvelopeCommand::Grab(args) => grab(client, args).await,
        EnvelopeCommand::Show(args) => show(client, args).await,
        EnvelopeCommand::Cancel(args) => cancel(client, args).await,
    }
}

async fn create(client: &Client, args: CreateArgs) -> Outcome {
    let mut allowed = args.allow;
    if let Some(path) = &args.allow_file {
        allowed.extend(input::users(path)?);
        if allowed.is_empty() {
            // An empty list would let everyone grab.
            return Err(Failure::refused(
                "NO_USERS",
                "the list names no user; nothing was sent",
            ));
        }
    }
    let start = match args.start {
        Some(start) => Some(start.by(now(client, start).await?)),
        None => None,
    };
    let split = if args.equal {
        Split::Equal
    } else {
        Split::Random
    };
    let mut request = CreateEnvelopeRequest {
        envelope_id: args.envelope,
        sender_id: args.sender,
        total_minor: args.total,
        currency: args.currency,
        packets: args.packets,
        split: split.into(),
        min_minor: args.min,
        start_time: start.map(time::to_wire),
        ttl: args.ttl.map(time::span_to_wire),
        rain: args.rain.map(time::span_to_wire),
        allowed_user_ids: allowed,
        attributes: BTreeMap::new(),
    };
    request.attributes.extend(args.attributes);
    let mut server = client.envelopes().await?;
    let id = request.envelope_id.clone();
    let answer = server.create_envelope(request).await;
    let response = answer
        .map_err(|status| {
            let failure = harmless_again(Failure::change(status, ""), &id);
            at_the_same_start(failure, args.start, start)
        })?
        .into_inner();
    client.show("CreateEnvelopeResponse", &response, view::created);
    Ok(())
}

/// The current time, for a relative `start`. An absolute one does not need it, so no call is made.
async fn now(client: &Client, start: Time) -> Outcome<Timestamp> {
    if let Time::At(moment) = start {
        return Ok(moment);
    }
    let mut server = client.campaigns().await?;
    let stats = server.get_stats(GetStatsRequest::default()).await;
    let stats = stats.map_err(Failure::read)?.into_inner();
    Ok(time::from_wire(stats.read_time.as_ref()).unwrap_or_else(Timestamp::now))
}

async fn grab(client: &Client, args: GrabArgs) -> Outcome {
    let mut server = client.envelopes().await?;
    let request = GrabEnvelopeRequest {
        envelope_id: args.envelope,
        user_id: args.user,
    };
    let id = request.envelope_id.clone();
    let answer = server.grab_envelope(request).await;
    let response = answer
        .map_err(|status| harmless_again(Failure::change(status, ""), &id))?
        .into_inner();
    client.show("GrabEnvelopeResponse", &response, view::grabbed);
    Ok(())
}

/// Advises to repeat a grab or a creation whose outcome is unknown.
fn harmless_again(failure: Box<Failure>, id: &str) -> Box<Failure> {
    if failure.executed == "unknown" {
        failure.advise(format!(
            "run it again: envelope {id} gives no more for it than once"
        ))
    } else {
        failure
    }
}

/// A repeated creation must have the same contents, but a time from now on is another one then. So
/// the advice names the moment to write.
fn at_the_same_start(
    failure: Box<Failure>,
    named: Option<Time>,
    start: Option<Timestamp>,
) -> Box<Failure> {
    match (named, start) {
        (Some(Time::After(_)), Some(start)) if failure.executed == "unknown" => {
            let hint = format!(
                "{}; write --start {start} in it, a span would count from then",
                failure.hint
            );
            failure.advise(hint)
        }
        _ => failure,
    }
}

async fn show(client: &Client, args: ShowArgs) -> Outcome {
    let mut server = client.envelopes().await?;
    let request = GetEnvelopeRequest {
        envelope_id: args.envelope.clone(),
    };
    let answer = server.get_envelope(request).await;
    let response = answer.map_err(Failure::read)?.into_inner();
    let grabs = grabs(&mut server, &args.envelope, args.grabs).await?;
    let envelope = response.envelope.unwrap_or_default();
    if client.json {
        let grabs = grabs.iter();
        let grabs = grabs.map(|grab| file::to_json("tombola.v1.Grab", grab));
        let json = serde_json::json!({
            "envelope": file::to_json("tombola.v1.Envelope", &envelope),
            "grabs": grabs.collect::<Vec<_>>(),
        });
        say(&format!("{json:#}"));
    } else {
        say(&view::shown(&envelope, &grabs));
    }
    Ok(())
}

/// The first `wanted` grabs.
async fn grabs(server: &mut Envelopes, envelope_id: &str, wanted: usize) -> Outcome<Vec<Grab>> {
    let mut grabs = Vec::new();
    let mut page_token = String::new();
    while grabs.len() < wanted {
        let request = Request::new(ListGrabsRequest {
            envelope_id: envelope_id.into(),
            page_size: PAGE_SIZE,
            page_token,
        });
        let answer = server.list_grabs(request).await;
        let page = answer.map_err(Failure::read)?.into_inner();
        grabs.extend(page.grabs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    grabs.truncate(wanted);
    Ok(grabs)
}

async fn cancel(client: &Client, args: CancelArgs) -> Outcome {
    let id = args.envelope;
    let question = format!("Cancel {id} for good? Nobody can grab from it again.");
    confirm(&question, args.yes)?;
    let change = args.change.resolve(client);
    let mut server = client.envelopes().await?;
    let request = CancelEnvelopeRequest {
        envelope_id: id,
        request_id: change.request_id.clone(),
        operator: change.operator,
        reason: change.reason,
    };
    let answer = server.cancel_envelope(request).await;
    let answer = answer.map_err(|status| Failure::change(status, &change.request_id))?;
    client.show("CancelEnvelopeResponse", answer.get_ref(), view::cancelled);
    Ok(())
}

/// Parses `KEY=VALUE`.
fn attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("an attribute is KEY=VALUE, e.g. greeting=\"good luck\"".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_that_is_repeated_begins_at_the_same_moment() {
        let start = "2026-11-21T20:00:00Z".parse().unwrap();
        let hint = |named: &str, status| {
            let failure = harmless_again(Failure::change(status, ""), "party");
            let named = Some(Time::parse(named).unwrap());
            at_the_same_start(failure, named, Some(start)).hint
        };
        let lost = || tonic::Status::unavailable("gone");
        let relative = hint("+10m", lost());
        assert!(relative.contains("run it again"), "{relative}");
        let moment = "--start 2026-11-21T20:00:00Z";
        assert!(relative.contains(moment), "{relative}");
        let absolute = hint("2026-11-21T20:00:00Z", lost());
        assert!(!absolute.contains("--start"), "{absolute}");
        let refused = hint("+10m", tonic::Status::invalid_argument("no"));
        assert!(!refused.contains("--start"), "{refused}");
    }
}
