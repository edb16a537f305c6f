//! Spans of calls: whose trace they belong to, what they say, and the log's lines about them.

use serde_json::Value;
use tombola::proto::{CheckLimitRequest, GetDrawRequest, PauseCampaignRequest};
use tonic::{Code, Request, transport::Channel};

use super::{
    CHECK_LIMIT, DRAW, SPAN, collector::Collector, draw, metric, serve, stopped, trace, traced,
};

fn check(user: &str) -> CheckLimitRequest {
    CheckLimitRequest {
        campaign_id: "flow".into(),
        user_id: user.into(),
        segments: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_from_its_caller_s_trace() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    let mut request = traced(draw("a-secret-user"), &trace(7), "01");
    request.get_mut().request_id = "a-secret-request".into();
    let metadata = request.metadata_mut();
    metadata.insert("tracestate", "shop=1,other=2".parse().unwrap());
    metadata.insert("authorization", "Bearer a-secret-token".parse().unwrap());
    lottery.draw(request).await.unwrap();
    let call = collector.span(&trace(7), DRAW).await;
    assert_eq!(call.parent(), SPAN);
    assert_eq!(call.span.trace_state, "shop=1,other=2");
    assert_eq!(call.span.kind().as_str_name(), "SPAN_KIND_SERVER");
    // Sampled, and the span above is of another process.
    assert_eq!(call.span.flags, 0x301);
    assert!(call.span.start_time_unix_nano <= call.span.end_time_unix_nano);
    for (key, value) in [
        ("rpc.system.name", "grpc"),
        ("rpc.method", DRAW),
        ("rpc.status_code", "OK"),
        ("rpc.response.status_code", "OK"),
        ("server.address", "127.0.0.1"),
        ("server.port", &server.address.port().to_string()),
    ] {
        assert_eq!(call.attribute(key), value, "{key}");
    }
    assert_eq!(call.attributes().len(), 6, "{call:#?}");
    assert!(!call.is_error());
    assert_eq!(call.resource["service.name"], "tombola");
    stopped(server);
    let all = format!("{:?}", collector.exported());
    assert!(!all.contains("secret"), "{all}");
}

/// A trace is for those who look at spans: what lasts, and what auditors are given, has none of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_store_and_its_ledger_keep_nothing_of_a_trace() {
    let collector = Collector::start().await;
    let (data, server) = serve(&collector, "").await;
    let mut lottery = server.lottery().await;
    let id = "5ca1ab1e0ddba11c0ffee123deadbeef";
    let mut request = traced(draw("a-user-in-the-ledger"), id, "01");
    let state = "shop=a-traced-state".parse().unwrap();
    request.metadata_mut().insert("tracestate", state);
    lottery.draw(request).await.unwrap();
    collector.span(id, DRAW).await;
    stopped(server);
    let mut kept = Vec::new();
    for file in std::fs::read_dir(data.path()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            kept.extend(std::fs::read(path).unwrap());
        }
    }
    let has = |bytes: &[u8]| kept.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"a-user-in-the-ledger"));
    let binary: Vec<u8> = id
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect();
    for word in [id.as_bytes(), &binary, SPAN.as_bytes(), b"a-traced-state"] {
        assert!(!has(word), "{word:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_caller_s_decision_the_share_decides_and_begins_a_trace() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 1").await;
    let mut lottery = server.lottery().await;
    lottery.draw(draw("u-1")).await.unwrap();
    let not_traced = traced(draw("u-2"), &trace(8), "00");
    lottery.draw(not_traced).await.unwrap();
    stopped(server);
    let exported = collector.exported();
    let draws: Vec<_> = exported.iter().filter(|it| it.span.name == DRAW).collect();
    assert_eq!(draws.len(), 1, "{draws:#?}");
    assert_eq!(draws[0].parent(), "");
    assert_eq!(draws[0].span.flags, 0x103);
    assert!(exported.iter().all(|it| it.trace() != trace(8)));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_nobody_traces_send_nothing() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    for user in 0..100 {
        let message = draw(&format!("u-{user}"));
        match user % 2 {
            0 => lottery.draw(message).await.unwrap(),
            _ => lottery
                .draw(traced(message, &trace(9), "00"))
                .await
                .unwrap(),
        };
    }
    let exported = metric(&server, "tombola_trace_spans_exported_total");
    assert_eq!(exported, 0.0);
    stopped(server);
    assert_eq!(collector.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_has_the_status_and_the_reason_of_its_call() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    // A refusal is no failure of the service.
    let mut unknown = traced(draw("u-1"), &trace(1), "01");
    unknown.get_mut().campaign_id = "none".into();
    let refused = lottery.draw(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let call = collector.span(&trace(1), DRAW).await;
    assert_eq!(call.attribute("rpc.status_code"), "NOT_FOUND");
    assert_eq!(call.attribute("tombola.reason"), "CAMPAIGN_NOT_FOUND");
    assert_eq!(
        (call.is_error(), call.attribute("error.type")),
        (false, String::new())
    );
    // An unknown method is not repeated.
    let channel = server.connect().await;
    let refused = unknown_method(channel, &trace(2)).await;
    assert_eq!(refused, Code::Unimplemented);
    let call = collector.span(&trace(2), "grpc").await;
    assert_eq!(call.attribute("rpc.method"), "_OTHER");
    assert_eq!(call.attribute("error.type"), "UNIMPLEMENTED");
    assert!(call.is_error());
    // Neither is a caller's mistake a failure.
    let mut bad = traced(GetDrawRequest::default(), &trace(3), "01");
    bad.get_mut().campaign_id = "flow".into();
    lottery.get_draw(bad).await.unwrap_err();
    let call = collector
        .span(&trace(3), "tombola.v1.LotteryService/GetDraw")
        .await;
    assert_eq!(call.attribute("rpc.status_code"), "INVALID_ARGUMENT");
    assert!(!call.is_error());
}

/// Calls a method that does not exist; the code of the answer.
async fn unknown_method(channel: Channel, trace: &str) -> Code {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path =
        tonic::codegen::http::uri::PathAndQuery::from_static("/tombola.v1.LotteryService/Steal");
    let codec: tonic_prost::ProstCodec<CheckLimitRequest, CheckLimitRequest> =
        tonic_prost::ProstCodec::default();
    let request = traced(check("u-1"), trace, "01");
    client.unary(request, path, codec).await.unwrap_err().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_has_a_span_and_a_stream_has_one_until_its_end() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(server.connect().await);
    let request = tonic_health::pb::HealthCheckRequest::default();
    let watch = health
        .watch(traced(request, &trace(4), "01"))
        .await
        .unwrap();
    let mut watch = watch.into_inner();
    watch.message().await.unwrap().unwrap();
    assert!(collector.exported().is_empty());
    drop(watch);
    let call = collector
        .span(&trace(4), "grpc.health.v1.Health/Watch")
        .await;
    assert_eq!(call.attribute("rpc.status_code"), "CANCELLED");
    assert!(!call.is_error());
}

/// A change by an operator, which is logged.
fn pause() -> PauseCampaignRequest {
    PauseCampaignRequest {
        campaign_id: "flow".into(),
        operator: "an-operator".into(),
        ..PauseCampaignRequest::default()
    }
}

const PAUSE: &str = "tombola.v1.CampaignService/PauseCampaign";

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_the_log_have_the_ids_of_their_call() {
    for format in ["text", "json"] {
        let collector = Collector::start().await;
        let arguments = format!("--trace-sample 0 --log-format {format}");
        let (_data, server) = serve(&collector, &arguments).await;
        let mut campaigns = server.campaigns().await;
        for request in [
            traced(pause(), &trace(5), "01"),
            traced(pause(), &trace(6), "00"),
            Request::new(pause()),
        ] {
            campaigns.pause_campaign(request).await.unwrap();
        }
        let call = collector.span(&trace(5), PAUSE).await;
        let said = stopped(server);
        let lines: Vec<_> = said
            .lines()
            .filter(|line| line.contains("an-operator"))
            .collect();
        assert_eq!(lines.len(), 3, "{said}");
        for (line, ids) in lines.into_iter().zip([
            (Some(trace(5)), Some(call.id())),
            (Some(trace(6)), None),
            (None, None),
        ]) {
            assert_eq!(read_ids(line, format), ids, "{line}");
        }
    }
}

/// The ids in a line of the log.
fn read_ids(line: &str, format: &str) -> (Option<String>, Option<String>) {
    if format == "json" {
        let line: Value = serde_json::from_str(line).unwrap();
        let id = |key| line.get(key).map(|id| id.as_str().unwrap().to_owned());
        return (id("trace_id"), id("span_id"));
    }
    let id = |key| {
        let mut words = line.split(' ');
        words
            .find_map(|word| word.strip_prefix(key))
            .map(str::to_owned)
    };
    (id("trace_id="), id("span_id="))
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_limits_are_traced_like_draws() {
    let collector = Collector::start().await;
    let (_data, server) = serve(&collector, "--trace-sample 0").await;
    let mut lottery = server.lottery().await;
    let request = traced(check("u-1"), &trace(10), "01");
    lottery.check_limit(request).await.unwrap();
    let call = collector.span(&trace(10), CHECK_LIMIT).await;
    assert_eq!(call.links().len(), 1);
    stopped(server);
}
