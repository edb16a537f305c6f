//! What the service does when its Redis is killed, hangs, loses data, is full, is demoted or holds
//! values of another program; and what Redis keeps when the service is killed.

mod away;
mod backup;
pub mod callers;
mod clock;
mod foreign;
mod foreign_envelopes;
mod forks;
mod full;
mod gone;
mod halted;
mod hang;
mod kill;
mod lost;
mod moved_slot;
mod passwords;
mod personal;
mod replicas;
mod rights;
mod sentinels;
mod startup;
mod waiting;
pub mod witness;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use tempfile::TempDir;
use tokio::time::timeout;
use tombola::{
    proto::{DrawRequest, DrawResponse, lottery_service_client::LotteryServiceClient},
    store::{
        Durability,
        redis::{FORK_PAUSE, Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl},
    },
};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt as _;

use crate::{
    process::{Server, Start},
    support::{audit, patiently, redis_server::RedisServer, world::key},
};

type Lottery = LotteryServiceClient<Channel>;

/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// The number of partitions of a store unless the options say otherwise.
pub const PARTITIONS: u32 = 16;

/// A Redis server, and a directory with the master key for services on it.
pub struct House {
    pub redis: RedisServer,
    data: TempDir,
}

impl House {
    /// Starts Redis and creates a store.
    pub fn new() -> Self {
        let house = Self::with(&[]);
        house.start().init().well();
        house
    }

    /// Starts Redis with these settings of redis.conf, without a store.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let settings = [settings, &[("enable-debug-command", "yes")]].concat();
        Self {
            redis: RedisServer::start(&settings),
            data: directory_with_key(),
        }
    }

    /// The directory with the master key.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    pub fn start(&self) -> Start<'_> {
        Start::on_redis(self.data.path(), &self.redis.url())
    }

    /// A service on the embedded store with the same key, on the test clock.
    pub fn embedded(&self) -> Start<'_> {
        Start::on(self.data.path())
    }

    fn serve(&self) -> Server {
        self.start().serve()
    }

    /// Opens the store while the services run, and compares its ledger with its sums.
    pub(super) async fn audit(&self) {
        let store = store_at(&self.redis.url(), PARTITIONS).await;
        audit::check(&store, &[]).await;
    }
}

/// A directory with the master key that all tests use.
pub fn directory_with_key() -> TempDir {
    let data = tempfile::tempdir().unwrap();
    put_key(data.path(), "07");
    data
}

/// Writes a master key in which every byte is `byte`, in hexadecimal.
fn put_key(directory: &Path, byte: &str) {
    let file = directory.join("master.key");
    fs::write(&file, byte.repeat(32)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
}

/// Opens the store as one more service would, which also waits for a Redis that is busy.
pub async fn store_at(url: &str, partitions: u32) -> RedisStore {
    let options = Options {
        url: RedisUrl::parse(url).unwrap(),
        prefix: KeyPrefix::parse("tombola").unwrap(),
        partitions,
        durability: Durability::Local,
        level: LevelOptions::default(),
        clock: None,
        request_memory: Duration::from_secs(24 * 3600),
        fork_pause: FORK_PAUSE,
        store_id: None,
    };
    let found = patiently(|| Found::look(options.clone())).await;
    RedisStore::open(found, &key().fingerprint()).await.unwrap()
}

/// One draw.
pub fn request(campaign: &str, user: &str, id: &str) -> DrawRequest {
    DrawRequest {
        campaign_id: campaign.into(),
        user_id: user.into(),
        request_id: id.into(),
        ..Default::default()
    }
}

/// Makes one draw, which must succeed.
async fn draws(lottery: &mut Lottery, campaign: &str, user: &str, id: &str) -> DrawResponse {
    let drawn = lottery.draw(request(campaign, user, id)).await;
    drawn
        .unwrap_or_else(|status| panic!("{campaign} {user} {id}: {status:?}"))
        .into_inner()
}

/// Whether the call was executed, as the error says: `no` or `unknown`.
fn executed(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("not ours: {status:?}"));
    info.metadata["executed"].clone()
}

/// Asserts that the status has this code, says that nothing happened, and contains no text that
/// only a Redis driver's author would understand.
#[track_caller]
pub fn assert_not_executed(status: &Status, code: Code) {
    assert_eq!(
        (status.code(), executed(status).as_str()),
        (code, "no"),
        "{status:?}"
    );
    for word in ["user_script", "os error", "ErrorKind", "ERR "] {
        assert!(!status.message().contains(word), "{status:?}");
    }
}

/// Waits until the health is this.
pub async fn healthy(server: &Server, wanted: ServingStatus) {
    service_is(server, "", wanted).await;
}

/// Waits until all partitions of the store work, or until one does not.
pub async fn whole(server: &Server, wanted: ServingStatus) {
    service_is(server, "partitions", wanted).await;
}

async fn service_is(server: &Server, service: &str, wanted: ServingStatus) {
    let mut client = HealthClient::new(server.connect().await);
    let service = service.to_owned();
    let watch = client.watch(HealthCheckRequest { service }).await.unwrap();
    let mut watch = watch.into_inner();
    let is_so = async { while watch.message().await.unwrap().unwrap().status() != wanted {} };
    let in_time = timeout(PATIENCE, is_so).await;
    assert!(in_time.is_ok(), "the service is never {wanted:?}");
}
