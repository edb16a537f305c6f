//! A collector that is away, hangs or refuses. Calls go on, memory is bounded, a stop is bounded,
//! and the log says what changes, once.

use std::net::TcpListener;

use tokio::task::JoinSet;
use tombola::proto::CheckLimitRequest;
use tonic::Code;

use super::{
    CHECK_LIMIT, DRAW, Lottery,
    collector::{Collector, Conduct},
    draw, metric, serve, serve_at, stopped, trace, traced,
};

const AWAY: &str = "spans do not reach the collector";
const THERE: &str = "spans reach the collector";
const REFUSES: &str = "refuses spans";
const LOST: &str = "spans are lost";

const TAKEN: &str = "tombola_trace_spans_exported_total";
const DROPPED: &str = r#"tombola_trace_spans_dropped_total{stage="collector"}"#;
const CROWDED_OUT: &str = r#"tombola_trace_spans_dropped_total{stage="queue"}"#;
const UP: &str = "tombola_trace_collector_up";

/// Draws in traces of these numbers.
async fn draws(lottery: &mut Lottery, traces: std::ops::Range<usize>) {
    for number in traces {
        let request = traced(draw(&format!("u-{number}")), &trace(number), "01");
        lottery.draw(request).await.unwrap();
    }
}

/// A call that is refused before it reaches the store, so that it has one span.
async fn one_span(lottery: &mut Lottery, number: usize) {
    let request = traced(CheckLimitRequest::default(), &trace(number), "01");
    lottery.check_limit(request).await.unwrap_err();
}

fn count(said: &str, words: &str) -> usize {
    said.lines().filter(|line| line.contains(words)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_comes_later_gets_what_waited() {
    let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let endpoint = format!("--otlp-endpoint http://{address}");
    let (_data, server) = serve_at(&endpoint, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    draws(&mut lottery, 1..20).await;
    server.says(AWAY);
    draws(&mut lottery, 20..30).await;
    let collector = Collector::start_at(address).await;
    for number in [1, 29] {
        collector.span(&trace(number), DRAW).await;
    }
    server.says(THERE);
    assert_eq!(metric(&server, UP), 1.0);
    assert_eq!(metric(&server, DROPPED), 0.0);
    let said = stopped(server);
    assert_eq!((count(&said, AWAY), count(&said, THERE)), (1, 1), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_goes_and_comes_back_is_said_once_each() {
    let collector = Collector::start().await;
    let address = collector.address();
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    draws(&mut lottery, 1..2).await;
    collector.span(&trace(1), DRAW).await;
    server.says(THERE);
    drop(collector);
    for number in 2..10 {
        draws(&mut lottery, number..number + 1).await;
    }
    server.says(AWAY);
    assert_eq!(metric(&server, UP), 0.0);
    draws(&mut lottery, 10..20).await;
    let collector = Collector::start_at(address).await;
    for number in [2, 19] {
        collector.span(&trace(number), DRAW).await;
    }
    let said = stopped(server);
    assert_eq!((count(&said, AWAY), count(&said, THERE)), (1, 2), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_neither_calls_nor_a_stop() {
    // It accepts connections, by its backlog, and says nothing; and one that takes requests.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = Collector::start().await;
    hanging.conducts(Conduct::Hang);
    for address in [silent.local_addr().unwrap(), hanging.address()] {
        let endpoint = format!("--otlp-endpoint http://{address}");
        let (_data, server) = serve_at(&endpoint, "--trace-sample 0").await;
        let mut lottery = server.lottery().await;
        draws(&mut lottery, 1..50).await;
        // It ends, and says what is lost: 49 calls and their batches.
        let said = stopped(server);
        assert_eq!(count(&said, LOST), 1, "{said}");
        assert!(said.contains("left=98"), "{said}");
    }
    assert!(hanging.requests() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_for_long_is_said_to_be_away_and_tried_again() {
    let collector = Collector::start().await;
    collector.conducts(Conduct::Hang);
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    draws(&mut lottery, 1..10).await;
    server.says("does not answer within");
    collector.conducts(Conduct::Take);
    collector.span(&trace(1), DRAW).await;
    assert!(collector.requests() > 1);
}

/// The pause after the fourth try is longer than a server that stops has for its spans.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_pause_after_a_failure_tries_once_more() {
    let collector = Collector::start().await;
    collector.conducts(Conduct::Refuse(Code::Unavailable));
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    one_span(&mut lottery, 1).await;
    collector.asked(4).await;
    collector.conducts(Conduct::Take);
    let said = stopped(server);
    assert_eq!(count(&said, LOST), 0, "{said}");
    collector.span(&trace(1), CHECK_LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_that_a_collector_refuses_are_counted_and_said_once() {
    let collector = Collector::start().await;
    collector.conducts(Conduct::TakeAllBut(1));
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    for number in 1..4 {
        one_span(&mut lottery, number).await;
        collector.asked(number).await;
    }
    server.says(REFUSES);
    // It refuses whole requests: these are not sent again.
    collector.conducts(Conduct::Refuse(Code::InvalidArgument));
    one_span(&mut lottery, 4).await;
    server.says(AWAY);
    collector.conducts(Conduct::Take);
    one_span(&mut lottery, 5).await;
    collector.span(&trace(5), CHECK_LIMIT).await;
    server.says(THERE);
    assert_eq!(metric(&server, DROPPED), 4.0);
    assert_eq!(metric(&server, TAKEN), 1.0);
    let said = stopped(server);
    assert_eq!(count(&said, REFUSES), 1, "{said}");
    let line = said.lines().find(|line| line.contains(REFUSES)).unwrap();
    assert!(line.contains("some are not wanted"), "{line}");
    assert!(collector.exported().iter().all(|it| it.trace() != trace(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_beyond_the_queue_are_dropped_and_counted_while_calls_go_on() {
    const CLIENTS: usize = 50;
    const CALLS_EACH: usize = 200;
    /// The queue, and a request.
    const KEPT_MAX: f64 = 4096.0 + 512.0;
    let collector = Collector::start().await;
    collector.conducts(Conduct::Hang);
    let arguments = "--trace-sample 1 --trace-calls-max 100000";
    let (_data, server) = serve(&collector, arguments).await;
    let lottery = server.lottery().await;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut lottery = lottery.clone();
        clients.spawn(async move {
            for call in 0..CALLS_EACH {
                let request = CheckLimitRequest {
                    campaign_id: "flow".into(),
                    user_id: format!("u-{client}-{call}"),
                    segments: Vec::new(),
                };
                lottery.check_limit(request).await.unwrap();
            }
        });
    }
    clients.join_all().await;
    let made = (CLIENTS * CALLS_EACH) as f64;
    let dropped = metric(&server, CROWDED_OUT);
    assert!(dropped >= made - KEPT_MAX, "{dropped}");
    collector.conducts(Conduct::Take);
    server.says(THERE);
    stopped(server);
}
