//! What is measured while the load goes on.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;
use tombola::proto::{GetStatsRequest, GetStatsResponse};

use super::links::Links;
use crate::{
    failure::{Failure, Outcome},
    figures::Latency,
    process::{memory_of, open_files_of},
    record::Record,
    subject::Subject,
};

/// Figures of one moment, and of the calls since the moment before.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Seconds from the start of the load.
    pub(super) second: f64,
    /// Of the service that takes the most.
    pub(super) service_bytes: u64,
    pub(super) open_files: u64,
    /// Absent on the embedded store.
    pub(super) redis_bytes: Option<u64>,
    pub(super) redis_file_bytes: Option<u64>,
    /// Absent where the ledger is in the store's own file.
    pub(super) postgres_bytes: Option<u64>,
    /// Absent on Redis.
    pub(super) database_bytes: Option<u64>,
    pub(super) wal_bytes: Option<u64>,
    pub(super) unsettled: u64,
    pub(super) calls: u64,
    pub(super) per_second: f64,
    pub(super) wins: u64,
    /// Calls without a result, by reason.
    pub(super) refused: BTreeMap<String, u64>,
    pub(super) latency_us: Latency,
    /// The sums of the campaign and of all envelopes add up.
    pub(super) balanced: bool,
}

impl Sample {
    /// Takes a sample at the end of a round.
    pub(super) async fn take(
        subject: &Subject,
        links: &Links,
        campaign: &str,
        (second, record): (f64, &Record),
    ) -> Outcome<Self> {
        let living = links.stage.living();
        let most = |of: fn(u32) -> Option<u64>| {
            let figures = living.iter().filter_map(|live| of(live.pid));
            figures.max().unwrap_or(0)
        };
        let (store, sums) = (stats(links, "").await?, stats(links, campaign).await?);
        let ledger = store.ledger.unwrap_or_default();
        let mut sample = Self {
            second,
            service_bytes: most(memory_of),
            open_files: most(open_files_of),
            redis_bytes: None,
            redis_file_bytes: None,
            postgres_bytes: subject.postgres.as_ref().map(|server| server.bytes()),
            database_bytes: None,
            wal_bytes: None,
            unsettled: ledger.unsettled_entries,
            calls: record.calls,
            per_second: record.calls as f64 / record.time.as_secs_f64(),
            wins: record.wins,
            refused: record.errors.clone(),
            latency_us: Latency::of(&record.latencies),
            balanced: store.balanced && sums.balanced,
        };
        if let Some(redis) = &subject.redis {
            sample.redis_bytes = Some(redis.memory().await?);
            let persistence = redis.info("persistence").await?;
            let size = persistence.get("aof_current_size");
            sample.redis_file_bytes = size.and_then(|size| size.parse().ok());
        } else if let Some(data) = subject.data() {
            sample.database_bytes = bytes(&data.join("tombola.sqlite3"));
            sample.wal_bytes = bytes(&data.join("tombola.sqlite3-wal"));
        }
        Ok(sample)
    }
}

/// The sums of a campaign; without an id, of the whole store.
pub(super) async fn stats(links: &Links, campaign: &str) -> Outcome<GetStatsResponse> {
    let request = GetStatsRequest {
        campaign_id: campaign.into(),
    };
    let answer = links.call(0, async |to| to.operators.get_stats(request.clone()).await);
    Ok(answer.await.map_err(Failure::answered)?.into_inner())
}

fn bytes(file: &Path) -> Option<u64> {
    Some(file.metadata().ok()?.len())
}
