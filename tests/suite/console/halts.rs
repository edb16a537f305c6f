//! A part of the store that is halted or cannot be read: all else is shown, and what is wrong is
//! named.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    net::TcpStream,
};

use tombola::proto::{GetStatsRequest, ListAlertsRequest, ListCampaignsRequest};

use super::{Browser, address, viewers};
use crate::{
    faults::{
        load,
        redis::witness::{Loss, Witness},
    },
    process::{PATIENCE, Server},
    support::redis_server::{RedisServer, until},
};

/// Campaigns of several partitions.
const OTHERS: [&str; 6] = ["a1", "b2", "c3", "d4", "e5", "f6"];

/// A campaign beside the one of the witness.
fn other(id: &str) -> String {
    format!(
        "
id: {id}
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{{id: mug, stock: 10}}]
pools: [{{id: deck, deck: {{size: 10, cards: {{mug: 1}}, onExhausted: RESHUFFLE}}}}]
"
    )
}

/// A service with a console, the campaign `wheel` and others.
async fn served(redis: &RedisServer) -> (Witness, Browser) {
    let options = "--console 127.0.0.1:0 --admin 127.0.0.1:0";
    let witness = Witness::start_with(&redis.url(), options).await;
    for id in OTHERS {
        load::apply_all(&witness.server, &load::now_and_about_noon(&other(id))).await;
    }
    let mut browser = Browser::at(address(&witness.server));
    browser.sign_in("olga");
    (witness, browser)
}

async fn halted_partitions(server: &Server, id: &str) -> Vec<u32> {
    let request = GetStatsRequest {
        campaign_id: id.into(),
    };
    let stats = server.campaigns().await.get_stats(request).await.unwrap();
    let halted = stats.into_inner().halted.into_iter();
    halted.map(|part| part.partition).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_is_named_and_hides_nothing() {
    let mut redis = RedisServer::start(&[]);
    let (mut witness, mut browser) = served(&redis).await;
    witness.draw("kept", 20).await;
    redis.back_up();
    witness.draw("lost", 20).await;
    redis.restart_from_backup();
    until("a partition is halted", || witness.loss().is_some());
    witness.is_halted().await;
    let Loss { partition, .. } = witness.loss().unwrap();

    // Every campaign is listed, over the API as well.
    let request = ListCampaignsRequest::default();
    let mut campaigns = witness.server.campaigns().await;
    let list = campaigns.list_campaigns(request).await.unwrap();
    let list = list.into_inner();
    assert_eq!(list.campaigns.len(), OTHERS.len() + 1, "{list:?}");
    assert!(list.unread.is_empty(), "{list:?}");
    let named: Vec<_> = list.halted.iter().map(|part| part.partition).collect();
    assert_eq!(named, [partition]);
    assert_eq!(
        halted_partitions(&witness.server, "wheel").await,
        [partition]
    );
    let mut well = 0;
    for id in OTHERS {
        well += usize::from(halted_partitions(&witness.server, id).await.is_empty());
    }
    assert!(well > 0, "all campaigns are in one partition");
    let shown = witness.server.run(&["campaigns"]).well();
    assert!(
        shown.contains("a1") && shown.contains("is halted"),
        "{shown}"
    );

    for (language, headline) in [
        ("en", "A part of the store is halted"),
        ("zh", "存储的一部分已停止"),
    ] {
        browser.language = language;
        let overview = browser.get("/").good();
        for id in OTHERS.into_iter().chain(["wheel"]) {
            let row = format!(r#"<th scope="row"><a href="/campaigns/{id}""#);
            assert!(overview.contains(&row), "{id}: {overview}");
        }
        let wheel = browser.get("/campaigns/wheel").good();
        let refused = browser.post("/campaigns/wheel/pause", "");
        assert_eq!(refused.status, 503, "{}", refused.body);
        let system = browser.get("/system").good();
        for page in [&overview, &wheel, &refused.body, &system] {
            assert!(page.contains(headline), "{page}");
            assert!(page.contains("<code>tombola recover</code>"), "{page}");
            assert!(!page.contains("Halted("), "{page}");
        }
        let number = format!(" {partition}: ");
        assert!(overview.contains(&number) && wheel.contains(&number));
        assert!(system.contains(&number), "{system}");
        let row = "</span> <code>tombola recover</code></td>";
        assert!(system.contains(row), "{system}");
        for path in ["/campaigns/wheel/schedule", "/campaigns/a1", "/alerts"] {
            browser.get(path).good();
        }
    }
    browser.language = "en";
    assert!(browser.get("/").good().contains(">Halted</span>"));

    witness.recover("--accept --yes").well();
    until("it is said no more", || {
        !browser.get("/").good().contains("is halted")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_cannot_be_read_does_not_hide_the_others() {
    let redis = RedisServer::start(&[]);
    let (witness, mut browser) = served(&redis).await;
    let keys = redis.command(&["KEYS", "*:campaign:c3"]);
    let key = keys.trim();
    redis.command(&["DEL", key]);
    redis.command(&["SET", key, "no hash"]);

    let request = ListCampaignsRequest::default();
    let mut campaigns = witness.server.campaigns().await;
    let list = campaigns.list_campaigns(request).await.unwrap();
    let list = list.into_inner();
    assert_eq!(list.campaigns.len(), OTHERS.len(), "{list:?}");
    assert!(list.halted.is_empty(), "{list:?}");
    let unread: Vec<_> = list
        .unread
        .iter()
        .map(|it| it.campaign_id.as_str())
        .collect();
    assert_eq!(unread, ["c3"], "{list:?}");
    let page = browser.get("/").good();
    assert!(
        page.contains("Some campaigns cannot be read now") && page.contains("/campaigns/b2"),
        "{page}"
    );
    let shown = witness.server.run(&["campaigns"]).well();
    assert!(shown.contains("campaign c3 is missing"), "{shown}");
    until("alerts are said to be incomplete", || {
        browser.get("/alerts").good().contains("there may be more")
    });
    let alerts = campaigns.list_alerts(ListAlertsRequest::default()).await;
    assert!(alerts.unwrap().into_inner().incomplete);
}

/// The events of a live page, line by line.
fn events(browser: &Browser, path: &str) -> Lines<BufReader<TcpStream>> {
    let (address, cookie) = (browser.address, &browser.cookies["tombola"]);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: tombola={cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream).lines()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_sums_cannot_be_read_waits_for_them() {
    let redis = RedisServer::start(&[]);
    let (witness, mut browser) = served(&redis).await;
    witness.server.run(&["draw", "a1", "user-1"]).well();
    let keys = redis.command(&["KEYS", "*:units:a1:0:*"]);
    let key = keys.lines().next().unwrap();
    assert_eq!(redis.command(&["RENAME", key, "aside"]), "OK");
    assert_eq!(redis.command(&["SET", key, "no units"]), "OK");

    let page = browser.get("/campaigns/a1").good();
    let instead = r#"data-stream="/live/campaigns/a1"><div data-live="numbers"><div class="notice"#;
    assert!(page.contains(instead), "{page}");
    assert!(page.contains("The service has an error"), "{page}");
    assert!(page.contains("Pause campaign"), "{page}");

    // It is not told to load itself again, which would end the same.
    let mut events = events(&browser, "/live/campaigns/a1").map(Result::unwrap);
    let admin = witness.server.admin();
    until("campaign and sums are read a second time", || {
        viewers::reads(&admin).0 > 3
    });
    assert_eq!(redis.command(&["RENAME", "aside", key]), "OK");
    let first = events.find(|line| line.starts_with("event: "));
    assert_eq!(first.as_deref(), Some("event: part"));
    let part = events.find(|line| line.starts_with("data: ")).unwrap();
    let whole = part.find(r#"<div data-live="numbers">"#);
    let draws = part.find(r#"<span data-live="draws">1<"#);
    assert!(whole.is_some() && whole < draws, "{part}");
    let page = browser.get("/campaigns/a1").good();
    assert!(!page.contains("The service has an error"), "{page}");
}
