//! The stores that a console may be on.

use tempfile::TempDir;
use tombola::ledger::{PostgresSink, PostgresUrl};

use crate::{
    faults::redis::{PARTITIONS, directory_with_key},
    process::{NOW, Start},
    support::{postgres::Postgres, redis_group::RedisCluster, redis_server::RedisServer},
};

/// An empty store with what it runs on. Its clock is the test clock.
pub(super) struct Ground {
    data: TempDir,
    /// Where Redis is; none for the embedded store.
    url: Option<String>,
    /// Further options of `serve`.
    line: String,
    servers: Servers,
}

#[derive(Default)]
struct Servers {
    redis: Option<RedisServer>,
    _cluster: Option<RedisCluster>,
    _postgres: Option<Postgres>,
}

impl Ground {
    /// The embedded store, which settles its own ledger.
    pub(super) fn embedded() -> Self {
        Self::new(None, "", Servers::default())
    }

    /// A Redis Cluster, with a ledger that nothing settles.
    pub(super) fn cluster() -> Self {
        let cluster = RedisCluster::start();
        let url = cluster.url();
        let servers = Servers {
            _cluster: Some(cluster),
            ..Servers::default()
        };
        // Its nodes have no replicas.
        Self::new(Some(url), "--durability local", servers)
    }

    /// The same, with a ledger that is settled into PostgreSQL.
    pub(super) async fn cluster_with_postgresql() -> Self {
        Self::cluster().settled().await
    }

    /// A Redis server, with a ledger that is settled into PostgreSQL.
    pub(super) async fn redis_with_postgresql() -> Self {
        let redis = RedisServer::start(&[]);
        let url = redis.url();
        let servers = Servers {
            redis: Some(redis),
            ..Servers::default()
        };
        Self::new(Some(url), "", servers).settled().await
    }

    /// Has the ledger settled into a PostgreSQL of its own.
    async fn settled(self) -> Self {
        let postgres = Postgres::start();
        let ledger = postgres.database("ledger").await;
        let parsed = PostgresUrl::parse(&ledger).unwrap();
        assert!(PostgresSink::migrate(&parsed).await.unwrap());
        Self {
            line: format!("{} --postgres-url {ledger}", self.line),
            servers: Servers {
                _postgres: Some(postgres),
                ..self.servers
            },
            ..self
        }
    }

    /// The same, with a role that may erase users from PostgreSQL.
    pub(super) fn erasing(mut self) -> Self {
        let (_, ledger) = self.line.split_once("--postgres-url ").unwrap();
        self.line = format!("{} --postgres-eraser-url {ledger}", self.line);
        self
    }

    fn new(url: Option<String>, line: &str, servers: Servers) -> Self {
        let ground = Self {
            data: match url {
                Some(_) => directory_with_key(),
                None => tempfile::tempdir().unwrap(),
            },
            url,
            line: line.into(),
            servers,
        };
        if ground.url.is_some() {
            ground.on_store().init().well();
        }
        ground
    }

    fn on_store(&self) -> Start<'_> {
        let start = match &self.url {
            Some(url) => Start::on_redis(self.data.path(), url).at(NOW.into()),
            None => Start::on(self.data.path()),
        };
        start.with(&self.line)
    }

    /// A server with a console on Redis that settles nothing, at a moment of the test clock.
    pub(super) fn unsettled_at(&self, clock: &str) -> Start<'_> {
        let url = self.url.as_deref().unwrap();
        let start = Start::on_redis(self.data.path(), url).at(clock.into());
        start.with("--console 127.0.0.1:0")
    }

    /// Hides a campaign from all injectors: the index of due campaigns says that it is due long
    /// after the test.
    pub(super) fn hide_from_injectors(&self, campaign: &str) {
        const LATER_US: &str = "1990000000000000";
        let redis = self.servers.redis.as_ref().unwrap();
        for partition in 0..PARTITIONS {
            let key = format!("tombola{{{partition}}}:campaigns:due");
            redis.command(&["ZADD", &key, "XX", LATER_US, campaign]);
        }
    }

    /// A server with a console.
    pub(super) fn start(&self) -> Start<'_> {
        self.on_store().with("--console 127.0.0.1:0")
    }
}
