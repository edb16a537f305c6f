//! One request id has one outcome (P4).

use std::collections::BTreeMap;

use tombola::{
    model::Moment,
    store::{DrawAnswer, DrawCommand, Operation, Refusal, StoreError},
};

use crate::support::{Answer as _, DrawWords as _, World, at, draw, hours, seconds};
use crate::support::{request, user, words::campaign_id};

promises![
    a_request_sent_a_hundred_times_in_parallel_has_one_effect,
    each_of_a_hundred_requests_of_a_user_in_parallel_has_one_effect,
    a_replay_is_the_same_answer_after_midnight,
    a_replay_is_the_same_answer_while_the_campaign_is_paused,
    a_replay_is_the_same_answer_after_the_campaign_was_closed,
    a_replay_is_the_same_answer_after_the_end,
    a_replay_is_the_same_answer_after_a_new_version,
    a_replay_is_the_same_answer_after_a_reopen,
    a_replay_is_the_same_answer_of_a_user_who_was_blocked,
    an_answer_of_a_hundred_results_is_replayed_in_full,
    a_forgotten_request_is_a_new_draw,
    a_remembered_request_is_not_forgotten_early,
    other_contents_under_a_used_request_id_are_refused,
    a_refused_request_is_not_remembered,
    a_request_id_of_another_user_is_another_draw,
    a_request_id_of_another_campaign_is_another_draw,
    an_expired_request_never_draws_but_is_replayed,
    a_draw_that_comes_after_its_deadline_does_not_happen,
    a_draw_is_found_by_its_request_id,
];

const YAML: &str = "
    limits: {drawsPerDay: 200}
    consolation: {id: points}
    prizes: [{id: coupon, stock: 500}]
    pools: [{id: deck, deck: {size: 1000, cards: {coupon: 500}}}]
";

async fn a_request_sent_a_hundred_times_in_parallel_has_one_effect(world: &mut World) {
    world.begin(YAML).await;
    let once = draw("u").times(7).named("double-click");
    let answers = world.storm(vec![once; 100]).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    for answer in &answers {
        same(answer, &answers[0]);
    }
    let replayed = answers.iter().filter(|answer| answer.replayed).count();
    assert_eq!(replayed, 99);
    assert_eq!(world.record("u").await.draws, 7);
}

/// In two storms: in the second one older draws of the user are stored already, and requests of the
/// first one are repeated. Every third request is sent three times at once, every third one has a
/// payment, and another user draws in between. The quota is too small for all free draws.
async fn each_of_a_hundred_requests_of_a_user_in_parallel_has_one_effect(world: &mut World) {
    world.begin(YAML).await;
    let count_of = |n: u32| 1 + n % 6;
    let command = |n: u32| {
        let command = draw("u").times(count_of(n)).named(&format!("r{n}"));
        match n % 3 {
            1 => command.paid(&format!("order-{n}")),
            _ => command,
        }
    };
    let mut answers: BTreeMap<u32, Vec<DrawAnswer>> = BTreeMap::new();
    for requests in [0..50, 40..100] {
        let (mut numbers, mut commands) = (Vec::new(), Vec::new());
        for n in requests {
            for _ in 0..if n % 3 == 0 { 3 } else { 1 } {
                numbers.push(n);
                commands.push(command(n));
            }
            if n % 10 == 0 {
                numbers.push(1000 + n);
                commands.push(draw("other"));
            }
        }
        for (n, answer) in numbers.into_iter().zip(world.storm(commands).await) {
            match answer {
                Ok(answer) => answers.entry(n).or_default().push(answer),
                Err(StoreError::Refused(Refusal::Limit { .. })) => {}
                Err(error) => panic!("request {n}: {error}"),
            }
        }
    }
    answers.retain(|n, _| *n < 1000);
    let mut draws = 0;
    for (n, answers) in &answers {
        let made = answers.iter().filter(|answer| !answer.replayed).count();
        assert_eq!(made, 1, "request {n}");
        let again = world.draw(command(*n)).await;
        assert!(again.replayed, "request {n}");
        for answer in answers {
            same(answer, &again);
        }
        draws += u64::from(count_of(*n));
    }
    let record = world.record("u").await;
    assert_eq!(record.draws, draws);
    assert!(
        record.free_today <= 200 && answers.len() < 100,
        "{record:?}"
    );
}

async fn a_replay_is_the_same_answer_after_midnight(world: &mut World) {
    let first = first(world).await;
    world.pass(hours(23)).await;
    world.draw(draw("u")).await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_while_the_campaign_is_paused(world: &mut World) {
    let first = first(world).await;
    world.operate(Operation::Pause).await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_after_the_campaign_was_closed(world: &mut World) {
    let first = first(world).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_after_the_end(world: &mut World) {
    world.begin(YAML).await;
    world.at("2026-12-19T23:59:59+08:00").await;
    let first = world.draw(once()).await;
    world.at("2026-12-20T00:00:00+08:00").await;
    world.tick().await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_after_a_new_version(world: &mut World) {
    let first = first(world).await;
    world
        .change(
            "
            limits: {drawsPerDay: 1}
            prizes: [{id: coupon, name: Renamed, stock: 900}]
            pools: [{id: deck, deck: {size: 1000, cards: {coupon: 500}}}]
            ",
        )
        .await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_after_a_reopen(world: &mut World) {
    let first = first(world).await;
    world.reopen().await;
    replayed(world, &first).await;
}

async fn a_replay_is_the_same_answer_of_a_user_who_was_blocked(world: &mut World) {
    let first = first(world).await;
    let users = vec![user("u")];
    world.operate(Operation::Block { users }).await;
    replayed(world, &first).await;
}

async fn an_answer_of_a_hundred_results_is_replayed_in_full(world: &mut World) {
    world.begin(YAML).await;
    let hundred = once().times(100);
    let first = world.draw(hundred.clone()).await;
    let again = world.draw(hundred).await;
    assert_eq!(again.entry.results.len(), 100);
    same(&again, &first);
}

async fn a_forgotten_request_is_a_new_draw(world: &mut World) {
    let first = first(world).await;
    world.pass(hours(24) + seconds(1)).await;
    world.tick().await;
    let again = world.draw(once()).await;
    assert!(!again.replayed);
    assert!(again.ledger > first.ledger);
    assert_eq!(world.record("u").await.draws, 6);
}

async fn a_remembered_request_is_not_forgotten_early(world: &mut World) {
    let first = first(world).await;
    world.pass(hours(24) - seconds(1)).await;
    world.tick().await;
    replayed(world, &first).await;
}

async fn other_contents_under_a_used_request_id_are_refused(world: &mut World) {
    world.begin(YAML).await;
    world.draw(once().paid("order-1")).await;
    for other in [
        once().paid("order-1").times(4),
        once().paid("order-2"),
        once(),
        once().paid("order-1").consolation_only(),
    ] {
        assert_eq!(world.refused(other).await, Refusal::RequestIdReused);
    }
    assert!(world.draw(once().paid("order-1")).await.replayed);
}

async fn a_refused_request_is_not_remembered(world: &mut World) {
    world.begin(YAML).await;
    world.operate(Operation::Pause).await;
    assert_eq!(world.refused(once()).await, Refusal::Paused);
    world.operate(Operation::Resume).await;
    assert!(!world.draw(once().times(2)).await.replayed);
}

async fn a_request_id_of_another_user_is_another_draw(world: &mut World) {
    let first = first(world).await;
    let other = world.draw(draw("other").times(3).named("once")).await;
    assert!(!other.replayed);
    assert_ne!(other.ledger, first.ledger);
}

async fn a_request_id_of_another_campaign_is_another_draw(world: &mut World) {
    let first = first(world).await;
    world
        .begin(&format!("id: autumn\n{}", dedented(YAML)))
        .await;
    let other = world.draw(once().of("autumn")).await;
    assert!(!other.replayed);
    assert_ne!(other.ledger, first.ledger);
    replayed(world, &first).await;
}

async fn an_expired_request_never_draws_but_is_replayed(world: &mut World) {
    world.begin(YAML).await;
    let expires = at("2026-11-20T00:10:00+08:00");
    let first = world.draw(once().expiring(expires)).await;
    world.at("2026-11-20T00:10:01+08:00").await;
    let again = world.draw(once().expiring(expires)).await;
    same(&again, &first);
    let late = draw("u").named("late").expiring(expires);
    assert_eq!(world.refused(late).await, Refusal::Expired(expires));
    let in_1970 = draw("u").named("in-1970").expiring(Moment::EPOCH);
    let refused = world.refused(in_1970).await;
    assert_eq!(refused, Refusal::Expired(Moment::EPOCH));
    world.pass(hours(24)).await;
    world.tick().await;
    let forgotten = world.refused(once().expiring(expires)).await;
    assert_eq!(forgotten, Refusal::Expired(expires));
}

async fn a_draw_that_comes_after_its_deadline_does_not_happen(world: &mut World) {
    world.begin(YAML).await;
    let now = world.store().now().await.unwrap();
    world.pass(seconds(1)).await;
    let late = once().not_after(now);
    assert_eq!(world.refused(late).await, Refusal::DeadlineExceeded);
    assert!(!world.draw(once()).await.replayed, "it left no memory");
}

async fn a_draw_is_found_by_its_request_id(world: &mut World) {
    let first = first(world).await;
    let id = campaign_id("spring");
    let find = async |who: &str, what: &str| {
        let (who, what) = (user(who), request(what));
        world.store().find_draw(&id, &who, &what).await
    };
    let length = world.ledger_length().await;
    same(&find("u", "once").await.unwrap(), &first);
    for (who, what) in [("u", "twice"), ("other", "once")] {
        let error = find(who, what).await.unwrap_err();
        assert_eq!(error, StoreError::Refused(Refusal::DrawNotFound));
    }
    assert_eq!(world.ledger_length().await, length);
}

/// The draw that these tests repeat.
fn once() -> DrawCommand {
    draw("u").times(3).named("once")
}

async fn first(world: &World) -> DrawAnswer {
    world.begin(YAML).await;
    world.at("2026-11-20T22:00:00+08:00").await;
    let first = world.draw(once()).await;
    assert!(!first.replayed);
    first
}

async fn replayed(world: &World, first: &DrawAnswer) {
    let length = world.ledger_length().await;
    let again = world.draw(once()).await;
    assert!(again.replayed);
    same(&again, first);
    assert_eq!(world.ledger_length().await, length);
}

/// Asserts that two answers are the same for the caller, including names and limits.
fn same(one: &DrawAnswer, other: &DrawAnswer) {
    assert_eq!(one.entry, other.entry);
    assert_eq!((one.ledger, one.at), (other.ledger, other.at));
    assert_eq!(one.quotas(), other.quotas());
    assert_eq!(one.prizes(), other.prizes());
    assert_eq!(one.campaign, other.campaign);
}

fn dedented(yaml: &str) -> String {
    yaml.replace("\n    ", "\n")
}
