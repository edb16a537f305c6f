//! A campaign's counters and the heads of its pools, kept in memory between steps and written back once a batch.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{
    step::{definition, from_json, moment, to_json},
    units::Queue,
};
use crate::{
    chance::Nonce,
    model::{
        CampaignId, Moment, OperatorId, PoolKind, PoolNo, PrizeNo, campaign::Quantities,
        deck::CardCount,
    },
    store::{
        CampaignView, Lifecycle, Result, StoreError,
        fill::TotalsBase,
        view::{DrawCounts, VersionInfo},
    },
};

/// A campaign as the writer knows it.
pub(super) struct CampaignState {
    pub(super) no: i64,
    pub(super) view: CampaignView,
    pub(super) users: u64,
    pub(super) counts: DrawCounts,
    pub(super) stock: Vec<Stock>,
    pub(super) pools: Vec<PoolState>,
    /// Wins by pool, window and prize that are not yet written to `window_prizes`.
    pub(super) window_wins: HashMap<(PoolNo, i64, PrizeNo), u64>,
    pub(super) dirty: bool,
}

/// The stock of one prize: `given = remaining + waiting in queues + won + withdrawn`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stock {
    pub(super) given: u64,
    pub(super) remaining: u64,
    pub(super) won: u64,
    pub(super) withdrawn: u64,
    pub(super) returned: u64,
    pub(super) dirty: bool,
}

/// A pool.
pub(super) struct PoolState {
    pub(super) kind: PoolStateKind,
    /// A queue a prize; the last one of a deck is for blanks.
    pub(super) queues: Vec<Queue>,
}

/// How far a pool is filled.
pub(super) enum PoolStateKind {
    Schedule(ScheduleState),
    Deck(DeckState),
}

/// How far a schedule is filled.
pub(super) struct ScheduleState {
    pub(super) horizon: Moment,
    pub(super) totals: TotalsBase,
    pub(super) carry: Carry,
    /// Every unit released before this moment is in the pool.
    pub(super) filled_until: Moment,
}

/// Units of missed windows on their way to the next ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Carry {
    /// Over how many windows they are spread.
    pub(super) windows: u64,
    pub(super) units: Quantities,
}

/// How far a deck is dealt.
pub(super) struct DeckState {
    pub(super) round: u64,
    pub(super) chunk: u64,
    pub(super) dealt: i64,
    pub(super) remaining: Vec<CardCount>,
    /// What the next chunk needs of stock and did not get.
    pub(super) short: Option<Quantities>,
    pub(super) later_round: Vec<CardCount>,
}

impl CampaignState {
    /// Reads a campaign.
    pub(super) fn load(db: &Connection, id: &CampaignId) -> Result<Option<Self>> {
        Self::load_known(db, id, None)
    }

    /// Reads a campaign; its definition need not be decoded where `known` has the version that is read.
    pub(super) fn load_known(
        db: &Connection,
        id: &CampaignId,
        known: Option<&CampaignView>,
    ) -> Result<Option<Self>> {
        let Some((no, view, users, counts)) = load_view(db, id, known)? else {
            return Ok(None);
        };
        let mut state = Self {
            no,
            users,
            counts,
            stock: load_stock(db, no)?,
            pools: Vec::new(),
            window_wins: HashMap::new(),
            dirty: false,
            view,
        };
        state.load_pools(db)?;
        Ok(Some(state))
    }

    fn load_pools(&mut self, db: &Connection) -> Result<()> {
        let campaign = Arc::clone(&self.view.campaign);
        for (pool_no, pool) in campaign.numbered_pools() {
            let kind = match &pool.kind {
                PoolKind::Schedule(_) => {
                    PoolStateKind::Schedule(ScheduleState::load(db, self.no, pool_no)?)
                }
                PoolKind::Deck(deck) => {
                    let later_round = deck.later_round(|prize| campaign.prize(prize).grand);
                    PoolStateKind::Deck(DeckState::load(db, self.no, pool_no, later_round)?)
                }
            };
            let queues = Queue::load(db, self.no, pool_no)?;
            self.pools.push(PoolState { kind, queues });
        }
        Ok(())
    }

    /// The pool of this number.
    pub(super) fn pool(&mut self, no: PoolNo) -> &mut PoolState {
        &mut self.pools[usize::from(no.0)]
    }

    /// The schedule of this number, or what is wrong.
    pub(super) fn schedule(&mut self, no: PoolNo) -> Result<&mut ScheduleState> {
        match self.pools.get_mut(usize::from(no.0)).map(|p| &mut p.kind) {
            Some(PoolStateKind::Schedule(schedule)) => Ok(schedule),
            _ => Err(StoreError::Corrupt(format!("pool {} is no schedule", no.0))),
        }
    }

    /// The stock of a prize, to be changed.
    pub(super) fn stock_mut(&mut self, prize: PrizeNo) -> &mut Stock {
        self.dirty = true;
        let stock = &mut self.stock[usize::from(prize.0)];
        stock.dirty = true;
        stock
    }

    /// A prize is held.
    pub(super) fn is_paused(&self, prize: PrizeNo) -> bool {
        self.view.paused_prizes.contains(&prize)
    }

    /// The first change of any kind: from now on the campaign's shape is fixed.
    pub(super) fn touch(&mut self) {
        self.view.touched = true;
        self.dirty = true;
    }

    /// Writes what has changed since the last time.
    pub(super) fn flush(&mut self, db: &Connection) -> Result<()> {
        if !self.dirty {
            return Ok(());
        }
        self.dirty = false;
        db.prepare_cached(
            "UPDATE campaigns SET touched = ?2, users = ?3, wins = ?4, consolations = ?5, nothings = ?6 WHERE no = ?1",
        )?
        .execute(params![
            self.no,
            self.view.touched,
            self.users,
            self.counts.wins,
            self.counts.consolations,
            self.counts.nothings
        ])?;
        for (prize, stock) in (0u16..).zip(&mut self.stock) {
            if std::mem::take(&mut stock.dirty) {
                db.prepare_cached(
                    "UPDATE stock SET given = ?3, remaining = ?4, won = ?5, withdrawn = ?6, returned = ?7
                     WHERE campaign = ?1 AND prize = ?2",
                )?
                .execute(params![
                    self.no,
                    prize,
                    stock.given,
                    stock.remaining,
                    stock.won,
                    stock.withdrawn,
                    stock.returned
                ])?;
            }
        }
        for (pool_no, pool) in (0..).map(PoolNo).zip(&mut self.pools) {
            for queue in &mut pool.queues {
                queue.flush(db, self.no, pool_no)?;
            }
        }
        self.flush_window_wins(db)
    }

    fn flush_window_wins(&mut self, db: &Connection) -> Result<()> {
        for ((pool, window, prize), wins) in self.window_wins.drain() {
            db.prepare_cached(
                "UPDATE window_prizes SET won = won + ?5 WHERE campaign = ?1 AND pool = ?2 AND window = ?3 AND prize = ?4",
            )?
            .execute(params![self.no, pool.0, window, prize.0, wins])?;
        }
        Ok(())
    }
}

impl ScheduleState {
    fn load(db: &Connection, campaign: i64, pool: PoolNo) -> Result<Self> {
        let (horizon, totals, carry): (Moment, String, String) = db
            .prepare_cached(
                "SELECT horizon, totals, carry FROM schedules WHERE campaign = ?1 AND pool = ?2",
            )?
            .query_row(params![campaign, pool.0], |row| {
                Ok((moment(row, 0)?, row.get(1)?, row.get(2)?))
            })?;
        let mut state = Self {
            horizon,
            totals: from_json(&totals)?,
            carry: from_json(&carry)?,
            filled_until: horizon,
        };
        state.refresh(db, campaign, pool)?;
        Ok(state)
    }

    /// Writes the row of this schedule.
    pub(super) fn save(&self, db: &Connection, campaign: i64, pool: PoolNo) -> Result<()> {
        db.prepare_cached(
            "INSERT OR REPLACE INTO schedules (campaign, pool, horizon, totals, carry) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            campaign,
            pool.0,
            self.horizon.as_micros(),
            to_json(&self.totals),
            to_json(&self.carry)
        ])?;
        Ok(())
    }

    /// Recomputes how far the pool is filled.
    pub(super) fn refresh(&mut self, db: &Connection, campaign: i64, pool: PoolNo) -> Result<()> {
        let open: Option<i64> = db
            .prepare_cached(
                "SELECT MIN(until) FROM fills WHERE campaign = ?1 AND pool = ?2 AND closed = 0",
            )?
            .query_row(params![campaign, pool.0], |row| row.get(0))?;
        let open = open.map_or(Moment::FAR_FUTURE, Moment::from_micros);
        self.filled_until = self.horizon.min(open);
        Ok(())
    }
}

impl DeckState {
    fn load(
        db: &Connection,
        campaign: i64,
        pool: PoolNo,
        later_round: Vec<CardCount>,
    ) -> Result<Self> {
        let (round, chunk, dealt, remaining, short): (u64, u64, i64, String, Option<String>) = db
            .prepare_cached(
                "SELECT round, chunk, dealt, remaining, short FROM decks WHERE campaign = ?1 AND pool = ?2",
            )?
            .query_row(params![campaign, pool.0], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })?;
        Ok(Self {
            round,
            chunk,
            dealt,
            remaining: cards_from_json(&remaining)?,
            short: short.as_deref().map(from_json).transpose()?,
            later_round,
        })
    }

    /// Writes the row of this deck.
    pub(super) fn save(&self, db: &Connection, campaign: i64, pool: PoolNo) -> Result<()> {
        db.prepare_cached(
            "INSERT OR REPLACE INTO decks (campaign, pool, round, chunk, dealt, remaining, short)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            campaign,
            pool.0,
            self.round,
            self.chunk,
            self.dealt,
            cards_to_json(&self.remaining),
            self.short.as_ref().map(to_json)
        ])?;
        Ok(())
    }
}

/// Card counts as a JSON list of `[prize or null, cards]`.
pub(super) fn cards_to_json(cards: &[CardCount]) -> String {
    let pairs: Vec<_> = cards.iter().map(|kind| (kind.prize, kind.cards)).collect();
    to_json(&pairs)
}

/// Reads [`cards_to_json`].
pub(super) fn cards_from_json(text: &str) -> Result<Vec<CardCount>> {
    let pairs: Vec<(Option<PrizeNo>, u64)> = from_json(text)?;
    Ok(pairs
        .into_iter()
        .map(|(prize, cards)| CardCount { prize, cards })
        .collect())
}

fn load_stock(db: &Connection, campaign: i64) -> Result<Vec<Stock>> {
    let mut statement = db.prepare_cached(
        "SELECT given, remaining, won, withdrawn, returned FROM stock WHERE campaign = ?1 ORDER BY prize",
    )?;
    let rows = statement.query_map([campaign], |row| {
        Ok(Stock {
            given: row.get(0)?,
            remaining: row.get(1)?,
            won: row.get(2)?,
            withdrawn: row.get(3)?,
            returned: row.get(4)?,
            dirty: false,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Reads a campaign as readers see it, with its number, users and draws.
pub(super) fn load_view(
    db: &Connection,
    id: &CampaignId,
    known: Option<&CampaignView>,
) -> Result<Option<(i64, CampaignView, u64, DrawCounts)>> {
    let found = db
        .prepare_cached(
            "SELECT no, version, lifecycle, touched, paused_prizes, nonce, commitment, blocked_users, users,
                    wins, consolations, nothings
             FROM campaigns WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let counts = DrawCounts {
                wins: row.get(9)?,
                consolations: row.get(10)?,
                nothings: row.get(11)?,
            };
            let text: String = row.get(4)?;
            let commitment: String = row.get(6)?;
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, u32>(1)?,
                row.get::<_, u8>(2)?,
                row.get::<_, bool>(3)?,
                text,
                row.get::<_, [u8; 32]>(5)?,
                commitment,
                row.get::<_, u64>(7)?,
                row.get::<_, u64>(8)?,
                counts,
            ))
        })
        .optional()?;
    let Some((no, version, code, touched, paused, nonce, commitment, blocked, users, counts)) =
        found
    else {
        return Ok(None);
    };
    let paused: Vec<PrizeNo> = from_json(&paused)?;
    let campaign = match known.filter(|known| known.version == version) {
        Some(known) => Arc::clone(&known.campaign),
        None => definition(db, no, version)?,
    };
    let view = CampaignView {
        campaign,
        version,
        lifecycle: lifecycle_from_code(code)?,
        touched,
        paused_prizes: paused.into(),
        versions: load_versions(db, no)?.into(),
        nonce: Nonce(nonce),
        commitment: commitment.into(),
        blocked_users: blocked,
    };
    Ok(Some((no, view, users, counts)))
}

fn load_versions(db: &Connection, campaign: i64) -> Result<Vec<VersionInfo>> {
    let mut statement = db.prepare_cached(
        "SELECT version, at, operator, reason FROM versions WHERE campaign = ?1 ORDER BY version",
    )?;
    let rows = statement.query_map([campaign], |row| {
        Ok((
            row.get(0)?,
            moment(row, 1)?,
            row.get::<_, String>(2)?,
            row.get(3)?,
        ))
    })?;
    rows.map(|row| {
        let (version, at, operator, reason) = row?;
        Ok(VersionInfo {
            version,
            at,
            operator: OperatorId::parse("operator", &operator)
                .map_err(|problem| StoreError::Corrupt(problem.message))?,
            reason,
        })
    })
    .collect()
}

/// The stored form of a lifecycle.
pub(super) fn lifecycle_code(lifecycle: Lifecycle) -> u8 {
    match lifecycle {
        Lifecycle::Open => 0,
        Lifecycle::Paused => 1,
        Lifecycle::Closing => 2,
        Lifecycle::Closed => 3,
    }
}

fn lifecycle_from_code(code: u8) -> Result<Lifecycle> {
    match code {
        0 => Ok(Lifecycle::Open),
        1 => Ok(Lifecycle::Paused),
        2 => Ok(Lifecycle::Closing),
        3 => Ok(Lifecycle::Closed),
        _ => Err(StoreError::Corrupt(format!("no lifecycle has code {code}"))),
    }
}

/// Adds quantities to others.
pub(super) fn add(to: &mut BTreeMap<PrizeNo, u64>, prize: PrizeNo, units: u64) {
    if units > 0 {
        *to.entry(prize).or_default() += units;
    }
}
