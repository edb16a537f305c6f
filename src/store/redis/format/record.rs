//! A user's record with the draws that are remembered of the user, and draws as the ledger has
//! them. Numbers of a fixed length are big-endian, others msgpack (see `codec`); what has no length
//! of its own goes on to the end.
//!
//! | what | values |
//! |---|---|
//! | a user's record | sixteen times the day (0: none) plus what else it holds, in 3 bytes; counts; bonus draws, where it holds them; the latest draw, where it holds it |
//! | what else it holds | 1: draws in fields of their own, plus 2: the latest draw, plus 4: bonus draws, or 8: of the counts only the first, the third and the fifth, others are 0; or 12: it is extended |
//! | an extended record | has bonus draws if any are left, and then its fields |
//! | fields | their length in 2 bytes, at most 2,048; then of each its tag and its value; tags ascend. A field that a reader does not know makes the record unreadable to it. No version before format 5 writes any |
//! | field 1 | wins of prizes while they had caps: a list of prize, wins of the day, wins in all, and so on |
//! | field 2 | free draws of the latest hour with any, while there was a limit: a list of the hour's start in seconds since the Unix epoch, and the draws |
//! | field 3 | bonus draws that callers granted on the record's day, while there was a limit |
//! | field 4 | progress in personal pools and, as pool 127, in the guarantees of the campaign: a list of pool and progress, and so on. A progress is a text of numbers: the draws that reached the pool, or were counted; then of each guarantee that has counted something the key of its id, ascending, and twice the draws since it last gave one of its prizes, plus 1 if that was none of `among` |
//! | field 5 | bonus draws made on the record's day, while a pool needed them. Tags from 6 on are free |
//! | counts | free draws, paid draws, draws, bonus draws used, wins, bonus draws left |
//! | counts of a draw | counts; or, if the record had fields: nil, counts, fields |
//! | bonus draws | `[[expires, left], …]` |
//! | the latest draw | moment in 5 bytes, from two days before the record's day in UTC on; digest of the request; sequence, what was asked, version, results |
//! | a draw in a field of its own | moment in 7 bytes, counts of a draw, sequence, what was asked, version, results |
//! | version | the version; or, if the caller stated segments and the campaign names any, the version as a negative number and a list of these segments |
//! | what was asked | what; digest of the payment reference in 6 bytes, where there is one; or, of a caller's grant, 0, its draws, and the moment at which they lapse. What is said here of draws holds for grants, whose results are none |
//! | what | eight times the count, plus 4 where there is a payment reference, plus 2 where it is paid, plus 1 where only the consolation prize is wanted; in a ledger part, plus 1,024 where segments follow |
//! | a result | what a user gets without a win is 0: nothing, or 1: the consolation prize. -1: a forfeited card: what its user gets, then the card as a win; -10 less what the user gets: a blank: the pool, then the card without its position; -2 to -9, -14 and less: twice the code of a cause plus what the user gets, negative; 0 or 1 in data of format 3: what the user gets; else twice the pool, plus 2, plus 1 for a deck's, plus 1,024 if the prize has codes, plus 2,048 if a guarantee gave it: a prize, a unit and, if it has codes, the index of its code follow, then the index of the guarantee |
//! | a ledger part | what, user, request, payment reference where there is one, or a grant's draws and moment, a list of segments where there are any; the entry is the part and the answer. An id that is a UUID is kept as its 16 bytes |
//! | an answer | counts of a draw, then a result for each draw |

use super::{
    asked::{
        A_GRANT, Grant, HAS_PAYMENT, PAYMENT_BYTES, count, decode_grant, decode_segments, funding,
    },
    codec::{MOMENT_MAX, Packer, Unpacker, malformed},
    counts::{
        decode_counts, decode_draw_counts, decode_fields, has_fields, pack_counts,
        pack_draw_counts, pack_fields,
    },
    keys::RequestField,
    results::decode_results,
};
use crate::{
    model::{
        Moment, RequestId, SegmentId, UserId,
        limits::{Bonus, UserCounts, UserRecord},
        personal::Progress,
        zone::Day,
    },
    store::{BonusEntry, DrawResult, Result, entry::DrawEntry},
};

/// The latest moment that scripts are given.
pub(crate) const LAST_MOMENT: Moment = Moment::from_micros(MOMENT_MAX);
/// What a record holds besides its counts.
pub(crate) const OLDER: u8 = 1;
pub(crate) const LATEST: u8 = 2;
pub(crate) const BONUS: u8 = 4;
pub(crate) const PLAIN: u8 = 8;
/// Bonus draws do not go with [`PLAIN`], so both together are a kind of their own.
pub(crate) const EXTENDED: u8 = BONUS | PLAIN;
/// Bytes of a value that a compact hash still takes.
pub(crate) const COMPACT_BYTES_MAX: usize = 64;
/// Bytes of numbers of a fixed length.
const HEAD_BYTES: usize = 3;
const OFFSET_BYTES: usize = 5;
const MOMENT_BYTES: usize = 7;
const DAY_MICROS: i64 = 86_400 * 1_000_000;

/// A draw or a caller's grant that is remembered, or was just made.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) at: Moment,
    pub(crate) sequence: u64,
    pub(crate) version: u32,
    what: u64,
    counts: UserCounts,
    results: Vec<DrawResult>,
    segments: Vec<SegmentId>,
    /// None of a draw.
    grant: Option<Grant>,
}

/// What a record remembers of the latest draw.
#[derive(Debug)]
pub(crate) struct Latest {
    /// Its request.
    pub(crate) request: RequestField,
    /// As it lies in a field of its own.
    pub(crate) packed: Vec<u8>,
}

/// A user's record as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) record: UserRecord,
    /// There may be draws in fields of their own.
    pub(crate) has_older: bool,
    pub(crate) latest: Option<Latest>,
}

/// The latest moment that scripts take stands for every later one.
pub(super) fn lapses_at(moment: Moment) -> Moment {
    if moment < LAST_MOMENT {
        moment
    } else {
        Moment::FAR_FUTURE
    }
}

/// Reads a draw in a field of its own.
pub(crate) fn decode_remembered(bytes: &[u8]) -> Result<Remembered> {
    let mut unpacker = Unpacker::new(bytes);
    let at = Moment::from_micros(unpacker.big_endian(MOMENT_BYTES)? as i64);
    let counts = decode_draw_counts(&mut unpacker)?;
    let remembered = decode_asked(&mut unpacker, at, counts)?;
    unpacker.finish(remembered)
}

/// Reads a user's record as the draw that it was written with, which must be the one of this
/// request, and have asked for this.
pub(crate) fn decode_drawn(
    unpacker: &mut Unpacker<'_>,
    request: &RequestField,
    what: u64,
) -> Result<Remembered> {
    let (has, day, mut counts) = decode_head(unpacker)?;
    decode_middle(unpacker, has, &mut counts)?;
    let at = decode_moment(unpacker, day)?;
    if has & LATEST == 0 || !unpacker.take(request) {
        return Err(malformed());
    }
    let drawn = decode_asked(unpacker, at, counts)?;
    if drawn.what == what {
        Ok(drawn)
    } else {
        Err(malformed())
    }
}

/// What a record holds besides its counts, its day, its counts.
fn decode_head(unpacker: &mut Unpacker<'_>) -> Result<(u8, i32, UserCounts)> {
    let head = unpacker.big_endian(HEAD_BYTES)?;
    let has = (head % 16) as u8;
    let counts = if has & EXTENDED == PLAIN {
        UserCounts {
            free_today: unpacker.int()?,
            draws: unpacker.int()?,
            wins: unpacker.int()?,
            ..UserCounts::default()
        }
    } else {
        decode_counts(unpacker)?
    };
    Ok((has, (head / 16) as i32, counts))
}

/// What stands between the counts and the latest draw: bonus draws, and the fields of an extended
/// record, which are added to the counts.
fn decode_middle(
    unpacker: &mut Unpacker<'_>,
    has: u8,
    counts: &mut UserCounts,
) -> Result<Vec<Bonus>> {
    let is_extended = has & EXTENDED == EXTENDED;
    let has_bonus = if is_extended {
        counts.bonus_left > 0
    } else {
        has & EXTENDED == BONUS
    };
    let bonus = if has_bonus {
        decode_bonus(unpacker)?
    } else {
        Vec::new()
    };
    if is_extended {
        decode_fields(unpacker, counts)?;
    }
    Ok(bonus)
}

/// The moment of a record's latest draw.
fn decode_moment(unpacker: &mut Unpacker<'_>, day: i32) -> Result<Moment> {
    let start = (i64::from(day) - 2) * DAY_MICROS;
    let offset = unpacker.big_endian(OFFSET_BYTES)? as i64;
    Ok(Moment::from_micros(start + offset))
}

/// Reads what a draw asked for and got.
fn decode_asked(unpacker: &mut Unpacker<'_>, at: Moment, counts: UserCounts) -> Result<Remembered> {
    let sequence = unpacker.int()?;
    let what: u64 = unpacker.int()?;
    let is_grant = what == A_GRANT;
    let grant = is_grant.then(|| decode_grant(unpacker)).transpose()?;
    if count(what) == 0 && !is_grant {
        return Err(malformed());
    }
    if what & HAS_PAYMENT != 0 {
        unpacker.raw(PAYMENT_BYTES)?;
    }
    let version: i64 = unpacker.int()?;
    let segments = if version < 0 {
        decode_segments(unpacker)?
    } else {
        Vec::new()
    };
    let version = u32::try_from(version.unsigned_abs()).map_err(|_| malformed())?;
    let results = decode_results(unpacker, count(what))?;
    Ok(Remembered {
        at,
        sequence,
        version,
        what,
        counts,
        results,
        segments,
        grant,
    })
}

impl Remembered {
    /// It is a caller's grant.
    pub(crate) fn is_grant(&self) -> bool {
        self.grant.is_some()
    }

    /// How far the user is in personal pools after it.
    pub(crate) fn progress(&self) -> &Progress {
        &self.counts.progress
    }

    /// The grant's entry, for a request that it is the answer of; none of a draw.
    pub(crate) fn into_bonus(self, user: UserId, request: RequestId) -> Option<BonusEntry> {
        let Grant { draws, expires } = self.grant?;
        Some(BonusEntry {
            version: self.version,
            user,
            request,
            draws,
            expires,
            counts: self.counts,
        })
    }

    /// The draw's entry, for a request that it is the answer of.
    pub(crate) fn into_entry(
        self,
        user: UserId,
        request: RequestId,
        payment_ref: String,
    ) -> DrawEntry {
        DrawEntry {
            version: self.version,
            user,
            request,
            funding: funding(self.what),
            payment_ref,
            consolation_only: self.what % 2 == 1,
            results: self.results,
            counts: self.counts,
            segments: self.segments,
        }
    }
}

/// A user's record that remembers no latest draw.
pub(crate) fn encode_record(record: &UserRecord, has_older: bool) -> Vec<u8> {
    let mut packer = Packer::default();
    let left = record.bonus_left();
    let has_bonus = !record.bonus.is_empty();
    let counts = UserCounts {
        free_today: record.free_today,
        paid_today: record.paid_today,
        draws: record.draws,
        bonus_used: record.bonus_used,
        wins: record.wins,
        bonus_left: left,
        prizes: record.prizes.clone(),
        hour: record.hour,
        granted_today: record.granted_today,
        bonus_today: record.bonus_today,
        progress: record.progress.clone(),
    };
    let kind = if has_fields(&counts) {
        EXTENDED
    } else {
        u8::from(has_bonus) * BONUS
    };
    let has = u8::from(has_older) * OLDER + kind;
    let day = record.day.map_or(0, |day| day.0.unsigned_abs());
    packer.big_endian(u64::from(day) * 16 + u64::from(has), HEAD_BYTES);
    pack_counts(&mut packer, &counts);
    if has_bonus {
        packer.list(record.bonus.len());
        for bonus in &record.bonus {
            packer
                .list(2)
                .moment(bonus.expires)
                .count(bonus.left.into());
        }
    }
    pack_fields(&mut packer, &counts);
    packer.done()
}

/// Reads a user's record.
pub(crate) fn decode_record(bytes: &[u8]) -> Result<Stored> {
    let mut unpacker = Unpacker::new(bytes);
    let (has, day, mut counts) = decode_head(&mut unpacker)?;
    let bonus = decode_middle(&mut unpacker, has, &mut counts)?;
    let latest = (has & LATEST != 0).then(|| decode_latest(&mut unpacker, day, &counts));
    Ok(Stored {
        record: UserRecord {
            day: (day != 0).then_some(Day(day)),
            free_today: counts.free_today,
            paid_today: counts.paid_today,
            draws: counts.draws,
            bonus_used: counts.bonus_used,
            wins: counts.wins,
            bonus,
            prizes: counts.prizes,
            hour: counts.hour,
            granted_today: counts.granted_today,
            bonus_today: counts.bonus_today,
            progress: counts.progress,
        },
        has_older: has & OLDER != 0,
        latest: latest.transpose()?,
    })
}

/// Reads bonus draws. The script of draws leaves grants of which no draw is left in the list, until
/// the user's next draw.
fn decode_bonus(unpacker: &mut Unpacker<'_>) -> Result<Vec<Bonus>> {
    let mut bonus = Vec::new();
    for _ in 0..unpacker.list()? {
        unpacker.list()?;
        let expires = lapses_at(unpacker.moment()?);
        let left: u32 = unpacker.int()?;
        if left > 0 {
            bonus.push(Bonus { expires, left });
        }
    }
    Ok(bonus)
}

fn decode_latest(unpacker: &mut Unpacker<'_>, day: i32, counts: &UserCounts) -> Result<Latest> {
    let mut packer = Packer::default();
    let at = decode_moment(unpacker, day)?.as_micros().unsigned_abs();
    packer.big_endian(at, MOMENT_BYTES);
    let request = unpacker.raw(size_of::<RequestField>())?;
    let request = request.try_into().map_err(|_| malformed())?;
    pack_draw_counts(&mut packer, counts);
    packer.0.extend_from_slice(unpacker.rest());
    Ok(Latest {
        request,
        packed: packer.done(),
    })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
