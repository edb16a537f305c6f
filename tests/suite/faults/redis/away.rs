//! Redis goes away, or becomes a replica, while a service runs.

use tombola::proto::{GetDrawRequest, ListCampaignsRequest};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{House, assert_not_executed, callers::Callers, draws, executed, healthy, request};
use crate::faults::{book::Book, load};

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_draws_say_so_and_all_goes_on_when_it_is_back() {
    let mut house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    healthy(&server, Serving).await;
    let mut lottery = server.lottery().await;
    let first = draws(&mut lottery, "cards", "u-1", "r-1").await;
    house.redis.kill();
    for number in 0..10 {
        let draw = request("cards", "u-1", &format!("away-{number}"));
        let status = lottery.draw(draw).await.unwrap_err();
        // The first one may have been sent on a connection that broke.
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(number == 0 || executed(&status) == "no", "{status:?}");
    }
    server.says("cannot be reached: check that it runs");
    healthy(&server, NotServing).await;
    let names = GetDrawRequest {
        campaign_id: "cards".into(),
        user_id: "u-1".into(),
        request_id: "r-1".into(),
    };
    let status = lottery.get_draw(names).await.unwrap_err();
    assert_not_executed(&status, Code::Unavailable);
    let list = ListCampaignsRequest::default();
    let status = server.campaigns().await.list_campaigns(list).await;
    assert_not_executed(&status.unwrap_err(), Code::Unavailable);
    house.redis.restart();
    healthy(&server, Serving).await;
    let again = draws(&mut lottery, "cards", "u-1", "r-1").await;
    assert!(again.replayed);
    assert_eq!(again.results, first.results);
    draws(&mut lottery, "cards", "u-1", "r-2").await;
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_becomes_a_replica_draws_nothing_until_it_is_master_again() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    let callers = Callers::start(&[&server], 3, 0);
    callers.go_on(100).await;
    assert_eq!(house.redis.command(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    callers.fail(50).await;
    healthy(&server, NotServing).await;
    let before = house.redis.digest();
    let mut lottery = server.lottery().await;
    for number in 0..10 {
        let draw = request("flow", "u-new", &format!("new-{number}"));
        let status = lottery.draw(draw).await.unwrap_err();
        assert_not_executed(&status, Code::Unavailable);
    }
    assert_eq!(house.redis.digest(), before);
    server.says("is a replica: name its master in the URL");
    assert_eq!(house.redis.command(&["REPLICAOF", "NO", "ONE"]), "OK");
    callers.go_on(100).await;
    healthy(&server, Serving).await;
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}
