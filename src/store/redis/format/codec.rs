//! The packed values that the service and the scripts exchange: msgpack values one after another,
//! as the scripts' `cmsgpack` packs them; and units, whose bytes sort as the units do. (For records
//! and draws see `record`.)
//!
//! | what | bytes |
//! |---|---|
//! | a unit | release in microseconds, or position in the deck, or 0 off stock, in 7; window or round in 5; of a fork [`FORK_FOLLOWS`] and its mark in 3; number in 1 to 9, whose first bits say how many |

use rmp::{decode, encode};

use crate::{
    model::{Campaign, Moment, PoolKind, budget::Budget, personal::GuaranteeKey},
    store::{Result, StoreError, Unit},
};

use super::keys::{PoolKeys, slot};

/// The latest moment that the scripts' numbers hold exactly, in the year 2255.
pub(crate) const MOMENT_MAX: i64 = 1 << 53;
/// The lowest letter of a reply; the first byte of a record is lower.
const LETTER_MIN: u8 = b'A';
/// Bytes of a unit's score, and of its window.
const SCORE_BYTES: usize = 7;
const WINDOW_BYTES: usize = 5;
/// How many bits fit into a number of one, two, three or four bytes. A larger number takes
/// nine: [`LONG_NUMBER`] and eight bytes.
const NUMBER_BITS: [u32; 4] = [7, 14, 21, 28];
const LONG_NUMBER: u8 = 0xf0;
/// The byte before the mark of a fork, with which no number begins, and the length of that mark.
const FORK_FOLLOWS: u8 = 0xf1;
const FORK_BYTES: usize = 3;
/// Days whose limits a batch of draws carries, so that a clock a little off stays within them.
const DAYS: usize = 3;
/// The same of hours. A batch carries fewer of them, so they are computed anew more often.
const HOURS: usize = 8;

/// Packs values.
#[derive(Default)]
pub(crate) struct Packer(pub(crate) Vec<u8>);

impl Packer {
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        // Writing to memory does not fail.
        let _ = encode::write_sint(&mut self.0, value);
        self
    }

    pub(crate) fn count(&mut self, value: u64) -> &mut Self {
        let _ = encode::write_uint(&mut self.0, value);
        self
    }

    pub(crate) fn nil(&mut self) -> &mut Self {
        let _ = encode::write_nil(&mut self.0);
        self
    }

    pub(crate) fn moment(&mut self, moment: Moment) -> &mut Self {
        self.int(moment.as_micros().min(MOMENT_MAX))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let _ = encode::write_str_len(&mut self.0, length);
        self.0.extend_from_slice(bytes);
        self
    }

    /// The last `bytes` bytes of a number.
    pub(crate) fn big_endian(&mut self, number: u64, bytes: usize) -> &mut Self {
        let all = number.to_be_bytes();
        self.0.extend_from_slice(&all[all.len() - bytes..]);
        self
    }

    pub(crate) fn list(&mut self, length: usize) -> &mut Self {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let _ = encode::write_array_len(&mut self.0, length);
        self
    }

    pub(crate) fn done(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Takes packed values apart.
pub(crate) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn int<T: TryFrom<i64>>(&mut self) -> Result<T> {
        let value: i64 = decode::read_int(&mut self.0).map_err(|_| malformed())?;
        T::try_from(value).map_err(|_| malformed())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = decode::read_str_len(&mut self.0).map_err(|_| malformed())? as usize;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Takes these bytes if they come next; whether they did.
    pub(crate) fn take(&mut self, start: &[u8]) -> bool {
        match self.0.strip_prefix(start) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// The next bytes as they are.
    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// A big-endian number of this many bytes, at most eight.
    pub(crate) fn big_endian(&mut self, bytes: usize) -> Result<u64> {
        let bytes = self.raw(bytes)?.iter();
        Ok(bytes.fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Takes the next byte if it is a letter; none if a record follows.
    pub(crate) fn letter(&mut self) -> Option<u8> {
        let (letter, rest) = self.0.split_first()?;
        if *letter < LETTER_MIN {
            return None;
        }
        self.0 = rest;
        Some(*letter)
    }

    /// The bytes that follow a letter: their length in two bytes, then they themselves.
    pub(crate) fn detail(&mut self) -> Result<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = rest;
        self.raw(u16::from_be_bytes(*length).into())
    }

    /// The value that was read, if nothing follows it.
    pub(crate) fn finish<T>(self, value: T) -> Result<T> {
        if self.is_done() {
            Ok(value)
        } else {
            Err(malformed())
        }
    }

    /// Takes all bytes that follow.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed())
    }

    pub(crate) fn list(&mut self) -> Result<u32> {
        decode::read_array_len(&mut self.0).map_err(|_| malformed())
    }

    pub(crate) fn moment(&mut self) -> Result<Moment> {
        self.int().map(Moment::from_micros)
    }
}

pub(crate) fn malformed() -> StoreError {
    StoreError::corrupt("a stored value does not read back")
}

/// A unit as a member of its sorted set, with its score.
pub(crate) fn encode_unit(score: i64, unit: Unit) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(SCORE_BYTES + WINDOW_BYTES + 4));
    packer.big_endian(score.unsigned_abs(), SCORE_BYTES);
    packer.big_endian(unit.window.unsigned_abs(), WINDOW_BYTES);
    if unit.fork > 0 {
        packer.big_endian(FORK_FOLLOWS.into(), 1);
        packer.big_endian(unit.fork.into(), FORK_BYTES);
    }
    let bytes = NUMBER_BITS.iter().position(|bits| unit.number >> bits == 0);
    match bytes {
        Some(more) => {
            let mark = u64::from(LONG_NUMBER << (4 - more));
            packer.big_endian(unit.number | (mark << (8 * more)), more + 1)
        }
        None => packer
            .big_endian(LONG_NUMBER.into(), 1)
            .big_endian(unit.number, 8),
    };
    packer.done()
}

pub(crate) fn decode_scored(unpacker: &mut Unpacker<'_>) -> Result<(i64, Unit)> {
    let score = unpacker.big_endian(SCORE_BYTES)? as i64;
    Ok((score, decode_unscored(unpacker)?))
}

/// Reads a unit without its score.
pub(crate) fn decode_unscored(unpacker: &mut Unpacker<'_>) -> Result<Unit> {
    let window = unpacker.big_endian(WINDOW_BYTES)? as i64;
    let mut first = unpacker.big_endian(1)?;
    let mut fork = 0;
    if first == u64::from(FORK_FOLLOWS) {
        fork = unpacker.big_endian(FORK_BYTES)? as u32;
        first = unpacker.big_endian(1)?;
    }
    let more = (first as u8).leading_ones() as usize;
    let number = match NUMBER_BITS.get(more) {
        Some(bits) => {
            let all = (first << (8 * more)) | unpacker.big_endian(more)?;
            all & ((1 << bits) - 1)
        }
        None if first == u64::from(LONG_NUMBER) => unpacker.big_endian(8)?,
        None => return Err(malformed()),
    };
    Ok(Unit {
        window,
        fork,
        number,
    })
}

/// Reads [`encode_unit`].
pub(crate) fn decode_unit(bytes: &[u8]) -> Result<(i64, Unit)> {
    let mut unpacker = Unpacker::new(bytes);
    let unit = decode_scored(&mut unpacker)?;
    unpacker.finish(unit)
}

/// The definition of a version as the draw script takes it: start, end, limits (-1: none) of draws
/// a day, paid draws a day, draws and wins a user, 1 for a consolation prize, 1 for each prize that
/// counts as a win, pools `[draws that unlock it, 1 for a deck or 2 for a personal pool, prizes]`;
/// and what [`pack_rare_rules`] adds. A pool that needs it has two more numbers: wins that lock it
/// (-1: none), and draws of the day that unlock it. A personal pool has these and one more: its
/// fallback (-1: none).
pub(crate) fn encode_layout(campaign: &Campaign, pools: &[PoolKeys]) -> Vec<u8> {
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
        let (lock, today) = (
            definition.lock_after_wins,
            definition.unlock_after_draws_today,
        );
        let personal = match &definition.kind {
            PoolKind::Personal(personal) => Some(personal),
            PoolKind::Schedule(_) | PoolKind::Deck(_) => None,
        };
        let has_bounds = lock.is_some() || today > 0 || personal.is_some();
        let values = 3 + usize::from(has_bounds) * 2 + usize::from(personal.is_some());
        packer.list(values);
        packer.int(definition.unlock_after_draws.into());
        packer.int(match &definition.kind {
            PoolKind::Schedule(_) => 0,
            PoolKind::Deck(_) => 1,
            PoolKind::Personal(_) => 2,
        });
        let queues = pool.queues.iter().map(|queue| slot(queue.prize));
        let own = personal.iter().flat_map(|personal| personal.prizes());
        let prizes: Vec<_> = queues.chain(own.map(|prize| slot(Some(prize)))).collect();
        packer.list(prizes.len());
        for prize in prizes {
            packer.int(prize.into());
        }
        if has_bounds {
            packer.int(lock.map_or(-1, i64::from)).int(today.into());
        }
        if let Some(personal) = personal {
            packer.int(slot(personal.fallback).into());
        }
    }
    pack_rare_rules(&mut packer, campaign);
    packer.done()
}

/// What few campaigns have: a list of each prize with a cap, its cap of a day and its cap in all
/// (-1: none), the limit of draws of an hour, the limit of bonus draws that callers grant on a day,
/// 1 if segments are named, 1 if bonus draws of a day are counted, a list of the prizes with codes,
/// a list of the budget (see [`pack_budget`]), a list of the guarantees, each a list: the draw that
/// keeps it, its key, its prizes.
/// Nil stands for what a campaign lacks, and nothing follows what it has last.
fn pack_rare_rules(packer: &mut Packer, campaign: &Campaign) {
    let caps: Vec<_> = campaign.capped_prizes().collect();
    let limits = [
        campaign.limits.draws_per_hour,
        campaign.limits.granted_per_day,
        campaign.names_segments().then_some(1),
        campaign.counts_bonus_of_day().then_some(1),
    ];
    let coded: Vec<_> = campaign.prizes_with_codes().collect();
    let given = limits.iter().rposition(Option::is_some);
    let has_guarantees = !campaign.guarantees.is_empty();
    let has_budget = campaign.budget.is_some();
    let values = match coded.is_empty() && !has_budget && !has_guarantees {
        true => given.map_or(0, |last| last + 1),
        false => limits.len(),
    };
    if !caps.is_empty() {
        packer.list(caps.len() * 3);
        for (prize, cap) in caps {
            packer.int(prize.0.into());
            for most in [cap.per_day, cap.total] {
                packer.int(most.map_or(-1, i64::from));
            }
        }
    } else if values > 0 {
        packer.nil();
    }
    for limit in &limits[..values] {
        match limit {
            Some(limit) => packer.int(i64::from(*limit)),
            None => packer.nil(),
        };
    }
    if !coded.is_empty() {
        packer.list(coded.len());
        for prize in coded {
            packer.int(prize.0.into());
        }
    } else if has_budget || has_guarantees {
        packer.nil();
    }
    if let Some(budget) = &campaign.budget {
        pack_budget(packer, budget);
    } else if has_guarantees {
        packer.nil();
    }
    if has_guarantees {
        packer.list(campaign.guarantees.len());
        for guarantee in &campaign.guarantees {
            packer.list(2 + guarantee.prizes.len());
            // Every guarantee of a campaign has it.
            packer.count(guarantee.within.unwrap_or(u32::MAX).into());
            packer.count(GuaranteeKey::of(&guarantee.id).0.into());
            for prize in &guarantee.prizes {
                packer.int(prize.0.into());
            }
        }
    }
}

/// The budget of a day and in all (-1: none), then the value of each prize, in minor units.
fn pack_budget(packer: &mut Packer, budget: &Budget) {
    packer.list(2 + budget.values.len());
    for most in [budget.per_day, budget.total] {
        packer.int(most.map_or(-1, u64::cast_signed));
    }
    for value in &budget.values {
        packer.count(*value);
    }
}

/// The days from a moment on in the campaign's zone, and the moment at which they end. The bytes
/// are a list: for each day its start and its number, then the end. If draws of an hour are
/// limited, the starts of the hours follow as another list, whose last one is the end of all.
pub(crate) fn encode_days(campaign: &Campaign, from: Moment) -> (Vec<u8>, Moment) {
    let zone = &campaign.zone;
    let mut packer = Packer::default();
    packer.list(DAYS * 2 + 1);
    let mut start = from;
    for _ in 0..DAYS {
        packer.moment(start).int(zone.day(start).0.into());
        start = zone.next_day_start(start);
    }
    packer.moment(start);
    let mut limits = campaign.all_limits();
    if limits.any(|limits| limits.draws_per_hour.is_some()) {
        packer.list(HOURS + 1);
        let mut hour = zone.hour(from).0;
        for _ in 0..HOURS {
            packer.moment(hour);
            hour = zone.hour(hour).1;
        }
        packer.moment(hour);
        start = start.min(hour);
    }
    (packer.done(), start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = u64> {
        (0..64u32, any::<u64>()).prop_map(|(shift, number)| number >> shift)
    }

    proptest! {
        #[test]
        fn units_read_back_and_are_in_the_order_of_their_bytes(
            scores in [0..MOMENT_MAX, 0..3i64], windows in [0..1i64 << 34, 0..3i64],
            numbers in [numbers(), numbers()],
            forks in [0..3u32, 0..1 << 24]
        ) {
            let units: Vec<_> = (0..16)
                .map(|n| {
                    let (window, number) = (windows[n / 2 % 2], numbers[n / 4 % 2]);
                    let unit = Unit { window, fork: forks[n / 8], number };
                    (scores[n % 2], unit)
                })
                .collect();
            for (score, unit) in &units {
                prop_assert_eq!(decode_unit(&encode_unit(*score, *unit)).unwrap(), (*score, *unit));
                for (other_score, other) in &units {
                    prop_assert_eq!(
                        encode_unit(*score, *unit).cmp(&encode_unit(*other_score, *other)),
                        (score, unit).cmp(&(other_score, other)),
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_take_as_few_bytes_as_they_can() {
        let bytes = |number| {
            encode_unit(
                1,
                Unit {
                    window: 1,
                    fork: 0,
                    number,
                },
            )
            .len()
                - SCORE_BYTES
                - WINDOW_BYTES
        };
        let ends = NUMBER_BITS.map(|bits| (bytes((1 << bits) - 1), bytes(1 << bits)));
        assert_eq!(ends, [(1, 2), (2, 3), (3, 4), (4, 9)]);
        assert_eq!(bytes(u64::MAX), 9);
    }
}
