//! Callers that send what they should not, or trace more than they should.

use tokio::task::JoinSet;
use tonic::{Code, Request};

use super::{DRAW, collector::Collector, draw, metric, serve, stopped, trace, traced};

const OVER_LIMIT: &str = r#"tombola_trace_calls_over_limit_total{decision="caller"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_no_trace_are_ignored() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    let good = format!("00-{}-00f067aa0ba902b7-01", trace(1));
    for parent in [
        "",
        "00",
        "00-zz-yy-xx",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
        &"00-4bf92f3577b34da6a3ce929d0e0e4736-".repeat(100),
        &format!("{good}-more"),
    ] {
        let mut request = Request::new(draw("u-1"));
        let metadata = request.metadata_mut();
        metadata.insert("traceparent", parent.parse().unwrap());
        lottery.draw(request).await.unwrap();
    }
    let mut twice = Request::new(draw("u-1"));
    for _ in 0..2 {
        let metadata = twice.metadata_mut();
        metadata.append("traceparent", good.parse().unwrap());
    }
    lottery.draw(twice).await.unwrap();
    stopped(server);
    assert_eq!(collector.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_any_size_costs_no_span_more_than_its_bound() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    for (number, state) in [(1, "x".repeat(15_000)), (2, "a=1,".repeat(3_000))] {
        let mut request = traced(draw("u-1"), &trace(number), "01");
        let metadata = request.metadata_mut();
        metadata.insert("tracestate", state.parse().unwrap());
        lottery.draw(request).await.unwrap();
        let call = collector.span(&trace(number), DRAW).await;
        assert_eq!(call.span.trace_state, "");
    }
    // Beyond the bound of headers the call is refused, and the service goes on.
    let mut huge = traced(draw("u-1"), &trace(3), "01");
    let metadata = huge.metadata_mut();
    metadata.insert("tracestate", "x".repeat(1 << 20).parse().unwrap());
    server.lottery().await.draw(huge).await.unwrap_err();
    lottery.draw(draw("u-1")).await.unwrap();
    // One whose headers are read and too large has a span without them.
    let mut large = traced(draw("u-1"), &trace(4), "01");
    let metadata = large.metadata_mut();
    metadata.insert("tracestate", "x".repeat(20_000).parse().unwrap());
    let refused = lottery.draw(large).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let call = collector.span(&trace(4), DRAW).await;
    assert_eq!(call.attribute("rpc.status_code"), "INVALID_ARGUMENT");
    assert_eq!(call.span.trace_state, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_trace_everything_are_bounded_and_leave_room_for_the_share() {
    const CLIENTS: usize = 20;
    const CALLS_EACH: usize = 100;
    let collector = Collector::start().await;
    let arguments = "--trace-sample 1 --trace-calls-max 10";
    let (_data, server) = serve(&collector, arguments).await;
    let lottery = server.lottery().await;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let mut lottery = lottery.clone();
        clients.spawn(async move {
            for call in 0..CALLS_EACH {
                let number = 1 + client * CALLS_EACH + call;
                let request = traced(draw(&format!("u-{number}")), &trace(number), "01");
                lottery.draw(request).await.unwrap();
            }
        });
    }
    clients.join_all().await;
    let over = metric(&server, OVER_LIMIT);
    // Nobody else is kept from being traced by them.
    lottery.clone().draw(draw("u-0")).await.unwrap();
    stopped(server);
    let exported = collector.exported();
    let of_calls = exported.iter().filter(|it| it.span.name == DRAW);
    let (own, followed): (Vec<_>, Vec<_>) = of_calls.partition(|it| it.parent().is_empty());
    assert_eq!(own.len(), 1, "{own:#?}");
    let made = (CLIENTS * CALLS_EACH) as f64;
    assert_eq!(followed.len() as f64 + over, made);
    assert!(over > 0.0);
}
