//! A campaign's counters and the heads of its pools, kept in memory between steps and written back
//! once a batch.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, params};

use super::{
    columns::{definition, from_json, moment},
    units::Queue,
    windows::load_live,
};
use crate::{
    chance::Nonce,
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolKind, PoolNo, PrizeNo,
        budget::{Spent, SpentDay},
        deck::CardCount,
        zone::Day,
    },
    store::{
        CampaignView, Hold, Lifecycle, Result, StoreError,
        rules::{self, PoolState},
        view::{DrawCounts, VersionInfo},
    },
};

/// A campaign as the writer knows it.
pub(super) struct CampaignState {
    pub(super) no: i64,
    pub(super) view: CampaignView,
    pub(super) users: u64,
    pub(super) counts: DrawCounts,
    /// The number of the last entry.
    pub(super) entries: u64,
    /// What was won under a budget.
    pub(super) spent_day: SpentDay,
    pub(super) stock: Vec<Stock>,
    pub(super) pools: Vec<Pool>,
    /// Units that the campaign's guarantees have given.
    pub(super) guaranteed: u64,
    /// Wins by pool, window and prize that are not yet written to `window_wins`.
    pub(super) window_wins: HashMap<(PoolNo, i64, PrizeNo), u64>,
    pub(super) dirty: bool,
}

/// The stock of one prize: `given = remaining + waiting in queues + won - revoked + withdrawn`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stock {
    pub(super) units: rules::Stock,
    pub(super) won: u64,
    pub(super) dirty: bool,
}

/// A pool.
pub(super) struct Pool {
    /// As rules know it, without its windows.
    pub(super) known: PoolState,
    /// Of a schedule: every unit released before this moment is in the pool.
    pub(super) filled_until: Moment,
    /// Of a deck: the cards of every later round.
    pub(super) later_round: Vec<CardCount>,
    /// A queue a prize that ever had units here, by prize; the first one of a deck may be for
    /// blanks.
    pub(super) queues: Vec<Queue>,
    /// Of a personal pool: units that were won.
    pub(super) given: u64,
}

impl CampaignState {
    /// Reads a campaign.
    pub(super) fn load(db: &Connection, id: &CampaignId) -> Result<Option<Self>> {
        Self::load_known(db, id, None)
    }

    /// Reads a campaign; its definition need not be decoded if `known` has the version that is
    /// read.
    pub(super) fn load_known(
        db: &Connection,
        id: &CampaignId,
        known: Option<&CampaignView>,
    ) -> Result<Option<Self>> {
        let Some(loaded) = load_view(db, id, known)? else {
            return Ok(None);
        };
        let mut state = Self {
            no: loaded.no,
            users: loaded.users,
            counts: loaded.counts,
            entries: loaded.entries,
            spent_day: loaded.spent_day,
            stock: load_stock(db, loaded.no)?,
            pools: Vec::new(),
            guaranteed: units_given(db, loaded.no, PoolNo::GUARANTEES)?,
            window_wins: HashMap::new(),
            dirty: false,
            view: loaded.view,
        };
        state.load_pools(db)?;
        state.check()?;
        Ok(Some(state))
    }

    /// Checks what was read, so that no draw works on numbers that contradict each other.
    fn check(&self) -> Result<()> {
        let campaign = &self.view.campaign;
        rules::check_stock(campaign, self.stock.iter().map(|stock| &stock.units))?;
        rules::check_pools(campaign, self.pools.iter().map(|pool| &pool.known))?;
        let queues = self.pools.iter().flat_map(|pool| &pool.queues);
        rules::check_prizes(campaign, queues.filter_map(|queue| queue.prize.as_ref()))
    }

    /// Makes the row of a campaign of which nothing else exists yet.
    pub(super) fn create(db: &Connection, view: &CampaignView) -> Result<Self> {
        db.prepare_cached(
            "INSERT INTO campaigns (id, version, lifecycle, touched, paused_prizes, nonce, \
             commitment,
                                    blocked_users, users, wins, consolations, nothings)
             VALUES (?1, ?2, 0, 0, '[]', ?3, ?4, 0, 0, 0, 0, 0)",
        )?
        .execute(params![
            view.campaign.id.as_str(),
            view.version,
            view.nonce.0,
            view.commitment.as_ref()
        ])?;
        Ok(Self {
            no: db.last_insert_rowid(),
            view: view.clone(),
            users: 0,
            counts: DrawCounts::default(),
            entries: 0,
            spent_day: SpentDay::default(),
            stock: Vec::new(),
            pools: Vec::new(),
            guaranteed: 0,
            window_wins: HashMap::new(),
            dirty: false,
        })
    }

    fn load_pools(&mut self, db: &Connection) -> Result<()> {
        let mut statement =
            db.prepare_cached("SELECT state FROM pools WHERE campaign = ?1 ORDER BY pool")?;
        let rows = statement.query_map([self.no], |row| row.get::<_, String>(0))?;
        for (no, row) in (0..).map(PoolNo).zip(rows) {
            let mut known: PoolState = from_json(&row?)?;
            let mut filled_until = Moment::EPOCH;
            if let PoolState::Schedule(schedule) = &mut known {
                schedule.windows = load_live(db, self.no, no, Moment::FAR_FUTURE)?;
                filled_until = schedule.filled_until();
                schedule.windows.clear();
            }
            let queues = Queue::load(db, self.no, no)?;
            if usize::from(no.0) >= self.view.campaign.pools.len() {
                return Err(StoreError::corrupt(format!("there is no pool {}", no.0)));
            }
            let mut pool = Pool::new(&self.view.campaign, no, known, queues);
            pool.filled_until = filled_until;
            if let PoolState::Personal = pool.known {
                pool.given = units_given(db, self.no, no)?;
            }
            self.pools.push(pool);
        }
        Ok(())
    }

    /// The pool of this number.
    pub(super) fn pool(&mut self, no: PoolNo) -> &mut Pool {
        &mut self.pools[usize::from(no.0)]
    }

    /// Units that a personal pool has given, or the campaign's guarantees.
    pub(super) fn given(&self, no: PoolNo) -> u64 {
        match no {
            PoolNo::GUARANTEES => self.guaranteed,
            no => self.pools[usize::from(no.0)].given,
        }
    }

    /// The same, to be changed.
    pub(super) fn given_mut(&mut self, no: PoolNo) -> &mut u64 {
        match no {
            PoolNo::GUARANTEES => &mut self.guaranteed,
            no => &mut self.pools[usize::from(no.0)].given,
        }
    }

    /// The queue of a prize, or of blanks, which is made if there is none.
    pub(super) fn queue(&mut self, no: PoolNo, prize: Option<PrizeNo>) -> &mut Queue {
        let queues = &mut self.pool(no).queues;
        let index = queues.binary_search_by_key(&prize, |queue| queue.prize);
        if let Err(index) = index {
            queues.insert(index, Queue::new(prize, 0));
        }
        let (Ok(index) | Err(index)) = index;
        &mut queues[index]
    }

    /// Units of a prize that can be taken off stock.
    pub(super) fn in_stock(&self, prize: PrizeNo) -> u64 {
        let units = &self.stock[usize::from(prize.0)].units;
        units.available(self.view.campaign.prize(prize))
    }

    /// What was won of the budget; nothing if there is none.
    pub(super) fn spent(&self, now: Moment) -> Spent {
        rules::spent(&self.view.campaign, self.spent_day, now, |prize| {
            let stock = &self.stock[usize::from(prize.0)];
            stock.units.still_won(stock.won)
        })
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
            "UPDATE campaigns SET touched = ?2, users = ?3, wins = ?4, consolations = ?5, nothings \
             = ?6, entries = ?7, spent_day = ?8, spent_today = ?9 WHERE no = ?1",
        )?
        .execute(params![
            self.no,
            self.view.touched,
            self.users,
            self.counts.wins,
            self.counts.consolations,
            self.counts.nothings,
            self.entries,
            self.spent_day.day.0,
            self.spent_day.amount
        ])?;
        for (prize, stock) in (0u16..).zip(&mut self.stock) {
            if std::mem::take(&mut stock.dirty) {
                let units = &stock.units;
                db.prepare_cached(
                    "INSERT OR REPLACE INTO stock
                     (campaign, prize, given, remaining, won, withdrawn, returned, forfeited,
                      revoked, skipped)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute(params![
                    self.no,
                    prize,
                    units.given,
                    units.remaining,
                    stock.won,
                    units.withdrawn,
                    units.returned,
                    units.forfeited,
                    units.revoked,
                    units.skipped
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
                "INSERT INTO window_wins (campaign, pool, window, prize, won) VALUES (?1, ?2, ?3, \
                 ?4, ?5)
                 ON CONFLICT DO UPDATE SET won = won + excluded.won",
            )?
            .execute(params![self.no, pool.0, window, prize.0, wins])?;
        }
        Ok(())
    }
}

impl Pool {
    /// A pool with the queues that it has; of a schedule it is not known how far it is filled.
    pub(super) fn new(
        campaign: &Campaign,
        no: PoolNo,
        known: PoolState,
        queues: Vec<Queue>,
    ) -> Self {
        let later_round = match &campaign.pool(no).kind {
            PoolKind::Deck(deck) => deck.later_round(|prize| campaign.prize(prize).grand),
            PoolKind::Schedule(_) | PoolKind::Personal(_) => Vec::new(),
        };
        Self {
            known,
            filled_until: Moment::EPOCH,
            later_round,
            queues,
            given: 0,
        }
    }

    /// Units are released over time.
    pub(super) fn is_schedule(&self) -> bool {
        matches!(self.known, PoolState::Schedule(_))
    }
}

/// Units that were won of a personal pool, or of guarantees.
fn units_given(db: &Connection, campaign: i64, pool: PoolNo) -> Result<u64> {
    let sql = "SELECT COALESCE(SUM(won), 0) FROM window_wins WHERE campaign = ?1 AND pool = ?2";
    let mut statement = db.prepare_cached(sql)?;
    Ok(statement.query_row(params![campaign, pool.0], |row| row.get(0))?)
}

fn load_stock(db: &Connection, campaign: i64) -> Result<Vec<Stock>> {
    let mut statement = db.prepare_cached(
        "SELECT given, remaining, won, withdrawn, returned, forfeited, revoked, skipped FROM stock
         WHERE campaign = ?1 ORDER BY prize",
    )?;
    let rows = statement.query_map([campaign], |row| {
        let units = rules::Stock {
            given: row.get(0)?,
            remaining: row.get(1)?,
            withdrawn: row.get(3)?,
            returned: row.get(4)?,
            forfeited: row.get(5)?,
            revoked: row.get(6)?,
            skipped: row.get(7)?,
        };
        Ok(Stock {
            units,
            won: row.get(2)?,
            dirty: false,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A campaign's row, as readers see it and with its counters.
pub(super) struct LoadedView {
    pub(super) no: i64,
    pub(super) view: CampaignView,
    users: u64,
    counts: DrawCounts,
    entries: u64,
    spent_day: SpentDay,
}

/// Reads a campaign's row.
pub(super) fn load_view(
    db: &Connection,
    id: &CampaignId,
    known: Option<&CampaignView>,
) -> Result<Option<LoadedView>> {
    let mut statement = db.prepare_cached(
        "SELECT no, version, lifecycle, touched, paused_prizes, nonce, commitment,
                blocked_users, users, wins, consolations, nothings, holds, entries,
                spent_day, spent_today
         FROM campaigns WHERE id = ?1 AND removed IS NULL",
    )?;
    let mut rows = statement.query_and_then([id.as_str()], |row| -> Result<LoadedView> {
        let no: i64 = row.get(0)?;
        let version: u32 = row.get(1)?;
        let code: u8 = row.get(2)?;
        let paused: Vec<PrizeNo> = from_json(&row.get::<_, String>(4)?)?;
        let noted: Option<String> = row.get(12)?;
        let campaign = match known.filter(|known| known.version == version) {
            Some(known) => Arc::clone(&known.campaign),
            None => definition(db, no, version)?,
        };
        rules::check_prizes(&campaign, paused.iter())?;
        let noted: Vec<Hold> = noted.map_or(Ok(Vec::new()), |noted| from_json(&noted))?;
        let lifecycle = Lifecycle::from_code(code.into())?;
        let view = CampaignView {
            campaign,
            version,
            lifecycle,
            holds: rules::holds(lifecycle, &paused, &noted, None),
            touched: row.get(3)?,
            paused_prizes: paused.into(),
            versions: load_versions(db, no)?.into(),
            nonce: Nonce(row.get(5)?),
            commitment: row.get(6)?,
            blocked_users: row.get(7)?,
        };
        Ok(LoadedView {
            no,
            view,
            users: row.get(8)?,
            counts: DrawCounts {
                wins: row.get(9)?,
                consolations: row.get(10)?,
                nothings: row.get(11)?,
            },
            entries: row.get(13)?,
            spent_day: SpentDay {
                day: Day(row.get(14)?),
                amount: row.get(15)?,
            },
        })
    })?;
    rows.next().transpose()
}

fn load_versions(db: &Connection, campaign: i64) -> Result<Vec<VersionInfo>> {
    let mut statement = db.prepare_cached(
        "SELECT version, at, operator, reason, proposed_by FROM versions
         WHERE campaign = ?1 ORDER BY version",
    )?;
    let named = |id: &str| {
        let parsed = OperatorId::parse("operator", id);
        parsed.map_err(|problem| StoreError::corrupt(problem.message))
    };
    let rows = statement.query_and_then([campaign], |row| -> Result<VersionInfo> {
        let proposed_by: Option<String> = row.get(4)?;
        Ok(VersionInfo {
            version: row.get(0)?,
            at: moment(row, 1)?,
            operator: named(&row.get::<_, String>(2)?)?,
            reason: row.get(3)?,
            proposed_by: proposed_by.as_deref().map(named).transpose()?,
        })
    })?;
    rows.collect()
}
