//! A batch that does not come back from Redis shows in health.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{net::TcpListener, time::timeout};
use tombola::{grpc::server, store::StoreError};
use tonic::transport::Endpoint;
use tonic_health::pb::{
    HealthCheckRequest,
    health_check_response::ServingStatus::{NotServing, Serving},
    health_client::HealthClient,
};

use crate::support::{World, draw, on_redis::OnRedis, redis_server::RedisServer};

const YAML: &str = "
    prizes: [{id: coupon, stock: 500}]
    pools: [{id: deck, deck: {size: 1000, cards: {coupon: 500}}}]
";

/// Longer than it takes until a batch counts as stuck. It is a bound for hangs, not a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

/// Far longer than any batch takes, and than the test.
const FORK_PAUSE: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_that_does_not_move_shows_in_health() {
    let redis = Arc::new(RedisServer::start(&[("enable-debug-command", "yes")]));
    let host = OnRedis::at(&redis.url(), redis.clone()).undivided();
    let world = World::new(host.pausing(FORK_PAUSE)).await;
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let injector = world.injector().clone();
    tokio::spawn(server::serve(
        listener,
        injector,
        None,
        server::Settings::default(),
        pending(),
    ));
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel);
    let watch = health.watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    let mut next = async || {
        let status = timeout(PATIENCE, watch.message()).await;
        status
            .expect("health stays the same")
            .unwrap()
            .unwrap()
            .status()
    };
    assert_eq!(next().await, Serving);

    // The batch waits for a new fork to open; probes do not.
    assert_eq!(redis.command(&["DEBUG", "CHANGE-REPL-ID"]), "OK");
    let stuck = {
        let world = world.clone();
        tokio::spawn(async move { world.try_draw(draw("stuck")).await })
    };
    assert_eq!(next().await, NotServing);
    let Err(StoreError::Unavailable { detail, .. }) = world.store().now().await else {
        panic!("the store does not say why");
    };
    assert!(detail.contains("a batch has been at Redis for"), "{detail}");
    assert!(!stuck.is_finished());
    stuck.abort();
}
