//! Entries are enough to replay every step (P3).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};
use tombola::{
    chance::Nonce,
    model::{PoolNo, PrizeNo, convert, zone},
    store::{
        Cause, DrawCommand, DrawResult, Operation,
        entry::{Applied, Body},
    },
};

use crate::support::{
    Answer as _, DrawWords as _, World, audit, campaign, draw, envelope, hours, users,
};

promises![
    the_entry_of_a_version_has_all_that_its_steps_depend_on,
    a_result_without_a_unit_says_why,
    a_blank_is_named_as_a_card_of_its_deck,
    entries_are_numbered_within_their_campaign,
];

/// The entries of versions, in order.
async fn versions(world: &World) -> Vec<Applied> {
    let entries = audit::ledger(&**world.store()).await.into_iter();
    let versions = entries.filter_map(|entry| match entry.body {
        Body::Applied(applied) => Some(*applied),
        _ => None,
    });
    versions.collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

async fn the_entry_of_a_version_has_all_that_its_steps_depend_on(world: &mut World) {
    let total = |units: u32| {
        format!(
            "
            endTime: 2026-11-20T10:00:00+08:00
            prizes: [{{id: coupon, stock: 1000}}]
            pools: [{{id: hours, schedule: {{total: {{coupon: {units}}}}}}}]
            "
        )
    };
    let campaign = world.begin(&total(100)).await;
    world.tick().await;
    world.set_time(campaign.start + hours(3)).await;
    world.tick().await;
    let injected: u64 = world
        .windows()
        .await
        .iter()
        .map(|it| it.prizes[0].1.injected)
        .sum();
    world.change(&total(500)).await;
    let [first, second] = &versions(world).await[..] else {
        panic!("two versions were applied");
    };
    let store = world.store();
    let view = store.campaign(&campaign.id).await.unwrap();
    for applied in [first, second] {
        let definition = from_hex(&applied.definition);
        let version = store.version(&campaign.id, applied.version).await.unwrap();
        assert_eq!(convert::decode(&definition).unwrap(), *version);
        let digest = Sha256::digest(&definition);
        assert_eq!(digest[..], from_hex(&applied.definition_sha256));
        assert_eq!(Nonce::from_hex(&applied.nonce), Some(view.nonce));
        assert_eq!(*applied.commitment, *view.commitment);
        assert_eq!(applied.time_zones, zone::database_version());
        assert!(applied.test_clock);
    }
    let coupon = |applied: &Applied| {
        let [(PoolNo(0), totals)] = &applied.totals[..] else {
            panic!("{applied:?}");
        };
        (totals.revision, totals.from, totals.remaining[&PrizeNo(0)])
    };
    assert_eq!(coupon(first), (1, campaign.start, 100));
    let horizon = campaign.start + hours(4);
    assert_eq!(coupon(second), (2, horizon, 500 - injected));
}

async fn a_result_without_a_unit_says_why(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            limits: {winsPerUser: 1}
            consolation: {id: points}
            prizes: [{id: mug, stock: 100}]
            pools: [{id: hours, schedule: {perHour: {mug: 1}}}]
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(2)).await;
    world.tick().await;
    let causes = async |command: DrawCommand| world.draw(command).await.causes();
    let first = world.draw(draw("winner").times(3)).await;
    assert_eq!(
        (first.wins(), first.causes()),
        (1, vec![Cause::WinsLimit; 2])
    );
    assert_eq!(causes(draw("winner").times(2)).await, [Cause::WinsLimit; 2]);
    world.drained().await;
    assert_eq!(causes(draw("u").times(2)).await, [Cause::NothingDue; 2]);
    let only = DrawCommand {
        consolation_only: true,
        ..draw("u").times(2)
    };
    assert_eq!(causes(only.clone()).await, [Cause::ConsolationOnly; 2]);
    let users = users(&["u"]);
    world.operate(Operation::Block { users }).await;
    assert_eq!(causes(draw("u").times(2)).await, [Cause::Blocked; 2]);
    assert_eq!(
        causes(only.named("again")).await,
        [Cause::ConsolationOnly; 2]
    );
}

async fn a_blank_is_named_as_a_card_of_its_deck(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: mug, stock: 100}]
            pools: [{id: deck, deck: {size: 20, cards: {mug: 5}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
    let asked = draw("u").times(40);
    let answer = world.draw(asked.clone()).await;
    let card = |result: &DrawResult| match *result {
        DrawResult::Won { pool, unit, .. } => (pool, unit.window, unit.number),
        DrawResult::NotWon {
            consolation: false,
            cause: Cause::Blank { pool, unit },
        } => (pool, unit.window, unit.number),
        other => panic!("{other:?}"),
    };
    let cards: Vec<_> = answer.entry.results.iter().map(card).collect();
    let all = [1, 2].map(|round| (0..20).map(move |number| (PoolNo(0), round, number)));
    assert_eq!(cards, all.into_iter().flatten().collect::<Vec<_>>());
    // Also once it is no longer the latest draw, and so lies elsewhere.
    world.draw(draw("u")).await;
    assert_eq!(world.draw(asked).await.entry, answer.entry);
}

const DECK: &str = "
    prizes: [{id: mug, stock: 100}]
    pools: [{id: deck, deck: {size: 20, cards: {mug: 5}, onExhausted: RESHUFFLE}}]
";

async fn entries_are_numbered_within_their_campaign(world: &mut World) {
    world.try_apply(campaign(DECK), 0).await.unwrap();
    // Before its start, a version lays the campaign out anew.
    let more = campaign(&DECK.replace("stock: 100", "stock: 200"));
    world.try_apply(more, 1).await.unwrap();
    world.begin(&format!("\n    id: autumn{DECK}")).await;
    let calls = (0..60).map(|i| match i % 2 {
        0 => draw(&format!("u{i}")),
        _ => draw(&format!("u{i}")).of("autumn"),
    });
    world.storm(calls.collect()).await;
    world.operate(Operation::Pause).await;
    world.create(&envelope("e1", 100, 2)).await;
    world.grab("e1", "u1").await;
    world.grab("e1", "u2").await;
    let mut numbers = BTreeMap::<_, Vec<_>>::new();
    for entry in audit::ledger(&**world.store()).await {
        assert_eq!(entry.fork, 0);
        let campaign = entry.subject.campaign().map(ToString::to_string);
        numbers.entry(campaign).or_default().push(entry.number);
    }
    assert_eq!(numbers.len(), 3, "two campaigns and an envelope");
    for (campaign, numbers) in numbers {
        let all = (1..=numbers.len() as u64).map(Some);
        assert_eq!(numbers, all.collect::<Vec<_>>(), "{campaign:?}");
    }
}
