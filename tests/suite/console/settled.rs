//! The console of a service on Redis whose ledger is settled into PostgreSQL.

use std::time::Instant;

use tombola::ledger::{PostgresSink, PostgresUrl};

use super::{Browser, HOSTILE, address, encoded, fill};
use crate::{faults::redis::House, process::PATIENCE, support::postgres::Postgres};

/// Pages of settled entries, and what each shows.
const SETTLED: [(&str, &str); 6] = [
    ("/campaigns/wheel?curve=week", r#"<td class="n">24</td>"#),
    ("/campaigns/wheel/draws", "order-1"),
    ("/campaigns/wheel/wins", "deck:1:0"),
    ("/campaigns/wheel/history", "applied a version"),
    ("/search?q=order-1", "/campaigns/wheel"),
    ("/envelopes", "gift"),
];

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_settled_entries_work_on_redis_with_postgresql() {
    let postgres = Postgres::start();
    let url = postgres.database("ledger").await;
    let parsed = PostgresUrl::parse(&url).unwrap();
    assert!(PostgresSink::migrate(&parsed).await.unwrap());
    let house = House::new();
    let line = format!("--console 127.0.0.1:0 --postgres-url {url}");
    let server = house.start().with(&line).serve();
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
    let file = browser.get("/campaigns/wheel/draws.csv").good();
    assert!(file.contains("order-1"), "{file}");
}
