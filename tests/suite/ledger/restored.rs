//! A restored store goes on with a fork. It is settled only if the entry before the fork is: the
//! settler skips what the store wrote before the fork.

use std::{fs, sync::Arc};

use tempfile::TempDir;
use tombola::{
    ledger::Sink as _,
    model::Moment,
    store::{
        Backup, Operation, Store,
        clock::ManualClock,
        sqlite::{DATABASE_FILE, Options, SqliteStore},
    },
};

use super::{Database, settle_all, settled::YAML, settler};
use crate::support::{World, author, embedded::Embedded, hours, words::new_request, world::key};

/// A restored store.
struct Restored {
    store: Arc<dyn Store>,
    _data: TempDir,
}

impl Restored {
    /// Restores a backup at this time. The numbers of its fork follow from the time.
    async fn of(backup: &Backup, now: Moment) -> Self {
        Self::beyond(backup, now, 0).await
    }

    /// The same, but that the numbers are also beyond this one, which is known to be lost.
    async fn beyond(backup: &Backup, now: Moment, lost: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        fs::copy(backup.path(), data.path().join(DATABASE_FILE)).unwrap();
        let options = Options {
            directory: data.path().to_owned(),
            clock: Arc::new(ManualClock::at(now)),
            request_memory: hours(24),
            key_fingerprint: key().fingerprint(),
        };
        let store = SqliteStore::open_backup(options).unwrap();
        let author = author(&new_request());
        store.begin_fork(&author, lost).await.unwrap();
        Self {
            store: Arc::new(store),
            _data: data,
        }
    }
}

async fn back_up(world: &World) -> Backup {
    world.store().backup().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_goes_on_after_an_entry_that_is_not_settled_is_refused() {
    let (world, database) = (World::new(Embedded::new()).await, Database::new().await);
    let (url, begun) = (database.url(), world.begin(YAML).await.start);
    let (mut carrier, mut sink) = settler(world.store(), &url).await;
    settle_all(&mut carrier, &mut sink).await;
    let settled = back_up(&world).await;
    world.operate(Operation::Pause).await;
    let newer = back_up(&world).await;
    assert!(newer.head > settled.head);

    let restored = Restored::of(&settled, begun + hours(1)).await;
    let (mut carrier, mut sink) = settler(&restored.store, &url).await;
    assert!(settle_all(&mut carrier, &mut sink).await > 0);

    // The pause was never settled, and its number is below those that are.
    let other = Restored::of(&newer, begun + hours(2)).await;
    let count = "SELECT count(*) FROM tombola.entries";
    let before = database.number(count).await;
    let (mut carrier, mut sink) = settler(&other.store, &url).await;
    let refused = carrier.settle(&mut sink, 0).await.unwrap_err().to_string();
    let after = format!("goes on after entry {} of partition 0", newer.head);
    assert!(refused.starts_with("LEDGER_ROLLED_BACK"), "{refused}");
    assert!(refused.contains(&after), "{refused}");
    assert_eq!(database.number(count).await, before);

    let again = Restored::of(&settled, begun + hours(3)).await;
    let (mut carrier, mut sink) = settler(&again.store, &url).await;
    assert!(settle_all(&mut carrier, &mut sink).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_restored_again_after_the_clock_was_set_back_is_settled() {
    let (world, database) = (World::new(Embedded::new()).await, Database::new().await);
    let (url, begun) = (database.url(), world.begin(YAML).await.start);
    let (mut carrier, mut sink) = settler(world.store(), &url).await;
    settle_all(&mut carrier, &mut sink).await;
    let backup = back_up(&world).await;

    let ahead = Restored::of(&backup, begun + hours(48)).await;
    let (mut carrier, mut sink) = settler(&ahead.store, &url).await;
    assert!(settle_all(&mut carrier, &mut sink).await > 0);
    let settled = ahead.store.head(0).await.unwrap();

    let again = Restored::beyond(&backup, begun + hours(1), settled).await;
    assert!(again.store.head(0).await.unwrap() > settled);
    let (mut carrier, mut sink) = settler(&again.store, &url).await;
    assert!(settle_all(&mut carrier, &mut sink).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_missing_only_if_earlier_ones_are_settled() {
    let (world, database) = (World::new(Embedded::new()).await, Database::new().await);
    world.begin(YAML).await;
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    let last = settle_all(&mut carrier, &mut sink).await as u64;
    assert!(last > 0);
    for sequence in 0..=last {
        assert!(sink.has_entry(0, sequence).await.unwrap(), "{sequence}");
    }
    assert!(!sink.has_entry(0, last + 1).await.unwrap());
    // Nothing of this partition is settled.
    assert!(sink.has_entry(1, last + 1).await.unwrap());
    // As if old months were dropped.
    let dropped = "DELETE FROM tombola.entries";
    database.server.query(&database.name, dropped).await;
    assert!(sink.has_entry(0, last + 1).await.unwrap());
}
