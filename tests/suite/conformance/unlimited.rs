//! An unlimited prize is never short, and each of its units is counted (P2).

use tombola::store::fill::DeckStop;

use crate::support::{Answer as _, DrawWords as _, World, draw, hours};

promises![
    a_deck_of_an_unlimited_prize_goes_on,
    a_deck_with_limited_prizes_too_stops_for_want_of_those,
    a_schedule_of_an_unlimited_prize_releases_all_that_is_planned,
    units_of_an_unlimited_prize_that_come_back_are_used_first,
    a_prize_becomes_unlimited_while_its_deck_has_stopped,
    an_unlimited_prize_cannot_be_limited_again,
    an_unlimited_prize_adds_up_after_the_end,
];

const COUPONS: &str = "
    prizes: [{id: coupon, unlimited: true}]
    pools: [{id: deck, deck: {size: 20, cards: {coupon: 20}, onExhausted: RESHUFFLE}}]
";

async fn a_deck_of_an_unlimited_prize_goes_on(world: &mut World) {
    world.begin(COUPONS).await;
    for _ in 0..7 {
        assert_eq!(world.draw(draw("u").times(100)).await.wins(), 100);
    }
    world.reopen().await;
    assert_eq!(world.draw(draw("v")).await.wins(), 1);
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.won, coupons.left), (701, 0));
    assert_eq!(coupons.stock, coupons.won + coupons.waiting);
    let stats = world.stats().await;
    assert!(stats.balanced());
    assert_eq!(stats.decks[0].stopped, None);
}

async fn a_deck_with_limited_prizes_too_stops_for_want_of_those(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: mug, stock: 3}, {id: coupon, unlimited: true}]
            pools:
              - id: deck
                deck: {size: 2, cards: {mug: 1, coupon: 1}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    let mut counts = [0; 3];
    for _ in 0..20 {
        let answer = world.draw(draw("u")).await;
        for (count, prize) in counts.iter_mut().zip(["mug", "coupon", ""]) {
            *count += answer.count(prize);
        }
    }
    assert_eq!(counts, [3, 3, 14]);
    let deck = &world.stats().await.decks[0];
    assert_eq!(deck.stopped, Some(DeckStop::OutOfStock));
    let lacking: Vec<u16> = deck.lacking.keys().map(|prize| prize.0).collect();
    assert_eq!(lacking, [0]);
}

async fn a_schedule_of_an_unlimited_prize_releases_all_that_is_planned(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            prizes: [{id: coupon, unlimited: true}]
            pools: [{id: hours, schedule: {perHour: {coupon: 50}}}]
            ",
        )
        .await;
    for hour in 1..5 {
        world.tick().await;
        world.set_time(campaign.start + hours(hour)).await;
        let answer = world.draw(draw("u").times(60)).await;
        assert_eq!(answer.wins(), 50, "hour {hour}");
    }
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.won, coupons.left), (200, 0));
    assert_eq!(coupons.stock, coupons.won + coupons.waiting);
}

async fn units_of_an_unlimited_prize_that_come_back_are_used_first(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: coupon, unlimited: true, perUser: {total: 5}}, {id: pin, stock: 900}]
            pools:
              - id: deck
                deck: {size: 20, cards: {coupon: 19, pin: 1}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(100)).await;
    assert_eq!((answer.count("coupon"), answer.forfeited()), (5, 90));
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.won, coupons.forfeited), (5, 90));
    assert_eq!(coupons.stock, coupons.won + coupons.waiting + coupons.left);
    for _ in 0..5 {
        world.draw(draw("u").times(100)).await;
    }
    let after = world.prize("coupon").await;
    assert_eq!(after.forfeited, 90 + 5 * 95);
    assert!(after.stock < 5 + after.forfeited, "{after:?}");
    assert!(world.stats().await.balanced());
}

async fn a_prize_becomes_unlimited_while_its_deck_has_stopped(world: &mut World) {
    let limited = COUPONS.replace("unlimited: true", "stock: 20");
    world.begin(&limited).await;
    assert_eq!(world.draw(draw("u").times(30)).await.wins(), 20);
    let deck = &world.stats().await.decks[0];
    assert_eq!(deck.stopped, Some(DeckStop::OutOfStock));
    world.change(COUPONS).await;
    assert_eq!(world.stats().await.decks[0].stopped, None);
    assert_eq!(world.draw(draw("u").times(100)).await.wins(), 100);
    let coupons = world.prize("coupon").await;
    assert_eq!(coupons.won, 120);
    assert_eq!(coupons.stock, coupons.won + coupons.waiting);
}

async fn an_unlimited_prize_cannot_be_limited_again(world: &mut World) {
    let begun = world.begin(COUPONS).await;
    world.draw(draw("u")).await;
    let limited = COUPONS.replace("unlimited: true", "stock: 1000");
    let campaign = crate::support::campaign(&limited);
    let refused = world.try_apply(campaign, 1).await.unwrap_err().to_string();
    assert!(refused.contains("prizes[0].unlimited"), "{refused}");
    assert_eq!(world.store().campaign(&begun.id).await.unwrap().version, 1);
}

async fn an_unlimited_prize_adds_up_after_the_end(world: &mut World) {
    let campaign = world.begin(COUPONS).await;
    world.draw(draw("u").times(30)).await;
    world.set_time(campaign.end).await;
    world.tick().await;
    let coupons = world.prize("coupon").await;
    assert_eq!((coupons.won, coupons.waiting), (30, 0));
    assert_eq!(coupons.stock, coupons.won + coupons.left);
}
