//! Redis is restored from an older backup under a service that lives on.

use tonic_health::pb::health_check_response::ServingStatus::Serving;

use super::{
    draws, whole,
    witness::{Loss, Witness},
};
use crate::{
    faults::load::{apply_all, now_and_about_noon},
    process::Start,
    support::redis_server::{RedisServer, until},
};

/// Draws before the backup, and as many after it, which the restored data do not have.
const DRAWS: usize = 20;

/// Asserts that the service has noticed the loss, and that log and `tombola recover` name it.
async fn notices(witness: &mut Witness) -> Loss {
    let said = "is halted, since Redis was rolled back";
    until("a partition is halted", || {
        witness.server.log().contains(said)
    });
    let loss = witness.loss().unwrap();
    let (last_kept, first_lost) = (witness.number(DRAWS - 1), witness.number(DRAWS));
    // Cards were perhaps dealt in between.
    assert!(
        (last_kept..first_lost).contains(&loss.last_kept),
        "{loss:?}, {last_kept} was kept, {first_lost} was lost"
    );
    assert!(
        loss.last_acknowledged >= witness.number(2 * DRAWS - 1),
        "{loss:?}"
    );
    let (first, last) = (loss.last_kept + 1, loss.last_acknowledged);
    witness.server.says(&format!(
        "partition {} is halted, since Redis was rolled back by a failover or a restored backup: \
         entries {first} to {last} (at least) were acknowledged and are lost",
        loss.partition
    ));
    witness.is_halted().await;
    loss
}

/// Asserts that the draws go on after a recovery, with numbers beyond all that were given out.
async fn goes_on(witness: &mut Witness, loss: &Loss) {
    whole(&witness.server, Serving).await;
    witness.draw("after", 100).await;
    witness.assert_numbers_differ();
    let first = witness.number(2 * DRAWS);
    assert!(first > loss.last_acknowledged, "{first}, {loss:?}");
    let shown = witness.recover("").well();
    assert!(shown.contains("no partition is halted"), "{shown}");
    witness.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_older_append_only_files_were_restored_what_was_due_is_withdrawn() {
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start(&redis.url()).await;
    witness.draw("kept", DRAWS).await;
    redis.back_up();
    witness.draw("lost", DRAWS).await;
    redis.restart_from_backup();
    let loss = notices(&mut witness).await;
    let options = "--withdraw-due --yes --operator ops --reason backup";
    let withdrawn = witness.recover(options).well();
    assert!(withdrawn.contains("wheel"), "{withdrawn}");
    goes_on(&mut witness, &loss).await;
    assert_eq!(witness.doubled(), [""; 0], "P1");
}

/// A campaign of one prize, which everybody wins.
fn campaign_of(prize: &str) -> String {
    now_and_about_noon(&format!(
        "
id: later
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{{id: {prize}, stock: 1000}}]
pools: [{{id: deck, deck: {{size: 10, cards: {{{prize}: 10}}, onExhausted: RESHUFFLE}}}}]
"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_service_draws_by_the_lost_definition_of_a_campaign_that_was_created_again() {
    let mut redis = RedisServer::start(&[]);
    let witness = Witness::start(&redis.url()).await;
    let other = Start::on_redis(witness.data.path(), &redis.url()).serve();
    redis.back_up();
    apply_all(&witness.server, &campaign_of("mug")).await;
    let mut lottery = other.lottery().await;
    let drawn = draws(&mut lottery, "later", "u-1", "lost").await;
    assert_eq!(drawn.results[0].prize_id, "mug");
    let partition = drawn.results[0].ledger_id.unwrap().partition;
    redis.restart_from_backup();
    for server in [&witness.server, &other] {
        server.says(&format!(
            "partition {partition} is halted, since Redis was rolled back"
        ));
    }
    witness.recover("--accept --yes").well();
    whole(&witness.server, Serving).await;
    whole(&other, Serving).await;
    apply_all(&witness.server, &campaign_of("pin")).await;
    let drawn = draws(&mut lottery, "later", "u-1", "after").await;
    assert_eq!(drawn.results[0].prize_id, "pin");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_older_snapshot_was_restored_the_loss_is_accepted() {
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start(&redis.url()).await;
    witness.draw("kept", DRAWS).await;
    redis.back_up_as_snapshot();
    witness.draw("lost", DRAWS).await;
    redis.restart_from_snapshot();
    let loss = notices(&mut witness).await;
    witness.recover("--accept --yes").well();
    goes_on(&mut witness, &loss).await;
}
