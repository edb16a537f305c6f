//! Clients that call and never read: what all of them together may hold in memory.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tombola::{
    model::file,
    proto::{ApplyCampaignRequest, DrawRequest},
};
use tonic::Code;

use crate::process::{Raw, Server, Start};

const LIST: &str = "/tombola.v1.CampaignService/ListCampaigns";

/// What should take moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);

const MIB: u64 = 1 << 20;
/// The most that all connections together may hold in calls and unsent answers.
const HELD_MAX: u64 = 256 * MIB;

/// Connections that do not read, and the calls of each. Eight answers of a connection may be
/// unsent at once.
const CONNECTIONS: usize = 100;
const CALLS: usize = 8;

/// The time between two of the connections that come later.
const PAUSE: Duration = Duration::from_millis(100);

/// Draws of a client that reads, after the first connection was closed.
const SERVED: usize = 100;

/// What the service says when it closes one connection for the sake of all.
const TOO_MUCH: &str = "it does not read its answers, and all together hold too much";

/// A list of campaigns has a megabyte.
const CAMPAIGNS: usize = 3;
const PRIZES: usize = 11;
const ATTRIBUTES: usize = 32;
const ATTRIBUTE_BYTES: usize = 1024;

/// Creates campaigns whose prizes have long attributes.
async fn apply_large_campaigns(server: &Server) {
    const YAML: &str = "
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
pools: [{id: deck, deck: {size: 100, cards: {p-0: 50}, onExhausted: RESHUFFLE}}]
";
    let text = "x".repeat(ATTRIBUTE_BYTES);
    let attributes: Vec<_> = (0..ATTRIBUTES).map(|n| format!("a{n}: {text}")).collect();
    let attributes = attributes.join(", ");
    let prizes: Vec<_> = (0..PRIZES)
        .map(|n| format!("{{id: p-{n}, stock: 1000000, attributes: {{{attributes}}}}}"))
        .collect();
    let prizes = prizes.join(", ");
    let mut client = server.campaigns().await;
    for number in 0..CAMPAIGNS {
        let yaml = format!("id: c-{number}{YAML}prizes: [{prizes}]\n");
        let request = ApplyCampaignRequest {
            campaign: file::parse(&yaml).unwrap().into_iter().next(),
            operator: "faults".into(),
            ..Default::default()
        };
        client.apply_campaign(request).await.unwrap();
    }
}

/// A client that reads may be sent away while too much is held. Calls then have the connections
/// closed that do not read, and it is served. Returns how often it was either.
///
/// Until then more and more connections call: those that came first may hold just less than is
/// allowed, and nobody is closed for that.
async fn served(server: &Server, slow: &mut Vec<Raw>) -> (usize, usize) {
    let mut lottery = server.lottery().await;
    let (mut served, mut sent_away) = (0, 0);
    while served < SERVED {
        let is_closed = server.log().contains(TOO_MUCH);
        if !is_closed {
            let mut connection = Raw::connect(server.address);
            connection.call(LIST);
            slow.push(connection);
            sleep(PAUSE).await;
        }
        let request = DrawRequest {
            campaign_id: "c-0".into(),
            user_id: "u-1".into(),
            ..Default::default()
        };
        match lottery.draw(request).await {
            Ok(_) => served += usize::from(is_closed),
            Err(status) => {
                // A busy machine may also be too slow for a draw.
                let is_transient = [Code::Unavailable, Code::DeadlineExceeded];
                assert!(is_transient.contains(&status.code()), "{status:?}");
                sent_away += 1;
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
    (served, sent_away)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_that_do_not_read_hold_together_is_bounded() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    apply_large_campaigns(&server).await;
    let (before, _) = server.memory_bytes();
    let mut slow: Vec<Raw> = (0..CONNECTIONS)
        .map(|_| Raw::connect(server.address))
        .collect();
    for connection in &mut slow {
        for _ in 0..CALLS {
            connection.call(LIST);
        }
    }
    let (served, sent_away) = timeout(PATIENCE, served(&server, &mut slow))
        .await
        .expect("it is not served");
    let closed = server.log().matches(TOO_MUCH).count();
    let (held, most) = server.memory_bytes();
    let connections = slow.len();
    drop(slow);
    println!(
        "memory in MiB: {} before, at most {} and then {} with {connections} connections that do \
         not read; {closed} of them were closed; {sent_away} draws were sent away, {served} served",
        before / MIB,
        most / MIB,
        held / MIB
    );
    // The rest is for answers that are being made.
    assert!(most - before < HELD_MAX / 4 * 7, "{most}");
}
