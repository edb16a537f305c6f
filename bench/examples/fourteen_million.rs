//! Draws every card of `deploy/campaigns/fourteen-million.yaml` through the store's interface, and
//! checks the counts.
//!
//! Run it with `cargo run --release -p tombola-bench --example fourteen_million [-- redis]`. It
//! uses the embedded store, or with `redis` a Redis server that it starts itself (this needs
//! redis-server; every write is on disk before its reply). 64 users make draws of 100 in parallel
//! until the first round of the deck is used up, and then 100,000 more draws. It exits with an
//! error unless every count is exact. It takes minutes and some GB of temporary disk; on Redis it
//! also takes some GB of memory.

#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use std::{
    collections::BTreeMap,
    error::Error,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tombola::{
    chance::MasterKey,
    injector::Injector,
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolKind, RequestId, UserId, convert, file,
        limits::Funding,
    },
    store::{
        Author, DrawCommand, DrawResult, Durability, Store,
        clock::ManualClock,
        redis::{self, Found, KeyPrefix, RedisStore, RedisUrl},
        sqlite::{self, SqliteStore},
    },
};

#[path = "../tests/support/mod.rs"]
mod support;
use support::RedisServer;

const CAMPAIGN: &str = include_str!("../../deploy/campaigns/fourteen-million.yaml");
const USERS: u64 = 64;
const PER_DRAW: u64 = 100;
const MEMORY: Duration = Duration::from_secs(3600);
/// The number of draws from the second round.
const MORE: u64 = 100_000;

type Fault = Box<dyn Error + Send + Sync>;
/// The number of cards by round and prize; `blank` counts draws that won nothing.
type Counts = BTreeMap<(i64, String), u64>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let message = file::parse(CAMPAIGN)?.pop().ok_or("no campaign")?;
    let campaign = Arc::new(convert::campaign_from_proto(&message)?);
    let directory = tempfile::tempdir()?;
    let key = MasterKey::from_bytes(rand::random());
    let clock = Arc::new(ManualClock::at(campaign.start));
    let redis = match std::env::args().nth(1).as_deref() {
        Some("redis") => Some(RedisServer::start(&[])),
        Some(other) => {
            return Err(format!(
                "no store is called {other}: write redis, or leave it out for the embedded store"
            )
            .into());
        }
        None => None,
    };
    let store = match &redis {
        Some(server) => on_redis(server, clock, &key).await?,
        None => embedded(directory.path(), clock, &key)?,
    };
    let injector = Arc::new(Injector::new(store, key, Duration::ZERO));
    let author = Author::named(
        RequestId::parse("request", "apply").map_err(|p| p.message)?,
        OperatorId::parse("operator", "example").map_err(|p| p.message)?,
        "",
    );
    injector.apply(Arc::clone(&campaign), 0, author).await?;

    let round = deck_size(&campaign)?;
    let begun = Instant::now();
    let counts = draw_all(&injector, &campaign.id, round + MORE).await?;
    let seconds = begun.elapsed().as_secs_f64();
    for ((round, prize), cards) in &counts {
        println!("round {round}: {cards:>10} {prize}");
    }
    println!("{:.0} draws in {seconds:.0} s", (round + MORE) as f64);
    check(&injector, &campaign, &counts).await
}

fn embedded(
    directory: &Path,
    clock: Arc<ManualClock>,
    key: &MasterKey,
) -> Result<Arc<dyn Store>, Fault> {
    Ok(Arc::new(SqliteStore::open(sqlite::Options {
        directory: directory.to_owned(),
        clock,
        request_memory: MEMORY,
        key_fingerprint: key.fingerprint(),
    })?))
}

async fn on_redis(
    server: &RedisServer,
    clock: Arc<ManualClock>,
    key: &MasterKey,
) -> Result<Arc<dyn Store>, Fault> {
    let mut found = Found::look(redis::Options {
        url: RedisUrl::parse(&server.url())?,
        prefix: KeyPrefix::parse("tombola")?,
        partitions: 16,
        durability: Durability::Local,
        level: redis::LevelOptions::default(),
        clock: Some(clock),
        request_memory: MEMORY,
        fork_pause: redis::FORK_PAUSE,
        store_id: None,
    })
    .await?;
    found.init(&key.fingerprint()).await?;
    Ok(Arc::new(RedisStore::open(found, &key.fingerprint()).await?))
}

fn deck_size(campaign: &Campaign) -> Result<u64, Fault> {
    match &campaign.pools[0].kind {
        PoolKind::Deck(deck) => Ok(deck.size),
        PoolKind::Schedule(_) | PoolKind::Personal(_) => Err("the first pool is no deck".into()),
    }
}

/// Makes exactly `draws` draws.
async fn draw_all(
    injector: &Arc<Injector>,
    campaign: &CampaignId,
    draws: u64,
) -> Result<Counts, Fault> {
    let counts: Arc<Mutex<Counts>> = Arc::default();
    let next = Arc::new(AtomicU64::new(0));
    let mut users = Vec::new();
    for user in 0..USERS {
        let (injector, counts, next) =
            (Arc::clone(injector), Arc::clone(&counts), Arc::clone(&next));
        let campaign = campaign.clone();
        users.push(tokio::spawn(async move {
            loop {
                let begin = next.fetch_add(PER_DRAW, Ordering::Relaxed);
                if begin >= draws {
                    return Ok::<(), Fault>(());
                }
                let command = DrawCommand {
                    campaign: campaign.clone(),
                    user: UserId::parse("user", &format!("user-{user}")).map_err(|p| p.message)?,
                    request: RequestId::parse("request", &begin.to_string())
                        .map_err(|p| p.message)?,
                    count: u32::try_from(PER_DRAW.min(draws - begin))?,
                    funding: Funding::Free,
                    payment_ref: String::new(),
                    consolation_only: false,
                    segments: Vec::new(),
                    expire: None,
                    not_after: Moment::FAR_FUTURE,
                    chance: None,
                };
                let answer = injector.draw(command).await?;
                if begin % 1_000_000 == 0 {
                    println!("{begin} drawn");
                }
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                for result in &answer.entry.results {
                    let card = match result {
                        DrawResult::Won { prize, unit, .. } => {
                            (unit.window, answer.campaign.prize(*prize).id.to_string())
                        }
                        _ => (0, "blank".into()),
                    };
                    *counts.entry(card).or_default() += 1;
                }
            }
        }));
    }
    for user in users {
        user.await??;
    }
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(counts.clone())
}

/// Checks that the first round gave each of its cards, that the second gave no grand prize, and
/// that all units are accounted for.
async fn check(injector: &Injector, campaign: &Campaign, counts: &Counts) -> Result<(), Fault> {
    let PoolKind::Deck(deck) = &campaign.pools[0].kind else {
        return Err("the first pool is no deck".into());
    };
    let mut second = MORE;
    for (no, cards) in &deck.cards {
        let prize = campaign.prize(*no);
        let drawn = |round| {
            counts
                .get(&(round, prize.id.to_string()))
                .copied()
                .unwrap_or(0)
        };
        if drawn(1) != *cards {
            return Err(format!("{}: {} drawn, {cards} in the deck", prize.id, drawn(1)).into());
        }
        if prize.grand && drawn(2) != 0 {
            return Err(format!("{} came again in the second round", prize.id).into());
        }
        second -= drawn(2);
    }
    if second != 0 {
        return Err("the second round gave something else than its cards".into());
    }
    if !injector.store().stats(&campaign.id).await?.balanced() {
        return Err("the sums do not add up".into());
    }
    println!(
        "every count is exact: each card of the first round once, no grand prize in the second"
    );
    Ok(())
}
