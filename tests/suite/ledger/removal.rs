//! The end of a campaign's data: once its ledger is settled, a closed campaign leaves the store,
//! and the sink gives what the store gave.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tombola::{
    ledger::{
        PostgresSink, PostgresUrl, SinkError,
        audit::{Audit, Check, run::run as audit, source::PostgresSource},
        read::{
            LedgerReader, Removed, definitions::Definitions, postgres::PostgresReader,
            sqlite::SqliteReader,
        },
        removal::Removals,
    },
    model::{Moment, OperatorId},
    store::{
        Approved, Author, ClosedCampaign, Operation, ProposalId, Refusal, Stats, Store, StoreError,
        WinCommand, WinOperation, WindowView, WonUnit,
        last_windows::last_windows,
        redis::{Connections, RedisUrl, Script},
    },
};

use super::{
    cut::{When, port_until},
    place::Place,
    settle_all,
    settled::{YAML, draws},
};
use crate::support::{
    Answer as _, DrawWords as _, Meddler, World, author, campaign, draw,
    embedded::Embedded,
    hours,
    in_memory::InMemory,
    on_redis::OnRedis,
    postgres::Postgres,
    user,
    words::{SPRING, campaign_id, new_request},
};

const DAY: Duration = Duration::from_secs(86_400);
const KEEP: Duration = Duration::from_secs(30 * 86_400);

/// The tables that the embedded store keeps of campaigns.
const TABLES: [&str; 12] = [
    "units",
    "queues",
    "windows",
    "window_wins",
    "pools",
    "stock",
    "users",
    "changed_users",
    "operations",
    "deliveries",
    "blocked",
    "versions",
];

/// What the store said of a campaign before it left.
struct Before {
    stats: Stats,
    windows: Vec<WindowView>,
}

impl Before {
    async fn read(world: &World) -> Self {
        let stats = world.stats().await;
        let windows = last_windows(&**world.store(), &stats).await.unwrap();
        assert!(!windows.is_empty());
        Self { stats, windows }
    }

    /// The sink says the same.
    async fn assert_kept(&self, reader: &dyn LedgerReader) {
        let id = campaign_id(SPRING);
        let mut found = reader.removed(Removed::One(&id)).await.unwrap();
        assert_eq!(found.len(), 1);
        let removed = found.remove(0);
        let versions = reader.removed_versions(&id).await.unwrap();
        let versions = removed.with_proposers(versions);
        let mut stats = removed.stats;
        stats.view.versions = versions.into();
        stats.now = self.stats.now;
        stats.head = self.stats.head;
        assert_eq!(format!("{stats:?}"), format!("{:?}", self.stats));
        assert_eq!(removed.windows, self.windows);
        for version in 1..=self.stats.view.version {
            let definition = reader.removed_version(&id, version).await.unwrap();
            assert_eq!(definition.unwrap().id, id);
        }
        let none = reader.removed_version(&id, self.stats.view.version + 1);
        assert!(none.await.unwrap().is_none());
        let listed = reader.removed(Removed::After("", 10)).await.unwrap();
        assert_eq!(listed.len(), 1);
        let later = reader.removed(Removed::After(SPRING, 10)).await.unwrap();
        assert_eq!(later.len(), 0);
    }
}

fn reader(world: &World, place: &Place) -> Arc<dyn LedgerReader> {
    match place {
        Place::Postgres(database) => {
            let store_id = &world.store().info().store_id;
            Arc::new(PostgresReader::new(database.url(), store_id))
        }
        Place::Embedded(tables) => Arc::new(SqliteReader::new(tables.clone())),
        Place::Directory(_) => panic!("a directory cannot be read"),
    }
}

/// The author of a change that another identity proposed.
fn approver() -> Author {
    let approved = Approved {
        id: ProposalId::parse("0123456789ab").unwrap(),
        operator: OperatorId::parse("operator", "ann").unwrap(),
        on_behalf_of: None,
        reason: String::new(),
        at: Moment::EPOCH,
    };
    Author {
        approved: Some(Box::new(approved)),
        ..author(&new_request())
    }
}

/// A campaign of two versions with draws, wins, a delivery and a block, closed.
async fn closed(world: &World) -> WonUnit {
    let begun = world.begin(YAML).await;
    world.tick().await;
    draws(world, 0).await;
    let changed = campaign(&YAML.replace("coupon: 100}", "coupon: 90}"));
    let applied = world.injector().apply(changed, 1, approver());
    applied.await.unwrap();
    world.set_time(begun.start + hours(2)).await;
    world.tick().await;
    draws(world, 1).await;
    let answer = world.draw(draw("winner").named("won").times(50)).await;
    let win = answer.won_units().remove(0);
    let users = vec![user("user-1")];
    world.operate(Operation::Block { users }).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    win
}

fn deliver(win: &WonUnit) -> WinCommand {
    let reference = "parcel".into();
    WinCommand {
        campaign: campaign_id(SPRING),
        win: win.clone(),
        operation: WinOperation::Deliver { reference },
        author: author(&new_request()),
    }
}

/// Looks at closed campaigns, and removes what may leave.
async fn remove(store: &dyn Store, place: &Place, of: &Arc<dyn Store>) {
    let mut sink = place.open(of).await;
    let mut removals = Removals::after(KEEP);
    while removals.work(store, &mut *sink).await.unwrap() {}
}

async fn is_in_store(world: &World) -> bool {
    match world.store().campaign(&campaign_id(SPRING)).await {
        Ok(_) => true,
        Err(StoreError::Refused(Refusal::Removed { .. })) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn leaves(world: &World, place: &Place) {
    let win = closed(world).await;
    let store = world.store();
    let (mut carrier, mut sink) = place.settler(store).await;
    settle_all(&mut carrier, &mut *sink).await;
    remove(&**store, place, store).await;
    assert!(is_in_store(world).await, "it was closed just now");
    world.pass(KEEP).await;
    store.operate_win(deliver(&win)).await.unwrap();
    world.pass(KEEP).await;
    remove(&**store, place, store).await;
    assert!(is_in_store(world).await, "its last entry is not settled");
    settle_all(&mut carrier, &mut *sink).await;
    let before = Before::read(world).await;
    remove(&**store, place, store).await;
    assert!(!is_in_store(world).await);
    let reader = reader(world, place);
    before.assert_kept(&*reader).await;
    let id = campaign_id(SPRING);
    let request = crate::support::request("won");
    let found = reader.draw(&id, &user("winner"), &request).await.unwrap();
    assert!(found.is_some());
    let other = reader.draw(&id, &user("user-1"), &request).await.unwrap();
    assert_eq!(other, None);
    let left = store.closed_campaigns(store.partition_of(SPRING), Duration::ZERO, None, 10);
    assert_eq!(left.await.unwrap(), Vec::<ClosedCampaign>::new());
    let applied = world.try_apply(campaign(YAML), 0).await;
    assert!(matches!(
        applied,
        Err(StoreError::Refused(Refusal::Removed { .. }))
    ));
    // The partition goes on: the last settled entry, which the store keeps, reads back.
    let times = "startTime: 2027-09-01T00:00:00+08:00\n    endTime: 2027-09-20T00:00:00+08:00";
    world
        .begin(&format!("\n    id: autumn\n    {times}{YAML}"))
        .await;
    assert!(settle_all(&mut carrier, &mut *sink).await > 0);
    place.entries().await;
    // Draws are forgotten by now, so the store gives up their entries.
    world.tick().await;
    place.settler(store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_leaves_a_store_in_memory_for_postgres() {
    let world = World::new(InMemory::new()).await;
    leaves(&world, &Place::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_leaves_an_embedded_store_for_postgres() {
    let world = World::new(Embedded::new()).await;
    leaves(&world, &Place::postgres().await).await;
    no_row_is_left(&world, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_leaves_an_embedded_store_for_tables_of_its_own_file() {
    let world = World::new(Embedded::new()).await;
    let place = Place::own_file(&world);
    leaves(&world, &place).await;
    no_row_is_left(&world, false).await;
}

/// Rows of the first campaign. The salt is the sink's if it is in the same file.
async fn no_row_is_left(world: &World, is_salt_gone: bool) {
    let place = Place::own_file(world);
    for table in TABLES {
        let sql = format!("SELECT count(*) FROM {table} WHERE campaign = 1");
        assert_eq!(place.number(&sql).await, 0, "{table}");
    }
    let salts = "SELECT count(*) FROM salts WHERE campaign = 'spring'";
    assert_eq!(place.number(salts).await, i64::from(!is_salt_gone));
    let ledger = "SELECT count(*) FROM ledger WHERE campaign = 1";
    assert!(
        place.number(ledger).await <= 1,
        "only the last settled entry may be left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_leaves_redis_for_postgres_and_gives_its_memory_back() {
    let host = OnRedis::single().undivided();
    let (url, tag) = (host.url(), host.tag());
    let world = World::new(host).await;
    let place = Place::postgres().await;
    leaves(&world, &place).await;
    let list = Script::new(&["return redis.call('KEYS', ARGV[1])"]);
    let connections = Connections::new(&RedisUrl::parse(&url).unwrap(), 1).unwrap();
    let (keys, args) = (
        [format!("{tag}partition")].into(),
        [format!("{tag}*")].into(),
    );
    let found = connections.run(&list, &keys, &args).await.unwrap();
    let mut found: Vec<String> = redis::from_redis_value(found).unwrap();
    found.retain(|key| !key.contains(":autumn"));
    found.sort();
    let left = [
        "campaigns",
        "campaigns:due",
        "campaigns:removed",
        "ledger",
        "partition",
        "salts",
    ];
    assert_eq!(found, left.map(|key| format!("{tag}{key}")));
    let salt = Script::new(&["return redis.call('HEXISTS', KEYS[1], 'spring')"]);
    let (keys, args) = ([format!("{tag}salts")].into(), [""].into());
    let has_salt = connections.run(&salt, &keys, &args).await.unwrap();
    assert_eq!(redis::from_redis_value::<u8>(has_salt).unwrap(), 0);
}

/// Delivers a win just before a tombstone is written.
struct Faster {
    store: Arc<dyn Store>,
    win: WonUnit,
}

#[async_trait]
impl Meddler for Faster {
    async fn before_removal(&self) {
        self.store.operate_win(deliver(&self.win)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_before_an_act_that_is_faster_is_kept_anew() {
    let world = World::new(OnRedis::single()).await;
    let place = Place::postgres().await;
    let win = closed(&world).await;
    let store = world.store().clone();
    let (mut carrier, mut sink) = place.settler(&store).await;
    settle_all(&mut carrier, &mut *sink).await;
    world.pass(KEEP + DAY).await;
    let faster = Faster {
        store: store.clone(),
        win,
    };
    remove(&*world.store_with(faster), &place, &store).await;
    assert!(is_in_store(&world).await);
    let reader = reader(&world, &place);
    let kept = reader.removed(Removed::After("", 10)).await.unwrap();
    assert_eq!(kept.len(), 1, "written before the tombstone");
    assert_eq!(kept[0].stats.entries + 1, world.stats().await.entries);
    settle_all(&mut carrier, &mut *sink).await;
    world.pass(KEEP).await;
    let before = Before::read(&world).await;
    remove(&*store, &place, &store).await;
    assert!(!is_in_store(&world).await);
    before.assert_kept(&*reader).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_compares_what_is_kept_with_the_entries() {
    let world = World::new(OnRedis::single()).await;
    let place = Place::postgres().await;
    let Place::Postgres(database) = &place else {
        unreachable!()
    };
    leaves(&world, &place).await;
    let findings = async || {
        let mut source = PostgresSource::open(&database.url()).await.unwrap();
        let outcome = audit(&mut source, Audit::default(), |_| ()).await.unwrap();
        assert_eq!(outcome.compared, 1);
        Check::ALL.map(|check| outcome.findings.count(check))
    };
    assert_eq!(findings().await, [0; 8]);
    let changed = "UPDATE tombola.removed_campaigns SET wins = wins + 1 RETURNING 1::bigint";
    database.number(changed).await;
    assert_eq!(findings().await, [0, 1, 0, 0, 0, 0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_of_a_removed_campaign_outlive_the_month_of_their_entries() {
    let world = World::new(InMemory::new()).await;
    let place = Place::postgres().await;
    closed(&world).await;
    let store = world.store();
    let (mut carrier, mut sink) = place.settler(store).await;
    settle_all(&mut carrier, &mut *sink).await;
    world.pass(KEEP + DAY).await;
    remove(&**store, &place, store).await;
    assert!(!is_in_store(&world).await);
    let database = place.database();
    // As if old months were dropped.
    let dropped = "DELETE FROM tombola.entries";
    database.server.query(&database.name, dropped).await;
    let (reader, id) = (reader(&world, &place), campaign_id(SPRING));
    let definitions = Definitions::default();
    for (version, is_known) in [(1, true), (2, true), (3, false)] {
        let found = definitions.version(&**store, &*reader, &id, version);
        assert_eq!(found.await.unwrap().is_some(), is_known, "{version}");
    }
    let newest = definitions.newest(&**store, &*reader, &id).await.unwrap();
    let second = definitions.version(&**store, &*reader, &id, 2);
    assert_eq!(newest, second.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_stays_in_a_store_whose_sink_cannot_be_read() {
    let world = World::new(OnRedis::single()).await;
    let directory = tempfile::tempdir().unwrap();
    let place = Place::Directory(tombola::ledger::DirectoryTarget {
        path: directory.path().to_owned(),
        file_bytes_max: 1 << 20,
    });
    closed(&world).await;
    let store = world.store();
    let (mut carrier, mut sink) = place.settler(store).await;
    settle_all(&mut carrier, &mut *sink).await;
    world.pass(KEEP + DAY).await;
    drop(sink);
    remove(&**store, &place, store).await;
    assert!(is_in_store(&world).await);
}

/// All further calls over it would fail: the settler takes a new connection.
#[tokio::test(flavor = "multi_thread")]
async fn removals_end_with_their_connection_and_go_on_over_a_new_one() {
    let world = World::new(InMemory::new()).await;
    let place = Place::postgres().await;
    closed(&world).await;
    let store = world.store();
    let (mut carrier, mut sink) = place.settler(store).await;
    settle_all(&mut carrier, &mut *sink).await;
    world.pass(KEEP + DAY).await;
    let database = place.database();
    // Once as the partition is looked at, once as the campaign is.
    for text in ["FROM tombola.cursors", "SELECT number FROM tombola.entries"] {
        let (port, _) = port_until(text, When::Before, database.server.port()).await;
        let url = Postgres::url_at(port, "postgres", &database.name);
        let url = PostgresUrl::parse(&url).unwrap();
        let sink = PostgresSink::open(&url, &store.info().store_id).await;
        let mut removals = Removals::after(KEEP);
        let worked = removals.work(&**store, &mut sink.unwrap()).await;
        let error = worked.expect_err(text);
        assert!(error.is_of_connection(), "{text}: {error}");
        assert!(is_in_store(&world).await);
    }
    let client = database.server.connect(&database.name).await;
    let end = "SELECT pg_terminate_backend(pg_backend_pid())";
    let ended = client.batch_execute(end).await.unwrap_err();
    assert!(!ended.is_closed());
    assert!(SinkError::from(ended).is_of_connection());
    // A refusal leaves the connection as it is.
    let rename = async |from: &str, to: &str| {
        let sql = format!("ALTER TABLE tombola.{from} RENAME TO {to}");
        database.server.query(&database.name, &sql).await;
    };
    rename("removed_campaigns", "away").await;
    remove(&**store, &place, store).await;
    assert!(is_in_store(&world).await);
    rename("away", "removed_campaigns").await;
    remove(&**store, &place, store).await;
    assert!(!is_in_store(&world).await);
}
