//! What becomes of a win: it is delivered under one reference, or revoked once.

use tombola::store::{
    Delivery, DeliveryState, Operation, Refusal, StoreError, WinOperation, WonUnit, fill::DeckStop,
};

use crate::support::{Answer as _, DrawWords as _, World, all_of, draw, hours};

promises![
    a_win_is_delivered_under_one_reference,
    an_operation_on_a_win_sent_again_is_answered_again_and_other_contents_are_refused,
    a_revoked_unit_is_in_stock_again_and_still_counts_for_its_user,
    a_revoked_unit_leaves_the_campaign_if_the_request_says_so,
    a_unit_revoked_after_the_end_leaves_the_campaign,
    revoking_is_final,
    a_win_is_revoked_once_by_parallel_requests,
    a_win_gets_one_reference_from_parallel_requests,
    a_deck_out_of_stock_goes_on_with_a_revoked_unit,
    no_more_is_revoked_than_was_won,
];

const YAML: &str = "
    limits: {winsPerUser: 2}
    consolation: {id: points}
    prizes: [{id: mug, stock: 100}]
    pools: [{id: deck, deck: {cards: {mug: 20}}}]
";

fn deliver(reference: &str) -> WinOperation {
    WinOperation::Deliver {
        reference: reference.into(),
    }
}

fn revoke() -> WinOperation {
    WinOperation::Revoke { withdraw: false }
}

fn withdraw() -> WinOperation {
    WinOperation::Revoke { withdraw: true }
}

/// A user's first win.
async fn win(world: &World, user: &str) -> WonUnit {
    world.draw(draw(user)).await.won_units().remove(0)
}

async fn refused(world: &World, win: &WonUnit, operation: WinOperation) -> Refusal {
    let before = (world.ledger_length().await, world.prize("mug").await);
    let refusal = match world.try_operate_win(win, operation).await {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("not refused: {other:?}"),
    };
    let after = (world.ledger_length().await, world.prize("mug").await);
    assert_eq!(after, before, "{refusal}");
    refusal
}

async fn a_win_is_delivered_under_one_reference(world: &mut World) {
    world.begin(YAML).await;
    let win = win(world, "u").await;
    let first = world
        .try_operate_win(&win, deliver("parcel-1"))
        .await
        .unwrap();
    assert!(!first.replayed);
    let Delivery {
        state, reference, ..
    } = &first.delivery;
    assert_eq!(
        (*state, reference.as_str()),
        (DeliveryState::Delivered, "parcel-1")
    );
    let length = world.ledger_length().await;
    world.reopen().await;
    let again = world
        .try_operate_win(&win, deliver("parcel-1"))
        .await
        .unwrap();
    assert!(again.replayed);
    assert_eq!(again.delivery, first.delivery);
    assert_eq!(world.ledger_length().await, length);
    let refusal = refused(world, &win, deliver("parcel-2")).await;
    assert_eq!(refusal, Refusal::WinDelivered("parcel-1".into()));
    assert_eq!(world.prize("mug").await.won, 1);
}

async fn an_operation_on_a_win_sent_again_is_answered_again_and_other_contents_are_refused(
    world: &mut World,
) {
    world.begin(YAML).await;
    let (one, other) = (win(world, "u").await, win(world, "v").await);
    for (request, win, operation) in [
        ("deliver", &one, deliver("parcel")),
        ("revoke", &other, withdraw()),
    ] {
        let first = world.operate_win_as(request, win, operation.clone()).await;
        let first = first.unwrap();
        let length = world.ledger_length().await;
        world.reopen().await;
        let again = world.operate_win_as(request, win, operation).await.unwrap();
        assert!(!first.replayed && again.replayed);
        assert_eq!(again.delivery, first.delivery);
        assert_eq!(world.ledger_length().await, length);
    }
    for (request, win, operation) in [
        ("deliver", &one, deliver("other")),
        ("deliver", &other, deliver("parcel")),
        ("deliver", &one, revoke()),
        ("revoke", &other, revoke()),
        ("revoke", &one, withdraw()),
    ] {
        let reused = world.operate_win_as(request, win, operation).await;
        assert_eq!(reused, Err(Refusal::RequestIdReused.into()));
    }
    let reused = world.operate_as("revoke", Operation::Pause).await;
    assert_eq!(reused, Err(Refusal::RequestIdReused.into()));
}

async fn a_revoked_unit_is_in_stock_again_and_still_counts_for_its_user(world: &mut World) {
    world.begin(YAML).await;
    let answer = world.draw(draw("u").times(2)).await;
    let win = answer.won_units().remove(0);
    let before = world.prize("mug").await;
    let revoked = world.try_operate_win(&win, revoke()).await.unwrap();
    assert_eq!(revoked.delivery.state, DeliveryState::Revoked);
    let after = world.prize("mug").await;
    assert_eq!((before.won, before.revoked), (2, 0));
    assert_eq!((after.won, after.revoked, after.withdrawn), (1, 1, 0));
    assert_eq!(after.left, before.left + 1);
    assert_eq!(after.waiting, before.waiting, "not into the deck");
    assert_eq!(after.released, before.released);
    assert_eq!(world.record("u").await.wins, 2);
    assert_eq!(world.draw(draw("u")).await.wins(), 0, "at the wins limit");
}

async fn a_revoked_unit_leaves_the_campaign_if_the_request_says_so(world: &mut World) {
    world.begin(YAML).await;
    let win = win(world, "u").await;
    let before = world.prize("mug").await;
    world.try_operate_win(&win, withdraw()).await.unwrap();
    let after = world.prize("mug").await;
    assert_eq!((after.won, after.revoked, after.withdrawn), (0, 1, 1));
    assert_eq!(after.left, before.left);
}

async fn a_unit_revoked_after_the_end_leaves_the_campaign(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let (one, other) = (win(world, "u").await, win(world, "v").await);
    let third = win(world, "w").await;
    world.set_time(campaign.end).await;
    world.try_operate_win(&one, revoke()).await.unwrap();
    world.tick().await;
    world.try_operate_win(&other, revoke()).await.unwrap();
    world
        .try_operate_win(&third, deliver("late"))
        .await
        .unwrap();
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.won, mugs.revoked, mugs.withdrawn), (1, 2, 2));
    world.pass(hours(1)).await;
    world.tick().await;
}

async fn revoking_is_final(world: &mut World) {
    world.begin(YAML).await;
    let win = win(world, "u").await;
    world
        .try_operate_win(&win, deliver("parcel"))
        .await
        .unwrap();
    let revoked = world.try_operate_win(&win, revoke()).await.unwrap();
    assert_eq!(revoked.delivery.reference, "parcel");
    world.reopen().await;
    for operation in [revoke(), withdraw(), deliver("parcel"), deliver("other")] {
        let refusal = refused(world, &win, operation).await;
        assert!(matches!(refusal, Refusal::WinRevoked(_)), "{refusal}");
    }
}

/// Does these operations on one win at once on two replicas; the number of those that were done.
async fn storm(world: &World, win: &WonUnit, operations: Vec<WinOperation>) -> usize {
    let replicas = [world.clone(), world.another_replica().await];
    let operated = all_of(operations.len(), |i| {
        let (replica, win) = (replicas[i % 2].clone(), win.clone());
        let operation = operations[i].clone();
        async move { replica.try_operate_win(&win, operation).await }
    });
    let mut done = 0;
    for operated in operated.await {
        match operated {
            Ok(operated) => done += usize::from(!operated.replayed),
            Err(StoreError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done
}

async fn a_win_is_revoked_once_by_parallel_requests(world: &mut World) {
    world.begin(YAML).await;
    let win = win(world, "u").await;
    win_another(world).await;
    let operations = (0..20).map(|i| WinOperation::Revoke {
        withdraw: i % 3 == 0,
    });
    assert_eq!(storm(world, &win, operations.collect()).await, 1);
    assert_eq!(world.prize("mug").await.revoked, 1);
}

/// One more win, so that more could be revoked.
async fn win_another(world: &World) {
    win(world, "another").await;
}

async fn a_win_gets_one_reference_from_parallel_requests(world: &mut World) {
    world.begin(YAML).await;
    let win = win(world, "u").await;
    let operations = (0..20).map(|i| deliver(&format!("parcel-{i}")));
    assert_eq!(storm(world, &win, operations.collect()).await, 1);
}

async fn a_deck_out_of_stock_goes_on_with_a_revoked_unit(world: &mut World) {
    let reshuffled = "
        consolation: {id: points}
        prizes: [{id: mug, stock: 10}]
        pools: [{id: deck, deck: {size: 10, cards: {mug: 10}, onExhausted: RESHUFFLE}}]
    ";
    world.begin(reshuffled).await;
    let mut wins = Vec::new();
    for _ in 0..10 {
        wins.extend(world.draw(draw("u")).await.won_units());
    }
    assert_eq!(world.draw(draw("u")).await.wins(), 0);
    let stopped = world.stats().await.decks[0].stopped;
    assert_eq!(stopped, Some(DeckStop::OutOfStock));
    for win in &wins {
        world.try_operate_win(win, revoke()).await.unwrap();
    }
    let again = world.draw(draw("u").times(10)).await.won_units();
    assert_eq!(again.len(), 10);
    assert!(again.iter().all(|unit| !wins.contains(unit)), "new units");
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.won, mugs.revoked, mugs.left), (10, 10, 0));
}

async fn no_more_is_revoked_than_was_won(world: &mut World) {
    world.begin(YAML).await;
    let won = win(world, "u").await;
    let mut never = won.clone();
    never.unit.number += 1000;
    world.try_operate_win(&won, revoke()).await.unwrap();
    let error = world.try_operate_win(&never, revoke()).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(world.prize("mug").await.revoked, 1);
}
