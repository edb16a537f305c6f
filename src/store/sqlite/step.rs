//! One step of the writer: the transaction it runs in, the time it is, and what the writer keeps in
//! memory between steps.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension, params};

pub(super) use super::columns::definition;
use super::{
    changed::{Changed, Waiting},
    columns::{fork_mark, ledger_id, moment, to_json},
    envelopes::Envelopes,
    jumps::Jumps,
    kept::Kept,
    open::{Campaigns, KnownCampaign},
    removal::not_found,
    state::CampaignState,
};
use crate::{
    model::{CampaignId, EnvelopeId, Moment},
    store::{BacklogBound, LedgerId, Refusal, Result, StoreError, entry::Body},
};

/// Campaigns as readers see them: as of the last commit.
pub(super) type Published = Arc<RwLock<Campaigns>>;

/// The bound of the backlog, if there is one.
pub(super) type Bound = Arc<RwLock<Option<BacklogBound>>>;

/// An entry that is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SettledEntry {
    pub(super) sequence: u64,
    pub(super) at: Moment,
}

/// What the writer keeps between steps. All of it can be read back from the database at any time.
pub(super) struct Core {
    pub(super) request_memory: Duration,
    /// The store is on a test clock.
    pub(super) test_clock: bool,
    /// All that were used: to read one takes long.
    pub(super) campaigns: Kept<CampaignId, CampaignState>,
    pub(super) envelopes: Envelopes,
    /// Changed users that are not in their table yet.
    pub(super) users: Changed,
    pub(super) sequence: u64,
    /// The mark of the current fork.
    pub(super) fork: u32,
    pub(super) jumps: Jumps,
    /// The number of the last entry of an envelope, now and in the database.
    pub(super) entries: u64,
    written_entries: u64,
    pub(super) last: Moment,
    pub(super) published: Published,
    /// The last settled entry.
    pub(super) settled: Option<SettledEntry>,
    /// Of the entries before this number, none can be removed now.
    pub(super) trimmed: u64,
    /// The same as of the last commit.
    trimmed_before: u64,
    /// The number of the last entry when requests were last forgotten, if some were left then.
    pub(super) forgot_at: Option<u64>,
    pub(super) bound: Bound,
    changed: Vec<CampaignId>,
    /// The ledger's end was not read since a fault.
    is_lost: bool,
}

impl Core {
    /// Reads what is needed to begin.
    pub(super) fn load(
        db: &Connection,
        request_memory: Duration,
        test_clock: bool,
        published: Published,
        waiting: Waiting,
        bound: Bound,
    ) -> rusqlite::Result<Self> {
        let (sequence, last) = last_entry(db)?;
        let entries = envelope_entries(db)?;
        Ok(Self {
            request_memory,
            test_clock,
            campaigns: Kept::default(),
            envelopes: Envelopes::default(),
            users: Changed::load(db, waiting)?,
            sequence,
            fork: fork_mark(db)?,
            jumps: Jumps::read(db)?,
            entries,
            written_entries: entries,
            last,
            published,
            settled: settled_entry(db)?,
            trimmed: 0,
            trimmed_before: 0,
            forgot_at: None,
            bound,
            changed: Vec::new(),
            is_lost: false,
        })
    }

    /// After a fault in a command: what its batch has changed in memory does not count.
    /// [`Self::find_again`] must follow the rollback.
    pub(super) fn undo(&mut self) {
        self.campaigns.undo();
        self.forget_the_rest();
    }

    /// After any other fault: nothing in memory counts. [`Self::find_again`] must follow the
    /// rollback.
    pub(super) fn forget(&mut self) {
        self.campaigns.clear();
        self.forget_the_rest();
    }

    fn forget_the_rest(&mut self) {
        self.envelopes.forget();
        self.users.undo();
        self.trimmed = self.trimmed_before;
        self.changed.clear();
        self.is_lost = true;
    }

    /// Before a batch: a ledger whose end is not known takes no entry, for that would leave a gap.
    pub(super) fn find_again(&mut self, db: &Connection) -> rusqlite::Result<()> {
        if self.is_lost {
            (self.sequence, _) = last_entry(db)?;
            self.fork = fork_mark(db)?;
            self.jumps = Jumps::read(db)?;
            self.entries = envelope_entries(db)?;
            self.written_entries = self.entries;
            self.settled = settled_entry(db)?;
            self.users.catch_up(db)?;
            self.is_lost = false;
        }
        Ok(())
    }

    /// At the end of a batch: writes what its steps have changed in memory.
    pub(super) fn flush(&mut self, db: &Connection) -> Result<()> {
        for state in self.campaigns.new_values() {
            state.flush(db)?;
        }
        self.envelopes.flush(db)?;
        if self.entries != self.written_entries {
            let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('entries', ?1)";
            db.prepare_cached(sql)?
                .execute([self.entries.to_string()])?;
            self.written_entries = self.entries;
        }
        Ok(self.users.flush(db)?)
    }

    /// After a commit: readers see what was changed.
    pub(super) fn publish(&mut self) {
        self.envelopes.tidy();
        self.users.publish();
        self.trimmed_before = self.trimmed;
        if self.changed.is_empty() {
            return;
        }
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for id in self.changed.drain(..) {
            match self.campaigns.get(&id) {
                Some(state) => {
                    let (no, view) = (state.no, state.view.clone());
                    published.insert(id, KnownCampaign { no, view })
                }
                None => published.remove(&id), // it was removed
            };
        }
    }
}

/// The number and the moment of the last entry; 0 and the epoch if there is none.
pub(super) fn last_entry(db: &Connection) -> rusqlite::Result<(u64, Moment)> {
    db.query_row(
        "SELECT sequence, at FROM ledger ORDER BY sequence DESC LIMIT 1",
        [],
        |row| Ok((row.get(0)?, moment(row, 1)?)),
    )
    .optional()
    .map(|last| last.unwrap_or((0, Moment::EPOCH)))
}

/// The last settled entry, which the ledger keeps.
fn settled_entry(db: &Connection) -> rusqlite::Result<Option<SettledEntry>> {
    let sql = "SELECT sequence, at FROM ledger WHERE sequence = (
                   SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'settled')";
    let mut statement = db.prepare_cached(sql)?;
    let found = statement.query_row([], |row| {
        Ok(SettledEntry {
            sequence: row.get(0)?,
            at: moment(row, 1)?,
        })
    });
    found.optional()
}

/// The number of the last entry of an envelope.
fn envelope_entries(db: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'entries'";
    let found = db.query_row(sql, [], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

/// The moment of the first entry after this one.
pub(super) fn oldest_after(db: &Connection, sequence: u64) -> rusqlite::Result<Option<Moment>> {
    let sql = "SELECT at FROM ledger WHERE sequence > ?1 ORDER BY sequence LIMIT 1";
    let mut statement = db.prepare_cached(sql)?;
    statement
        .query_row([sequence], |row| moment(row, 0))
        .optional()
}

/// One step.
pub(super) struct Step<'a> {
    pub(super) db: &'a Connection,
    pub(super) core: &'a mut Core,
    pub(super) now: Moment,
}

impl Step<'_> {
    /// Takes a campaign's state out of the core, if there is such a campaign; [`Self::put`] brings
    /// it back. A step that fails with a fault need not: the state is read again.
    pub(super) fn find(&mut self, id: &CampaignId) -> Result<Option<CampaignState>> {
        match self.core.campaigns.take(id) {
            Some(state) => Ok(Some(state)),
            None => CampaignState::load(self.db, id),
        }
    }

    /// Brings a campaign's state back.
    pub(super) fn put(&mut self, state: CampaignState) {
        let id = state.view.campaign.id.clone();
        self.core.campaigns.put(id, state);
    }

    /// Runs `work` on a campaign's state.
    pub(super) fn with<T>(
        &mut self,
        id: &CampaignId,
        work: impl FnOnce(&mut Self, &mut CampaignState) -> Result<T>,
    ) -> Result<T> {
        let about = |error: StoreError| error.about(format_args!("campaign {id}"));
        let found = self.find(id).map_err(about)?;
        let Some(mut state) = found else {
            return Err(not_found(self.db, id)?);
        };
        let outcome = work(self, &mut state);
        self.put(state);
        outcome.map_err(about)
    }

    /// Refuses a draw or a grab while too much of the ledger is not settled.
    pub(super) fn admit_backlog(&self) -> Result<()> {
        let bound = *self
            .core
            .bound
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let (Some(bound), Some(settled)) = (bound, self.core.settled) else {
            return Ok(());
        };
        let last = self.core.sequence;
        let entries = self.core.jumps.entries(settled.sequence, last);
        if bound.is_reached_by(entries) {
            return Err(Refusal::LedgerBacklog.into());
        }
        // What waits is younger than what is settled.
        if bound.is_passed_at(self.now, settled.at)
            && let Some(oldest) = oldest_after(self.db, settled.sequence)?
            && bound.is_passed_at(self.now, oldest)
        {
            return Err(Refusal::LedgerBacklog.into());
        }
        Ok(())
    }

    /// Readers will see this campaign anew after the commit.
    pub(super) fn changed(&mut self, state: &CampaignState) {
        self.core.changed.push(state.view.campaign.id.clone());
    }

    /// Writes an entry of a campaign.
    pub(super) fn append(&mut self, campaign: &mut CampaignState, body: &Body) -> Result<LedgerId> {
        campaign.entries += 1;
        campaign.dirty = true;
        self.append_entry(campaign.no, None, campaign.entries, body)
    }

    /// Writes an entry of an envelope.
    pub(super) fn append_of_envelope(
        &mut self,
        envelope: &EnvelopeId,
        body: &Body,
    ) -> Result<LedgerId> {
        self.core.entries += 1;
        self.append_entry(0, Some(envelope.as_str()), self.core.entries, body)
    }

    /// Writes an entry of the partition itself.
    pub(super) fn append_of_partition(&mut self, body: &Body) -> Result<LedgerId> {
        self.core.entries += 1;
        self.append_entry(0, None, self.core.entries, body)
    }

    fn append_entry(
        &mut self,
        campaign: i64,
        envelope: Option<&str>,
        number: u64,
        body: &Body,
    ) -> Result<LedgerId> {
        let sequence = self.core.sequence + 1;
        self.db
            .prepare_cached(
                "INSERT INTO ledger (sequence, at, campaign, envelope, number, body, fork) VALUES \
                 (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                sequence,
                self.now.as_micros(),
                campaign,
                envelope,
                number,
                to_json(body),
                self.core.fork
            ])?;
        self.core.sequence = sequence;
        Ok(ledger_id(sequence))
    }
}
