//! What needs a look, in all campaigns and in the ledger: on the first page, on a page of its own,
//! and in the command line.

use tombola::proto::ApplyCampaignRequest;

use super::{Browser, address, grounds::Ground, served, wait_for};
use crate::{
    access::Gate,
    process::{Ended, Server, tombola},
};

/// More than a page of campaigns.
const CAMPAIGNS: u32 = 30;

fn yaml(id: &str) -> String {
    format!(
        "id: {id}\ntimeZone: UTC\nstartTime: 2026-11-01T00:00:00Z\nendTime: 2030-12-31T00:00:00Z\n\
         prizes: [{{id: mug, stock: 10}}]\n\
         pools: [{{id: deck, deck: {{size: 10, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}]\n"
    )
}

async fn apply(server: &Server, id: &str) {
    apply_file(server, &yaml(id)).await;
}

async fn apply_file(server: &Server, yaml: &str) {
    let campaign = tombola::model::file::parse(yaml).unwrap().pop();
    let request = ApplyCampaignRequest {
        campaign,
        operator: "olga".into(),
        ..Default::default()
    };
    let mut campaigns = server.campaigns().await;
    campaigns.apply_campaign(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_of_campaigns_on_all_pages_are_on_the_first() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    for number in 0..CAMPAIGNS {
        apply(&server, &format!("wheel-{number:02}")).await;
    }
    browser.sign_in("olga");
    assert!(
        browser
            .get("/alerts")
            .good()
            .contains("Nothing needs a look")
    );
    assert!(!browser.get("/").good().contains(r#"id="alerts""#));
    let none = server.run(&["alerts"]).well();
    assert!(none.contains("nothing needs a look"), "{none}");

    // It is on the second page of the list.
    server.run(&["pause", "wheel-29"]).well();
    server.run(&["prize", "pause", "wheel-03", "mug"]).well();
    let page = wait_for(&mut browser, "/", "Alerts (2)");
    let link = r#"<a href="/campaigns/wheel-29">wheel-29</a>"#;
    assert!(page.contains(link), "{page}");
    assert!(page.contains("No draws: the campaign is paused"), "{page}");
    // Once: not in the row of the campaign, too.
    assert_eq!(page.matches("mug is paused").count(), 1, "{page}");
    let page = browser.get("/alerts").good();
    assert!(
        page.contains(link) && page.contains("mug is paused"),
        "{page}"
    );
    let listed = server.run(&["alerts"]).well();
    for words in ["wheel-29", "wheel-03", "mug is paused", "warning"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    let json = server.run(&["alerts", "--json"]).well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["total"], "2");
    assert_eq!(json["alerts"][0]["severity"], "ALERT_SEVERITY_WARNING");

    // More than the first page shows.
    for number in 10..20 {
        server.run(&["pause", &format!("wheel-{number}")]).well();
    }
    let page = wait_for(&mut browser, "/", "Alerts (12)");
    assert!(page.contains(r#"<a href="/alerts">"#), "{page}");
    let page = browser.get("/alerts").good();
    assert_eq!(page.matches("the campaign is paused").count(), 11, "{page}");
    for number in 10..20 {
        server.run(&["resume", &format!("wheel-{number}")]).well();
    }
    wait_for(&mut browser, "/alerts", "Alerts (2)");
}

const POLICY: &str = "
roles:
  all: [read, plan, stop, admin]
  nobody: [draw]
identities:
  - {name: boss, tokens: [{sha256: <boss-token>}]}
  - {name: north, tokens: [{sha256: <north-token>}]}
  - {name: shop, tokens: [{sha256: <shop-token>}]}
bindings:
  - {identity: boss, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: north, role: all, campaigns: ['north-*']}
  - {identity: shop, role: nobody, campaigns: ['*']}
";

#[tokio::test(flavor = "multi_thread")]
async fn alerts_are_of_campaigns_that_the_visitor_may_see() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let boss = gate.by("boss-token").await;
    for id in ["north-wheel", "south-wheel"] {
        boss.apply(id).await.unwrap();
    }
    let mut all = Browser::signed_in(&gate, "boss-token");
    for id in ["north-wheel", "south-wheel"] {
        let paused = all.post(&format!("/campaigns/{id}/pause"), "");
        assert_eq!(paused.status, 303, "{}", paused.body);
    }
    wait_for(&mut all, "/alerts", "Alerts (2)");
    let page = Browser::signed_in(&gate, "north-token")
        .get("/alerts")
        .good();
    assert!(
        page.contains("Alerts (1)") && page.contains("north-wheel"),
        "{page}"
    );
    assert!(!page.contains("south-wheel"), "{page}");
    assert_eq!(
        Browser::signed_in(&gate, "shop-token")
            .get("/alerts")
            .status,
        403
    );
}

const HOURLY: &str = "
id: north-wheel
timeZone: UTC
startTime: 2026-11-01T00:00:00Z
endTime: 2030-12-31T00:00:00Z
prizes: [{id: mug, stock: 100000}]
pools: [{id: hourly, schedule: {perHour: {mug: 1}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_nobody_settles_and_hours_that_nobody_fills_are_alerts() {
    let ground = Ground::redis_with_postgresql().await;
    let server = ground.start().serve();
    apply_file(&server, HOURLY).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    wait_for(
        &mut browser,
        "/campaigns/north-wheel/history",
        "applied a version",
    );
    // Redis knows that its ledger is settled once what was settled is removed from it.
    wait_for(
        &mut browser,
        "/system",
        "<dt>Entries not settled</dt><dd>0</dd>",
    );
    assert!(
        browser
            .get("/alerts")
            .good()
            .contains("Nothing needs a look")
    );
    drop(server);
    let server = ground.unsettled_at("2026-12-05T12:11:00+08:00").serve();
    apply(&server, "south-wheel").await;
    drop(server);
    ground.hide_from_injectors("north-wheel");

    let gate = Gate::on(ground.unsettled_at("2026-12-05T14:20:00+08:00"), POLICY);
    let late = "Hours that have begun and are not filled: 2";
    let lag = r#"<a href="/system">Ledger</a>: Settling the ledger is 2h"#;
    let page = wait_for(
        &mut Browser::signed_in(&gate, "boss-token"),
        "/alerts",
        "Alerts (2)",
    );
    assert!(page.contains(late) && page.contains(lag), "{page}");
    let page = Browser::signed_in(&gate, "boss-token").get("/").good();
    assert!(page.contains(late) && page.contains(lag), "{page}");
    // The store's alerts are for those who may read all campaigns.
    let page = Browser::signed_in(&gate, "north-token")
        .get("/alerts")
        .good();
    assert!(page.contains(late) && !page.contains("Settling"), "{page}");
    let mut command = tombola(["alerts", "--server", &gate.server.url()]);
    let listed = Ended::of(command.env("TOMBOLA_TOKEN", "boss-token")).well();
    for words in ["north-wheel", late, "–", "Settling the ledger is 2h"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    // A draw needs units, so it has the hours filled: one of them is over.
    let shop = gate.by("shop-token").await;
    shop.draw("north-wheel", "user-1").await.unwrap();
    let missed = "Hours missed in two days: 1";
    let page = wait_for(
        &mut Browser::signed_in(&gate, "boss-token"),
        "/alerts",
        missed,
    );
    assert!(!page.contains(late), "{page}");
}
