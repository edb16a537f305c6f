//! Pages of a store with many campaigns, and of one with many hours, on the embedded store and on
//! Redis.
//!
//! `TOMBOLA_CAMPAIGNS` and `TOMBOLA_HOURS` set how many there are. What is asserted is the same for
//! any number; how long each page takes is printed, for `--nocapture`, and never asserted.

use std::{fmt::Write as _, time::Instant};

use jiff::{Span, Timestamp};
use tombola::proto::ApplyCampaignRequest;

use super::{Browser, address, grounds::Ground, wait_for};
use crate::process::Server;

/// How many campaigns there are unless the variable says so. On Redis each costs more.
const CAMPAIGNS: usize = 120;
const CAMPAIGNS_ON_REDIS: usize = 60;
/// How many hours there are unless the variable says so.
const HOURS: usize = 500;
/// Campaigns of a page.
const PAGE_SIZE: usize = 25;
/// How often each page is loaded.
const ROUNDS: usize = 5;

fn setting(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// A campaign of two pools and this many hours.
async fn apply(server: &Server, id: &str, hours: usize) {
    let start: Timestamp = "2026-12-05T00:00:00+08:00".parse().unwrap();
    let end = start + Span::new().hours(i64::try_from(hours).unwrap());
    let mut yaml =
        format!("id: {id}\ntimeZone: Asia/Shanghai\nstartTime: {start}\nendTime: {end}\nprizes:\n");
    for number in 0..5 {
        let _ = writeln!(yaml, "  - {{id: p{number}, stock: 10000000}}");
    }
    yaml += "pools:\n  - id: hourly\n    schedule:\n      perHour: {p0: 3, p1: 2, p2: 1}\n";
    yaml += "  - id: deck\n    deck: {size: 100, cards: {p3: 5, p4: 1}, onExhausted: RESHUFFLE}\n";
    let request = ApplyCampaignRequest {
        campaign: tombola::model::file::parse(&yaml).unwrap().pop(),
        operator: "olga".into(),
        ..Default::default()
    };
    let mut campaigns = server.campaigns().await;
    campaigns.apply_campaign(request).await.unwrap();
}

/// Loads the pages on a store of this name.
async fn load(store: &str, ground: &Ground, campaigns: usize) {
    let server = ground.start().serve();
    let mut browser = Browser::at(address(&server));
    let campaigns = setting("TOMBOLA_CAMPAIGNS").unwrap_or(campaigns);
    let hours = setting("TOMBOLA_HOURS").unwrap_or(HOURS);
    for number in 0..campaigns {
        apply(&server, &format!("c{number:05}"), 24).await;
    }
    apply(&server, "long", hours).await;
    server
        .run(&["draw", "long", "user-1", "--count", "10"])
        .well();
    browser.sign_in("olga");

    // The list has a page for each 25, and names each once.
    let mut seen = 0;
    let mut path = "/".to_owned();
    loop {
        let page = browser.get(&path).good();
        seen += page
            .matches(r#"<th scope="row"><a href="/campaigns/"#)
            .count();
        let Some((_, next)) = page.split_once(r#"rel="next" href=""#) else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
        assert!(seen.is_multiple_of(PAGE_SIZE), "{seen}");
    }
    assert_eq!(seen, campaigns + 1);

    // Pages of the ledger have something to show.
    wait_for(&mut browser, "/campaigns/long/draws", "user=user-1");
    eprintln!(
        "{store}: {campaigns} campaigns, one of {hours} hours; milliseconds of {ROUNDS} loads"
    );
    for path in [
        "/",
        "/alerts",
        "/new",
        "/envelopes",
        "/?state=RUNNING",
        "/?state=CLOSED",
        "/search?q=long",
        "/search?q=user-1",
        "/campaigns/long",
        "/campaigns/long/schedule",
        "/campaigns/long/schedule?day=2026-12-20",
        "/campaigns/long/plan",
        "/campaigns/long/plan?at=2026-12-20",
        "/campaigns/long/edit",
        "/campaigns/long/odds",
        "/campaigns/long/draws",
        "/campaigns/long/users?user=user-1",
        "/campaigns/long/history",
        "/campaigns/long/change",
        "/system",
    ] {
        let times = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            browser.get(path).good();
            format!("{:.0}", begun.elapsed().as_secs_f64() * 1e3)
        });
        let times: Vec<_> = times.collect();
        eprintln!("{store}: {path}: {}", times.join(" "));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_many_campaigns_and_of_many_hours() {
    load("embedded", &Ground::embedded(), CAMPAIGNS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_many_campaigns_and_of_many_hours_on_redis() {
    let ground = Ground::redis_with_postgresql().await;
    load("Redis", &ground, CAMPAIGNS_ON_REDIS).await;
}
