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
    kill::setting,
    load,
    redis::{House, PARTITIONS},
};
use crate::{
    deploy::times::Times,
    ledger::{
        Database,
        kill::{assert_sums, caught_up},
    },
    process::{Server, Start},
    support::postgres::Postgres,
};

/// The times of the manifests are this many times shorter.
const FASTER: u32 = 10;
/// Draws that are answered between two steps.
const DRAWS: u64 = 100;
/// Streams that follow the ledger, each from another replica.
const FOLLOWERS: usize = 2;
/// Why a stream ends at a replica that stops.
const STOPPED: &str = "WATCH_ENDED";

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

/// Everything adds up: what callers heard, what followers saw, what is settled, and what the store
/// has, as this server says, which ends no connection.
async fn adds_up(
    (house, partitions): (&House, u32),
    database: &Database,
    server: &Server,
    (callers, followers): (Callers, Vec<Follower>),
) {
    let attempts = callers.end().await;
    let mut book = Book::default();
    book.settle(server, attempts).await;
    caught_up(house, database, partitions).await;
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
    are_replaced(Entrance::default(), "").await;
}

/// As the overlay `production` has it: over TLS, by callers with a token.
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_that_know_their_callers_are_replaced_under_load_and_no_call_fails() {
    let guarded = Guarded::new();
    are_replaced(guarded.entrance(), &guarded.options()).await;
}

/// Replaces replicas with these further options, to which callers come like this.
async fn are_replaced(entrance: Entrance, more: &str) {
    let rolls = setting("TOMBOLA_ROLLS").unwrap_or(2);
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_ROLLS={rolls}");
    let times = Times::of_production().faster(FASTER);
    let (house, database) = (House::new(), database().await);
    let options = options(&times, &database);
    let start = |listen: &str| {
        let start = house.start().with(&options).with(more);
        Start { listen, ..start }.serve()
    };
    // A server of its own, which asks nobody who it is.
    load::apply_now(&house.start().serve()).await;
    let mut ring = Ring::start_behind(entrance, times, start).await;
    assert_eq!(ring.servers.len(), 3);
    let callers = Callers::start(ring.endpoints(), seed, times.connection_age);
    let followers = followers(&ring, &[STOPPED]);
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
    let last = house.start().with(&settling(&database)).serve();
    let all = (callers, followers);
    adds_up((&house, PARTITIONS), &database, &last, all).await;
    for server in ring.servers {
        ring::ends_well(server, times.grace);
    }
}
