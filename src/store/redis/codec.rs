//! What scripts and service say to each other in msgpack: several values one after another, as the scripts' `cmsgpack` packs them.
//!
//! | what | values |
//! |---|---|
//! | a user's record | day (0: none), free draws, paid draws, draws, bonus draws used, wins, memory, and where there are any: bonus draws `[[expires, left], …]` |
//! | memory | twice the last generation in which the user drew, plus 1 where the one before remembers draws too |
//! | an answer | free draws, paid draws, draws, bonus draws used, wins, bonus draws left, then a result for each draw |
//! | a result | 0: nothing; 1: the consolation prize; 2, prize, pool, unit: from a schedule; 3, prize, pool, unit: from a deck |
//! | a unit | release in microseconds, or position in the deck; window or round; number. So packed units are in the order of their scores |
//! | a remembered draw | moment, sequence, version, what, digest of the payment reference (empty where there is none), answer |
//! | what | four times the count, plus 2 where it is paid, plus 1 where only the consolation prize is wanted |
//! | a ledger part | what, user, request, payment reference; the entry is the part and the answer |

use rmp::{decode, encode};

use crate::{
    model::{
        Campaign, Moment, PoolNo, PrizeNo, RequestId, UserId,
        limits::{Bonus, Funding, UserCounts, UserRecord},
        zone::Day,
    },
    store::{
        DrawCommand, Lifecycle, Result, StoreError,
        entry::{DrawEntry, DrawResult, Unit},
        rules::{PoolState, State},
    },
};

use super::keys::{PoolKeys, slot};

/// The latest moment that the scripts' numbers hold exactly, in the year 2255.
const MOMENT_MAX: i64 = 1 << 53;
/// Days that a batch of draws is told of, so that a clock a little off stays within them.
const DAYS: usize = 3;

/// Packs values.
#[derive(Default)]
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn int(&mut self, value: i64) -> &mut Self {
        // Writing to memory does not fail.
        let _ = encode::write_sint(&mut self.0, value);
        self
    }

    fn count(&mut self, value: u64) -> &mut Self {
        let _ = encode::write_uint(&mut self.0, value);
        self
    }

    fn moment(&mut self, moment: Moment) -> &mut Self {
        self.int(moment.as_micros().min(MOMENT_MAX))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let _ = encode::write_str_len(&mut self.0, length);
        self.0.extend_from_slice(bytes);
        self
    }

    fn list(&mut self, length: usize) -> &mut Self {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let _ = encode::write_array_len(&mut self.0, length);
        self
    }

    fn done(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Takes packed values apart.
pub(super) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn int<T>(&mut self) -> Result<T>
    where
        T: rmp_int::FromInt,
    {
        let value: i64 = decode::read_int(&mut self.0).map_err(|_| malformed())?;
        T::from_int(value).ok_or_else(malformed)
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = decode::read_str_len(&mut self.0).map_err(|_| malformed())? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed())
    }

    fn list(&mut self) -> Result<u32> {
        decode::read_array_len(&mut self.0).map_err(|_| malformed())
    }

    fn moment(&mut self) -> Result<Moment> {
        self.int().map(Moment::from_micros)
    }
}

/// Whole numbers that come out of msgpack.
mod rmp_int {
    /// A whole number type.
    pub(crate) trait FromInt: Sized {
        /// The number, where it is in range.
        fn from_int(value: i64) -> Option<Self>;
    }

    macro_rules! from_int {
        ($($type:ty),+) => { $(
            impl FromInt for $type {
                fn from_int(value: i64) -> Option<Self> {
                    value.try_into().ok()
                }
            }
        )+ };
    }
    from_int!(i64, u64, i32, u32, u16);
}

fn malformed() -> StoreError {
    StoreError::Corrupt("a stored value does not read back".into())
}

/// A draw that is remembered, or was just made.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) at: Moment,
    pub(super) sequence: u64,
    pub(super) version: u32,
    what: u64,
    pub(super) counts: UserCounts,
    pub(super) results: Vec<DrawResult>,
}

/// What a draw asks for, in a number.
pub(super) fn what(command: &DrawCommand) -> i64 {
    let is_paid = i64::from(command.funding == Funding::Paid);
    i64::from(command.count) * 4 + is_paid * 2 + i64::from(command.consolation_only)
}

/// The head of a draw as the script wants it.
pub(super) fn encode_head(command: &DrawCommand) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(32));
    packer.int(what(command)).moment(command.not_after);
    packer.int(
        command
            .expire
            .map_or(0, |at| at.as_micros().min(MOMENT_MAX)),
    );
    packer.bytes(&payment_digest(&command.payment_ref)).done()
}

fn payment_digest(payment_ref: &str) -> Vec<u8> {
    use sha2::{Digest as _, Sha256};
    if payment_ref.is_empty() {
        return Vec::new();
    }
    Sha256::digest(payment_ref)[..8].to_vec()
}

/// What the ledger keeps of a draw's request.
pub(super) fn encode_part(command: &DrawCommand) -> Vec<u8> {
    let (user, request) = (command.user.as_str(), command.request.as_str());
    let mut packer = Packer(Vec::with_capacity(user.len() + request.len() + 16));
    packer.int(what(command));
    packer.bytes(user.as_bytes()).bytes(request.as_bytes());
    packer.bytes(command.payment_ref.as_bytes()).done()
}

/// Reads a remembered draw.
pub(super) fn decode_remembered(bytes: &[u8]) -> Result<Remembered> {
    let mut unpacker = Unpacker::new(bytes);
    let (at, sequence, version) = (unpacker.moment()?, unpacker.int()?, unpacker.int()?);
    let what: u64 = unpacker.int()?;
    unpacker.bytes()?;
    let (counts, results) = decode_answer(&mut unpacker, what / 4)?;
    Ok(Remembered {
        at,
        sequence,
        version,
        what,
        counts,
        results,
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

fn decode_answer(unpacker: &mut Unpacker<'_>, count: u64) -> Result<(UserCounts, Vec<DrawResult>)> {
    let counts = UserCounts {
        free_today: unpacker.int()?,
        paid_today: unpacker.int()?,
        draws: unpacker.int()?,
        bonus_used: unpacker.int()?,
        wins: unpacker.int()?,
        bonus_left: unpacker.int()?,
    };
    let results = (0..count).map(|_| decode_result(unpacker));
    Ok((counts, results.collect::<Result<_>>()?))
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

/// A unit as a member of its sorted set, with its score.
pub(super) fn encode_unit(score: i64, unit: Unit) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(20));
    // Numbers that are not negative are packed alike here and by the scripts.
    packer.count(score.unsigned_abs());
    packer
        .count(unit.window.unsigned_abs())
        .count(unit.number)
        .done()
}

fn decode_scored(unpacker: &mut Unpacker<'_>) -> Result<(i64, Unit)> {
    let score = unpacker.int()?;
    let unit = Unit {
        window: unpacker.int()?,
        number: unpacker.int()?,
    };
    Ok((score, unit))
}

/// Reads [`encode_unit`].
pub(super) fn decode_unit(bytes: &[u8]) -> Result<(i64, Unit)> {
    decode_scored(&mut Unpacker::new(bytes))
}

/// The draws of an item of the ledger.
pub(super) fn decode_draws(bytes: &[u8], version: u32) -> Result<Vec<DrawEntry>> {
    let mut unpacker = Unpacker::new(bytes);
    let mut draws = Vec::new();
    while !unpacker.is_done() {
        let what: u64 = unpacker.int()?;
        let user = UserId::parse("user", unpacker.text()?);
        let request = RequestId::parse("request", unpacker.text()?);
        let payment_ref = unpacker.text()?.to_owned();
        let (counts, results) = decode_answer(&mut unpacker, what / 4)?;
        draws.push(DrawEntry {
            version,
            user: user.map_err(|_| malformed())?,
            request: request.map_err(|_| malformed())?,
            funding: funding(what),
            payment_ref,
            consolation_only: what % 2 == 1,
            results,
            counts,
        });
    }
    Ok(draws)
}

/// A user's record.
pub(super) fn encode_record(record: &UserRecord, memory: u64) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.int(record.day.map_or(0, |day| i64::from(day.0)));
    packer
        .count(record.free_today.into())
        .count(record.paid_today.into());
    packer.count(record.draws).count(record.bonus_used);
    packer.count(record.wins).count(memory);
    if !record.bonus.is_empty() {
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

/// Reads [`encode_record`]: the record and its memory.
pub(super) fn decode_record(bytes: &[u8]) -> Result<(UserRecord, u64)> {
    let mut unpacker = Unpacker::new(bytes);
    let day: i32 = unpacker.int()?;
    let mut record = UserRecord {
        day: (day != 0).then_some(Day(day)),
        free_today: unpacker.int()?,
        paid_today: unpacker.int()?,
        draws: unpacker.int()?,
        bonus_used: unpacker.int()?,
        wins: unpacker.int()?,
        bonus: Vec::new(),
    };
    let memory = unpacker.int()?;
    if !unpacker.is_done() {
        for _ in 0..unpacker.list()? {
            unpacker.list()?;
            record.bonus.push(Bonus {
                expires: unpacker.moment()?,
                left: unpacker.int()?,
            });
        }
    }
    Ok((record, memory))
}

/// What the draws of a version go by: start, end, limits (-1: none) of draws a day, paid draws a day, draws and wins a user, 1 for a
/// consolation prize, 1 for each prize that counts as a win, pools `[draws that unlock it, 1 for a deck, prizes of its queues]`.
pub(super) fn encode_layout(campaign: &Campaign, pools: &[PoolKeys]) -> Vec<u8> {
    let mut packer = Packer::default();
    let limits = &campaign.limits;
    packer.moment(campaign.start).moment(campaign.end);
    for limit in [
        limits.draws_per_day,
        limits.paid_draws_per_day,
        limits.draws_per_user,
        limits.wins_per_user,
    ] {
        packer.int(limit.map_or(-1, i64::from));
    }
    packer.int(i64::from(campaign.consolation.is_some()));
    packer.list(campaign.prizes.len());
    for prize in &campaign.prizes {
        packer.int(i64::from(prize.counts_as_win));
    }
    packer.list(pools.len());
    for (pool, definition) in pools.iter().zip(&campaign.pools) {
        packer.list(3).int(definition.unlock_after_draws.into());
        packer.int(i64::from(pool.is_deck)).list(pool.queues.len());
        for queue in &pool.queues {
            packer.int(slot(queue.prize).into());
        }
    }
    packer.done()
}

/// The days from a moment on in the campaign's zone, with the moment up to which they go: a list of a moment and the day from there
/// on in turn, and the end.
pub(super) fn encode_days(campaign: &Campaign, from: Moment) -> (Vec<u8>, Moment) {
    let zone = &campaign.zone;
    let mut packer = Packer::default();
    packer.list(DAYS * 2 + 1);
    let mut start = from;
    for _ in 0..DAYS {
        packer.moment(start).int(zone.day(start).0.into());
        start = zone.next_day_start(start);
    }
    packer.moment(start);
    (packer.done(), start)
}

/// What draws must know of the state: lifecycle, blocked users, held prizes, and of each pool until when it is filled, or for a deck
/// 1 where it goes on.
pub(super) fn encode_gate(state: &State) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.int(lifecycle_code(state.view.lifecycle));
    packer.count(state.view.blocked_users);
    packer.list(state.view.paused_prizes.len());
    for prize in state.view.paused_prizes.iter() {
        packer.int(prize.0.into());
    }
    packer.list(state.pools.len());
    for ((no, _), pool) in state.view.campaign.numbered_pools().zip(&state.pools) {
        match pool {
            PoolState::Schedule(schedule) => packer.moment(schedule.filled_until()),
            PoolState::Deck(_) => packer.int(i64::from(state.deck_stop(no).is_none())),
        };
    }
    packer.done()
}

/// The stored form of a lifecycle.
pub(super) fn lifecycle_code(lifecycle: Lifecycle) -> i64 {
    match lifecycle {
        Lifecycle::Open => 0,
        Lifecycle::Paused => 1,
        Lifecycle::Closing => 2,
        Lifecycle::Closed => 3,
    }
}

/// Reads [`lifecycle_code`].
pub(super) fn lifecycle_of(code: i64) -> Result<Lifecycle> {
    match code {
        0 => Ok(Lifecycle::Open),
        1 => Ok(Lifecycle::Paused),
        2 => Ok(Lifecycle::Closing),
        3 => Ok(Lifecycle::Closed),
        _ => Err(StoreError::Corrupt(format!("no lifecycle has code {code}"))),
    }
}
