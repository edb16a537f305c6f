//! Words for people: numbers with thousands separators, and the name that was probably meant.

/// A number with thousands separators.
///
/// ```
/// use tombola::model::text::grouped;
/// assert_eq!(grouped(999), "999");
/// assert_eq!(grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(n: u64) -> String {
    grouped_digits(&n.to_string())
}

/// Decimal digits with thousands separators.
pub(crate) fn grouped_digits(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The candidate that `name` was probably meant to be; none where nothing is near.
///
/// ```
/// use tombola::model::text::nearest;
/// assert_eq!(nearest("cupon", ["car", "coupon"]), Some("coupon"));
/// assert_eq!(nearest("bicycle", ["car", "coupon"]), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const BYTES_MAX: usize = 128; // the distance takes the square of the length
    if name.len() > BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= BYTES_MAX)
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and replacements from `a` to `b` (Levenshtein 1966).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (n, text) in [
            (0, "0"),
            (100, "100"),
            (1_000, "1,000"),
            (70_400, "70,400"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(n), text);
        }
    }

    #[test]
    fn the_distance_counts_edits() {
        for (a, b, edits) in [("", "abc", 3), ("kitten", "sitting", 3), ("car", "car", 0)] {
            assert_eq!(distance(a, b), edits);
            assert_eq!(distance(b, a), edits);
        }
    }
}
