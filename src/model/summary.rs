//! What a campaign needs, and when: what `dry_run` shows.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    campaign::{Campaign, PoolKind},
    deck::{CardCount, Deck, OnExhausted},
    moment::Moment,
    number::{PoolNo, PrizeNo, Quantities},
    personal::{Personal, PersonalKind},
    rounds::{Rounds, whole_rounds},
    zone::Window,
};

/// The plan of a campaign in full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanSummary {
    /// Every prize, by number.
    pub prizes: Vec<PrizePlan>,
    /// The hours with something planned, by pool and start; prizes planned by `total` are left out,
    /// nobody knows their hour.
    pub hours: Vec<PlannedHour>,
    /// Hours left out of `hours`, to keep it short.
    pub hours_omitted: u32,
    /// Every deck.
    pub decks: Vec<DeckPlan>,
    /// Every personal pool of which draws take prizes with a fixed stock.
    pub personal: Vec<PersonalPlan>,
}

/// How far stock brings the draws of a personal pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalPlan {
    /// The pool.
    pub pool: PoolNo,
    /// Units of its prizes that are in stock and that no other pool plans.
    pub stock: Quantities,
    /// What the first round of each user takes of them; empty if the pool has odds, since chance
    /// decides.
    pub per_user: Quantities,
    /// The users whose whole first round this stock pays for, if no other pool takes of it; 0 with
    /// odds.
    pub users: u64,
    /// Another personal pool takes units of the same stock.
    pub shares_stock: bool,
}

/// What a prize needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrizePlan {
    /// The prize.
    pub prize: PrizeNo,
    /// Units given to the campaign.
    pub stock: u64,
    /// There is always enough of it, whatever `stock` is.
    pub unlimited: bool,
    /// There are as many units as codes are imported, whatever `stock` is.
    pub codes: bool,
    /// Units that are used already, and those that schedules are still to release and decks to deal
    /// in their first round.
    pub planned: u64,
    /// Cards in the first round of all decks that are dealt anew.
    pub per_round: u64,
}

/// How far stock brings a deck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeckPlan {
    /// The pool.
    pub pool: PoolNo,
    /// What stock pays for, if no other deck takes of it after its first round.
    pub rounds: Rounds,
    /// Another deck that is dealt anew takes units of the same stock.
    pub shares_stock: bool,
}

/// How far a deck is dealt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// The round, from 1.
    pub round: u64,
    /// Cards of this round that are not dealt.
    pub remaining: Vec<CardCount>,
}

/// The plan of one hour of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedHour {
    /// The pool.
    pub pool: PoolNo,
    /// The hour.
    pub window: Window,
    /// Units by prize; not empty.
    pub quantities: Quantities,
}

/// The plan of a campaign from the hour that begins at `from`, with at most `hours_max` hours.
/// `needed` is what it takes off stock in all, later rounds of decks aside; `dealt` has the decks
/// of which something may be dealt already.
pub fn plan_summary(
    campaign: &Campaign,
    needed: &Quantities,
    dealt: &BTreeMap<PoolNo, Dealt>,
    from: Moment,
    hours_max: usize,
) -> PlanSummary {
    let (hours, hours_omitted) = planned_hours(campaign, from, hours_max);
    PlanSummary {
        prizes: prize_plans(campaign, needed),
        hours,
        hours_omitted,
        decks: deck_plans(campaign, needed, dealt),
        personal: personal_plans(campaign, needed),
    }
}

fn personal_plans(campaign: &Campaign, needed: &Quantities) -> Vec<PersonalPlan> {
    let spare = |prize: PrizeNo| {
        let stock = campaign.prize(prize).stock;
        (prize, stock.saturating_sub(units(needed, prize)))
    };
    let limited = |personal: &Personal| -> BTreeSet<PrizeNo> {
        let is_limited = |prize: &PrizeNo| campaign.prize(*prize).has_fixed_stock();
        personal.prizes().filter(is_limited).collect()
    };
    let plan = |(pool, _, personal): (PoolNo, _, &Personal)| {
        let prizes = limited(personal);
        let stock: Quantities = prizes.iter().copied().map(spare).collect();
        let mut per_user = match &personal.kind {
            PersonalKind::Deck(deck) => deck.cards.clone(),
            PersonalKind::Odds(_) => Quantities::new(),
        };
        per_user.retain(|prize, cards| prizes.contains(prize) && *cards > 0);
        let users = per_user.iter().map(|(prize, cards)| stock[prize] / cards);
        let mut others = campaign.personal_pools().filter(|(no, ..)| *no != pool);
        PersonalPlan {
            pool,
            users: users.min().unwrap_or(0),
            shares_stock: others.any(|(_, _, other)| !limited(other).is_disjoint(&prizes)),
            stock,
            per_user,
        }
    };
    let plans = campaign.personal_pools().map(plan);
    plans.filter(|plan| !plan.stock.is_empty()).collect()
}

/// Units that the plan of a campaign of which nothing is used takes off stock from `from` on: those
/// of its schedules, and of the first round of its decks.
pub fn planned_units(campaign: &Campaign, from: Moment) -> Quantities {
    let mut planned = Quantities::new();
    for pool in &campaign.pools {
        match &pool.kind {
            PoolKind::Schedule(schedule) => {
                add(
                    &mut planned,
                    &schedule.sum(&campaign.zone, from, campaign.end),
                );
            }
            PoolKind::Deck(deck) => add(&mut planned, &deck.cards),
            // What users will draw is not planned.
            PoolKind::Personal(_) => {}
        }
    }
    planned
}

fn decks(campaign: &Campaign) -> impl Iterator<Item = (PoolNo, &Deck)> {
    let pools = campaign.numbered_pools();
    pools.filter_map(|(no, pool)| match &pool.kind {
        PoolKind::Deck(deck) => Some((no, deck)),
        PoolKind::Schedule(_) | PoolKind::Personal(_) => None,
    })
}

fn deck_plans(
    campaign: &Campaign,
    needed: &Quantities,
    dealt: &BTreeMap<PoolNo, Dealt>,
) -> Vec<DeckPlan> {
    let plan = |(pool, deck): (PoolNo, &Deck)| DeckPlan {
        pool,
        rounds: rounds(campaign, deck, needed, dealt.get(&pool)),
        shares_stock: shares_stock(campaign, pool, deck),
    };
    decks(campaign).map(plan).collect()
}

fn rounds(campaign: &Campaign, deck: &Deck, needed: &Quantities, dealt: Option<&Dealt>) -> Rounds {
    let first = deck.first_round();
    let (done, rest) = match dealt {
        Some(dealt) => (dealt.round - 1, &dealt.remaining),
        None => (0, &first),
    };
    // The rest of the first round is among what is needed.
    let own = rest.iter().filter(|_| done == 0);
    let own: Quantities = own
        .filter_map(|kind| Some((kind.prize?, kind.cards)))
        .collect();
    let spare = |prize: &PrizeNo| {
        let needed = units(needed, *prize).saturating_sub(units(&own, *prize));
        campaign.prize(*prize).stock.saturating_sub(needed)
    };
    let is_limited = |prize: &PrizeNo| campaign.prize(*prize).has_fixed_stock();
    let stock = deck.cards.keys().filter(|prize| is_limited(prize));
    let stock = stock.map(|prize| (*prize, spare(prize)));
    let later = deck.later_round(|prize| campaign.prize(prize).grand);
    // Cards of unlimited prizes end nothing; when codes run out is not known.
    let limited = |cards: &[CardCount]| -> Vec<CardCount> {
        let is_limited = |kind: &&CardCount| kind.prize.as_ref().is_none_or(is_limited);
        cards.iter().filter(is_limited).copied().collect()
    };
    whole_rounds(done, &limited(rest), &limited(&later), stock.collect())
}

fn shares_stock(campaign: &Campaign, pool: PoolNo, deck: &Deck) -> bool {
    let is_anew = |deck: &Deck| deck.on_exhausted == OnExhausted::Reshuffle;
    let others = decks(campaign).filter(|(no, other)| *no != pool && is_anew(other));
    let mut others = others.flat_map(|(_, other)| other.cards.keys());
    is_anew(deck) && others.any(|prize| deck.cards.contains_key(prize))
}

fn prize_plans(campaign: &Campaign, needed: &Quantities) -> Vec<PrizePlan> {
    let mut per_round = Quantities::new();
    for (_, deck) in decks(campaign) {
        if deck.on_exhausted == OnExhausted::Reshuffle {
            add(&mut per_round, &deck.cards);
        }
    }
    campaign
        .numbered_prizes()
        .map(|(no, prize)| PrizePlan {
            prize: no,
            stock: prize.stock,
            unlimited: prize.unlimited,
            codes: prize.codes,
            planned: units(needed, no),
            per_round: units(&per_round, no),
        })
        .collect()
}

fn units(quantities: &Quantities, prize: PrizeNo) -> u64 {
    quantities.get(&prize).copied().unwrap_or(0)
}

fn add(sums: &mut Quantities, more: &Quantities) {
    for (prize, units) in more {
        let sum = sums.entry(*prize).or_default();
        *sum = sum.saturating_add(*units);
    }
}

fn planned_hours(campaign: &Campaign, from: Moment, hours_max: usize) -> (Vec<PlannedHour>, u32) {
    let schedules: Vec<_> = campaign.schedules().collect();
    let mut hours = Vec::new();
    let mut hours_omitted = 0;
    if schedules.is_empty() {
        return (hours, hours_omitted);
    }
    let (zone, start, end) = (&campaign.zone, campaign.start, campaign.end);
    let windows: Vec<Window> = zone.windows(from, start, end).collect();
    for (pool, schedule) in schedules {
        let mut plans = BTreeMap::new();
        for window in &windows {
            let kind = schedule.kind_of(window);
            let plan: &Quantities = plans.entry(kind).or_insert_with(|| schedule.of_kind(kind));
            if plan.is_empty() {
                continue;
            }
            if hours.len() < hours_max {
                hours.push(PlannedHour {
                    pool,
                    window: *window,
                    quantities: plan.clone(),
                });
            } else {
                hours_omitted += 1;
            }
        }
    }
    (hours, hours_omitted)
}

#[cfg(test)]
mod tests {
    use super::super::{
        campaign::{Pool, Prize},
        deck::Deck,
        id::{CampaignId, PoolId, PrizeId},
        limits::DrawLimits,
        schedule::{Daily, Missed, Schedule, Unclaimed},
        zone::Zone,
    };
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::from_timestamp(text.parse().unwrap())
    }

    fn campaign() -> Campaign {
        let prize = |id: &str, stock| Prize {
            id: PrizeId::parse("id", id).unwrap(),
            name: String::new(),
            stock,
            unlimited: false,
            codes: false,
            per_user: None,
            grand: false,
            value: None,
            counts_as_win: true,
            attributes: BTreeMap::new(),
        };
        let pool = |id: &str, kind| Pool {
            id: PoolId::parse("id", id).unwrap(),
            unlock_after_draws: 0,
            lock_after_wins: None,
            unlock_after_draws_today: 0,
            segments: None,
            kind,
        };
        let deck = |on_exhausted| {
            PoolKind::Deck(Deck {
                size: 100,
                cards: [(PrizeNo(1), 7)].into(),
                on_exhausted,
                rounded_odds: BTreeMap::new(),
            })
        };
        let schedule = Schedule {
            total: [(PrizeNo(0), 1)].into(),
            per_hour: Quantities::new(),
            daily: vec![Daily {
                from_hour: 20,
                to_hour: 22,
                per_hour: [(PrizeNo(1), 50)].into(),
            }],
            special: Vec::new(),
            missed: Missed::Spread,
            unclaimed: Unclaimed::Keep,
        };
        Campaign {
            id: CampaignId::parse("id", "wheel").unwrap(),
            name: String::new(),
            zone: Zone::parse("Asia/Shanghai").unwrap(),
            start: at("2026-11-20T00:00+08:00"),
            end: at("2026-11-22T20:30+08:00"),
            limits: DrawLimits::default(),
            segment_limits: Vec::new(),
            consolation: None,
            prizes: vec![prize("car", 1), prize("coupon", 1000)],
            pools: vec![
                pool("stops", deck(OnExhausted::Stop)),
                pool("evenings", PoolKind::Schedule(schedule)),
                pool("again", deck(OnExhausted::Reshuffle)),
            ],
            budget: None,
            guarantees: Vec::new(),
            publish_hours: false,
            approval_required: false,
        }
    }

    fn summary(hours_max: usize) -> PlanSummary {
        let campaign = campaign();
        let needed = planned_units(&campaign, campaign.start);
        plan_summary(
            &campaign,
            &needed,
            &BTreeMap::new(),
            campaign.start,
            hours_max,
        )
    }

    #[test]
    fn hours_that_have_passed_do_not_count() {
        let (campaign, second_day) = (campaign(), at("2026-11-21T00:00+08:00"));
        let needed = planned_units(&campaign, second_day);
        assert_eq!(needed[&PrizeNo(1)], 3 * 50 + 2 * 7);
        let summary = plan_summary(&campaign, &needed, &BTreeMap::new(), second_day, 1000);
        assert_eq!(summary.prizes[1].planned, 3 * 50 + 2 * 7);
        assert_eq!(summary.hours[0].window.start, at("2026-11-21T20:00+08:00"));
    }

    #[test]
    fn a_summary_shows_what_each_prize_needs() {
        let summary = summary(1000);
        let needs = |prize: &PrizePlan| (prize.stock, prize.planned, prize.per_round);
        assert_eq!(needs(&summary.prizes[0]), (1, 1, 0));
        assert_eq!(needs(&summary.prizes[1]), (1000, 5 * 50 + 2 * 7, 7));
    }

    #[test]
    fn a_deck_goes_on_with_what_the_rest_of_the_plan_leaves() {
        let plans = summary(0).decks;
        let pools: Vec<u16> = plans.iter().map(|plan| plan.pool.0).collect();
        assert_eq!(pools, [0, 2]);
        assert_eq!((plans[0].rounds.whole, plans[0].shares_stock), (1, false));
        // 1,000 less 250 of the hours and 7 of the other deck is 743: 106 rounds and one unit.
        let coupon = PrizeNo(1);
        assert_eq!(
            plans[1].rounds,
            Rounds {
                whole: 106,
                lacking: [(coupon, 6)].into(),
                left_over: [(coupon, 1)].into(),
            }
        );
    }

    #[test]
    fn a_deck_that_was_dealt_goes_on_from_where_it_is() {
        let campaign = campaign();
        let dealt = |round, cards| Dealt {
            round,
            remaining: vec![CardCount {
                prize: Some(PrizeNo(1)),
                cards,
            }],
        };
        let whole = |needed: u64, dealt: Dealt| {
            let needed = [(PrizeNo(1), needed)].into();
            let dealt = [(PoolNo(2), dealt)].into();
            let summary = plan_summary(&campaign, &needed, &dealt, campaign.start, 0);
            summary.decks[1].rounds.whole
        };
        assert_eq!(
            whole(1000, dealt(1, 2)),
            1,
            "the rest is among what is needed"
        );
        assert_eq!(whole(1000, dealt(3, 2)), 2);
        assert_eq!(whole(998, dealt(3, 2)), 3);
        assert_eq!(whole(991, dealt(3, 2)), 4);
    }

    #[test]
    fn decks_that_are_dealt_anew_may_share_stock() {
        let mut campaign = campaign();
        campaign.pools.push(campaign.pools[2].clone());
        let needed = planned_units(&campaign, campaign.start);
        let summary = plan_summary(&campaign, &needed, &BTreeMap::new(), campaign.start, 0);
        let shares: Vec<bool> = summary.decks.iter().map(|plan| plan.shares_stock).collect();
        assert_eq!(shares, [false, true, true]);
    }

    #[test]
    fn hours_beyond_the_most_are_counted() {
        let all = summary(1000);
        assert_eq!((all.hours.len(), all.hours_omitted), (5, 0));
        assert_eq!(all.hours[0].window.start, at("2026-11-20T20:00+08:00"));
        assert_eq!(all.hours[4].window.end, at("2026-11-22T20:30+08:00"));
        let some = summary(2);
        assert_eq!(some.hours, all.hours[..2]);
        assert_eq!(some.hours_omitted, 3);
        assert_eq!(some.prizes, all.prizes);
    }
}
