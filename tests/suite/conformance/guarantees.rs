//! Guarantees of a campaign: tried before its pools, kept off stock, and counted over all pools.

use tombola::{
    model::{
        PoolNo,
        personal::{GuaranteeProgress, PoolProgress},
    },
    store::{Cause, DrawAnswer, DrawResult, Operation, WinOperation},
};

use crate::support::{
    Answer as _, DrawWords as _, World, campaign_id, draw, hours, user, users, words::SPRING,
};

promises![
    the_draw_that_is_promised_gives_the_prize,
    a_promise_is_kept_within_one_call_and_across_calls,
    a_promise_stays_due_while_there_is_no_stock,
    the_first_prize_that_can_be_given_is_given,
    guarantees_are_tried_in_their_order_and_reset_by_any_result,
    a_win_of_a_pool_resets_too,
    a_prize_at_its_cap_stays_due,
    a_user_at_the_limit_of_wins_has_it_due,
    a_prize_beyond_the_budget_stays_due,
    barred_draws_do_not_count,
    a_guarantee_begins_to_count_when_it_is_added,
    counters_follow_the_id_from_version_to_version,
    parallel_draws_keep_every_promise,
    responses_and_replays_show_the_guarantees_as_they_were,
    unlimited_prizes_are_counted,
    personal_pools_keep_their_own_counters,
    a_deck_and_a_guarantee_share_stock,
    a_win_of_a_guarantee_can_be_delivered_and_revoked,
    a_draw_that_waits_for_a_fill_counts_once,
];

const FIFTH: &str = "
    consolation: {id: points}
    prizes: [{id: cap, stock: 30}, {id: mug, stock: 100}]
    guarantees: [{id: fifth, prizes: [cap], within: 5}]
    pools:
      - {id: later, unlockAfterDraws: 1000000, schedule: {total: {mug: 1}}}
";

/// The indexes of the draws that a guarantee of the campaign gave, and their units' numbers.
fn given(answer: &DrawAnswer) -> Vec<(usize, u64)> {
    let results = answer.entry.results.iter().enumerate();
    let given = results.filter_map(|(i, result)| match result {
        DrawResult::Won {
            pool: PoolNo::GUARANTEES,
            unit,
            release,
            guarantee,
            ..
        } => {
            assert_eq!((unit.window, *release), (0, None));
            assert!(guarantee.is_some());
            Some((i, unit.number))
        }
        _ => None,
    });
    given.collect()
}

async fn progress(world: &World, id: &str) -> PoolProgress {
    world.record(id).await.progress.of(PoolNo::GUARANTEES)
}

/// The guarantees as callers see them.
async fn shown(world: &World, id: &str) -> Vec<GuaranteeProgress> {
    let view = world.store().user(&campaign_id(SPRING), &user(id)).await;
    view.unwrap().quotas().guarantees
}

async fn since(world: &World, id: &str) -> Vec<u32> {
    let shown = shown(world, id).await;
    shown.iter().map(|guarantee| guarantee.since).collect()
}

async fn the_draw_that_is_promised_gives_the_prize(world: &mut World) {
    world.begin(FIFTH).await;
    for number in 1..=10 {
        let answer = world.draw(draw("u")).await;
        let expected = match number % 5 {
            0 => vec![(0, number / 5 - 1)],
            _ => vec![],
        };
        assert_eq!(given(&answer), expected, "draw {number}");
        let counted = number as u32 % 5;
        let guarantee = GuaranteeProgress {
            pool: PoolNo::GUARANTEES,
            guarantee: 0,
            since: counted,
            left: Some(5 - counted),
            is_due: counted == 4,
        };
        assert_eq!(shown(world, "u").await, [guarantee]);
        assert_eq!(answer.quotas().guarantees, [guarantee]);
        world.pass(hours(7)).await;
        if number == 7 {
            world.reopen().await;
        }
    }
    assert_eq!(progress(world, "u").await.position, 10);
    let cap = world.prize("cap").await;
    assert_eq!((cap.stock, cap.left, cap.won), (30, 28, 2));
}

async fn a_promise_is_kept_within_one_call_and_across_calls(world: &mut World) {
    world.begin(FIFTH).await;
    let answer = world.draw(draw("u").times(12)).await;
    assert_eq!(given(&answer), [(4, 0), (9, 1)]);
    let answer = world.draw(draw("u").times(10)).await;
    assert_eq!(given(&answer), [(2, 2), (7, 3)]);
    assert_eq!(answer.prizes()[..3], ["-", "-", "cap"]);
    let answer = world.draw(draw("v").times(100)).await;
    assert_eq!(answer.count("cap"), 20, "each user alone");
}

async fn a_promise_stays_due_while_there_is_no_stock(world: &mut World) {
    world.begin(&FIFTH.replace("stock: 30", "stock: 1")).await;
    world.draw(draw("v").times(5)).await;
    let answer = world.draw(draw("u").times(8)).await;
    assert_eq!(given(&answer), []);
    assert_eq!(answer.causes(), [Cause::NothingDue; 8]);
    let [due] = shown(world, "u").await[..] else {
        panic!("one guarantee");
    };
    assert_eq!((due.since, due.left, due.is_due), (8, Some(1), true));
    world.change(&FIFTH.replace("stock: 30", "stock: 3")).await;
    let answer = world.draw(draw("u").times(12)).await;
    assert_eq!(given(&answer), [(0, 1), (5, 2)]);
    assert_eq!(world.prize("cap").await.left, 0);
    assert_eq!(since(world, "u").await, [6]);
}

async fn the_first_prize_that_can_be_given_is_given(world: &mut World) {
    let two = FIFTH
        .replace("stock: 30", "stock: 2")
        .replace("prizes: [cap], within: 5", "prizes: [cap, mug], within: 2");
    world.begin(&two).await;
    let cap = world.prize_no("cap").await;
    let answer = world.draw(draw("u").times(2)).await;
    assert_eq!(answer.prizes(), ["-", "cap"]);
    world.operate(Operation::PausePrize { prize: cap }).await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(answer.prizes(), ["-", "mug", "-", "mug"]);
    world.operate(Operation::ResumePrize { prize: cap }).await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes(), ["-", "cap", "-", "mug", "-", "mug"]);
    let mug = world.prize_no("mug").await;
    world.operate(Operation::PausePrize { prize: mug }).await;
    assert_eq!(world.draw(draw("u").times(4)).await.wins(), 0);
    assert_eq!(since(world, "u").await, [4]);
}

async fn guarantees_are_tried_in_their_order_and_reset_by_any_result(world: &mut World) {
    let two = "[{id: a, prizes: [cap], within: 6}, {id: b, prizes: [mug], within: 2}]";
    let old = "[{id: fifth, prizes: [cap], within: 5}]";
    world.begin(&FIFTH.replace(old, two)).await;
    let answer = world.draw(draw("u").times(7)).await;
    // At the sixth both are due; the mug comes with the next one.
    let prizes = ["-", "mug", "-", "mug", "-", "cap", "mug"];
    assert_eq!(answer.prizes(), prizes);
    assert_eq!(since(world, "u").await, [1, 0]);
    let both = "[{id: a, prizes: [cap], within: 4}, {id: b, prizes: [mug, cap], within: 3}]";
    world.change(&FIFTH.replace(old, both)).await;
    let answer = world.draw(draw("v").times(8)).await;
    let four = ["-", "-", "mug", "cap"];
    assert_eq!(answer.prizes(), [four, four].concat());
}

async fn a_win_of_a_pool_resets_too(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: cap, stock: 30}]
            guarantees: [{id: fifth, prizes: [cap], within: 5}]
            pools:
              - id: fourth
                unlockAfterDraws: 3
                deck: {size: 1, cards: {cap: 1}, onExhausted: STOP}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(10)).await;
    let won: Vec<_> = answer.won_units().iter().map(|win| win.pool).collect();
    assert_eq!(won, [PoolNo(0), PoolNo::GUARANTEES]);
    assert_eq!(given(&answer), [(8, 0)]);
    assert_eq!(since(world, "u").await, [1]);
}

async fn a_prize_at_its_cap_stays_due(world: &mut World) {
    let capped = FIFTH.replace("stock: 30", "stock: 30, perUser: {total: 3, perDay: 2}");
    world.begin(&capped).await;
    let answer = world.draw(draw("u").times(20)).await;
    assert_eq!(given(&answer), [(4, 0), (9, 1)]);
    assert_eq!(answer.causes().last(), Some(&Cause::PrizeCap));
    assert_eq!(since(world, "u").await, [10]);
    world.pass(hours(24)).await;
    let answer = world.draw(draw("u").times(20)).await;
    assert_eq!(given(&answer), [(0, 2)]);
    assert_eq!(given(&world.draw(draw("v").times(5)).await), [(4, 3)]);
}

async fn a_user_at_the_limit_of_wins_has_it_due(world: &mut World) {
    let limited = format!(
        "limits: {{winsPerUser: 1}}\n{}",
        FIFTH.replace("\n    ", "\n")
    );
    world.begin(&limited).await;
    let answer = world.draw(draw("u").times(12)).await;
    assert_eq!(given(&answer), [(4, 0)]);
    assert_eq!(answer.causes().last(), Some(&Cause::WinsLimit));
    let more = limited.replace("winsPerUser: 1", "winsPerUser: 2");
    world.change(&more).await;
    assert_eq!(given(&world.draw(draw("u").times(9)).await), [(0, 1)]);
    // A prize that does not count as a win is given.
    let free = more.replace("stock: 30", "stock: 30, countsAsWin: false");
    world.change(&free).await;
    assert_eq!(
        given(&world.draw(draw("u").times(6)).await),
        [(0, 2), (5, 3)]
    );
}

async fn a_prize_beyond_the_budget_stays_due(world: &mut World) {
    let cny = |units: u32| format!("{{currencyCode: CNY, units: {units}}}");
    let (two, day) = (cny(2), cny(5));
    let with_budget = format!(
        "budget: {{perDay: {day}}}\n{}",
        FIFTH
            .replace("\n    ", "\n")
            .replace("stock: 30", &format!("stock: 30, value: {two}"))
            .replace("stock: 100", &format!("stock: 100, value: {two}"))
    );
    world.begin(&with_budget).await;
    let answer = world.draw(draw("u").times(17)).await;
    assert_eq!(given(&answer), [(4, 0), (9, 1)]);
    assert_eq!(answer.causes().last(), Some(&Cause::Budget));
    world.pass(hours(24)).await;
    assert_eq!(given(&world.draw(draw("u")).await), [(0, 2)]);
}

async fn barred_draws_do_not_count(world: &mut World) {
    world.begin(FIFTH).await;
    world.draw(draw("u").times(4)).await;
    let before = progress(world, "u").await;
    let only = draw("u").times(3).consolation_only();
    assert_eq!(world.draw(only).await.causes(), [Cause::ConsolationOnly; 3]);
    let list = users(&["u"]);
    world.operate(Operation::Block { users: list }).await;
    world.draw(draw("u").times(3)).await;
    assert_eq!(progress(world, "u").await, before);
    let list = users(&["u"]);
    world.operate(Operation::Unblock { users: list }).await;
    assert_eq!(world.draw(draw("u")).await.prizes(), ["cap"]);
}

async fn a_guarantee_begins_to_count_when_it_is_added(world: &mut World) {
    let promise = "guarantees: [{id: fifth, prizes: [cap], within: 5}]";
    let without = FIFTH.replace(promise, "guarantees: []");
    world.begin(&without).await;
    world.draw(draw("u").times(9)).await;
    assert_eq!(progress(world, "u").await, PoolProgress::default());
    world.change(FIFTH).await;
    let answer = world.draw(draw("u").times(8)).await;
    assert_eq!(given(&answer), [(4, 0)]);
    // Without guarantees nothing is counted, and nothing is lost.
    world.change(&without).await;
    let answer = world.draw(draw("u").times(8)).await;
    assert_eq!((given(&answer), shown(world, "u").await), (vec![], vec![]));
    world.change(FIFTH).await;
    world.reopen().await;
    assert_eq!(given(&world.draw(draw("u").times(2)).await), [(1, 1)]);
}

async fn counters_follow_the_id_from_version_to_version(world: &mut World) {
    world.begin(FIFTH).await;
    world.draw(draw("u").times(3)).await;
    // Another place, another number; the counter goes on.
    let moved = "[{id: new, prizes: [mug], within: 50}, {id: fifth, prizes: [cap], within: 7}]";
    let old = "[{id: fifth, prizes: [cap], within: 5}]";
    world.change(&FIFTH.replace(old, moved)).await;
    let answer = world.draw(draw("u").times(4)).await;
    assert_eq!(given(&answer), [(3, 0)]);
    let DrawResult::Won { guarantee, .. } = answer.entry.results[3] else {
        panic!("the cap");
    };
    assert_eq!(guarantee, Some(1), "by its index in this version");
    world.draw(draw("u").times(4)).await;
    // A lower `within` is due at once.
    let sooner = FIFTH.replace("within: 5", "within: 2");
    world.change(&sooner).await;
    assert_eq!(
        given(&world.draw(draw("u").times(3)).await),
        [(0, 1), (2, 2)]
    );
    // A new id begins anew, and what was counted for the old one is gone with the next draw.
    world.draw(draw("u")).await;
    world.change(&FIFTH.replace("id: fifth", "id: other")).await;
    assert_eq!(given(&world.draw(draw("u").times(5)).await), [(4, 3)]);
    world.change(FIFTH).await;
    assert_eq!(given(&world.draw(draw("u").times(5)).await), [(4, 4)]);
}

async fn parallel_draws_keep_every_promise(world: &mut World) {
    world.begin(&FIFTH.replace("stock: 30", "stock: 150")).await;
    let calls = (0..300).map(|i| draw(["u", "v", "w"][i % 3]).times(1 + i as u32 % 7));
    let answers = world.storm(calls.collect()).await;
    let mut answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    answers.sort_by_key(|answer| answer.entry.counts.draws);
    let (mut caps, mut due) = (0, 0);
    for name in ["u", "v", "w"] {
        let own = answers.iter().filter(|it| it.entry.user.as_str() == name);
        let prizes: Vec<_> = own.flat_map(|it| it.prizes()).collect();
        due += prizes.len() / 5;
        let won = prizes.iter().enumerate();
        for (number, prize) in won.filter(|(_, prize)| **prize == "cap") {
            assert_eq!(*prize == "cap", number % 5 == 4, "draw {number} of {name}");
            caps += 1;
        }
    }
    assert_eq!((due, caps), (238, 150), "as many as there were");
}

async fn responses_and_replays_show_the_guarantees_as_they_were(world: &mut World) {
    world.begin(FIFTH).await;
    let asked = draw("u").times(6);
    let first = world.draw(asked.clone()).await;
    assert_eq!(first.quotas().guarantees[0].since, 1);
    world.draw(draw("u").times(2)).await;
    let again = world.draw(asked.clone()).await;
    assert!(again.replayed);
    assert_eq!(
        (given(&again), again.quotas()),
        (given(&first), first.quotas())
    );
    world.change(&FIFTH.replace("within: 5", "within: 9")).await;
    let again = world.draw(asked).await;
    assert_eq!(again.entry, first.entry);
    assert_eq!(again.quotas().guarantees, first.quotas().guarantees);
}

async fn unlimited_prizes_are_counted(world: &mut World) {
    world
        .begin(&FIFTH.replace("stock: 30", "unlimited: true"))
        .await;
    let answer = world.draw(draw("u").times(100)).await;
    assert_eq!(answer.count("cap"), 20);
    let cap = world.prize("cap").await;
    assert_eq!((cap.stock, cap.left, cap.won), (20, 0, 20));
}

async fn personal_pools_keep_their_own_counters(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: cap, stock: 4}, {id: star, unlimited: true}, {id: pin, stock: 6}]
            guarantees: [{id: campaign, prizes: [cap, pin], within: 4}]
            pools:
              - id: own
                personal:
                  odds: {pin: 1/1000000000000}
                  guarantees: [{id: pool, prizes: [star], within: 3}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(8)).await;
    // The pool counts the draws that reach it.
    let prizes = ["", "", "star", "cap", "", "", "star", "cap"];
    assert_eq!(answer.prizes(), prizes);
    assert_eq!(since(world, "u").await, [0, 0]);
    let record = world.record("u").await;
    assert_eq!(record.progress.of(PoolNo(0)).position, 6);
    let answer = world.draw(draw("v").times(16)).await;
    assert_eq!((answer.count("cap"), answer.count("pin")), (2, 2));
    assert_eq!(world.prize("pin").await.left, 4);
}

async fn a_deck_and_a_guarantee_share_stock(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: cap, stock: 9}]
            guarantees: [{id: third, prizes: [cap], within: 3}]
            pools:
              - {id: deck, deck: {size: 8, cards: {cap: 2}, onExhausted: RESHUFFLE}}
            ",
        )
        .await;
    let mut won = 0;
    for name in ["u", "v", "w", "x", "y"] {
        for _ in 0..10 {
            won += world.draw(draw(name).times(3)).await.wins();
        }
    }
    // A deck that lacks units for its next round stops; what is left is given by guarantees.
    assert_eq!(won, 9);
    let cap = world.prize("cap").await;
    assert_eq!((cap.left, cap.waiting, cap.won), (0, 0, 9));
    assert!(since(world, "y").await[0] >= 3);
}

async fn a_win_of_a_guarantee_can_be_delivered_and_revoked(world: &mut World) {
    world.begin(&FIFTH.replace("stock: 30", "stock: 2")).await;
    let answer = world.draw(draw("u").times(10)).await;
    let wins = answer.won_units();
    let deliver = WinOperation::Deliver {
        reference: "parcel".into(),
    };
    world.try_operate_win(&wins[0], deliver).await.unwrap();
    assert_eq!(given(&world.draw(draw("u").times(6)).await), []);
    let revoke = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(&wins[1], revoke).await.unwrap();
    // The unit is in stock again; its number is not given a second time.
    assert_eq!(given(&world.draw(draw("u")).await), [(0, 2)]);
}

async fn a_draw_that_waits_for_a_fill_counts_once(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: cap, stock: 30}, {id: mug, stock: 3000}]
            guarantees: [{id: fifth, prizes: [cap], within: 5}]
            pools:
              - {id: hours, schedule: {perHour: {mug: 3}}}
              - {id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}
            ",
        )
        .await;
    for round in 1..=4_u64 {
        world.pass(hours(2)).await;
        let answer = world.draw(draw("u").times(10)).await;
        let numbers = [(4, round * 2 - 2), (9, round * 2 - 1)];
        assert_eq!(given(&answer), numbers);
        assert_eq!(progress(world, "u").await.position, round * 10);
    }
}
