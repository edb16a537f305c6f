//! What may change in a campaign, and what did.
//!
//! Once units may exist, what was promised with them stays: the composition of decks, the positions
//! of prizes and pools in their lists (a unit knows its prize by number), the zone its hours are
//! counted in. The rest may be corrected while the campaign runs.

mod difference;

pub use difference::{Difference, differences};

use super::{
    campaign::{Campaign, Pool, PoolKind},
    deck::{Deck, OnExhausted},
    id::flaw_of_new,
    moment::Moment,
    number::{PrizeNo, Quantities},
    personal::{Personal, PersonalKind},
    problem::Problems,
    text::grouped,
};

/// Where a campaign stands when it is to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// The store's time.
    pub now: Moment,
    /// Something was injected, dealt, drawn or granted already.
    pub touched: bool,
}

/// Says what of a change is refused, and why. No problems: the change may be made.
///
/// - The id never changes, and a campaign that has ended does not change at all.
/// - A campaign that has not started and is not touched may change in everything else.
/// - Afterwards these stay: time zone, start, the currency of the budget, decks, personal ones too,
///   the kind of each pool, `grand`, `codes`, the positions of prizes and pools (new ones come at
///   the end). Stock is only raised, or becomes unlimited for good; the end is only moved later.
pub fn check(before: &Campaign, after: &Campaign, standing: Standing) -> Problems {
    let mut problems = Problems::default();
    if before == after {
        return problems;
    }
    if before.id != after.id {
        let (is, was) = (&after.id, &before.id);
        problems.add(
            "id",
            format!("{is} is another campaign than {was}: an id never changes"),
        );
    }
    if standing.now >= before.end {
        problems.add(
            "endTime",
            format!(
                "the campaign ended at {}: it cannot be changed any more",
                before.end
            ),
        );
        return problems;
    }
    if standing.touched || standing.now >= before.start {
        let why = if standing.now >= before.start {
            "the campaign has started"
        } else {
            "units were injected or draws granted already"
        };
        check_times(before, after, why, &mut problems);
        check_prizes(before, after, why, &mut problems);
        check_budget(before, after, why, &mut problems);
        check_pools(before, after, why, &mut problems);
    }
    problems
}

/// Says which ids of a version cannot be used, since they are new; see [`flaw_of_new`]. Ids that
/// the campaign has already may stay.
pub fn check_new_ids(before: Option<&Campaign>, after: &Campaign) -> Problems {
    let mut problems = Problems::default();
    let mut check = |path: String, id: &str, is_new: bool| {
        if let Some(flaw) = flaw_of_new(id).filter(|_| is_new) {
            problems.add(path, flaw);
        }
    };
    check("id".into(), after.id.as_str(), before.is_none());
    for (no, prize) in after.numbered_prizes() {
        let id = prize.id.as_str();
        let is_new = before.is_none_or(|before| before.prize_no(id).is_none());
        check(format!("prizes[{}].id", no.0), id, is_new);
    }
    for (no, pool) in after.numbered_pools() {
        let id = pool.id.as_str();
        let is_new = before.is_none_or(|before| before.pool_no(id).is_none());
        check(format!("pools[{}].id", no.0), id, is_new);
    }
    problems
}

fn check_times(before: &Campaign, after: &Campaign, why: &str, problems: &mut Problems) {
    if before.zone.name() != after.zone.name() {
        let stays = before.zone.name();
        problems.add("timeZone", format!("stays {stays}: {why}"));
    }
    if before.start != after.start {
        problems.add("startTime", format!("stays {}: {why}", before.start));
    }
    if after.end < before.end {
        problems.add(
            "endTime",
            format!(
                "may only move later than {}: {why}; to end it now, close the campaign",
                before.end
            ),
        );
    }
}

fn check_prizes(before: &Campaign, after: &Campaign, why: &str, problems: &mut Problems) {
    let ids = |campaign: &Campaign| -> Vec<String> {
        let prizes = campaign.prizes.iter();
        prizes.map(|prize| prize.id.to_string()).collect()
    };
    check_positions("prizes", &ids(before), &ids(after), why, problems);
    for was in &before.prizes {
        let Some(no) = after.prize_no(was.id.as_str()) else {
            continue;
        };
        let (is, path) = (after.prize(no), format!("prizes[{}]", no.0));
        if was.unlimited && !is.unlimited {
            problems.add(
                format!("{path}.unlimited"),
                format!("stays true: {why}; to end the prize, pause it or plan none of it"),
            );
        }
        if is.codes != was.codes {
            problems.add(
                format!("{path}.codes"),
                format!("stays {}: {why}; add a prize instead", was.codes),
            );
        }
        if is.stock < was.stock && !is.unlimited {
            let stock = grouped(was.stock);
            problems.add(
                format!("{path}.stock"),
                format!(
                    "may not be lowered from {stock}: {why}; to take units out, use `recall \
                     --withdraw`"
                ),
            );
        }
        if is.grand != was.grand {
            problems.add(
                format!("{path}.grand"),
                format!("stays {}: {why}", was.grand),
            );
        }
    }
}

/// What was won on the day is a sum in one currency.
fn check_budget(before: &Campaign, after: &Campaign, why: &str, problems: &mut Problems) {
    if let (Some(was), Some(is)) = (&before.budget, &after.budget)
        && was.currency != is.currency
    {
        problems.add(
            "budget",
            format!(
                "stays in {}, and is in {}: {why}",
                was.currency, is.currency
            ),
        );
    }
}

fn check_pools(before: &Campaign, after: &Campaign, why: &str, problems: &mut Problems) {
    let ids = |campaign: &Campaign| -> Vec<String> {
        let pools = campaign.pools.iter();
        pools.map(|pool| pool.id.to_string()).collect()
    };
    check_positions("pools", &ids(before), &ids(after), why, problems);
    for was in &before.pools {
        let Some(no) = after.pool_no(was.id.as_str()) else {
            continue;
        };
        let (is, path) = (after.pool(no), format!("pools[{}]", no.0));
        match (&was.kind, &is.kind) {
            (PoolKind::Schedule(_), PoolKind::Schedule(_)) => {} // plans are there to be changed
            (PoolKind::Deck(was), PoolKind::Deck(is)) => {
                let (was, is) = ((was, before), (is, after));
                check_deck(&format!("{path}.deck"), was, is, why, problems);
            }
            (PoolKind::Personal(was), PoolKind::Personal(is)) => {
                let (was, is) = ((was, before), (is, after));
                check_personal(&format!("{path}.personal"), was, is, why, problems);
            }
            _ => problems.add(path, format!("stays a {}: {why}", kind_name(was))),
        }
    }
}

/// Odds, guarantees and the fallback may change: users' counters follow the guarantees' ids. A deck
/// stays, for users are in the middle of their rounds.
fn check_personal(
    path: &str,
    (was, before): (&Personal, &Campaign),
    (is, after): (&Personal, &Campaign),
    why: &str,
    problems: &mut Problems,
) {
    match (&was.kind, &is.kind) {
        (PersonalKind::Odds(_), PersonalKind::Odds(_)) => {}
        (PersonalKind::Deck(was), PersonalKind::Deck(is)) => {
            let (was, is) = ((was, before), (is, after));
            check_deck(&format!("{path}.deck"), was, is, why, problems);
        }
        (PersonalKind::Odds(_), PersonalKind::Deck(_)) => {
            problems.add(path, format!("stays one with odds: {why}; add a pool"));
        }
        (PersonalKind::Deck(_), PersonalKind::Odds(_)) => {
            problems.add(path, format!("stays one with a deck: {why}; add a pool"));
        }
    }
}

/// Existing items stay at their positions; new ones come after them.
fn check_positions(
    path: &str,
    before: &[String],
    after: &[String],
    why: &str,
    problems: &mut Problems,
) {
    for (i, was) in before.iter().enumerate() {
        match after.iter().position(|is| is == was) {
            Some(index) if index == i => {}
            Some(index) => problems.add(
                format!("{path}[{index}]"),
                format!("{was} must stay at {path}[{i}]: {why}; add new ones at the end"),
            ),
            None => problems.add(
                format!("{path}[{i}]"),
                format!("{was} cannot be removed: {why}; keep it where it is"),
            ),
        }
    }
}

fn check_deck(
    path: &str,
    (was, before): (&Deck, &Campaign),
    (is, after): (&Deck, &Campaign),
    why: &str,
    problems: &mut Problems,
) {
    if was.size != is.size {
        let size = grouped(was.size);
        problems.add(format!("{path}.size"), format!("stays {size}: {why}"));
    }
    if by_id(&was.cards, before) != by_id(&is.cards, after) {
        let cards: Vec<String> = by_id(&was.cards, before)
            .into_iter()
            .map(|(id, cards)| format!("{id}: {cards}"))
            .collect();
        let cards = cards.join(", ");
        problems.add(
            format!("{path}.cards"),
            format!("stay {{{cards}}}: {why}; for other odds, add a pool"),
        );
    }
    if was.on_exhausted != is.on_exhausted {
        let name = match was.on_exhausted {
            OnExhausted::Stop => "ON_EXHAUSTED_STOP",
            OnExhausted::Reshuffle => "ON_EXHAUSTED_RESHUFFLE",
        };
        problems.add(
            format!("{path}.onExhausted"),
            format!("stays {name}: {why}"),
        );
    }
}

/// Cards by the prizes' ids, for the numbers of two campaigns may mean different prizes.
fn by_id<'a>(cards: &Quantities, campaign: &'a Campaign) -> Vec<(&'a str, u64)> {
    let id = |no: PrizeNo| campaign.prize(no).id.as_str();
    let mut cards: Vec<_> = cards.iter().map(|(no, cards)| (id(*no), *cards)).collect();
    cards.sort_unstable();
    cards
}

fn kind_name(pool: &Pool) -> &'static str {
    match pool.kind {
        PoolKind::Schedule(_) => "schedule",
        PoolKind::Deck(_) => "deck",
        PoolKind::Personal(_) => "personal pool",
    }
}

#[cfg(test)]
mod tests;
