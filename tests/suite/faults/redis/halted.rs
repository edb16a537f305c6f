//! One partition of a store has halted: its campaigns stand still, and nothing else does.

use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{draws, healthy, whole, witness::Witness};
use crate::{
    admin::metrics::Metrics,
    faults::load,
    support::redis_server::{RedisServer, until},
};

/// A campaign in another partition than that of the witness.
const OTHER: &str = "
id: other
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 100}]
pools: [{id: deck, deck: {size: 100, cards: {mug: 100}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_leaves_the_service_ready_and_other_campaigns_drawing() {
    let mut redis = RedisServer::start(&[]);
    let mut witness = Witness::start_with(&redis.url(), "--admin 127.0.0.1:0").await;
    load::apply_all(&witness.server, &load::now_and_about_noon(OTHER)).await;
    let admin = witness.server.admin();
    let other = async |witness: &mut Witness, id: &str| {
        let drawn = draws(&mut witness.lottery, "other", id, id).await;
        assert!(!drawn.replayed);
    };
    other(&mut witness, "before").await;
    until("all partitions are ready", || {
        admin.get("/readyz").2 == "ready\n"
    });
    witness.draw("kept", 20).await;
    redis.back_up();
    witness.draw("lost", 20).await;
    redis.restart_from_backup();

    witness.server.says("halted, since Redis was rolled back");
    witness.is_halted().await;
    let partition = witness.loss().unwrap().partition;
    // The other partitions record the restart, and go on after two seconds.
    healthy(&witness.server, Serving).await;
    until("the other partitions work", || {
        let (_, _, line) = admin.get("/readyz");
        line.starts_with("ready, but 1 of 16 partitions does not work")
    });
    let line = admin.says("/readyz", 200);
    assert!(
        line.contains(&format!("partition {partition} is halted")),
        "{line}"
    );
    assert!(line.contains("`tombola recover`"), "{line}");
    assert!(!line.contains("Halted("), "{line}");
    let metrics = Metrics::of(&witness.server);
    let partitions = |state| metrics.value("tombola_store_partitions", &[("state", state)]);
    let states = ["halted", "serving", "damaged", "unavailable"];
    assert_eq!(
        states.map(partitions),
        [1.0, 15.0, 0.0, 0.0].map(Some),
        "{line}"
    );
    assert_eq!(metrics.value("tombola_ready", &[]), Some(1.0));
    let draws = [("campaign", "other"), ("outcome", "win")];
    let draws = metrics.value("tombola_campaign_draws", &draws);
    assert_eq!(draws, Some(1.0));
    other(&mut witness, "after").await;
    witness.is_halted().await;

    witness.recover("--accept --yes").well();
    whole(&witness.server, Serving).await;
    until("all partitions are ready", || {
        admin.get("/readyz").2 == "ready\n"
    });
    witness.draw("recovered", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_which_no_partition_works_is_not_ready_and_says_why_in_words() {
    let redis = RedisServer::start(&[]);
    let mut witness = Witness::start_with(&redis.url(), "--admin 127.0.0.1:0").await;
    witness.draw("kept", 1).await;
    assert_eq!(redis.command(&["FLUSHALL"]), "OK");
    healthy(&witness.server, NotServing).await;
    let line = witness.server.admin().becomes("/readyz", 503);
    assert!(line.contains("has lost the data of store"), "{line}");
    assert!(!line.contains("Unavailable {"), "{line}");
    let metrics = Metrics::of(&witness.server);
    let labels = [("state", "unavailable")];
    let away = metrics.value("tombola_store_partitions", &labels);
    assert_eq!(away, Some(16.0));
}
