//! Stores on Redis, each under a key prefix of its own, with a clock that stands until the test moves it.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tombola::{
    model::Moment,
    store::{
        Durability, Store,
        clock::{Clock as _, ManualClock},
        redis::{Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl},
    },
};

use super::{
    redis_group::RedisCluster,
    redis_server::RedisServer,
    world::{Host, LONG_BEFORE, key},
};

const REQUEST_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);
/// More than one, so that campaigns may lie in different ones.
const PARTITIONS: u32 = 3;

/// Data of a store on Redis, and its time.
pub struct OnRedis {
    options: Options,
    clock: Arc<ManualClock>,
    _server: Arc<dyn Any + Send + Sync>,
}

impl OnRedis {
    /// A new, empty one on the server that tests share.
    pub fn single() -> Self {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
        let server = share(&SHARED, || RedisServer::start(&[]));
        Self::at(&server.url(), server)
    }

    /// A new, empty one on the cluster that tests share.
    pub fn cluster() -> Self {
        static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
        let cluster = share(&SHARED, RedisCluster::start);
        Self::at(&cluster.url(), cluster)
    }

    /// A new, empty one on this Redis, which lives as long.
    pub fn at(url: &str, server: Arc<dyn Any + Send + Sync>) -> Self {
        static STORES: AtomicU32 = AtomicU32::new(0);
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let clock = Arc::new(ManualClock::at(super::at(LONG_BEFORE)));
        let options = Options {
            url: RedisUrl::parse(url).unwrap(),
            prefix: KeyPrefix::parse(&format!("test{number}")).unwrap(),
            partitions: PARTITIONS,
            durability: Durability::Local,
            level: LevelOptions::default(),
            clock: Some(clock.clone()),
            request_memory: REQUEST_MEMORY,
            store_id: None,
        };
        Self {
            options,
            clock,
            _server: server,
        }
    }
}

impl OnRedis {
    /// The same, but all of it in one partition, before anything is there.
    pub fn undivided(mut self) -> Self {
        self.options.partitions = 1;
        self
    }

    /// The same at another level, before anything is there.
    pub fn keeping(mut self, durability: Durability, level: LevelOptions) -> Self {
        self.options.durability = durability;
        self.options.level = level;
        self
    }

    /// What its keys begin with, where it is undivided.
    pub fn tag(&self) -> String {
        format!("{}{{0}}:", self.options.prefix.as_str())
    }

    /// The same data for a service that remembers requests for another time.
    pub fn remembering(&self, request_memory: Duration) -> Self {
        Self {
            options: Options {
                request_memory,
                ..self.options.clone()
            },
            clock: self.clock.clone(),
            _server: self._server.clone(),
        }
    }
}

/// What others use, or a new one where nobody does: so it ends with the last test.
fn share<T>(shared: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Arc<T> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let started = Arc::new(start());
        *shared = Arc::downgrade(&started);
        started
    })
}

#[async_trait]
impl Host for OnRedis {
    async fn open(&self) -> Arc<dyn Store> {
        let found = Found::look(self.options.clone()).await;
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let store = RedisStore::open(found, &key().fingerprint()).await;
        Arc::new(store.unwrap_or_else(|error| panic!("{error}")))
    }

    async fn open_another(&self) -> Option<Arc<dyn Store>> {
        Some(self.open().await)
    }

    async fn set_time(&self, now: Moment) {
        self.clock.set(now);
    }

    fn time(&self) -> Moment {
        self.clock.now()
    }
}
