//! Words for people: numbers with thousands separators, text of strangers, and the name that was
//! probably meant.

use std::borrow::Cow;

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
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A percentage for people, cut to six digits. The exact odds are the counts beside it.
pub(crate) fn percent(cards: u64, size: u64) -> String {
    if size == 0 {
        return "-".into();
    }
    let millionths = u128::from(cards) * 100_000_000 / u128::from(size);
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    let exact = millionths * u128::from(size) == u128::from(cards) * 100_000_000;
    format!("{}{short}%", if exact { "" } else { "~" })
}

/// Text of someone else as it can stand in a line of a log or a cell of a table: a character
/// without a form of its own (a line's end, a mark of direction, a space at either end) is written
/// as an escape, and so is the backslash that begins one. Different texts stay different.
///
/// ```
/// use tombola::model::text::visible;
/// assert_eq!(visible("老板, O'Neil \"x\""), "老板, O'Neil \"x\"");
/// assert_eq!(visible("a\u{202e}b\\ "), r"a\u{202e}b\\\u{20}");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'\\';
    if text.bytes().all(is_plain) && text.trim().len() == text.len() {
        return Cow::Borrowed(text);
    }
    let inner = text.trim_matches(' ');
    let start = text.len() - text.trim_start_matches(' ').len();
    let space = r"\u{20}";
    let mut shown = space.repeat(start);
    // `escape_debug` escapes quotes besides, which need none here.
    for piece in inner.split_inclusive(['"', '\'']) {
        match piece.strip_suffix(['"', '\'']) {
            Some(before) => {
                shown.extend(before.escape_debug());
                shown.push_str(&piece[before.len()..]);
            }
            None => shown.extend(piece.escape_debug()),
        }
    }
    shown.push_str(&space.repeat(text.len() - start - inner.len()));
    Cow::Owned(shown)
}

/// The candidate that `name` was probably meant to be; none if nothing is near.
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

/// `count` and the noun, in the plural unless `count` is 1.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let number = grouped(count);
    match noun.strip_suffix("ry") {
        _ if count == 1 => format!("{number} {noun}"),
        Some(stem) => format!("{number} {stem}ries"),
        None => format!("{number} {noun}s"),
    }
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
    fn text_is_visible_and_stays_different() {
        for (text, shown) in [
            ("auth0|5f7c8", "auth0|5f7c8"),
            ("", ""),
            (" ", r"\u{20}"),
            ("  a b ", r"\u{20}\u{20}a b\u{20}"),
            (r"\u{20}", r"\\u{20}"),
            ("a\nb\t", r"a\nb\t"),
            ("caf\u{e9}", "caf\u{e9}"),
            ("cafe\u{301}", "cafe\u{301}"),
            ("\u{301}", r"\u{301}"),
            ("\u{2028}\u{200b}\u{a0}", r"\u{2028}\u{200b}\u{a0}"),
            ("'\u{1b}[31m\"", r#"'\u{1b}[31m""#),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn the_distance_counts_edits() {
        for (a, b, edits) in [("", "abc", 3), ("kitten", "sitting", 3), ("car", "car", 0)] {
            assert_eq!(distance(a, b), edits);
            assert_eq!(distance(b, a), edits);
        }
    }

    #[test]
    fn a_percentage_that_is_cut_says_so() {
        assert_eq!(percent(1, 100), "1%");
        assert_eq!(percent(29, 100), "29%");
        assert_eq!(percent(1, 300), "~0.333333%");
        assert_eq!(percent(1, 14_000_000), "~0.000007%");
        assert_eq!(percent(0, 0), "-");
    }

    #[test]
    fn nouns_are_in_the_plural_unless_there_is_one() {
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(0, "entry"), "0 entries");
        assert_eq!(counted(2_000, "draw"), "2,000 draws");
        assert_eq!(counted(1, "user"), "1 user");
    }
}
