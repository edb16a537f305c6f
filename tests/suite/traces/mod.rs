//! Traces: spans of calls and batches at a real receiver of OTLP, and calls that go on whatever
//! becomes of it.

mod away;
mod batches;
mod calls;
mod collector;
mod hostile;
mod options;

use tempfile::TempDir;
use tombola::proto::{DrawRequest, lottery_service_client::LotteryServiceClient};
use tonic::{Request, transport::Channel};

use self::collector::Collector;
use crate::{
    faults::load,
    process::{Server, Start},
};

type Lottery = LotteryServiceClient<Channel>;

/// The methods that the tests call.
const DRAW: &str = "tombola.v1.LotteryService/Draw";
const CHECK_LIMIT: &str = "tombola.v1.LotteryService/CheckLimit";

/// A caller's span.
const SPAN: &str = "00f067aa0ba902b7";

/// The id of a trace of the tests.
fn trace(number: usize) -> String {
    format!("{number:032x}")
}

/// A request in this trace.
fn traced<T>(message: T, trace: &str, flags: &str) -> Request<T> {
    let parent = format!("00-{trace}-{SPAN}-{flags}");
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("traceparent", parent.parse().unwrap());
    request
}

fn draw(user: &str) -> DrawRequest {
    DrawRequest {
        campaign_id: "flow".into(),
        user_id: user.into(),
        ..DrawRequest::default()
    }
}

/// A server on the embedded store with campaigns, which traces to this collector.
async fn serve(collector: &Collector, arguments: &str) -> (TempDir, Server) {
    serve_at(&collector.arguments(), arguments).await
}

/// The same with all arguments.
async fn serve_at(endpoint: &str, arguments: &str) -> (TempDir, Server) {
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).with(endpoint).with(arguments);
    let server = start.with("--admin 127.0.0.1:0").serve();
    load::apply(&server).await;
    (data, server)
}

/// Stops a server, which sends its last spans then; returns its log.
fn stopped(mut server: Server) -> String {
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    said
}

/// The value of a metric.
fn metric(server: &Server, series: &str) -> f64 {
    let (_, _, text) = server.admin().get("/metrics");
    let value = text.lines().find_map(|line| {
        let value = line.strip_prefix(series)?;
        value.strip_prefix(' ')
    });
    value
        .unwrap_or_else(|| panic!("no {series}: {text}"))
        .parse()
        .unwrap()
}
