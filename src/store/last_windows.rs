//! The last windows of a campaign's schedules: those that statistics show.

use std::time::Duration;

use super::{Result, Stats, Store, WindowView};
use crate::model::PoolKind;

/// The most windows, over all pools: with many prizes each, more would not fit into a message.
const WINDOWS_MAX: usize = 1_000;

/// Windows that a span has more than full hours: those frozen ahead of time, and shorter ones if
/// the clock changes.
const WINDOWS_SLACK: usize = 64;

/// The last windows whose injection has begun, as many of each schedule, pool by pool.
///
/// # Errors
/// Those of the store.
pub async fn last_windows(store: &dyn Store, stats: &Stats) -> Result<Vec<WindowView>> {
    let campaign = &stats.view.campaign;
    let is_schedule = |kind: &PoolKind| matches!(kind, PoolKind::Schedule(_));
    let pools = campaign.numbered_pools();
    let schedules: Vec<_> = pools.filter(|(_, pool)| is_schedule(&pool.kind)).collect();
    let share = WINDOWS_MAX / schedules.len().max(1);
    // The store lists windows from a moment on, not the last ones; but a window is an hour.
    let span = Duration::from_secs(3600) * u32::try_from(share).unwrap_or(u32::MAX);
    let after = stats.now.min(campaign.end) - span;
    let limit = share + WINDOWS_SLACK;
    let mut windows = Vec::new();
    for (no, _) in schedules {
        let mut found = store.windows(&campaign.id, no, after, limit).await?;
        windows.extend(found.drain(found.len().saturating_sub(share)..));
    }
    Ok(windows)
}
