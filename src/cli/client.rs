//! What all commands that call a server share: flags, the connection, and how responses are shown.

use std::{ops::RangeInclusive, time::Duration};

use clap::Args;
use jiff::{Timestamp, tz::TimeZone};
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

use super::{
    failure::Failure,
    output::say,
    time::{self, Time, zone_named},
    tls_args::TlsArgs,
    token_args::TokenArgs,
};
use crate::{
    grpc::access::Credentials,
    model::{
        CampaignId, EnvelopeId, OperatorId, PoolId, PrizeId, Problem, RequestId, SegmentId, UserId,
        file, id::ID_BYTES_MAX, text::grouped,
    },
    proto::{
        self, admin_service_client::AdminServiceClient,
        campaign_service_client::CampaignServiceClient,
        envelope_service_client::EnvelopeServiceClient, ledger_service_client::LedgerServiceClient,
        lottery_service_client::LotteryServiceClient,
    },
};

/// The result of a command.
pub(super) type Outcome<T = ()> = Result<T, Box<Failure>>;
/// A connection that shows the credentials of the command with every call.
type Connection = InterceptedService<Channel, Credentials>;
pub(super) type Admin = AdminServiceClient<Connection>;
pub(super) type Campaigns = CampaignServiceClient<Connection>;
pub(super) type Envelopes = EnvelopeServiceClient<Connection>;
pub(super) type Ledger = LedgerServiceClient<Connection>;
pub(super) type Lottery = LotteryServiceClient<Connection>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Generous: applying a plan over years or recalling many hours takes seconds, not a minute.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A command that has its response does not wait long for the zone in which to show it.
const ZONE_TIMEOUT: Duration = Duration::from_secs(2);
/// Large enough for a thousand hours of a hundred prizes.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The server's address, and the output format.
#[derive(Args, Clone, Debug)]
pub(super) struct Client {
    /// The server's address
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_SERVER",
        help_heading = "Server and answer",
        value_name = "URL",
        default_value = "http://127.0.0.1:50051"
    )]
    pub(super) server: String,
    /// Print the response, or the error, as JSON
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_JSON",
        help_heading = "Server and answer"
    )]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) token: TokenArgs,
}

impl Client {
    /// A client of `CampaignService`.
    pub(super) async fn campaigns(&self) -> Outcome<Campaigns> {
        let client = CampaignServiceClient::new(self.connect().await?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A client of `LotteryService`.
    pub(super) async fn lottery(&self) -> Outcome<Lottery> {
        let client = LotteryServiceClient::new(self.connect().await?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A client of `AdminService`.
    pub(super) async fn admin(&self) -> Outcome<Admin> {
        let client = AdminServiceClient::new(self.connect().await?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A client of `LedgerService`.
    pub(super) async fn ledger(&self) -> Outcome<Ledger> {
        let client = LedgerServiceClient::new(self.connect().await?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// A client of `EnvelopeService`.
    pub(super) async fn envelopes(&self) -> Outcome<Envelopes> {
        let client = EnvelopeServiceClient::new(self.connect().await?);
        Ok(client.max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    async fn connect(&self) -> Outcome<Connection> {
        let url = server_url(&self.server).map_err(Failure::usage)?;
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| {
            Failure::usage(format!("--server {}: this is not an address", self.server))
        })?;
        let credentials = self.token.credentials(endpoint.uri(), self.tls.insecure)?;
        let connected = self
            .tls
            .of_client(endpoint, &self.server)?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .connect()
            .await;
        let channel = connected.map_err(|error| Failure::no_server(&url, &error))?;
        Ok(InterceptedService::new(channel, credentials))
    }

    /// Asks for the campaign's zone, for commands whose response does not have it. Returns UTC if
    /// the server does not answer, or if the output is JSON, which needs no zone.
    pub(super) async fn zone(&self, campaign_id: &str) -> TimeZone {
        if self.json {
            return TimeZone::UTC;
        }
        let ask = async {
            let mut server = self.campaigns().await.ok()?;
            let status = get_campaign(&mut server, campaign_id, 0).await.ok()?;
            Some(zone_named(&status.campaign?.time_zone))
        };
        let zone = tokio::time::timeout(ZONE_TIMEOUT, ask).await;
        zone.ok().flatten().unwrap_or(TimeZone::UTC)
    }

    /// Prints a message of `tombola.v1`: as JSON, or as the text that `text` makes of it.
    pub(super) fn show<M: prost::Message>(
        &self,
        name: &str,
        message: &M,
        text: impl FnOnce(&M) -> String,
    ) {
        if self.json {
            let json = file::to_json(&format!("tombola.v1.{name}"), message);
            say(&format!("{json:#}"));
        } else {
            say(&text(message));
        }
    }
}

/// Adds the scheme if it is missing, and explains any other mistake.
pub(super) fn server_url(server: &str) -> Result<String, String> {
    const FORM: &str = "an address is http://HOST:PORT, or https://HOST:PORT with TLS, e.g. \
                        http://127.0.0.1:50051";
    let url = match server.split_once("://") {
        None => format!("http://{server}"),
        Some(("http" | "https", _)) => server.to_owned(),
        Some(_) => return Err(format!("--server {server}: {FORM}")),
    };
    match url.parse::<tonic::transport::Uri>() {
        Ok(uri) if names_a_host(&uri) => Ok(url),
        Ok(_) => Err(format!("--server {server}: {FORM}")),
        Err(_) => Err(format!("--server {server}: {FORM}")),
    }
}

/// Whether it has a host, and a valid port if it has one.
fn names_a_host(uri: &tonic::transport::Uri) -> bool {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    let port_is_good = !after_host.contains(':') || uri.port_u16().is_some();
    uri.host().is_some_and(|host| !host.is_empty()) && port_is_good
}

/// Who does something, and why.
#[derive(Args, Clone, Debug)]
pub(super) struct AuthorArgs {
    /// Who does it, for the ledger [default: $USER, or cli; with a token its identity]
    #[arg(long, env = "TOMBOLA_OPERATOR", value_name = "ID", value_parser = operator_id)]
    operator: Option<String>,
    /// Why, for the ledger
    #[arg(
        long,
        env = "TOMBOLA_REASON",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
}

/// Options of a change: who makes it, why, and its request id.
#[derive(Args, Clone, Debug)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    author: AuthorArgs,
    /// Names this change for retries [default: a new one]
    #[arg(long, value_name = "ID", value_parser = request_id)]
    request_id: Option<String>,
}

/// A change with all defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) operator: String,
    pub(super) reason: String,
    pub(super) request_id: String,
}

impl Change {
    /// The change for one of several calls. Its request id ends with the call's number, so a retry
    /// sends the same ids.
    pub(super) fn numbered(&self, number: usize) -> Outcome<Self> {
        let request_id = format!("{}.{number}", self.request_id);
        if request_id.len() > ID_BYTES_MAX {
            let most = ID_BYTES_MAX - format!(".{number}").len();
            return Err(Failure::usage(format!(
                "--request-id has {} bytes: this change takes several calls, each of which adds \
                 its number to the id, so give at most {most} bytes",
                self.request_id.len()
            )));
        }
        Ok(Self {
            request_id,
            ..self.clone()
        })
    }
}

impl AuthorArgs {
    /// The operator with the default filled in, and the reason. The server knows the operator of a
    /// command that has a token.
    pub(super) fn resolve(&self, client: &Client) -> (String, String) {
        if client.token.is_given() {
            return (
                self.operator.clone().unwrap_or_default(),
                self.reason.clone(),
            );
        }
        self.resolve_here()
    }

    /// The operator with the default filled in, and the reason, for a command without a server.
    pub(super) fn resolve_here(&self) -> (String, String) {
        let user = || {
            std::env::var("USER")
                .ok()
                .filter(|user| operator_id(user).is_ok())
        };
        let operator = self.operator.clone().or_else(user);
        let operator = operator.unwrap_or_else(|| "cli".into());
        (operator, self.reason.clone())
    }
}

impl ChangeArgs {
    /// Fills in the defaults. The request id is made here and not by the service, so that it is
    /// known even if no response arrives.
    pub(super) fn resolve(&self, client: &Client) -> Change {
        self.change(self.author.resolve(client))
    }

    /// Fills in the defaults of a command without a server.
    pub(super) fn resolve_here(&self) -> Change {
        self.change(self.author.resolve_here())
    }

    fn change(&self, (operator, reason): (String, String)) -> Change {
        Change {
            operator,
            reason,
            request_id: self.request_id.clone().unwrap_or_else(new_request_id),
        }
    }
}

/// Parses a whole number within a range.
pub(super) fn whole<T>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64>,
{
    move |text: &str| {
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| is_digits);
        let number = number.filter(|number| range.contains(number));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| {
            let (least, most) = (grouped(*range.start()), grouped(*range.end()));
            format!("write a whole number from {least} to {most}, digits only")
        })
    }
}

/// Makes a request id that nobody else has.
pub(super) fn new_request_id() -> String {
    format!("cli-{:032x}", rand::random::<u128>())
}

macro_rules! id_parsers {
    ($($name:ident: $type:ident;)*) => {$(
        /// Checks an id on the command line.
        pub(super) fn $name(text: &str) -> Result<String, String> {
            let said = |problem: Problem| format!("it {}", problem.message);
            $type::parse("", text).map(|id| id.as_str().to_owned()).map_err(said)
        }
    )*};
}

id_parsers! {
    campaign_id: CampaignId;
    envelope_id: EnvelopeId;
    pool_id: PoolId;
    prize_id: PrizeId;
    segment_id: SegmentId;
    user_id: UserId;
    request_id: RequestId;
    operator_id: OperatorId;
}

/// Reads a campaign; `version` 0 means the current definition.
pub(super) async fn get_campaign(
    client: &mut Campaigns,
    campaign_id: &str,
    version: u32,
) -> Result<proto::CampaignStatus, tonic::Status> {
    let request = proto::GetCampaignRequest {
        campaign_id: campaign_id.into(),
        version,
    };
    let response = client.get_campaign(request).await?.into_inner();
    Ok(response.status.unwrap_or_default())
}

/// Makes a time absolute. A relative time counts from the service's clock, which is only asked in
/// that case.
pub(super) async fn moment(
    client: &mut Campaigns,
    campaign_id: &str,
    time: Time,
) -> Outcome<Timestamp> {
    if let Time::At(moment) = time {
        return Ok(moment);
    }
    let status = get_campaign(client, campaign_id, 0)
        .await
        .map_err(Failure::read)?;
    let now = time::from_wire(status.read_time.as_ref()).unwrap_or_else(Timestamp::now);
    Ok(time.by(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_scheme_gets_one_and_a_bad_one_is_explained() {
        let url = |server| server_url(server).unwrap();
        assert_eq!(url("localhost:50051"), "http://localhost:50051");
        assert_eq!(url("http://[::1]:50051"), "http://[::1]:50051");
        assert_eq!(url("https://host:1"), "https://host:1");
        for bad in [
            "",
            "http://",
            "ftp://host:1",
            "a b",
            "host:port",
            "https://",
        ] {
            let error = server_url(bad).unwrap_err();
            assert!(error.contains("http://127.0.0.1:50051"), "{bad}: {error}");
        }
    }

    #[test]
    fn calls_of_a_change_have_ids_of_their_own_the_same_in_a_retry() {
        let change = |request_id: &str| Change {
            operator: "cli".into(),
            reason: String::new(),
            request_id: request_id.into(),
        };
        assert_eq!(change("r").numbered(3).unwrap().request_id, "r.3");
        let longest = "x".repeat(ID_BYTES_MAX - 2);
        assert!(change(&longest).numbered(9).is_ok());
        let error = change(&longest).numbered(10).unwrap_err().to_string();
        assert!(error.contains("at most 125 bytes"), "{error}");
    }

    #[test]
    fn whole_numbers_are_digits_within_their_range() {
        let read = whole::<u32>(1..=100);
        assert_eq!((read("1"), read("0100")), (Ok(1), Ok(100)));
        for bad in ["", "0", "101", "-1", "+1", "1e1", "1,0", "١", " 1"] {
            let error = read(bad).unwrap_err();
            assert_eq!(
                error, "write a whole number from 1 to 100, digits only",
                "{bad}"
            );
        }
    }

    #[test]
    fn made_request_ids_are_valid_and_differ() {
        let (one, other) = (new_request_id(), new_request_id());
        assert_ne!(one, other);
        assert_eq!(request_id(&one).as_deref(), Ok(one.as_str()));
        assert!(campaign_id("a b").unwrap_err().contains("' '"));
        assert!(user_id("a b").is_ok());
        assert!(user_id("a\nb").unwrap_err().contains("control characters"));
    }
}
