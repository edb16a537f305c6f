//! Imports of codes: each code once, in order, resumable.

use tombola::{
    injector::ImportedCodes,
    model::code::CODES_MAX,
    store::{Operation, Refusal, StoreError},
};

use super::codes::{COUPONS, codes, texts};
use crate::support::{Answer as _, DrawWords as _, World, all_of, draw};

promises![
    an_import_is_resumed_where_it_stopped,
    an_import_sent_again_changes_nothing,
    imports_of_any_length_give_all_codes,
    duplicates_are_refused_wherever_they_are,
    codes_that_do_not_follow_are_refused,
    a_prize_without_codes_takes_none,
    parallel_imports_are_done_once,
];

/// Why an import is refused, which changes nothing; no text names a code.
pub(super) async fn refusal(world: &World, prize: &str, first: u64, codes: &[String]) -> String {
    let before = (world.ledger_length().await, world.prize("coupon").await);
    let refused = world.try_import(prize, first, codes).await;
    let Err(StoreError::Refused(refusal)) = refused else {
        panic!("not refused: {refused:?}");
    };
    let after = (world.ledger_length().await, world.prize("coupon").await);
    assert_eq!(after, before, "{refusal}");
    for code in codes {
        assert!(!refusal.to_string().contains(code.as_str()), "{refusal}");
    }
    refusal.to_string()
}

async fn an_import_is_resumed_where_it_stopped(world: &mut World) {
    world.begin(COUPONS).await;
    let all = codes(0..1_000);
    for (number, part) in all.chunks(150).enumerate() {
        let first = number as u64 * 150;
        let imported = world.import("coupon", first, part).await;
        assert_eq!(imported.codes, first + part.len() as u64);
        assert!(!imported.replayed);
        if number % 2 == 0 {
            world.reopen().await;
        }
    }
    for _ in 0..10 {
        world.draw(draw("u").times(100)).await;
    }
    let last = world.draw(draw("u")).await;
    assert_eq!(last.count("-"), 1, "all codes are given");
}

async fn an_import_sent_again_changes_nothing(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..100)).await;
    world.import("coupon", 100, &codes(100..300)).await;
    let before = (world.ledger_length().await, world.prize("coupon").await);
    for (first, part) in [(0, 0..100), (100, 100..300), (50, 50..150), (299, 299..300)] {
        let again = world.import("coupon", first, &codes(part)).await;
        let expected = ImportedCodes {
            codes: 300,
            replayed: true,
        };
        assert_eq!(again, expected);
    }
    let after = (world.ledger_length().await, world.prize("coupon").await);
    assert_eq!(after, before);
}

async fn imports_of_any_length_give_all_codes(world: &mut World) {
    world.begin(COUPONS).await;
    let mut first = 0;
    for length in [1, 62, 1, 1, 63, 64, 65, 128, 3, 200] {
        let part = codes(first..first + length);
        world.import("coupon", first, &part).await;
        first += length;
    }
    let mut given = Vec::new();
    for _ in 0..first / 100 {
        let answer = world.draw(draw("u").times(100)).await;
        given.extend(texts(world, &answer).await);
    }
    assert_eq!(given, codes(0..given.len() as u64));
    assert_eq!(given.len(), 500);
}

async fn duplicates_are_refused_wherever_they_are(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..500)).await;
    world.import("coupon", 500, &codes(500..700)).await;
    let mut part = codes(700..710);
    part[7] = part[2].clone();
    let text = refusal(world, "coupon", 700, &part).await;
    assert!(
        text.contains("codes[7]") && text.contains("codes[2]"),
        "{text}"
    );
    for (old, named) in [(3, "code 3 "), (699, "code 699 ")] {
        let mut part = codes(700..710);
        part[4] = codes(old..old + 1).remove(0);
        let text = refusal(world, "coupon", 700, &part).await;
        assert!(text.contains("codes[4]") && text.contains(named), "{text}");
        world.reopen().await; // the hashes are made anew
    }
    world.import("coupon", 700, &codes(700..710)).await;
}

async fn codes_that_do_not_follow_are_refused(world: &mut World) {
    world.begin(COUPONS).await;
    world.import("coupon", 0, &codes(0..100)).await;
    let text = refusal(world, "coupon", 101, &codes(101..110)).await;
    assert!(text.contains("the next one is 100"), "{text}");
    let text = refusal(world, "coupon", 50, &codes(50..150)).await;
    assert!(text.contains("begin with first 100"), "{text}");
    let text = refusal(world, "coupon", 50, &codes(51..60)).await;
    assert!(
        text.contains("codes[0]") && text.contains("first 100"),
        "{text}"
    );
    let text = refusal(world, "coupon", CODES_MAX, &codes(0..1)).await;
    assert!(text.contains("the next one is 100"), "{text}");
}

async fn a_prize_without_codes_takes_none(world: &mut World) {
    let begun = world
        .begin(
            "
            prizes: [{id: mug, stock: 100}, {id: coupon, codes: true}]
            pools: [{id: deck, deck: {size: 20, cards: {mug: 10, coupon: 1}}}]
            ",
        )
        .await;
    let text = refusal(world, "mug", 100, &codes(0..1)).await;
    assert!(text.contains("mug has no codes"), "{text}");
    let unknown = world.try_import("cup", 0, &codes(0..1)).await;
    assert_eq!(unknown, Err(Refusal::PrizeNotFound("cup".into()).into()));
    world.operate(Operation::Close).await;
    let text = refusal(world, "coupon", 0, &codes(0..1)).await;
    assert!(text.contains("closed"), "{text}");
    assert!(begun.prizes[1].codes);
}

async fn parallel_imports_are_done_once(world: &mut World) {
    world.begin(COUPONS).await;
    let replicas = [world.clone(), world.another_replica().await];
    let part = codes(0..300);
    let results = all_of(8, |number| {
        let (replica, part) = (replicas[number % 2].clone(), part.clone());
        async move { replica.try_import("coupon", 0, &part).await }
    })
    .await;
    let done = results.iter().flatten();
    assert_eq!(
        done.clone().filter(|imported| !imported.replayed).count(),
        1
    );
    for refused in results.iter().filter_map(|result| result.as_ref().err()) {
        let text = refused.to_string();
        assert!(text.contains("the next one is 300"), "{text}");
    }
    assert_eq!(world.prize("coupon").await.stock, 300);
}
