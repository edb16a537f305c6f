//! Sums of days in `GetSchedule`. They reveal what the windows reveal that they sum, and no more.

use std::collections::BTreeMap;

use super::{
    schedule::{self, Cursor, Query},
    status::CallError,
};
use crate::{
    model::{Campaign, Moment, PoolNo},
    proto::{ScheduleDay, Window, WindowPrize, WindowState},
    store::{Filling, Store},
};

/// The most days of a page.
const DAYS_MAX: usize = 100;
/// Windows that are read at once.
const WINDOWS: usize = 1_000;
/// What the tokens of pages of days have in place of a pool.
pub(super) const DAYS: PoolNo = PoolNo(u16::MAX);

/// The days of a page, and where the next one begins.
pub(super) async fn page(
    store: &dyn Store,
    mut query: Query,
    filling: &Filling,
    pools: &[PoolNo],
    now: Moment,
) -> Result<(Vec<ScheduleDay>, Option<Cursor>), CallError> {
    let campaign = &filling.view.campaign;
    let asked = query.cursor.take().map_or(query.from, |it| it.after);
    query.from = asked.max(campaign.start);
    let end = query.until.min(campaign.end);
    query.until = (0..query.size.min(DAYS_MAX))
        .fold(query.from, |at, _| campaign.zone.next_day_start(at))
        .min(end);
    query.size = WINDOWS;
    let mut days = BTreeMap::new();
    while query.from < end {
        let (windows, next) = schedule::page(store, &query, filling, pools, now).await?;
        for window in windows {
            add(&mut days, window);
        }
        if next.is_none() {
            break;
        }
        query.cursor = next;
    }
    let more = query.until < end;
    let next = more.then_some(Cursor {
        pool: DAYS,
        after: query.until,
    });
    let days = days.into_values().map(|day| in_order(day, campaign));
    Ok((days.collect(), next))
}

/// Adds a window to its day.
fn add(days: &mut BTreeMap<String, ScheduleDay>, window: Window) {
    let is_missed = window.state() == WindowState::Missed;
    let date = window.local_start.get(..10).unwrap_or_default().to_owned();
    let day = days.entry(date.clone()).or_insert_with(|| ScheduleDay {
        local_date: date,
        ..ScheduleDay::default()
    });
    day.windows += 1;
    day.missed_windows += u32::from(is_missed);
    for prize in window.prizes {
        let known = day
            .prizes
            .iter_mut()
            .find(|it| it.prize_id == prize.prize_id);
        match known {
            Some(sum) => sum_up(sum, &prize),
            None => day.prizes.push(prize),
        }
    }
}

fn sum_up(sum: &mut WindowPrize, prize: &WindowPrize) {
    for (sum, units) in [
        (&mut sum.planned, prize.planned),
        (&mut sum.carried, prize.carried),
        (&mut sum.injected, prize.injected),
        (&mut sum.released, prize.released),
        (&mut sum.won, prize.won),
        (&mut sum.recalled, prize.recalled),
        (&mut sum.returned, prize.returned),
    ] {
        *sum = sum.saturating_add(units);
    }
}

/// The day with its prizes in the campaign's order.
fn in_order(mut day: ScheduleDay, campaign: &Campaign) -> ScheduleDay {
    let place = |prize: &WindowPrize| {
        let mut prizes = campaign.numbered_prizes();
        prizes.position(|(_, known)| known.id.as_str() == prize.prize_id)
    };
    day.prizes.sort_by_cached_key(place);
    day
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_the_sums_of_its_windows() {
        let window = |start: &str, prize: &str, won, state: WindowState| Window {
            local_start: start.into(),
            state: state.into(),
            prizes: vec![WindowPrize {
                prize_id: prize.into(),
                planned: 10,
                won,
                ..WindowPrize::default()
            }],
            ..Window::default()
        };
        let mut days = BTreeMap::new();
        for window in [
            window("2026-12-01T23:00+08:00", "mug", 1, WindowState::Injected),
            window("2026-12-01T22:00+08:00", "mug", 2, WindowState::Missed),
            window("2026-12-01T22:00+08:00", "car", 0, WindowState::Planned),
            window("2026-12-02T00:00+08:00", "mug", 7, WindowState::Planned),
        ] {
            add(&mut days, window);
        }
        let day = &days["2026-12-01"];
        assert_eq!((day.windows, day.missed_windows), (3, 1));
        let sums = |day: &ScheduleDay| {
            let prizes = day.prizes.iter();
            let sums = prizes.map(|it| (it.prize_id.clone(), it.planned, it.won));
            sums.collect::<Vec<_>>()
        };
        assert_eq!(sums(day), [("mug".into(), 20, 3), ("car".into(), 10, 0)]);
        assert_eq!(sums(&days["2026-12-02"]), [("mug".into(), 10, 7)]);
    }
}
