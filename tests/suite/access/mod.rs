//! Who may do what, against the real program: its access file, its tokens, what it refuses and what
//! it hides.

mod approvals;
mod certificates;
mod codes;
mod commands;
mod grants;
mod hostile;
mod jwt;
pub mod key_server;
mod lists;
mod permissions;
mod python;
mod rates;
mod record;
mod secrets;
mod streams;
mod tokens;

use std::{path::PathBuf, time::Duration};

use tempfile::TempDir;
use tombola::{
    grpc::access::TokenHash,
    proto::{
        campaign_service_client::CampaignServiceClient,
        envelope_service_client::EnvelopeServiceClient, ledger_service_client::LedgerServiceClient,
        lottery_service_client::LotteryServiceClient,
    },
};
use tonic::{
    Code, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::interceptor::InterceptedService,
    transport::Channel,
};
use tonic_types::StatusExt as _;

use crate::process::{Server, Start};

/// All permissions, for roles.
const ALL: &str = "[draw, check, deliver, grant, codes.read, read, plan, propose, approve, stop, \
                   admin]";

/// A server with an access file, and a directory for the test's files.
pub struct Gate {
    pub server: Server,
    directory: TempDir,
}

impl Gate {
    /// A server with this access file. Tokens in it are written as `<name>` and replaced by their
    /// hashes.
    fn new(policy: &str) -> Self {
        Self::with(policy, "")
    }

    /// The same with further arguments.
    pub fn with(policy: &str, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        Self::of(directory, Start::on(&data).with(more), policy)
    }

    /// The same on any store.
    pub fn on(start: Start<'_>, policy: &str) -> Self {
        Self::of(tempfile::tempdir().unwrap(), start, policy)
    }

    fn of(directory: TempDir, start: Start<'_>, policy: &str) -> Self {
        let file = directory.path().join("access.yaml");
        std::fs::write(&file, hashed(policy)).unwrap();
        let line = format!("--access {} --admin 127.0.0.1:0", file.display());
        let server = start.with(&line).serve();
        Self { server, directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Changes the access file, and waits until the server has seen it.
    pub fn change(&self, policy: &str) {
        let before = self.server.log().matches(IN_FORCE).count();
        std::fs::write(self.path("access.yaml"), hashed(policy)).unwrap();
        while self.server.log().matches(IN_FORCE).count() == before {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes an access file that is not in force yet; its path.
    pub fn prepare(&self, policy: &str) -> PathBuf {
        let file = self.path("next.yaml");
        std::fs::write(&file, hashed(policy)).unwrap();
        file
    }

    /// Calls with this token.
    pub async fn by(&self, token: &str) -> Calls {
        Calls::new(&self.server, Some(token)).await
    }

    /// Calls without a token.
    async fn by_nobody(&self) -> Calls {
        Calls::new(&self.server, None).await
    }
}

/// What the log says of a new access file.
const IN_FORCE: &str = "the access file has changed and is in force";

/// The access file with the hashes of its tokens.
fn hashed(policy: &str) -> String {
    let mut parts = policy.split('<');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (token, rest) = part.split_once('>').unwrap();
        text += &TokenHash::of(token).to_string();
        text += rest;
    }
    text
}

/// Adds a token to calls.
#[derive(Clone)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    /// This token, or none.
    pub fn of(token: Option<&str>) -> Self {
        Self(token.map(|token| format!("Bearer {token}").parse().unwrap()))
    }
}

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

pub type Connection = InterceptedService<Channel, Bearer>;

/// Clients of one identity.
#[derive(Clone)]
pub struct Calls {
    channel: Channel,
    bearer: Bearer,
}

impl Calls {
    async fn new(server: &Server, token: Option<&str>) -> Self {
        Self {
            channel: server.connect().await,
            bearer: Bearer::of(token),
        }
    }

    fn connection(&self) -> Connection {
        InterceptedService::new(self.channel.clone(), self.bearer.clone())
    }

    pub fn lottery(&self) -> LotteryServiceClient<Connection> {
        LotteryServiceClient::new(self.connection())
    }

    pub fn campaigns(&self) -> CampaignServiceClient<Connection> {
        CampaignServiceClient::new(self.connection())
    }

    fn envelopes(&self) -> EnvelopeServiceClient<Connection> {
        EnvelopeServiceClient::new(self.connection())
    }

    pub fn ledger(&self) -> LedgerServiceClient<Connection> {
        LedgerServiceClient::new(self.connection())
    }

    /// Draws once for a user.
    pub async fn draw(&self, campaign: &str, user: &str) -> Result<(), Status> {
        let request = tombola::proto::DrawRequest {
            campaign_id: campaign.into(),
            user_id: user.into(),
            ..Default::default()
        };
        self.lottery().draw(request).await.map(drop)
    }

    /// A campaign as it stands.
    pub async fn status(&self, campaign: &str) -> tombola::proto::CampaignStatus {
        let request = tombola::proto::GetCampaignRequest {
            campaign_id: campaign.into(),
            version: 0,
        };
        let response = self.campaigns().get_campaign(request).await.unwrap();
        response.into_inner().status.unwrap()
    }

    /// Asks for a campaign.
    async fn get(&self, campaign: &str) -> Result<(), Status> {
        let request = tombola::proto::GetCampaignRequest {
            campaign_id: campaign.into(),
            version: 0,
        };
        self.campaigns().get_campaign(request).await.map(drop)
    }

    /// Creates a campaign with a deck in which every second card wins.
    pub async fn apply(&self, id: &str) -> Result<(), Status> {
        self.apply_with(id, "").await
    }

    /// The same with another line in its file.
    pub async fn apply_with(&self, id: &str, line: &str) -> Result<(), Status> {
        let yaml = format!(
            r#"
id: {id}
{line}
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{{id: mug, stock: 1000}}]
pools: [{{id: deck, deck: {{size: 2, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}]
"#
        );
        self.apply_file(&yaml).await
    }

    /// Creates the campaign of a file.
    pub async fn apply_file(&self, yaml: &str) -> Result<(), Status> {
        let campaign = tombola::model::file::parse(yaml).unwrap().pop();
        let request = tombola::proto::ApplyCampaignRequest {
            campaign: Some(campaign.unwrap()),
            ..Default::default()
        };
        self.campaigns().apply_campaign(request).await.map(drop)
    }

    /// Creates an envelope of ten packets.
    pub async fn envelope(&self, id: &str, sender: &str) -> Result<(), Status> {
        let request = tombola::proto::CreateEnvelopeRequest {
            envelope_id: id.into(),
            sender_id: sender.into(),
            total_minor: 100,
            currency: "CNY".into(),
            packets: 10,
            ..Default::default()
        };
        self.envelopes().create_envelope(request).await.map(drop)
    }

    /// Grabs a packet.
    async fn grab(&self, id: &str, user: &str) -> Result<(), Status> {
        let request = tombola::proto::GrabEnvelopeRequest {
            envelope_id: id.into(),
            user_id: user.into(),
        };
        self.envelopes().grab_envelope(request).await.map(drop)
    }
}

/// The reason of a refusal, which must have this code and must have done nothing.
fn reason(code: Code, status: &Status) -> String {
    assert_eq!(status.code(), code, "{status:?}");
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no details: {status:?}"));
    assert_eq!(info.domain, "tombola.v1");
    assert_eq!(info.metadata["executed"], "no");
    info.reason
}

/// The caller lacks a permission.
#[track_caller]
fn is_denied<T: std::fmt::Debug>(answer: Result<T, Status>) -> Status {
    let status = answer.unwrap_err();
    assert_eq!(reason(Code::PermissionDenied, &status), "PERMISSION_DENIED");
    status
}

/// Nobody knows who calls, for this reason.
#[track_caller]
pub fn is_unknown<T: std::fmt::Debug>(answer: Result<T, Status>, wanted: &str) -> Status {
    let status = answer.unwrap_err();
    assert_eq!(reason(Code::Unauthenticated, &status), wanted, "{status:?}");
    status
}
