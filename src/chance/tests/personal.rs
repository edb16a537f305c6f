//! What each user gets alone: golden vectors, and the odds by chi-square over users and positions.

use std::sync::LazyLock;

use super::chi_square::assert_fits;
use crate::{
    chance::{Seed, UserChance},
    model::{
        Campaign, PoolKind, PoolNo, PrizeNo,
        convert::campaign_from_proto,
        file,
        personal::{Personal, PersonalKind, PersonalOdds, PoolProgress, odds},
    },
};

const POOL: PoolNo = PoolNo(0);
const SOLO: PoolNo = PoolNo(1);
const DECK: PoolNo = PoolNo(2);
/// Without guarantees.
const PLAIN: PoolNo = PoolNo(3);
/// Of the first pool and the last one.
const OUTCOMES: [Option<PrizeNo>; 4] = [Some(PrizeNo(0)), Some(PrizeNo(1)), Some(PrizeNo(2)), None];

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
  - id: plain
    personal: {odds: {hero: 1%, star: 2%, card: 10%}}
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
    // At first draws nothing is counted yet: these are the base odds, over users. A 50/50 gives
    // either star as often, as the odds do.
    let base = odds::base(odds_of(POOL).1);
    let firsts = (0..20_000).flat_map(|number| draws(&user(number), POOL, 1));
    assert_fits(&counted(firsts), &OUTCOMES.map(|outcome| base[&outcome]));
    // Without guarantees the draws of one user are independent.
    let base = odds::base(odds_of(PLAIN).1);
    let of_one = draws(&user(7), PLAIN, 20_000);
    assert_fits(&counted(of_one), &OUTCOMES.map(|outcome| base[&outcome]));
}

#[test]
fn long_runs_have_the_published_effective_odds() {
    let (personal, written) = odds_of(POOL);
    let effective = odds::effective(personal, written).unwrap();
    let (users, each) = (100_u64, 1_000);
    let of_user = |number| draws(&user(1_000_000 + number), POOL, each);
    let seen = counted((0..users).flat_map(of_user));
    let all = users as f64 * each as f64;
    for (outcome, seen) in OUTCOMES.iter().zip(seen) {
        let seen = seen as f64 / all;
        // Draws of one user depend on each other, which makes the spread smaller than a coin's.
        let share = effective[outcome];
        let spread = (share * (1.0 - share) / all).sqrt();
        assert!(
            (seen - share).abs() < 4.0 * spread,
            "{outcome:?}: {seen}, {share}"
        );
    }
}

/// How often each outcome is there.
fn counted(prizes: impl IntoIterator<Item = Option<u16>>) -> [u64; 4] {
    let mut seen = [0; 4];
    for prize in prizes {
        let is_it = |outcome: &Option<PrizeNo>| outcome.map(|it| it.0) == prize;
        seen[OUTCOMES.iter().position(is_it).unwrap()] += 1;
    }
    seen
}

fn odds_of(pool: PoolNo) -> (&'static Personal, &'static PersonalOdds) {
    match &GACHA.pool(pool).kind {
        PoolKind::Personal(personal) => match &personal.kind {
            PersonalKind::Odds(odds) => (personal, odds),
            PersonalKind::Deck(_) => panic!("a deck"),
        },
        _ => panic!("no personal pool"),
    }
}

#[test]
fn draws_until_the_prize_of_a_guarantee_have_their_distribution() {
    // 0.6% at first, from draw 74 on 6 points more each, within 90.
    let mut seen = [0_u64; 90];
    for number in 0..3_000 {
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
    // The published odds are those of this distribution.
    let mean: f64 = (1..).zip(&weights).map(|(n, it)| f64::from(n) * it).sum();
    let (personal, written) = odds_of(SOLO);
    let share = odds::effective(personal, written).unwrap()[&Some(PrizeNo(0))];
    assert!((share * mean - 1.0).abs() < 1e-9, "{share}, {mean}");
    // Beyond draw 80 hardly anybody is left: one cell.
    let last: u64 = seen[80..].iter().sum();
    let seen = [&seen[..80], &[last]].concat();
    let last: f64 = weights[80..].iter().sum();
    assert_fits(&seen, &[&weights[..80], &[last]].concat());
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
    let firsts: Vec<_> = (0..500)
        .map(|number| draws(&user(number), DECK, 1)[0])
        .collect();
    let count = |prize| firsts.iter().filter(|card| **card == prize).count() as u64;
    assert_fits(
        &[count(Some(3)), count(Some(2)), count(None)],
        &[1.0, 3.0, 6.0],
    );
}

/// By a program that uses nothing of Tombola, from the rules in docs/verification.md.
const GOLDEN_ODDS: &str = "--2------2---2---------2-------2-----22---------2--\
    -------2---------2------0------0----2---------1--";
/// Three rounds of ten, by the same program.
const GOLDEN_DECK: &str = "-3-22-2---2-2--2-----22-----2-";
