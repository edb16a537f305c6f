//! What is kept of each user: the record, the draws remembered beside it, and who is blocked.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::{
    columns::{entry, from_json, to_json},
    state::CampaignState,
};
use crate::{
    model::{
        Moment, RequestId, UserId,
        caps::PrizeCounts,
        limits::{HourDraws, UserRecord},
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

/// Serde hands out references.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The entry of the draw, or of the caller's grant, that is remembered under this request id, if it
/// is not older than `oldest`.
pub(super) fn remembered(
    db: &Connection,
    campaign: i64,
    (user, request): (&UserId, &RequestId),
    oldest: Moment,
) -> Result<Option<Entry>> {
    let sequence: Option<u64> = db
        .prepare_cached(
            "SELECT sequence FROM users WHERE campaign = ?1 AND user = ?2 AND request = ?3",
        )?
        .query_row(params![campaign, user.as_str(), request.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(sequence) = sequence else {
        return Ok(None);
    };
    // From here on it is known that the draw was made, whatever hides its answer.
    let found = entry(db, sequence).map_err(StoreError::after_write)?;
    let found = found
        .ok_or_else(|| StoreError::corrupt_after(format!("ledger entry {sequence} is missing")))?;
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

/// Remembers the entry that answers a request.
pub(super) fn remember(
    db: &Connection,
    campaign: i64,
    (user, request): (&UserId, &RequestId),
    ledger: LedgerId,
) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO users (campaign, user, request, sequence) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        campaign,
        user.as_str(),
        request.as_str(),
        ledger.sequence
    ])?;
    Ok(())
}

/// A user's record as it was last written; none for a user never seen.
pub(super) fn load_user(
    db: &Connection,
    campaign: i64,
    user: &UserId,
) -> Result<Option<UserRecord>> {
    let found = db
        .prepare_cached(
            "SELECT day, free_today, paid_today, draws, bonus_used, wins, bonus, more FROM users
             WHERE campaign = ?1 AND user = ?2 AND request = ''",
        )?
        .query_row(params![campaign, user.as_str()], |row| {
            let record = UserRecord {
                day: row.get::<_, Option<i32>>(0)?.map(Day),
                free_today: row.get(1)?,
                paid_today: row.get(2)?,
                draws: row.get(3)?,
                bonus_used: row.get(4)?,
                wins: row.get(5)?,
                bonus: Vec::new(),
                prizes: PrizeCounts::default(),
                hour: None,
                granted_today: 0,
                bonus_today: 0,
                progress: Progress::default(),
            };
            let (bonus, more): (Option<String>, Option<String>) = (row.get(6)?, row.get(7)?);
            Ok((record, bonus, more))
        })
        .optional()?;
    let Some((mut record, bonus, more)) = found else {
        return Ok(None);
    };
    if let Some(more) = more {
        let more: More = from_json(&more)?;
        (record.prizes, record.hour) = (more.prizes, more.hour);
        (record.granted_today, record.bonus_today) = (more.granted_today, more.bonus_today);
        record.progress = more.progress;
    }
    if let Some(bonus) = bonus {
        record.bonus = from_json(&bonus)?;
    }
    if record.bonus_used > record.draws {
        let (used, draws) = (record.bonus_used, record.draws);
        let text = format!("of {draws} draws of user {user} {used} were bonus draws");
        return Err(StoreError::corrupt(text));
    }
    Ok(Some(record))
}

/// Writes a user's record.
pub(super) fn save_user(
    db: &Connection,
    campaign: i64,
    user: &UserId,
    record: &UserRecord,
) -> Result<()> {
    let bonus = (!record.bonus.is_empty()).then(|| to_json(&record.bonus));
    let more = More {
        prizes: record.prizes.clone(),
        hour: record.hour,
        granted_today: record.granted_today,
        bonus_today: record.bonus_today,
        progress: record.progress.clone(),
    };
    let more = (more != More::default()).then(|| to_json(&more));
    db.prepare_cached(
        "INSERT OR REPLACE INTO users
         (campaign, user, request, day, free_today, paid_today, draws, bonus_used, wins, bonus,
          more)
         VALUES (?1, ?2, '', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        campaign,
        user.as_str(),
        record.day.map(|day| day.0),
        record.free_today,
        record.paid_today,
        record.draws,
        record.bonus_used,
        record.wins,
        bonus,
        more
    ])?;
    Ok(())
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
    let found = db
        .prepare_cached("SELECT user, note FROM blocked WHERE campaign = ?1 AND user = ?2")?
        .query_row(params![campaign, user.as_str()], block_columns)
        .optional()?;
    found.map(read_block).transpose()
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
    let rows = statement.query_map(params![campaign, after, limit], block_columns)?;
    rows.map(|columns| read_block(columns?)).collect()
}

/// Columns of a block: user, note.
fn block_columns(row: &Row<'_>) -> rusqlite::Result<(String, Option<String>)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn read_block((user, note): (String, Option<String>)) -> Result<BlockedUser> {
    let user = UserId::parse("user", &user);
    Ok(BlockedUser {
        user: user.map_err(|problem| StoreError::corrupt(problem.message))?,
        note: note.map(|note| from_json(&note)).transpose()?,
    })
}
