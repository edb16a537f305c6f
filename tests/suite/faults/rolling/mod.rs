//! The replicas of a service are replaced one after another while clients draw, as a Deployment
//! does it with the times of the manifests in `deploy/`: no call fails for good, every request has
//! one outcome, streams go on, and nothing is lost.
//!
//! `TOMBOLA_ROLLS` sets how often the whole ring is replaced, `TOMBOLA_SEED` what is drawn.

mod callers;
mod entrance;
mod follower;
mod ring;
mod upgrade;

use std::time::Duration;

use tombola::ledger::{PostgresSink, PostgresUrl};

use self::{
    callers::Callers,
    entrance::{Entrance, Guarded},
    follower::Follower,
    ring::Ring,
};
use super::{
    book::Book,
    failover::group::{Group, Layout},
    kill::setting,
    load,
    redis::{PARTITIONS, directory_with_key},
};
use crate::{
    deploy::times::Times,
    ledger::{
        Database,
        kill::{assert_sums, caught_up},
    },
    process::{Server, Start},
    support::{postgres::Postgres, program::Program, redis_server::RedisServer},
};

/// The times of the manifests are this many times shorter.
const FASTER: u32 = 10;
/// Draws that are answered between two steps.
const DRAWS: u64 = 60;
/// Streams that follow the ledger, each from another replica.
const FOLLOWERS: usize = 2;
/// Why a stream ends at a replica that stops.
const STOPPED: &str = "WATCH_ENDED";
/// Why a stream ends if the replica does not reach its store, or must not use it.
const UNAVAILABLE: &str = "STORE_UNAVAILABLE";

/// An empty ledger in a PostgreSQL of its own.
async fn database() -> Database {
    let server = Postgres::start();
    let url = PostgresUrl::parse(&server.database("ledger").await).unwrap();
    assert!(PostgresSink::migrate(&url).await.unwrap());
    Database {
        server: server.into(),
        name: "ledger".into(),
    }
}

/// The options of a replica, as the manifests have them.
fn options(times: &Times, database: &Database) -> String {
    let millis = |span: Duration| format!("{}ms", span.as_millis());
    format!(
        "--admin 127.0.0.1:0 --drain-delay {} --max-connection-age {} {}",
        millis(times.drain_delay),
        millis(times.connection_age),
        settling(database),
    )
}

/// The options of a server that settles.
fn settling(database: &Database) -> String {
    format!("--postgres-url {}", database.url_text())
}

/// Streams that follow the ledger, and may end for these reasons.
fn followers(ring: &Ring<'_>, ends: &'static [&'static str]) -> Vec<Follower> {
    let numbers = 0..FOLLOWERS;
    numbers
        .map(|number| Follower::start(ring.endpoints(), number, ends))
        .collect()
}

/// Why streams may end. On a busy machine sentinels may replace their primary.
fn ends(layout: Layout) -> &'static [&'static str] {
    match layout {
        Layout::Single => &[STOPPED],
        Layout::Sentinel | Layout::Cluster => &[STOPPED, UNAVAILABLE],
    }
}

/// Everything adds up: what callers heard, what followers saw, what is settled, and what the store
/// has, as this server says, which ends no connection.
async fn adds_up(
    (primary, partitions): (&RedisServer, u32),
    database: &Database,
    server: &Server,
    (callers, followers): (Callers, Vec<Follower>),
) {
    let attempts = callers.end().await;
    let mut book = Book::default();
    book.settle(server, attempts).await;
    caught_up(primary, database, partitions).await;
    assert_sums(server, database).await;
    let twice = "SELECT count(*) - count(DISTINCT (campaign, user_id, request_id))
                 FROM tombola.entries WHERE kind = 'draw'";
    assert_eq!(database.number(twice).await, 0, "draws of one request");
    let draws = database.entries().await;
    let draws: Vec<_> = draws.iter().filter(|it| it.body.kind() == "draw").collect();
    for follower in followers {
        follower.has_seen(&draws).await;
    }
    let url = database.url_text();
    server.run(&["audit", "--postgres-url", &url]).well();
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_are_replaced_under_load_and_no_call_fails() {
    are_replaced((Layout::Single, "local"), Entrance::default(), "").await;
}

/// As the overlay `production` has it: over TLS, by callers with a token.
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_that_know_their_callers_are_replaced_under_load_and_no_call_fails() {
    let guarded = Guarded::new();
    let on = (Layout::Single, "local");
    are_replaced(on, guarded.entrance(), &guarded.options()).await;
}

/// Every answer waits until a majority of the Redis servers has the draw.
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_on_sentinel_at_strict_are_replaced_under_load_and_no_call_fails() {
    are_replaced((Layout::Sentinel, "strict"), Entrance::default(), "").await;
}

/// Replaces replicas on a store of this layout and durability, which have these further options and
/// to which callers come like this.
async fn are_replaced((layout, durability): (Layout, &str), entrance: Entrance, more: &str) {
    let rolls = setting("TOMBOLA_ROLLS").unwrap_or(2);
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_ROLLS={rolls}");
    let times = Times::of_production().faster(FASTER);
    let mut group = Group::start(layout, Program::System);
    let (data, url) = (directory_with_key(), group.url());
    let on_store = || {
        let start = Start::on_redis(data.path(), &url);
        start.with(&format!("--durability {durability}"))
    };
    on_store().init().well();
    let database = database().await;
    let options = options(&times, &database);
    let start = |listen: &str| {
        let start = on_store().with(&options).with(more);
        Start { listen, ..start }.serve()
    };
    // A server of its own, which asks nobody who it is.
    load::apply_now(&on_store().serve()).await;
    let mut ring = Ring::start_behind(entrance, times, start).await;
    assert_eq!(ring.servers.len(), 3);
    let callers = Callers::start(ring.endpoints(), seed, times.connection_age);
    let followers = followers(&ring, ends(layout));
    callers.go_on(DRAWS).await;
    for roll in 0..rolls {
        if roll % 2 == 0 {
            ring.replace_all(&callers).await; // as a Deployment
        } else {
            ring.restart_all(&callers).await; // as services on machines of their own
        }
    }
    callers.go_on(DRAWS).await;
    eprintln!(
        "{} answers; repeated after: {:?}",
        callers.answers(),
        callers.repeated()
    );
    let last = on_store().with(&settling(&database)).serve();
    let primary = group.primary();
    let store = (&*group.server(primary), PARTITIONS);
    adds_up(store, &database, &last, (callers, followers)).await;
    for server in ring.servers {
        ring::ends_well(server, times.grace);
    }
}
