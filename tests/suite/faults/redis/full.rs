//! Redis has reached its memory limit.

use tombola::proto::{
    DrawRequest, GetDrawRequest, GrabEnvelopeRequest, GrabOutcome,
    envelope_service_client::EnvelopeServiceClient,
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{
    House, assert_not_executed, callers::Callers, draws, healthy, request, whole, witness::Witness,
};
use crate::{
    faults::{book::Book, load},
    support::{envelope, patiently, redis_server::RedisServer},
};

/// A deck so small that a draw of a hundred must have it dealt again.
const DRY: &str = "
id: dry
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_nothing_is_drawn_or_filled_and_nothing_is_half_done() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    load::apply_all(&server, &load::now_and_about_noon(DRY)).await;
    let mut lottery = server.lottery().await;
    let callers = Callers::start(&[&server], 4, 0);
    callers.go_on(100).await;
    let limit = |bytes| house.redis.command(&["CONFIG", "SET", "maxmemory", bytes]);
    assert_eq!(limit("1"), "OK");
    callers.fail(50).await;
    healthy(&server, NotServing).await;
    let before = house.redis.digest();
    for campaign in load::IDS {
        for number in 0..5 {
            let draw = request(campaign, "u-new", &format!("full-{number}"));
            let status = lottery.draw(draw).await.unwrap_err();
            assert_not_executed(&status, Code::Unavailable);
        }
    }
    let hundred = DrawRequest {
        count: 100,
        ..request("dry", "u-new", "fill")
    };
    let status = lottery.draw(hundred.clone()).await.unwrap_err();
    assert_not_executed(&status, Code::Unavailable);
    assert_eq!(house.redis.digest(), before);
    server.says("raise it with `CONFIG SET maxmemory <bytes>`");
    assert_eq!(limit("0"), "OK");
    callers.go_on(100).await;
    healthy(&server, Serving).await;
    assert!(!lottery.draw(hundred).await.unwrap().into_inner().replayed);
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}

/// Lets the server have no more memory, also once it is restarted.
fn fill(redis: &RedisServer) {
    let limit = ["CONFIG", "SET", "maxmemory", "1"];
    assert_eq!(redis.command(&limit), "OK");
    assert_eq!(redis.command(&["CONFIG", "REWRITE"]), "OK");
}

/// Lets the server have memory again.
fn make_room(redis: &RedisServer) {
    let limit = ["CONFIG", "SET", "maxmemory", "0"];
    assert_eq!(redis.command(&limit), "OK");
}

/// Every call that may write needs the fork of the restart to be recorded first.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_that_was_restarted_repeats_answers_and_goes_on_once_it_has_memory() {
    let mut house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let mut lottery = server.lottery().await;
    draws(&mut lottery, "cards", "u-1", "r-1").await;
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    let created = envelopes.create_envelope(envelope("gift", 1000, 10)).await;
    created.unwrap();
    let grab = |user: &str| GrabEnvelopeRequest {
        envelope_id: "gift".into(),
        user_id: user.into(),
    };
    let grabbed = envelopes.grab_envelope(grab("u-1")).await.unwrap();
    assert_eq!(grabbed.into_inner().outcome(), GrabOutcome::Grabbed);

    fill(&house.redis);
    house.redis.kill();
    house.redis.restart();
    let again = patiently(|| {
        let mut lottery = lottery.clone();
        async move { lottery.draw(request("cards", "u-1", "r-1")).await }
    });
    assert!(again.await.into_inner().replayed);
    let again = patiently(|| {
        let (mut envelopes, grab) = (envelopes.clone(), grab("u-1"));
        async move { envelopes.grab_envelope(grab).await }
    });
    let again = again.await.into_inner();
    assert_eq!(again.outcome(), GrabOutcome::AlreadyGrabbed);
    let names = GetDrawRequest {
        campaign_id: "cards".into(),
        user_id: "u-1".into(),
        request_id: "r-1".into(),
    };
    lottery.get_draw(names).await.unwrap();
    let refused = lottery.draw(request("cards", "u-1", "r-2")).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);
    let refused = envelopes.grab_envelope(grab("u-2")).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);

    make_room(&house.redis);
    healthy(&server, Serving).await;
    let drawn = draws(&mut lottery, "cards", "u-1", "r-2").await;
    assert!(!drawn.replayed);
    let grabbed = envelopes.grab_envelope(grab("u-2")).await.unwrap();
    assert_eq!(grabbed.into_inner().outcome(), GrabOutcome::Grabbed);
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_that_was_rolled_back_halts_and_is_recovered() {
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start(&redis.url()).await;
    witness.draw("kept", 20).await;
    redis.back_up();
    witness.draw("lost", 20).await;
    fill(&redis);
    redis.restart_from_backup();
    witness.server.says("halted, since Redis was rolled back");
    witness.is_halted().await;
    recovers(witness, &redis).await;
}

/// The partition takes writes, so the recovery begins with a write of its own and not with a fork.
#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_of_a_full_redis_is_recovered() {
    let redis = RedisServer::start(&[]);
    let mut witness = Witness::start(&redis.url()).await;
    witness.draw("kept", 20).await;
    let drawn = &witness.drawn[0].results[0];
    let entry = drawn.ledger_id.as_ref().unwrap();
    let key = format!("tombola{{{}}}:partition", entry.partition);
    // As if an entry of a fork that is lost had been acknowledged.
    let halt = format!("{} {} - 1", "a".repeat(40), entry.sequence);
    assert_eq!(redis.command(&["HSET", &key, "halt", &halt]), "1");
    fill(&redis);
    witness.is_halted().await;
    recovers(witness, &redis).await;
}

/// Ends the halt while there is no memory: the partition repeats what it has. Once there is memory,
/// it draws.
async fn recovers(mut witness: Witness, redis: &RedisServer) {
    witness.recover("--accept --yes").well();
    let again = patiently(|| {
        let mut lottery = witness.lottery.clone();
        async move { lottery.draw(request("wheel", "kept-0", "kept-0")).await }
    });
    assert!(again.await.into_inner().replayed);
    let new = request("wheel", "kept-0", "new");
    let refused = witness.lottery.draw(new).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);

    make_room(redis);
    whole(&witness.server, Serving).await;
    witness.draw("recovered", 20).await;
    witness.assert_numbers_differ();
    witness.audit().await;
}
