//! Sessions: how they begin, what they are valid for, and how they end.

use std::time::Duration;

use super::{Browser, address, encoded, served};
use crate::{access::Gate, faults::redis::House, process::Start};

const POLICY: &str = "
roles: {all: [read, check, stop, plan, grant, deliver]}
identities:
  - {name: olga, tokens: [{sha256: <olga-token>}]}
bindings: [{identity: olga, role: all, campaigns: ['*'], senders: ['*']}]
";

#[test]
fn a_name_begins_a_session_where_there_are_no_identities() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.get("/").leads_to("/sign-in");
    assert!(browser.get("/sign-in").good().contains("no access file"));
    assert_eq!(browser.post("/sign-in", "name=").status, 403);
    let begun = browser.post("/sign-in", "name=olga");
    begun.leads_to("/");
    let cookie = begun.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("olga"), "{cookie}");
    let page = browser.get("/").good();
    assert!(
        page.contains("olga") && page.contains("tombola apply"),
        "{page}"
    );
    browser.post("/sign-out", "").leads_to("/sign-in");
    browser.get("/").leads_to("/sign-in");
}

#[test]
fn a_token_begins_a_session_which_ends_when_the_token_is_taken_away() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let mut browser = Browser::at(address(&gate.server));
    assert!(!browser.get("/sign-in").good().contains("no access file"));
    let refused = browser.post("/sign-in", "token=other-token&back=/system");
    assert_eq!(refused.status, 403);
    let back = r#"name="back" value="/system""#;
    assert!(refused.body.contains(back), "{}", refused.body);
    assert_eq!(browser.post("/sign-in", "name=olga").status, 403);
    browser.post("/sign-in", "token=olga-token").leads_to("/");
    assert!(browser.get("/").good().contains("olga"));
    let mut copy = browser.clone();

    gate.change(&POLICY.replace("<olga-token>", "<next-token>"));
    browser
        .get("/system")
        .leads_to("/sign-in?ended=1&back=%2Fsystem");
    assert!(browser.get("/sign-in?ended=1").good().contains("has ended"));
    // A copy of the cookie is worth nothing either, and acts are refused as pages are.
    copy.post("/campaigns/wheel/pause", "")
        .leads_to("/sign-in?ended=1");
}

#[test]
fn a_draft_of_a_plan_stays_in_the_page_when_the_session_ends() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let browser = Browser::signed_in(&gate, "olga-token");
    gate.change(&POLICY.replace("<olga-token>", "<next-token>"));
    for act in ["cells", "apply"] {
        let mut browser = browser.clone();
        let form = format!("base=1&draft=AAAA&do={act}");
        let answer = browser.post_by_htmx("/campaigns/wheel/plan", &form);
        assert_eq!(answer.status, 401, "{act}: {}", answer.body);
        assert_eq!(answer.header("hx-redirect"), None, "{}", answer.head);
        assert_eq!(answer.header("hx-retarget"), Some("#main"));
        let body = answer.body;
        assert!(body.contains("session has ended"), "{act}: {body}");
    }
}

#[test]
fn a_campaign_file_stays_in_the_page_when_the_session_ends() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let browser = Browser::signed_in(&gate, "olga-token");
    gate.change(&POLICY.replace("<olga-token>", "<next-token>"));
    // As htmx sends it.
    let own = format!(
        "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\nHX-Request: true\r\n",
        browser.address
    );
    let file = "base=0&yaml=id:+wheel&do=try";
    for (path, above) in [("/new/check", None), ("/new", Some("#main"))] {
        let mut browser = browser.clone();
        // The second time there is no cookie any more.
        for _ in 0..2 {
            let answer = browser.send("POST", path, &own, file);
            assert_eq!(answer.status, 401, "{path}: {}", answer.body);
            assert_eq!(answer.header("hx-redirect"), None, "{}", answer.head);
            assert_eq!(answer.header("hx-retarget"), above, "{}", answer.head);
            for part in [
                "session has ended",
                r#"<a href="/sign-in" target="_blank" rel="noopener">"#,
            ] {
                assert!(answer.body.contains(part), "{path} {part}: {}", answer.body);
            }
            assert!(!answer.body.contains("<textarea"), "{}", answer.body);
        }
        browser.post("/sign-in", "token=next-token").leads_to("/");
        browser.send("POST", path, &own, file).good();
    }
    // Other pages are left.
    let answer = browser
        .clone()
        .send("POST", "/campaigns/wheel/pause", &own, "");
    assert_eq!(answer.header("hx-redirect"), Some("/sign-in?ended=1"));
}

#[test]
fn sessions_that_began_before_a_moment_of_the_access_file_are_over() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let mut stolen = Browser::at(address(&gate.server));
    stolen.post("/sign-in", "token=olga-token").leads_to("/");
    stolen.get("/").good();
    let mut copy = stolen.clone();

    let now = jiff::Timestamp::now();
    let next = jiff::Timestamp::from_second(now.as_second() + 1).unwrap();
    let from = format!("{{name: olga, sessionsFrom: '{next}',");
    gate.change(&POLICY.replace("{name: olga,", &from));
    stolen.get("/").leads_to("/sign-in?ended=1");
    let stream = copy.get("/live/overview").good();
    assert!(stream.contains("event: over"), "{stream}");

    // The token still begins a new one.
    while jiff::Timestamp::now() < next {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut browser = Browser::at(address(&gate.server));
    browser.post("/sign-in", "token=olga-token").leads_to("/");
    browser.get("/").good();
}

#[test]
fn a_link_of_another_site_leads_to_the_page_if_there_is_a_session() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    // Browsers send the session neither with such a link nor with a redirection from it.
    let mut bare = Browser::at(browser.address);
    let foreign = "Sec-Fetch-Site: cross-site\r\n";
    let form = "/sign-in?back=%2Fsystem";
    bare.send("GET", "/system", foreign, "").leads_to(form);
    let page = bare.send("GET", form, foreign, "");
    let onward = format!("{form}&onward=1");
    let refresh = format!("0; url={onward}");
    assert_eq!(page.header("refresh"), Some(&*refresh));
    // They do when a page of the console goes on.
    browser.get(&onward).leads_to("/system");
    // Without a session, that is the form.
    for asked in [onward.as_str(), form, "/sign-in?ended=1&back=%2Fsystem"] {
        let page = bare.get(asked);
        assert_eq!(page.header("refresh"), None, "{asked}");
        let body = page.good();
        assert!(body.contains(r#"name="back" value="/system""#), "{body}");
    }
}

#[test]
fn to_choose_a_language_keeps_the_way_back() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    let choice = |page: &str| {
        let (_, form) = page.split_once(r#"action="/language""#).unwrap();
        let (_, back) = form.split_once(r#"name="back" value=""#).unwrap();
        back.split('"').next().unwrap().to_owned()
    };
    let asked = "/sign-in?back=%2Fsystem";
    assert_eq!(choice(&browser.get(asked).good()), asked);
    let refused = browser.post("/sign-in", "name=&back=%2Fsystem");
    assert_eq!(choice(&refused.body), asked);
    let form = format!("tag=zh&back={}", encoded(asked));
    browser.post("/language", &form).leads_to(asked);
    // A page without a visitor is no way to sign in again.
    browser.sign_in("olga");
    assert_eq!(choice(&browser.get("/nowhere").body), "/");
}

#[test]
fn a_session_is_valid_at_every_service_of_the_store() {
    let house = House::new();
    let first = house.start().with("--console 127.0.0.1:0").serve();
    let second = house.start().with("--console 127.0.0.1:0").serve();
    let mut browser = Browser::at(address(&first));
    browser.sign_in("olga");
    browser.get("/").good();
    browser.address = address(&second);
    assert!(browser.get("/").good().contains("olga"));

    // Another store has another key.
    let data = tempfile::tempdir().unwrap();
    let (_third, other) = served(data.path());
    browser.address = other.address;
    browser.get("/").leads_to("/sign-in");
}

#[test]
fn a_console_that_others_can_reach_must_be_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let ended = Start::on(data.path()).with("--console 0.0.0.0:0").fail();
    ended.badly(64, &["--console 0.0.0.0", "--insecure"]);
}

#[test]
fn behind_a_proxy_that_speaks_tls_cookies_never_leave_tls() {
    let data = tempfile::tempdir().unwrap();
    let line = "--console 127.0.0.1:0 --console-url https://console.example/";
    let server = Start::on(data.path()).with(line).serve();
    let mut browser = Browser::at(address(&server));
    let begun = browser.post("/sign-in", "name=olga");
    begun.leads_to("/");
    let cookie = begun.header("set-cookie").unwrap();
    assert!(
        cookie.starts_with("__Host-tombola=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let page = browser.get("/");
    assert_eq!(
        page.header("strict-transport-security"),
        Some("max-age=31536000")
    );
    page.good();

    let other = tempfile::tempdir().unwrap();
    let (_server, mut plain) = served(other.path());
    assert_eq!(
        plain.get("/sign-in").header("strict-transport-security"),
        None
    );
    for (line, words) in [
        ("--console-url https://c.example", ["--console", ""]),
        (
            "--console 127.0.0.1:0 --console-url http://c.example",
            ["--console-url", "https://"],
        ),
    ] {
        Start::on(data.path()).with(line).fail().badly(64, &words);
    }
}

#[test]
fn the_language_is_the_browser_s_or_the_chosen_one() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    assert!(browser.get("/").good().contains(r#"<html lang="en">"#));
    browser.language = "zh-CN,zh;q=0.9,en;q=0.8";
    let page = browser.get("/").good();
    assert!(
        page.contains(r#"<html lang="zh">"#) && page.contains("还没有活动"),
        "{page}"
    );
    browser
        .post("/language", "tag=en&back=/system")
        .leads_to("/system");
    assert!(browser.get("/system").good().contains("Ledger and store"));
    browser
        .post("/language", "tag=zh&back=//evil.example")
        .leads_to("/");
}
