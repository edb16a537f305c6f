//! A benchmark of batches in the embedded store, without gRPC: concurrent draws share one
//! transaction and one fsync.
//!
//! Run it with `cargo bench -p tombola-bench --bench store`. The data are in the system's temporary
//! directory, so its disk is part of the measurement. SQLite uses its own page cache here: only the
//! program installs the one in `src/store/sqlite/page_cache.rs`.

use std::{error::Error, sync::Arc, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::task::JoinSet;
use tombola::{
    chance::MasterKey,
    injector::Injector,
    model::{
        CampaignId, Moment, OperatorId, RequestId, UserId, convert::campaign_from_proto, file,
        limits::Funding,
    },
    store::{
        Author, DrawCommand, Store, StoreError,
        clock::SystemClock,
        sqlite::{Options, SqliteStore},
    },
};

/// A deck in which every card wins and which never runs out.
const CAMPAIGN: &str = "{id: bench, timeZone: UTC, startTime: '2026-01-01T00:00:00Z', endTime: \
    '2030-12-31T00:00:00Z', prizes: [{id: card, stock: 9000000000}], pools: [{id: cards, deck: \
    {size: 100000, cards: {card: 100000}, onExhausted: RESHUFFLE}}]}";
const UNDER_WAY: [u64; 3] = [1, 16, 256];

type Fault = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Fault> {
    let runtime = tokio::runtime::Runtime::new()?;
    let directory = tempfile::tempdir()?;
    let key = MasterKey::from_bytes([7; 32]);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(Options {
        directory: directory.path().to_owned(),
        clock: Arc::new(SystemClock),
        request_memory: Duration::from_secs(86_400),
        key_fingerprint: key.fingerprint(),
    })?);
    let injector = Arc::new(Injector::new(store, key, Duration::from_secs(300)));
    let campaign = runtime.block_on(apply(&injector))?;
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("embedded draws under way");
    let mut number = 0;
    for under_way in UNDER_WAY {
        group.throughput(Throughput::Elements(under_way));
        group.bench_function(BenchmarkId::from_parameter(under_way), |bencher| {
            bencher.iter(|| {
                number += under_way;
                let drawn = draw(&injector, &campaign, number, under_way);
                if let Err(fault) = runtime.block_on(drawn) {
                    panic!("a draw failed: {fault}");
                }
            });
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}

async fn apply(injector: &Arc<Injector>) -> Result<CampaignId, Fault> {
    let message = file::parse(CAMPAIGN)?.pop().ok_or("no campaign")?;
    let campaign = Arc::new(campaign_from_proto(&message)?);
    let author = Author::named(
        RequestId::parse("request", "apply").map_err(|problem| problem.message)?,
        OperatorId::parse("operator", "bench").map_err(|problem| problem.message)?,
        "",
    );
    injector.apply(Arc::clone(&campaign), 0, author).await?;
    Ok(campaign.id.clone())
}

/// Makes `count` draws at once, each by a user of its own; users are numbered from `first`.
async fn draw(
    injector: &Arc<Injector>,
    campaign: &CampaignId,
    first: u64,
    count: u64,
) -> Result<(), Fault> {
    let mut draws: JoinSet<Result<(), StoreError>> = JoinSet::new();
    for number in first..first + count {
        let command = DrawCommand {
            campaign: campaign.clone(),
            user: UserId::parse("user", &format!("user-{number}")).map_err(|p| p.message)?,
            request: RequestId::parse("request", "once").map_err(|p| p.message)?,
            count: 1,
            funding: Funding::Free,
            payment_ref: String::new(),
            consolation_only: false,
            segments: Vec::new(),
            expire: None,
            not_after: Moment::FAR_FUTURE,
            chance: None,
        };
        let injector = Arc::clone(injector);
        draws.spawn(async move { injector.draw(command).await.map(drop) });
    }
    while let Some(drawn) = draws.join_next().await {
        drawn??;
    }
    Ok(())
}
