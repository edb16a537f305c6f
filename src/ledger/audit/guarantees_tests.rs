//! A guarantee of a campaign that was not kept, or that was not due, is found, without a seed.

use std::sync::LazyLock;

use super::{
    tests::{begun_as, entry},
    *,
};
use crate::{
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

const MUG: PrizeNo = PrizeNo(0);
const PIN: PrizeNo = PrizeNo(1);

/// A mug at every third draw at the latest, and when the two mugs are gone a pin.
static WHEEL: LazyLock<Campaign> = LazyLock::new(|| {
    let file = "
id: spring-wheel
timeZone: Asia/Shanghai
startTime: 2026-11-20T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
prizes:
  - {id: mug, stock: 2}
  - {id: pin, unlimited: true}
guarantees: [{id: third, prizes: [mug, pin], within: 3}]
pools: [{id: later, unlockAfterDraws: 1000, schedule: {total: {mug: 1}}}]
";
    campaign_from_proto(&file::parse(file).unwrap()[0]).unwrap()
});

fn given(prize: PrizeNo, number: u64) -> DrawResult {
    DrawResult::Won {
        prize,
        pool: PoolNo::GUARANTEES,
        unit: Unit {
            window: 0,
            fork: 0,
            number,
        },
        release: None,
        code: None,
        guarantee: Some(0),
    }
}

const NOTHING: DrawResult = DrawResult::NotWon {
    consolation: false,
    cause: Cause::NothingDue,
};

/// Nine draws of a user as a store makes them.
fn nine() -> Vec<DrawResult> {
    let three = |prize, number| [NOTHING, NOTHING, given(prize, number)];
    [three(MUG, 0), three(MUG, 1), three(PIN, 2)].concat()
}

/// What is found in draws with these results: one draw an entry, with the counts that follow.
fn found(results: &[DrawResult]) -> Vec<(Check, Option<u64>)> {
    let mut record = UserRecord::default();
    let draws = (0..).zip(results).map(|(number, result): (u64, _)| {
        record.draws += 1;
        record.free_today += 1;
        record.wins += u64::from(result.prize().is_some());
        let before = record.progress.of(PoolNo::GUARANTEES);
        let after = before.counting(&WHEEL.guarantees, result.prize());
        record.progress.0.insert(PoolNo::GUARANTEES, after);
        Body::Draw(DrawEntry {
            version: 1,
            user: UserId::parse("user", "ann").unwrap(),
            request: RequestId::parse("request", &number.to_string()).unwrap(),
            funding: Funding::Free,
            payment_ref: String::new(),
            consolation_only: false,
            results: vec![*result],
            segments: Vec::new(),
            counts: record.counts(),
        })
    });
    let begun = begun_as(&WHEEL).into_iter().take(1);
    let mut audit = Audit::default();
    for (sequence, body) in (1..).zip(begun.chain(draws)) {
        audit.take(&entry(sequence, body));
    }
    let outcome = audit.finish().unwrap();
    assert!(
        outcome
            .campaigns
            .values()
            .all(|it| it.unknown_chance() == 0)
    );
    let findings = outcome.findings.shown();
    findings.map(|it| (it.check, it.sequence)).collect()
}

/// The same after the result of this index is another one. The first entry is the version's.
fn found_with(index: usize, result: DrawResult) -> Vec<(Check, Option<u64>)> {
    let mut results = nine();
    results[index] = result;
    found(&results)
}

#[test]
fn promises_that_are_kept_are_sound() {
    assert_eq!(found(&nine()), []);
}

#[test]
fn a_promise_that_is_not_kept_is_found() {
    // The last draw is due and gives nothing.
    assert_eq!(found_with(8, NOTHING), [(Check::Chance, Some(10))]);
    // The second mug was in stock, and is the first prize.
    assert_eq!(
        found_with(5, given(PIN, 1)),
        [(Check::Chance, Some(7)), (Check::Chance, Some(10))]
    );
}

#[test]
fn what_no_guarantee_owes_is_found() {
    let mut results = nine();
    results[7] = given(PIN, 2);
    results[8] = NOTHING;
    assert_eq!(found(&results), [(Check::Chance, Some(9))]);
}

#[test]
fn more_than_there_is_in_stock_is_found() {
    let expected = [(Check::Sums, Some(10)), (Check::Chance, Some(10))];
    assert_eq!(found_with(8, given(MUG, 2)), expected);
}

#[test]
fn a_unit_that_is_given_twice_is_found() {
    let found = found_with(8, given(PIN, 1));
    assert_eq!(found, [(Check::Units, Some(10))]);
}
