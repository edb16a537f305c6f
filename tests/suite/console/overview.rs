//! The first page: how fast campaigns draw, and what has changed since the last visit.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{fill, served};
use crate::process::PATIENCE;

#[tokio::test(flavor = "multi_thread")]
async fn changes_since_the_last_visit_are_shown() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut olga) = served(data.path());
    fill(&server).await;
    olga.sign_in("olga");
    let card = "Changes since your last visit";
    assert!(
        !olga.get("/").good().contains(card),
        "it is the first visit"
    );
    assert!(!olga.cookies["tombola-visit"].contains("olga"));

    assert!(!olga.get("/").good().contains(card), "it is the same visit");
    let mut igor = olga.clone();
    igor.sign_in("igor");
    igor.post("/campaigns/wheel/pause", "reason=fire");
    assert!(
        !igor.get("/").good().contains(card),
        "it was somebody else's"
    );

    // Two sessions that begin in the same second are one visit.
    tokio::time::sleep(Duration::from_secs(1)).await;
    olga.post("/sign-out", "");
    olga.sign_in("olga");
    let mut page = olga.get("/").good();
    assert!(page.contains(card), "{page}");
    let begun = Instant::now();
    // What was just done is shown once it is settled.
    while !page.contains("fire") {
        assert!(begun.elapsed() < PATIENCE, "{page}");
        page = olga.get("/").good();
    }
    for words in ["igor", "paused the campaign", r#"href="/history?from=20"#] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acts_in_all_campaigns_are_on_one_page() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut olga) = served(data.path());
    fill(&server).await;
    olga.sign_in("olga");
    let mut igor = olga.clone();
    igor.sign_in("igor");
    igor.post("/campaigns/wheel/pause", "reason=fire");
    olga.post("/envelopes/gift/cancel", "typed=gift&reason=mistake")
        .leads_to("/envelopes/gift?done=cancelled");
    let page = olga.get("/history").good();
    for words in [
        r#"<td><a href="/campaigns/wheel">wheel</a></td>"#,
        "applied a version",
        "fire",
        "cancelled an envelope",
        r#"<span class="hint">UTC</span>"#,
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let filtered = olga.get("/history?operator=igor").good();
    assert!(
        filtered.contains("fire") && !filtered.contains("mistake"),
        "{filtered}"
    );
    // The filter stays on the way to further pages.
    for number in 0..60 {
        let act = if number % 2 == 0 { "resume" } else { "pause" };
        igor.post(&format!("/campaigns/wheel/{act}"), "");
    }
    let page = olga.get("/history?operator=igor").good();
    let (_, next) = page.split_once(r#"rel="next" href=""#).unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    assert!(next.starts_with("/history?operator=igor&page="), "{next}");
    assert!(olga.get(&next).good().contains("fire"));
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_a_minute_appear_after_some_seconds() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    let page = browser.get("/").good();
    for words in ["Draws / wins a minute", r#"data-live="minute:wheel">–<"#] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = browser.get("/campaigns/wheel").good();
    assert!(page.contains("The curve begins two minutes"), "{page}");
    let cookie = &browser.cookies["tombola"];
    let mut stream = TcpStream::connect(browser.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let address = browser.address;
    let request = format!(
        "GET /live/overview HTTP/1.1\r\nHost: {address}\r\nCookie: tombola={cookie}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    // Nobody draws meanwhile.
    let known = lines.find(|line| line.contains(r#"data-live="minute:wheel">0 / 0<"#));
    assert!(known.is_some());
    // Others read the same.
    let page = browser.get("/campaigns/wheel").good();
    assert!(page.contains(r#"data-live="minute">0 / 0<"#), "{page}");
}
