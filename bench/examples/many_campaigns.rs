//! Measures a tick of the injector in a store with 20,000 closed and 2,000 open campaigns: how many
//! scripts it runs on Redis, and how long it takes. A tick that reads every campaign is measured
//! for comparison.
//!
//! Run it with `cargo run --release -p tombola-bench --example many_campaigns`. It needs
//! redis-server and starts a server of its own; every write is on disk before its reply. `-- 2000
//! 200` changes the numbers of closed and open campaigns.

#![allow(clippy::print_stdout, reason = "an example prints what it found")]

use std::{
    error::Error,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};
use tombola::{
    chance::{MasterKey, Nonce},
    injector::Injector,
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolNo, RequestId, convert::campaign_from_proto,
        file,
    },
    store::{
        ApplyCommand, Author, Durability, Lifecycle, OperateCommand, Operation, Store, Sweep,
        clock::ManualClock,
        redis::{FORK_PAUSE, Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl},
    },
};

#[path = "../tests/support/mod.rs"]
mod support;
use support::RedisServer;

const START: &str = "2026-11-20T01:00:00Z";
const HOUR: Duration = Duration::from_secs(3600);
const LEAD: Duration = Duration::from_secs(300);
/// Long enough that no old requests are forgotten during the measurement.
const FOR_EVER: Duration = Duration::from_secs(200 * 365 * 24 * 3600);
/// The number of campaigns that are created in parallel.
const AT_ONCE: usize = 32;

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let mut counts = std::env::args().skip(1).map(|count| count.parse());
    let closed: usize = counts.next().transpose()?.unwrap_or(20_000);
    let open: usize = counts.next().transpose()?.unwrap_or(2_000);
    let server = RedisServer::start(&[]);
    let start = Moment::from_timestamp(START.parse()?);
    let clock = Arc::new(ManualClock::at(start - HOUR));
    let key = MasterKey::from_bytes(rand::random());
    let mut found = Found::look(Options {
        url: RedisUrl::parse(&server.url())?,
        prefix: KeyPrefix::parse("tombola")?,
        partitions: 16,
        durability: Durability::Local,
        level: LevelOptions::default(),
        clock: Some(clock.clone()),
        request_memory: FOR_EVER,
        fork_pause: FORK_PAUSE,
        store_id: None,
    })
    .await?;
    found.init(&key.fingerprint()).await?;
    let store: Arc<dyn Store> = Arc::new(RedisStore::open(found, &key.fingerprint()).await?);
    let injector = Arc::new(Injector::new(Arc::clone(&store), key, LEAD));

    let ids = |what: &str, count| (0..count).map(|n| format!("{what}-{n}")).collect();
    let (closed, open): (Vec<String>, Vec<String>) = (ids("closed", closed), ids("open", open));
    let making = Arc::clone(&store);
    each(&open, move |id| make(Arc::clone(&making), id)).await?;
    let making = Arc::clone(&store);
    each(&closed, move |id| make_closed(Arc::clone(&making), id)).await?;
    println!("{} closed and {} open campaigns", closed.len(), open.len());

    measure(&server, "the first tick", injector.tick()).await?;
    measure(&server, "a tick when nothing is due", injector.tick()).await?;
    let every = read_every(&*store, closed.iter().chain(&open));
    measure(&server, "without the index: read every campaign", every).await?;
    clock.set(start - LEAD);
    measure(
        &server,
        "the tick that fills the first hour",
        injector.tick(),
    )
    .await
}

/// Calls `work` for each id, [`AT_ONCE`] at a time.
async fn each<W>(ids: &[String], work: impl Fn(String) -> W) -> Result<(), Fault>
where
    W: Future<Output = Result<(), Fault>> + Send + 'static,
{
    let (permits, mut tasks) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for id in ids {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let work = work(id.clone());
        tasks.spawn(async move {
            let _permit = permit;
            work.await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn make(store: Arc<dyn Store>, id: String) -> Result<(), Fault> {
    let command = ApplyCommand {
        campaign: campaign(&id)?,
        base_version: 0,
        nonce: Nonce(rand::random()),
        commitment: String::new(),
        author: author("apply")?,
    };
    store.apply(command).await?;
    Ok(())
}

async fn make_closed(store: Arc<dyn Store>, id: String) -> Result<(), Fault> {
    make(Arc::clone(&store), id.clone()).await?;
    let id = CampaignId::parse("campaign", &id).map_err(|p| p.message)?;
    let close = OperateCommand {
        campaign: id.clone(),
        operation: Operation::Close,
        blocks: Vec::new(),
        author: author("close")?,
    };
    store.operate(close).await?;
    while store.sweep(&id, Sweep::Ending).await?.more {}
    Ok(())
}

/// Reads every campaign, as a tick without an index of due campaigns would have to.
async fn read_every(
    store: &dyn Store,
    ids: impl Iterator<Item = &String>,
) -> tombola::store::Result<()> {
    for id in ids {
        let Ok(id) = CampaignId::parse("campaign", id) else {
            continue;
        };
        if store.campaign(&id).await?.lifecycle != Lifecycle::Closed {
            store.filling(&id).await?;
            store
                .sweep(&id, Sweep::Unclaimed { pool: PoolNo(0) })
                .await?;
        }
    }
    Ok(())
}

fn campaign(id: &str) -> Result<Arc<Campaign>, Fault> {
    let yaml = format!(
        "{{id: {id}, timeZone: UTC, startTime: '{START}', endTime: '2026-12-20T00:00:00Z', \
         consolation: {{id: points}}, prizes: [{{id: coupon, stock: 100000}}], \
         pools: [{{id: hours, schedule: {{perHour: {{coupon: 100}}}}}}]}}"
    );
    let message = file::parse(&yaml)?.pop().ok_or("no campaign")?;
    Ok(Arc::new(campaign_from_proto(&message)?))
}

fn author(request: &str) -> Result<Author, Fault> {
    Ok(Author::named(
        RequestId::parse("request", request).map_err(|p| p.message)?,
        OperatorId::parse("operator", "example").map_err(|p| p.message)?,
        "",
    ))
}

/// Runs `work`, and prints how long it took and how many scripts it ran.
async fn measure(
    server: &RedisServer,
    what: &str,
    work: impl Future<Output = tombola::store::Result<()>>,
) -> Result<(), Fault> {
    server.command(&["CONFIG", "RESETSTAT"]);
    let begun = Instant::now();
    work.await?;
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = |name: &str| {
        let rest = stats.split(name).nth(1).unwrap_or("0");
        let digits = rest.split(',').next().unwrap_or("0");
        digits.parse::<u64>().unwrap_or(0)
    };
    let scripts = calls("cmdstat_evalsha:calls=") + calls("cmdstat_eval:calls=");
    println!("{what:<36} {scripts:>8} scripts {millis:>10.1} ms");
    Ok(())
}
