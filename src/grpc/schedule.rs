//! `GetSchedule`: hours that are injected, as the store has them, then hours that are only planned.
//!
//! It never reveals in which hour a prize planned by `total` is before that hour has ended. So an
//! hour that holds nothing but such prizes is not shown at all until then.

use std::time::Duration;

use tonic::Request;

use super::{
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply, compute},
    operations::schedule_no,
    request::Fields,
    schedule_days::{self, DAYS},
    secrets::Secrets,
    status::CallError,
    views,
};
use crate::{
    model::{
        Campaign, CampaignId, Moment, PoolKind, PoolNo, PrizeNo, Quantities,
        convert::moment_to_proto, schedule::Schedule, zone,
    },
    proto,
    store::{
        CampaignView, Filling, Store, WindowView,
        fill::PoolFilling,
        view::{WindowState, WindowUnits},
    },
};

/// Where a page begins: windows of this pool that end after this moment, then later pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) pool: PoolNo,
    pub(super) after: Moment,
}

impl Cursor {
    pub(super) fn token(self) -> String {
        format!("{}.{}", self.pool.0, self.after.as_micros())
    }

    pub(super) fn parse(token: &str) -> Option<Self> {
        let (pool, after) = token.split_once('.')?;
        Some(Self {
            pool: PoolNo(pool.parse().ok()?),
            after: Moment::from_micros(after.parse().ok()?),
        })
    }
}

pub(super) struct Query {
    campaign: CampaignId,
    pool: Option<String>,
    pub(super) from: Moment,
    pub(super) until: Moment,
    pub(super) size: usize,
    pub(super) cursor: Option<Cursor>,
}

fn parse(message: &proto::GetScheduleRequest) -> Result<Query, crate::model::Problems> {
    let mut fields = Fields::default();
    let campaign = fields.campaign(&message.campaign_id);
    let pool = (!message.pool_id.is_empty()).then(|| fields.pool(&message.pool_id));
    let from = fields.moment("from_time", message.from_time.as_ref());
    let until = fields.moment("until_time", message.until_time.as_ref());
    if from.zip(until).is_some_and(|(from, until)| until <= from) {
        fields.add("until_time", "is not after from_time");
    }
    let size = fields.page_size(message.page_size);
    let token = message.page_token.as_str();
    let cursor = Cursor::parse(token);
    let is_known = match message.by_day {
        true => cursor.is_some_and(|cursor| cursor.pool == DAYS),
        false => cursor.is_some_and(|cursor| cursor.pool != DAYS),
    };
    if !is_known && !token.is_empty() {
        fields.add(
            "page_token",
            "is not a token that this service gave for such a request",
        );
    }
    Ok(Query {
        campaign: fields.finish(campaign)?,
        pool,
        from: from.unwrap_or(Moment::EPOCH),
        until: until.unwrap_or(Moment::FAR_FUTURE),
        size,
        cursor,
    })
}

/// A page of the schedule.
pub(super) async fn get_schedule(
    desk: &Desk,
    request: Request<proto::GetScheduleRequest>,
) -> Reply<proto::GetScheduleResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let message = request.into_inner();
    let work = async {
        let query = parse(&message)?;
        let (store, lead) = (desk.store(), desk.injector().lead());
        // The filling first: a window that is frozen in between is then shown by the store and not
        // planned again.
        let filling = store.filling(&query.campaign).await?;
        let campaign = filling.view.campaign.clone();
        let only = query.pool.as_deref();
        let only = only.map(|id| schedule_no(&campaign, id)).transpose()?;
        let pools: Vec<PoolNo> = campaign
            .schedules()
            .map(|(no, _)| no)
            .filter(|no| only.is_none_or(|only| only == *no))
            .collect();
        let now = store.read_time().await?;
        let (mut windows, mut days) = (Vec::new(), Vec::new());
        let next;
        if message.by_day {
            (days, next) = schedule_days::page(store, query, &filling, &pools, now).await?;
        } else {
            (windows, next) = page(store, &query, &filling, &pools, now).await?;
        }
        let next_injection = compute(move || next_injection(&filling, &pools, lead, now)).await?;
        Ok(proto::GetScheduleResponse {
            windows,
            next_page_token: next.map(Cursor::token).unwrap_or_default(),
            next_injection_time: next_injection.map(moment_to_proto),
            lead: prost_types::Duration::try_from(lead).ok(),
            days,
        })
    };
    desk.read(deadline, work).await
}

/// The windows of a page, and where the next one begins.
pub(super) async fn page(
    store: &dyn Store,
    query: &Query,
    filling: &Filling,
    pools: &[PoolNo],
    now: Moment,
) -> Result<(Vec<proto::Window>, Option<Cursor>), CallError> {
    let mut page = Vec::new();
    for pool in pools.iter().copied() {
        let mut after = query.from;
        match query.cursor {
            Some(cursor) if pool < cursor.pool => continue,
            Some(cursor) if pool == cursor.pool => after = after.max(cursor.after),
            _ => {}
        }
        // One more than the page holds shows whether there is another page.
        let wanted = query.size - page.len() + 1;
        let between = (after, query.until);
        let mut windows = frozen(store, &filling.view, (pool, between), wanted, now).await?;
        if windows.len() < wanted {
            let after = windows.last().map_or(after, |(end, _)| after.max(*end));
            let between = (after.max(horizon(filling, pool)), query.until);
            let (campaign, room) = (filling.view.campaign.clone(), wanted - windows.len());
            windows.extend(compute(move || planned(&campaign, pool, between, room)).await?);
        }
        let full = windows.len() == wanted;
        windows.truncate(query.size - page.len());
        let last = windows.last().map_or(after, |(end, _)| *end);
        page.extend(windows.into_iter().map(|(_, window)| window));
        if full {
            return Ok((page, Some(Cursor { pool, after: last })));
        }
    }
    Ok((page, None))
}

/// Frozen windows of a pool that end after a moment, begin before another and may be shown, at most
/// `wanted`, each with its end.
async fn frozen(
    store: &dyn Store,
    view: &CampaignView,
    (pool, (mut after, until)): (PoolNo, (Moment, Moment)),
    wanted: usize,
    now: Moment,
) -> Result<Vec<(Moment, proto::Window)>, CallError> {
    let (id, campaign) = (&view.campaign.id, &view.campaign);
    let mut shown = Vec::new();
    loop {
        let limit = wanted - shown.len();
        let views = store.windows(id, pool, after, limit).await?;
        let secrets = Secrets::of(store, view, &views, now).await?;
        for view in &views {
            if view.start >= until {
                return Ok(shown);
            }
            let prizes = secrets.visible(view);
            if !prizes.is_empty() {
                shown.push((view.end, window(view, prizes, campaign)));
            }
        }
        match views.last() {
            Some(last) if views.len() == limit && shown.len() < wanted => after = last.end,
            _ => return Ok(shown),
        }
    }
}

/// From when on windows of a pool are not frozen.
pub(super) fn horizon(filling: &Filling, pool: PoolNo) -> Moment {
    match filling.pools.get(usize::from(pool.0)) {
        Some(PoolFilling::Schedule(schedule)) => schedule.horizon,
        _ => Moment::EPOCH,
    }
}

/// Windows from `from` on that begin before `until` and for which something is planned, prizes
/// planned by `total` aside.
fn planned(
    campaign: &Campaign,
    pool: PoolNo,
    (from, until): (Moment, Moment),
    room: usize,
) -> Vec<(Moment, proto::Window)> {
    let PoolKind::Schedule(schedule) = &campaign.pool(pool).kind else {
        return Vec::new();
    };
    if has_no_hours(schedule) {
        return Vec::new();
    }
    let windows = campaign.zone.windows(from, campaign.start, campaign.end);
    windows
        .take_while(|window| window.start < until)
        .map(|window| (window, schedule.hourly(&window)))
        .filter(|(_, quantities)| !quantities.is_empty())
        .take(room)
        .map(|(window, quantities)| {
            let shown = planned_window(&window, &quantities, pool, campaign);
            (window.end, shown)
        })
        .collect()
}

fn planned_window(
    window: &zone::Window,
    quantities: &Quantities,
    pool: PoolNo,
    campaign: &Campaign,
) -> proto::Window {
    let prizes = quantities.iter();
    proto::Window {
        pool_id: views::pool_id(campaign, pool),
        start_time: Some(moment_to_proto(window.start)),
        end_time: Some(moment_to_proto(window.end)),
        local_start: campaign.zone.local(window.start),
        state: proto::WindowState::Planned.into(),
        version: 0,
        prizes: prizes
            .map(|(no, units)| proto::WindowPrize {
                prize_id: campaign.prize(*no).id.to_string(),
                planned: *units,
                ..proto::WindowPrize::default()
            })
            .collect(),
    }
}

/// Nothing but totals is planned.
fn has_no_hours(schedule: &Schedule) -> bool {
    schedule.per_hour.is_empty() && schedule.daily.is_empty() && schedule.special.is_empty()
}

/// Whether anything may be planned for a window: with a `total` that is every window, so that the
/// answer gives nothing away.
pub(super) fn may_plan(schedule: &Schedule, window: &zone::Window) -> bool {
    !schedule.total.is_empty() || !schedule.hourly(window).is_empty()
}

/// When the next window of these pools is injected, of those for which anything may be planned.
fn next_injection(
    filling: &Filling,
    pools: &[PoolNo],
    lead: Duration,
    now: Moment,
) -> Option<Moment> {
    let campaign = &filling.view.campaign;
    if filling.view.has_ended(now) {
        return None;
    }
    let starts = pools.iter().filter_map(|no| {
        let PoolKind::Schedule(schedule) = &campaign.pool(*no).kind else {
            return None;
        };
        if schedule.total.is_empty() && has_no_hours(schedule) {
            return None;
        }
        let from = horizon(filling, *no);
        let mut windows = campaign.zone.windows(from, campaign.start, campaign.end);
        windows
            .find(|window| may_plan(schedule, window))
            .map(|window| window.start)
    });
    starts.min().map(|start| (start - lead).max(now))
}

/// A frozen window with what may be shown of it.
pub(super) fn window(
    view: &WindowView,
    prizes: Vec<&(PrizeNo, WindowUnits)>,
    campaign: &Campaign,
) -> proto::Window {
    let state = match view.state {
        WindowState::Injecting => proto::WindowState::Injecting,
        WindowState::Injected => proto::WindowState::Injected,
        WindowState::Missed => proto::WindowState::Missed,
        WindowState::Recalled => proto::WindowState::Recalled,
    };
    let prizes = prizes.into_iter().map(|(no, units)| proto::WindowPrize {
        prize_id: campaign.prize(*no).id.to_string(),
        planned: units.planned,
        carried: units.carried,
        injected: units.injected,
        released: units.released,
        won: units.won,
        recalled: units.recalled,
        returned: units.returned,
    });
    proto::Window {
        pool_id: views::pool_id(campaign, view.pool),
        start_time: Some(moment_to_proto(view.start)),
        end_time: Some(moment_to_proto(view.end)),
        local_start: campaign.zone.local(view.start),
        state: state.into(),
        version: view.version,
        prizes: prizes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_s_token_reads_back() {
        let cursor = Cursor {
            pool: PoolNo(3),
            after: Moment::from_micros(1_700_000_000_000_000),
        };
        assert_eq!(Cursor::parse(&cursor.token()), Some(cursor));
        for strange in ["", ".", "x.1", "1.x", "70000.1", "1"] {
            assert_eq!(Cursor::parse(strange), None, "{strange:?}");
        }
    }
}
