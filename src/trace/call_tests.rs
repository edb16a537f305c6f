use std::{
    num::NonZeroU32,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::sync::mpsc;

use super::{super::span::Record, *};
use crate::trace;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const DRAW: &str = "tombola.v1.LotteryService/Draw";

/// A tracer of this share, and the spans that it records.
fn tracer(share: f64) -> (Tracer, mpsc::Receiver<Record>) {
    let (queue, records) = Queue::new();
    let sampler = Sampler::new(share, NonZeroU32::new(1_000_000).unwrap());
    (Tracer::new(sampler, queue), records)
}

fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
    let values = values.iter().map(|(name, value)| {
        let name = hyper::header::HeaderName::from_static(name);
        (name, value.parse().unwrap())
    });
    values.collect()
}

fn arrived(headers: &HeaderMap) -> Arrived<'_> {
    Arrived {
        method: Some(DRAW),
        is_of_share: true,
        headers,
        authority: None,
        at: Instant::now(),
    }
}

fn traceparent(flags: &str) -> HeaderMap {
    let parent = format!("00-{TRACE}-{SPAN}-{flags}");
    headers(&[("traceparent", &parent), ("tracestate", "shop=1")])
}

#[test]
fn a_call_that_is_not_recorded_allocates_nothing() {
    let (tracer, _records) = tracer(0.0);
    let (none, unrecorded) = (HeaderMap::new(), traceparent("00"));
    let calls = || {
        for headers in [&none, &unrecorded] {
            let call = tracer.call(&arrived(headers));
            let scope = call.as_ref().map(CallTrace::scope);
            let work = pin!(async { trace::current().is_none() && trace::ids().is_some() });
            let mut work = pin!(trace::within(scope, work));
            let mut context = Context::from_waker(Waker::noop());
            // The log has ids if the caller has a trace.
            let polled = work.as_mut().poll(&mut context);
            assert_eq!(polled, Poll::Ready(call.is_some()));
            if let Some(call) = call {
                call.end("OK", "");
            }
        }
    };
    // The first call of a thread may make room for later ones.
    calls();
    assert_eq!(allocation_counter::measure(calls).count_total, 0);
    // The measurement measures.
    let recorded = traceparent("01");
    let allocated = allocation_counter::measure(|| drop(tracer.call(&arrived(&recorded))));
    assert!(allocated.count_total > 0);
}

#[test]
fn a_recorded_call_goes_on_from_its_caller_s_trace() {
    let (tracer, mut records) = tracer(0.0);
    let authority: Authority = "tombola.example.com:50051".parse().unwrap();
    let headers = traceparent("01");
    let call = Arrived {
        authority: Some(&authority),
        ..arrived(&headers)
    };
    tracer.call(&call).unwrap().end("OK", "");
    let span = records.try_recv().unwrap();
    assert_eq!(span.head.trace.to_string(), TRACE);
    let (above, is_remote) = span.head.parent.unwrap();
    assert_eq!((above.to_string().as_str(), is_remote), (SPAN, true));
    assert_eq!((span.head.flags, span.head.state.as_str()), (1, "shop=1"));
    assert_eq!((span.head.kind, &*span.head.name), (Kind::Server, DRAW));
    assert_eq!(span.error, None);
    for attribute in [
        ("rpc.system.name", Value::Name("grpc")),
        ("rpc.method", Value::Name(DRAW)),
        ("rpc.status_code", Value::Name("OK")),
        ("rpc.response.status_code", Value::Name("OK")),
        ("server.address", Value::Text("tombola.example.com".into())),
        ("server.port", Value::Number(50_051)),
    ] {
        assert!(span.noted.attributes.contains(&attribute), "{attribute:?}");
    }
    assert_eq!(span.noted.attributes.len(), 6, "{span:?}");
}

#[test]
fn without_a_caller_s_decision_the_share_decides() {
    let (tracer, mut records) = tracer(1.0);
    let none = HeaderMap::new();
    tracer.call(&arrived(&none)).unwrap().end("OK", "");
    let span = records.try_recv().unwrap();
    assert_eq!((span.head.parent, span.head.flags), (None, 3));
    // The caller has decided.
    let headers = traceparent("00");
    tracer.call(&arrived(&headers)).unwrap().end("OK", "");
    assert!(records.try_recv().is_err());
    // Health is traced only if its caller wants that.
    let health = |headers| Arrived {
        is_of_share: false,
        ..arrived(headers)
    };
    assert!(tracer.call(&health(&none)).is_none());
    let headers = traceparent("01");
    tracer.call(&health(&headers)).unwrap().end("OK", "");
    records.try_recv().unwrap();
}

#[test]
fn a_failure_of_the_server_is_an_error_and_a_refusal_is_not() {
    let (tracer, mut records) = tracer(1.0);
    let none = HeaderMap::new();
    let mut ended = |code, reason| {
        tracer.call(&arrived(&none)).unwrap().end(code, reason);
        let span = records.try_recv().unwrap();
        let text = |key| {
            let mut attributes = span.noted.attributes.iter();
            let found = attributes.find(|(name, _)| *name == key);
            found.map(|(_, value)| value.clone())
        };
        (span.error, text("error.type"), text("tombola.reason"))
    };
    let name = |name| Some(Value::Name(name));
    assert_eq!(
        ended("NOT_FOUND", "CAMPAIGN_NOT_FOUND"),
        (None, None, name("CAMPAIGN_NOT_FOUND"))
    );
    assert_eq!(
        ended("UNAVAILABLE", "OVERLOADED"),
        (Some("OVERLOADED"), name("UNAVAILABLE"), name("OVERLOADED"))
    );
    assert_eq!(ended("CANCELLED", ""), (None, None, None));
}

#[test]
fn an_unknown_method_and_a_long_name_of_the_server_are_not_repeated() {
    let (tracer, mut records) = tracer(0.0);
    let authority: Authority = "x".repeat(256).parse().unwrap();
    let headers = traceparent("01");
    let call = Arrived {
        method: None,
        authority: Some(&authority),
        ..arrived(&headers)
    };
    tracer.call(&call).unwrap().end("UNIMPLEMENTED", "");
    let span = records.try_recv().unwrap();
    assert_eq!(span.head.name, "grpc");
    let method = ("rpc.method", Value::Name("_OTHER"));
    assert!(span.noted.attributes.contains(&method));
    let is_address = |(name, _): &(&str, Value)| name.starts_with("server.");
    assert!(!span.noted.attributes.iter().any(is_address));
}
