//! The rate of an identity at the console: it bounds pages and acts, but neither the brake nor what
//! keeps a page live.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use super::Browser;
use crate::{access::Gate, process::PATIENCE};

const POLICY: &str = "
roles:
  all: [draw, check, grant, read, plan, stop, admin]
  reader: [read, check]
identities:
  - {name: boss, tokens: [{sha256: <boss-token>}]}
  - {name: busy, tokens: [{sha256: <busy-token>}], rate: {perSecond: 1, burst: 20}}
  - {name: reader, tokens: [{sha256: <reader-token>}], rate: {perSecond: 1, burst: 20}}
bindings:
  - {identity: boss, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: busy, role: all, campaigns: ['*'], senders: ['*']}
  - {identity: reader, role: reader, campaigns: ['*'], senders: ['*']}
";

#[tokio::test(flavor = "multi_thread")]
async fn the_brake_works_beyond_the_rate() {
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    gate.by("boss-token").await.apply("wheel").await.unwrap();
    let mut busy = Browser::signed_in(&gate, "busy-token");
    for (path, done) in [
        ("/campaigns/wheel/prizes/mug/pause", "prize-paused"),
        ("/campaigns/wheel/pause", "paused"),
    ] {
        while busy.get("/campaigns/wheel").status == 200 {}
        for _ in 0..5 {
            let target = format!("/campaigns/wheel?done={done}");
            busy.post(path, "").leads_to(&target);
        }
    }
    // It is free for those who may use it.
    let mut reader = Browser::signed_in(&gate, "reader-token");
    let mut refusals = (0..100).map(|_| reader.post("/campaigns/wheel/pause", "").status);
    assert_eq!(refusals.find(|status| *status != 403), Some(429));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_page_leaves_the_rate_to_its_viewer() {
    const CAMPAIGNS: usize = 15;
    let gate = Gate::with(POLICY, "--console 127.0.0.1:0");
    let boss = gate.by("boss-token").await;
    for number in 0..CAMPAIGNS {
        boss.apply(&format!("wheel-{number}")).await.unwrap();
    }
    let mut busy = Browser::signed_in(&gate, "busy-token");
    let cookie = &busy.cookies["tombola"];
    let address = busy.address;
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /live/overview HTTP/1.1\r\nHost: {address}\r\nCookie: tombola={cookie}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    // Several rounds of seventeen calls each: a line at the beginning of each event.
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let part = lines.find(|line| line.contains("data-live=\"draws:wheel-0\""));
    let part = part.unwrap();
    assert!(!part.contains("Too many calls"), "{part}");
    busy.get("/campaigns/wheel-0").good();
    let page = busy.get("/campaigns/wheel-1").good();
    assert!(!page.contains("Too many calls"), "{page}");
}
