//! Pools that close after wins, and pools that open after draws of a day.

use tombola::{
    model::Moment,
    store::{Operation, Refusal, StoreError},
};

use crate::support::{Answer as _, DrawWords as _, World, bonus, draw, hours, seconds, users};

promises![
    a_pool_is_passed_over_once_the_user_has_its_wins,
    a_pool_opens_after_draws_of_the_day,
    both_hold_within_one_call,
    every_draw_of_the_day_counts_for_its_pools,
    a_new_day_closes_them_again,
    wins_that_do_not_count_close_nothing,
    parallel_calls_open_and_close_pools_once,
    bonus_draws_of_a_day_are_counted_only_where_a_pool_needs_them,
];

/// A deck of mugs for the user's first two wins; from the fourth draw of a day on, a deck of pins.
const GAME: &str = "
    limits: {drawsPerDay: 20}
    consolation: {id: points}
    prizes:
      - {id: mug, stock: 2000}
      - {id: pin, stock: 2000, countsAsWin: false}
    pools:
      - {id: pins, unlockAfterDrawsToday: 3, deck: {size: 1000, cards: {pin: 1000}}}
      - {id: mugs, lockAfterWins: 2, deck: {size: 1000, cards: {mug: 1000}}}
";

/// The same without the pool of pins.
fn mugs() -> String {
    let pins = GAME.lines().find(|line| line.contains("id: pins")).unwrap();
    GAME.replace(pins, "")
}

async fn a_pool_is_passed_over_once_the_user_has_its_wins(world: &mut World) {
    world.begin(&mugs()).await;
    for prize in ["mug", "mug", "-", "-"] {
        assert_eq!(world.draw(draw("u")).await.prizes(), [prize]);
    }
    assert_eq!(world.prize("mug").await.forfeited, 0);
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["-"], "for good");
    assert_eq!(world.draw(draw("v")).await.prizes(), ["mug"]);
    world
        .change(&mugs().replace("lockAfterWins: 2, ", ""))
        .await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["mug"]);
}

async fn a_pool_opens_after_draws_of_the_day(world: &mut World) {
    world.begin(GAME).await;
    for prize in ["mug", "mug", "-", "pin", "pin"] {
        assert_eq!(world.draw(draw("u")).await.prizes(), [prize]);
    }
}

async fn both_hold_within_one_call(world: &mut World) {
    world.begin(GAME).await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes(), ["mug", "mug", "-", "pin", "pin", "pin"]);
}

async fn every_draw_of_the_day_counts_for_its_pools(world: &mut World) {
    world
        .begin(&GAME.replace("drawsPerDay: 20", "drawsPerDay: 1"))
        .await;
    world.draw(draw("u")).await;
    world.draw(draw("u").paid("order")).await;
    world
        .operate(Operation::Grant {
            users: users(&["u"]),
            draws: 1,
            expires: Moment::FAR_FUTURE,
        })
        .await;
    world.store().grant_bonus(bonus("u", 1)).await.unwrap();
    let third = draw("u");
    let answer = world.draw(third.clone()).await;
    assert_eq!(
        (answer.prizes(), answer.entry.counts.bonus_today),
        (vec!["-"], 1)
    );
    world.reopen().await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["pin"]);
    let record = world.record("u").await;
    assert_eq!((record.draws_today(), record.bonus_today), (4, 2));
    let again = world.draw(third).await;
    assert_eq!((again.replayed, &again.entry), (true, &answer.entry));
}

async fn a_new_day_closes_them_again(world: &mut World) {
    let campaign = world.begin(GAME).await;
    world
        .set_time(campaign.start + hours(24) - seconds(1))
        .await;
    world.draw(draw("u").times(4)).await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["pin"]);
    world.set_time(campaign.start + hours(24)).await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(answer.prizes(), ["-", "-", "-", "pin"]);
    assert_eq!(answer.entry.counts.draws, 9);
}

async fn wins_that_do_not_count_close_nothing(world: &mut World) {
    let game = GAME.replace("lockAfterWins: 2", "lockAfterWins: 1");
    world
        .begin(&game.replace("unlockAfterDrawsToday: 3, ", ""))
        .await;
    let answer = world.draw(draw("u").times(3)).await;
    assert_eq!(answer.prizes(), ["pin"; 3]);
    world.change(&game).await;
    world.pass(hours(24)).await;
    assert_eq!(world.draw(draw("u").times(2)).await.prizes(), ["mug", "-"]);
}

async fn parallel_calls_open_and_close_pools_once(world: &mut World) {
    world.begin(GAME).await;
    let calls = (0..100).map(|_| draw("u")).collect();
    let answers = world.storm(calls).await;
    let mut won = [0; 3];
    for answer in answers {
        match answer {
            Ok(answer) => {
                for (index, prize) in ["mug", "pin", "-"].iter().enumerate() {
                    won[index] += answer.count(prize);
                }
            }
            Err(StoreError::Refused(Refusal::Limit { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(won, [2, 17, 1]);
}

async fn bonus_draws_of_a_day_are_counted_only_where_a_pool_needs_them(world: &mut World) {
    let game = GAME.replace("drawsPerDay: 20", "drawsPerDay: 0");
    let without = game.replace("unlockAfterDrawsToday: 3, ", "");
    world.begin(&without).await;
    world.store().grant_bonus(bonus("u", 9)).await.unwrap();
    world.draw(draw("u").times(3)).await;
    assert_eq!(world.record("u").await.bonus_today, 0);
    world.change(&game).await;
    assert_eq!(world.draw(draw("u").times(2)).await.prizes(), ["mug"; 2]);
    assert_eq!(world.record("u").await.bonus_today, 2);
    world.change(&without).await;
    world.draw(draw("u")).await;
    assert_eq!(world.record("u").await.bonus_today, 2, "it stays as it was");
}
