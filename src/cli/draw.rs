//! `tombola draw` and `tombola get-draw`. A draw is retried with the same request id until its
//! outcome is known.

use std::time::Duration;

use clap::Args;
use jiff::tz::TimeZone;
use tonic::{Code, Status};

use super::{
    check,
    client::{
        Client, Lottery, Outcome, campaign_id, new_request_id, request_id, segment_id, user_id,
        whole,
    },
    failure::Failure,
    output::{Side, Table},
    shell::quoted,
    time::shown,
    tries::{EarlierTries, may_have_executed},
};
use crate::{
    model::text::visible,
    proto::{
        self, DrawRequest, DrawResponse, DrawResult, Durability, Funding, GetDrawRequest,
        GetDrawResponse,
    },
};

/// The number of tries, and the pause before the second; each further pause is twice as long.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola draw spring-wheel user-1
  tombola draw spring-wheel user-1 --segment north --segment member
  tombola draw spring-wheel user-1 --count 10 --paid --payment-ref order-77")]
pub(super) struct DrawArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The user who draws
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    /// The number of draws, 1 to 100: all or none
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=100))]
    count: u32,
    /// Draw from the paid quota
    #[arg(long, env = "TOMBOLA_PAID")]
    paid: bool,
    /// The reference of the payment, for the ledger
    #[arg(
        long,
        env = "TOMBOLA_PAYMENT_REF",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    payment_ref: String,
    /// Names this draw for retries [default: a new one]
    #[arg(long, value_name = "ID", value_parser = request_id)]
    request_id: Option<String>,
    /// Draw only for the consolation prize, without touching the pools
    #[arg(long, env = "TOMBOLA_CONSOLATION_ONLY")]
    consolation_only: bool,
    /// A segment that the user is in; may be repeated
    #[arg(
        long = "segment",
        env = "TOMBOLA_SEGMENT",
        value_name = "ID",
        value_delimiter = ',',
        value_parser = segment_id
    )]
    segments: Vec<String>,
}

pub(super) async fn run(client: &Client, args: DrawArgs) -> Outcome {
    let funding = if args.paid {
        Funding::Paid
    } else {
        Funding::Free
    };
    let request = DrawRequest {
        campaign_id: args.campaign,
        user_id: args.user,
        request_id: args.request_id.unwrap_or_else(new_request_id),
        count: args.count,
        funding: funding.into(),
        payment_ref: args.payment_ref,
        expire_time: None,
        consolation_only: args.consolation_only,
        segments: args.segments,
    };
    let mut server = client.lottery().await?;
    match until_known(&mut server, &request, PAUSE).await {
        Ok(response) => {
            let zone = client.zone(&request.campaign_id).await;
            client.show("DrawResponse", &response, |response| view(response, &zone));
        }
        Err(unanswered) => return Err(given_up(unanswered, &request)),
    }
    Ok(())
}

/// A draw without a response.
#[derive(Debug)]
struct Unanswered {
    /// The answer to the last try.
    status: Status,
    /// The tries before it.
    earlier: EarlierTries,
}

/// Sends the draw until it is answered or refused, up to [`TRIES`] times.
async fn until_known(
    server: &mut Lottery,
    request: &DrawRequest,
    pause: Duration,
) -> Result<DrawResponse, Unanswered> {
    let mut pause = pause;
    let mut tries = 1;
    let mut earlier = EarlierTries::default();
    loop {
        let status = match server.draw(request.clone()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => status,
        };
        if tries == TRIES || !worth_a_retry(&status) {
            return Err(Unanswered { status, earlier });
        }
        earlier.add(&status);
        tokio::time::sleep(pause).await;
        pause *= 2;
        tries += 1;
    }
}

/// The service is away or the outcome is unknown. The same request id makes another try harmless.
fn worth_a_retry(status: &Status) -> bool {
    may_have_executed(status) || status.code() == Code::Unavailable
}

fn given_up(unanswered: Unanswered, request: &DrawRequest) -> Box<Failure> {
    let Unanswered { status, earlier } = unanswered;
    let last = Failure::change(status, &request.request_id);
    let is_refused = last.executed != "unknown";
    let failure = last.after(earlier);
    if failure.executed != "unknown" {
        return failure;
    }
    // The message is about the last try only.
    let who = if is_refused {
        "an earlier try may have drawn: "
    } else {
        ""
    };
    let campaign_id = &request.campaign_id;
    let (user_id, request_id) = (quoted(&request.user_id), quoted(&request.request_id));
    failure.advise(format!(
        "{who}\"tombola get-draw {campaign_id} {user_id} {request_id}\" says whether it did; \
         the same draw with --request-id {request_id} is made once at most"
    ))
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola get-draw spring-wheel user-1 order-77")]
pub(super) struct GetDrawArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The user who drew
    #[arg(value_name = "USER", value_parser = user_id)]
    user: String,
    /// The request id of the draw
    #[arg(value_name = "REQUEST_ID", value_parser = request_id)]
    request_id: String,
}

pub(super) async fn get(client: &Client, args: GetDrawArgs) -> Outcome {
    let mut server = client.lottery().await?;
    let GetDrawArgs {
        campaign,
        user,
        request_id,
    } = args;
    let zone = client.zone(&campaign).await;
    let request = GetDrawRequest {
        campaign_id: campaign,
        user_id: user,
        request_id,
    };
    let response = server
        .get_draw(request)
        .await
        .map_err(Failure::read)?
        .into_inner();
    client.show("GetDrawResponse", &response, |GetDrawResponse { draw }| {
        draw.as_ref()
            .map(|draw| view(draw, &zone))
            .unwrap_or_default()
    });
    Ok(())
}

fn view(response: &DrawResponse, zone: &TimeZone) -> String {
    let columns = [
        "outcome",
        "prize",
        "name",
        "unit",
        "released",
        "ledger",
        "attributes",
    ];
    let results = || response.results.iter();
    let has_codes = results().any(|result| !result.code.is_empty());
    let columns = columns.into_iter().chain(has_codes.then_some("code"));
    let is_guaranteed = results().any(|result| !result.guarantee_id.is_empty());
    let columns = columns.chain(is_guaranteed.then_some("guarantee"));
    let mut table = Table::new(columns.map(|name| (name, Side::Left)));
    for result in &response.results {
        let code = has_codes.then(|| visible(&result.code).to_string());
        let guarantee = is_guaranteed.then(|| result.guarantee_id.clone());
        let more = code.into_iter().chain(guarantee);
        table.row(cells(result, zone).into_iter().chain(more));
    }
    let replayed = if response.replayed {
        " (made by an earlier call)"
    } else {
        ""
    };
    let mut parts = vec![
        table.render(),
        format!(
            "drawn {}{replayed}, {}, request id {}",
            shown(response.draw_time.as_ref(), zone),
            durability(response.durability()),
            visible(&response.request_id)
        ),
    ];
    let limits = response.limits.as_ref();
    parts.extend(limits.map(|limits| check::limits(limits, zone)));
    parts.join("\n\n")
}

fn cells(result: &DrawResult, zone: &TimeZone) -> [String; 7] {
    let or_dash = |text: &str| {
        if text.is_empty() {
            "-".into()
        } else {
            text.to_owned()
        }
    };
    let ledger = result
        .ledger_id
        .map(|id| format!("{}/{}", id.partition, id.sequence));
    let attributes: Vec<String> = result
        .attributes
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    [
        outcome(result.outcome()).into(),
        or_dash(&result.prize_id),
        or_dash(&result.prize_name),
        or_dash(&result.unit_id),
        shown(result.release_time.as_ref(), zone),
        ledger.unwrap_or_else(|| "-".into()),
        or_dash(&attributes.join(" ")),
    ]
}

fn outcome(outcome: proto::Outcome) -> &'static str {
    match outcome {
        proto::Outcome::Unspecified => "unknown",
        proto::Outcome::Won => "WON",
        proto::Outcome::Consolation => "consolation",
        proto::Outcome::Nothing => "nothing",
    }
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Unspecified => "durability unknown",
        Durability::Embedded => "on disk",
        Durability::Fast => "in memory, on disk within about a second",
        Durability::Local => "on the store's disk",
        Durability::Strict => "on the store's disk and a replica's",
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
