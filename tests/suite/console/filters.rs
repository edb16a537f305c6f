//! Filters of lists and of the schedule, by address; and that no page has a secret.

use std::time::Instant;

use tombola::proto::DrawRequest;

use super::{Browser, address, all_pages, encoded, fill, served, wait_for};
use crate::{access::Gate, process::PATIENCE};

/// The last table of a page, or what is there in place of one, once it has a text: lists have what
/// was done once it is settled.
#[track_caller]
fn contents(browser: &mut Browser, path: &str, words: &str) -> String {
    let begun = Instant::now();
    loop {
        let page = browser.get(path).good();
        let rows = page.rsplit_once("<tbody>");
        let rows = rows.or_else(|| page.split_once(r#"<div class="empty">"#));
        let contents = rows.map_or("", |(_, contents)| contents);
        if contents.contains(words) {
            return contents.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "{path}: {words}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_by_all_that_the_service_can_filter_by() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let draws = "/campaigns/wheel/draws";
    contents(&mut browser, draws, "order-1");
    // Twenty wins are all that the user may have: the first draw won twelve times.
    let lost = contents(&mut browser, &format!("{draws}?outcome=NOTHING"), "Nothing");
    assert!(!lost.contains("order-1"), "{lost}");
    contents(&mut browser, &format!("{draws}?outcome=WON"), "order-1");
    contents(&mut browser, &format!("{draws}?funding=FREE"), "order-1");
    contents(
        &mut browser,
        &format!("{draws}?funding=PAID"),
        "Nothing matches the filter",
    );
    let bad = browser.get(&format!("{draws}?outcome=ALL"));
    assert!(bad.body.contains("none of the choices"), "{}", bad.body);
    // The choice stays in the form, and in the address of the file.
    let page = browser.get(&format!("{draws}?outcome=WON")).good();
    for word in [
        r#"<option value="WON" selected>"#,
        "/campaigns/wheel/draws.csv?outcome=WON",
    ] {
        assert!(page.contains(word), "{word}: {page}");
    }
    // No column says that all draws are of this campaign.
    assert!(!page.contains(r#"<th scope="col">Campaign"#), "{page}");

    let wins = "/campaigns/wheel/wins";
    let all = contents(&mut browser, wins, "<code>");
    let unit = all.split("<code>").nth(1).unwrap();
    let unit = unit.split("</code>").next().unwrap();
    let cell = format!("<code>{unit}</code>");
    let form = format!("unit={}&reference=parcel-7", encoded(unit));
    let sent = browser.post(&format!("{wins}/deliver"), &form);
    assert_eq!(sent.status, 303, "{}", sent.body);
    let delivered = format!("{wins}?delivery=DELIVERED");
    let found = contents(&mut browser, &delivered, "parcel-7");
    assert_eq!(found.matches("<tr>").count(), 1, "{found}");
    let pending = contents(&mut browser, &format!("{wins}?delivery=PENDING"), "<code>");
    assert!(!pending.contains(&cell), "{pending}");
    assert_eq!(pending.matches("<summary>").count(), 19, "{pending}");
    let file = browser
        .get(&format!("{wins}.csv?delivery=DELIVERED"))
        .good();
    assert_eq!(file.lines().count(), 2, "{file}");

    let history = "/campaigns/wheel/history";
    let acts = contents(&mut browser, &format!("{history}?kind=DELIVER"), "parcel-7");
    assert!(!acts.contains("applied a version"), "{acts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_delivers_a_win_of_a_later_page_comes_back_to_that_page() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    // With those that are there, more wins than a page has.
    for user_id in ["anna", "carl"] {
        let request = DrawRequest {
            campaign_id: "wheel".into(),
            user_id: user_id.into(),
            count: 20,
            ..Default::default()
        };
        server.lottery().await.draw(request).await.unwrap();
    }
    browser.sign_in("olga");
    let next = r#"rel="next" href=""#;
    let page = wait_for(&mut browser, "/campaigns/wheel/wins", next);
    let (_, next) = page.split_once(next).unwrap();
    let next = next.split('"').next().unwrap();
    let page = browser.get(next).good();
    let (_, form) = page.split_once("/wins/deliver").unwrap();
    let back = format!(r#"name="back" value="{next}""#);
    assert!(form.contains(&back), "{back}: {form}");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_envelopes_have_a_currency_filters_and_a_file() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let grabs = contents(&mut browser, "/envelopes?kind=GRABBED", "gift");
    assert!(
        grabs.contains("CNY") && !grabs.contains("created"),
        "{grabs}"
    );
    let created = contents(&mut browser, "/envelopes?kind=CREATED", "gift");
    assert!(created.contains("CNY 88.88"), "{created}");
    contents(
        &mut browser,
        "/envelopes?to=2020-01-01",
        "Nothing matches the filter",
    );
    let page = browser.get("/envelopes?kind=GRABBED").good();
    assert!(page.contains("/envelopes.csv?kind=GRABBED"), "{page}");
    let file = browser.get("/envelopes.csv?kind=GRABBED").good();
    let rows: Vec<_> = file.lines().collect();
    assert_eq!(rows.len(), 2, "{file}");
    assert!(rows[0].contains("amount_minor,currency"), "{file}");
    assert!(
        rows[1].contains(",gift,grabbed,") && rows[1].contains(",CNY,"),
        "{file}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_is_shown_by_prize_and_pool_and_the_editor_has_addresses() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    let yaml = data.path().join("two.yaml");
    std::fs::write(
        &yaml,
        "id: two\ntimeZone: UTC\nstartTime: 2030-01-01T00:00:00Z\nendTime: 2030-03-01T00:00:00Z\n\
         prizes: [{id: mug, stock: 9000}, {id: coupon, stock: 9000}]\n\
         pools:\n  - {id: one, schedule: {perHour: {mug: 3, coupon: 2}}}\n  \
         - {id: other, schedule: {perHour: {mug: 1}}}\n",
    )
    .unwrap();
    server.run(&["apply", yaml.to_str().unwrap()]).well();
    browser.sign_in("olga");
    let path = "/campaigns/two/schedule?day=2030-01-05";
    let page = browser.get(path).good();
    for word in ["Waiting", "Injected", r#"<td class="n">144</td>"#] {
        assert!(page.contains(word), "{word}: {page}");
    }
    let mug = browser.get(&format!("{path}&prize=mug&pool=one")).good();
    assert!(
        mug.contains(r#"<td class="n">72</td>"#),
        "3 in 24 hours: {mug}"
    );
    assert!(!mug.contains("<td>other</td>"), "{mug}");
    // Other days keep the filters.
    let next = "/campaigns/two/schedule?day=2030-01-06&amp;prize=mug&amp;pool=one";
    assert!(mug.contains(next), "{mug}");

    let editor = browser
        .get("/campaigns/two/plan?pool=other&at=2030-01")
        .good();
    let day = r#"href="/campaigns/two/plan?pool=other&amp;at=2030-01-02""#;
    assert!(
        editor.contains(day) && !editor.contains("data-draft"),
        "{editor}"
    );
    let codes = browser.get("/campaigns/two/codes").good();
    assert!(codes.contains("codes: true"), "{codes}");
}

const POLICY: &str = "
roles: {all: [read, plan, stop, admin]}
identities: [{name: boss, tokens: [{sha256: <boss-token>}]}]
bindings: [{identity: boss, role: all, campaigns: ['*'], senders: ['*']}]
";

#[tokio::test(flavor = "multi_thread")]
async fn no_page_header_or_file_has_the_token() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    gate.by("boss-token").await.apply("wheel").await.unwrap();
    let mut browser = Browser::at(address(&gate.server));
    let answer = browser.post("/sign-in", "token=boss-token");
    answer.leads_to("/");
    let mut pages = all_pages();
    for list in ["draws", "wins", "winners", "history"] {
        pages.push(format!("/campaigns/wheel/{list}.csv"));
    }
    pages.push("/envelopes.csv".into());
    let mut answers = vec![answer];
    answers.extend(pages.iter().map(|path| browser.get(path)));
    let refused = Browser::at(browser.address).post("/sign-in", "token=boss-token-x");
    answers.push(refused);
    for (index, answer) in answers.iter().enumerate() {
        let is_told = answer.head.contains("boss-token") || answer.body.contains("boss-token");
        assert!(!is_told, "{index}: {}\n{}", answer.head, answer.body);
    }
}
