//! Consistent reads beside the writer, each in a transaction of a connection of its own.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    columns::{definition, entry_columns, ledger_id, moment, read_entry, scalar},
    draw::deck_stop,
    load::load,
    removal::not_found,
    rows::{Columns, Key, Row, user_row},
    state::CampaignState,
    units::Queue,
    users::{find_block, list_blocks, record_of, remembered},
    windows::{load_live, read_window},
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo, RequestId, UserId},
    store::{
        BlockedUsers, CampaignView, DrawAnswer, DueCampaign, Entry, Executed, Filling,
        LEDGER_PAGE_BYTES, Refusal, Result, Stats, StoreError, UserDetails, UserView, WindowView,
        entry::Body,
        rules::{self, PoolState, Window},
        view::DeckStats,
    },
};

fn state(db: &Connection, known: &CampaignView) -> Result<CampaignState> {
    let id = &known.campaign.id;
    match CampaignState::load_known(db, id, Some(known))? {
        Some(state) => Ok(state),
        None => Err(not_found(db, id)?),
    }
}

pub(super) fn campaign_no(db: &Connection, id: &CampaignId) -> Result<i64> {
    let found = db
        .prepare_cached("SELECT no FROM campaigns WHERE id = ?1 AND removed IS NULL")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    match found {
        Some(no) => Ok(no),
        None => Err(not_found(db, id)?),
    }
}

/// A user's record as it stands now. `waiting` is its row if it is not in the table yet.
pub(super) fn user(
    db: &Connection,
    waiting: Option<Row>,
    view: CampaignView,
    user: &UserId,
    now: Moment,
) -> Result<UserView> {
    let no = campaign_no(db, &view.campaign.id)?;
    let today = view.campaign.zone.day(now);
    let row = user_row(db, waiting, &Key::record(no, user))?;
    let record = row.as_deref().map(record_of).transpose()?;
    let record = record.unwrap_or_default().on(today, now);
    Ok(UserView { view, record, now })
}

/// A user's record and block, in the same way.
pub(super) fn user_details(
    db: &Connection,
    waiting: Option<Row>,
    known: CampaignView,
    id: &UserId,
    now: Moment,
) -> Result<UserDetails> {
    let no = campaign_no(db, &known.campaign.id)?;
    Ok(UserDetails {
        view: user(db, waiting, known, id, now)?,
        block: find_block(db, no, id)?,
    })
}

/// Blocked users by id, after `after`.
pub(super) fn blocked_users(
    db: &Connection,
    id: &CampaignId,
    after: Option<&UserId>,
    limit: usize,
) -> Result<BlockedUsers> {
    let no = campaign_no(db, id)?;
    Ok(BlockedUsers {
        users: list_blocks(db, no, after, limit)?,
        total: scalar(
            db,
            "SELECT blocked_users FROM campaigns WHERE no = ?1",
            [no],
        )?,
    })
}

/// What a remembered draw answered. For `user` and `waiting` see
/// [`answering`](super::rows::answering).
pub(super) fn find_draw(
    db: &Connection,
    user: Option<&Columns>,
    waiting: Option<Row>,
    id: &CampaignId,
    name: (&UserId, &RequestId),
    oldest: Moment,
) -> Result<DrawAnswer> {
    let no = campaign_no(db, id)?;
    let user = user.ok_or(Refusal::DrawNotFound)?;
    let found = remembered(db, user, waiting, &Key::request(no, name), oldest);
    let found = found.map_err(|error| error.with_executed(Executed::No))?;
    let entry = found.ok_or(Refusal::DrawNotFound)?;
    let Body::Draw(draw) = entry.body else {
        return Err(Refusal::DrawNotFound.into());
    };
    let campaign = definition(db, no, draw.version).map_err(StoreError::of_recorded_version)?;
    draw.check(&campaign)?;
    let (draw, id) = (Arc::new(draw), entry.id);
    Ok(DrawAnswer::replayed(draw, id, entry.at, campaign))
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
    let campaign = state(db, known)?;
    let state = load(db, &campaign, now, &[])?;
    let paused = &campaign.view.paused_prizes;
    rules::filling(&state, |no| {
        let queues = campaign.pools[usize::from(no.0)].queues.iter();
        rules::cards_available(paused, queues.map(Queue::view))
    })
}

/// Where every unit is.
pub(super) fn stats(db: &Connection, known: &CampaignView, now: Moment) -> Result<Stats> {
    let state = state(db, known)?;
    let stock = state.stock.iter();
    let mut prizes: Vec<_> = stock.map(|stock| stock.units.stats(stock.won)).collect();
    let mut pools_agree = true;
    let mut decks = Vec::new();
    for (pool_no, pool) in (0..).map(PoolNo).zip(&state.pools) {
        let open = load_live(db, state.no, pool_no, Moment::FAR_FUTURE)?;
        let mut cards_waiting = 0;
        for queue in &pool.queues {
            let (counted, due) = count_units(db, state.no, pool_no, queue.prize, now)?;
            let unplaced = queue.prize.map_or(0, |prize| unplaced(&open, prize));
            pools_agree &= queue.waiting == counted + unplaced;
            cards_waiting += queue.waiting;
            if let Some(prize) = queue.prize {
                let stats = &mut prizes[usize::from(prize.0)];
                stats.waiting += queue.waiting;
                stats.released += due;
            }
        }
        match &pool.known {
            PoolState::Schedule(schedule) => {
                for (prize, units) in &schedule.returned {
                    prizes[usize::from(prize.0)].released += units;
                }
            }
            PoolState::Personal => {}
            PoolState::Deck(deck) => decks.push(DeckStats {
                pool: pool_no,
                round: deck.round,
                cards_left: deck.remaining.iter().map(|kind| kind.cards).sum(),
                cards_waiting,
                stopped: deck_stop(&state, pool_no),
                lacking: deck.lacks(|prize| state.in_stock(prize)).collect(),
            }),
        }
    }
    Ok(Stats {
        now,
        head: ledger_id(head(db)?),
        entries: state.entries,
        prizes,
        pools_agree,
        draws: state.counts,
        spent_day: state.spent_day,
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
    let key = params![campaign, pool.0, slot, now.as_micros()];
    Ok(db
        .prepare_cached(
            "SELECT COUNT(*), COUNT(*) FILTER (WHERE score <= ?4) FROM units
             WHERE campaign = ?1 AND pool = ?2 AND prize = ?3",
        )?
        .query_row(key, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Units of a prize off stock for windows and not in their pool.
fn unplaced(open: &BTreeMap<Moment, Window>, prize: PrizeNo) -> u64 {
    let units = open.values().filter_map(|window| window.prizes.get(&prize));
    units.map(|units| units.granted - units.placed).sum()
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
    // Windows do not overlap: by their end is by their start.
    let mut statement = db.prepare_cached(
        "SELECT start, record FROM windows WHERE campaign = ?1 AND pool = ?2 AND finish > ?3 ORDER \
         BY finish LIMIT ?4",
    )?;
    let values = params![no, pool.0, after.as_micros(), limit];
    let rows = statement.query_and_then(values, |row| -> Result<WindowView> {
        let (start, window) = read_window(row)?;
        window.view(pool, start, |prize| {
            won_and_due(db, no, (pool, start, prize), now)
        })
    })?;
    rows.collect()
}

/// Units of a window that were won, and those that are released and wait.
fn won_and_due(
    db: &Connection,
    campaign: i64,
    (pool, start, prize): (PoolNo, Moment, PrizeNo),
    now: Moment,
) -> Result<(u64, u64)> {
    let mut statement = db.prepare_cached(
        "SELECT COALESCE((SELECT won FROM window_wins WHERE campaign = ?1 AND pool = ?2 AND window \
         = ?3 AND prize = ?4), 0),
                (SELECT COUNT(*) FROM units WHERE campaign = ?1 AND pool = ?2 AND prize = ?4
                 AND score BETWEEN ?5 AND ?6 AND window = ?3)",
    )?;
    let values = params![
        campaign,
        pool.0,
        start.as_seconds(),
        prize.0,
        start.as_micros(),
        now.as_micros()
    ];
    Ok(statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Entries of the ledger after `sequence`.
pub(super) fn ledger(db: &Connection, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
    let mut statement = db.prepare_cached(
        "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign), envelope, \
         number, fork FROM ledger
         WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
    )?;
    let mut rows = statement.query_map(params![sequence, limit], entry_columns)?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while bytes < LEDGER_PAGE_BYTES
        && let Some(columns) = rows.next().transpose()?
    {
        let (_, _, body, ..) = &columns;
        bytes += body.len();
        entries.push(read_entry(columns)?);
    }
    Ok(entries)
}

/// The number of the last entry; 0 if there is none.
pub(super) fn head(db: &Connection) -> Result<u64> {
    let sql = "SELECT COALESCE(MAX(sequence), 0) FROM ledger";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Campaigns that the injector has something to do with by a moment.
pub(super) fn due_campaigns(
    db: &Connection,
    until: Moment,
    after: Option<&DueCampaign>,
    limit: usize,
) -> Result<Vec<DueCampaign>> {
    let mut statement = db.prepare_cached(
        "SELECT due, id FROM campaigns WHERE due <= ?1 AND (due, id) > (?2, ?3)
         ORDER BY due, id LIMIT ?4",
    )?;
    let (due, id) = after.map_or((-1, ""), |after| (after.due.as_micros(), after.id.as_str()));
    let values = params![until.as_micros(), due, id, limit];
    let rows = statement.query_and_then(values, |row| -> Result<DueCampaign> {
        let id = CampaignId::parse("campaign", &row.get::<_, String>(1)?);
        Ok(DueCampaign {
            due: moment(row, 0)?,
            id: id.map_err(|problem| StoreError::corrupt(problem.message))?,
        })
    })?;
    rows.collect()
}
