//! How often draws from personal pools call Redis, new envelopes, and draws with wrong ids. What a
//! service remembers of a user is right after its own draws, so a draw is planned once.

use std::sync::Arc;

use tombola::store::{DrawCommand, Operation, Refusal, StoreError};

use crate::support::{
    Answer as _, DrawWords as _, World, campaign_id, draw, envelope, on_redis::OnRedis,
    redis_server::RedisServer,
};

const DRAWS: usize = 300;
/// Calls beside draws: probes each second, and what is planned anew.
const MORE: usize = DRAWS / 3;
const ENVELOPES: usize = 300;

const YAML: &str = "
    prizes: [{id: hero, unlimited: true}, {id: mug, unlimited: true}]
    pools:
      - id: own
        personal:
          odds: {hero: 5%, mug: 50%}
          guarantees: [{id: tenth, prizes: [hero], within: 10}]
";

/// Scripts that Redis was asked to run since it was last asked to forget them.
fn scripts(server: &RedisServer) -> usize {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.lines().filter_map(|line| {
        let counts = line.strip_prefix("cmdstat_evalsha:calls=");
        counts.or_else(|| line.strip_prefix("cmdstat_eval:calls="))
    });
    let calls = calls.map(|counts| counts.split(',').next().unwrap().parse::<usize>().unwrap());
    calls.sum()
}

/// Asserts that this many requests of ten draws of a user, one after another, are as many calls.
async fn assert_one_call_each(world: &World, server: &RedisServer, count: u32) {
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "OK");
    for _ in 0..DRAWS {
        world.draw(draw("u").times(count)).await;
    }
    let calls = scripts(server);
    assert!((DRAWS..DRAWS + MORE).contains(&calls), "{calls}");
}

#[tokio::test]
async fn most_draws_from_personal_pools_are_one_call() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    assert_one_call_each(&world, &server, 1).await;
    assert_one_call_each(&world, &server, 10).await;
    // The first draw after a pause finds it, and the others know it.
    let prize = world.prize_no("hero").await;
    world.operate(Operation::PausePrize { prize }).await;
    assert_one_call_each(&world, &server, 1).await;
    world.operate(Operation::ResumePrize { prize }).await;
    assert_one_call_each(&world, &server, 10).await;
}

#[tokio::test]
async fn ten_pulls_of_a_user_at_once_are_no_more_calls_than_requests() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    world.begin(YAML).await;
    world.draw(draw("u").times(10)).await;
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "OK");
    let pulls = (0..DRAWS).map(|_| draw("u").times(10)).collect();
    let answers = world.storm(pulls).await;
    let heroes: usize = answers
        .into_iter()
        .map(|it| it.unwrap().count("hero"))
        .sum();
    assert!(heroes >= DRAWS, "one in ten: {heroes}");
    let calls = scripts(&server);
    assert!(calls < DRAWS + MORE, "{calls}");
}

#[tokio::test]
async fn an_envelope_is_looked_up_before_it_is_created_only_if_its_id_is_in_use() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    let calls_of = async |total_minor: i64| {
        assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "OK");
        for n in 0..ENVELOPES {
            let new = envelope(&format!("e{n}"), total_minor, 2);
            assert_eq!(world.try_create(&new).await.is_ok(), total_minor == 100);
        }
        scripts(&server)
    };
    let calls = calls_of(100).await;
    assert!((ENVELOPES..ENVELOPES + MORE).contains(&calls), "{calls}");
    // The answer that an id is in use takes one call, too.
    let calls = calls_of(101).await;
    assert!((ENVELOPES..ENVELOPES + MORE).contains(&calls), "{calls}");
}

#[tokio::test]
async fn draws_of_campaigns_that_do_not_exist_are_at_most_one_call_each() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = World::new(OnRedis::at(&server.url(), server.clone())).await;
    let wrong = |n: usize| DrawCommand {
        campaign: campaign_id(&format!("none-{n}")),
        ..draw("u")
    };
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "OK");
    for n in 0..DRAWS {
        let refusal = world.refusal_of(wrong(n)).await;
        assert_eq!(refusal, Refusal::CampaignNotFound);
    }
    let calls = scripts(&server);
    assert!((DRAWS..DRAWS + MORE).contains(&calls), "{calls}");
    // Those of a batch share a call.
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "OK");
    for answer in world.storm((0..DRAWS).map(wrong).collect()).await {
        let not_found = StoreError::Refused(Refusal::CampaignNotFound);
        assert_eq!(answer.unwrap_err(), not_found);
    }
    let calls = scripts(&server);
    assert!(calls < DRAWS / 2, "{calls}");
}
