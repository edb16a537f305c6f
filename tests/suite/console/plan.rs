//! The plan editor: painting is a dry run, applying is one new version.

use tombola::proto::ApplyCampaignRequest;

use super::{Browser, address, encoded, fill, served};
use crate::{faults::redis::House, process::Server};

const PLAN: &str = "/campaigns/wheel/plan";

/// The hidden fields of the editor's form, as a browser sends them on.
pub(super) fn state(page: &str) -> String {
    let (_, form) = page.split_once(r#"id="plan-apply""#).map_or_else(
        || {
            page.split_once(r#"action="/campaigns/wheel/plan""#)
                .unwrap()
        },
        |(before, _)| {
            let at = before.rfind("<form").unwrap();
            ("", &page[at..])
        },
    );
    let form = form.split("</form>").next().unwrap();
    let mut fields = Vec::new();
    for input in form.split("<input").skip(1) {
        let input = input.split('>').next().unwrap();
        let value = |name: &str| {
            let (_, rest) = input.split_once(&format!(r#"{name}=""#))?;
            rest.split('"').next()
        };
        if input.contains(r#"type="hidden""#) && value("name") != Some("do") {
            let (name, value) = (value("name").unwrap(), value("value").unwrap());
            fields.push(format!("{name}={}", encoded(value)));
        }
    }
    fields.join("&")
}

/// Sends a form of the editor from this page.
#[track_caller]
fn paint(browser: &mut Browser, page: &str, form: &str) -> String {
    browser
        .post(PLAN, &format!("{}&{form}", state(page)))
        .good()
}

async fn edit(server: &Server, browser: &mut Browser) {
    fill(server).await;
    browser.sign_in("olga");
    assert!(
        browser
            .get("/campaigns/wheel/schedule")
            .good()
            .contains(PLAN)
    );
    let page = browser.get(&format!("{PLAN}?at=2028-02-28")).good();
    assert!(page.contains("Plan of pool hourly") && !page.contains("What the draft changes"));
    // Two cells, then a multiple of one of them.
    let page = paint(
        browser,
        &page,
        "do=cells&op=set&value=70&cell=20.1&cell=21.1",
    );
    for words in [
        "What the draft changes",
        "was 10",
        "2028-02-28 20:00",
        "nothing of it",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = paint(browser, &page, "do=cells&op=multiply&value=1.5&cell=21.1");
    assert!(
        page.contains("20:00 coupon: 70") && page.contains("21:00 coupon: 105"),
        "{page}"
    );
    // The day is copied to two Saturdays, and one hour of a week is changed by from and to.
    let copy = "do=copy&day=2028-02-28&from=2028-03-01&until=2028-03-12&weekday=6";
    let page = paint(browser, &page, copy);
    assert!(page.contains("Days that change: 3"), "{page}");
    let range = "do=range&from=2028-03-05&until=2028-03-06&begin=3&end=4&prize=1&op=add&value=-10";
    let page = paint(browser, &page, range);
    assert!(page.contains("Days that change: 5"), "{page}");
    // What is wrong changes nothing, and a step can be taken back.
    let wrong = paint(browser, &page, "do=cells&op=set&value=many&cell=20.1");
    assert!(
        wrong.contains("Write a whole number from 0") && wrong.contains("change: 5"),
        "{wrong}"
    );
    assert!(paint(browser, &page, "do=undo").contains("Days that change: 3"));
    assert!(
        server
            .run(&["campaign", "wheel"])
            .well()
            .contains("version 1")
    );

    let done = format!("{PLAN}?pool=hourly&at=2028-02-28&done=plan-applied");
    let apply = format!("{}&do=apply&reason=leap+day", state(&page));
    for _ in 0..2 {
        browser.post(PLAN, &apply).leads_to(&done); // sent twice, it is applied once
    }
    // With scripts the page stays until the draft is applied.
    let (before, _) = page.split_once(r#"id="plan-apply""#).unwrap();
    let (_, form) = before.rsplit_once("<form").unwrap();
    assert!(form.contains(&format!(r#"hx-post="{PLAN}""#)), "{form}");
    let applied = browser.post_by_htmx(PLAN, &apply);
    assert_eq!(applied.header("hx-redirect"), Some(&*done));
    let page = browser.get(&done).good();
    assert!(
        page.contains("The plan is in force") && page.contains("version 2"),
        "{page}"
    );
    assert!(
        page.contains("21:00 coupon: 105") && !page.contains("was 10"),
        "{page}"
    );
    let yaml = server
        .run(&["campaign", "wheel", "--output", "yaml"])
        .well();
    for special in [
        r#"{from: "2028-02-28T20:00", to: "2028-02-28T21:00", perHour: {coupon: 70}}"#,
        r#"{from: "2028-03-11T21:00", to: "2028-03-11T22:00", perHour: {coupon: 105}}"#,
        r#"{from: "2028-03-06T03:00", to: "2028-03-06T04:00", perHour: {coupon: 0}}"#,
    ] {
        assert!(yaml.contains(special), "{special}: {yaml}");
    }
    assert_eq!(
        yaml.matches("perHour: {coupon: ").count(),
        1 + 3 * 2 + 2,
        "{yaml}"
    );

    meanwhile(browser).await;
}

/// Another operator changes the campaign between painting and applying.
async fn meanwhile(browser: &mut Browser) {
    let page = browser.get(&format!("{PLAN}?at=2028-05-01")).good();
    let page = paint(browser, &page, "do=cells&op=set&value=33&cell=7.1");
    let raise = "units=5&version=2&reason=more+mugs";
    let raised = browser.post("/campaigns/wheel/prizes/mug/stock", raise);
    raised.leads_to("/campaigns/wheel?done=stock-raised");
    for form in ["do=apply&reason=mine", "do=cells&op=set&value=34&cell=8.1"] {
        let stale = paint(browser, &page, form);
        for words in ["Somebody changed the campaign", "more mugs", "on version 3"] {
            assert!(stale.contains(words), "{words}: {stale}");
        }
    }
    let again = paint(browser, &page, "do=rebase");
    assert!(again.contains("07:00 coupon: 33") && again.contains("What the draft changes"));
    let apply = format!("{}&do=apply&reason=mine", state(&again));
    browser.post(PLAN, &apply).leads_to(&format!(
        "{PLAN}?pool=hourly&at=2028-05-01&done=plan-applied"
    ));
    // Both changes are in force.
    let page = browser.get("/campaigns/wheel").good();
    assert!(
        page.contains("version 4") && page.contains("1,005"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_painted_and_applied() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    edit(&server, &mut browser).await;
    let history = browser.get("/campaigns/wheel/history").good();
    assert!(
        history.contains("leap day") && history.contains("mine"),
        "{history}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_painted_and_applied_on_redis() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    let mut browser = Browser::at(address(&server));
    edit(&server, &mut browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_the_service_refuses_is_kept_and_not_applied() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let page = browser.get(&format!("{PLAN}?at=2028-05")).good();
    // More than there may be in an hour is no schedule at all: the draft stays as it was.
    let none = paint(
        &mut browser,
        &page,
        "do=cells&op=set&value=10000001&cell=3.1",
    );
    assert!(
        none.contains("Problems: 1") && !none.contains("What the draft changes"),
        "{none}"
    );
    let forged = browser
        .post(PLAN, "pool=hourly&base=1&draft=AAAA&do=cells")
        .good();
    assert!(forged.contains("open the editor again"), "{forged}");
    let fields = "pool=hourly&base=1&draft=AAAA&do=apply&reason=r";
    assert_eq!(browser.post(PLAN, fields).status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_passed_or_is_injected_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let schedule = browser.get("/campaigns/wheel/schedule").good();
    let (_, today) = schedule.split_once("<h2>Day ").unwrap();
    let today = today.get(..10).unwrap();
    let page = browser.get(&format!("{PLAN}?at={today}")).good();
    assert!(page.contains("10 injected"), "{page}");
    // All hours of the first day have passed: none can be painted.
    let page = browser.get(&format!("{PLAN}?at=2026-11-01")).good();
    assert_eq!(page.matches(" disabled").count(), 24, "{page}");
    let none = paint(&mut browser, &page, "do=cells&op=set&value=5&cell=3.1");
    assert!(none.contains("These hours have passed"), "{none}");
    let hours = format!("do=range&from={today}&until={today}&begin=0&end=24&prize=1");
    let page = paint(&mut browser, &page, &format!("{hours}&op=add&value=5"));
    assert!(
        page.contains("Days that change: 1") && page.contains(today),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_played_through_on_demand() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = "
id: wheel
timeZone: Asia/Shanghai
startTime: 2029-11-01T00:00:00+08:00
endTime: 2029-11-03T00:00:00+08:00
prizes: [{id: coupon, stock: 2000}]
pools: [{id: hourly, schedule: {perHour: {coupon: 1}}}]
";
    let campaign = tombola::model::file::parse(yaml).unwrap().pop();
    let request = ApplyCampaignRequest {
        campaign,
        operator: "olga".into(),
        ..Default::default()
    };
    server
        .campaigns()
        .await
        .apply_campaign(request)
        .await
        .unwrap();
    browser.sign_in("olga");
    let page = browser.get(&format!("{PLAN}?at=2029-11-01")).good();
    let page = paint(
        &mut browser,
        &page,
        "do=cells&op=set&value=500&cell=20.0&cell=19.0",
    );
    assert!(page.contains("What the draft changes"), "{page}");
    // 2 hours of 500 and 46 of 1.
    let page = paint(&mut browser, &page, "do=forecast&users=50&per-day=1");
    for words in ["What will probably happen", "Played through ", "1,046"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    for (form, words) in [
        ("users=0&per-day=1", "Give 1 to 200,000 users"),
        ("users=5&per-day=x", "number of draws"),
        ("users=200000&per-day=1000", "too large for a page"),
    ] {
        let refused = paint(&mut browser, &page, &format!("do=forecast&{form}"));
        assert!(
            refused.contains(words) && refused.contains("notice warn"),
            "{words}: {refused}"
        );
    }
}
