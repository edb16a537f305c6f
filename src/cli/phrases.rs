//! Phrases that several commands show: quantities, odds, and what the limit of wins means.

use super::output::counted;
use crate::{model::text::grouped, proto::PrizeQuantity};

/// `20 mug, 1 car`
pub(super) fn listed(prizes: &[PrizeQuantity]) -> String {
    let prizes = prizes
        .iter()
        .map(|prize| format!("{} {}", grouped(prize.units), prize.prize_id));
    prizes.collect::<Vec<_>>().join(", ")
}

/// A percentage for people, cut to six digits. The exact odds are the counts beside it.
pub(super) fn percent(cards: u64, size: u64) -> String {
    if size == 0 {
        return "-".into();
    }
    let millionths = u128::from(cards) * 100_000_000 / u128::from(size);
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    let exact = millionths * u128::from(size) == u128::from(cards) * 100_000_000;
    format!("{}{short}%", if exact { "" } else { "~" })
}

/// What the limit of wins means for a user who has reached it; none without a limit. `beyond` are
/// the prizes that such a user still wins.
pub(super) fn limit_of_wins(
    wins_per_user: Option<u32>,
    beyond: &[String],
    has_decks: bool,
) -> Option<String> {
    let wins = counted(wins_per_user?.into(), "win");
    if beyond.is_empty() {
        return Some(format!(
            "after {wins} a user wins nothing more: no pool is tried"
        ));
    }
    let mut text = format!(
        "after {wins} a user wins only: {}; pools without these prizes are not tried",
        beyond.join(", ")
    );
    if has_decks {
        text += "; a card of another prize is forfeited: it gives what a blank gives, and the unit \
                 goes back to stock";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_wins_says_what_is_left_to_win() {
        let beyond = ["pin".to_owned(), "sticker".to_owned()];
        assert_eq!(limit_of_wins(None, &beyond, true), None);
        assert_eq!(
            limit_of_wins(Some(1), &[], true).unwrap(),
            "after 1 win a user wins nothing more: no pool is tried"
        );
        let schedules = "after 5 wins a user wins only: pin, sticker; pools without these prizes \
                         are not tried";
        assert_eq!(limit_of_wins(Some(5), &beyond, false).unwrap(), schedules);
        let decks = "; a card of another prize is forfeited: it gives what a blank gives, and the \
                     unit goes back to stock";
        assert_eq!(
            limit_of_wins(Some(5), &beyond, true).unwrap(),
            format!("{schedules}{decks}")
        );
    }

    #[test]
    fn a_percentage_that_is_cut_says_so() {
        assert_eq!(percent(1, 100), "1%");
        assert_eq!(percent(29, 100), "29%");
        assert_eq!(percent(1, 300), "~0.333333%");
        assert_eq!(percent(1, 14_000_000), "~0.000007%");
        assert_eq!(percent(0, 0), "-");
    }
}
