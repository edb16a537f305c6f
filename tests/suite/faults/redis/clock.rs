//! The clock of Redis was ahead while a partition was written, and is right again.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{House, healthy};
use crate::{admin::metrics::Metrics, process::Server};

/// Waits until the health of the store's clock is this.
async fn clock_is(server: &Server, wanted: ServingStatus) {
    let mut client = HealthClient::new(server.connect().await);
    let service = "clock".to_owned();
    let watch = client.watch(HealthCheckRequest { service }).await.unwrap();
    let mut watch = watch.into_inner();
    while watch.message().await.unwrap().unwrap().status() != wanted {}
}

/// Makes a partition look as if it was last written this many seconds from now, by the clock of
/// Redis.
fn write_ahead(house: &House, partition: u32, seconds: i64) {
    let time = house.redis.command(&["TIME"]);
    let now: i64 = time.lines().next().unwrap().parse().unwrap();
    let key = format!("tombola{{{partition}}}:partition");
    let last = ((now + seconds) * 1_000_000).to_string();
    house.redis.command(&["HSET", &key, "last", &last]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_time_stands_still_is_named_until_it_goes_on() {
    let house = House::new();
    write_ahead(&house, 3, 10);
    write_ahead(&house, 7, 10);
    let server = house.start().with("--admin 127.0.0.1:0").serve();
    let still = || Metrics::of(&server).value("tombola_store_clock_still_partitions", &[]);
    healthy(&server, ServingStatus::Serving).await;
    server.says("in partitions 3, 7");
    server.says("time goes on in all partitions");
    clock_is(&server, ServingStatus::Serving).await;
    assert_eq!(still(), Some(0.0));
    write_ahead(&house, 5, 250);
    clock_is(&server, ServingStatus::NotServing).await;
    assert_eq!(still(), Some(1.0));
    healthy(&server, ServingStatus::Serving).await;
    server.says("in partitions 5");
}

#[test]
fn every_partition_is_checked_at_the_start_and_named_if_it_was_written_in_the_future() {
    let house = House::new();
    for partition in [0, 6, 15] {
        write_ahead(&house, partition, 3600);
        let word = format!("the data of partition {partition} were last written at");
        let words = [word.as_str(), "set the clocks", "start again after"];
        house.start().fail().badly(1, &words);
        write_ahead(&house, partition, 0);
    }
    write_ahead(&house, 4, 3600);
    write_ahead(&house, 9, 3600);
    house.start().fail().badly(1, &["partitions 4, 9"]);
}
