//! Hours of plans that have begun although no service has begun to inject them.

use std::time::Duration;

use super::schedule::{horizon, may_plan};
use crate::{
    model::Moment,
    store::{Filling, Result, Stats, Store},
};

/// How long after its beginning an hour is late.
pub(super) const LATE: Duration = Duration::from_secs(60);
/// The most hours of a schedule that are looked at.
const HOURS_MAX: usize = 1_000;

/// The number of late hours of a campaign that no service has begun to inject, over all its
/// schedules.
pub(super) async fn late_hours(store: &dyn Store, stats: &Stats) -> Result<u32> {
    let campaign = &stats.view.campaign;
    let may_be_late = stats.now >= campaign.start + LATE && !stats.view.has_ended(stats.now);
    if !may_be_late || campaign.schedules().next().is_none() {
        return Ok(0);
    }
    let filling = store.filling(&campaign.id).await?;
    Ok(count(&filling, stats.now))
}

/// Counts hours as the injector does: one that had begun before the last version was made could not
/// be injected in time. Pauses change nothing, since the injector works through them.
fn count(filling: &Filling, now: Moment) -> u32 {
    let campaign = &filling.view.campaign;
    let versions = &filling.view.versions;
    let known = versions.last().map_or(Moment::EPOCH, |version| version.at);
    let due = now - LATE;
    let late = campaign.schedules().flat_map(|(pool, schedule)| {
        let from = horizon(filling, pool).max(known);
        let windows = campaign.zone.windows(from, campaign.start, campaign.end);
        windows
            .take_while(move |window| window.start <= due)
            .take(HOURS_MAX)
            .filter(move |window| window.start >= from && may_plan(schedule, window))
    });
    u32::try_from(late.count()).unwrap_or(u32::MAX)
}
