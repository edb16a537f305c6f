//! What became of wins is settled with the entries that say so.

use tombola::store::{WinOperation, WonUnit};

use super::{place::Place, settle_all, settled::YAML};
use crate::support::{
    Answer as _, DrawWords as _, World, draw, embedded::Embedded, on_redis::OnRedis,
};

async fn win(world: &World, user: &str) -> WonUnit {
    loop {
        let answer = world.draw(draw(user).times(20)).await;
        if let Some(win) = answer.won_units().into_iter().next() {
            return win;
        }
    }
}

async fn deliver(world: &World, win: &WonUnit, reference: &str) {
    let reference = reference.into();
    let operation = WinOperation::Deliver { reference };
    world.try_operate_win(win, operation).await.unwrap();
}

async fn revoke(world: &World, win: &WonUnit) {
    let operation = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(win, operation).await.unwrap();
}

/// Wins of a user with this state and reference.
async fn wins(place: &Place, user: &str, delivery: u8, reference: &str) -> i64 {
    let has_time = match delivery {
        0 => "delivery_at IS NULL",
        _ => "delivery_at >= at",
    };
    let sql = format!(
        "SELECT count(*) FROM tombola.wins WHERE user_id = '{user}' AND delivery = {delivery}
         AND delivery_reference = '{reference}' AND {has_time}"
    );
    place.number(&sql).await
}

async fn wins_are_settled_with_what_became_of_them(world: World, place: Place) {
    world.begin(YAML).await;
    let (mut carrier, mut sink) = place.settler(world.store()).await;
    let (early, kept) = (win(&world, "early").await, win(&world, "kept").await);
    settle_all(&mut carrier, &mut *sink).await;
    assert_eq!(wins(&place, "early", 1, "parcel-1").await, 0);
    // Of a win that is settled; of one in the same batch; and both of one win in one batch.
    deliver(&world, &early, "parcel-1").await;
    let same = win(&world, "same").await;
    revoke(&world, &same).await;
    let both = win(&world, "both").await;
    deliver(&world, &both, "parcel-2").await;
    revoke(&world, &both).await;
    settle_all(&mut carrier, &mut *sink).await;
    for (user, delivery, reference) in [
        ("early", 1, "parcel-1"),
        ("same", 2, ""),
        ("both", 2, "parcel-2"),
    ] {
        assert_eq!(wins(&place, user, delivery, reference).await, 1, "{user}");
    }
    assert_eq!(wins(&place, "kept", 1, "").await, 0);
    assert!(wins(&place, "kept", 0, "").await > 0);
    deliver(&world, &kept, "parcel-3").await;
    settle_all(&mut carrier, &mut *sink).await;
    assert_eq!(wins(&place, "kept", 1, "parcel-3").await, 1);
    let changes = "SELECT count(*) FROM tombola.entries WHERE kind IN ('delivered', 'revoked')
                   AND user_id IS NOT NULL AND request_id IS NOT NULL";
    assert_eq!(place.number(changes).await, 5);
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wins_of_an_embedded_store_are_settled_with_what_became_of_them() {
    let world = World::new(Embedded::new()).await;
    let place = Place::own_file(&world);
    wins_are_settled_with_what_became_of_them(world, place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wins_on_redis_are_settled_with_what_became_of_them() {
    let world = World::new(OnRedis::single()).await;
    wins_are_settled_with_what_became_of_them(world, Place::postgres().await).await;
}
