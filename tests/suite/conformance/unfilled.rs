//! A draw for which a pool was filled again and again, and never far enough.

use async_trait::async_trait;
use tombola::store::{
    Drawn, Executed, Filling, StoreError,
    fill::{DeckStop, PoolFilling},
};

use crate::support::{Answer as _, World, between::Meddler, draw};

// What such a draw answers does not depend on the store.
super::promises_on! {
    memory,
    crate::support::in_memory::InMemory::new(),
    pools_that_others_drain_are_drawn_faster_than_they_can_be_filled,
    a_pool_that_cannot_be_filled_is_not_drawn_too_fast,
}

const YAML: &str = "
    prizes: [{id: coupon, stock: 50000}]
    pools: [{id: deck, deck: {size: 2, cards: {coupon: 2}, onExhausted: RESHUFFLE}}]
";

/// Others take every card before the injector can draw one.
struct Drains(World);

#[async_trait]
impl Meddler for Drains {
    async fn before_draw(&self) {
        let draws = || self.0.store().draw(draw("other").into());
        while let Drawn::Done(_) = draws().await.unwrap() {}
    }
}

/// The deck seems to have stopped for want of stock, but a draw finds it at work.
struct SeemsStopped;

impl Meddler for SeemsStopped {
    fn change(&self, filling: &mut Filling) {
        let PoolFilling::Deck(deck) = &mut filling.pools[0] else {
            panic!("{filling:?}");
        };
        deck.stopped = Some(DeckStop::OutOfStock);
    }
}

/// What a draw answers that is given up.
async fn given_up(world: &World, meddler: impl Meddler + 'static) -> String {
    let drawn = world.injector_with(meddler).draw(draw("late")).await;
    let Err(StoreError::Unavailable { executed, detail }) = drawn else {
        panic!("{drawn:?}");
    };
    assert_eq!(executed, Executed::No);
    assert_eq!(world.draw(draw("after")).await.wins(), 1);
    detail
}

async fn pools_that_others_drain_are_drawn_faster_than_they_can_be_filled(world: &mut World) {
    world.begin(YAML).await;
    let detail = given_up(world, Drains(world.clone())).await;
    assert_eq!(detail, "the pools are drawn faster than they can be filled");
}

async fn a_pool_that_cannot_be_filled_is_not_drawn_too_fast(world: &mut World) {
    world.begin(YAML).await;
    let detail = given_up(world, SeemsStopped).await;
    assert!(detail.contains("a further one adds nothing"), "{detail}");
    assert!(!detail.contains("faster"), "{detail}");
}
