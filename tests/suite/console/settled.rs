//! The console of a service on Redis whose ledger is settled into PostgreSQL.

use std::time::{Duration, Instant};

use super::{
    Browser, HOSTILE, address, all_pages, browser::drive_as, encoded, fill, grounds::Ground,
};
use crate::process::PATIENCE;

/// Pages of settled entries, and what each shows.
const SETTLED: [(&str, &str); 8] = [
    ("/campaigns/wheel?curve=week", r#"<td class="n">24</td>"#),
    ("/campaigns/wheel/draws", "order-1"),
    ("/campaigns/wheel/wins", "deck:1:0"),
    ("/campaigns/wheel/wins?delivery=PENDING", "deck:1:0"),
    ("/envelopes?kind=GRABBED", "CNY"),
    ("/campaigns/wheel/history", "applied a version"),
    ("/search?q=order-1", "/campaigns/wheel"),
    ("/envelopes", "gift"),
];

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_settled_entries_work_on_redis_with_postgresql() {
    let ground = Ground::redis_with_postgresql().await;
    let server = ground.start().serve();
    fill(&server).await;
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    let absent = "This needs the settled ledger";
    let begun = Instant::now();
    for (path, word) in SETTLED {
        // What was just done is there once it is settled.
        loop {
            let page = browser.get(path).good();
            assert!(!page.contains(absent), "{path}: {page}");
            let (_, contents) = page.split_once("<main").unwrap();
            if contents.contains(word) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{path}: {page}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let user = format!("/campaigns/wheel/users?user={}", encoded(HOSTILE));
    let page = browser.get(&user).good();
    assert!(!page.contains(absent) && page.contains("order-1"), "{page}");
    // A unit is found by its id alone, in whichever campaign it was won.
    let wins = browser.get("/campaigns/wheel/wins").good();
    let (_, unit) = wins.split_once("<code>deck:").unwrap();
    let unit = format!("deck:{}", unit.split('<').next().unwrap());
    let found = browser.get(&format!("/search?q={}", encoded(&unit))).good();
    let cell = format!("<code>{unit}</code>");
    assert_eq!(found.matches(&cell).count(), 1, "{found}");
    let filtered = format!("/campaigns/wheel/wins?unit={}", encoded(&unit));
    let filtered = browser.get(&filtered).good();
    assert_eq!(filtered.matches("<code>deck:").count(), 1, "{filtered}");
    // This server has no role that may erase.
    let page = browser.get("/users/forget?user=u").good();
    assert!(page.contains("--postgres-eraser-url"), "{page}");
    let file = browser.get("/campaigns/wheel/draws.csv").good();
    assert!(file.contains("order-1"), "{file}");
    // As people see them.
    let origin = format!("http://{}", address(&server));
    drive_as("igor", "pages.mjs", &origin, &all_pages());
}
