//! Which broken rules are certain in a document that could not be read as a whole, and which may
//! only follow from the rest.

use super::walk::Walk;
use crate::model::{convert::is_unknown_prize, problem::Problems};

/// Of the rules that what could be read of a document breaks, those that would be broken however
/// the rest reads.
pub(super) fn certain(mut broken: Problems, walk: &Walk) -> Problems {
    let unread: Vec<&str> = walk.unread().collect();
    let prizes_unread = unread.iter().any(|path| names_a_prize(path));
    let hours_unread = unread.iter().any(|path| may_lower_a_sum(path));
    broken.0.retain(|problem| {
        let follows = unread.iter().any(|unread| follows(&problem.path, unread));
        let is_unsure = prizes_unread && is_unknown_prize(problem)
            || hours_unread && problem.path.ends_with(".stock");
        !follows && !is_unsure
    });
    broken
}

/// A problem at `path` may follow from a value that could not be read: it is of that value, of
/// something around it, or of its neighbour in a pool, whose fields depend on each other; or it is
/// of a multiple of other hours of its schedule, or of the stock of its prize.
fn follows(path: &str, unread: &str) -> bool {
    let is_neighbour = parent(path).is_some_and(|parent| {
        let in_a_pool = parent.starts_with("pools[") && parent.contains("].");
        in_a_pool && holds(parent, unread)
    });
    let is_multiple = (path.ends_with(".multiply") || path.ends_with(".factor"))
        && path
            .split_once(".special[")
            .is_some_and(|(schedule, _)| holds(schedule, unread));
    let is_same = unread == "file" || holds(path, unread) || holds(unread, path);
    is_same || is_neighbour || is_multiple || may_need_none(path, unread)
}

/// Whether `path` is the stock of a prize that may need none: that it is unlimited, or has codes,
/// could not be read.
fn may_need_none(path: &str, unread: &str) -> bool {
    let prize = path.strip_suffix(".stock");
    let field = prize.and_then(|prize| unread.strip_prefix(prize));
    matches!(field, Some(".unlimited" | ".codes"))
}

/// What is at `path` holds what is at `inner`, or is the same.
fn holds(path: &str, inner: &str) -> bool {
    inner
        .strip_prefix(path)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What holds the field at `path`; none for a campaign's own fields.
fn parent(path: &str) -> Option<&str> {
    let name = path.rfind(['.', '['])?;
    Some(&path[..name])
}

/// The id of a prize may stand here.
fn names_a_prize(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("prizes") else {
        return path == "file";
    };
    match rest.split_once('.') {
        None => true, // all prizes, or a whole prize
        Some((_, field)) => field == "id",
    }
}

/// Hours stand here that may release less than the layer below them, so that without them more
/// stock is needed.
fn may_lower_a_sum(path: &str) -> bool {
    path.contains(".schedule.daily") || path.contains(".schedule.special")
}

#[cfg(test)]
mod tests {
    use crate::model::file::{check, parse};

    const GOOD: &str = "
id: wheel
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
limits: {drawsPerDay: 3}
prizes:
  - {id: car, stock: 1, grand: true}
  - {id: coupon, stock: 300000}
pools:
  - id: hours
    schedule:
      perHour: {coupon: 100}
      special: [{from: 2026-12-05T20:00, to: 2026-12-05T22:00, multiply: 2}]
      unclaimed: RETURN
      returnAfter: 3600s
  - {id: deck, deck: {size: 100, cards: {car: 1, coupon: 9}, onExhausted: RESHUFFLE}}
";

    /// The paths of all problems of the good file with these replacements.
    #[track_caller]
    fn paths(replacements: &[(&str, &str)]) -> Vec<String> {
        let mut text = GOOD.to_owned();
        for (from, to) in replacements {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let problems = check(&text).unwrap_err();
        problems.0.into_iter().map(|problem| problem.path).collect()
    }

    #[test]
    fn what_could_be_read_is_held_against_the_rules_too() {
        assert_eq!(check(GOOD), parse(GOOD));
        let mistakes = [
            ("drawsPerDay", "drawsPerDy"),
            ("Asia/Shanghai", "Asia/Shanghigh"),
            ("stock: 300000", "stock: 10"),
            ("car: 1", "cra: 1"),
            ("2026-12-05T22:00", "2026-12-05T22:30"),
        ];
        assert_eq!(
            paths(&mistakes),
            [
                "limits.drawsPerDy",
                "timeZone",
                "pools[0].schedule.special[0].to",
                "pools[1].deck.cards.cra",
            ],
            "stock is not checked if neither pool could be read"
        );
        let bad_date = [
            ("2026-12-31T00:00:00+08:00", "2026-12-31"),
            ("id: wheel", "id: my wheel"),
            ("id: deck", "id: hours"),
        ];
        assert_eq!(paths(&bad_date), ["endTime", "id", "pools[1].id"]);
    }

    #[test]
    fn what_follows_from_a_value_that_could_not_be_read_is_not_reported() {
        for (from, to, path) in [
            ("timeZone", "tmieZone", "tmieZone"),
            ("2026-12-01T00:00:00+08:00", "2026-12-01", "startTime"),
            ("stock: 300000", "stock: 300k", "prizes[1].stock"),
            ("stock: 300000", "stokc: 300000", "prizes[1].stokc"),
            ("stock: 300000", "unlimited: yes", "prizes[1].unlimited"),
            ("stock: 300000", "cods: true", "prizes[1].cods"),
            ("{id: car,", "{id: 5,", "prizes[0].id"),
            ("{id: car,", "{idd: car,", "prizes[0].idd"),
            ("{id: car, stock: 1, grand: true}", "car", "prizes[0]"),
            (
                "{coupon: 100}",
                "{coupon: many}",
                "pools[0].schedule.perHour.coupon",
            ),
            ("perHour: {", "perHuor: {", "pools[0].schedule.perHuor"),
            (
                "unclaimed: RETURN",
                "unclaimed: RETRUN",
                "pools[0].schedule.unclaimed",
            ),
            (
                "multiply: 2",
                "multiply: two",
                "pools[0].schedule.special[0].multiply",
            ),
            ("deck: {size", "dekc: {size", "pools[1].dekc"),
            ("coupon: 9", "coupon: nine", "pools[1].deck.cards.coupon"),
            ("size: 100", "size: 1e", "pools[1].deck.size"),
            ("cards: {", "crads: {", "pools[1].deck.crads"),
        ] {
            assert_eq!(paths(&[(from, to)]), [path], "{to}");
        }
    }

    #[test]
    fn stock_is_not_missed_for_hours_that_may_need_less() {
        let special = "perHour: {coupon: none}";
        let mistakes = [("multiply: 2", special), ("stock: 300000", "stock: 10")];
        assert_eq!(
            paths(&mistakes),
            ["pools[0].schedule.special[0].perHour.coupon"]
        );
    }

    #[test]
    fn an_entry_that_could_not_be_read_keeps_its_index() {
        let mistakes = [
            ("{id: car, stock: 1, grand: true}", "car"),
            ("stock: 300000", "stock: 10"),
        ];
        assert_eq!(paths(&mistakes), ["prizes[0]", "prizes[1].stock"]);
        let guarantee = "guarantees: [{id: third, prizes: [5, coupon, cuopon], within: 3}]";
        let mistakes = [("limits: {drawsPerDay: 3}", guarantee)];
        let named = ["guarantees[0].prizes[0]", "guarantees[0].prizes[2]"];
        assert_eq!(paths(&mistakes), named, "an entry of text too");
    }
}
