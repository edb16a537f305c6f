//! What a plan needs of a campaign that is new, or has begun.

use std::time::Duration;

use super::*;
use crate::{
    model::{convert::unstocked_from_proto, deck::CardCount, file},
    store::fill::{DeckFilling, LiveWindow, TotalsBase},
};

const COUPON: PrizeNo = PrizeNo(0);
const CAR: PrizeNo = PrizeNo(1);

/// Ten days, or ten times 24 hours, in UTC.
fn campaign(stock: u64, pools: &str) -> Campaign {
    let text = format!(
        "
id: wheel
timeZone: UTC
startTime: 2026-11-20T00:00:00Z
endTime: 2026-11-30T00:00:00Z
prizes: [{{id: coupon, stock: {stock}}}, {{id: car, stock: 1}}]
pools: [{pools}]
"
    );
    unstocked_from_proto(&file::parse(&text).unwrap()[0]).unwrap()
}

fn hourly(plan: &str) -> String {
    format!("{{id: hours, schedule: {{{plan}}}}}")
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3600)
}

/// A schedule that was filled for this many hours.
fn filled(campaign: &Campaign, count: u64) -> ScheduleFilling {
    ScheduleFilling {
        horizon: campaign.start + hours(count),
        oldest: None,
        totals: TotalsBase {
            revision: 1,
            from: campaign.start,
            remaining: Quantities::new(),
        },
        carry: Quantities::new(),
        open: Vec::new(),
        recalling: Vec::new(),
        live: Vec::new(),
    }
}

fn units(campaign: &Campaign, before: &Campaign, filled: &ScheduleFilling) -> Quantities {
    let PoolKind::Schedule(schedule) = &campaign.pools[0].kind else {
        panic!("a schedule");
    };
    let from = first_unfilled(campaign, schedule, filled, filled.horizon);
    of_begun(campaign, before, (PoolNo(0), schedule, from), filled, None)
}

#[test]
fn a_new_campaign_needs_the_hours_from_the_one_that_runs() {
    let late = campaign(120, &hourly("perHour: {coupon: 1}"));
    let half = late.start + hours(120);
    assert!(problems(&late, None, half + Duration::from_secs(60)).is_ok());
    let refused = problems(&late, None, half - hours(1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "prizes[0].stock: stock 121 needed, 120 given: for coupon, 121 in the hours of pool hours \
         from 2026-11-24T23:00+00:00 to 2026-11-30T00:00+00:00; give 1 more, or plan less"
    );
    let refused = problems(&late, None, late.start - hours(9)).unwrap_err();
    assert!(
        refused.to_string().contains("stock 240 needed"),
        "{refused}"
    );
}

#[test]
fn only_hours_that_are_not_filled_follow_the_new_plan() {
    let before = campaign(360, &hourly("perHour: {coupon: 1}"));
    let after = campaign(360, &hourly("perHour: {coupon: 2}"));
    let coming = units(&after, &before, &filled(&before, 120));
    assert_eq!(coming, Quantities::from([(COUPON, 240)]));
    let special =
        "special: [{from: '2026-11-28T00:00', to: '2026-11-30T00:00', perHour: {coupon: 9}}]";
    let after = campaign(480, &hourly(&format!("perHour: {{coupon: 0}}, {special}")));
    let coming = units(&after, &before, &filled(&before, 192));
    assert_eq!(coming, Quantities::from([(COUPON, 432)]));
}

#[test]
fn a_live_hour_is_topped_up_and_missed_ones_are_made_up_for() {
    let before = campaign(360, &hourly("perHour: {coupon: 3}"));
    let mut filled = filled(&before, 239);
    filled.carry.insert(COUPON, 7);
    filled.live.push(LiveWindow {
        start: before.start + hours(238),
        end: filled.horizon,
        version: 1,
        recalled: false,
        planned: [(COUPON, 3)].into(),
        carried: [(COUPON, 1)].into(),
        injected: [(COUPON, 4)].into(),
    });
    let more = campaign(360, &hourly("perHour: {coupon: 5}"));
    assert_eq!(units(&more, &before, &filled)[&COUPON], 5 + 7 + 2);
    let less = campaign(360, &hourly("perHour: {coupon: 1}"));
    assert_eq!(units(&less, &before, &filled)[&COUPON], 1 + 7);
    filled.live[0].injected.clear();
    let same = units(&before, &before, &filled)[&COUPON];
    assert_eq!(same, 3 + 7, "a recalled hour of the same plan stays empty");
}

#[test]
fn totals_need_what_is_not_in_an_hour_yet() {
    let before = campaign(1, &hourly("total: {car: 1}"));
    let after = campaign(1, &hourly("total: {car: 3}"));
    let mut filled = filled(&before, 24);
    filled.totals.remaining.insert(CAR, 1);
    let shared = Shared {
        planned: [(CAR, 1)].into(),
        placed: [(CAR, 1)].into(),
    };
    let needs = |campaign: &Campaign| {
        let PoolKind::Schedule(schedule) = &campaign.pools[0].kind else {
            panic!("a schedule");
        };
        let from = first_unfilled(campaign, schedule, &filled, filled.horizon);
        let plan = (PoolNo(0), schedule, from);
        of_begun(campaign, &before, plan, &filled, Some(&shared))[&CAR]
    };
    assert_eq!((needs(&before), needs(&after)), (0, 2));
}

#[test]
fn a_deck_of_cards_is_what_a_new_pool_needs() {
    let deck = "{id: deck, deck: {size: 100, cards: {coupon: 9}, onExhausted: RESHUFFLE}}";
    let campaign = campaign(9, deck);
    assert_eq!(coming(&campaign, None, campaign.start)[0].units[&COUPON], 9);
    assert_eq!(needed(&campaign, None, campaign.start)[&COUPON], 9);
    let dealt = DeckFilling {
        round: 1,
        chunk: 1,
        remaining: vec![CardCount {
            prize: Some(COUPON),
            cards: 4,
        }],
        available: 5,
        stopped: None,
        lacking: Quantities::new(),
        fork: 0,
    };
    assert_eq!(of_deck(&dealt)[&COUPON], 4);
    assert!(of_deck(&DeckFilling { round: 2, ..dealt }).is_empty());
}
