//! A user's record with the draws that are remembered of the user, and draws as the ledger has
//! them. Numbers of a fixed length are big-endian, others msgpack (see `codec`); what has no length
//! of its own goes on to the end.
//!
//! | what | values |
//! |---|---|
//! | a user's record | sixteen times the day (0: none) plus what else it holds, in 3 bytes; counts; bonus draws, where it holds them; the latest draw, where it holds it |
//! | what else it holds | 1: draws in fields of their own, plus 2: the latest draw, plus 4: bonus draws, or 8: of the counts only the first, the third and the fifth, others are 0; or 12: it is extended |
//! | an extended record | has bonus draws if any are left, and then its fields: their length in 2 bytes, at most 512; of each field its tag and its length in a byte each, and so many bytes; tags ascend. A field that a reader does not know makes the record unreadable to it. No version writes any field yet |
//! | counts | free draws, paid draws, draws, bonus draws used, wins, bonus draws left |
//! | bonus draws | `[[expires, left], …]` |
//! | the latest draw | moment in 5 bytes, from two days before the record's day in UTC on; digest of the request; sequence, what was asked, version, results |
//! | a draw in a field of its own | moment in 7 bytes, counts, sequence, what was asked, version, results |
//! | what was asked | what; digest of the payment reference in 6 bytes, where there is one |
//! | what | eight times the count, plus 4 where there is a payment reference, plus 2 where it is paid, plus 1 where only the consolation prize is wanted |
//! | a result | what a user gets without a win is 0: nothing, or 1: the consolation prize. -1: a forfeited card: what its user gets, then the card as a win; -10 less what the user gets: a blank: the pool, then the card without its position; -2 to -9: twice the code of a cause plus what the user gets, negative; 0 or 1 in data of format 3: what the user gets; else twice the pool, plus 2, plus 1 for a deck's: a prize and a unit follow |
//! | a ledger part | what, user, request, payment reference where there is one; the entry is the part and the answer. An id that is a UUID is kept as its 16 bytes |
//! | an answer | counts, then a result for each draw |

use sha2::{Digest as _, Sha256};

use super::{
    codec::{MOMENT_MAX, Packer, Unpacker, malformed},
    ids::{pack_id, unpack_id},
    keys::RequestField,
    results::decode_results,
};
use crate::{
    model::{
        Moment, RequestId, UserId,
        limits::{Bonus, Funding, UserCounts, UserRecord},
        zone::Day,
    },
    store::{DrawCommand, DrawResult, Result, StoreError, entry::DrawEntry},
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
/// Bytes of all fields that extend a record.
pub(crate) const EXTENSION_BYTES_MAX: usize = 512;
/// Bytes of a value that a compact hash still takes.
pub(crate) const COMPACT_BYTES_MAX: usize = 64;
/// Bytes of numbers of a fixed length.
const HEAD_BYTES: usize = 3;
const OFFSET_BYTES: usize = 5;
const MOMENT_BYTES: usize = 7;
const PAYMENT_BYTES: usize = 6;
const DAY_MICROS: i64 = 86_400 * 1_000_000;
/// What a draw asks for has a payment reference.
const HAS_PAYMENT: u64 = 4;
/// A draw that is remembered, or was just made.
#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) at: Moment,
    pub(crate) sequence: u64,
    pub(crate) version: u32,
    what: u64,
    counts: UserCounts,
    results: Vec<DrawResult>,
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

/// What a draw asks for, in a number.
fn what(command: &DrawCommand) -> u64 {
    let has_payment = u64::from(!command.payment_ref.is_empty());
    let is_paid = u64::from(command.funding == Funding::Paid);
    u64::from(command.count) * 8
        + has_payment * HAS_PAYMENT
        + is_paid * 2
        + u64::from(command.consolation_only)
}

/// How many draws are asked for.
fn count(what: u64) -> u64 {
    what / 8
}

/// What a draw asks for, as the script wants it.
pub(crate) fn encode_kind(command: &DrawCommand) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(16));
    let expire = command
        .expire
        .map_or(0, |at| at.as_micros().min(MOMENT_MAX));
    packer.count(what(command)).int(expire);
    packer.bytes(&payment_digest(&command.payment_ref)).done()
}

fn payment_digest(payment_ref: &str) -> Vec<u8> {
    if payment_ref.is_empty() {
        return Vec::new();
    }
    Sha256::digest(payment_ref)[..PAYMENT_BYTES].to_vec()
}

/// What the ledger keeps of a draw's request.
pub(crate) fn encode_part(command: &DrawCommand, parts: &mut Vec<u8>) {
    let mut packer = Packer(std::mem::take(parts));
    packer.count(what(command));
    pack_id(&mut packer, command.user.as_str());
    pack_id(&mut packer, command.request.as_str());
    if !command.payment_ref.is_empty() {
        packer.bytes(command.payment_ref.as_bytes());
    }
    *parts = packer.done();
}

/// Reads a draw in a field of its own.
pub(crate) fn decode_remembered(bytes: &[u8]) -> Result<Remembered> {
    let mut unpacker = Unpacker::new(bytes);
    let at = Moment::from_micros(unpacker.big_endian(MOMENT_BYTES)? as i64);
    let counts = decode_counts(&mut unpacker)?;
    let remembered = decode_asked(&mut unpacker, at, counts)?;
    unpacker.finish(remembered)
}

/// Reads a user's record as the draw that it was written with, which must be the one of this
/// request.
pub(crate) fn decode_drawn(
    unpacker: &mut Unpacker<'_>,
    request: &RequestField,
    command: &DrawCommand,
) -> Result<Remembered> {
    let (has, day, counts) = decode_head(unpacker)?;
    decode_middle(unpacker, has, &counts)?;
    let at = decode_moment(unpacker, day)?;
    if has & LATEST == 0 || !unpacker.take(request) {
        return Err(malformed());
    }
    let drawn = decode_asked(unpacker, at, counts)?;
    if drawn.what == what(command) {
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
/// record.
fn decode_middle(unpacker: &mut Unpacker<'_>, has: u8, counts: &UserCounts) -> Result<Vec<Bonus>> {
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
        check_extension(unpacker)?;
    }
    Ok(bonus)
}

/// Reads the fields that extend a record; there is none that this version knows.
fn check_extension(unpacker: &mut Unpacker<'_>) -> Result<()> {
    let length = unpacker.big_endian(2)? as usize;
    if length > EXTENSION_BYTES_MAX {
        return Err(malformed());
    }
    match unpacker.raw(length)?.first() {
        None => Ok(()),
        Some(tag) => Err(StoreError::corrupt(format!(
            "the record of a user has field {tag}, which this version of tombola does not know"
        ))),
    }
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
    if what & HAS_PAYMENT != 0 {
        unpacker.raw(PAYMENT_BYTES)?;
    }
    let version = unpacker.int()?;
    let results = decode_results(unpacker, count(what))?;
    Ok(Remembered {
        at,
        sequence,
        version,
        what,
        counts,
        results,
    })
}

fn pack_counts(packer: &mut Packer, counts: &UserCounts) {
    packer
        .count(counts.free_today.into())
        .count(counts.paid_today.into());
    packer.count(counts.draws).count(counts.bonus_used);
    packer.count(counts.wins).count(counts.bonus_left);
}

fn decode_counts(unpacker: &mut Unpacker<'_>) -> Result<UserCounts> {
    let counts = UserCounts {
        free_today: unpacker.int()?,
        paid_today: unpacker.int()?,
        draws: unpacker.int()?,
        bonus_used: unpacker.int()?,
        wins: unpacker.int()?,
        bonus_left: unpacker.int()?,
    };
    if counts.bonus_used > counts.draws {
        return Err(malformed());
    }
    Ok(counts)
}

impl Remembered {
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
        }
    }
}

fn funding(what: u64) -> Funding {
    if what / 2 % 2 == 1 {
        Funding::Paid
    } else {
        Funding::Free
    }
}

/// The draws of an item of the ledger: their parts, and their answers.
pub(crate) fn decode_draws(parts: &[u8], answers: &[u8], version: u32) -> Result<Vec<DrawEntry>> {
    let (mut part, mut answer) = (Unpacker::new(parts), Unpacker::new(answers));
    let mut draws = Vec::new();
    while !part.is_done() {
        let what: u64 = part.int()?;
        let user = UserId::parse("user", &unpack_id(&mut part)?);
        let request = RequestId::parse("request", &unpack_id(&mut part)?);
        let payment_ref = match what & HAS_PAYMENT {
            0 => String::new(),
            _ => part.text()?.to_owned(),
        };
        let counts = decode_counts(&mut answer)?;
        draws.push(DrawEntry {
            version,
            user: user.map_err(|_| malformed())?,
            request: request.map_err(|_| malformed())?,
            funding: funding(what),
            payment_ref,
            consolation_only: what % 2 == 1,
            results: decode_results(&mut answer, count(what))?,
            counts,
        });
    }
    if answer.is_done() {
        Ok(draws)
    } else {
        Err(malformed())
    }
}

/// A user's record that remembers no latest draw.
pub(crate) fn encode_record(record: &UserRecord, has_older: bool) -> Vec<u8> {
    let mut packer = Packer::default();
    let left: u64 = record.bonus.iter().map(|bonus| u64::from(bonus.left)).sum();
    let has_bonus = !record.bonus.is_empty();
    let has = u8::from(has_older) * OLDER + u8::from(has_bonus) * BONUS;
    let day = record.day.map_or(0, |day| day.0.unsigned_abs());
    packer.big_endian(u64::from(day) * 16 + u64::from(has), HEAD_BYTES);
    let counts = UserCounts {
        free_today: record.free_today,
        paid_today: record.paid_today,
        draws: record.draws,
        bonus_used: record.bonus_used,
        wins: record.wins,
        bonus_left: left,
    };
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
    packer.done()
}

/// Reads a user's record.
pub(crate) fn decode_record(bytes: &[u8]) -> Result<Stored> {
    let mut unpacker = Unpacker::new(bytes);
    let (has, day, counts) = decode_head(&mut unpacker)?;
    let bonus = decode_middle(&mut unpacker, has, &counts)?;
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
        },
        has_older: has & OLDER != 0,
        latest: latest.transpose()?,
    })
}

fn decode_bonus(unpacker: &mut Unpacker<'_>) -> Result<Vec<Bonus>> {
    let mut bonus = Vec::new();
    for _ in 0..unpacker.list()? {
        unpacker.list()?;
        let expires = unpacker.moment()?;
        bonus.push(Bonus {
            // The latest moment that scripts take stands for every later one.
            expires: if expires < LAST_MOMENT {
                expires
            } else {
                Moment::FAR_FUTURE
            },
            left: unpacker.int()?,
        });
    }
    Ok(bonus)
}

fn decode_latest(unpacker: &mut Unpacker<'_>, day: i32, counts: &UserCounts) -> Result<Latest> {
    let mut packer = Packer::default();
    let at = decode_moment(unpacker, day)?.as_micros().unsigned_abs();
    packer.big_endian(at, MOMENT_BYTES);
    let request = unpacker.raw(size_of::<RequestField>())?;
    let request = request.try_into().map_err(|_| malformed())?;
    pack_counts(&mut packer, counts);
    packer.0.extend_from_slice(unpacker.rest());
    Ok(Latest {
        request,
        packed: packer.done(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::{
        Executed,
        redis::{envelopes::decode_grabs, format::codec},
    };

    proptest! {
        #[test]
        fn no_stored_bytes_make_a_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..120),
            more in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = decode_record(&bytes);
            let _ = decode_remembered(&bytes);
            let _ = decode_draws(&bytes, &more, 1);
            let _ = decode_grabs(&bytes, &more);
            let _ = codec::decode_unit(&bytes);
            let _ = unpack_id(&mut Unpacker::new(&bytes));
        }
    }

    #[test]
    fn an_extended_record_is_read_and_an_unknown_field_in_it_is_not() {
        let record = UserRecord {
            day: Some(Day(20_779)),
            draws: 3,
            bonus_used: 1,
            bonus: vec![Bonus {
                expires: Moment::from_micros(1_795_960_801_000_000),
                left: 2,
            }],
            ..UserRecord::default()
        };
        let extended = |fields: &[u8]| {
            let mut bytes = encode_record(&record, true);
            bytes[2] = bytes[2] & 0xf0 | EXTENDED | OLDER;
            bytes.extend((fields.len() as u16).to_be_bytes());
            bytes.extend(fields);
            decode_record(&bytes)
        };
        let read = extended(&[]).unwrap();
        assert_eq!((read.record, read.has_older), (record.clone(), true));
        let error = extended(&[200, 1, 0]).unwrap_err();
        assert!(error.to_string().contains("field 200"), "{error}");
        assert_eq!(error.executed(), Executed::No);
        assert!(extended(&[1; EXTENSION_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_stored_value_that_is_cut_off_or_goes_on_is_not_read() {
        let record = UserRecord {
            day: Some(Day(20_779)),
            draws: 3,
            bonus_used: 1,
            bonus: vec![Bonus {
                expires: Moment::from_micros(1_795_960_801_000_000),
                left: 2,
            }],
            ..UserRecord::default()
        };
        let bytes = encode_record(&record, false);
        assert_eq!(decode_record(&bytes).unwrap().record, record);
        for length in 0..bytes.len() {
            assert!(decode_record(&bytes[..length]).is_err(), "{length}");
        }
        let more_bonus_than_draws = UserRecord {
            bonus_used: 4,
            ..record
        };
        assert!(decode_record(&encode_record(&more_bonus_than_draws, false)).is_err());
    }
}
