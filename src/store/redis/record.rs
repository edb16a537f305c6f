//! A user's record with the draws that are remembered of the user, and draws as the ledger has them (see `codec` for the values).

use sha2::{Digest as _, Sha256};

use super::{
    codec::{MOMENT_MAX, Packer, Unpacker, decode_scored, malformed},
    keys::Field,
};
use crate::{
    model::{
        Moment, PoolNo, PrizeNo, RequestId, UserId,
        limits::{Bonus, Funding, UserCounts, UserRecord},
        zone::Day,
    },
    store::{
        DrawCommand, Result,
        entry::{DrawEntry, DrawResult},
    },
};

/// The latest moment that scripts are told.
pub(super) const LAST_MOMENT: Moment = Moment::from_micros(MOMENT_MAX);
/// What a record holds besides its counts.
const OLDER: u8 = 1;
const LATEST: u8 = 2;
const BONUS: u8 = 4;
/// How a text of 16 bytes begins: a UUID. Ids themselves are stored as text, which begins otherwise.
const UUID: [u8; 2] = [0xc4, 16];
/// Where a UUID has its hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A draw that is remembered, or was just made.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) at: Moment,
    pub(super) sequence: u64,
    pub(super) version: u32,
    what: u64,
    counts: UserCounts,
    results: Vec<DrawResult>,
}

/// What a record remembers of the latest draw.
#[derive(Debug)]
pub(super) struct Latest {
    /// Its request.
    pub(super) request: Field,
    /// As it lies in a field of its own.
    pub(super) packed: Vec<u8>,
}

/// A user's record as it is stored.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) record: UserRecord,
    /// There may be draws in fields of their own.
    pub(super) has_older: bool,
    pub(super) latest: Option<Latest>,
}

/// What a draw asks for, in a number.
fn what(command: &DrawCommand) -> i64 {
    let is_paid = i64::from(command.funding == Funding::Paid);
    i64::from(command.count) * 4 + is_paid * 2 + i64::from(command.consolation_only)
}

/// What a draw asks for, as the script wants it.
pub(super) fn encode_kind(command: &DrawCommand) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(16));
    let expire = command
        .expire
        .map_or(0, |at| at.as_micros().min(MOMENT_MAX));
    packer.int(what(command)).int(expire);
    packer.bytes(&payment_digest(&command.payment_ref)).done()
}

fn payment_digest(payment_ref: &str) -> Vec<u8> {
    if payment_ref.is_empty() {
        return Vec::new();
    }
    Sha256::digest(payment_ref)[..6].to_vec()
}

/// What the ledger keeps of a draw's request.
pub(super) fn encode_part(command: &DrawCommand, parts: &mut Vec<u8>) {
    let mut packer = Packer(std::mem::take(parts));
    packer.int(what(command));
    pack_id(&mut packer, command.user.as_str());
    pack_id(&mut packer, command.request.as_str());
    *parts = packer.bytes(command.payment_ref.as_bytes()).done();
}

/// Packs an id, a UUID (in lower case, with hyphens) as its bytes.
pub(super) fn pack_id(packer: &mut Packer, id: &str) {
    match uuid_bytes(id) {
        Some(uuid) => {
            packer.0.extend(UUID);
            packer.0.extend(uuid);
        }
        None => {
            packer.bytes(id.as_bytes());
        }
    }
}

fn uuid_bytes(id: &str) -> Option<[u8; 16]> {
    let text = id.as_bytes();
    if text.len() != 36 || HYPHENS.iter().any(|&place| text[place] != b'-') {
        return None;
    }
    let mut digits = text
        .iter()
        .enumerate()
        .filter(|(place, _)| !HYPHENS.contains(place))
        .map(|(_, byte)| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? * 16 + digits.next()??;
    }
    Some(bytes)
}

/// Reads [`pack_id`].
pub(super) fn unpack_id(unpacker: &mut Unpacker<'_>) -> Result<String> {
    if !unpacker.take(&UUID) {
        return unpacker.text().map(str::to_owned);
    }
    let mut text = String::with_capacity(36);
    for byte in unpacker.raw(16)? {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
        }
    }
    Ok(text)
}

/// Reads a draw in a field of its own.
pub(super) fn decode_remembered(bytes: &[u8]) -> Result<Remembered> {
    let mut unpacker = Unpacker::new(bytes);
    let (at, sequence) = (unpacker.moment()?, unpacker.int()?);
    let counts = decode_counts(&mut unpacker)?;
    decode_asked(&mut unpacker, at, sequence, counts)
}

/// Reads a user's record as the draw that it was written with.
pub(super) fn decode_drawn(unpacker: &mut Unpacker<'_>) -> Result<Remembered> {
    let _day: i64 = unpacker.int()?;
    let counts = decode_counts(unpacker)?;
    let has: u8 = unpacker.int()?;
    if has & BONUS != 0 {
        decode_bonus(unpacker)?;
    }
    let (at, sequence) = (unpacker.moment()?, unpacker.int()?);
    unpacker.bytes()?;
    decode_asked(unpacker, at, sequence, counts)
}

/// Reads what a draw asked for and got.
fn decode_asked(
    unpacker: &mut Unpacker<'_>,
    at: Moment,
    sequence: u64,
    counts: UserCounts,
) -> Result<Remembered> {
    let (version, what) = (unpacker.int()?, unpacker.int()?);
    unpacker.bytes()?;
    let results = decode_results(&mut Unpacker::new(unpacker.bytes()?), what / 4)?;
    Ok(Remembered {
        at,
        sequence,
        version,
        what,
        counts,
        results,
    })
}

fn decode_counts(unpacker: &mut Unpacker<'_>) -> Result<UserCounts> {
    Ok(UserCounts {
        free_today: unpacker.int()?,
        paid_today: unpacker.int()?,
        draws: unpacker.int()?,
        bonus_used: unpacker.int()?,
        wins: unpacker.int()?,
        bonus_left: unpacker.int()?,
    })
}

impl Remembered {
    /// The draw's entry, for a request that it is the answer of.
    pub(super) fn into_entry(
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

fn decode_results(unpacker: &mut Unpacker<'_>, count: u64) -> Result<Vec<DrawResult>> {
    (0..count).map(|_| decode_result(unpacker)).collect()
}

fn decode_result(unpacker: &mut Unpacker<'_>) -> Result<DrawResult> {
    let code: u32 = unpacker.int()?;
    let is_scheduled = match code {
        0 => return Ok(DrawResult::Nothing),
        1 => return Ok(DrawResult::Consolation),
        2 => true,
        3 => false,
        _ => return Err(malformed()),
    };
    let (prize, pool) = (PrizeNo(unpacker.int()?), PoolNo(unpacker.int()?));
    let (score, unit) = decode_scored(unpacker)?;
    Ok(DrawResult::Won {
        prize,
        pool,
        unit,
        release: is_scheduled.then(|| Moment::from_micros(score)),
    })
}

/// The draws of an item of the ledger: their parts, and their answers.
pub(super) fn decode_draws(parts: &[u8], answers: &[u8], version: u32) -> Result<Vec<DrawEntry>> {
    let (mut part, mut answer) = (Unpacker::new(parts), Unpacker::new(answers));
    let mut draws = Vec::new();
    while !part.is_done() {
        let what: u64 = part.int()?;
        let user = UserId::parse("user", &unpack_id(&mut part)?);
        let request = RequestId::parse("request", &unpack_id(&mut part)?);
        let payment_ref = part.text()?.to_owned();
        let counts = decode_counts(&mut answer)?;
        draws.push(DrawEntry {
            version,
            user: user.map_err(|_| malformed())?,
            request: request.map_err(|_| malformed())?,
            funding: funding(what),
            payment_ref,
            consolation_only: what % 2 == 1,
            results: decode_results(&mut answer, what / 4)?,
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
pub(super) fn encode_record(record: &UserRecord, has_older: bool) -> Vec<u8> {
    let mut packer = Packer::default();
    let left: u64 = record.bonus.iter().map(|bonus| u64::from(bonus.left)).sum();
    packer.int(record.day.map_or(0, |day| i64::from(day.0)));
    packer
        .count(record.free_today.into())
        .count(record.paid_today.into());
    packer.count(record.draws).count(record.bonus_used);
    packer.count(record.wins).count(left);
    let has_bonus = !record.bonus.is_empty();
    packer.count(u64::from(
        u8::from(has_older) * OLDER + u8::from(has_bonus) * BONUS,
    ));
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
pub(super) fn decode_record(bytes: &[u8]) -> Result<Stored> {
    let mut unpacker = Unpacker::new(bytes);
    let day: i32 = unpacker.int()?;
    let counts = decode_counts(&mut unpacker)?;
    let has: u8 = unpacker.int()?;
    let bonus = if has & BONUS != 0 {
        decode_bonus(&mut unpacker)?
    } else {
        Vec::new()
    };
    let latest = (has & LATEST != 0).then(|| decode_latest(&mut unpacker, &counts));
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
        bonus.push(Bonus {
            expires: unpacker.moment()?,
            left: unpacker.int()?,
        });
    }
    Ok(bonus)
}

fn decode_latest(unpacker: &mut Unpacker<'_>, counts: &UserCounts) -> Result<Latest> {
    let mut packer = Packer::default();
    packer.moment(unpacker.moment()?).count(unpacker.int()?);
    let request = unpacker.bytes()?;
    let request = request.try_into().map_err(|_| malformed())?;
    packer
        .count(counts.free_today.into())
        .count(counts.paid_today.into());
    packer.count(counts.draws).count(counts.bonus_used);
    packer.count(counts.wins).count(counts.bonus_left);
    packer.0.extend_from_slice(unpacker.rest());
    Ok(Latest {
        request,
        packed: packer.done(),
    })
}
