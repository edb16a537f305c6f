//! New campaigns and other versions of one, as files in the browser.

use super::{Browser, address, encoded, served};
use crate::{faults::redis::House, process::Server};

/// The text in the editor of a page.
fn text(page: &str) -> String {
    let (_, rest) = page.split_once("<textarea").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let text = rest.split("</textarea>").next().unwrap().trim_start();
    let plain = [
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    plain
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The value of a hidden field.
#[track_caller]
pub(super) fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page
        .split_once(&format!(r#"name="{name}" value=""#))
        .unwrap();
    rest.split('"').next().unwrap().to_owned()
}

pub(super) fn form(base: &str, text: &str, rest: &str) -> String {
    // As browsers send the ends of lines.
    let text = encoded(&text.replace('\n', "\r\n"));
    format!("base={base}&yaml={text}&{rest}")
}

async fn from_template_to_second_version(server: &Server, browser: &mut Browser) {
    browser.sign_in("olga");
    assert!(browser.get("/").good().contains(r#"href="/new""#));
    let page = browser.get("/new?template=grand-wheel").good();
    let (yaml, base) = (text(&page), hidden(&page, "base"));
    let id = yaml
        .lines()
        .next()
        .unwrap()
        .strip_prefix("id: ")
        .unwrap()
        .to_owned();
    assert!(id.starts_with("grand-wheel-") && base == "0", "{yaml}");

    // Checked as it is typed, by the rules of the command line.
    let check = browser.post("/new/check", &form("0", &yaml, "")).good();
    assert!(
        check.contains("the file is right") && !check.contains("<html"),
        "{check}"
    );
    let wrong = yaml.replace("drawsPerDay", "drawsPerDya");
    let check = browser.post("/new/check", &form("0", &wrong, "")).good();
    assert!(check.contains("did you mean drawsPerDay"), "{check}");
    let two = format!("{yaml}---\n{}", yaml.replace(&id, "other"));
    let check = browser.post("/new/check", &form("0", &two, "")).good();
    assert!(check.contains("several campaigns"), "{check}");

    // Nothing is applied that was not tried.
    let tried = browser
        .post("/new", &form("0", &yaml, "do=apply&reason=go"))
        .good();
    assert!(
        tried.contains("What it comes to") && tried.contains("EUR 75,000"),
        "{tried}"
    );
    server.run(&["campaign", &id]).badly(1, &["no campaign"]);
    let mark = format!(
        "tried={}&request_id=new-1&reason=go",
        hidden(&tried, "tried")
    );
    let apply = form("0", &yaml, &format!("do=apply&{mark}"));
    let done = format!("/campaigns/{id}?done=applied");
    for _ in 0..2 {
        browser.post("/new", &apply).leads_to(&done);
    }
    let page = browser.get(&done).good();
    assert!(
        page.contains("The campaign is applied") && page.contains("version 1"),
        "{page}"
    );

    // The same id is not used again.
    let again = apply.replace("new-1", "new-2");
    let refused = browser.post("/new", &again).good();
    assert!(
        refused.contains("Nothing was overwritten") && !refused.contains("new-apply"),
        "{refused}"
    );

    let edit = browser.get(&format!("/campaigns/{id}/edit")).good();
    assert_eq!(hidden(&edit, "base"), "1");
    let more = text(&edit).replace("drawsPerDay: 5", "drawsPerDay: 7");
    let tried = browser.post("/new", &form("1", &more, "do=try")).good();
    for words in [
        "Differences from version 1",
        "limits.drawsPerDay",
        "<code>7</code>",
    ] {
        assert!(tried.contains(words), "{words}: {tried}");
    }
    let mark = format!("tried={}&reason=more", hidden(&tried, "tried"));
    let applied = browser.post("/new", &form("1", &more, &format!("do=apply&{mark}")));
    applied.leads_to(&done);
    assert!(browser.get(&done).good().contains("version 2"));
    // Who still has the first version overwrites nothing.
    let late = more.replace("drawsPerDay: 7", "drawsPerDay: 9");
    let refused = browser.post("/new", &form("1", &late, "do=try")).good();
    assert!(refused.contains("Nothing was overwritten"), "{refused}");
}

#[test]
fn a_file_as_large_as_the_command_line_takes_is_checked() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let yaml = text(&browser.get("/new?template=grand-wheel").good());
    // In a form each byte of it takes three.
    let largest = "x".repeat((1 << 20) - yaml.len() - 2);
    for (comment, words) in [
        (largest.clone(), "the file is right"),
        (largest + "x", "has at most 1 MiB"),
    ] {
        let file = format!("#{comment}\n{yaml}");
        let check = browser.post("/new/check", &form("0", &file, "")).good();
        assert!(check.contains(words), "{words}: {check}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_made_of_a_template_and_changed() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    from_template_to_second_version(&server, &mut browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_made_of_a_template_and_changed_on_redis() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    let mut browser = Browser::at(address(&server));
    from_template_to_second_version(&server, &mut browser).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_played_through_before_it_is_applied() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let yaml = "
id: deck
timeZone: Asia/Shanghai
startTime: 2029-11-01T00:00:00+08:00
endTime: 2029-11-03T00:00:00+08:00
prizes: [{id: coupon, stock: 20}]
pools: [{id: cards, deck: {size: 4, cards: {coupon: 1}, onExhausted: RESHUFFLE}}]
";
    let played = form("0", yaml, "do=forecast&users=200&per-day=2");
    let page = browser.post("/new", &played).good();
    for words in [
        "What will probably happen",
        "Played through ",
        "in 100 % of runs",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    server.run(&["campaign", "deck"]).badly(1, &["no campaign"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_stays_text() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut browser) = served(data.path());
    browser.sign_in("olga");
    let text = "id: </textarea><script>alert(1)</script>";
    for path in ["/new", "/new/check"] {
        let page = browser.post(path, &form("0", text, "do=try")).good();
        assert!(!page.contains("<script>alert"), "{page}");
    }
}
