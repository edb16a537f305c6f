//! Everyday changes: checked first, applied to the version that was read, and never over another.

use std::collections::BTreeSet;

use tombola::proto::{
    GetCampaignRequest, ListOperationsRequest, OperationKind,
    ledger_service_client::LedgerServiceClient,
};

use super::{Browser, address, encoded, fill, served};
use crate::{faults::redis::House, process::Server};

#[tokio::test(flavor = "multi_thread")]
async fn limits_end_and_names_are_changed_on_the_version_that_was_read() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    changes(&server, &mut browser).await;
    let history = browser.get("/campaigns/wheel/history").good();
    assert!(history.contains("longer"), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_changed_on_redis_too() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    changes(&server, &mut browser).await;
    codes(&server, &mut browser).await;
    ending(&server, &mut browser).await;
}

async fn changes(server: &Server, browser: &mut Browser) {
    browser.sign_in("olga");
    let path = "/campaigns/wheel/change";
    let page = browser.get(path).good();
    for words in [
        "value=\"2030-12-31T00:00:00\"",
        "value=\"99\"",
        "value=\"50\"",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // A check changes nothing.
    let name = encoded("Winter & co");
    let form = format!("version=1&request_id=e-1&name={name}&end=2031-01-31T00:00&reason=longer");
    let check = browser.post(path, &form).good();
    for words in [
        "endTime",
        "2031-01-30T16:00:00Z",
        "Winter &amp; co",
        "Apply as version 2",
    ] {
        assert!(check.contains(words), "{words}: {check}");
    }
    assert!(!check.contains("drawsPerDay"), "{check}");
    assert!(browser.get(path).good().contains("version 1"));
    let apply = "/campaigns/wheel/change/apply";
    for _ in 0..2 {
        // A second click answers the same.
        let done = browser.post(apply, &form);
        done.leads_to("/campaigns/wheel/change?done=changed");
    }
    let page = browser.get(path).good();
    assert!(
        page.contains("Winter &amp; co") && page.contains("version 2"),
        "{page}"
    );

    // Somebody else's form was made before: what changed meanwhile is shown and stays.
    let late = "version=1&request_id=e-2&draws_per_day=7";
    for path in [path, apply] {
        let stale = browser.post(path, late);
        assert_eq!(stale.status, 409, "{}", stale.body);
        assert!(
            stale.body.contains("Somebody changed") && stale.body.contains("longer"),
            "{}",
            stale.body
        );
    }
    let limits = "version=2&request_id=e-3&draws_per_day=7&wins_per_user=&draws_per_hour=";
    browser
        .post(apply, limits)
        .leads_to("/campaigns/wheel/change?done=changed");
    let vip = "version=3&request_id=e-4&segment=vip&draws_per_day=200";
    browser
        .post(apply, vip)
        .leads_to("/campaigns/wheel/change?done=changed");
    let prize = "version=4&request_id=e-5&prize=coupon&prize_name=Coupon";
    browser
        .post(apply, prize)
        .leads_to("/campaigns/wheel/change?done=changed");
    let request = GetCampaignRequest {
        campaign_id: "wheel".into(),
        version: 0,
    };
    let now = server
        .campaigns()
        .await
        .get_campaign(request)
        .await
        .unwrap();
    let status = now.into_inner().status.unwrap();
    let campaign = status.campaign.unwrap();
    assert_eq!(status.version, 5);
    assert_eq!(campaign.name, "Winter & co");
    let limits = campaign.limits.unwrap();
    assert_eq!(
        (limits.draws_per_day, limits.wins_per_user),
        (Some(7), None)
    );
    let vip = campaign.segment_limits[0].limits.unwrap();
    assert_eq!(vip.draws_per_day, Some(200));
    assert_eq!(campaign.prizes[1].name, "Coupon");

    // Wrong fields, and what the service refuses, say what to do.
    for (form, says) in [
        ("version=5&draws_per_day=x", "whole number"),
        ("version=5&end=soon", "local time"),
        ("version=5&segment=new&draws_per_day=1", "no such segment"),
        ("version=5&end=2026-01-01T00:00", "endTime"),
    ] {
        let answer = browser.post(path, form);
        assert!([400, 409].contains(&answer.status), "{}", answer.body);
        assert!(answer.body.contains(says), "{form}: {}", answer.body);
    }
    let nothing = browser.post(path, "version=5&draws_per_day=7").good();
    assert!(
        nothing.contains("Nothing differs") && !nothing.contains("Apply as"),
        "{nothing}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_of_prizes_are_changed_and_shown() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let page = browser.get("/campaigns/wheel").good();
    assert!(!page.contains("Most of a prize"), "{page}");
    let form = "version=1&prize=coupon&prize_name=Coupon&cap_per_day=2&cap_total=7";
    let check = browser.post("/campaigns/wheel/change", form).good();
    assert!(check.contains("prizes[coupon].perUser"), "{check}");
    browser
        .post("/campaigns/wheel/change/apply", form)
        .leads_to("/campaigns/wheel/change?done=changed");
    let page = browser.get("/campaigns/wheel").good();
    for words in [
        "Most of a prize that a user wins",
        "<dt>Most of Coupon (coupon) that a user wins</dt><dd>2 a day 7 in all</dd>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.get("/campaigns/wheel/change").good();
    assert!(
        page.contains(r#"name="cap_total" type="number" min="1""#),
        "{page}"
    );
    assert!(page.contains(r#"value="7""#), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_are_imported_once_and_what_is_left_is_listed() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    codes(&server, &mut browser).await;
}

async fn codes(_server: &Server, browser: &mut Browser) {
    let (page, import) = ("/campaigns/wheel/codes", "/campaigns/wheel/codes/ticket");
    assert!(
        browser
            .get(page)
            .good()
            .contains(r#"name="first" value="0""#)
    );
    let typed = [
        ("first", "0"),
        ("codes", "A-1\r\nA-2\r\n\r\n"),
        ("reason", "first batch"),
    ];
    for _ in 0..2 {
        let done = browser.upload(import, &typed);
        done.leads_to("/campaigns/wheel/codes?done=codes-imported");
    }
    // A file of several calls.
    let many: String = (0..10_500).map(|no| format!("B-{no}\n")).collect();
    let file = [("first", "2"), ("codes", ""), ("file", &many)];
    let done = browser.upload(import, &file);
    done.leads_to("/campaigns/wheel/codes?done=codes-imported");
    let shown = browser.get("/campaigns/wheel/codes?prize=ticket").good();
    for words in ["10,502", "A-2", "B-0", r#"name="first" value="10502""#] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let large = "C\n".repeat(2_200_000);
    for (fields, says) in [
        (
            vec![("first", "10502"), ("codes", "C-1\n\n C-2\n")],
            "Line 3",
        ),
        (
            vec![("first", "10502"), ("codes", "C-1\n\nA-2\n")],
            "Line 3",
        ),
        (vec![("first", "10502"), ("codes", "\n\n")], "no code"),
        (vec![("codes", "C"), ("file", "D")], "one of both"),
        (vec![("first", "10502"), ("file", &large)], "4 MiB"),
    ] {
        let answer = browser.upload(import, &fields);
        assert!((400..500).contains(&answer.status), "{}", answer.body);
        assert!(answer.body.contains(says), "{says}: {}", answer.body);
    }
    let shown = browser.get(page).good();
    assert!(shown.contains(r#"name="first" value="10502""#), "{shown}");
}

/// The ids by which the forms of a page know a second click.
fn request_ids(page: &str) -> BTreeSet<&str> {
    let ids = page.split(r#"name="request_id" value=""#).skip(1);
    ids.map(|rest| rest.split('"').next().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_sent_twice_acts_once() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    // Forms that raise the stock of two prizes; everyday changes, a recall and the close.
    for (path, ids) in [("/campaigns/wheel", 2), ("/campaigns/wheel/change", 3)] {
        let page = browser.get(path).good();
        assert_eq!(request_ids(&page).len(), ids, "{page}");
    }
    for (path, form, done) in [
        (
            "/prizes/mug/stock",
            "units=500&version=1&request_id=one",
            "stock-raised",
        ),
        (
            "/recall",
            "pool=hourly&prize=coupon&units=withdraw&typed=wheel&request_id=two",
            "withdrawn",
        ),
        ("/close", "typed=wheel&request_id=three", "closed"),
    ] {
        for _ in 0..2 {
            let answer = browser.post(&format!("/campaigns/wheel{path}"), form);
            answer.leads_to(&format!("/campaigns/wheel?done={done}"));
        }
    }
    let request = GetCampaignRequest {
        campaign_id: "wheel".into(),
        version: 0,
    };
    let mut campaigns = server.campaigns().await;
    let response = campaigns.get_campaign(request).await.unwrap();
    let status = response.into_inner().status.unwrap();
    assert_eq!(status.version, 2);
    assert_eq!(status.campaign.unwrap().prizes[0].stock, 1_500);
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    let request = ListOperationsRequest {
        campaign_id: "wheel".into(),
        ..ListOperationsRequest::default()
    };
    let acts = ledger.list_operations(request).await.unwrap().into_inner();
    let kinds: Vec<_> = acts.operations.iter().map(|act| act.kind()).collect();
    use OperationKind::{Apply, Close, Recall};
    assert_eq!(kinds, [Close, Recall, Apply, Apply]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_undone_is_done_once_the_id_is_typed() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    ending(&server, &mut browser).await;
}

async fn ending(server: &Server, browser: &mut Browser) {
    for path in ["/campaigns/wheel/close", "/campaigns/wheel/recall"] {
        let answer = browser.post(path, "typed=whee&pool=hourly&units=withdraw");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.body.contains("nothing was done"), "{}", answer.body);
    }
    assert!(
        browser
            .get("/campaigns/wheel")
            .good()
            .contains("Pause campaign")
    );
    let recalled = browser.post(
        "/campaigns/wheel/recall",
        "typed=wheel&pool=hourly&prize=coupon&units=withdraw&reason=wrong+plan",
    );
    recalled.leads_to("/campaigns/wheel?done=withdrawn");
    let closed = browser.post("/campaigns/wheel/close", "typed=wheel&reason=over");
    closed.leads_to("/campaigns/wheel?done=closed");
    let drawn = server.run(&["draw", "wheel", "user-1"]);
    drawn.badly(1, &["CAMPAIGN_CLOSED"]);
    let page = browser.get("/campaigns/wheel/change").good();
    assert!(page.contains("The campaign is over"), "{page}");
}
