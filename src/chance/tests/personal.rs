//! What each user gets alone: golden vectors, and the odds by chi-square over users and positions.

use std::{collections::BTreeMap, sync::LazyLock};

use super::chi_square::assert_fits;
use crate::{
    chance::{Seed, UserChance},
    model::{
        Campaign, PoolKind, PoolNo, PrizeNo,
        convert::campaign_from_proto,
        file,
        personal::{PersonalKind, PoolProgress, odds},
    },
};

const POOL: PoolNo = PoolNo(0);
const SOLO: PoolNo = PoolNo(1);
const DECK: PoolNo = PoolNo(2);

/// Soft pity and 50/50, with a guarantee of a lower rank; and a deck.
static GACHA: LazyLock<Campaign> = LazyLock::new(|| {
    let file = "
id: gacha
timeZone: Europe/Berlin
startTime: 2026-11-20T00:00:00+01:00
endTime: 2026-12-20T00:00:00+01:00
prizes:
  - {id: hero, unlimited: true}
  - {id: star, unlimited: true}
  - {id: card, unlimited: true}
  - {id: coin, unlimited: true, grand: true}
pools:
  - id: banner
    personal:
      odds: {hero: 0.3%, star: 0.3%, card: 5.1%}
      guarantees:
        - {id: five, prizes: [hero, star], within: 90, ramp: [{from: 74, add: 6%}], among: [hero]}
        - {id: four, prizes: [hero, star, card], within: 10}
  - id: solo
    personal:
      odds: {hero: 0.6%}
      guarantees: [{id: solo, prizes: [hero], within: 90, ramp: [{from: 74, add: 6%}]}]
  - id: box
    personal: {deck: {size: 10, cards: {coin: 1, card: 3}, onExhausted: RESHUFFLE}}
";
    campaign_from_proto(&file::parse(file).unwrap()[0]).unwrap()
});

fn user(number: u64) -> UserChance {
    let seed = Seed::from_bytes(std::array::from_fn(|i| i as u8));
    UserChance::new(seed, format!("{number:064x}"))
}

/// The prizes of a user's first draws.
fn draws(user: &UserChance, pool: PoolNo, count: usize) -> Vec<Option<u16>> {
    let mut progress = PoolProgress::default();
    let draws = (0..count).map(|_| {
        let draw = user.draw(&GACHA, pool, &progress, |_| false).unwrap();
        progress = draw.after;
        draw.prize.map(|prize| prize.0)
    });
    draws.collect()
}

#[test]
fn draws_by_seed_pool_user_and_position() {
    let shown = |draws: Vec<Option<u16>>| -> String {
        let prize = |prize: Option<u16>| prize.map_or('-', |prize| char::from(b'0' + prize as u8));
        draws.into_iter().map(prize).collect()
    };
    assert_eq!(shown(draws(&user(1), POOL, 100)), GOLDEN_ODDS);
    assert_eq!(shown(draws(&user(1), DECK, 30)), GOLDEN_DECK);
}

#[test]
fn shares_over_users_and_over_positions_are_the_published_odds() {
    let PoolKind::Personal(personal) = &GACHA.pool(POOL).kind else {
        panic!("a personal pool");
    };
    let PersonalKind::Odds(written) = &personal.kind else {
        panic!("with odds");
    };
    let outcomes = [Some(PrizeNo(0)), Some(PrizeNo(1)), Some(PrizeNo(2)), None];
    // At first draws nothing is counted yet: these are the base odds, over users.
    let base = odds::base(written);
    let weights = outcomes.map(|outcome| base[&outcome]);
    let mut seen = [0; 4];
    for number in 0..20_000 {
        let prize = draws(&user(number), POOL, 1)[0];
        let index = outcomes.iter().position(|it| it.map(|it| it.0) == prize);
        seen[index.unwrap()] += 1;
    }
    // A 50/50 gives either star as often, as the base odds do.
    assert_fits(&seen, &weights);

    let effective = odds::effective(personal, written).unwrap();
    let mut found = BTreeMap::<Option<u16>, u64>::new();
    let (users, each) = (200, 3_000);
    for number in 0..users {
        for prize in draws(&user(1_000_000 + number), POOL, each) {
            *found.entry(prize).or_default() += 1;
        }
    }
    for outcome in outcomes {
        let seen = found[&outcome.map(|it| it.0)] as f64 / (users as f64 * each as f64);
        // Draws of one user depend on each other, which makes the spread smaller than a coin's.
        let share = effective[&outcome];
        let spread = (share * (1.0 - share) / (users as f64 * each as f64)).sqrt();
        assert!((seen - share).abs() < 4.0 * spread, "{outcome:?}: {seen}, {share}");
    }
}

#[test]
fn draws_until_the_prize_of_a_guarantee_have_their_distribution() {
    // 0.6% at first, from draw 74 on 6 points more each, within 90.
    let mut seen = [0_u64; 90];
    for number in 0..30_000 {
        let draws = draws_until(&user(number), SOLO, 0);
        seen[draws - 1] += 1;
    }
    let (mut without, mut weights) = (1.0, Vec::new());
    for draw in 1..=90_u32 {
        let chance = match draw {
            90 => 1.0,
            _ => f64::min(0.006 + 0.06 * f64::from(draw.saturating_sub(73)), 1.0),
        };
        weights.push(without * chance);
        without *= 1.0 - chance;
    }
    // Beyond draw 84 hardly anybody is left: one cell.
    let last: u64 = seen[84..].iter().sum();
    let seen = [&seen[..84], &[last]].concat();
    let last: f64 = weights[84..].iter().sum();
    assert_fits(&seen, &[&weights[..84], &[last]].concat());
}

/// How many draws a user needs for a first unit of a prize.
fn draws_until(user: &UserChance, pool: PoolNo, prize: u16) -> usize {
    let mut progress = PoolProgress::default();
    for number in 1..=90 {
        let draw = user.draw(&GACHA, pool, &progress, |_| false).unwrap();
        if draw.prize == Some(PrizeNo(prize)) {
            return number;
        }
        progress = draw.after;
    }
    panic!("the guarantee was not kept");
}

#[test]
fn each_round_of_a_users_deck_is_exact() {
    for number in 0..500 {
        let draws = draws(&user(number), DECK, 40);
        for (round, cards) in draws.chunks(10).enumerate() {
            let count = |prize| cards.iter().filter(|card| **card == Some(prize)).count();
            // The grand coin is in the first round alone; its share goes to the others.
            let (coins, at_least) = if round == 0 { (1, 3) } else { (0, 3) };
            assert_eq!(count(3), coins, "user {number}, round {round}");
            assert!(count(2) >= at_least);
        }
    }
    let firsts: Vec<_> = (0..500).map(|number| draws(&user(number), DECK, 1)[0]).collect();
    let count = |prize| firsts.iter().filter(|card| **card == prize).count() as u64;
    assert_fits(&[count(Some(3)), count(Some(2)), count(None)], &[1.0, 3.0, 6.0]);
}

const GOLDEN_ODDS: &str = "";
const GOLDEN_DECK: &str = "";
