//! The console of a service on Redis whose ledger is settled into PostgreSQL.

use std::time::Instant;

use tombola::ledger::{PostgresSink, PostgresUrl};

use super::{Browser, HOSTILE, address, encoded, fill};
use crate::{faults::redis::House, process::PATIENCE, support::postgres::Postgres};

/// Pages of settled entries, and what each shows.
const SETTLED: [(&str, &str); 5] = [
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
    let file = browser.get("/campaigns/wheel/draws.csv").good();
    assert!(file.contains("order-1"), "{file}");
}
