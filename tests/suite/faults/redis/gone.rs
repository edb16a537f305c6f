//! Someone removes keys of a campaign or an envelope. The service must not treat it as a campaign
//! that never existed, nor as an empty pool.

use std::sync::Arc;

use tombola::{
    proto::{
        ApplyCampaignRequest, CheckLimitRequest, DrawRequest, GetCampaignRequest, GetDrawRequest,
        RecallUnitsRequest,
    },
    store::StoreError,
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{
    assert_not_executed,
    foreign::{CAMPAIGN, Stall},
    healthy, request,
};
use crate::{
    faults::load,
    support::{Outcome as _, World, envelope, on_redis::OnRedis, redis_server::RedisServer},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_whose_hash_is_gone_is_not_one_that_never_was_and_its_id_is_not_free() {
    let mut stall = Stall::new().await;
    let key = "tombola{0}:campaign:one";
    let won = request("one", "u-1", "r-1");
    let first = stall.lottery.draw(won.clone()).await.unwrap();
    assert!(first.get_ref().replayed);
    assert_eq!(stall.redis().command(&["RENAME", key, "kept"]), "OK");

    let status = stall.lottery.draw(won.clone()).await.unwrap_err();
    assert_not_executed(&status, Code::Internal);
    stall
        .server
        .says(&format!("the key {key} is gone from Redis"));
    stall.draw_is_refused("gone").await;
    stall.both_at_once("gone").await;
    let check = CheckLimitRequest {
        campaign_id: "one".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    let status = stall.lottery.check_limit(check).await.unwrap_err();
    assert_not_executed(&status, Code::Internal);
    let get = GetDrawRequest {
        campaign_id: "one".into(),
        user_id: "u-1".into(),
        request_id: "r-1".into(),
    };
    let status = stall.lottery.get_draw(get).await.unwrap_err();
    assert_not_executed(&status, Code::Internal);
    let mut campaigns = stall.server.campaigns().await;
    let get = GetCampaignRequest {
        campaign_id: "one".into(),
        ..Default::default()
    };
    let status = campaigns.get_campaign(get).await.unwrap_err();
    assert_not_executed(&status, Code::Internal);
    let apply = async |_: usize| {
        let mut campaigns = stall.server.campaigns().await;
        campaigns
            .apply_campaign(application("one"))
            .await
            .unwrap_err()
    };
    stall.refused("apply", apply).await;
    // The same if the list of ids lacks it too, as its other keys exist.
    assert_eq!(
        stall
            .redis()
            .command(&["ZREM", "tombola{0}:campaigns", "one"]),
        "1"
    );
    stall.refused("apply unlisted", apply).await;
    stall.server.says("campaign one was there before");
    stall
        .redis()
        .command(&["ZADD", "tombola{0}:campaigns", "0", "one"]);

    // A campaign that never existed is still reported as not found.
    let status = stall
        .lottery
        .draw(request("three", "u-1", "r-1"))
        .await
        .unwrap_err();
    assert_not_executed(&status, Code::NotFound);
    stall.redis().command(&["RENAME", "kept", key]);
    let again = stall.lottery.draw(won).await.unwrap();
    assert_eq!(again.get_ref().results, first.get_ref().results);
    stall.goes_on("one").await;
    stall.is_balanced().await;
}

/// The request that creates such a campaign.
fn application(id: &str) -> ApplyCampaignRequest {
    let yaml = CAMPAIGN.replace("id: one", &format!("id: {id}"));
    let campaigns = tombola::model::file::parse(&load::now_and_about_noon(&yaml));
    ApplyCampaignRequest {
        campaign: campaigns.unwrap().into_iter().next(),
        operator: "faults".into(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_is_gone_stops_its_partition_and_is_not_begun_anew() {
    let mut stall = Stall::new().await;
    let key = "tombola{0}:ledger";
    assert_eq!(stall.redis().command(&["RENAME", key, "kept"]), "OK");
    stall.draw_is_refused("ledger").await;
    stall.server.says(&format!("{key} ends with entry 0"));
    healthy(&stall.server, NotServing).await;
    assert_eq!(stall.redis().command(&["EXISTS", key]), "0");
    assert_eq!(stall.redis().command(&["RENAME", "kept", key]), "OK");
    stall.goes_on("one").await;
    stall.goes_on("two").await;
    healthy(&stall.server, Serving).await;
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn units_that_are_gone_stop_their_campaign_and_are_not_taken_for_none() {
    let mut stall = Stall::new().await;
    // First draws all units that the hour has released so far, so that further draws reach the
    // deck.
    let all = |id: String| DrawRequest {
        count: 100,
        ..request("one", "u-1", &id)
    };
    for number in 0..6 {
        let drawn = stall.lottery.draw(all(format!("drain-{number}"))).await;
        drawn.unwrap();
    }
    // Keys of units that are not released yet, of the cards of a deck, and of its blanks.
    for queue in ["units:one:0:0", "units:one:1:1", "units:one:1:-1"] {
        let key = format!("tombola{{0}}:{queue}");
        assert_eq!(
            stall.redis().command(&["RENAME", &key, "kept"]),
            "OK",
            "{key}"
        );
        let draw = async |number: usize| {
            let mut lottery = stall.lottery.clone();
            let id = format!("{queue}-{number}").replace(':', "_");
            lottery.draw(all(id)).await.unwrap_err()
        };
        stall.refused(&key, draw).await;
        stall
            .server
            .says(&format!("{key} is gone, and units wait in it"));
        stall.goes_on("two").await;
        assert_eq!(stall.redis().command(&["RENAME", "kept", &key]), "OK");
        stall.goes_on("one").await;
    }
    stall.is_balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn units_that_are_gone_in_part_stop_what_would_put_more_in_or_take_them_back() {
    let stall = Stall::new().await;
    let key = "tombola{0}:units:one:0:0";
    let unit = stall.redis().command(&["ZPOPMAX", key]);
    assert!(!unit.is_empty());
    let recall = async |_: usize| {
        let mut campaigns = stall.server.campaigns().await;
        let recall = RecallUnitsRequest {
            campaign_id: "one".into(),
            pool_id: "hours".into(),
            operator: "faults".into(),
            ..Default::default()
        };
        // The recall itself is recorded before units are taken back.
        drop(campaigns.recall_units(recall).await);
    };
    recall(0).await;
    stall
        .server
        .says(&format!("the key {key} in Redis has not the units"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_whose_hash_is_gone_is_not_one_that_never_was_and_its_id_is_not_free() {
    let redis = Arc::new(RedisServer::start(&[]));
    let host = OnRedis::at(&redis.url(), redis.clone()).undivided();
    let tag = host.tag();
    let world = World::new(host).await;
    let of = |id: &str| envelope(id, 100, 2);
    world.create(&of("open")).await;
    world.create(&of("empty")).await;
    for (id, users) in [("open", &["a"][..]), ("empty", &["a", "b"])] {
        for user in users {
            assert!(world.grab(id, user).await.got().is_some());
        }
    }
    for id in ["open", "empty"] {
        let key = format!("{tag}envelope:{id}");
        assert_eq!(redis.command(&["RENAME", &key, "kept"]), "OK");
        let assert_named = |answer: Result<String, StoreError>, what: &str| match answer {
            Err(StoreError::Corrupt { detail, .. }) => {
                assert!(detail.contains(&key), "{what}: {detail}");
            }
            other => panic!("{what} of {id}: {other:?}"),
        };
        let grabbed = world.try_grab(id, "a").await;
        assert_named(grabbed.map(|grabbed| format!("{grabbed:?}")), "grab");
        let made = world.try_create(&of(id)).await;
        assert_named(made.map(|made| format!("{made:?}")), "create");
        assert_eq!(redis.command(&["RENAME", "kept", &key]), "OK");
        assert!(world.grab(id, "a").await.packet().is_some());
    }
}
