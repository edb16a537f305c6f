//! A slot of a cluster moves to another master with the data of a partition.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use tombola::{
    proto::{DrawRequest, LedgerId},
    store::{Entry, entry::Body},
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::Serving;

use super::{PARTITIONS, callers::Callers, directory_with_key, healthy, request, store_at};
use crate::{
    faults::{
        book::Book,
        load::{self, Attempt, Heard},
    },
    process::{Server, Start},
    support::{audit, redis_group::RedisCluster},
};

/// A test fails if something that should take moments takes longer than this. It is a bound for
/// hangs, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes one draw, however often it must be sent; also returns how long that took.
async fn insist(server: &Server, id: &str) -> (Attempt, Duration) {
    let begun = Instant::now();
    let mut lottery = server.lottery().await;
    let request = DrawRequest {
        count: 1,
        ..request("flow", "mover", id)
    };
    loop {
        match lottery.draw(request.clone()).await {
            Ok(response) => {
                let heard = Heard::Answer(Box::new(response.into_inner()));
                return (Attempt { request, heard }, begun.elapsed());
            }
            Err(status) => {
                assert_eq!(status.code(), Code::Unavailable, "{status:?}");
                assert!(begun.elapsed() < PATIENCE, "{status:?}");
            }
        }
    }
}

/// The ledger entries of all acknowledged draws.
fn acknowledged(attempts: &[Attempt]) -> Vec<LedgerId> {
    let answers = attempts.iter().filter_map(|attempt| match &attempt.heard {
        Heard::Answer(answer) if !answer.replayed => answer.results[0].ledger_id,
        _ => None,
    });
    answers.collect()
}

/// The partitions that have forked, once for each fork.
fn forked(entries: &[Entry]) -> Vec<u32> {
    let forks = entries
        .iter()
        .filter(|entry| matches!(entry.body, Body::Forked { .. }));
    forks.map(|entry| entry.id.partition).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_after_a_slot_with_data_has_moved_there_and_back() {
    let cluster = RedisCluster::start();
    let data = directory_with_key();
    let start = Start::on_redis(data.path(), &cluster.url()).with("--durability local");
    start.init().well();
    let server = start.serve();
    load::apply_now(&server).await;
    let mut attempts = vec![insist(&server, "first").await.0];
    let partition = acknowledged(&attempts)[0].partition;
    let key = format!("tombola{{{partition}}}:partition");
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]);

    let callers = Callers::start(&[&server], 7, 0);
    callers.go_on(200).await;
    let owner = cluster.owner(&slot);
    for to in [(owner + 1) % 3, owner] {
        let begun = Instant::now();
        tokio::task::block_in_place(|| cluster.move_slot(&slot, to));
        let moved = begun.elapsed();
        let (attempt, paused) = insist(&server, &format!("after-{to}")).await;
        attempts.push(attempt);
        println!("slot {slot} moved within {moved:?}; its partition paused for {paused:?} more");
        callers.go_on(200).await;
        assert_eq!(cluster.owner(&slot), to);
        assert_eq!(cluster.nodes[to].command(&["EXISTS", &key]), "1");
    }
    println!("{} attempts failed meanwhile", callers.faults());

    attempts.extend(callers.end().await);
    let numbers = acknowledged(&attempts);
    let differ = numbers.iter().map(|id| (id.partition, id.sequence));
    assert_eq!(differ.collect::<HashSet<_>>().len(), numbers.len(), "P6");
    // Also asserts that no unit was won twice, and that every acknowledged draw is found.
    Book::default().settle(&server, attempts).await;
    let store = store_at(&cluster.url(), PARTITIONS).await;
    audit::check(&store, &[]).await;
    assert_eq!(forked(&audit::ledger(&store).await), [partition; 2]);
    healthy(&server, Serving).await;
}
