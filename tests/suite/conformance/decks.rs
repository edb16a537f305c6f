//! Decks: exact odds, drawn without replacement.

use tombola::{
    model::PoolNo,
    store::{DrawResult, Operation, entry::Body, fill::DeckStop},
};

use crate::support::{Answer as _, DrawWords as _, World, audit, draw};

promises![
    one_card_in_a_hundred_is_won_once_in_every_hundred_single_draws,
    one_card_in_a_hundred_is_won_once_in_every_draw_of_a_hundred,
    one_card_in_a_hundred_is_won_once_in_every_hundred_by_draws_of_seven,
    a_deck_of_many_chunks_gives_exactly_its_cards_in_every_round,
    a_deck_dealt_anew_is_in_another_order,
    a_deck_that_stops_gives_exactly_its_cards_then_the_next_pool,
    a_deck_used_up_in_the_middle_of_a_draw_passes_to_the_next_pool,
    a_deck_is_dealt_anew_without_its_grand_prizes,
    a_deck_out_of_stock_stops_and_goes_on_after_restock,
    a_stopped_prize_s_cards_are_skipped_and_come_first_after_resume,
    a_deck_whose_prizes_are_all_stopped_passes_to_the_next_pool,
    cards_of_a_deck_survive_a_reopen,
];

async fn one_card_in_a_hundred_is_won_once_in_every_hundred_single_draws(world: &mut World) {
    begin_one_in_a_hundred(world).await;
    for _ in 0..4 {
        let draws = (0..500).map(|i| draw(&format!("u{i}"))).collect();
        for answer in world.storm(draws).await {
            answer.unwrap();
        }
    }
    assert_eq!(wins_of_each_hundred(world).await, [1; 20]);
}

async fn one_card_in_a_hundred_is_won_once_in_every_draw_of_a_hundred(world: &mut World) {
    begin_one_in_a_hundred(world).await;
    for _ in 0..30 {
        assert_eq!(world.draw(draw("u").times(100)).await.wins(), 1);
    }
}

async fn one_card_in_a_hundred_is_won_once_in_every_hundred_by_draws_of_seven(world: &mut World) {
    begin_one_in_a_hundred(world).await;
    let draws = (0..300).map(|i| draw(&format!("u{i}")).times(7)).collect();
    for answer in world.storm(draws).await {
        answer.unwrap();
    }
    assert_eq!(wins_of_each_hundred(world).await, [1; 21]);
}

async fn a_deck_of_many_chunks_gives_exactly_its_cards_in_every_round(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 1000}, {id: mug, stock: 1000}]
            pools:
              - id: deck
                deck: {size: 3100, cards: {coupon: 31, mug: 310}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    for round in 1..=3 {
        let (mut coupons, mut mugs) = (0, 0);
        for count in [100; 30].into_iter().chain([7; 14]).chain([2]) {
            let answer = world.draw(draw("u").times(count)).await;
            coupons += answer.count("coupon");
            mugs += answer.count("mug");
        }
        assert_eq!((coupons, mugs), (31, 310), "round {round}");
    }
}

async fn a_deck_dealt_anew_is_in_another_order(world: &mut World) {
    begin_one_in_a_hundred(world).await;
    let mut positions = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = world.draw(draw("u").times(100)).await;
        positions.insert(answer.prizes().iter().position(|id| *id == "coupon"));
    }
    assert!(positions.len() > 5, "{positions:?}");
}

async fn a_deck_that_stops_gives_exactly_its_cards_then_the_next_pool(world: &mut World) {
    begin_two_decks(world).await;
    let mut prizes = Vec::new();
    for _ in 0..20 {
        let answer = world.draw(draw("u")).await;
        prizes.extend(answer.prizes().into_iter().map(str::to_owned));
    }
    let count = |part: &[String], id: &str| part.iter().filter(|prize| *prize == id).count();
    assert_eq!(count(&prizes[..10], "coupon"), 4);
    assert_eq!(count(&prizes[..10], "-"), 6, "a blank ends the search");
    assert_eq!(prizes[10..15], ["mug"; 5]);
    assert_eq!(prizes[15..], ["-"; 5]);
    let decks = world.stats().await.decks;
    assert!(
        decks
            .iter()
            .all(|deck| deck.stopped == Some(DeckStop::Exhausted) && deck.cards_waiting == 0)
    );
}

async fn a_deck_used_up_in_the_middle_of_a_draw_passes_to_the_next_pool(world: &mut World) {
    begin_two_decks(world).await;
    let answer = world.draw(draw("u").times(20)).await;
    let counts = ["coupon", "mug", "-"].map(|id| answer.count(id));
    assert_eq!(counts, [4, 5, 11]);
    assert_eq!(answer.prizes()[10..15], ["mug"; 5]);
}

async fn a_deck_is_dealt_anew_without_its_grand_prizes(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: car, stock: 3, grand: true}, {id: coupon, stock: 100}]
            pools:
              - {id: deck, deck: {size: 10, cards: {car: 1, coupon: 3}, onExhausted: RESHUFFLE}}
            ",
        )
        .await;
    let counts = async || {
        let answer = world.draw(draw("u").times(10)).await;
        ["car", "coupon"].map(|id| answer.count(id))
    };
    assert_eq!(counts().await, [1, 3]);
    for _ in 0..10 {
        assert_eq!(counts().await, [0, 3]); // the car's card is a blank: 3.33 and 6.67 of ten
    }
}

async fn a_deck_out_of_stock_stops_and_goes_on_after_restock(world: &mut World) {
    let stocked = |stock: u32| {
        format!(
            "
            consolation: {{id: points}}
            prizes: [{{id: coupon, stock: {stock}}}]
            pools: [{{id: deck, deck: {{size: 10, cards: {{coupon: 5}}, onExhausted: RESHUFFLE}}}}]
            "
        )
    };
    world.begin(&stocked(12)).await;
    assert_eq!(world.draw(draw("u").times(20)).await.count("coupon"), 10);
    assert_eq!(world.draw(draw("u").times(10)).await.prizes(), ["-"; 10]);
    let stats = world.stats().await;
    assert_eq!(stats.decks[0].stopped, Some(DeckStop::OutOfStock));
    let coupon = world.prize_no("coupon").await;
    assert_eq!(stats.decks[0].lacking, [(coupon, 3)].into());
    assert_eq!(
        stats.prizes[0].left, 2,
        "a chunk is dealt whole or not at all"
    );
    world.change(&stocked(15)).await;
    assert_eq!(world.stats().await.decks[0].lacking, [].into());
    assert_eq!(world.draw(draw("u").times(10)).await.count("coupon"), 5);
    assert_eq!(world.draw(draw("u").times(10)).await.wins(), 0);
    assert_eq!(world.prize("coupon").await.won, 15);
}

async fn a_stopped_prize_s_cards_are_skipped_and_come_first_after_resume(world: &mut World) {
    world
        .begin(
            "
            consolation: {id: points}
            prizes: [{id: coupon, stock: 100}]
            pools: [{id: deck, deck: {size: 200, cards: {coupon: 100}}}]
            ",
        )
        .await;
    let prize = world.prize_no("coupon").await;
    world.operate(Operation::PausePrize { prize }).await;
    assert_eq!(world.draw(draw("u").times(99)).await.prizes(), ["-"; 99]);
    world.operate(Operation::ResumePrize { prize }).await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["coupon"]);
    let rest = world.draw(draw("u").times(100)).await;
    assert_eq!([rest.count("coupon"), rest.count("-")], [99, 1]);
}

async fn a_deck_whose_prizes_are_all_stopped_passes_to_the_next_pool(world: &mut World) {
    begin_two_decks(world).await;
    let prize = world.prize_no("coupon").await;
    world.operate(Operation::PausePrize { prize }).await;
    let answer = world.draw(draw("u").times(8)).await;
    assert_eq!(answer.prizes()[..6], ["-"; 6], "its blanks are not stopped");
    assert_eq!(answer.prizes()[6..], ["mug"; 2]);
    world.operate(Operation::ResumePrize { prize }).await;
    let answer = world.draw(draw("u").times(7)).await;
    assert_eq!(answer.prizes()[..4], ["coupon"; 4]);
    assert_eq!(answer.prizes()[4..], ["mug"; 3]);
}

async fn cards_of_a_deck_survive_a_reopen(world: &mut World) {
    begin_two_decks(world).await;
    let before = world.draw(draw("u").times(3)).await.count("coupon");
    world.reopen().await;
    let after = world.draw(draw("u").times(7)).await.count("coupon");
    assert_eq!(before + after, 4);
}

async fn begin_one_in_a_hundred(world: &World) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 1000}]
            pools: [{id: deck, deck: {size: 100, odds: {coupon: 1%}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
}

async fn begin_two_decks(world: &World) {
    world
        .begin(
            "
            consolation: {id: points}
            prizes: [{id: coupon, stock: 4}, {id: mug, stock: 5}]
            pools:
              - {id: first, deck: {size: 10, cards: {coupon: 4}}}
              - {id: second, deck: {cards: {mug: 5}}}
            ",
        )
        .await;
}

/// The wins in each hundred of all draws, in the order of the ledger.
async fn wins_of_each_hundred(world: &World) -> Vec<usize> {
    let mut results = Vec::new();
    for entry in audit::ledger(&**world.store()).await {
        if let Body::Draw(draw) = entry.body {
            results.extend(draw.results);
        }
    }
    let is_win =
        |result: &&DrawResult| matches!(result, DrawResult::Won { pool, .. } if *pool == PoolNo(0));
    let hundreds = results.chunks_exact(100);
    hundreds
        .map(|hundred| hundred.iter().filter(is_win).count())
        .collect()
}
