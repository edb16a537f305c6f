//! Personal pools: each user's draws follow from the seed, the pool, the user and the position,
//! whoever draws beside them and however the draws are split into calls.

use tombola::{
    chance::{Kind, Salt, UserChance},
    model::{
        Campaign, PoolNo,
        personal::{PoolProgress, Progress},
    },
    store::{Cause, DrawAnswer, Operation, StoreError, Sweep, WinOperation},
};

use crate::support::{
    Answer as _, DrawWords as _, World, campaign_id, draw, hours, users, words::SPRING, world::key,
};

promises![
    draws_are_those_that_the_seed_gives_the_user,
    parallel_draws_of_a_user_take_each_position_once,
    replicas_go_on_where_another_one_stopped,
    a_retry_gets_the_same_draws_again,
    what_is_out_of_stock_gives_the_fallback_and_then_the_next_pool,
    a_prize_that_is_stopped_gives_the_fallback,
    stock_is_exact_under_a_thousand_parallel_calls,
    the_limit_of_wins_and_caps_hold_within_one_call,
    a_pool_with_nothing_that_the_user_may_have_is_passed_over,
    draws_that_do_not_reach_the_pool_keep_the_position,
    a_refused_draw_keeps_the_position,
    every_round_of_a_users_deck_is_exact,
    a_deck_that_stops_is_followed_by_the_next_pool,
    a_deck_keeps_its_composition,
    odds_may_change_and_positions_go_on,
    a_revoked_win_is_back_in_stock,
    what_draws_take_off_stock_is_withdrawn_after_a_loss,
];

const POOL: PoolNo = PoolNo(0);

/// Half of all draws win something.
const ODDS: &str = "
    consolation: {id: points}
    prizes: [{id: mug, stock: 100000}, {id: pin, unlimited: true}]
    pools: [{id: own, personal: {odds: {mug: 20%, pin: 30%}}}]
";

/// The chance of a user, derived as an outsider would who has the key.
async fn chance_of(world: &World, user: &str) -> UserChance {
    let id = campaign_id(SPRING);
    let view = world.store().campaign(&id).await.unwrap();
    let partition = world.store().partition_of(SPRING);
    let salt = world.store().salt(partition, SPRING, Salt([0; 32])).await;
    let pseudonyms = key().pseudonyms(SPRING, &salt.unwrap());
    let seed = key().campaign_seed(&id, &view.nonce);
    UserChance::new(seed, pseudonyms.of(Kind::User, user))
}

/// The results of a user's first draws: the ids of prizes, and `-` for none.
async fn expected(world: &World, user: &str, draws: usize) -> Vec<String> {
    let chance = chance_of(world, user).await;
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    given(&chance, &view.campaign, PoolProgress::default(), draws)
}

fn given(
    chance: &UserChance,
    campaign: &Campaign,
    mut progress: PoolProgress,
    draws: usize,
) -> Vec<String> {
    let mut given = Vec::new();
    for _ in 0..draws {
        let draw = chance.draw(campaign, POOL, &progress, |_| false).unwrap();
        let id = |prize| campaign.prize(prize).id.to_string();
        given.push(draw.prize.map_or("-".into(), id));
        progress = draw.after;
    }
    given
}

async fn position(world: &World, user: &str) -> u64 {
    world.record(user).await.progress.of(POOL).position
}

async fn draws_are_those_that_the_seed_gives_the_user(world: &mut World) {
    world.begin(ODDS).await;
    for name in ["u", "v", "w"] {
        let mut drawn = Vec::new();
        for count in [1, 9, 2, 30, 1, 17] {
            let answer = world.draw(draw(name).times(count)).await;
            drawn.extend(answer.prizes().into_iter().map(ToOwned::to_owned));
            world.pass(hours(9)).await;
        }
        assert_eq!(drawn, expected(world, name, 60).await);
        assert_eq!(position(world, name).await, 60);
        world.reopen().await;
    }
    let of = |user| expected(world, user, 60);
    assert_ne!(of("u").await, of("v").await, "each user has odds alone");
}

async fn parallel_draws_of_a_user_take_each_position_once(world: &mut World) {
    world.begin(ODDS).await;
    let calls = (0..150).map(|i| draw(["u", "v"][i % 2]).times(1 + i as u32 % 4));
    let answers = world.storm(calls.collect()).await;
    let mut answers: Vec<DrawAnswer> = answers.into_iter().map(Result::unwrap).collect();
    answers.sort_by_key(|answer| answer.entry.counts.draws);
    for name in ["u", "v"] {
        let own = answers.iter().filter(|it| it.entry.user.as_str() == name);
        let drawn: Vec<_> = own.flat_map(DrawAnswer::prizes_owned).collect();
        assert_eq!(drawn, expected(world, name, drawn.len()).await);
        assert_eq!(position(world, name).await, drawn.len() as u64);
    }
}

/// Like [`Answer::prizes`], for answers that are gone before.
trait Owned {
    fn prizes_owned(&self) -> Vec<String>;
}

impl Owned for DrawAnswer {
    fn prizes_owned(&self) -> Vec<String> {
        self.prizes().into_iter().map(ToOwned::to_owned).collect()
    }
}

async fn replicas_go_on_where_another_one_stopped(world: &mut World) {
    world.begin(ODDS).await;
    let other = world.another_replica().await;
    let mut drawn = Vec::new();
    for number in 0..30 {
        let world = if number % 3 == 0 { &*world } else { &other };
        drawn.extend(world.draw(draw("u")).await.prizes_owned());
    }
    assert_eq!(drawn, expected(world, "u", 30).await);
}

async fn a_retry_gets_the_same_draws_again(world: &mut World) {
    world.begin(ODDS).await;
    let asked = draw("u").times(20);
    let first = world.draw(asked.clone()).await;
    for _ in 0..2 {
        let again = world.draw(asked.clone()).await;
        assert!(again.replayed);
        assert_eq!(again.entry, first.entry);
        assert_eq!(again.quotas(), first.quotas());
        world.draw(draw("u").times(5)).await;
    }
    assert_eq!(position(world, "u").await, 30);
    let found = world
        .store()
        .find_draw(&asked.campaign, &asked.user, &asked.request);
    assert_eq!(found.await.unwrap().entry, first.entry);
}

/// Three mugs, two pins for those who get none, and a deck of coins.
const SHORT: &str = "
    prizes: [{id: mug, stock: 3}, {id: pin, stock: 2}, {id: coin, stock: 100}]
    pools:
      - {id: own, personal: {odds: {mug: 100%}, fallback: pin}}
      - {id: coins, deck: {size: 100, cards: {coin: 100}}}
";

async fn what_is_out_of_stock_gives_the_fallback_and_then_the_next_pool(world: &mut World) {
    world.begin(SHORT).await;
    let first = world.draw(draw("u").times(4)).await;
    assert_eq!(first.prizes(), ["mug", "mug", "mug", "pin"]);
    let second = world.draw(draw("v").times(3)).await;
    assert_eq!(second.prizes(), ["pin", "coin", "coin"]);
    let numbers = first.won_units().into_iter().map(|won| won.unit.number);
    assert!(numbers.eq(0..4), "units are numbered in the pool");
    assert_eq!(position(world, "v").await, 3, "each draw reached the pool");
    let mugs = world.prize("mug").await;
    assert_eq!((mugs.left, mugs.won, mugs.waiting), (0, 3, 0));
    assert!(world.stats().await.balanced());
    let bare = SHORT.replace(", fallback: pin", "");
    world.change(&bare).await;
    assert_eq!(world.draw(draw("w")).await.prizes(), ["coin"]);
}

async fn a_prize_that_is_stopped_gives_the_fallback(world: &mut World) {
    world.begin(SHORT).await;
    let prize = world.prize_no("mug").await;
    world.operate(Operation::PausePrize { prize }).await;
    let answer = world.draw(draw("u").times(3)).await;
    assert_eq!(answer.prizes(), ["pin", "pin", "coin"]);
    world.operate(Operation::ResumePrize { prize }).await;
    let answer = world.draw(draw("u").times(2)).await;
    assert_eq!(answer.prizes(), ["mug", "mug"]);
    assert_eq!(position(world, "u").await, 5);
}

async fn stock_is_exact_under_a_thousand_parallel_calls(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: mug, stock: 300}]
            pools: [{id: own, personal: {odds: {mug: 50%}}}]
            ",
        )
        .await;
    let calls = (0..1000).map(|i| draw(&format!("u{}", i % 70)).times(1 + i % 3));
    let answers = world.storm(calls.collect()).await;
    let won: usize = answers.into_iter().map(|it| it.unwrap().wins()).sum();
    // Of 2,000 draws about 1,000 draw a mug.
    assert_eq!(won, 300);
    assert_eq!(world.prize("mug").await.left, 0);
}

async fn the_limit_of_wins_and_caps_hold_within_one_call(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 2}
            prizes: [{id: mug, stock: 100}, {id: pin, unlimited: true, countsAsWin: false}]
            pools: [{id: own, personal: {odds: {mug: 100%}, fallback: pin}}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(answer.prizes(), ["mug", "mug", "pin", "pin"]);
    assert_eq!(world.draw(draw("u")).await.prizes(), ["pin"]);
    let record = world.record("u").await;
    assert_eq!((record.wins, position(world, "u").await), (2, 5));
    world
        .change(
            "
            prizes:
              - {id: mug, stock: 100, perUser: {perDay: 1}}
              - {id: pin, unlimited: true, countsAsWin: false, perUser: {total: 2}}
            pools: [{id: own, personal: {odds: {mug: 100%}, fallback: pin}}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(answer.prizes(), ["mug", "pin", "pin", ""]);
    assert_eq!(answer.causes(), [Cause::PrizeCap]);
    world.pass(hours(24)).await;
    let answer = world.draw(draw("u").times(2)).await;
    assert_eq!(answer.prizes(), ["mug", ""]);
}

async fn a_pool_with_nothing_that_the_user_may_have_is_passed_over(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 1}
            prizes: [{id: mug, stock: 100}, {id: pin, stock: 100, countsAsWin: false}]
            pools:
              - {id: own, personal: {odds: {mug: 100%}}}
              - {id: pins, personal: {odds: {pin: 100%}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(3)).await;
    assert_eq!(answer.prizes(), ["mug", "pin", "pin"]);
    let progress = world.record("u").await.progress;
    let positions = [POOL, PoolNo(1)].map(|pool| progress.of(pool).position);
    assert_eq!(
        positions,
        [1, 2],
        "a pool that is passed over counts nothing"
    );
}

async fn draws_that_do_not_reach_the_pool_keep_the_position(world: &mut World) {
    let campaign = world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            consolation: {id: points}
            prizes: [{id: car, stock: 10}, {id: pin, unlimited: true}]
            pools:
              - {id: hours, schedule: {perHour: {car: 1}}}
              - id: own
                unlockAfterDraws: 2
                segments: {any: [gold]}
                personal: {odds: {pin: 100%}}
            ",
        )
        .await;
    let progress = async |world: &World| world.record("u").await.progress;
    world.draw(draw("u").times(2).with(&["gold"])).await;
    world.draw(draw("u")).await;
    world.draw(draw("u").with(&["silver"])).await;
    let only = draw("u").with(&["gold"]).consolation_only();
    assert_eq!(world.draw(only).await.causes(), [Cause::ConsolationOnly]);
    let list = users(&["u"]);
    world.operate(Operation::Block { users: list }).await;
    let blocked = world.draw(draw("u").with(&["gold"])).await;
    assert_eq!(blocked.causes(), [Cause::Blocked]);
    let list = users(&["u"]);
    world.operate(Operation::Unblock { users: list }).await;
    assert_eq!(progress(world).await, Progress::default());
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    world.tick().await;
    let answer = world.draw(draw("u").times(3).with(&["gold"])).await;
    assert_eq!(answer.prizes(), ["car", "pin", "pin"]);
    let at = progress(world).await.of(PoolNo(1)).position;
    assert_eq!(at, 2, "the schedule gave the first one");
}

async fn a_refused_draw_keeps_the_position(world: &mut World) {
    world
        .begin(&format!(
            "limits: {{drawsPerDay: 12}}\n{}",
            unindented(ODDS)
        ))
        .await;
    world.draw(draw("u").times(10)).await;
    world.refused(draw("u").times(3)).await;
    world.draw(draw("u").times(2)).await;
    assert_eq!(position(world, "u").await, 12);
}

fn unindented(yaml: &str) -> String {
    yaml.lines()
        .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
        .collect()
}

const DECK: &str = "
    consolation: {id: points}
    prizes:
      - {id: car, stock: 1000, grand: true}
      - {id: mug, stock: 1000}
      - {id: pin, unlimited: true}
    pools:
      - id: own
        personal:
          deck: {size: 10, cards: {car: 1, mug: 3, pin: 2}, onExhausted: RESHUFFLE}
";

async fn every_round_of_a_users_deck_is_exact(world: &mut World) {
    world.begin(DECK).await;
    for user in 0..20 {
        let name = format!("u{user}");
        let mut drawn = Vec::new();
        for count in [3, 10, 1, 6, 20] {
            drawn.extend(world.draw(draw(&name).times(count)).await.prizes_owned());
        }
        for (round, cards) in drawn.chunks(10).enumerate() {
            let count = |prize| cards.iter().filter(|card| *card == prize).count();
            let counts = ["car", "mug", "pin", "-"].map(count);
            // The car's share goes to the others, the largest remainder first.
            let exact = if round == 0 {
                [1, 3, 2, 4]
            } else {
                [0, 3, 2, 5]
            };
            assert_eq!(counts, exact, "user {user}, round {round}: {drawn:?}");
        }
        assert_eq!(drawn, expected(world, &name, 40).await);
    }
}

async fn a_deck_that_stops_is_followed_by_the_next_pool(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: mug, stock: 1000}, {id: pin, unlimited: true}]
            pools:
              - {id: own, personal: {deck: {size: 4, cards: {mug: 4}}}}
              - {id: pins, personal: {odds: {pin: 100%}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes(), ["mug", "mug", "mug", "mug", "pin", "pin"]);
    assert_eq!(position(world, "u").await, 4);
    assert_eq!(world.draw(draw("v")).await.prizes(), ["mug"]);
}

async fn a_deck_keeps_its_composition(world: &mut World) {
    world.begin(DECK).await;
    let first = world.draw(draw("u").times(4)).await;
    let other = crate::support::campaign(&DECK.replace("mug: 3", "mug: 4"));
    let refused = world.try_apply(other, 1).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
    // What else changes does not touch it.
    world
        .change(&DECK.replace("stock: 1000}", "stock: 2000}"))
        .await;
    let rest = world.draw(draw("u").times(6)).await;
    let drawn = [first.prizes_owned(), rest.prizes_owned()].concat();
    assert_eq!(drawn, expected(world, "u", 10).await);
    assert_eq!(drawn.iter().filter(|card| *card == "mug").count(), 3);
}

async fn odds_may_change_and_positions_go_on(world: &mut World) {
    world.begin(ODDS).await;
    world.draw(draw("u").times(5)).await;
    let sure = ODDS.replace("mug: 20%, pin: 30%", "mug: 100%");
    world.change(&sure).await;
    let answer = world.draw(draw("u").times(5)).await;
    assert_eq!(answer.prizes(), ["mug"; 5]);
    assert_eq!(position(world, "u").await, 10);
    world.change(ODDS).await;
    let view = world.store().campaign(&campaign_id(SPRING)).await.unwrap();
    let progress = world.record("u").await.progress.of(POOL);
    let next = given(&chance_of(world, "u").await, &view.campaign, progress, 20);
    assert_eq!(world.draw(draw("u").times(20)).await.prizes_owned(), next);
}

async fn a_revoked_win_is_back_in_stock(world: &mut World) {
    world.begin(SHORT).await;
    let answer = world.draw(draw("u").times(3)).await;
    let won = &answer.won_units()[1];
    let revoke = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(won, revoke).await.unwrap();
    assert_eq!(world.prize("mug").await.left, 1);
    let answer = world.draw(draw("v").times(2)).await;
    assert_eq!(answer.prizes(), ["mug", "pin"]);
    let numbers = answer.won_units().into_iter().map(|won| won.unit.number);
    assert!(numbers.eq(3..5), "a number is never given twice");
}

/// Draws in entries that were lost may have won any unit in stock of what personal pools and
/// guarantees give. Other stock stays.
async fn what_draws_take_off_stock_is_withdrawn_after_a_loss(world: &mut World) {
    const ALL: &str = "
        prizes:
          - {id: mug, stock: 3}
          - {id: pin, stock: 20}
          - {id: cap, stock: 30}
          - {id: star, unlimited: true}
          - {id: coin, stock: 5000}
        guarantees: [{id: second, prizes: [cap, star], within: 2}]
        pools:
          - {id: own, personal: {odds: {mug: 100%}, fallback: pin}}
          - {id: coins, deck: {size: 100, cards: {coin: 100}, onExhausted: RESHUFFLE}}
    ";
    let begun = world.begin(ALL).await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(answer.prizes(), ["mug", "cap", "mug", "cap"]);
    world
        .operate(Operation::PausePrize {
            prize: world.prize_no("mug").await,
        })
        .await;
    let coins = world.prize("coin").await;
    let until = world.time();
    let sweep = Sweep::Recovery { until };
    let (mut withdrawn, mut more) = (0, true);
    while more {
        let swept = world.store().sweep(&begun.id, sweep).await.unwrap();
        withdrawn += swept.units.values().sum::<u64>();
        more = swept.more;
    }
    assert_eq!(withdrawn, 1 + 20 + 28 + coins.waiting);
    for (id, left) in [("mug", 0), ("pin", 0), ("cap", 0), ("coin", coins.left)] {
        assert_eq!(world.prize(id).await.left, left, "{id}");
    }
    let star = world.prize("star").await;
    assert_eq!(
        (star.stock, star.withdrawn),
        (0, 0),
        "there is always enough"
    );
    let answer = world.draw(draw("u").times(2)).await;
    assert_eq!(answer.prizes(), ["coin", "star"]);
    // What the operator knows was not won is given anew.
    world.change(&ALL.replace("stock: 30", "stock: 31")).await;
    let answer = world.draw(draw("v").times(4)).await;
    assert_eq!(answer.prizes(), ["coin", "cap", "coin", "star"]);
    assert!(world.stats().await.balanced());
}
