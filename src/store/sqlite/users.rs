//! What is kept of each user: the record, the draws remembered beside it, and who is blocked.

use rusqlite::{Connection, Row as DbRow, params};
use serde::{Deserialize, Serialize};

use super::{
    columns::{entry, from_json, to_json},
    rows::{Columns, Key, Latest, Row, answering, forgotten},
    state::CampaignState,
    step::Step,
};
use crate::{
    model::{
        Moment, RequestId, UserId,
        caps::PrizeCounts,
        limits::{HourDraws, UserRecord},
        number::is_zero,
        personal::Progress,
        zone::Day,
    },
    store::{
        BlockedUser, HoldNote, LedgerId, Result, StoreError,
        entry::{Body, Entry},
    },
};

/// What few users have beside the counts that every user has. A field that this version does not
/// know makes the record unreadable to it.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    #[serde(default, skip_serializing_if = "PrizeCounts::is_empty")]
    prizes: PrizeCounts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hour: Option<HourDraws>,
    #[serde(default, skip_serializing_if = "is_zero")]
    granted_today: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    bonus_today: u32,
    #[serde(default, skip_serializing_if = "Progress::is_empty")]
    progress: Progress,
}

impl Step<'_> {
    /// A user's row as it was last written; none for a user never seen.
    pub(super) fn user_row(&self, campaign: i64, user: &UserId) -> Result<Option<Box<Columns>>> {
        let key = Key::record(campaign, user);
        Ok(self.core.users.user(self.db, &key)?)
    }

    /// The entry of the draw, or of the caller's grant, that is remembered under this request id.
    /// `user` is the user's row, without which there was no draw.
    pub(super) fn remembered(
        &self,
        campaign: i64,
        name: (&UserId, &RequestId),
        user: Option<&Columns>,
    ) -> Result<Option<Entry>> {
        let Some(user) = user else {
            return Ok(None);
        };
        let key = Key::request(campaign, name);
        let waiting = self.core.users.get(&key);
        let oldest = self.now - self.core.request_memory;
        remembered(self.db, user, waiting, &key, oldest)
    }

    /// Writes a user's record.
    pub(super) fn save_user(
        &mut self,
        campaign: i64,
        user: &UserId,
        record: &UserRecord,
    ) -> Result<()> {
        let row = self.user_row(campaign, user)?;
        let latest = row.and_then(|columns| columns.latest);
        let columns = columns_of(record, latest);
        let key = Key::record(campaign, user);
        self.core.users.put(key, Row::Record(columns));
        Ok(())
    }

    /// Writes a user's record, and remembers the entry that answers the user's request. `before` is
    /// the request that was the latest until now.
    pub(super) fn save_draw(
        &mut self,
        campaign: i64,
        (user, request): (&UserId, &RequestId),
        record: &UserRecord,
        before: Option<Latest>,
        ledger: LedgerId,
    ) -> Result<()> {
        let before = match before {
            Some(before) if before.sequence > forgotten(self.db)? => Some(before),
            _ => None,
        };
        let latest = Latest {
            request: request.as_str().into(),
            sequence: ledger.sequence,
        };
        let columns = columns_of(record, Some(latest));
        let key = Key::record(campaign, user);
        self.core.users.put_user(key, columns, before);
        Ok(())
    }
}

/// The entry of the draw, or of the caller's grant, that is remembered under this request id, if it
/// is not older than `oldest`. For `user` and `waiting` see [`answering`].
pub(super) fn remembered(
    db: &Connection,
    user: &Columns,
    waiting: Option<Row>,
    key: &Key,
    oldest: Moment,
) -> Result<Option<Entry>> {
    let Some(sequence) = answering(db, user, waiting, key)? else {
        return Ok(None);
    };
    // From here on it is known that the draw was made, whatever hides its answer.
    let found = entry(db, sequence).map_err(StoreError::after_write)?;
    let Some(found) = found else {
        let text = format!("ledger entry {sequence} is missing");
        return Err(StoreError::corrupt_after(text));
    };
    if found.at < oldest {
        return Ok(None);
    }
    match found.body {
        Body::Draw(_) | Body::Bonus(_) => Ok(Some(found)),
        _ => Err(StoreError::corrupt_after(format!(
            "ledger entry {sequence} is remembered as a draw and is none"
        ))),
    }
}

/// Makes a record of its columns.
pub(super) fn record_of(columns: &Columns) -> Result<UserRecord> {
    if columns.bonus_used > columns.draws {
        let (used, draws) = (columns.bonus_used, columns.draws);
        let text = format!("of {draws} draws of a user {used} were bonus draws");
        return Err(StoreError::corrupt(text));
    }
    let more = columns.more.as_deref().map(from_json).transpose()?;
    let bonus = columns.bonus.as_deref().map(from_json).transpose()?;
    let more: More = more.unwrap_or_default();
    Ok(UserRecord {
        day: columns.day.map(Day),
        free_today: columns.free_today,
        paid_today: columns.paid_today,
        draws: columns.draws,
        bonus_used: columns.bonus_used,
        wins: columns.wins,
        bonus: bonus.unwrap_or_default(),
        prizes: more.prizes,
        hour: more.hour,
        granted_today: more.granted_today,
        bonus_today: more.bonus_today,
        progress: more.progress,
    })
}

/// Makes the columns of a record and the latest request.
fn columns_of(record: &UserRecord, latest: Option<Latest>) -> Box<Columns> {
    let more = More {
        prizes: record.prizes.clone(),
        hour: record.hour,
        granted_today: record.granted_today,
        bonus_today: record.bonus_today,
        progress: record.progress.clone(),
    };
    Box::new(Columns {
        day: record.day.map(|day| day.0),
        free_today: record.free_today,
        paid_today: record.paid_today,
        draws: record.draws,
        bonus_used: record.bonus_used,
        wins: record.wins,
        bonus: (!record.bonus.is_empty()).then(|| to_json(&record.bonus).into()),
        more: (more != More::default()).then(|| to_json(&more).into()),
        latest,
    })
}

/// A user is blocked.
pub(super) fn is_blocked(db: &Connection, state: &CampaignState, user: &UserId) -> Result<bool> {
    if state.view.blocked_users == 0 {
        return Ok(false);
    }
    Ok(db
        .prepare_cached("SELECT 1 FROM blocked WHERE campaign = ?1 AND user = ?2")?
        .exists(params![state.no, user.as_str()])?)
}

/// Blocks users.
pub(super) fn block(db: &Connection, campaign: i64, users: &[(UserId, HoldNote)]) -> Result<()> {
    let mut insert = db.prepare_cached(
        "INSERT OR IGNORE INTO blocked (campaign, user, note) VALUES (?1, ?2, ?3)",
    )?;
    for (user, note) in users {
        insert.execute(params![campaign, user.as_str(), to_json(note)])?;
    }
    Ok(())
}

/// Unblocks users.
pub(super) fn unblock(db: &Connection, campaign: i64, users: &[UserId]) -> Result<()> {
    let mut delete = db.prepare_cached("DELETE FROM blocked WHERE campaign = ?1 AND user = ?2")?;
    for user in users {
        delete.execute(params![campaign, user.as_str()])?;
    }
    Ok(())
}

/// The block of a user who is blocked.
pub(super) fn find_block(
    db: &Connection,
    campaign: i64,
    user: &UserId,
) -> Result<Option<BlockedUser>> {
    let sql = "SELECT user, note FROM blocked WHERE campaign = ?1 AND user = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query_and_then(params![campaign, user.as_str()], read_block)?;
    rows.next().transpose()
}

/// Blocked users by id, after `after`.
pub(super) fn list_blocks(
    db: &Connection,
    campaign: i64,
    after: Option<&UserId>,
    limit: usize,
) -> Result<Vec<BlockedUser>> {
    // No id is empty.
    let after = after.map_or("", UserId::as_str);
    let mut statement = db.prepare_cached(
        "SELECT user, note FROM blocked WHERE campaign = ?1 AND user > ?2 ORDER BY user LIMIT ?3",
    )?;
    let rows = statement.query_and_then(params![campaign, after, limit], read_block)?;
    rows.collect()
}

/// Makes a block of its row: user, note.
fn read_block(row: &DbRow<'_>) -> Result<BlockedUser> {
    let user = UserId::parse("user", &row.get::<_, String>(0)?);
    let note: Option<String> = row.get(1)?;
    Ok(BlockedUser {
        user: user.map_err(|problem| StoreError::corrupt(problem.message))?,
        note: note.as_deref().map(from_json).transpose()?,
    })
}
