//! Consistent reads beside the writer, each in a transaction of a connection of its own.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    apply::window_key,
    draw::deck_stop,
    state::{CampaignState, PoolStateKind},
    step::{definition, entry_columns, from_json, moment, read_entry, scalar},
    users::{load_user, remembered},
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo, RequestId, UserId, campaign::Quantities},
    store::{
        CampaignView, DrawAnswer, Entry, Filling, Refusal, Result, Stats, UserView, WindowView,
        fill::{DeckFilling, FillRecord, LiveWindow, PoolFilling, ScheduleFilling},
        view::{DeckStats, PrizeStats, WindowState, WindowUnits},
    },
};

fn state(db: &Connection, known: &CampaignView) -> Result<CampaignState> {
    CampaignState::load_known(db, &known.campaign.id, Some(known))?
        .ok_or_else(|| Refusal::CampaignNotFound.into())
}

fn campaign_no(db: &Connection, id: &CampaignId) -> Result<i64> {
    let found = db
        .prepare_cached("SELECT no FROM campaigns WHERE id = ?1")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| Refusal::CampaignNotFound.into())
}

/// A user's record as it stands now.
pub(super) fn user(
    db: &Connection,
    view: CampaignView,
    user: &UserId,
    now: Moment,
) -> Result<UserView> {
    let no = campaign_no(db, &view.campaign.id)?;
    let today = view.campaign.zone.day(now);
    let record = load_user(db, no, user)?.unwrap_or_default().on(today, now);
    Ok(UserView { view, record, now })
}

/// What a remembered draw answered.
pub(super) fn find_draw(
    db: &Connection,
    id: &CampaignId,
    user: &UserId,
    request: &RequestId,
    oldest: Moment,
) -> Result<DrawAnswer> {
    let no = campaign_no(db, id)?;
    let (entry, draw) =
        remembered(db, no, (user, request), oldest)?.ok_or(Refusal::DrawNotFound)?;
    let campaign = definition(db, no, draw.version)?;
    Ok(DrawAnswer {
        entry: Arc::new(draw),
        ledger: entry.id,
        at: entry.at,
        replayed: true,
        campaign,
        running_low: Vec::new(),
    })
}

/// A version's definition.
pub(super) fn version(
    db: &Connection,
    id: &CampaignId,
    version: u32,
) -> Result<Arc<crate::model::Campaign>> {
    definition(db, campaign_no(db, id)?, version)
}

/// How far the pools of a campaign are filled.
pub(super) fn filling(db: &Connection, known: &CampaignView, now: Moment) -> Result<Filling> {
    let state = state(db, known)?;
    let campaign = Arc::clone(&state.view.campaign);
    let mut pools = Vec::with_capacity(campaign.pools.len());
    for (no, _) in campaign.numbered_pools() {
        let stopped = deck_stop(&state, no);
        let available = super::draw::available(&state, no);
        pools.push(match &state.pools[usize::from(no.0)].kind {
            PoolStateKind::Schedule(schedule) => PoolFilling::Schedule(ScheduleFilling {
                horizon: schedule.horizon,
                totals: schedule.totals.clone(),
                carry: schedule.carry.units.clone(),
                open: open_fills(db, state.no, no)?,
                recalling: recalling(db, state.no, no)?,
                live: live_windows(db, state.no, no, now)?,
            }),
            PoolStateKind::Deck(deck) => PoolFilling::Deck(DeckFilling {
                round: deck.round,
                chunk: deck.chunk,
                remaining: deck.remaining.clone(),
                available,
                stopped,
            }),
        });
    }
    let used = (0..).map(PrizeNo).zip(&state.stock);
    let used = used.map(|(prize, stock)| (prize, stock.given - stock.remaining));
    Ok(Filling {
        used: used.filter(|(_, units)| *units > 0).collect(),
        view: state.view,
        pools,
    })
}

fn open_fills(db: &Connection, campaign: i64, pool: PoolNo) -> Result<Vec<FillRecord>> {
    let mut statement = db.prepare_cached(
        "SELECT windows.start, fills.finish, generation, fills.start, granted, filled
         FROM fills JOIN windows ON windows.campaign = fills.campaign AND windows.pool = fills.pool
              AND windows.start / 1000000 = fills.window
         WHERE fills.campaign = ?1 AND fills.pool = ?2 AND closed = 0 ORDER BY until",
    )?;
    let rows = statement.query_map(params![campaign, pool.0], |row| {
        let granted: String = row.get(4)?;
        let record = FillRecord {
            window_start: moment(row, 0)?,
            window_end: moment(row, 1)?,
            generation: row.get(2)?,
            from: moment(row, 3)?,
            granted: Quantities::new(),
            filled: row.get(5)?,
        };
        Ok((record, granted))
    })?;
    rows.map(|row| {
        let (record, granted) = row?;
        Ok(FillRecord {
            granted: from_json(&granted)?,
            ..record
        })
    })
    .collect()
}

fn recalling(db: &Connection, campaign: i64, pool: PoolNo) -> Result<Vec<Moment>> {
    let mut statement = db.prepare_cached(
        "SELECT DISTINCT windows.start FROM window_prizes JOIN windows
              ON windows.campaign = window_prizes.campaign AND windows.pool = window_prizes.pool
              AND windows.start / 1000000 = window_prizes.window
         WHERE window_prizes.campaign = ?1 AND window_prizes.pool = ?2 AND recall_due > 0 ORDER BY 1",
    )?;
    let rows = statement.query_map(params![campaign, pool.0], |row| moment(row, 0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn live_windows(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    now: Moment,
) -> Result<Vec<LiveWindow>> {
    let mut statement = db.prepare_cached(
        "SELECT start, finish, version, state FROM windows
         WHERE campaign = ?1 AND pool = ?2 AND finish > ?3 AND state <> 1 ORDER BY start",
    )?;
    let rows = statement.query_map(params![campaign, pool.0, now.as_micros()], |row| {
        Ok((
            moment(row, 0)?,
            moment(row, 1)?,
            row.get::<_, u32>(2)?,
            row.get::<_, u8>(3)?,
        ))
    })?;
    let mut windows = Vec::new();
    for row in rows {
        let (start, end, version, state) = row?;
        let mut live = LiveWindow {
            start,
            end,
            version,
            recalled: state == 2,
            planned: Quantities::new(),
            carried: Quantities::new(),
            injected: Quantities::new(),
        };
        let mut prizes = db.prepare_cached(
            "SELECT prize, planned, carried, granted - recalled FROM window_prizes
             WHERE campaign = ?1 AND pool = ?2 AND window = ?3",
        )?;
        let mut rows = prizes.query(params![campaign, pool.0, window_key(start)])?;
        while let Some(row) = rows.next()? {
            let prize = PrizeNo(row.get(0)?);
            live.planned.insert(prize, row.get(1)?);
            live.carried.insert(prize, row.get(2)?);
            live.injected.insert(prize, row.get(3)?);
        }
        windows.push(live);
    }
    Ok(windows)
}

/// Where every unit is.
pub(super) fn stats(db: &Connection, known: &CampaignView, now: Moment) -> Result<Stats> {
    let state = state(db, known)?;
    let mut prizes: Vec<PrizeStats> = state
        .stock
        .iter()
        .map(|stock| PrizeStats {
            stock: stock.given,
            left: stock.remaining,
            waiting: 0,
            won: stock.won,
            withdrawn: stock.withdrawn,
            returned: stock.returned,
            released: stock.won,
        })
        .collect();
    let mut pools_agree = true;
    let mut decks = Vec::new();
    for (pool_no, pool) in (0..).map(PoolNo).zip(&state.pools) {
        let mut cards_waiting = 0;
        for queue in &pool.queues {
            let (counted, due) = count_units(db, state.no, pool_no, queue.prize, now)?;
            let unplaced = count_unplaced(db, state.no, pool_no, queue.prize)?;
            pools_agree &= queue.waiting == counted + unplaced;
            cards_waiting += queue.waiting;
            if let Some(prize) = queue.prize {
                let stats = &mut prizes[usize::from(prize.0)];
                stats.waiting += queue.waiting;
                stats.released += due + count_returned(db, state.no, pool_no, prize)?;
            }
        }
        if let PoolStateKind::Deck(deck) = &pool.kind {
            decks.push(DeckStats {
                pool: pool_no,
                round: deck.round,
                cards_left: deck.remaining.iter().map(|kind| kind.cards).sum(),
                cards_waiting,
                stopped: deck_stop(&state, pool_no),
            });
        }
    }
    Ok(Stats {
        now,
        prizes,
        pools_agree,
        draws: state.counts,
        users: state.users,
        decks,
        view: state.view,
    })
}

/// Units of a pool that wait, and of these the due ones.
fn count_units(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    prize: Option<PrizeNo>,
    now: Moment,
) -> Result<(u64, u64)> {
    let slot = super::units::slot(prize);
    let place = params![campaign, pool.0, slot, now.as_micros()];
    Ok(db
        .prepare_cached(
            "SELECT COUNT(*), COUNT(*) FILTER (WHERE score <= ?4) FROM units
             WHERE campaign = ?1 AND pool = ?2 AND prize = ?3",
        )?
        .query_row(place, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

fn count_unplaced(
    db: &Connection,
    campaign: i64,
    pool: PoolNo,
    prize: Option<PrizeNo>,
) -> Result<u64> {
    scalar(
        db,
        "SELECT COALESCE(SUM(granted - placed), 0) FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND prize = ?3",
        params![campaign, pool.0, super::units::slot(prize)],
    )
}

fn count_returned(db: &Connection, campaign: i64, pool: PoolNo, prize: PrizeNo) -> Result<u64> {
    scalar(
        db,
        "SELECT COALESCE(SUM(returned), 0) FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND prize = ?3",
        params![campaign, pool.0, prize.0],
    )
}

/// Frozen windows of a pool that end after `after`.
pub(super) fn windows(
    db: &Connection,
    id: &CampaignId,
    pool: PoolNo,
    after: Moment,
    limit: usize,
    now: Moment,
) -> Result<Vec<WindowView>> {
    let no = campaign_no(db, id)?;
    let mut statement = db.prepare_cached(
        "SELECT start, finish, version, state,
                EXISTS (SELECT 1 FROM fills WHERE fills.campaign = windows.campaign AND fills.pool = windows.pool
                        AND fills.window = windows.start / 1000000 AND closed = 0)
         FROM windows WHERE campaign = ?1 AND pool = ?2 AND finish > ?3 ORDER BY start LIMIT ?4",
    )?;
    let rows = statement.query_map(params![no, pool.0, after.as_micros(), limit], |row| {
        let state = match (row.get::<_, u8>(3)?, row.get::<_, bool>(4)?) {
            (1, _) => WindowState::Missed,
            (2, _) => WindowState::Recalled,
            (_, true) => WindowState::Injecting,
            (_, false) => WindowState::Injected,
        };
        Ok(WindowView {
            pool,
            start: moment(row, 0)?,
            end: moment(row, 1)?,
            version: row.get(2)?,
            state,
            prizes: Vec::new(),
        })
    })?;
    let mut windows = Vec::new();
    for row in rows {
        let window = row?;
        let prizes = window_units(db, no, &window, now)?;
        windows.push(WindowView { prizes, ..window });
    }
    Ok(windows)
}

fn window_units(
    db: &Connection,
    campaign: i64,
    window: &WindowView,
    now: Moment,
) -> Result<Vec<(PrizeNo, WindowUnits)>> {
    let key = window_key(window.start);
    let mut statement = db.prepare_cached(
        "SELECT prize, planned, carried, granted, won, recalled, returned,
                (SELECT COUNT(*) FROM units WHERE units.campaign = ?1 AND units.pool = ?2 AND units.prize = window_prizes.prize
                 AND score BETWEEN ?4 AND ?5 AND units.window = ?3)
         FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND window = ?3 ORDER BY prize",
    )?;
    let rows = statement.query_map(
        params![
            campaign,
            window.pool.0,
            key,
            window.start.as_micros(),
            now.as_micros()
        ],
        |row| {
            let (won, returned, due): (u64, u64, u64) = (row.get(4)?, row.get(6)?, row.get(7)?);
            let units = WindowUnits {
                planned: row.get(1)?,
                carried: row.get(2)?,
                injected: row.get(3)?,
                released: won + returned + due,
                won,
                recalled: row.get(5)?,
                returned,
            };
            Ok((PrizeNo(row.get(0)?), units))
        },
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Entries of the ledger after `sequence`.
pub(super) fn ledger(db: &Connection, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
    let mut statement = db.prepare_cached(
        "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign) FROM ledger
         WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
    )?;
    let rows = statement.query_map(params![sequence, limit], entry_columns)?;
    rows.map(|row| read_entry(row?)).collect()
}
