//! Phrases that several commands show: quantities, odds, and what the limit of wins and caps mean.

use super::output::counted;
pub(super) use crate::model::text::percent;
use crate::{
    model::text::grouped,
    proto::{CappedPrize, Guarantee, PrizeCap, PrizeQuantity, SegmentRule, SegmentWins},
};

/// `20 mug, 1 car`
pub(super) fn listed(prizes: &[PrizeQuantity]) -> String {
    let prizes = prizes
        .iter()
        .map(|prize| format!("{} {}", grouped(prize.units), prize.prize_id));
    prizes.collect::<Vec<_>>().join(", ")
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

/// What the limits of wins of segments mean; none if no segment has its own.
pub(super) fn wins_of_segments(
    segments: &[SegmentWins],
    beyond: &[String],
    has_decks: bool,
) -> Option<String> {
    if segments.is_empty() {
        return None;
    }
    let lines = segments.iter().map(|entry| {
        let limit = limit_of_wins(entry.wins_per_user, beyond, has_decks);
        let limit = limit.unwrap_or_else(|| "no limit of wins".into());
        format!("  {}: {limit}", entry.segment)
    });
    let lines: Vec<_> = lines.collect();
    let title = "in a segment (the first of these that a user is in)";
    Some(format!("{title}\n{}", lines.join("\n")))
}

/// `2 a day, 10 in all`
pub(super) fn cap(cap: &PrizeCap) -> String {
    let bounds = [(cap.per_day, "a day"), (cap.total, "in all")];
    let bounds = bounds
        .iter()
        .filter_map(|(most, what)| Some(format!("{} {what}", grouped(u64::from((*most)?)))));
    bounds.collect::<Vec<_>>().join(", ")
}

/// `for north or member, not for staff`
pub(super) fn for_whom(rule: &SegmentRule) -> String {
    let any = (!rule.any.is_empty()).then(|| format!("for {}", rule.any.join(" or ")));
    let none = (!rule.none.is_empty()).then(|| format!("not for {}", rule.none.join(" or ")));
    let both: Vec<_> = any.into_iter().chain(none).collect();
    both.join(", ")
}

/// `ssr of hero, star: within 90 draws; from draw 74 on 6% more each`
pub(super) fn promise(guarantee: &Guarantee) -> String {
    let mut parts = Vec::new();
    if guarantee.within > 0 {
        parts.push(format!("within {} draws", grouped(guarantee.within.into())));
    }
    for ramp in &guarantee.ramp {
        parts.push(format!("from draw {} on {} more each", ramp.from, ramp.add));
    }
    if !guarantee.among.is_empty() {
        let among = guarantee.among.join(" or ");
        parts.push(format!(
            "{among} in half of the cases, and surely after a miss"
        ));
    }
    let prizes = guarantee.prizes.join(", ");
    format!("{} of {prizes}: {}", guarantee.id, parts.join("; "))
}

/// When a pool is open to a user: after how many draws, draws of the day, and until how many wins.
pub(super) fn open_when(draws: u32, draws_today: u32, wins: u32) -> Vec<String> {
    let ordinal = |draws: u32| grouped(u64::from(draws) + 1);
    let parts = [
        (draws > 0).then(|| format!("from a user's draw {} on", ordinal(draws))),
        (draws_today > 0).then(|| format!("from draw {} of a day on", ordinal(draws_today))),
        (wins > 0).then(|| format!("until a user has {}", counted(wins.into(), "win"))),
    ];
    parts.into_iter().flatten().collect()
}

/// What caps mean for a user who has reached one; none without a cap.
pub(super) fn caps(capped: &[CappedPrize], has_decks: bool) -> Option<String> {
    if capped.is_empty() {
        return None;
    }
    let prizes = capped.iter().map(|prize| {
        let cap = prize.per_user.as_ref().map(cap).unwrap_or_default();
        format!("{} {cap}", prize.prize_id)
    });
    let prizes = prizes.collect::<Vec<_>>().join("; ");
    let mut text = format!(
        "most that a user wins: {prizes}; then the prize is kept for others, and pools with \
         nothing else are not tried"
    );
    if has_decks {
        text += "; a card of it is forfeited: it gives what a blank gives, and the unit goes back \
                 to stock";
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
    fn each_segment_says_what_its_limit_means() {
        assert_eq!(wins_of_segments(&[], &[], true), None);
        let wins = |segment: &str, wins_per_user| SegmentWins {
            segment: segment.into(),
            wins_per_user,
        };
        let both = [wins("gold", Some(2)), wins("staff", None)];
        assert_eq!(
            wins_of_segments(&both, &[], false).unwrap(),
            "in a segment (the first of these that a user is in)\n  gold: after 2 wins a user wins \
             nothing more: no pool is tried\n  staff: no limit of wins"
        );
    }

    #[test]
    fn caps_say_how_many_a_user_wins_of_which_prize() {
        assert_eq!(caps(&[], true), None);
        let capped = |prize: &str, per_day, total| CappedPrize {
            prize_id: prize.into(),
            per_user: Some(PrizeCap { total, per_day }),
        };
        let both = [
            capped("phone", None, Some(1)),
            capped("mug", Some(2), Some(1000)),
        ];
        let schedules = "most that a user wins: phone 1 in all; mug 2 a day, 1,000 in all; then \
                         the prize is kept for others, and pools with nothing else are not tried";
        assert_eq!(caps(&both, false).unwrap(), schedules);
        let text = caps(&both, true).unwrap();
        assert!(text.ends_with("the unit goes back to stock"), "{text}");
    }
}
