//! Changed rows of `users` that are not in that table yet.
//!
//! Draws come from users all over the table, so each would write a page of its own. Instead, a
//! batch appends its changes to the log `changed_users` within its transaction, and keeps them in
//! memory. Once many wait there, about as many of them are written to `users` as are changed,
//! going round in key order, so that neighbours share pages. Every row that waited when a round
//! began is in `users` when it ends, so the log's rows from before the round are deleted then. Both
//! are done for many rows at a time, since each batch that did it for a few would write the same
//! pages again.
//!
//! A request that is forgotten waits too, under a key of its own: its turn in the round deletes its
//! row, or takes it out of the row of the user. Whoever finds it before compares its number with
//! `forgotten` in `meta`.
//!
//! A start reads what is needed of the log into memory again, and goes on with the round. Row 0 of
//! the log says how far it was: the last key that was written, as `sequence` the last row of the
//! log when the round began, and as `day` the row up to which all are in the table, unless an
//! earlier version wrote it.
//!
//! Every reader looks into memory first, then begins to read the database: a row leaves memory only
//! after it was committed to `users`.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    ops::Bound,
    sync::{Arc, PoisonError, RwLock},
};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    faults::is_damage,
    rows::{Columns, Key, Latest, Row, forgotten, user_row, write_row},
    seen::Seen,
};

/// Rows that wait for each page of the database, so that a written page takes several. A store
/// without users has about as many pages as are left out.
const WAITING_PER_PAGE: usize = 10;
const PAGES_LEFT_OUT: usize = 64;
/// Bounds of the number of rows that wait. Up to a chunk more may wait, and after a start twice as
/// many for a while. By its parts, the row of a user who has drawn once takes about 270 bytes of
/// memory.
const WAITING_MIN: usize = 64;
const WAITING_MAX: usize = 500_000;
/// The fewest rows that a batch writes because many wait: about ten pages. A batch that has changed
/// more writes up to twice as many as it has changed. Each time the log has grown by as many, up to
/// twice as many of its rows are deleted.
const CHUNK_MIN: usize = 128;
/// Rows that are written at a tick although few wait, so that a store at rest gets to an empty log.
const CHUNK_AT_TICK: usize = 500;
/// Rows of the log that are deleted at a tick, for each row that is written: they are many, and to
/// delete them is fast.
const TRIMMED_PER_ASKED: usize = 8;
/// Rows of the log that a step looks through for those of a removed campaign.
const SEARCHED_MAX: i64 = 2_000;

type Rows = BTreeMap<Key, Row>;

/// The rows that wait, as of the last commit.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<RwLock<Rows>>);

impl Waiting {
    /// A row that waits. If there is none, it is as the table has it from now on. What waits of a
    /// request may be forgotten: see [`answering`](super::rows::answering).
    pub(super) fn get(&self, key: &Key) -> Option<Row> {
        self.read(|rows| rows.get(key).cloned())
    }

    fn read<T>(&self, work: impl FnOnce(&Rows) -> T) -> T {
        work(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, work: impl FnOnce(&mut Rows) -> T) -> T {
        work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the writer knows of the rows that wait.
#[derive(Default)]
pub(super) struct Changed {
    waiting: Waiting,
    /// Who may have a row, here or in the table.
    seen: Seen,
    /// The changes of the batch.
    staged: Rows,
    /// Rows that the batch has written to the table, or deleted from it.
    written: Vec<Key>,
    /// How far the work is: as of the last commit, and as the batch leaves it.
    committed: Progress,
    progress: Progress,
    /// Rows to write in this batch in any case.
    asked: usize,
    /// Rows that cannot be written, since the table is damaged: they stay in the log and here.
    stuck: BTreeSet<Key>,
}

/// How far the rows are written.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// The first row of the log that may be there, and the last one.
    first: i64,
    last: i64,
    /// The last row of the log when the round began.
    begun: i64,
    /// All up to this row of the log are in the table.
    done: i64,
    /// The row that was written last in this round, or one before all others.
    hand: Key,
    /// The rows of the log that are still to be looked at, for each campaign whose rows are being
    /// removed: the first one, and the last one.
    removing: BTreeMap<i64, (i64, i64)>,
}

impl Changed {
    /// Reads the log.
    pub(super) fn load(db: &Connection, waiting: Waiting) -> rusqlite::Result<Self> {
        let sql = "SELECT sequence, campaign, user, request, day FROM changed_users WHERE no = 0";
        let round = db.query_row(sql, [], |row| {
            let (user, request) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
            let hand = Key::new(row.get(1)?, user, request);
            Ok((row.get(0)?, hand, row.get::<_, Option<i64>>(4)?))
        });
        let (begun, hand, done) = round.optional()?.unwrap_or_default();
        let sql = "SELECT COALESCE(MIN(no), 1 + ?1) FROM changed_users WHERE no > 0";
        let first: i64 = db.query_row(sql, [begun], |row| row.get(0))?;
        let done = done.unwrap_or(0).max(first - 1);
        let mut changed = Self {
            waiting,
            ..Self::default()
        };
        changed.committed = Progress {
            first,
            last: done,
            begun,
            done,
            hand,
            removing: BTreeMap::new(),
        };
        changed.catch_up(db)?;
        // No number is given again that is of before the round, also if its row is gone.
        changed.committed.last = changed.committed.last.max(begun);
        changed.progress.clone_from(&changed.committed);
        Ok(changed)
    }

    /// A row as this batch sees it; none if it is as in the table.
    pub(super) fn get(&self, key: &Key) -> Option<Row> {
        let staged = self.staged.get(key).cloned();
        staged.or_else(|| self.waiting.get(key))
    }

    /// A user's row as this batch sees it; none for a user never seen.
    pub(super) fn user(
        &self,
        db: &Connection,
        key: &Key,
    ) -> rusqlite::Result<Option<Box<Columns>>> {
        if !self.seen.may_have(key) {
            return Ok(None);
        }
        user_row(db, self.get(key), key)
    }

    /// Changes a row.
    pub(super) fn put(&mut self, key: Key, row: Row) {
        if let Row::Record(_) = row {
            self.seen.add(&key);
        }
        self.staged.insert(key, row);
    }

    /// Changes a user's row whose latest request was `before` until now: that one gets a row of its
    /// own, unless the same request is the latest again.
    pub(super) fn put_user(&mut self, key: Key, columns: Box<Columns>, before: Option<Latest>) {
        let is_latest = |request: &str| {
            let latest = columns.latest.as_ref();
            latest.is_some_and(|latest| *latest.request == *request)
        };
        if let Some(before) = before
            && !is_latest(&before.request)
        {
            let (user, _) = key.parts();
            let own = Key::new(key.campaign, user, &before.request);
            self.put(own, Row::Remembered(before.sequence));
        }
        self.put(key, Row::Record(columns));
    }

    /// Forgets a request: in the same transaction, `forgotten` in `meta` must get to its number.
    pub(super) fn forget(&mut self, key: Key, sequence: u64) {
        // A later one that waits takes the place of what the table has, and the user's row of the
        // same batch that of the latest request there. If the same one waits, the table may have it
        // nevertheless, after a commit that seemed to fail.
        let is_later = |row: Row| matches!(row, Row::Remembered(other) if other > sequence);
        if !self.get(&key).is_some_and(is_later) {
            self.put(key, Row::Remembered(sequence));
        }
    }

    /// At a tick: writes some rows although few wait.
    pub(super) fn ask(&mut self) {
        self.asked = CHUNK_AT_TICK;
    }

    /// At the end of a batch: writes its changes to the log, and some of what waits to the table.
    pub(super) fn flush(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let changes = self.staged.len();
        let is_empty = self.progress.first > self.progress.last;
        if changes == 0 && (self.asked == 0 || is_empty) {
            return Ok(());
        }
        let logged = self.progress.last;
        self.write_log(db)?;
        let pages: usize = db
            .prepare_cached("PRAGMA page_count")?
            .query_row([], |row| row.get(0))?;
        let bound = pages.saturating_sub(PAGES_LEFT_OUT) * WAITING_PER_PAGE;
        let bound = bound.clamp(WAITING_MIN, WAITING_MAX);
        let excess = (self.waiting.read(Rows::len) + changes).saturating_sub(bound);
        let chunk = (2 * changes).max(CHUNK_MIN);
        let due = if excess < CHUNK_MIN { 0 } else { excess };
        let rows = due.min(chunk).max(self.asked);
        if rows > 0 {
            self.write_rows(db, rows)?;
        }
        let lot = |no: i64| no / CHUNK_MIN as i64;
        if self.asked > 0 || lot(self.progress.last) > lot(logged) {
            self.trim_log(db, (2 * chunk).max(self.asked * TRIMMED_PER_ASKED))?;
        }
        Ok(())
    }

    /// Between batches: reads on in the table who may have a row.
    pub(super) fn read_on(&mut self, db: &Connection) {
        // Within a transaction, a page that cannot be read would undo all of it.
        if db.is_autocommit() {
            self.seen.read_on(db);
        }
    }

    /// After a commit: readers see the changes, and what is in the table leaves memory.
    pub(super) fn publish(&mut self) {
        self.asked = 0;
        if self.staged.is_empty() && self.written.is_empty() {
            self.committed.clone_from(&self.progress);
            return;
        }
        let (written, staged) = (mem::take(&mut self.written), mem::take(&mut self.staged));
        self.waiting.write(|rows| {
            for key in &written {
                rows.remove(key);
            }
            rows.extend(staged);
        });
        self.committed.clone_from(&self.progress);
    }

    /// After a rollback: the batch changed nothing. [`Self::catch_up`] must follow.
    pub(super) fn undo(&mut self) {
        self.staged.clear();
        self.written.clear();
        self.asked = 0;
    }

    /// Begins again as of the last commit, with rows of the log that are not known yet: at a start
    /// all, after a rollback those of a commit that has failed and yet counts.
    pub(super) fn catch_up(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let mut statement = db.prepare_cached(
            "SELECT campaign, no, user, draws IS NOT NULL,
                    day, free_today, paid_today, draws, bonus_used, wins, bonus, more,
                    request, sequence
             FROM changed_users WHERE no > max(?1, 0) ORDER BY no",
        )?;
        let mut read = Rows::new();
        let mut last = self.committed.last;
        let mut rows = statement.query([self.committed.last])?;
        while let Some(row) = rows.next()? {
            let (campaign, user) = (row.get(0)?, row.get_ref(2)?.as_str()?);
            let is_record = row.get(3)?;
            let request = match is_record {
                true => "",
                false => row.get_ref(12)?.as_str()?,
            };
            let key = Key::new(campaign, user, request);
            last = row.get(1)?;
            // What waited when the round began is in the table up to its hand.
            let Progress { begun, hand, .. } = &self.committed;
            if last > *begun || key > *hand {
                let read_row = match is_record {
                    true => {
                        self.seen.add(&key);
                        Row::Record(Box::new(Columns::read(row, 4)?))
                    }
                    false => Row::Remembered(row.get(13)?),
                };
                read.insert(key, read_row); // of equal keys the last one counts
            }
        }
        // Only now: if a row could not be read, all of them are read again.
        self.committed.last = last;
        self.waiting.write(|waiting| waiting.append(&mut read));
        self.progress.clone_from(&self.committed);
        Ok(())
    }

    /// Removes a chunk of what waits of a campaign that has a tombstone; false once nothing is
    /// left. The first step notes the end of the log. Rows behind it are of other campaigns: draws
    /// of this one are refused, and its requests are not forgotten one by one any more.
    pub(super) fn remove(&mut self, db: &Connection, campaign: i64) -> rusqlite::Result<bool> {
        let begin = |campaign| Key::new(campaign, "", "");
        let range = begin(campaign)..begin(campaign + 1);
        let removed = self.waiting.write(|rows| {
            let keys = rows.range(range).take(CHUNK_AT_TICK);
            let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
            for key in &keys {
                rows.remove(key);
            }
            keys.len()
        });
        let Progress { first, last, .. } = self.progress;
        let removing = self.progress.removing.get(&campaign).copied();
        let (from, last) = removing.unwrap_or((first, last));
        let until = (from + SEARCHED_MAX).min(last + 1);
        let sql = "DELETE FROM changed_users WHERE no >= ?1 AND no < ?2 AND campaign = ?3";
        db.prepare_cached(sql)?
            .execute(params![from, until, campaign])?;
        self.progress.removing.insert(campaign, (until, last));
        self.stuck.retain(|key| key.campaign != campaign);
        Ok(removed == CHUNK_AT_TICK || until <= last)
    }

    /// Forgets how far the removal of a campaign is, which has ended.
    pub(super) fn removed(&mut self, campaign: i64) {
        self.progress.removing.remove(&campaign);
    }

    /// Appends the changes to the log.
    fn write_log(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached(
            "INSERT INTO changed_users
             (no, campaign, user, request, sequence,
              day, free_today, paid_today, draws, bonus_used, wins, bonus, more)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?;
        for (key, row) in &self.staged {
            let (user, mut request) = key.parts();
            let (mut sequence, mut record) = (None, None);
            match row {
                Row::Remembered(of_request) => sequence = Some(*of_request),
                Row::Record(columns) => {
                    record = Some(columns);
                    if let Some(latest) = &columns.latest {
                        (request, sequence) = (&*latest.request, Some(latest.sequence));
                    }
                }
            }
            self.progress.last += 1;
            insert.execute(params![
                self.progress.last,
                key.campaign,
                user,
                request,
                sequence,
                record.map(|record| record.day),
                record.map(|record| record.free_today),
                record.map(|record| record.paid_today),
                record.map(|record| record.draws),
                record.map(|record| record.bonus_used),
                record.map(|record| record.wins),
                record.map(|record| record.bonus.as_deref()),
                record.map(|record| record.more.as_deref()),
            ])?;
        }
        Ok(())
    }

    /// Writes the next rows of the round to the table.
    fn write_rows(&mut self, db: &Connection, count: usize) -> rusqlite::Result<()> {
        let forgotten = forgotten(db)?;
        let from = Bound::Excluded(self.progress.hand.clone());
        // Only this thread changes what waits, so nobody waits for the lock to be given back.
        let waiting = self.waiting.clone();
        let found = waiting.read(|rows| {
            let (mut found, mut last) = (0, None);
            for (key, row) in rows.range((from, Bound::Unbounded)).take(count) {
                (found, last) = (found + 1, Some(key));
                if self.stuck.contains(key) {
                    continue;
                }
                if let Err(error) = write_row(db, key, row, forgotten) {
                    if is_damage(&error) {
                        self.stuck.insert(key.clone());
                    }
                    return Err(error);
                }
                self.written.push(key.clone());
            }
            if let Some(last) = last {
                self.progress.hand.clone_from(last);
            }
            Ok(found)
        })?;
        let is_end = found < count;
        if is_end {
            if self.stuck.is_empty() {
                self.progress.done = self.progress.begun;
            }
            // The next round begins after this batch: what it has changed waits by then.
            self.progress.begun = self.progress.last;
            self.progress.hand = Key::default();
        }
        self.write_round(db)
    }

    /// Notes how far the round is. If rows could not be written, a start begins it anew.
    fn write_round(&self, db: &Connection) -> rusqlite::Result<()> {
        let hand = match self.stuck.is_empty() {
            true => &self.progress.hand,
            false => &Key::default(),
        };
        let (user, request) = hand.parts();
        let sql = "INSERT OR REPLACE INTO changed_users
                   (no, campaign, user, request, sequence, day) VALUES (0, ?1, ?2, ?3, ?4, ?5)";
        db.prepare_cached(sql)?.execute(params![
            hand.campaign,
            user,
            request,
            self.progress.begun,
            self.progress.done
        ])?;
        Ok(())
    }

    /// Deletes rows of the log that are in the table.
    fn trim_log(&mut self, db: &Connection, count: usize) -> rusqlite::Result<()> {
        let Progress { first, done, .. } = self.progress;
        let end = done.min(first.saturating_add_unsigned(count as u64) - 1);
        if end >= first {
            db.prepare_cached("DELETE FROM changed_users WHERE no > 0 AND no <= ?1")?
                .execute([end])?;
            self.progress.first = end + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "changed_tests.rs"]
mod tests;
