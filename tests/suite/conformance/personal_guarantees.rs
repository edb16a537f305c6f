//! Guarantees of personal pools: within so many draws, rising chances, 50/50, and what their
//! counters count.

use std::collections::BTreeSet;

use tombola::{
    model::{
        PoolNo,
        personal::{GuaranteeProgress, PoolProgress},
    },
    store::{Cause, DrawAnswer, DrawResult, Operation},
};

use crate::support::{
    Answer as _, DrawWords as _, World, campaign_id, draw, hours, user, users, words::SPRING,
};

promises![
    the_draw_that_is_promised_gives_the_prize,
    a_promise_is_kept_within_one_call_and_across_calls,
    a_ramp_gives_the_prize_while_its_chance_rises,
    of_a_50_50_the_named_prize_comes_after_it_was_missed,
    guarantees_are_tried_in_their_order,
    a_result_resets_every_guarantee_that_it_satisfies,
    a_prize_that_is_stopped_stays_due,
    another_prize_of_the_guarantee_is_given_while_one_is_stopped,
    counters_follow_the_id_from_version_to_version,
    barred_draws_do_not_count,
    what_the_next_pool_gives_resets_nothing,
    parallel_draws_keep_every_promise,
    responses_and_replays_show_the_guarantees_as_they_were,
    prizes_of_guarantees_are_given_beyond_the_limit_of_wins,
    a_prize_beyond_the_budget_stays_due,
    a_cheaper_prize_keeps_the_guarantee_while_the_budget_holds_the_other,
    parallel_draws_keep_budget_and_guarantees,
];

const POOL: PoolNo = PoolNo(0);

/// Nothing but the guarantee gives the star.
const FIFTH: &str = "
    consolation: {id: points}
    prizes: [{id: star, unlimited: true}, {id: pin, unlimited: true}]
    pools:
      - id: own
        personal:
          odds: {pin: 50%}
          guarantees: [{id: fifth, prizes: [star], within: 5}]
";

/// The indexes of the draws that gave a prize, and of those that a guarantee gave.
fn places(answer: &DrawAnswer, prize: &str) -> (Vec<usize>, Vec<usize>) {
    let of = |is: &dyn Fn(usize, &DrawResult) -> bool| {
        let results = answer.entry.results.iter().enumerate();
        results
            .filter(|(i, result)| is(*i, result))
            .map(|(i, _)| i)
            .collect()
    };
    let prizes = answer.prizes();
    let guaranteed = |_: usize, result: &DrawResult| {
        matches!(
            result,
            DrawResult::Won {
                guarantee: Some(_),
                ..
            }
        )
    };
    (of(&|i, _| prizes[i] == prize), of(&guaranteed))
}

async fn progress(world: &World, id: &str) -> PoolProgress {
    world.record(id).await.progress.of(POOL)
}

/// The guarantees as callers see them.
async fn shown(world: &World, id: &str) -> Vec<GuaranteeProgress> {
    let view = world.store().user(&campaign_id(SPRING), &user(id)).await;
    view.unwrap().quotas().guarantees
}

async fn the_draw_that_is_promised_gives_the_prize(world: &mut World) {
    world.begin(FIFTH).await;
    for number in 1..=10 {
        let answer = world.draw(draw("u")).await;
        let is_promised = number % 5 == 0;
        let expected = if is_promised { vec![0] } else { vec![] };
        assert_eq!(places(&answer, "star"), (expected.clone(), expected));
        let since = number % 5;
        let guarantee = GuaranteeProgress {
            pool: POOL,
            guarantee: 0,
            since,
            left: Some(5 - since),
            is_due: since == 4,
        };
        assert_eq!(shown(world, "u").await, [guarantee]);
        assert_eq!(answer.quotas().guarantees, [guarantee]);
        world.pass(hours(7)).await;
        if number == 7 {
            world.reopen().await;
        }
    }
    assert_eq!(progress(world, "u").await.position, 10);
}

async fn a_promise_is_kept_within_one_call_and_across_calls(world: &mut World) {
    world.begin(FIFTH).await;
    let answer = world.draw(draw("u").times(12)).await;
    assert_eq!(places(&answer, "star").0, [4, 9]);
    let answer = world.draw(draw("u").times(10)).await;
    assert_eq!(places(&answer, "star").0, [2, 7]);
    let answer = world.draw(draw("v").times(100)).await;
    assert_eq!(answer.count("star"), 20, "each user alone");
}

async fn a_ramp_gives_the_prize_while_its_chance_rises(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: star, unlimited: true}, {id: pin, unlimited: true}]
            pools:
              - id: own
                personal:
                  odds: {pin: 100%}
                  guarantees: [{id: soon, prizes: [star], ramp: [{from: 3, add: 50%}]}]
            ",
        )
        .await;
    let mut gaps = BTreeSet::new();
    for number in 0..10 {
        let answer = world.draw(draw(&format!("u{number}")).times(100)).await;
        let (stars, guaranteed) = places(&answer, "star");
        assert!(guaranteed.is_empty(), "it is chance that gives them");
        let mut before = 0;
        for star in stars {
            gaps.insert(star + 1 - before);
            before = star + 1;
        }
    }
    // The third with 50%, the fourth surely.
    assert_eq!(gaps, BTreeSet::from([3, 4]));
}

async fn of_a_50_50_the_named_prize_comes_after_it_was_missed(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: hero, unlimited: true}, {id: star, unlimited: true}]
            pools:
              - id: own
                personal:
                  odds: {hero: 5%, star: 15%}
                  guarantees: [{id: half, prizes: [hero, star], within: 4, among: [hero]}]
            ",
        )
        .await;
    let mut firsts = [0, 0];
    for number in 0..40 {
        let name = format!("u{number}");
        let mut results = Vec::new();
        for count in [7, 30, 3, 60] {
            let answer = world.draw(draw(&name).times(count)).await;
            let prizes = answer.prizes().into_iter().map(ToOwned::to_owned);
            results.extend(prizes.zip(answer.entry.results.clone()));
        }
        let given: Vec<_> = results
            .iter()
            .filter(|(prize, _)| !prize.is_empty())
            .collect();
        for pair in given.windows(2) {
            if pair[0].0 == "star" {
                let (prize, result) = pair[1];
                assert_eq!(prize, "hero", "surely the next time");
                let DrawResult::Won { guarantee, .. } = result else {
                    panic!("{result:?}");
                };
                assert_eq!(*guarantee, Some(0));
            } else {
                firsts[usize::from(pair[1].0 == "star")] += 1;
            }
        }
    }
    // Even odds, of at least 40 x 15 tries: far from any luck.
    let all = firsts[0] + firsts[1];
    assert!(
        all > 500 && firsts.iter().all(|it| it * 3 > all),
        "{firsts:?}"
    );
}

async fn guarantees_are_tried_in_their_order(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: star, unlimited: true}, {id: card, unlimited: true}]
            pools:
              - id: own
                personal:
                  odds: {star: 1/100000000000}
                  guarantees:
                    - {id: five, prizes: [star], within: 6}
                    - {id: four, prizes: [card], within: 2}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(7)).await;
    // At the sixth both are due; the card comes with the next one.
    assert_eq!(
        answer.prizes(),
        ["", "card", "", "card", "", "star", "card"]
    );
    let due = shown(world, "u").await;
    assert_eq!([due[0].since, due[1].since], [1, 0]);
}

async fn a_result_resets_every_guarantee_that_it_satisfies(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: star, unlimited: true}, {id: card, unlimited: true}]
            pools:
              - id: own
                personal:
                  odds: {card: 1/100000000000}
                  guarantees:
                    - {id: five, prizes: [star], within: 4}
                    - {id: four, prizes: [card, star], within: 3}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(12)).await;
    let four = ["", "", "card", "star"];
    assert_eq!(answer.prizes(), [four, four, four].concat());
}

async fn a_prize_that_is_stopped_stays_due(world: &mut World) {
    world.begin(FIFTH).await;
    let prize = world.prize_no("star").await;
    world.draw(draw("u").times(3)).await;
    world.operate(Operation::PausePrize { prize }).await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.count("star"), 0);
    let [due] = shown(world, "u").await[..] else {
        panic!("one guarantee");
    };
    assert_eq!((due.since, due.left, due.is_due), (9, Some(1), true));
    world.operate(Operation::ResumePrize { prize }).await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(places(&answer, "star"), (vec![0, 5], vec![0, 5]));
}

async fn another_prize_of_the_guarantee_is_given_while_one_is_stopped(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: hero, unlimited: true}, {id: star, unlimited: true}]
            pools:
              - id: own
                personal:
                  odds: {hero: 1/100000000000}
                  guarantees: [{id: half, prizes: [hero, star], within: 2, among: [hero]}]
            ",
        )
        .await;
    let prize = world.prize_no("hero").await;
    world.operate(Operation::PausePrize { prize }).await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes(), ["", "star", "", "star", "", "star"]);
    world.operate(Operation::ResumePrize { prize }).await;
    let answer = world.draw(draw("u").times(2)).await;
    assert_eq!(answer.prizes(), ["", "hero"], "it was missed before");
}

async fn counters_follow_the_id_from_version_to_version(world: &mut World) {
    world.begin(FIFTH).await;
    world.draw(draw("u").times(3)).await;
    // Another place, another number; the counter goes on.
    let moved = "[{id: new, prizes: [pin], within: 50}, {id: fifth, prizes: [star], within: 7}]";
    let old = "[{id: fifth, prizes: [star], within: 5}]";
    world.change(&FIFTH.replace(old, moved)).await;
    let answer = world.draw(draw("u").times(4)).await;
    let (stars, guaranteed) = places(&answer, "star");
    assert_eq!((stars, guaranteed), (vec![3], vec![3]));
    let DrawResult::Won { guarantee, .. } = answer.entry.results[3] else {
        panic!("the star");
    };
    assert_eq!(guarantee, Some(1), "by its index in this version");
    world.draw(draw("u").times(2)).await;
    // A new id begins anew, and what was counted for the old one is gone with the next draw.
    world.change(&FIFTH.replace("id: fifth", "id: other")).await;
    let answer = world.draw(draw("u").times(5)).await;
    assert_eq!(places(&answer, "star").0, [4]);
    world.change(FIFTH).await;
    let answer = world.draw(draw("u").times(5)).await;
    assert_eq!(places(&answer, "star").0, [4]);
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
    assert_eq!(world.draw(draw("u")).await.prizes(), ["star"]);
}

async fn what_the_next_pool_gives_resets_nothing(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: star, unlimited: true}, {id: mug, stock: 0}]
            pools:
              - id: own
                personal:
                  odds: {mug: 100%}
                  guarantees: [{id: third, prizes: [star], within: 3}]
              - {id: stars, personal: {odds: {star: 100%}}}
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    let pools: Vec<_> = answer.won_units().iter().map(|won| won.pool.0).collect();
    assert_eq!(answer.prizes(), ["star"; 6]);
    assert_eq!(pools, [1, 1, 0, 1, 1, 0]);
}

async fn parallel_draws_keep_every_promise(world: &mut World) {
    world.begin(FIFTH).await;
    let calls = (0..300).map(|i| draw(["u", "v", "w"][i % 3]).times(1 + i as u32 % 7));
    let answers = world.storm(calls.collect()).await;
    let mut answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    answers.sort_by_key(|answer| answer.entry.counts.draws);
    for name in ["u", "v", "w"] {
        let own = answers.iter().filter(|it| it.entry.user.as_str() == name);
        let prizes: Vec<_> = own.flat_map(|it| it.prizes()).collect();
        for (number, prize) in (1..).zip(prizes) {
            assert_eq!(prize == "star", number % 5 == 0, "draw {number} of {name}");
        }
    }
}

async fn responses_and_replays_show_the_guarantees_as_they_were(world: &mut World) {
    world.begin(FIFTH).await;
    let asked = draw("u").times(3);
    let first = world.draw(asked.clone()).await;
    assert_eq!(first.quotas().guarantees[0].since, 3);
    world.draw(draw("u").times(4)).await;
    let again = world.draw(asked.clone()).await;
    assert!(again.replayed);
    assert_eq!(again.quotas(), first.quotas());
    world.change(&FIFTH.replace("within: 5", "within: 9")).await;
    let again = world.draw(asked).await;
    assert_eq!(again.entry, first.entry);
    assert_eq!(again.quotas().guarantees, first.quotas().guarantees);
}

async fn prizes_of_guarantees_are_given_beyond_the_limit_of_wins(world: &mut World) {
    world
        .begin(
            "
            limits: {winsPerUser: 1}
            prizes: [{id: star, unlimited: true, countsAsWin: false}, {id: mug, stock: 100}]
            pools:
              - id: own
                personal:
                  odds: {mug: 100%}
                  guarantees: [{id: third, prizes: [star], within: 3}]
            ",
        )
        .await;
    let answer = world.draw(draw("u").times(6)).await;
    assert_eq!(answer.prizes(), ["mug", "", "star", "", "", "star"]);
}

/// The campaign of which a unit of the star is worth 2 yuan, and this is won on a day at most.
fn within_a_budget(per_day: u32) -> String {
    let cny = |units: u32| format!("{{currencyCode: CNY, units: {units}}}");
    let (worth, nothing) = (cny(2), cny(0));
    let priced = FIFTH
        .replace(
            "{id: star, unlimited: true}",
            &format!("{{id: star, unlimited: true, value: {worth}}}"),
        )
        .replace(
            "{id: pin, unlimited: true}",
            &format!("{{id: pin, unlimited: true, value: {nothing}}}"),
        );
    format!(
        "budget: {{perDay: {}}}\n{}",
        cny(per_day),
        priced.replace("\n    ", "\n")
    )
}

async fn a_prize_beyond_the_budget_stays_due(world: &mut World) {
    world.begin(&within_a_budget(5)).await;
    // Two stars fit. From then on it is due, and stays so.
    let answer = world.draw(draw("u").times(17)).await;
    assert_eq!(places(&answer, "star"), (vec![4, 9], vec![4, 9]));
    let own = progress(world, "u").await;
    let since: Vec<_> = own.counters.values().map(|it| it.since).collect();
    assert_eq!((own.position, since), (17, vec![7]));
    let answer = world.draw(draw("u").times(3)).await;
    assert_eq!(places(&answer, "star"), (vec![], vec![]));
    // Another user finds the same.
    let answer = world.draw(draw("v").times(6)).await;
    assert_eq!(places(&answer, "star"), (vec![], vec![]));
    world.pass(hours(24)).await;
    for name in ["u", "v"] {
        let answer = world.draw(draw(name).times(2)).await;
        assert_eq!(places(&answer, "star"), (vec![0], vec![0]), "{name}");
    }
}

async fn a_cheaper_prize_keeps_the_guarantee_while_the_budget_holds_the_other(world: &mut World) {
    world
        .begin(
            "
            budget: {total: {currencyCode: CNY, units: 9}}
            prizes:
              - {id: hero, unlimited: true, value: {currencyCode: CNY, units: 5}}
              - {id: star, unlimited: true, value: {currencyCode: CNY, units: 2}}
            pools:
              - id: own
                personal:
                  odds: {hero: 1/100000000000}
                  guarantees: [{id: half, prizes: [hero, star], within: 2}]
            ",
        )
        .await;
    // Only the odds of the hero are above 0, so it is the hero while it fits.
    let answer = world.draw(draw("u").times(10)).await;
    let given = ["", "hero", "", "star", "", "star", "", "", "", ""];
    assert_eq!(answer.prizes(), given);
    assert_eq!(answer.causes().last(), Some(&Cause::Budget));
}

async fn parallel_draws_keep_budget_and_guarantees(world: &mut World) {
    world.begin(&within_a_budget(40)).await;
    let calls = (0..300).map(|i| draw(["u", "v", "w"][i % 3]).times(1 + i as u32 % 7));
    let answers = world.storm(calls.collect()).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let stars: usize = answers.iter().map(|it| it.count("star")).sum();
    assert_eq!(stars, 20, "as many as fit, of 240");
    world.pass(hours(24)).await;
    for name in ["u", "v", "w"] {
        let answer = world.draw(draw(name)).await;
        assert_eq!(answer.prizes(), ["star"], "{name}");
    }
}
