//! Dividing whole things in proportion, without fractions.

/// Divides `total` in proportion to `weights`, in whole parts that sum to `total`: each gets its
/// quota rounded down, and what is left goes one by one to the largest remainders, ties to the
/// earlier index. All zero if all weights are.
///
/// Integers all the way: no part is off by a floating-point error. A part differs from its exact
/// quota by less than one.
///
/// Source: the method of Hamilton (1792) and Hare-Niemeyer; see Balinski and Young, *Fair
/// Representation* (1982).
///
/// ```
/// use tombola::model::apportion::largest_remainder;
/// assert_eq!(largest_remainder(&[70, 30], 100), [70, 30]);
/// assert_eq!(largest_remainder(&[1, 1, 1], 100), [34, 33, 33]);
/// ```
pub fn largest_remainder(weights: &[u64], total: u64) -> Vec<u64> {
    let sum: u128 = weights.iter().copied().map(u128::from).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let quotas = weights.iter().map(|weight| {
        let product = u128::from(*weight) * u128::from(total); // below 2^128: both are below 2^64
        (product / sum, product % sum)
    });
    // A quota is at most `total`, so it fits.
    let (mut parts, remainders): (Vec<u64>, Vec<u128>) = quotas
        .map(|(quota, remainder)| (u64::try_from(quota).unwrap_or(total), remainder))
        .unzip();
    let left = total - parts.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by(|a, b| remainders[*b].cmp(&remainders[*a])); // stable: ties stay in order
    for index in by_remainder.into_iter().zip(0..left).map(|(i, _)| i) {
        parts[index] += 1;
    }
    parts
}

/// The greatest common divisor.
pub(super) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_cases() {
        assert_eq!(largest_remainder(&[70, 30], 100), [70, 30]);
        assert_eq!(largest_remainder(&[70, 30], 10), [7, 3]);
        assert_eq!(largest_remainder(&[29, 71], 100), [29, 71]);
        assert_eq!(largest_remainder(&[0, 1], 5), [0, 5]);
        assert_eq!(largest_remainder(&[1, 1], 1), [1, 0], "ties to the earlier");
        assert_eq!(largest_remainder(&[0, 0], 5), [0, 0]);
        assert_eq!(largest_remainder(&[], 5), [0; 0]);
        // Balinski and Young's example of the Alabama paradox.
        assert_eq!(largest_remainder(&[6, 6, 2], 10), [4, 4, 2]);
        assert_eq!(largest_remainder(&[6, 6, 2], 11), [5, 5, 1]);
    }

    #[test]
    fn a_deck_without_its_cars_stays_as_large() {
        let parts = largest_remainder(&[3_000_000, 6_000_000, 5_000_000], 14_000_003);
        assert_eq!(parts, [3_000_001, 6_000_001, 5_000_001]);
        assert_eq!(parts.iter().sum::<u64>(), 14_000_003);
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_total_and_keep_to_their_quota(
            weights in prop::collection::vec(any::<u64>(), 1..30),
            total in any::<u64>(),
        ) {
            prop_assume!(weights.iter().any(|weight| *weight > 0));
            let sum: u128 = weights.iter().copied().map(u128::from).sum();
            let parts = largest_remainder(&weights, total);
            prop_assert_eq!(parts.iter().copied().map(u128::from).sum::<u128>(), u128::from(total));
            for (weight, part) in weights.iter().zip(parts) {
                let quota = u128::from(*weight) * u128::from(total);
                let (part, floor) = (u128::from(part), quota / sum);
                prop_assert!(part == floor || (part == floor + 1 && !quota.is_multiple_of(sum)));
            }
        }
    }
}
