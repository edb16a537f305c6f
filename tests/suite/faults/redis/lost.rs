//! Redis comes back without the data of a running service.

use tombola::proto::{
    ApplyCampaignRequest, CheckLimitRequest, GetDrawRequest, ListCampaignsRequest,
};
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{House, assert_not_executed, directory_with_key, draws, executed, healthy, request};
use crate::{
    faults::load,
    process::{Server, Start},
    support::redis_group::RedisCluster,
};

/// Asserts that every call is refused because the store is not available.
async fn refuses_all(server: &Server) {
    let mut lottery = server.lottery().await;
    let mut campaigns = server.campaigns().await;
    let names = GetDrawRequest {
        campaign_id: "cards".into(),
        user_id: "u-1".into(),
        request_id: "r-1".into(),
    };
    let check = CheckLimitRequest {
        campaign_id: "cards".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    let yaml = load::now_and_about_noon(NEW);
    let apply = ApplyCampaignRequest {
        campaign: tombola::model::file::parse(&yaml)
            .unwrap()
            .into_iter()
            .next(),
        operator: "faults".into(),
        ..Default::default()
    };
    let draw = request("cards", "u-1", "r-1");
    let statuses: Vec<Status> = vec![
        lottery.draw(draw).await.unwrap_err(),
        lottery.get_draw(names).await.unwrap_err(),
        lottery.check_limit(check).await.unwrap_err(),
        campaigns.apply_campaign(apply).await.unwrap_err(),
        campaigns
            .list_campaigns(ListCampaignsRequest::default())
            .await
            .unwrap_err(),
    ];
    for status in statuses {
        assert_not_executed(&status, Code::Unavailable);
    }
}

const NEW: &str = "
id: new
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 10}]
pools: [{id: deck, deck: {size: 10, cards: {mug: 10}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_is_not_filled_again() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    draws(&mut server.lottery().await, "cards", "u-1", "r-1").await;
    healthy(&server, Serving).await;
    assert_eq!(house.redis.command(&["FLUSHALL"]), "OK");
    refuses_all(&server).await;
    server.says("has lost the data of store");
    healthy(&server, NotServing).await;
    refuses_all(&server).await;
    assert_eq!(house.redis.command(&["DBSIZE"]), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_without_its_data_is_refused_until_they_are_restored() {
    let mut house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    draws(&mut server.lottery().await, "cards", "u-1", "r-1").await;
    house.redis.restart_empty();
    // One caller gets the error of the connection that broke.
    let lost = server
        .lottery()
        .await
        .draw(request("cards", "u-1", "r-1"))
        .await;
    assert_eq!(lost.unwrap_err().code(), Code::Unavailable);
    server.says("has lost the data of store");
    refuses_all(&server).await;
    healthy(&server, NotServing).await;
    assert_eq!(house.redis.command(&["DBSIZE"]), "0");
    house.redis.restart_restored();
    healthy(&server, Serving).await;
    let mut lottery = server.lottery().await;
    assert!(draws(&mut lottery, "cards", "u-1", "r-1").await.replayed);
    draws(&mut lottery, "cards", "u-1", "r-2").await;
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_data_stops_its_own_campaigns_only_and_no_service_begins_on_it() {
    const CAMPAIGNS: usize = 12;
    let mut cluster = RedisCluster::start();
    let data = directory_with_key();
    let start = || {
        let start = Start::on_redis(data.path(), &cluster.url());
        start.with("--durability local") // it has no replicas
    };
    start().init().well();
    let server = start().serve();
    let mut lottery = server.lottery().await;
    for number in 0..CAMPAIGNS {
        let yaml = NEW.replace("id: new", &format!("id: c-{number}"));
        load::apply_all(&server, &load::now_and_about_noon(&yaml)).await;
        draws(&mut lottery, &format!("c-{number}"), "u-1", "r-1").await;
    }
    // Not the partition key of the first partition, which shows that there is a store at all.
    let first =
        |node: usize| cluster.nodes[node].command(&["EXISTS", "tombola{0}:partition"]) == "1";
    let wiped = (0..3).find(|&node| !first(node)).unwrap();
    let again = start();
    cluster.nodes[wiped].restart_empty();
    cluster.wait_until_whole();
    let (mut refused, mut drawn) = (0, 0);
    for number in 0..CAMPAIGNS {
        let id = format!("c-{number}");
        // Either the driver replaces the broken connection, or one caller gets its error.
        let mut draw = lottery.draw(request(&id, "u-1", "r-2")).await;
        while draw
            .as_ref()
            .is_err_and(|status| executed(status) == "unknown")
        {
            draw = lottery.draw(request(&id, "u-1", "r-2")).await;
        }
        match draw {
            Ok(_) => drawn += 1,
            Err(status) => {
                assert_not_executed(&status, Code::Unavailable);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && drawn > 0, "{refused} refused, {drawn} drawn");
    server.says("has lost the data of store");
    healthy(&server, Serving).await;
    assert_eq!(cluster.nodes[wiped].command(&["DBSIZE"]), "0");
    again
        .fail()
        .badly(1, &["has lost", "of its 16 partitions", "restore"]);
    assert_eq!(cluster.nodes[wiped].command(&["DBSIZE"]), "0");
}
