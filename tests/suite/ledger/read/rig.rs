//! Servers whose ledger can be listed.

use tempfile::TempDir;
use tombola::proto::{
    self, DrawRequest, DrawResponse, ErrorReason, ListWinsRequest, Win,
    ledger_service_client::LedgerServiceClient,
};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    faults::{load::apply_all, redis::House},
    ledger::Database,
    process::{Server, Start},
};

/// A client of the lists.
pub type Lists = LedgerServiceClient<Channel>;

/// How often a list is asked for until settling is not behind; each time the service waits for two
/// seconds.
const BUSY_ROUNDS_MAX: usize = 30;

/// Every second card of the deck is a coin; the schedule's first hour has a jewel.
const CAMPAIGN: &str = "
id: ID
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-01-01T00:00:00+08:00
limits: {drawsPerDay: 1000000, paidDrawsPerDay: 1000000}
consolation: {id: points, name: Points}
prizes:
  - {id: coin, name: Gold coin, stock: 1000000, attributes: {grams: '3'}}
  - {id: jewel, stock: 100}
pools:
  - {id: cards, deck: {size: 2, cards: {coin: 1}, onExhausted: RESHUFFLE}}
";

/// A server, and what it stands on.
pub struct Rig {
    pub server: Server,
    pub database: Option<Database>,
    _house: Option<House>,
    _data: TempDir,
}

impl Rig {
    /// On an embedded store, settled into its own file.
    pub async fn embedded() -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Start::on(data.path()).serve();
        Self::with(server, None, None, data).await
    }

    /// On an embedded store, settled into PostgreSQL.
    pub async fn postgres() -> Self {
        let (data, database) = (tempfile::tempdir().unwrap(), Database::new().await);
        let option = format!("--postgres-url {}", database.url_text());
        let server = Start::on(data.path()).with(&option).serve();
        Self::with(server, Some(database), None, data).await
    }

    /// On Redis with sixteen partitions, settled into PostgreSQL.
    pub async fn redis() -> Self {
        let (house, database) = (House::new(), Database::new().await);
        let option = format!("--postgres-url {}", database.url_text());
        let server = house.start().with(&option).serve();
        let data = tempfile::tempdir().unwrap();
        Self::with(server, Some(database), Some(house), data).await
    }

    async fn with(
        server: Server,
        database: Option<Database>,
        house: Option<House>,
        data: TempDir,
    ) -> Self {
        for id in ["spring", "summer"] {
            apply_all(&server, &CAMPAIGN.replace("ID", id)).await;
        }
        Self {
            server,
            database,
            _house: house,
            _data: data,
        }
    }

    /// A client of the lists.
    pub async fn lists(&self) -> Lists {
        lists(&self.server).await
    }

    /// Draws once for a user.
    pub async fn draw(&self, campaign: &str, user: &str, count: u32) -> DrawResponse {
        let request = DrawRequest {
            campaign_id: campaign.into(),
            user_id: user.into(),
            count,
            ..DrawRequest::default()
        };
        let drawn = self.server.lottery().await.draw(request).await;
        drawn.unwrap().into_inner()
    }
}

pub async fn lists(server: &Server) -> Lists {
    LedgerServiceClient::new(server.connect().await)
}

/// The units that a draw won, in order.
pub fn units(drawn: &DrawResponse) -> Vec<String> {
    let won = drawn.results.iter();
    let won = won.filter(|result| result.outcome() == proto::Outcome::Won);
    won.map(|result| result.unit_id.clone()).collect()
}

/// All pages of a list of wins, once it is complete.
pub async fn all_wins(lists: &mut Lists, request: &ListWinsRequest) -> Vec<Win> {
    for _ in 0..BUSY_ROUNDS_MAX {
        if let Some(wins) = complete_wins(lists, request.clone()).await {
            return wins;
        }
    }
    panic!("settling stays behind");
}

/// The whole list; none if the service says that settling is behind, since the machine is busy.
async fn complete_wins(lists: &mut Lists, mut request: ListWinsRequest) -> Option<Vec<Win>> {
    let mut wins = Vec::new();
    loop {
        let page = lists.list_wins(request.clone()).await.unwrap().into_inner();
        if page.complete_until.is_some() {
            return None;
        }
        wins.extend(page.wins);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Some(wins);
        }
    }
}

/// Asserts that a call was refused in this way before anything happened; returns its message.
#[track_caller]
pub fn assert_refused<T>(answer: Result<T, Status>, code: Code, reason: ErrorReason) -> String {
    let Err(status) = answer else {
        panic!("it was not refused");
    };
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    let name = reason.as_str_name().replacen("ERROR_REASON_", "", 1);
    assert_eq!(
        (info.reason.as_str(), info.metadata["executed"].as_str()),
        (&*name, "no")
    );
    status.message().to_owned()
}
