//! Splitting an envelope: what each packet holds, and when it is released.

use std::num::NonZeroU64;

use super::seed::Seed;
use crate::model::{Moment, Split};

/// What the packets of an envelope hold, in minor units, in the order in which they are grabbed.
/// They sum up to `total`, and none is under `min`.
///
/// [`Split::Equal`]: each holds `total / packets`, the first `total % packets` of them one unit
/// more.
///
/// [`Split::Random`]: cut one by one, each of what the earlier ones left, then shuffled, all with
/// numbers of one stream, whose label is `("split")`:
///
/// 1. Let `surplus = total - packets * min`. For each packet but the last, let `left` be the
///    packets from this one on and `x` = [`Stream::below`](super::Stream::below)`(floor(2 * surplus
///    / left) + 1)`: the packet holds `min + x`, and `surplus` becomes less by `x`. The last packet
///    holds `min + surplus`. (So each is uniform from `min` to about twice what would be left for
///    each.)
/// 2. Cut like this, every packet has the same expectation (but for the rounding), but later ones
///    spread more. The packets are therefore shuffled (Fisher–Yates; Knuth, TAOCP vol. 2, 3.4.2,
///    algorithm P): for `i` from `packets - 1` down to 1, the packets at indexes `i` and
///    [`Stream::below`](super::Stream::below)`(i + 1)` are exchanged, indexes counted from 0. So
///    what a packet holds has the same distribution at every index, and who comes first has no
///    better chance than who comes last.
///
/// ```
/// use tombola::{chance::{Seed, split}, model::Split};
///
/// let seed = Seed::from_bytes([0; 32]);
/// let packets = split(&seed, Split::Random, 10_000, 5, 1);
/// assert_eq!(packets.iter().sum::<u64>(), 10_000);
/// assert_eq!(packets, [981, 1_520, 3_124, 3_557, 818]);
/// assert_eq!(split(&seed, Split::Equal, 11, 3, 1), [4, 4, 3]);
/// ```
///
/// # Panics
/// Where `total` is less than `packets * min`, or 2^63 and more.
pub fn split(seed: &Seed, split: Split, total: u64, packets: u32, min: u64) -> Vec<u64> {
    let count = u64::from(packets);
    let needed = count.checked_mul(min);
    let surplus = needed.and_then(|needed| total.checked_sub(needed));
    let surplus = surplus.expect("an envelope holds at least the least of each packet");
    assert!(total < 1 << 63, "an amount is below 2^63 minor units");
    match split {
        Split::Random => cut_and_shuffle(seed, surplus, count, min),
        Split::Equal => (0..count)
            .map(|index| total / count + u64::from(index < total % count))
            .collect(),
    }
}

fn cut_and_shuffle(seed: &Seed, mut surplus: u64, count: u64, min: u64) -> Vec<u64> {
    let mut stream = seed.stream(&[b"split"]);
    let mut packets = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for left in (1..=count).rev() {
        let more = if left == 1 {
            surplus
        } else {
            stream.below(NonZeroU64::MIN.saturating_add(2 * surplus / left))
        };
        packets.push(min + more);
        surplus -= more;
    }
    for index in (1..packets.len()).rev() {
        let other = stream.below(NonZeroU64::MIN.saturating_add(index as u64));
        packets.swap(index, usize::try_from(other).unwrap_or(index)); // at most `index`
    }
    packets
}

/// When the packets of an envelope rain are released, in order: each at a microsecond of its own
/// choice, uniform over `length_micros` from `start` on and independent of the others (two may
/// share one). Where that holds no microsecond, all are at `start`.
///
/// One by one: `start` plus [`Stream::below`](super::Stream::below)`(length_micros)` microseconds,
/// of the stream with the label `("rain")`; then sorted.
///
/// ```
/// use tombola::{chance::{Seed, rain}, model::Moment};
///
/// let seed = Seed::from_bytes([0; 32]);
/// let start = Moment::from_micros(1_795_046_400_000_000);
/// let releases: Vec<String> =
///     rain(&seed, start, 60_000_000, 3).iter().map(Moment::to_string).collect();
/// assert_eq!(releases, [
///     "2026-11-19T00:00:14.417218Z",
///     "2026-11-19T00:00:28.618355Z",
///     "2026-11-19T00:00:56.584889Z",
/// ]);
/// ```
pub fn rain(seed: &Seed, start: Moment, length_micros: u64, packets: u32) -> Vec<Moment> {
    let mut stream = seed.stream(&[b"rain"]);
    let length = NonZeroU64::new(length_micros);
    let mut offset = || length.map_or(0, |length| stream.below(length));
    let at = |offset| Moment::from_micros(start.as_micros().saturating_add_unsigned(offset));
    let mut releases: Vec<Moment> = (0..packets).map(|_| at(offset())).collect();
    releases.sort_unstable();
    releases
}
