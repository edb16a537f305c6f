//! What pages show and do, on the embedded store and on Redis.

use super::{
    Browser, HOSTILE, address, all_pages, encoded, fill, needs_settled_ledger, served, wait_for,
};
use crate::{
    faults::redis::House,
    process::{PATIENCE, Server},
    support::redis_server::until,
};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_emergency_brake_is_one_click_and_the_reason_can_follow() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    brake(&server, &mut browser).await;
    let history = browser.get("/campaigns/wheel/history").good();
    for words in [
        "paused the campaign",
        "fire",
        "resumed the campaign",
        "paused a prize",
    ] {
        assert!(history.contains(words), "{words}: {history}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_work_on_redis_and_say_what_needs_postgresql() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    for path in all_pages() {
        let page = browser.get(&path).good();
        if needs_settled_ledger(&path) {
            assert!(page.contains("--postgres-url"), "{path}: {page}");
        }
    }
    let found = browser.get("/search?q=carl").good();
    assert!(found.contains(r#"<option value="wheel">"#), "{found}");
    let system = browser.get("/system").good();
    assert!(
        system.contains("one Redis server") && system.contains("Changes of the Redis server"),
        "{system}"
    );
    let lanes = r#"<th scope="row">Draws</th><td class="n">32</td>"#;
    for words in [lanes, "Partitions that work (16)", "Replicas"] {
        assert!(system.contains(words), "{words}: {system}");
    }
    brake(&server, &mut browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_system_page_lists_the_other_replicas() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    let other = house.start().serve();
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    let (own, its) = (server.address.port(), other.address.port());
    until("both are listed", || {
        let page = browser.get("/system").good();
        page.contains(&format!(
            r#":{own} <span class="badge">this one</span></th>"#
        )) && page.contains(&format!(":{its}</th>"))
    });
    browser.language = "zh";
    let page = browser.get("/system").good();
    assert!(
        page.contains("服务实例") && page.contains("当前实例"),
        "{page}"
    );
    assert!(!page.contains("不同版本"), "{page}");
}

async fn brake(server: &Server, browser: &mut Browser) {
    browser.sign_in("olga");
    browser
        .post("/campaigns/wheel/pause", "")
        .leads_to("/campaigns/wheel?done=paused");
    let page = browser.get("/campaigns/wheel?done=paused").good();
    for words in ["Resume campaign", "Add the reason", "olga", "state-paused"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let (_, held) = page.split_once("name=\"held\" value=\"").unwrap();
    let (held, _) = held.split_once('"').unwrap();
    let drawn = server.run(&["draw", "wheel", "user-1"]);
    drawn.badly(1, &["CAMPAIGN_PAUSED"]);
    let reason = format!("held={held}&reason=fire");
    browser
        .post("/campaigns/wheel/pause", &reason)
        .leads_to("/campaigns/wheel?done=paused");
    browser
        .post("/campaigns/wheel/resume", "")
        .leads_to("/campaigns/wheel?done=resumed");
    // To add a reason to a pause that has ended begins no other.
    let late = browser.post("/campaigns/wheel/pause", &reason);
    assert_eq!(late.status, 400, "{}", late.body);
    assert!(
        late.body.contains("somebody resumed meanwhile"),
        "{}",
        late.body
    );
    server.run(&["draw", "wheel", "user-1"]).well();

    let prize = browser.post("/campaigns/wheel/prizes/mug/pause", "");
    prize.leads_to("/campaigns/wheel?done=prize-paused");
    let page = browser.get("/campaigns/wheel").good();
    assert!(page.contains("mug is paused"), "{page}");
    let prize = browser.post("/campaigns/wheel/prizes/mug/resume", "");
    prize.leads_to("/campaigns/wheel?done=prize-resumed");
    let late = browser.post("/campaigns/wheel/prizes/mug/pause", &reason);
    assert_eq!(late.status, 400, "{}", late.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_is_raised_on_the_version_that_was_seen() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let raise = "units=500&version=1&reason=more+mugs";
    let raised = browser.post("/campaigns/wheel/prizes/mug/stock", raise);
    raised.leads_to("/campaigns/wheel?done=stock-raised");
    assert!(browser.get("/campaigns/wheel").good().contains("1,500"));
    // Another form of that version changes nothing.
    let again = browser.post("/campaigns/wheel/prizes/mug/stock", raise);
    assert_eq!(again.status, 409, "{}", again.body);
    assert!(
        again.body.contains("Somebody changed the campaign"),
        "{}",
        again.body
    );
    assert!(
        browser
            .get("/campaigns/wheel/history")
            .good()
            .contains("more mugs")
    );
}

/// Sends a form of a page twice, as a double click does: the first one with this address.
#[track_caller]
fn click_twice(browser: &mut Browser, page: &str, path: &str, target: &str) {
    let (_, form) = page.split_once(&format!(r#"action="{path}""#)).unwrap();
    let form = form.split("</form>").next().unwrap();
    let hidden = form.split(r#"type="hidden" name=""#).skip(1);
    let hidden = hidden.map(|field| {
        let (name, value) = field.split_once(r#"" value=""#).unwrap();
        format!("{name}={}&", encoded(value.split('"').next().unwrap()))
    });
    let form = hidden.collect::<String>() + "reason=fraud&typed=gift";
    for _ in 0..2 {
        browser.post(path, &form).leads_to(target);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_twice_is_done_once() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let wins = "/campaigns/wheel/wins";
    let revoke = "/campaigns/wheel/wins/revoke";
    let page = wait_for(&mut browser, wins, revoke);
    let done = format!("{wins}?done=revoked");
    click_twice(&mut browser, &page, revoke, &done);
    let user = "/campaigns/wheel/users?user=dora";
    for act in ["block", "unblock"] {
        let page = browser.get(user).good();
        let path = format!("/campaigns/wheel/users/{act}");
        let done = format!("{user}&done={act}ed");
        click_twice(&mut browser, &page, &path, &done);
    }
    let history = "/campaigns/wheel/history?user=dora";
    let acts = wait_for(&mut browser, history, "<td>unblocked</td>");
    for act in ["<td>blocked</td>", "<td>unblocked</td>"] {
        assert_eq!(acts.matches(act).count(), 1, "{act}: {acts}");
    }
    let envelope = "/envelopes/gift";
    let page = browser.get(envelope).good();
    let cancel = format!("{envelope}/cancel");
    let done = format!("{envelope}?done=cancelled");
    click_twice(&mut browser, &page, &cancel, &done);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_granted_draws_blocked_and_their_wins_delivered_and_revoked() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let user = encoded(HOSTILE);
    let path = format!("/campaigns/wheel/users?user={user}");
    let page = browser.get(&path).good();
    assert!(
        page.contains("Won") && page.contains("Mark as delivered"),
        "{page}"
    );
    let grant = format!("user={user}&draws=7&request_id=grant-1&reason=sorry");
    for _ in 0..2 {
        assert_eq!(
            browser.post("/campaigns/wheel/users/grant", &grant).status,
            303
        );
    }
    assert!(browser.get(&path).good().contains("Bonus draws left: 7"));
    let block = format!("user={user}&reason=fraud");
    assert_eq!(
        browser.post("/campaigns/wheel/users/block", &block).status,
        303
    );
    assert!(browser.get(&path).good().contains("Blocked since"));
    assert!(
        browser
            .get("/campaigns/wheel/users")
            .good()
            .contains("fraud")
    );
    assert_eq!(
        browser
            .post("/campaigns/wheel/users/unblock", &block)
            .status,
        303
    );
    assert!(!browser.get(&path).good().contains("Blocked since"));

    let (_, unit) = page
        .split_once(r#"type="hidden" name="unit" value=""#)
        .unwrap();
    let unit = encoded(unit.split('"').next().unwrap());
    let deliver = format!("unit={unit}&reference=parcel-9&back=/campaigns/wheel/wins");
    let delivered = browser.post("/campaigns/wheel/wins/deliver", &deliver);
    delivered.leads_to("/campaigns/wheel/wins?done=delivered");
    assert!(
        browser
            .get("/campaigns/wheel/wins")
            .good()
            .contains("parcel-9")
    );
    let found = browser.get(&format!("/search?q={unit}")).good();
    assert!(found.contains("parcel-9"), "{found}");
    let revoke = format!("unit={unit}&reason=wrong&back=//evil.example");
    browser
        .post("/campaigns/wheel/wins/revoke", &revoke)
        .leads_to("/?done=revoked");
    assert!(
        browser
            .get("/campaigns/wheel/wins")
            .good()
            .contains("Revoked")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_cancelled_once_its_id_is_typed() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    assert_eq!(
        browser.post("/envelopes/gift/cancel", "typed=gif").status,
        400
    );
    assert!(
        browser
            .get("/envelopes/gift")
            .good()
            .contains("Cancel and refund")
    );
    let cancelled = browser.post("/envelopes/gift/cancel", "typed=gift&reason=mistake");
    cancelled.leads_to("/envelopes/gift?done=cancelled");
    let page = browser.get("/envelopes/gift").good();
    assert!(
        page.contains("Cancelled") && !page.contains("Cancel and refund"),
        "{page}"
    );
    browser
        .get("/envelopes?envelope=gift")
        .leads_to("/envelopes/gift");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_lists_the_campaigns_of_a_state() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let row = r#"href="/campaigns/wheel""#;
    for (state, is_listed) in [("RUNNING", true), ("PAUSED", false), ("CLOSED", false)] {
        let page = browser.get(&format!("/?state={state}")).good();
        assert_eq!(page.contains(row), is_listed, "{state}: {page}");
    }
    browser.post("/campaigns/wheel/pause", "");
    assert!(browser.get("/?state=PAUSED").good().contains(row));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_live() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let cookie = &browser.cookies["tombola"];
    let mut stream = TcpStream::connect(browser.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = browser.address;
    let request = format!(
        "GET /live/campaigns/wheel HTTP/1.1\r\nHost: {address}\r\nCookie: tombola={cookie}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut event = |word: &str| lines.find(|line| line.contains(word)).unwrap();
    event("text/event-stream");
    event(r#"data-live="draws">24<"#);
    server.run(&["draw", "wheel", "user-1"]).well();
    event(r#"data-live="draws">25<"#);
    browser.post("/campaigns/wheel/pause", "");
    event("state-paused");
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_lapse_units_leave_and_one_hour_is_taken_back() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let grant = "user=carl&draws=7&request_id=g&expire=2030-01-31T12:30";
    browser
        .post("/campaigns/wheel/users/grant", grant)
        .leads_to("/campaigns/wheel/users?user=carl&done=granted");
    let page = browser.get("/campaigns/wheel/users?user=carl").good();
    assert!(page.contains("2030-01-31 12:30:00"), "{page}");

    let wins = browser.get("/campaigns/wheel/wins").good();
    let (_, unit) = wins
        .split_once(r#"type="hidden" name="unit" value=""#)
        .unwrap();
    let unit = encoded(unit.split('"').next().unwrap());
    let back = "back=/campaigns/wheel/wins&reason=stolen";
    let withdraw = format!("unit={unit}&units=withdraw&{back}");
    let untyped = browser.post("/campaigns/wheel/wins/revoke", &withdraw);
    assert_eq!(untyped.status, 400, "{}", untyped.body);
    browser
        .post(
            "/campaigns/wheel/wins/revoke",
            &format!("{withdraw}&typed={unit}"),
        )
        .leads_to("/campaigns/wheel/wins?done=revoked");
    let summary = browser.get("/campaigns/wheel").good();
    let left = |prize: &str| summary.contains(&format!(r#"data-live="withdrawn:{prize}">1<"#));
    assert!(left("mug") || left("coupon"), "{summary}");

    // An hour that is not injected has nothing to take back: the service says so.
    let recall = "pool=hourly&typed=wheel&hour=2030-01-31T12:00";
    let answer = browser.post("/campaigns/wheel/recall", recall);
    assert!((400..500).contains(&answer.status), "{}", answer.body);
    assert!(
        answer
            .body
            .contains(r#"name="hour" value="2030-01-31T12:00""#),
        "{}",
        answer.body
    );
    let stats = server.run(&["--json", "stats", "wheel"]).well();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let windows = stats["windows"].as_array().unwrap();
    let current = windows.last().unwrap()["startTime"].as_str().unwrap();
    let current: jiff::Timestamp = current.parse().unwrap();
    let local = current.in_tz("Asia/Shanghai").unwrap();
    let hour = local.strftime("%Y-%m-%dT%H:%M");
    browser
        .post(
            "/campaigns/wheel/recall",
            &format!("pool=hourly&typed=wheel&hour={hour}"),
        )
        .leads_to("/campaigns/wheel?done=recalled");
    let day = local.strftime("%Y-%m-%d");
    let page = browser
        .get(&format!("/campaigns/wheel/schedule?day={day}"))
        .good();
    assert!(page.contains("window-recalled"), "{page}");
}
