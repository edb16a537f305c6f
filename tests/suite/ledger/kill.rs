//! `tombola settle` is killed again and again under load: every other time before or after a
//! statement of its transaction, else at any moment, while a second settler waits to take over.
//! Redis is killed once, and PostgreSQL is stopped for a while.
//!
//! `TOMBOLA_KILLS` sets how often, `TOMBOLA_CALLS` how many calls are made meanwhile each time,
//! `TOMBOLA_AWAY_S` how long PostgreSQL is away, and `TOMBOLA_SEED` the moments.

use std::{process::Stdio, sync::Arc, time::Duration};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tombola::{
    proto::{
        CreateEnvelopeRequest, GetStatsRequest, GrabEnvelopeRequest,
        envelope_service_client::EnvelopeServiceClient,
    },
    store::entry::Body,
};
use tonic::transport::Endpoint;

use super::{
    Database,
    cut::{STATEMENTS, When, port_until},
};
use crate::{
    faults::{
        book::Book,
        kill::setting,
        load::{self, IDS},
        redis::{House, PARTITIONS, callers::Callers},
    },
    process::{Output, Server, tombola},
    support::{
        postgres::{PASSWORD, Postgres},
        redis_server::RedisServer,
    },
};

/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stops PostgreSQL for a while.
async fn put_away(database: &mut Database, time: Duration) {
    let server = Arc::get_mut(&mut database.server).expect("nobody else has it");
    server.stop();
    sleep(time).await;
    server.restart();
}

/// Users who grab at once.
const GRABBERS: u64 = 2;
const PACKETS: u32 = 200;
/// The longest pause of a user between two grabs, in milliseconds.
const THINK_MAX: u64 = 40;
/// The pause before a call is repeated.
const BACK_OFF: Duration = Duration::from_millis(5);

/// A settler process; it is killed when this is dropped.
struct Settler(std::process::Child);

impl Settler {
    /// Starts one, and waits until it settles.
    fn start(house: &House, url: &str) -> Self {
        let mut settler = Self::spawn(house, url);
        let output = Output::of(&mut settler.0);
        let at_work = output.wait_for(|line| line.contains("settling the ledger").then_some(()));
        assert!(at_work.is_some(), "{}", output.text());
        assert!(!output.text().contains(PASSWORD));
        settler
    }

    /// Starts one.
    fn spawn(house: &House, url: &str) -> Self {
        let child = tombola(["settle", "--redis-url", &house.redis.url()])
            .arg("--data")
            .arg(house.data())
            .env("TOMBOLA_POSTGRES_URL", url)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits until every entry of the store on this server is settled.
pub async fn caught_up(primary: &RedisServer, database: &Database, partitions: u32) {
    const LAST: &str = "
        local last = {}
        for index, key in ipairs(KEYS) do
            last[index] = redis.call('HGET', key, 'sequence')
        end
        return last";
    let keys = (0..partitions).map(|partition| format!("tombola{{{partition}}}:partition"));
    let (keys, count): (Vec<_>, _) = (keys.collect(), partitions.to_string());
    let words = ["EVAL", LAST, &count].into_iter();
    let words: Vec<_> = words.chain(keys.iter().map(String::as_str)).collect();
    let settled = "SELECT coalesce(sum(next_sequence - 1), 0)::bigint FROM tombola.cursors";
    let client = database.server.connect(&database.name).await;
    let begun = Instant::now();
    loop {
        let last = primary.command(&words);
        let last = last.lines().map(|number| number.parse::<i64>().unwrap());
        let last: i64 = last.sum();
        if Postgres::number_over(&client, settled).await == last {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the settler does not catch up");
        sleep(Duration::from_millis(100)).await;
    }
}

/// What is settled of each campaign is what the service counts.
pub async fn assert_sums(server: &Server, database: &Database) {
    let entries = database.entries().await;
    for id in IDS {
        let request = GetStatsRequest {
            campaign_id: id.to_owned(),
        };
        let stats = server.campaigns().await.get_stats(request).await;
        let stats = stats.unwrap().into_inner();
        assert!(stats.balanced, "{stats:?}");
        let of_campaign = entries.iter().filter(|entry| {
            entry
                .subject
                .campaign()
                .is_some_and(|campaign| campaign.as_str() == id)
        });
        let draws = of_campaign.filter_map(|entry| match &entry.body {
            Body::Draw(draw) => Some(draw.results.len() as u64),
            _ => None,
        });
        assert_eq!(draws.sum::<u64>(), stats.draws, "{id}: draws");
        let wins = format!("SELECT count(*) FROM tombola.wins WHERE campaign = '{id}'");
        assert_eq!(
            database.number(&wins).await as u64,
            stats.wins,
            "{id}: wins"
        );
        let units =
            format!("SELECT count(DISTINCT unit_id) FROM tombola.wins WHERE campaign = '{id}'");
        assert_eq!(
            database.number(&units).await as u64,
            stats.wins,
            "{id}: units"
        );
    }
}

/// Users who grab from one envelope after another until this is dropped. A call that fails is
/// repeated.
fn grabbers(server: &Server) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for task in 0..GRABBERS {
        let endpoint = Endpoint::from_shared(server.url()).unwrap();
        let mut envelopes = EnvelopeServiceClient::new(endpoint.connect_lazy());
        tasks.spawn(async move {
            for number in 0.. {
                let id = format!("envelope-{task}-{number}");
                let envelope = CreateEnvelopeRequest {
                    envelope_id: id.clone(),
                    sender_id: "sender".into(),
                    currency: "CNY".into(),
                    total_minor: 100_000,
                    packets: PACKETS,
                    ..CreateEnvelopeRequest::default()
                };
                while envelopes.create_envelope(envelope.clone()).await.is_err() {
                    sleep(BACK_OFF).await;
                }
                for user in 0..PACKETS {
                    let grab = GrabEnvelopeRequest {
                        envelope_id: id.clone(),
                        user_id: format!("user-{user}"),
                    };
                    while envelopes.grab_envelope(grab.clone()).await.is_err() {
                        sleep(BACK_OFF).await;
                    }
                    sleep(Duration::from_millis(rand::random_range(0..=THINK_MAX))).await;
                }
            }
        });
    }
    tasks
}

/// Starts a settler, and kills it when it comes to a statement or has done it.
async fn kill_at_a_statement(house: &House, database: &Database, number: u64) {
    let statement = STATEMENTS[number as usize / 2 % STATEMENTS.len()];
    let when = match number % 2 {
        0 => When::Before,
        _ => When::After,
    };
    let (port, passed) = port_until(statement, when, database.server.port()).await;
    let url = Postgres::url_at(port, "postgres", &database.name);
    let settler = Settler::start(house, &url);
    let came = timeout(PATIENCE, passed.notified()).await;
    assert!(came.is_ok(), "`{statement}` did not come");
    drop(settler);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settler_that_is_killed_again_and_again_settles_each_entry_once() {
    let kills = setting("TOMBOLA_KILLS").unwrap_or(20);
    let calls = setting("TOMBOLA_CALLS").unwrap_or(20);
    let away = Duration::from_secs(setting("TOMBOLA_AWAY_S").unwrap_or(1));
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_KILLS={kills} TOMBOLA_CALLS={calls}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut database = Database::alone().await;
    let mut house = House::new();
    let server = house.start().serve();
    load::apply_now(&server).await;
    let callers = Callers::start_with_pauses(&[&server], seed, 0);
    let grabbers = grabbers(&server);
    for kill in 0..kills {
        let mut next = None;
        if kill % 2 == 0 {
            kill_at_a_statement(&house, &database, kill / 2).await;
        } else {
            let settler = Settler::start(&house, &database.url_text());
            next = Some(Settler::spawn(&house, &database.url_text()));
            sleep(Duration::from_millis(rng.random_range(0..60))).await;
            drop(settler);
        }
        if kill == kills / 2 {
            house.redis.kill();
            callers.fail(1).await;
            house.redis.restart();
        }
        if kill == kills * 3 / 4 {
            drop(next.take());
            let settler = Settler::start(&house, &database.url_text());
            put_away(&mut database, away).await;
            drop(settler);
        }
        callers.go_on(calls).await;
        drop(next);
    }
    drop(grabbers);
    let attempts = callers.end().await;
    let mut book = Book::default();
    book.settle(&server, attempts).await;
    let settler = Settler::start(&house, &database.url_text());
    caught_up(&house.redis, &database, PARTITIONS).await;
    drop(settler);
    // The next one begins with what the last one may not have given up.
    let settler = Settler::start(&house, &database.url_text());
    drop(settler);
    assert_sums(&server, &database).await;
    let url = database.url_text();
    server.run(&["audit", "--postgres-url", &url]).well();
    let entries = database.entries().await;
    let forks = entries
        .iter()
        .filter(|entry| matches!(entry.body, Body::Forked { .. }));
    assert!(forks.count() > 0, "Redis was restarted");
    let grabs = entries
        .iter()
        .filter(|entry| matches!(entry.body, Body::Grab { .. }));
    eprintln!("{} entries, {} of them grabs", entries.len(), grabs.count());
    for partition in 0..PARTITIONS {
        let key = format!("tombola{{{partition}}}:ledger");
        let items: usize = house.redis.command(&["XLEN", &key]).parse().unwrap();
        assert!(items <= 101, "{items} items are left in {key}");
    }
    book.read_all_again(&server).await;
}
