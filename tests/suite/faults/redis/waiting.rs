//! A service is started while its Redis is away or loads its data: it waits, and says so.

use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest,
    health_check_response::ServingStatus::{NotServing, Serving},
    health_client::HealthClient,
};

use super::{House, assert_not_executed, draws, healthy, put_key, request, startup::refused};
use crate::{
    faults::load,
    process::{Server, Start},
    support::redis_server::RedisServer,
};

/// An address at which nobody listens.
fn free_address() -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// Asserts that a service answers that it waits.
async fn is_not_ready(server: &Server) {
    let mut lottery = server.lottery().await;
    let status = lottery.draw(request("cards", "u-1", "r-1")).await;
    assert_not_executed(&status.unwrap_err(), Code::Unavailable);
    let mut health = HealthClient::new(server.connect().await);
    let mut check = async |service: &str| {
        let service = service.to_owned();
        let answer = health.check(HealthCheckRequest { service }).await;
        answer.unwrap().into_inner().status()
    };
    assert_eq!(check("").await, NotServing);
    assert_eq!(check("tombola.v1.LotteryService").await, NotServing);
    assert_eq!(check("liveness").await, Serving);
}

/// Starts a service that waits for its store.
fn waits_at(house: &House, listen: &str) -> Server {
    let start = Start {
        listen,
        ..house.start()
    };
    start.wait()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_away_at_the_start_is_waited_for() {
    let mut house = House::new();
    house.redis.kill();
    let listen = free_address();
    let server = waits_at(&house, &listen);
    server.says("cannot be reached: check that it runs");
    is_not_ready(&server).await;
    house.redis.restart();
    server.says("serving on");
    healthy(&server, Serving).await;
    server.run(&["campaigns"]).well();
    drop(server);

    // A signal stops it while it waits.
    house.redis.kill();
    let mut server = waits_at(&house, &listen);
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_loading_its_data_at_the_start_is_waited_for() {
    let mut house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let first = draws(&mut server.lottery().await, "cards", "u-1", "r-1").await;
    drop(server);
    house.redis.restart_slowly();
    let listen = free_address();
    let server = waits_at(&house, &listen);
    assert!(server.log().contains("is still loading its data"));
    is_not_ready(&server).await;
    assert!(house.redis.is_loading());
    house.redis.load_at_once();
    server.says("serving on");
    healthy(&server, Serving).await;
    let again = draws(&mut server.lottery().await, "cards", "u-1", "r-1").await;
    assert!(again.replayed);
    assert_eq!(again.results, first.results);
    draws(&mut server.lottery().await, "cards", "u-1", "r-2").await;
}

#[test]
fn what_does_not_pass_by_itself_is_not_waited_for() {
    let house = House::new();
    put_key(house.data.path(), "08");
    refused(
        house.data.path(),
        &house.redis.url(),
        "--wait",
        1,
        &["master key"],
    );
    let redis = RedisServer::start(&[("requirepass", "right-secret")]);
    let url = format!("redis://:wrong-secret@127.0.0.1:{}", redis.port());
    refused(house.data.path(), &url, "--wait=true", 69, &["password"]);
}
