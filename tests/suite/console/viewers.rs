//! Many viewers of one live page.

use std::time::Instant;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use super::{Browser, address};
use crate::{
    access::Gate,
    process::{PATIENCE, admin::Admin},
};

/// Viewers, and identities that they have.
const VIEWERS: usize = 200;
const IDENTITIES: usize = 20;
/// News that each viewer waits for.
const NEWS: usize = 3;
/// Reads of a campaign's page: the campaign and its sums.
const KINDS: u64 = 2;

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
fn reads(admin: &Admin) -> (u64, u64) {
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
async fn watch(viewer: Browser) -> TcpStream {
    let mut stream = TcpStream::connect(viewer.address).await.unwrap();
    let request = format!(
        "GET /live/campaigns/wheel HTTP/1.1\r\nHost: {}\r\nCookie: tombola={}\r\n\r\n",
        viewer.address, viewer.cookies["tombola"]
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let count = |seen: &[u8]| String::from_utf8_lossy(seen).matches("event: part").count();
    while count(&seen) < NEWS {
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
        viewers.spawn(watch(browsers[number % IDENTITIES].clone()));
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
    let least = (IDENTITIES * NEWS) as u64 * KINDS;
    assert!(store + memory >= least, "{store} and {memory}");
}
