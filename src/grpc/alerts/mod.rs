//! `ListAlerts`: what an operator should look at, in all campaigns that are not closed and in the
//! ledger.
//!
//! One task of the service reads the sums of all these campaigns, for everybody who asks: once a
//! minute, and more often while somebody asks. The same readings feed the rates at which prizes are
//! won.

mod rule;

use std::{cmp::Reverse, sync::Arc, time::Duration};

use prost_types::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tonic::Request;
use tracing::debug;

use super::{
    access::{Caller, Rpc},
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    ledger_stats::ledger_stats,
    request::Fields,
    stats::campaign_stats,
    status::CallError,
    views,
};
use crate::{
    model::convert::moment_to_proto,
    proto::{self, Alert},
    store::{Executed, StoreError, view::Lifecycle},
};
pub(crate) use rule::of;
use rule::of_ledger;

/// The time between two readings if nobody asks.
const PAUSE: Duration = Duration::from_secs(60);
/// Bounds of the least time between two readings. Within them, it is this many times as long as the
/// reading took: a reading may take long only because the store stood still for once.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_TIMES: u32 = 50;
/// Campaigns that are listed at once.
const PAGE: usize = 100;

/// The alerts of all campaigns.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// The most urgent first.
    alerts: Vec<Alert>,
    /// By the store's clock.
    read_time: Option<Timestamp>,
    /// The ledger and all campaigns could be read.
    is_whole: bool,
}

/// The last reading, or why there is none.
type Latest = Option<Result<Arc<Reading>, StoreError>>;

/// The last reading, for everybody who asks.
#[derive(Debug, Default)]
pub(super) struct Alerts {
    latest: watch::Sender<Latest>,
    asked: Notify,
}

impl Alerts {
    /// The last reading; the first one is waited for.
    async fn latest(&self) -> Result<Arc<Reading>, CallError> {
        self.asked.notify_one();
        let mut latest = self.latest.subscribe();
        let found = latest.wait_for(Option::is_some).await;
        let found = found.map_err(|_| CallError::Broken(Executed::No))?;
        let found = found.clone().unwrap_or_else(|| Ok(Arc::default()));
        Ok(found?)
    }
}

/// Reads all campaigns again and again. Never ends.
pub(super) async fn watch(desk: &Desk) {
    let alerts = desk.alerts();
    loop {
        let begun = Instant::now();
        let reading = read(desk).await.map(Arc::new);
        if let Err(error) = &reading {
            debug!("the alerts of campaigns are not read: {error}");
        }
        alerts.latest.send_replace(Some(reading));
        let least = (begun.elapsed() * PAUSE_TIMES).clamp(PAUSE_MIN, PAUSE_MAX);
        sleep(least).await;
        // Somebody asks, or it is time anyway.
        drop(timeout(PAUSE.saturating_sub(least), alerts.asked.notified()).await);
    }
}

async fn read(desk: &Desk) -> Result<Reading, StoreError> {
    let store = desk.store();
    let test_clock = store.info().test_clock;
    let now = store.read_time().await?;
    let mut is_whole = true;
    let mut alerts = Vec::new();
    match ledger_stats(store).await {
        Ok(ledger) => alerts.extend(of_ledger(&ledger)),
        Err(_) => is_whole = false,
    }
    let mut after = None;
    loop {
        let page = store.readable_campaigns(after.as_deref(), PAGE).await?;
        is_whole &= page.unread.is_empty();
        let views = page.views.iter();
        for view in views.filter(|view| view.lifecycle != Lifecycle::Closed) {
            let stats = match campaign_stats(desk, &view.campaign.id).await {
                Ok(stats) => stats,
                // Its data have left the store meanwhile.
                Err(CallError::Store(StoreError::Refused(_))) => continue,
                // Other campaigns may be in a part of the store that answers.
                Err(_) => {
                    is_whole = false;
                    continue;
                }
            };
            let status = views::campaign_status(view, now, test_clock);
            alerts.extend(of(&status, &stats));
        }
        match page.next {
            Some(next) => after = Some(next.to_string()),
            None => break,
        }
    }
    desk.rates().forget(now);
    alerts.sort_by_key(|alert| Reverse(alert.severity));
    Ok(Reading {
        alerts,
        read_time: Some(moment_to_proto(now)),
        is_whole,
    })
}

/// The most urgent alerts of campaigns that the caller may see, and of the store if those are all.
pub(super) async fn list_alerts(
    desk: &Desk,
    request: Request<proto::ListAlertsRequest>,
) -> Reply<proto::ListAlertsResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let visible = Caller::of(&request)?.visible(Rpc::ListAlerts);
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let size = fields.page_size(message.page_size);
        let size = fields.finish(Some(size))?;
        let reading = desk.alerts().latest().await?;
        let shown = |alert: &&Alert| match alert.campaign_id.as_str() {
            "" => visible.has_all_campaigns(),
            id => visible.has_campaign(id),
        };
        let alerts = || reading.alerts.iter().filter(shown);
        Ok(proto::ListAlertsResponse {
            alerts: alerts().take(size).cloned().collect(),
            total: alerts().count() as u64,
            read_time: reading.read_time,
            incomplete: !reading.is_whole,
        })
    };
    desk.read(deadline, work).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chance::MasterKey,
        grpc::{presence::Presence, stats::get_stats},
        injector::Injector,
        model::{
            Campaign, OperatorId, RequestId, UserId, convert::campaign_from_proto, file,
            limits::Funding,
        },
        proto::AlertKind,
        store::{
            Author, DrawCommand,
            clock::{Clock as _, ManualClock},
            memory::MemoryStore,
        },
    };

    const CAMPAIGN: &str = "
id: wheel
timeZone: UTC
startTime: 2998-01-01T00:00:00Z
endTime: 2998-01-03T00:00:00Z
prizes: [{id: coupon, stock: 1000}]
pools: [{id: deck, deck: {size: 10, cards: {coupon: 5}, onExhausted: RESHUFFLE}}]
";

    /// Two hours have a plan.
    const SCHEDULED: &str = "
id: hours
timeZone: UTC
startTime: 2998-01-01T00:00:00Z
endTime: 2998-01-03T00:00:00Z
prizes: [{id: coupon, stock: 1000}]
pools: [{id: hourly, schedule: {daily: [{from: '02:00', to: '04:00', perHour: {coupon: 1}}]}}]
";

    /// A desk whose injector nobody wakes, and its clock, which stands at the campaign's start.
    fn new_desk(campaign: &Campaign) -> (Desk, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(campaign.start));
        let store = MemoryStore::new(Arc::<ManualClock>::clone(&clock), Duration::from_secs(60));
        let key = MasterKey::from_bytes([7; 32]);
        let injector = Arc::new(Injector::new(Arc::new(store), key, Duration::ZERO));
        let presence = Presence::unseen(injector.store());
        (Desk::new(injector, None, presence), clock)
    }

    fn parsed(yaml: &str) -> Campaign {
        campaign_from_proto(&file::parse(yaml).unwrap()[0]).unwrap()
    }

    async fn apply(desk: &Desk, campaign: Campaign, base_version: u32) {
        let author = Author {
            request: RequestId::parse("request", &format!("r-{base_version}")).unwrap(),
            operator: OperatorId::parse("operator", "o").unwrap(),
            reason: String::new(),
            on_behalf_of: None,
            authenticated: false,
            approved: None,
        };
        let applied = desk
            .injector()
            .apply(Arc::new(campaign), base_version, author);
        applied.await.unwrap();
    }

    async fn late_hours(desk: &Desk) -> u32 {
        let alerts = read(desk).await.unwrap().alerts.into_iter();
        let late = alerts.filter(|alert| alert.kind() == AlertKind::HoursLate);
        late.map(|alert| alert.hours).sum()
    }

    #[tokio::test]
    async fn an_hour_that_nobody_begins_to_fill_is_late_until_somebody_does() {
        let campaign = parsed(SCHEDULED);
        let (desk, clock) = new_desk(&campaign);
        apply(&desk, campaign, 0).await;
        let hour = 60 * PAUSE;
        // The first hour of the plan begins, is late, and another one.
        for (step, late) in [
            (2 * hour + PAUSE - Duration::from_secs(1), 0),
            (Duration::from_secs(1), 1),
            (hour, 2),
            (hour, 2),
        ] {
            clock.advance(step);
            assert_eq!(late_hours(&desk).await, late, "{step:?}");
        }
        desk.injector().tick().await.unwrap();
        assert_eq!(late_hours(&desk).await, 0);
    }

    #[tokio::test]
    async fn hours_that_began_before_the_last_version_are_not_late() {
        let campaign = parsed(SCHEDULED);
        let (desk, clock) = new_desk(&campaign);
        clock.advance(150 * PAUSE);
        apply(&desk, campaign, 0).await;
        assert_eq!(late_hours(&desk).await, 0);
        clock.advance(60 * PAUSE);
        assert_eq!(late_hours(&desk).await, 1);
        // It has ended.
        clock.advance(48 * 60 * PAUSE);
        assert_eq!(late_hours(&desk).await, 0);
    }

    #[tokio::test]
    async fn the_last_hour_is_known_of_campaigns_that_nobody_looked_at() {
        let campaign = parsed(CAMPAIGN);
        let id = campaign.id.clone();
        let (desk, clock) = new_desk(&campaign);
        apply(&desk, campaign, 0).await;
        read(&desk).await.unwrap();
        for minute in 0..30 {
            // The first minute of three has no draw, the next one, the last two.
            for number in 0..minute % 3 {
                let command = DrawCommand {
                    campaign: id.clone(),
                    user: UserId::parse("user_id", &format!("u-{minute}")).unwrap(),
                    request: RequestId::parse("request", &format!("{minute}.{number}")).unwrap(),
                    count: 1,
                    funding: Funding::Free,
                    payment_ref: String::new(),
                    consolation_only: false,
                    segments: Vec::new(),
                    expire: None,
                    not_after: clock.now() + PAUSE,
                    chance: None,
                };
                desk.injector().draw(command).await.unwrap();
            }
            clock.advance(PAUSE);
            read(&desk).await.unwrap();
        }
        let request = proto::GetStatsRequest {
            campaign_id: id.to_string(),
        };
        let stats = get_stats(&desk, Request::new(request)).await.unwrap();
        let stats = stats.into_inner();
        let draws: Vec<_> = stats.minutes.iter().map(|minute| minute.draws).collect();
        assert_eq!(draws, (0..30).map(|minute| minute % 3).collect::<Vec<_>>());
        assert_eq!(
            stats.wins,
            stats.minutes.iter().map(|minute| minute.wins).sum::<u64>()
        );
    }
}
