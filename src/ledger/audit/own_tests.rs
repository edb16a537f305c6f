//! A result of a personal pool that does not follow from the seed is found.

use std::sync::LazyLock;

use super::{
    tests::{begun_as, entry, now, spring},
    *,
};
use crate::{
    chance::UserChance,
    model::{
        PoolNo, PrizeNo, RequestId, UserId,
        convert::campaign_from_proto,
        file,
        limits::{Funding, UserRecord},
    },
    store::{
        Cause, DrawResult, Unit,
        entry::{Body, DrawEntry},
    },
};

const POOL: PoolNo = PoolNo(0);
const MUG: PrizeNo = PrizeNo(1);
const PIN: PrizeNo = PrizeNo(2);

/// A star at every fifth draw at the latest; two mugs, then pins in their place.
static GACHA: LazyLock<Campaign> = LazyLock::new(|| {
    let file = "
id: spring-wheel
timeZone: Asia/Shanghai
startTime: 2026-11-20T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
prizes:
  - {id: star, unlimited: true}
  - {id: mug, stock: 2}
  - {id: pin, unlimited: true}
pools:
  - id: own
    personal:
      odds: {star: 5%, mug: 30%}
      fallback: pin
      guarantees: [{id: fifth, prizes: [star], within: 5}]
";
    campaign_from_proto(&file::parse(file).unwrap()[0]).unwrap()
});

fn seed() -> Seed {
    Seed::from_bytes([5; 32])
}

/// A user's first draws, one an entry, as a store makes them.
fn drawn(count: usize) -> Vec<DrawEntry> {
    let user = UserId::parse("user", &"ab".repeat(32)).unwrap();
    let chance = UserChance::new(seed(), user.to_string());
    let mut record = UserRecord::default();
    let (mut mugs, mut units) = (2, 0);
    let draws = (0..count).map(|number| {
        let draw = chance.draw(&GACHA, POOL, &record.progress.of(POOL), |_| false);
        let draw = draw.unwrap();
        record.progress.0.insert(POOL, draw.after);
        record.draws += 1;
        record.free_today += 1;
        let prize = draw.prize.map(|prize| match prize {
            MUG if mugs == 0 => PIN,
            prize => prize,
        });
        mugs -= u32::from(prize == Some(MUG));
        record.wins += u64::from(prize.is_some());
        let number = number as u64;
        let result = match prize {
            None => blank(number),
            Some(prize) => {
                units += 1;
                let guarantee = draw.guarantee.map(|index| index as u16);
                won(prize, units - 1, guarantee)
            }
        };
        DrawEntry {
            version: 1,
            user: user.clone(),
            request: RequestId::parse("request", &number.to_string()).unwrap(),
            funding: Funding::Free,
            payment_ref: String::new(),
            consolation_only: false,
            results: vec![result],
            segments: Vec::new(),
            counts: record.counts(),
        }
    });
    draws.collect()
}

fn unit(number: u64) -> Unit {
    Unit {
        window: 0,
        fork: 0,
        number,
    }
}

fn blank(number: u64) -> DrawResult {
    DrawResult::NotWon {
        consolation: false,
        cause: Cause::Blank {
            pool: POOL,
            unit: unit(number),
        },
    }
}

fn won(prize: PrizeNo, number: u64, guarantee: Option<u16>) -> DrawResult {
    DrawResult::Won {
        prize,
        pool: POOL,
        unit: unit(number),
        release: None,
        code: None,
        guarantee,
    }
}

/// The outcome of an audit of these draws, with a seed that the campaign is bound to or not.
fn audited(draws: Vec<DrawEntry>, seed: Option<Seed>, bound: &Seed) -> Outcome {
    let mut audit =
        Audit::default().with_seeds(seed.map(|seed| (spring(), seed)).into_iter().collect());
    let Some(Body::Applied(mut applied)) = begun_as(&GACHA).into_iter().next() else {
        panic!("a version comes first");
    };
    applied.commitment = bound.commitment();
    let bodies = [Body::Applied(applied)]
        .into_iter()
        .chain(draws.into_iter().map(Body::Draw));
    for (sequence, body) in (1..).zip(bodies) {
        audit.take(&entry(sequence, body));
    }
    audit.finish().unwrap()
}

/// What is found after a draw was changed.
fn found_after(change: impl FnOnce(&mut Vec<DrawEntry>)) -> Vec<(Check, Option<u64>)> {
    let mut draws = drawn(40);
    change(&mut draws);
    let outcome = audited(draws, Some(seed()), &seed());
    let findings = outcome.findings.shown();
    findings.map(|it| (it.check, it.sequence)).collect()
}

/// The index of the first draw with such a result.
fn first(is_it: impl Fn(&DrawResult) -> bool) -> usize {
    let draws = drawn(40);
    draws
        .iter()
        .position(|draw| is_it(&draw.results[0]))
        .unwrap()
}

fn is_won(result: &DrawResult, wanted: PrizeNo) -> bool {
    matches!(result, DrawResult::Won { prize, .. } if *prize == wanted)
}

#[test]
fn draws_that_follow_from_the_seed_are_not_blamed() {
    assert_eq!(now(), entry(1, Body::Closed {}).at);
    assert_eq!(found_after(|_| ()), []);
    let outcome = audited(drawn(40), Some(seed()), &seed());
    assert_eq!(outcome.campaigns[&spring()].unknown_chance(), 0);
}

#[test]
fn a_win_in_place_of_nothing_is_found() {
    let index = first(|result| matches!(result, DrawResult::NotWon { .. }));
    let found = found_after(|draws| draws[index].results[0] = won(PIN, 1_000, None));
    let at = Some(index as u64 + 2);
    assert!(found.contains(&(Check::Chance, at)), "{found:?}");
}

#[test]
fn nothing_in_place_of_a_win_is_found() {
    let index = first(|result| is_won(result, PrizeNo(0)));
    let found = found_after(|draws| draws[index].results[0] = blank(index as u64));
    let at = Some(index as u64 + 2);
    assert!(found.contains(&(Check::Chance, at)), "{found:?}");
}

#[test]
fn a_fallback_while_the_prize_is_in_stock_is_found() {
    let index = first(|result| is_won(result, MUG));
    let found = found_after(|draws| {
        if let DrawResult::Won { prize, .. } = &mut draws[index].results[0] {
            *prize = PIN;
        }
    });
    let at = Some(index as u64 + 2);
    assert!(found.contains(&(Check::Chance, at)), "{found:?}");
}

#[test]
fn a_guarantee_that_did_not_give_a_prize_is_found() {
    let index = first(|result| {
        matches!(
            result,
            DrawResult::Won {
                guarantee: Some(_),
                ..
            }
        )
    });
    let found = found_after(|draws| {
        if let DrawResult::Won { guarantee, .. } = &mut draws[index].results[0] {
            *guarantee = None;
        }
    });
    assert_eq!(found, [(Check::Chance, Some(index as u64 + 2))]);
}

#[test]
fn a_position_that_is_passed_over_is_found() {
    let index = first(|result| matches!(result, DrawResult::NotWon { .. }));
    let found = found_after(|draws| draws[index].results[0] = blank(index as u64 + 1));
    assert_eq!(found, [(Check::Chance, Some(index as u64 + 2))]);
}

#[test]
fn progress_that_does_not_follow_is_found() {
    let found = found_after(|draws| {
        let progress = draws[7].counts.progress.0.get_mut(&POOL).unwrap();
        progress.counters.clear();
        progress.position += 1;
    });
    assert!(found.contains(&(Check::Limits, Some(9))), "{found:?}");
    assert!(
        found.iter().any(|(check, _)| *check == Check::Chance),
        "{found:?}"
    );
}

#[test]
fn without_the_seed_positions_and_counters_are_checked_alone() {
    let outcome = audited(drawn(40), None, &seed());
    assert_eq!(outcome.findings.shown().count(), 0);
    assert_eq!(outcome.campaigns[&spring()].unknown_chance(), 40);
    let mut forged = drawn(40);
    forged[7].counts.progress.0.clear();
    let outcome = audited(forged, None, &seed());
    assert_eq!(
        outcome.findings.count(Check::Limits),
        2,
        "there, and at the next"
    );
}

#[test]
fn a_seed_that_does_not_fit_the_commitment_is_found() {
    let other = Seed::from_bytes([6; 32]);
    let outcome = audited(drawn(40), Some(other), &seed());
    assert_eq!(outcome.findings.count(Check::Chance), 1);
    assert_eq!(outcome.campaigns[&spring()].unknown_chance(), 40);
}
