//! The log cannot be written. The service still does its work, and stops when it is asked to.

use std::{fs::File, io::pipe, net::TcpListener, process::Stdio, time::Duration};

use tombola::proto::DrawRequest;
use tonic::Request;

use super::load;
use crate::process::Start;

/// With this number of draws, the log at this level is far longer than a pipe holds.
const DRAWS: usize = 200;
const LEVEL: &str = "--log trace";

/// An address with a port that nobody uses now.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn serves_on(stderr: Stdio) {
    let data = tempfile::tempdir().unwrap();
    let listen = free_address();
    let start = Start {
        listen: &listen,
        ..Start::on(data.path())
    };
    let mut server = start.with(LEVEL).serve_saying_to(stderr);
    load::apply(&server).await;
    let mut lottery = server.lottery().await;
    for number in 0..DRAWS {
        let mut draw = Request::new(DrawRequest {
            campaign_id: "flow".into(),
            user_id: format!("u-{number}"),
            ..Default::default()
        });
        draw.set_timeout(Duration::from_secs(60)); // only so that a hang ends
        lottery.draw(draw).await.unwrap();
    }
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_holds_any_more_stops_no_draw() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    serves_on(writer.into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_a_full_disk_stops_no_draw() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    serves_on(full.into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_stops_no_draw() {
    let (reader, writer) = pipe().unwrap();
    serves_on(writer.into()).await;
    drop(reader);
}
