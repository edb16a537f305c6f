//! Scatter: units over random moments of a window, and the hours of units planned for the whole
//! campaign.

use std::num::NonZeroU64;

use super::{seed::Seed, stream::Stream};
use crate::model::{Moment, PoolId, PrizeNo, Quantities};

/// One filling of a window of a scheduled pool, as its record froze it.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The pool that is filled.
    pub pool: &'a PoolId,
    /// When the window starts: its name, even if the fill begins later.
    pub window_start: Moment,
    /// Counts the fillings of this window: one that tops it up must have a number of its own, else
    /// its units would fall on the moments of the earlier ones.
    pub generation: u32,
    /// First moment a unit may get.
    pub from: Moment,
    /// First moment after that.
    pub until: Moment,
    /// Units by prize.
    pub granted: &'a Quantities,
}

/// From when on one unit of a prize may be won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The first moment at which a draw may take it.
    pub at: Moment,
    /// What it is.
    pub prize: PrizeNo,
}

/// The release of every unit granted, by moment, then by prize. Each unit has a microsecond of its
/// own choice: uniform over `from..until` and independent of all other units (two may share one).
/// Where that holds no microsecond, all are at `from`.
///
/// Of each prize, the units are taken one by one: each is at `from` plus [`Stream::below`]`(until -
/// from)` microseconds, of the stream with the label `("scatter", pool, window_start, generation,
/// prize)`, where `window_start` is an `i64` in microseconds since the Unix epoch, `generation` a
/// `u32` and `prize` a `u16`. So one prize's quantity changes no moment of another's, and a greater
/// quantity of its own adds moments and changes none.
///
/// ```
/// use tombola::{chance::{Fill, Seed, scatter}, model::{Moment, PoolId, PrizeNo}};
///
/// let seed = Seed::from_bytes([0; 32]);
/// let pool = PoolId::parse("pools[0].id", "coupons").unwrap();
/// let from = Moment::from_micros(1_795_046_400_000_000);
/// let until = from + std::time::Duration::from_secs(3600);
/// let granted = [(PrizeNo(0), 2), (PrizeNo(1), 1)].into();
/// let (window_start, granted) = (from, &granted);
/// let fill = Fill { pool: &pool, window_start, generation: 0, from, until, granted };
///
/// let releases: Vec<String> =
///     scatter(&seed, &fill).iter().map(|r| format!("{} {}", r.at, r.prize.0)).collect();
/// assert_eq!(releases, [
///     "2026-11-19T00:13:31.215847Z 0",
///     "2026-11-19T00:29:57.50383Z 0",
///     "2026-11-19T00:34:25.969165Z 1",
/// ]);
/// ```
///
/// # Panics
/// Where more units are granted than memory can address.
pub fn scatter(seed: &Seed, fill: &Fill<'_>) -> Vec<Release> {
    let units: u64 = fill.granted.values().sum();
    let mut releases =
        Vec::with_capacity(usize::try_from(units).expect("the units of a window fit in memory"));
    let length = micros_between(fill.from, fill.until);
    for (&prize, &quantity) in fill.granted {
        let mut stream = scatter_stream(seed, fill, prize);
        releases.extend((0..quantity).map(|_| {
            let offset = NonZeroU64::new(length).map_or(0, |length| stream.below(length));
            let at = moment_after(fill.from, offset);
            Release { at, prize }
        }));
    }
    releases.sort_unstable();
    releases
}

/// How many of `quantity` units planned for the whole campaign fall into each of its windows, in
/// the order of `spans`.
///
/// `spans` are the windows, each from its first moment to the first after it, one after the other;
/// gaps are no matter, and one that holds no microsecond gets no unit. Each unit has a microsecond
/// of its own choice, uniform over the lengths of all spans together, so a span's chance is in
/// proportion to its length. The sum of the answer is `quantity`, unless no span holds a
/// microsecond: then it is all zeros.
///
/// The units are taken one by one: [`Stream::below`]`(sum of all lengths in microseconds)`, of the
/// stream with the label `("total", pool, prize, revision)`, where `prize` is a `u16` and
/// `revision` a `u32`, is the offset of a unit on the spans laid end to end. `revision` is the
/// campaign's version that set the totals of the pool; a later version that changes them draws the
/// hours of what is left anew. Takes time in proportion to `quantity`.
///
/// ```
/// use tombola::{chance::{Seed, totals}, model::{Moment, PoolId, PrizeNo}};
///
/// let seed = Seed::from_bytes([0; 32]);
/// let pool = PoolId::parse("pools[0].id", "headline").unwrap();
/// let hour = |n: i64| Moment::from_micros(n * 3_600_000_000);
/// let spans: Vec<_> = (0..24).map(|n| (hour(n), hour(n + 1))).collect();
///
/// let car_in_hour = totals(&seed, &pool, PrizeNo(0), 0, 1, &spans);
/// assert_eq!(car_in_hour.iter().position(|&cars| cars == 1), Some(11));
/// ```
///
/// # Panics
/// Where the spans together are longer than 2^64 microseconds, half a million years.
pub fn totals(
    seed: &Seed,
    pool: &PoolId,
    prize: PrizeNo,
    revision: u32,
    quantity: u64,
    spans: &[(Moment, Moment)],
) -> Vec<u64> {
    let mut counts = vec![0; spans.len()];
    let ends = ends_laid_end_to_end(spans);
    let Some(length) = ends.last().copied().and_then(NonZeroU64::new) else {
        return counts;
    };
    let mut stream = totals_stream(seed, pool, prize, revision);
    for _ in 0..quantity {
        let offset = stream.below(length);
        counts[ends.partition_point(|&end| end <= offset)] += 1;
    }
    counts
}

fn scatter_stream(seed: &Seed, fill: &Fill<'_>, prize: PrizeNo) -> Stream {
    seed.stream(&[
        b"scatter",
        fill.pool.as_str().as_bytes(),
        &fill.window_start.as_micros().to_le_bytes(),
        &fill.generation.to_le_bytes(),
        &prize.0.to_le_bytes(),
    ])
}

fn totals_stream(seed: &Seed, pool: &PoolId, prize: PrizeNo, revision: u32) -> Stream {
    seed.stream(&[
        b"total",
        pool.as_str().as_bytes(),
        &prize.0.to_le_bytes(),
        &revision.to_le_bytes(),
    ])
}

/// Where each span ends, in microseconds, when all are laid end to end from 0.
fn ends_laid_end_to_end(spans: &[(Moment, Moment)]) -> Vec<u64> {
    let mut end = 0u64;
    let mut grow = |&(from, until): &(Moment, Moment)| {
        end = end
            .checked_add(micros_between(from, until))
            .expect("a campaign's windows are shorter than 2^64 microseconds");
        end
    };
    spans.iter().map(&mut grow).collect()
}

/// Microseconds in `from..until`; 0 if `until` is not after `from`.
fn micros_between(from: Moment, until: Moment) -> u64 {
    u64::try_from(until.as_micros() - from.as_micros()).unwrap_or(0)
}

/// `offset` microseconds after `from`; the offset comes from a distance between moments, so the sum
/// is one too.
fn moment_after(from: Moment, offset: u64) -> Moment {
    Moment::from_micros(from.as_micros().saturating_add_unsigned(offset))
}
