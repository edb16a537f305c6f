//! Draws and grabs are refused while too much of the ledger is not settled (P8: nothing happened),
//! and nothing else is.

use std::time::Duration;

use tombola::store::{BacklogBound, GrabOutcome, Operation, Refusal, SettledUpTo, StoreError};

use crate::support::{DrawWords as _, World, draw, envelope, hours, minutes};

promises![
    a_full_backlog_refuses_new_draws_and_grabs_and_nothing_else,
    an_entry_that_waits_for_too_long_refuses_draws_until_it_is_settled,
    a_ledger_that_nobody_settles_has_no_bound,
    a_service_that_settles_has_a_sink_before_anything_is_settled,
    the_backlog_is_what_is_not_settled,
];

const YAML: &str = "
    consolation: {id: points}
    prizes: [{id: coupon, stock: 20000}]
    pools: [{id: hours, schedule: {perHour: {coupon: 10}}}]
";

const HOUR: Duration = Duration::from_secs(3600);

/// Lets the store give everything up, as a settler does once it has written it.
async fn settle(world: &World) {
    let store = world.store();
    for partition in 0..store.info().partitions {
        let read = store.unsettled(partition, None, 100_000).await.unwrap();
        let Some(last) = read.entries.last() else {
            continue;
        };
        let settled = SettledUpTo {
            fork: read.fork,
            sequence: last.id.sequence,
        };
        assert!(store.trim(partition, &settled).await.unwrap());
    }
}

fn bound(world: &World, entries: u64, age: Duration) {
    world.store().bound_backlog(BacklogBound { entries, age });
}

async fn a_full_backlog_refuses_new_draws_and_grabs_and_nothing_else(world: &mut World) {
    world.begin(YAML).await;
    world.tick().await;
    world.create(&envelope("e1", 1000, 20)).await;
    world.grab("e1", "first").await;
    let kept = world.draw(draw("u").named("kept")).await;
    settle(world).await;
    bound(world, 3, HOUR);
    for round in 0..2 {
        let (drawn, grabbed) = (
            fill_by_draws(world).await,
            fill_by_grabs(world, round).await,
        );
        // On some stores they are in one partition, and share the bound.
        assert!((3..=6).contains(&(drawn + grabbed)), "{drawn} {grabbed}");
        let refused = || async { world.refused(draw("new")).await };
        assert_eq!(refused().await, Refusal::LedgerBacklog);
        let again = world.draw(draw("u").named("kept")).await;
        assert!(again.replayed && again.ledger == kept.ledger);
        let again = world.grab("e1", "first").await;
        assert!(matches!(again, GrabOutcome::AlreadyGrabbed(_)), "{again:?}");
        world.operate(Operation::Pause).await;
        // Why the campaign takes no draws at all comes first.
        assert_eq!(refused().await, Refusal::Paused);
        world.operate(Operation::Resume).await;
        assert_eq!(refused().await, Refusal::LedgerBacklog);
        settle(world).await;
        world.draw(draw("new")).await;
        settle(world).await;
    }
    world.grab("e1", "new").await;
    fill_by_draws(world).await;
    fill_by_grabs(world, 2).await;
    world.cancel("e1").await;
}

/// Draws until the backlog is full; how often.
async fn fill_by_draws(world: &World) -> u32 {
    for drawn in 0.. {
        match world.try_draw(draw("u")).await {
            Ok(_) => {}
            Err(StoreError::Refused(Refusal::LedgerBacklog)) => return drawn,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the backlog has a bound")
}

/// Grabs until the backlog is full; how often.
async fn fill_by_grabs(world: &World, round: u32) -> u32 {
    for grabbed in 0.. {
        match world.try_grab("e1", &format!("u-{round}-{grabbed}")).await {
            Ok(outcome) => assert!(matches!(outcome, GrabOutcome::Grabbed(_)), "{outcome:?}"),
            Err(StoreError::Refused(Refusal::LedgerBacklog)) => return grabbed,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the backlog has a bound")
}

async fn an_entry_that_waits_for_too_long_refuses_draws_until_it_is_settled(world: &mut World) {
    world.begin(YAML).await;
    world.tick().await;
    world.draw(draw("u")).await;
    settle(world).await;
    bound(world, 1000, HOUR);
    // Nothing waits, however long ago the last entry was written.
    pass(world, hours(5)).await;
    world.draw(draw("u")).await;
    pass(world, minutes(59)).await;
    world.draw(draw("u")).await;
    pass(world, minutes(1)).await;
    assert_eq!(world.refused(draw("u")).await, Refusal::LedgerBacklog);
    settle(world).await;
    world.draw(draw("u")).await;
    world.reopen().await;
    bound(world, 1000, HOUR);
    pass(world, hours(1)).await;
    assert_eq!(world.refused(draw("u")).await, Refusal::LedgerBacklog);
}

/// Moves the clock, and fills the pools, so that no draw has it done in the background.
async fn pass(world: &World, time: Duration) {
    world.pass(time).await;
    world.tick().await;
}

async fn a_ledger_that_nobody_settles_has_no_bound(world: &mut World) {
    world.begin(YAML).await;
    world.tick().await;
    bound(world, 1, Duration::ZERO);
    for _ in 0..5 {
        world.draw(draw("u")).await;
    }
}

/// The bound still waits for the first entry that is settled.
async fn a_service_that_settles_has_a_sink_before_anything_is_settled(world: &mut World) {
    world.begin(YAML).await;
    world.tick().await;
    let store = world.store().clone();
    store.expect_settling();
    let drawn = world.draw(draw("u")).await;
    let backlog = store.backlog(drawn.ledger.partition).await.unwrap();
    assert!(backlog.has_sink && backlog.oldest.is_some(), "{backlog:?}");
    bound(world, 1, Duration::ZERO);
    world.draw(draw("u")).await;
}

async fn the_backlog_is_what_is_not_settled(world: &mut World) {
    world.begin(YAML).await;
    world.tick().await;
    let partition = world.draw(draw("u")).await.ledger.partition;
    let before = world.store().backlog(partition).await.unwrap();
    assert!(!before.has_sink && before.entries >= 2, "{before:?}");
    settle(world).await;
    let settled = world.store().backlog(partition).await.unwrap();
    assert!(settled.has_sink && settled.entries == 0, "{settled:?}");
    assert_eq!(settled.oldest, None);
    let drawn = world.draw(draw("u")).await.at;
    world.pass(minutes(1)).await;
    world.draw(draw("u")).await;
    let waiting = world.store().backlog(partition).await.unwrap();
    assert_eq!((waiting.entries, waiting.oldest), (2, Some(drawn)));
}
