//! The embedded store in a temporary directory, with a clock that stands still until the test moves
//! it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use tombola::{
    model::Moment,
    store::{
        Store,
        clock::{Clock as _, ManualClock},
        sqlite::{DATABASE_FILE, DirectoryLock, OpenError, Options, SqliteStore},
    },
};

use super::world::{Host, LONG_BEFORE, key};

const REQUEST_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);

/// Changes the tables back to schema version 2.
pub const WITHOUT_INDEX: &str = "
    INSERT OR REPLACE INTO users (campaign, user, request, sequence)
    SELECT campaign, user, latest, sequence FROM users WHERE latest IS NOT NULL;
    UPDATE users SET sequence = NULL WHERE request = '';
    ALTER TABLE users DROP COLUMN latest;
    INSERT OR REPLACE INTO users (campaign, user, request, day, free_today, paid_today, draws,
                                  bonus_used, wins, bonus, more)
    SELECT campaign, user, '', day, free_today, paid_today, draws, bonus_used, wins, bonus, more
    FROM changed_users WHERE draws IS NOT NULL ORDER BY no;
    INSERT OR REPLACE INTO users (campaign, user, request, sequence)
    SELECT campaign, user, request, sequence
    FROM changed_users WHERE sequence IS NOT NULL ORDER BY no;
    DROP TABLE changed_users;
    DROP INDEX operations_by_sequence;
    DROP INDEX campaigns_by_due; ALTER TABLE campaigns DROP COLUMN due;
    ALTER TABLE campaigns DROP COLUMN holds; ALTER TABLE blocked DROP COLUMN note;
    ALTER TABLE stock DROP COLUMN forfeited; ALTER TABLE stock DROP COLUMN revoked;
    ALTER TABLE ledger DROP COLUMN number; ALTER TABLE ledger DROP COLUMN fork;
    ALTER TABLE units DROP COLUMN fork;
    ALTER TABLE campaigns DROP COLUMN entries;
    DROP INDEX campaigns_by_close; ALTER TABLE campaigns DROP COLUMN closed;
    ALTER TABLE campaigns DROP COLUMN removed;
    DROP TABLE cursors; DROP TABLE orphans; DROP TABLE entries; DROP TABLE wins; DROP TABLE prizes;
    DROP TABLE salts; DROP TABLE quarantine; DROP TABLE deliveries; DROP TABLE erasures;
    ALTER TABLE users DROP COLUMN more;
    DROP TABLE codes;
    ALTER TABLE stock DROP COLUMN skipped;
    ALTER TABLE campaigns DROP COLUMN spent_day; ALTER TABLE campaigns DROP COLUMN spent_today;
    DROP TABLE proposals; DROP TABLE proposed; ALTER TABLE versions DROP COLUMN proposed_by;
    DROP TABLE activity;
    DROP TABLE removed_campaigns; DROP TABLE removed_versions; PRAGMA user_version = 2;
";

/// The data of an embedded store, and its clock.
pub struct Embedded {
    directory: TempDir,
    clock: Arc<ManualClock>,
}

impl Embedded {
    /// A new, empty store.
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(super::at(LONG_BEFORE))),
        }
    }
}

#[async_trait]
impl Host for Embedded {
    async fn open(&self) -> Arc<dyn Store> {
        let options = Options {
            directory: self.directory.path().to_owned(),
            clock: self.clock.clone(),
            request_memory: REQUEST_MEMORY,
            key_fingerprint: key().fingerprint(),
        };
        loop {
            match SqliteStore::open(options.clone()) {
                Ok(store) => return Arc::new(store),
                // An injector that deals ahead may still hold the closed store.
                Err(OpenError::InUse(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn remove_index(&self) {
        let directory = self.directory.path();
        let _lock = loop {
            match DirectoryLock::take(directory) {
                Ok(lock) => break lock,
                Err(OpenError::InUse(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let db = Connection::open(directory.join(DATABASE_FILE)).unwrap();
        db.execute_batch(WITHOUT_INDEX).unwrap();
    }

    async fn set_time(&self, now: Moment) {
        self.clock.set(now);
    }

    fn time(&self) -> Moment {
        self.clock.now()
    }
}
