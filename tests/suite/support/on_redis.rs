//! Stores on Redis, each under its own key prefix, with a clock that stands still until the test
//! moves it.

use std::{
    any::Any,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tombola::{
    model::Moment,
    store::{
        Durability, Store,
        clock::{Clock as _, ManualClock},
        redis::{
            Connections, FORK_PAUSE, Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl,
            Script,
        },
    },
};

use super::{
    program::Program,
    redis_group::RedisCluster,
    redis_server::RedisServer,
    world::{Host, LONG_BEFORE, key},
};

const REQUEST_MEMORY: Duration = Duration::from_secs(24 * 60 * 60);
/// More than one, so that campaigns can be in different partitions.
const PARTITIONS: u32 = 3;

/// The data of a store on Redis, and its clock.
pub struct OnRedis {
    url: String,
    options: Options,
    clock: Arc<ManualClock>,
    /// The store is created once: a service that opens it later never creates it again.
    made: Arc<OnceCell<()>>,
    _server: Arc<dyn Any + Send + Sync>,
}

impl OnRedis {
    /// A new, empty store on the server that tests share.
    pub fn single() -> Self {
        Self::single_of(Program::System)
    }

    /// A new, empty store on the shared server of this program.
    pub fn single_of(program: Program) -> Self {
        static SHARED: [Mutex<Weak<RedisServer>>; Program::ALL.len()] =
            [const { Mutex::new(Weak::new()) }; Program::ALL.len()];
        let server = share(&SHARED[program as usize], || {
            RedisServer::start_as(program, &[])
        });
        Self::at(&server.url(), server)
    }

    /// A new, empty store on the cluster that tests share.
    pub fn cluster() -> Self {
        Self::cluster_of(Program::System)
    }

    /// A new, empty store on the shared cluster of this program.
    pub fn cluster_of(program: Program) -> Self {
        static SHARED: [Mutex<Weak<RedisCluster>>; Program::ALL.len()] =
            [const { Mutex::new(Weak::new()) }; Program::ALL.len()];
        let cluster = share(&SHARED[program as usize], || {
            RedisCluster::start_as(program)
        });
        Self::at(&cluster.url(), cluster)
    }

    /// A new, empty store on this Redis. It keeps `server` alive.
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
            fork_pause: FORK_PAUSE,
            store_id: None,
        };
        Self {
            url: url.into(),
            options,
            clock,
            made: Arc::default(),
            _server: server,
        }
    }
}

impl OnRedis {
    /// The same with a single partition; call it before anything is stored.
    pub fn undivided(mut self) -> Self {
        self.options.partitions = 1;
        self
    }

    /// The same at another durability level; call it before anything is stored.
    pub fn keeping(mut self, durability: Durability, level: LevelOptions) -> Self {
        self.options.durability = durability;
        self.options.level = level;
        self
    }

    /// The same with another pause before a fork takes writes.
    pub fn pausing(mut self, fork_pause: Duration) -> Self {
        self.options.fork_pause = fork_pause;
        self
    }

    /// The URL of its Redis.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The prefix of its keys if there is a single partition.
    pub fn tag(&self) -> String {
        format!("{}{{0}}:", self.options.prefix.as_str())
    }

    /// The same data for a service with another request memory.
    pub fn remembering(&self, request_memory: Duration) -> Self {
        Self {
            url: self.url.clone(),
            options: Options {
                request_memory,
                ..self.options.clone()
            },
            clock: self.clock.clone(),
            made: self.made.clone(),
            _server: self._server.clone(),
        }
    }
}

/// The server that other tests use now, or a new one. It ends with the last test that uses it.
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
        let fingerprint = key().fingerprint();
        let found = Found::look(self.options.clone()).await;
        let mut found = found.unwrap_or_else(|error| panic!("{error}"));
        let (empty, of) = (&mut found, &fingerprint);
        let make = move || async move {
            let made = empty.init(of).await;
            made.unwrap_or_else(|error| panic!("{error}"));
        };
        self.made.get_or_init(make).await;
        let store = RedisStore::open(found, &fingerprint).await;
        Arc::new(store.unwrap_or_else(|error| panic!("{error}")))
    }

    async fn open_another(&self) -> Option<Arc<dyn Store>> {
        Some(self.open().await)
    }

    async fn remove_index(&self) {
        let connections = Connections::new(&self.options.url, 1).unwrap();
        let remove = Script::new(&["return redis.call('DEL', KEYS[1])"]);
        for partition in 0..self.options.partitions {
            let prefix = self.options.prefix.as_str();
            let key = format!("{prefix}{{{partition}}}:campaigns:due");
            let (keys, args) = ([key].into(), [""].into());
            connections.run(&remove, &keys, &args).await.unwrap();
        }
    }

    async fn set_time(&self, now: Moment) {
        self.clock.set(now);
    }

    fn time(&self) -> Moment {
        self.clock.now()
    }
}
