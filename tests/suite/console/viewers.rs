//! Many viewers of live pages.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tombola::proto::{ApplyCampaignRequest, DrawRequest};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Browser, address};
use crate::{
    access::Gate,
    process::{PATIENCE, Server, Start, admin::Admin},
};

/// Viewers, and identities that they have.
const VIEWERS: usize = 200;
const IDENTITIES: usize = 20;
/// A live page.
#[derive(Clone, Copy)]
struct Page {
    stream: &'static str,
    /// News that each viewer waits for.
    news: usize,
    /// Reads of the store for one part: a campaign and its sums; or the time, the campaigns and
    /// their sums.
    reads: u64,
}

const CAMPAIGN: Page = Page {
    stream: "campaigns/wheel",
    news: 3,
    reads: 2,
};
/// Without draws it has no second news.
const OVERVIEW: Page = Page {
    stream: "overview",
    news: 1,
    reads: 3,
};
/// Both read the sums of the campaign.
const KINDS: u64 = CAMPAIGN.reads + OVERVIEW.reads - 1;

/// An access file in which many identities may look at everything.
fn policy() -> String {
    let mut policy = "roles: {all: [read, check, plan]}\nidentities:\n".to_owned();
    for number in 0..IDENTITIES {
        policy += &format!("  - {{name: v{number}, tokens: [{{sha256: <token-{number}>}}]}}\n");
    }
    policy += "bindings:\n";
    for number in 0..IDENTITIES {
        policy +=
            &format!("  - {{identity: v{number}, role: all, campaigns: ['*'], senders: ['*']}}\n");
    }
    policy
}

/// Reads for live pages so far: of the store, and shared.
pub(super) fn reads(admin: &Admin) -> (u64, u64) {
    let (_, _, text) = admin.get("/metrics");
    let of = |from: &str| {
        let name = format!("tombola_console_live_reads_total{{from=\"{from}\"}} ");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name.as_str()));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    };
    (of("store"), of("memory"))
}

/// Opens the page's stream, and waits for news.
async fn watch(viewer: Browser, page: Page) -> TcpStream {
    let mut stream = TcpStream::connect(viewer.address).await.unwrap();
    let request = format!(
        "GET /live/{} HTTP/1.1\r\nHost: {}\r\nCookie: tombola={}\r\n\r\n",
        page.stream, viewer.address, viewer.cookies["tombola"]
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let count = |seen: &[u8]| String::from_utf8_lossy(seen).matches("event: part").count();
    while count(&seen) < page.news {
        let read = timeout(PATIENCE, stream.read_buf(&mut seen)).await;
        assert!(
            read.unwrap().unwrap() > 0,
            "{}",
            String::from_utf8_lossy(&seen)
        );
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_viewers_cost_the_store_one_read_a_second() {
    let gate = Gate::with(&policy(), "--console 127.0.0.1:0");
    gate.by("token-0").await.apply("wheel").await.unwrap();
    let console = address(&gate.server);
    let browsers: Vec<_> = (0..IDENTITIES)
        .map(|number| {
            let mut browser = Browser::at(console);
            let form = format!("token=token-{number}");
            browser.post("/sign-in", &form).leads_to("/");
            browser
        })
        .collect();
    let admin = gate.server.admin();
    assert_eq!(reads(&admin), (0, 0));
    let begun = Instant::now();
    let mut viewers = JoinSet::new();
    for number in 0..VIEWERS {
        let page = [CAMPAIGN, OVERVIEW][number / IDENTITIES % 2];
        viewers.spawn(watch(browsers[number % IDENTITIES].clone(), page));
    }
    let open = viewers.join_all().await;
    let (store, memory) = reads(&admin);
    let seconds = begun.elapsed().as_secs() + 1;
    drop(open);
    // However slow the machine is: of each kind at most one in a second.
    assert!(
        store <= KINDS * (seconds + 1),
        "{store} reads in {seconds} s"
    );
    // And what each identity saw was read in its name.
    let least = [CAMPAIGN, OVERVIEW].map(|page| page.news as u64 * page.reads);
    let least = IDENTITIES as u64 * least.into_iter().sum::<u64>();
    assert!(store + memory >= least, "{store} and {memory}");
}

/// Callers that draw at the same time, rounds without and with viewers, and how long each lasts
/// unless `TOMBOLA_SECONDS` says so.
const CALLERS: usize = 32;
const ROUNDS: usize = 4;
const SECONDS: u64 = 5;

const ENDLESS: &str = "
id: wheel
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-12-31T00:00:00+08:00
prizes: [{id: mug, stock: 1000000000}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}]
";

/// Draws a second of all callers, for so long.
async fn draws_a_second(server: &Server, time: Duration) -> f64 {
    let made = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (mut lottery, made) = (server.lottery().await, Arc::clone(&made));
        callers.spawn(async move {
            loop {
                let request = DrawRequest {
                    campaign_id: "wheel".into(),
                    user_id: format!("user-{caller}"),
                    ..DrawRequest::default()
                };
                lottery.draw(request).await.unwrap();
                made.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let begun = Instant::now();
    sleep(time).await;
    let (count, took) = (made.load(Ordering::Relaxed), begun.elapsed());
    assert!(callers.try_join_next().is_none(), "a caller has ended");
    count as f64 / took.as_secs_f64()
}

/// Prints what viewers cost the callers; never asserts a speed. For the release build:
/// `cargo test --release --test suite draws_beside_two_hundred -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures for a minute"]
async fn draws_beside_two_hundred_viewers() {
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with("--console 127.0.0.1:0 --admin 127.0.0.1:0");
    let server = start.serve();
    let request = ApplyCampaignRequest {
        campaign: tombola::model::file::parse(ENDLESS).unwrap().pop(),
        operator: "olga".into(),
        ..ApplyCampaignRequest::default()
    };
    server
        .campaigns()
        .await
        .apply_campaign(request)
        .await
        .unwrap();
    let mut browser = Browser::at(address(&server));
    browser.sign_in("olga");
    let admin = server.admin();
    let seconds = std::env::var("TOMBOLA_SECONDS").ok();
    let seconds = seconds.and_then(|it| it.parse().ok()).unwrap_or(SECONDS);
    let time = Duration::from_secs(seconds);
    draws_a_second(&server, time).await;
    let mut sums = [0.0; 2];
    for round in 1..=ROUNDS {
        let without = draws_a_second(&server, time).await;
        let mut viewers = JoinSet::new();
        for _ in 0..VIEWERS {
            let viewer = browser.clone();
            viewers.spawn(async move {
                let mut stream = watch(viewer, CAMPAIGN).await;
                let mut news = vec![0; 64 * 1024];
                while stream.read(&mut news).await.unwrap() > 0 {}
            });
        }
        // All of them are there.
        drop(watch(browser.clone(), CAMPAIGN).await);
        let (before, begun) = (reads(&admin).0, Instant::now());
        let with = draws_a_second(&server, time).await;
        let (store, took) = (reads(&admin).0 - before, begun.elapsed());
        assert!(viewers.try_join_next().is_none(), "a viewer has ended");
        let most = CAMPAIGN.reads * (took.as_secs() + 2);
        assert!(store <= most, "{store} reads in {took:?}");
        viewers.shutdown().await;
        sums = [sums[0] + without, sums[1] + with];
        eprintln!("round {round}: {without:.0} draws/s without viewers, {with:.0} with {VIEWERS}");
    }
    eprintln!("with viewers / without: {:.3}", sums[1] / sums[0]);
}
