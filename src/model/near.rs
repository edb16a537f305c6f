//! "Did you mean": the names nearest to what was written.

/// The names among `candidates` nearest to `written`, best first, at most three; none where nothing is near.
pub(super) fn near<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let folded = fold(written);
    let slips_max = (folded.len() / 4).clamp(1, 3);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= 2 * slips_max)
        .map(|candidate| (slips(&folded, &fold(candidate)), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .collect();
    found.sort_unstable();
    let best = found.first().map_or(0, |(slips, _)| *slips);
    found
        .into_iter()
        .take_while(|(slips, _)| *slips <= best)
        .take(3)
        .map(|(_, candidate)| candidate)
        .collect()
}

/// `; did you mean a, b or c?`, or nothing where nothing is near.
pub(super) fn did_you_mean(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

/// Without case and punctuation, which are the commonest slips.
fn fold(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .take(64)
        .collect()
}

/// Letters to insert, leave out, replace or swap with their neighbour (optimal string alignment).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, right) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(left != right))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_found() {
        let names = ["stock", "name", "attributes", "countsAsWin"];
        assert_eq!(near("stokc", names), ["stock"]);
        assert_eq!(near("Counts_as_win", names), ["countsAsWin"]);
        assert_eq!(near("atributes", names), ["attributes"]);
        assert!(near("colour", names).is_empty());
        assert!(near("", names).is_empty());
    }
}
