//! What was typed or painted stays on the page if the service refuses it.

use super::{
    Browser, encoded, fill,
    new::{form, hidden},
    plan::state,
    served,
};
use crate::access::Gate;

const PLAN: &str = "/campaigns/wheel/plan";

/// A campaign with a schedule, for a server with an access file.
const SCHEDULED: &str = "
id: wheel
timeZone: Asia/Shanghai
startTime: 2028-05-01T00:00:00+08:00
endTime: 2028-05-03T00:00:00+08:00
prizes: [{id: coupon, stock: 5000}]
pools: [{id: hourly, schedule: {perHour: {coupon: 10}}}]
";

const POLICY: &str = "
roles:
  all: [draw, check, grant, read, plan, stop, admin]
  reader: [read, check]
identities:
  - {name: boss, tokens: [{sha256: <boss-token>}]}
  - {name: busy, tokens: [{sha256: <busy-token>}], rate: {perSecond: 1, burst: 40}}
  - {name: reader, tokens: [{sha256: <reader-token>}]}
bindings:
  - {identity: boss, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: busy, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: reader, role: reader, campaigns: ['*'], senders: ['*']}
";

/// A server with that campaign, and a browser of each identity.
async fn gated() -> (Gate, [Browser; 3]) {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let boss = gate.by("boss-token").await;
    boss.apply_file(SCHEDULED).await.unwrap();
    let browsers = ["boss-token", "busy-token", "reader-token"];
    let browsers = browsers.map(|token| Browser::signed_in(&gate, token));
    (gate, browsers)
}

/// A page of the editor with a draft of 70 coupons in an hour.
fn painted(browser: &mut Browser, at: &str, cell: &str) -> String {
    let page = browser.get(&format!("{PLAN}?at={at}")).good();
    let form = format!("{}&do=cells&op=set&value=70&cell={cell}", state(&page));
    let page = browser.post(PLAN, &form).good();
    assert!(page.contains("20:00 coupon: 70"), "{page}");
    page
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_stays_in_the_editor_when_it_is_not_applied() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let page = painted(&mut browser, "2028-02-28", "20.1");
    let long = "x".repeat(1_025);
    let form = format!("{}&do=apply&reason={long}", state(&page));
    let refused = browser.post(PLAN, &form);
    assert_eq!(refused.status, 400, "{}", refused.body);
    let typed = format!(r#"value="{long}""#);
    for words in [
        "notice bad",
        "20:00 coupon: 70",
        "What the draft changes",
        &typed,
    ] {
        assert!(refused.body.contains(words), "{words}: {}", refused.body);
    }
    // What stayed can be corrected and sent.
    let form = format!("{}&do=apply&reason=leap+day", state(&refused.body));
    let target = format!("{PLAN}?pool=hourly&at=2028-02-28&done=plan-applied");
    browser.post(PLAN, &form).leads_to(&target);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_stays_without_permission_and_beyond_the_rate() {
    let (_gate, [mut boss, mut busy, mut reader]) = gated().await;
    let page = painted(&mut boss, "2028-05-01", "20.0");
    let form = format!("{}&do=apply&reason=long+story", state(&page));
    let forbidden = reader.post(PLAN, &form);
    assert_eq!(forbidden.status, 403, "{}", forbidden.body);
    // Sent again, it is applied once.
    let mut sent = (0..200).map(|_| busy.post(PLAN, &form));
    let limited = sent.find(|answer| answer.status != 303).unwrap();
    assert_eq!(limited.status, 429, "{}", limited.body);
    let (_, draft) = form.split_once("draft=").unwrap();
    let draft = draft.split('&').next().unwrap();
    for answer in [forbidden, limited] {
        let body = answer.body;
        let fields = body.split("<input").filter(|input| {
            input.contains(r#"name="draft""#)
                && encoded(
                    input
                        .split("value=\"")
                        .nth(1)
                        .unwrap()
                        .split('"')
                        .next()
                        .unwrap(),
                ) == draft
        });
        assert!(fields.count() > 0, "{body}");
        assert!(body.contains(r#"value="long story""#), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_the_service_refuses_is_not_played_through() {
    let (_gate, [mut boss, _, mut reader]) = gated().await;
    let page = painted(&mut boss, "2028-05-01", "20.0");
    let form = format!("{}&do=forecast&users=50&per-day=1", state(&page));
    let played = boss.post(PLAN, &form).good();
    assert!(played.contains("What will probably happen"), "{played}");
    let refused = reader.post(PLAN, &form).good();
    assert!(refused.contains("You lack the permission"), "{refused}");
    assert!(!refused.contains("What will probably happen"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_stays_when_a_campaign_file_is_not_applied() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let tried = browser.post("/new", &form("0", SCHEDULED, "do=try")).good();
    let mark = hidden(&tried, "tried");
    let apply = |reason: &str| {
        let rest = format!("do=apply&tried={mark}&request_id=one&reason={reason}");
        form("0", SCHEDULED, &rest)
    };
    let long = "x".repeat(1_025);
    let refused = browser.post("/new", &apply(&long)).good();
    for part in [
        "notice bad",
        "id: wheel",
        r#"id="new-apply""#,
        r#"name="request_id" value="one""#,
        &format!(r#"name="tried" value="{mark}""#),
        &format!(r#"value="{long}""#),
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // A file that is no longer right is not applied, and its reason waits for the next dry run.
    let wrong = SCHEDULED.replace("perHour", "perHuor");
    let refused = browser.post("/new", &form("0", &wrong, "do=apply&tried=no&reason=story"));
    let refused = refused.good();
    assert!(!refused.contains("new-apply"), "{refused}");
    assert_eq!(hidden(&refused, "reason"), "story");
    // What stayed can be corrected and sent.
    let done = "/campaigns/wheel?done=applied";
    browser.post("/new", &apply("short")).leads_to(done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_stays_when_the_brake_or_a_decision_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let long = "x".repeat(1_025);
    for (path, reason) in [
        ("/campaigns/wheel/pause", long.as_str()),
        ("/campaigns/wheel/prizes/mug/pause", &long),
        ("/campaigns/none/resume", "long story"),
        ("/campaigns/wheel/prizes/none/resume", "long story"),
        ("/campaigns/wheel/proposals/none/approve", "long story"),
        ("/campaigns/wheel/proposals/none/reject", "long story"),
    ] {
        let answer = browser.post(path, &format!("request_id=one&reason={}", encoded(reason)));
        assert!(
            (400..500).contains(&answer.status),
            "{path}: {}",
            answer.body
        );
        for part in [
            format!(r#"action="{path}""#),
            format!(r#"name="reason" value="{reason}""#),
            r#"name="request_id" value="one""#.into(),
        ] {
            assert!(
                answer.body.contains(&part),
                "{path} {part}: {}",
                answer.body
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_stay_in_the_form_when_a_line_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let import = "/campaigns/wheel/codes/ticket";
    for codes in ["A-1\n A-2\nA<3>", "A-1\nA-1\nA<3>"] {
        let fields = [("first", "0"), ("codes", codes), ("reason", "first batch")];
        let answer = browser.upload(import, &fields);
        assert!((400..500).contains(&answer.status), "{}", answer.body);
        assert!(answer.body.contains("Line 2"), "{}", answer.body);
        let shown = codes.replace("A<3>", "A&lt;3&gt;");
        for part in [
            format!(">\n{shown}</textarea>"),
            r#"value="first batch""#.into(),
            format!(r#"action="{import}""#),
        ] {
            assert!(answer.body.contains(&part), "{part}: {}", answer.body);
        }
    }
    // Of an import that stopped in its second call, the rest stays.
    let many: Vec<_> = (0..10_001).map(|no| format!("B-{no}")).collect();
    let codes = format!("{}\nB-0\nC-0", many.join("\n"));
    let file = [("first", "0"), ("codes", ""), ("file", &codes)];
    let answer = browser.upload(import, &file);
    assert!((400..500).contains(&answer.status), "{}", answer.body);
    for part in [
        "Imported of these codes: 10,000",
        "Line 2",
        r#"name="first" value="10000""#,
        ">\nB-10000\nB-0\nC-0</textarea>",
    ] {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
}
