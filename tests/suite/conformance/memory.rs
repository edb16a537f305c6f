//! How long requests are remembered: exactly as long as the store says (P4).

use std::{collections::VecDeque, time::Duration};

use tombola::store::{DrawAnswer, DrawCommand};

use crate::support::{DrawWords as _, World, campaign, campaign_id, draw, hours};

promises![
    a_request_is_remembered_to_the_microsecond,
    requests_of_many_days_are_each_remembered_to_the_microsecond,
    a_long_answer_is_remembered_as_long_as_a_short_one,
    a_request_is_remembered_though_nobody_forgets_for_days,
    forgetting_comes_to_an_end_while_the_clock_stands,
    forgetting_passes_through_campaigns_whose_ids_are_letters,
    an_id_that_is_used_again_is_remembered_anew,
];

const YAML: &str = "
    consolation: {id: points}
    prizes: [{id: coupon, stock: 5000}]
    pools: [{id: deck, deck: {size: 10000, cards: {coupon: 5000}}}]
";
const MEMORY: Duration = Duration::from_secs(24 * 60 * 60);
const MICROSECOND: Duration = Duration::from_micros(1);

async fn a_request_is_remembered_to_the_microsecond(world: &mut World) {
    world.begin(YAML).await;
    let command = draw("u").named("once");
    let first = world.draw(command.clone()).await;
    assert_remembered_exactly(world, &command, &first).await;
}

/// Makes a draw every five hours, with a tick in between, so that the requests are spread over many
/// generations and their whole length.
async fn requests_of_many_days_are_each_remembered_to_the_microsecond(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let mut made = VecDeque::new();
    for n in 0..30 {
        let next = campaign.start + hours(5 * n);
        while made
            .front()
            .is_some_and(|(_, first): &(_, DrawAnswer)| first.at + MEMORY < next)
        {
            let (command, first) = made.pop_front().unwrap();
            assert_remembered_exactly(world, &command, &first).await;
        }
        world.set_time(next).await;
        let command = draw("u").named(&format!("n{n}")).times(1 + n as u32 % 3);
        made.push_back((command.clone(), world.draw(command).await));
        world.tick().await;
    }
}

async fn a_long_answer_is_remembered_as_long_as_a_short_one(world: &mut World) {
    world.begin(YAML).await;
    let command = draw("u").named("long").times(100);
    let first = world.draw(command.clone()).await;
    for _ in 0..3 {
        world.pass(hours(7)).await;
        world.tick().await;
        let again = world.draw(command.clone()).await;
        assert!(again.replayed);
        assert_eq!(again.entry, first.entry);
    }
    assert_remembered_exactly(world, &command, &first).await;
}

async fn a_request_is_remembered_though_nobody_forgets_for_days(world: &mut World) {
    world.begin(YAML).await;
    world.pass(hours(80)).await;
    let command = draw("u").named("late").times(100);
    let first = world.draw(command.clone()).await;
    // The first of these calls ends what should have ended days ago.
    for _ in 0..3 {
        world.tick().await;
        assert!(world.draw(command.clone()).await.replayed);
    }
    assert_remembered_exactly(world, &command, &first).await;
}

async fn forgetting_comes_to_an_end_while_the_clock_stands(world: &mut World) {
    world.begin(YAML).await;
    world.draw(draw("u").named("once")).await;
    world.pass(hours(100)).await;
    for _ in 0..3 {
        world.tick().await;
        assert!(!world.store().forget().await.unwrap());
    }
    assert!(!world.draw(draw("u").named("once")).await.replayed);
}

/// One letter in a reply of a script may be a refusal.
async fn forgetting_passes_through_campaigns_whose_ids_are_letters(world: &mut World) {
    world.begin(YAML).await;
    let ids = ["H", "K", "L", "M", "N", "W"];
    let commands = ids.map(|id| DrawCommand {
        campaign: campaign_id(id),
        ..draw("u").named("once")
    });
    for (id, command) in ids.iter().zip(&commands) {
        let lettered = campaign(&format!("\n    id: '{id}'{YAML}"));
        world.try_apply(lettered, 0).await.unwrap();
        world.draw(command.clone()).await;
    }
    world.pass(hours(100)).await;
    world.tick().await;
    while world.store().forget().await.unwrap() {}
    for command in commands {
        assert!(!world.draw(command).await.replayed);
    }
}

/// The store may forget the first draw long after the second one has taken its place.
async fn an_id_that_is_used_again_is_remembered_anew(world: &mut World) {
    world.begin(YAML).await;
    let command = draw("u").named("twice");
    let first = world.draw(command.clone()).await;
    world.pass(MEMORY + MICROSECOND).await;
    let second = world.draw(command.clone()).await;
    assert!(!second.replayed && second.ledger > first.ledger);
    for n in 0..300 {
        world.draw(draw(&format!("user-{n}")).named("once")).await;
    }
    assert_remembered(world, &command, &second).await;
    let mut has_more = true;
    while has_more {
        has_more = world.store().forget().await.unwrap();
        assert_remembered(world, &command, &second).await;
    }
    for _ in 0..3 {
        world.tick().await;
        assert_remembered(world, &command, &second).await;
    }
    assert_remembered_exactly(world, &command, &second).await;
}

async fn assert_remembered(world: &World, command: &DrawCommand, first: &DrawAnswer) {
    let again = world.draw(command.clone()).await;
    assert!(again.replayed);
    assert_eq!(again.entry, first.entry);
    let (id, user, request) = (&command.campaign, &command.user, &command.request);
    let found = world.store().find_draw(id, user, request).await.unwrap();
    assert_eq!((found.ledger, found.at), (first.ledger, first.at));
    assert_eq!(found.entry.results, first.entry.results);
}

/// The draw is replayed until its time is over, and right after that it is a new draw. The clock
/// stays at that moment.
async fn assert_remembered_exactly(world: &World, command: &DrawCommand, first: &DrawAnswer) {
    for moment in [first.at + MEMORY - MICROSECOND, first.at + MEMORY] {
        world.set_time(moment.max(world.time())).await;
        assert_remembered(world, command, first).await;
        world.tick().await;
    }
    world.set_time(first.at + MEMORY + MICROSECOND).await;
    let again = world.draw(command.clone()).await;
    assert!(!again.replayed);
    assert!(again.ledger > first.ledger);
}
