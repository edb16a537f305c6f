//! What a user gets who may not have every prize: one who has reached the limit of wins.

use tombola::store::{Cause, DrawResult, fill::DeckStop};

use crate::support::{Answer as _, DrawWords as _, World, draw, hours};

promises![
    a_schedule_gives_units_of_other_prizes_and_holds_the_rest_for_others,
    the_win_that_reaches_the_limit_changes_the_draws_after_it,
    a_card_that_a_user_may_not_have_is_forfeited,
    a_forfeited_card_without_a_consolation_gives_nothing,
    a_forfeited_card_is_replayed_as_it_was,
    cards_of_others_do_not_depend_on_who_drew,
    a_pool_with_nothing_that_a_user_may_have_is_passed_over,
    a_schedule_that_is_not_filled_is_filled_for_what_a_user_may_have,
    a_forfeited_unit_is_dealt_again,
    a_deck_that_was_out_of_stock_goes_on_with_forfeited_units,
    forfeited_units_are_counted_after_a_reopen,
    more_wins_in_a_new_version_end_what_was_denied,
];

/// A deck without blanks, of which a user may have one mug, and something after it.
const MUGS_AND_STICKERS: &str = "
    limits: {winsPerUser: 1}
    consolation: {id: points}
    prizes:
      - {id: mug, stock: 100}
      - {id: sticker, stock: 100, countsAsWin: false}
      - {id: pin, stock: 100, countsAsWin: false}
    pools:
      - {id: first, deck: {size: 20, cards: {mug: 10, sticker: 10}}}
      - {id: second, deck: {size: 100, cards: {pin: 100}}}
";

async fn a_schedule_gives_units_of_other_prizes_and_holds_the_rest_for_others(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            limits: {winsPerUser: 1}
            consolation: {id: points}
            prizes: [{id: mug, stock: 1000}, {id: sticker, stock: 1000, countsAsWin: false}]
            pools: [{id: hours, schedule: {perHour: {mug: 10, sticker: 10}}}]
            ",
        )
        .await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    let answer = world.draw(draw("u").times(30)).await;
    let counts = ["mug", "sticker", "-"].map(|prize| answer.count(prize));
    assert_eq!(counts, [1, 10, 19]);
    assert_eq!(answer.forfeited(), 0);
    for other in 0..9 {
        let answer = world.draw(draw(&format!("other-{other}"))).await;
        assert_eq!(answer.prizes(), ["mug"]);
    }
    assert_eq!(world.draw(draw("late")).await.prizes(), ["-"]);
}

async fn the_win_that_reaches_the_limit_changes_the_draws_after_it(world: &mut World) {
    let limit = MUGS_AND_STICKERS.replace("winsPerUser: 1", "winsPerUser: 3");
    world.begin(&limit).await;
    let answer = world.draw(draw("u").times(20)).await;
    let counts = ["mug", "sticker", "-"].map(|prize| answer.count(prize));
    assert_eq!(counts, [3, 10, 7]);
    let prizes = answer.prizes();
    let last_mug = prizes.iter().rposition(|prize| *prize == "mug").unwrap();
    let first_without = prizes.iter().position(|prize| *prize == "-").unwrap();
    assert!(last_mug < first_without);
    assert_eq!(world.record("u").await.wins, 3);
}

async fn a_card_that_a_user_may_not_have_is_forfeited(world: &mut World) {
    world.begin(MUGS_AND_STICKERS).await;
    let answer = world.draw(draw("u").times(20)).await;
    let counts = ["mug", "sticker", "pin", "-"].map(|prize| answer.count(prize));
    assert_eq!(counts, [1, 10, 0, 9], "the next pool is not tried");
    assert_eq!(answer.forfeited(), 9);
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.won, mugs.waiting, mugs.left), (1, 0, 99));
    assert_eq!((mugs.forfeited, mugs.returned), (9, 9));
    let stats = world.stats().await;
    assert!(stats.balanced());
    assert_eq!((stats.draws.wins, stats.draws.consolations), (11, 9));
    assert_eq!(
        world.draw(draw("u")).await.prizes(),
        ["pin"],
        "the deck is used up"
    );
}

async fn a_forfeited_card_without_a_consolation_gives_nothing(world: &mut World) {
    let without = MUGS_AND_STICKERS.replace("consolation: {id: points}", "");
    world.begin(&without).await;
    let answer = world.draw(draw("u").times(20)).await;
    assert_eq!((answer.count(""), answer.forfeited()), (9, 9));
    assert_eq!(world.stats().await.draws.nothings, 9);
}

async fn a_forfeited_card_is_replayed_as_it_was(world: &mut World) {
    world.begin(MUGS_AND_STICKERS).await;
    let asked = draw("u").times(20);
    let first = world.draw(asked.clone()).await;
    let again = world.draw(asked.clone()).await;
    assert!(again.replayed);
    assert_eq!(again.entry, first.entry);
    world.draw(draw("u")).await;
    let found = world
        .store()
        .find_draw(&asked.campaign, &asked.user, &asked.request);
    assert_eq!(
        found.await.unwrap().entry,
        first.entry,
        "no longer the latest draw"
    );
}

async fn cards_of_others_do_not_depend_on_who_drew(world: &mut World) {
    world.begin(MUGS_AND_STICKERS).await;
    for number in 0..20 {
        // A user at the limit and a new one in turn: each takes the next card.
        let user = if number % 2 == 0 {
            "u".into()
        } else {
            format!("new-{number}")
        };
        let answer = world.draw(draw(&user)).await;
        let (DrawResult::Won { unit, .. }
        | DrawResult::NotWon {
            cause: Cause::Forfeited { unit, .. },
            ..
        }) = answer.entry.results[0]
        else {
            panic!("the deck has no blanks: {:?}", answer.entry);
        };
        assert_eq!(unit.number, number);
    }
}

async fn a_pool_with_nothing_that_a_user_may_have_is_passed_over(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            limits: {winsPerUser: 1}
            consolation: {id: points}
            prizes: [{id: mug, stock: 100}, {id: sticker, stock: 100, countsAsWin: false}]
            pools:
              - {id: mugs, deck: {size: 10, cards: {mug: 10}}}
              - {id: hours, schedule: {perHour: {mug: 10}}}
              - {id: stickers, deck: {size: 10, cards: {sticker: 10}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes()[0], "mug");
    assert_eq!(answer.prizes()[1..], ["sticker"; 5]);
    assert_eq!(world.prize("mug").await.forfeited, 0);
    assert_eq!(world.draw(draw("v")).await.prizes(), ["mug"]);
}

async fn a_schedule_that_is_not_filled_is_filled_for_what_a_user_may_have(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            limits: {winsPerUser: 0}
            prizes: [{id: mug, stock: 1000}, {id: sticker, stock: 1000, countsAsWin: false}]
            pools: [{id: hours, schedule: {perHour: {mug: 5, sticker: 5}, missed: RELEASE}}]
            ",
        )
        .await;
    // Nobody has filled the hours that have passed.
    world.set_time(campaign.start + hours(3)).await;
    let answer = world.draw(draw("u").times(100)).await;
    assert_eq!((answer.count("sticker"), answer.wins()), (15, 15));
}

async fn a_forfeited_unit_is_dealt_again(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 1}
            prizes: [{id: mug, stock: 3}, {id: sticker, stock: 1000, countsAsWin: false}]
            pools:
              - id: deck
                deck: {size: 2, cards: {mug: 1, sticker: 1}, onExhausted: RESHUFFLE}
            ",
        )
        .await;
    let mut counts = [0; 2];
    for _ in 0..20 {
        let answer = world.draw(draw("u")).await;
        counts[0] += answer.count("mug");
        counts[1] += answer.count("sticker");
    }
    assert_eq!(counts, [1, 10], "ten rounds, of which stock pays for three");
    let mugs = world.prize("mug").await;
    assert_eq!(
        (mugs.won, mugs.left + mugs.waiting, mugs.forfeited),
        (1, 2, 9)
    );
}

async fn a_deck_that_was_out_of_stock_goes_on_with_forfeited_units(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 1}
            prizes: [{id: mug, stock: 12}, {id: sticker, stock: 1000, countsAsWin: false}]
            pools:
              - {id: mugs, deck: {size: 2, cards: {mug: 2}, onExhausted: RESHUFFLE}}
              - {id: both, deck: {size: 40, cards: {mug: 10, sticker: 30}}}
            ",
        )
        .await;
    let stopped = async || world.stats().await.decks[0].stopped;
    // Both decks are dealt, which leaves nothing in stock, or the one card that was forfeited.
    world.draw(draw("u")).await;
    world.draw(draw("u")).await;
    assert_eq!(world.draw(draw("v")).await.prizes(), ["mug"]);
    world.draw(draw("w")).await;
    assert_eq!(stopped().await, Some(DeckStop::OutOfStock));
    while world.prize("mug").await.left < 2 {
        world.draw(draw("u")).await;
    }
    assert_eq!(stopped().await, None);
    let answer = world.draw(draw("x")).await;
    let [DrawResult::Won { pool, unit, .. }] = answer.entry.results[..] else {
        panic!("{:?}", answer.entry);
    };
    assert_eq!(
        (pool.0, unit.window),
        (0, 2),
        "the second round of the deck that had stopped"
    );
}

async fn forfeited_units_are_counted_after_a_reopen(world: &mut World) {
    world.begin(MUGS_AND_STICKERS).await;
    world.draw(draw("u").times(20)).await;
    let before = world.stats().await.prizes;
    world.reopen().await;
    assert_eq!(world.stats().await.prizes, before);
    // A step of a rule counts them once.
    world
        .change(&MUGS_AND_STICKERS.replace("mug, stock: 100", "mug, stock: 150"))
        .await;
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.left, mugs.forfeited), (149, 9));
}

async fn more_wins_in_a_new_version_end_what_was_denied(world: &mut World) {
    world.begin(MUGS_AND_STICKERS).await;
    let before = world.draw(draw("u").times(10)).await.count("mug");
    assert_eq!(before, 1);
    world
        .change(&MUGS_AND_STICKERS.replace("winsPerUser: 1", "winsPerUser: 100"))
        .await;
    let after = world.draw(draw("u").times(10)).await;
    assert_eq!((after.forfeited(), after.wins()), (0, 10));
}
