//! The options of traces, and OpenTelemetry's own variables.

use super::{DRAW, collector::Collector, draw, stopped, trace, traced};
use crate::{
    faults::load,
    process::{Ended, Server, Start},
};

#[test]
fn wrong_options_are_refused_all_at_once_before_anything_starts() {
    let data = tempfile::tempdir().unwrap();
    for (endpoint, words) in [
        ("collector:4317", "e.g. http://collector:4317"),
        ("collector", "e.g. http://collector:4317"),
        ("http://collector", "e.g. http://collector:4317"),
        ("https://collector:4317", "in plaintext"),
        ("http://collector:4318/v1/traces", "has no path"),
        ("http://user:pass@collector:4317", "without user"),
    ] {
        let start = Start::on(data.path()).with("--trace-sample 7 --otlp-endpoint");
        let start = start.with(endpoint);
        let said = start
            .fail()
            .badly(64, &["--otlp-endpoint", words, "--trace-sample", "`7`"]);
        assert!(!said.contains("serving"), "{said}");
    }
    let many = Start::on(data.path()).with("--trace-calls-max 0");
    many.fail().badly(64, &["--trace-calls-max"]);
    let mut wrong = Start::on(data.path())
        .with("--otlp-endpoint http://127.0.0.1:4317")
        .command();
    wrong.env("OTEL_RESOURCE_ATTRIBUTES", "pod=tombola-0,broken");
    Ended::of(&mut wrong).badly(64, &["OTEL_RESOURCE_ATTRIBUTES", "`broken`", "key=value"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_variables_name_the_service() {
    let collector = Collector::start().await;
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with(&collector.arguments());
    let mut command = start.command();
    command.env("OTEL_SERVICE_NAME", "draws");
    command.env(
        "OTEL_RESOURCE_ATTRIBUTES",
        "k8s.pod.name=tombola-0,service.instance.id=one",
    );
    // What would send spans elsewhere, or nowhere, is not read.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    command.env("OTEL_TRACES_SAMPLER", "always_off");
    let server = Server::started_by(command);
    let said = server.log();
    assert!(said.contains("traces go to http://127.0.0.1:"), "{said}");
    load::apply(&server).await;
    let request = traced(draw("u-1"), &trace(1), "01");
    server.lottery().await.draw(request).await.unwrap();
    let call = collector.span(&trace(1), DRAW).await;
    for (key, value) in [
        ("service.name", "draws"),
        ("service.instance.id", "one"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("k8s.pod.name", "tombola-0"),
        ("telemetry.sdk.language", "rust"),
    ] {
        assert_eq!(call.resource[key], value, "{key}");
    }
    stopped(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_nothing_is_traced() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Start::on(data.path()).command();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    // It is read only if spans have somewhere to go.
    command.env("OTEL_RESOURCE_ATTRIBUTES", "broken");
    let server = Server::started_by(command);
    load::apply(&server).await;
    let request = traced(draw("u-1"), &trace(1), "01");
    server.lottery().await.draw(request).await.unwrap();
    let said = stopped(server);
    assert!(!said.contains("collector"), "{said}");
    assert!(!said.contains("trace_id"), "{said}");
}
