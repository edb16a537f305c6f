//! What a campaign needs, and when: what `dry_run` shows.

use std::collections::BTreeMap;

use super::{
    campaign::{Campaign, PoolKind, PoolNo, PrizeNo, Quantities},
    deck::OnExhausted,
    moment::Moment,
    schedule::Schedule,
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
}

/// What a prize needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrizePlan {
    /// The prize.
    pub prize: PrizeNo,
    /// Units given to the campaign.
    pub stock: u64,
    /// Units that are used already, and those that schedules are still to release and decks that
    /// stop to deal.
    pub planned: u64,
    /// Cards in the first round of all decks that are dealt anew.
    pub per_round: u64,
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

/// The plan of a campaign from the hour that begins at `from`, with at most `hours_max` hours;
/// `needed` is what it takes off stock in all, decks that are dealt anew aside.
pub fn plan_summary(
    campaign: &Campaign,
    needed: &Quantities,
    from: Moment,
    hours_max: usize,
) -> PlanSummary {
    let (hours, hours_omitted) = planned_hours(campaign, from, hours_max);
    PlanSummary {
        prizes: prize_plans(campaign, needed),
        hours,
        hours_omitted,
    }
}

/// Units that the plan of a campaign of which nothing is used takes off stock from `from` on: those
/// of its schedules, and of decks that stop.
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
            PoolKind::Deck(deck) if deck.on_exhausted == OnExhausted::Stop => {
                add(&mut planned, &deck.cards);
            }
            PoolKind::Deck(_) => {}
        }
    }
    planned
}

fn prize_plans(campaign: &Campaign, needed: &Quantities) -> Vec<PrizePlan> {
    let mut per_round = Quantities::new();
    for pool in &campaign.pools {
        if let PoolKind::Deck(deck) = &pool.kind
            && deck.on_exhausted == OnExhausted::Reshuffle
        {
            add(&mut per_round, &deck.cards);
        }
    }
    let units = |sums: &Quantities, prize| sums.get(&prize).copied().unwrap_or(0);
    campaign
        .numbered_prizes()
        .map(|(no, prize)| PrizePlan {
            prize: no,
            stock: prize.stock,
            planned: units(needed, no),
            per_round: units(&per_round, no),
        })
        .collect()
}

fn add(sums: &mut Quantities, more: &Quantities) {
    for (prize, units) in more {
        let sum = sums.entry(*prize).or_default();
        *sum = sum.saturating_add(*units);
    }
}

fn planned_hours(campaign: &Campaign, from: Moment, hours_max: usize) -> (Vec<PlannedHour>, u32) {
    let schedules: Vec<(PoolNo, &Schedule)> = campaign
        .numbered_pools()
        .filter_map(|(no, pool)| match &pool.kind {
            PoolKind::Schedule(schedule) => Some((no, schedule)),
            PoolKind::Deck(_) => None,
        })
        .collect();
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
        schedule::{Daily, Missed, Unclaimed},
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
            grand: false,
            value: None,
            counts_as_win: true,
            attributes: BTreeMap::new(),
        };
        let pool = |id: &str, kind| Pool {
            id: PoolId::parse("id", id).unwrap(),
            unlock_after_draws: 0,
            kind,
        };
        let deck = |on_exhausted| {
            PoolKind::Deck(Deck {
                size: 100,
                cards: [(PrizeNo(1), 7)].into(),
                on_exhausted,
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
            consolation: None,
            prizes: vec![prize("car", 1), prize("coupon", 1000)],
            pools: vec![
                pool("stops", deck(OnExhausted::Stop)),
                pool("evenings", PoolKind::Schedule(schedule)),
                pool("again", deck(OnExhausted::Reshuffle)),
            ],
            publish_hours: false,
        }
    }

    fn summary(hours_max: usize) -> PlanSummary {
        let campaign = campaign();
        let needed = planned_units(&campaign, campaign.start);
        plan_summary(&campaign, &needed, campaign.start, hours_max)
    }

    #[test]
    fn hours_that_have_passed_do_not_count() {
        let (campaign, second_day) = (campaign(), at("2026-11-21T00:00+08:00"));
        let needed = planned_units(&campaign, second_day);
        assert_eq!(needed[&PrizeNo(1)], 3 * 50 + 7);
        let summary = plan_summary(&campaign, &needed, second_day, 1000);
        assert_eq!(summary.prizes[1].planned, 3 * 50 + 7);
        assert_eq!(summary.hours[0].window.start, at("2026-11-21T20:00+08:00"));
    }

    #[test]
    fn a_summary_tells_what_each_prize_needs() {
        let summary = summary(1000);
        let needs = |prize: &PrizePlan| (prize.stock, prize.planned, prize.per_round);
        assert_eq!(needs(&summary.prizes[0]), (1, 1, 0));
        assert_eq!(needs(&summary.prizes[1]), (1000, 5 * 50 + 7, 7));
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
