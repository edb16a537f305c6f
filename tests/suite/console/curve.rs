//! The curve of longer times, from settled entries.

use std::time::Instant;

use super::{Browser, address, fill, served};
use crate::{faults::redis::House, process::PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn days_and_weeks_are_sums_of_settled_draws() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut browser) = served(data.path());
    fill(&server).await;
    browser.sign_in("olga");
    for (span, name) in [
        ("day", "24 hours"),
        ("week", "7 days"),
        ("month", "30 days"),
    ] {
        let begun = Instant::now();
        let path = format!("/campaigns/wheel?curve={span}");
        let (_, curve) = loop {
            let page = browser.get(&path).good();
            let parts = page.split_once(r#"id="curve""#).unwrap();
            if parts.1.contains(r#"<td class="n">24</td>"#) {
                break (parts.0.to_owned(), parts.1.to_owned());
            }
            assert!(begun.elapsed() < PATIENCE, "{page}");
        };
        assert!(curve.contains("<polyline"), "{curve}");
        let (_, chosen) = curve.split_once(r#"aria-current="true""#).unwrap();
        let (chosen, _) = chosen.split_once("</a>").unwrap();
        assert!(chosen.contains(name), "{chosen}");
        // News of the last hour does not replace it.
        assert!(!curve.contains(r#"data-live="curve""#), "{curve}");
    }
    let page = browser.get("/campaigns/wheel").good();
    assert!(page.contains(r#"data-live="curve""#), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_postgresql_the_page_says_so() {
    let house = House::new();
    let server = house.start().with("--console 127.0.0.1:0").serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    let page = browser.get("/campaigns/wheel?curve=week").good();
    assert!(
        page.contains("--postgres-url") && page.contains("Last hour"),
        "{page}"
    );
    // All else is there.
    assert!(page.contains("Pause campaign"), "{page}");
}
