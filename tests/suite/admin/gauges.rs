//! The gauges of the store: what cannot be read does not freeze the others, and all services agree.

use std::collections::BTreeSet;

use tombola::model::file;

use super::metrics::Metrics;
use crate::{
    faults::{
        load,
        redis::{House, request},
    },
    process::Server,
    support::redis_server::until,
};

const UNREADABLE: &str = "tombola_campaigns_unreadable";

/// A campaign with this many prizes, and a deck of the first ones.
fn campaign(id: &str, prizes: usize, cards: usize) -> String {
    let names = |form: &str, count: usize| {
        let names = (0..count).map(|prize| form.replace('#', &format!("p{prize}")));
        names.collect::<Vec<_>>().join(", ")
    };
    let (prizes, cards) = (
        names("{id: #, stock: 100000}", prizes),
        names("#: 1", cards),
    );
    load::now_and_about_noon(&format!(
        "
id: {id}
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{prizes}]
pools: [{{id: deck, deck: {{cards: {{{cards}}}, onExhausted: RESHUFFLE}}}}]
"
    ))
}

fn served(house: &House) -> Server {
    house.start().with("--admin 127.0.0.1:0").serve()
}

/// How many draws of a campaign the gauges have.
fn draws(server: &Server, campaign: &str) -> Option<f64> {
    let labels = [("campaign", campaign), ("outcome", "win")];
    Metrics::of(server).value("tombola_campaign_draws", &labels)
}

/// The campaigns with series of their own.
fn named(server: &Server) -> BTreeSet<String> {
    let metrics = Metrics::of(server);
    let users = metrics.samples.keys();
    let users = users.filter(|(name, _)| name == "tombola_campaign_users");
    users
        .map(|(_, labels)| labels["campaign"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_cannot_be_read_is_counted_and_does_not_freeze_the_others() {
    let house = House::new();
    let server = served(&house);
    // The first two are in partitions of their own.
    for id in ["one", "two"] {
        load::apply_all(&server, &campaign(id, 2, 2)).await;
    }
    let mut lottery = server.lottery().await;
    let mut number = 0;
    let mut draw = async || {
        number += 1;
        let draw = request("two", "u-1", &format!("r-{number}"));
        lottery.draw(draw).await.unwrap();
        f64::from(number)
    };
    let drawn = draw().await;
    until("both are read", || {
        draws(&server, "one").is_some() && draws(&server, "two") == Some(drawn)
    });
    let unreadable = || Metrics::of(&server).value(UNREADABLE, &[]).unwrap();
    assert_eq!(unreadable(), 0.0);
    // A value of another program: first under the campaign's key, then under the list of the
    // campaigns of its partition.
    for (key, named) in [
        ("tombola{0}:campaign:one", "campaign one"),
        ("tombola{0}:campaigns", "campaigns of partition 0"),
    ] {
        assert_eq!(house.redis.command(&["RENAME", key, "kept"]), "OK");
        assert_eq!(house.redis.command(&["SET", key, "x"]), "OK");
        until("it is counted", || unreadable() == 1.0);
        let drawn = draw().await;
        until("the other one is read", || {
            draws(&server, "two") == Some(drawn)
        });
        assert_eq!(draws(&server, "one"), None);
        assert_eq!(unreadable(), 1.0);
        if key.ends_with(":one") {
            server.says(&format!("{named}: "));
        }
        assert_eq!(house.redis.command(&["RENAME", "kept", key]), "OK");
        until("it is read again", || {
            unreadable() == 0.0 && draws(&server, "one").is_some()
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn services_name_the_same_campaigns_after_restarts_and_versions_too() {
    let house = House::new();
    let first = served(&house);
    // In the order of creation; each takes about 570 series, and two have room.
    for id in ["c", "b", "a"] {
        load::apply_all(&first, &campaign(id, 93, 93)).await;
    }
    let wanted: BTreeSet<_> = ["_OTHER", "b", "c"].map(String::from).into();
    until("they are read", || named(&first) == wanted);
    let second = served(&house);
    until("a second service says the same", || {
        named(&second) == wanted
    });
    // A version adds prizes to the first one.
    let campaigns = file::parse(&campaign("c", 100, 93)).unwrap();
    let request = tombola::proto::ApplyCampaignRequest {
        request_id: "more".into(),
        campaign: campaigns.into_iter().next(),
        operator: "sight".into(),
        base_version: 1,
        ..Default::default()
    };
    first
        .campaigns()
        .await
        .apply_campaign(request)
        .await
        .unwrap();
    let labels = [("campaign", "c"), ("prize", "p99"), ("state", "left")];
    let is_added = |server: &Server| {
        let metrics = Metrics::of(server);
        metrics.value("tombola_prize_units", &labels).is_some()
    };
    drop(first);
    let first = served(&house);
    for server in [&first, &second] {
        until("the new prizes are read", || is_added(server));
        assert_eq!(named(server), wanted);
    }
}
