//! Spans of batches, on every store: those of recorded calls link to them.

use std::collections::BTreeSet;

use tombola::proto::{CheckLimitRequest, GrabEnvelopeRequest};
use tonic::Code;

use super::{
    CHECK_LIMIT, DRAW, Lottery,
    collector::{Collector, Exported},
    draw, stopped, trace, traced,
};
use crate::{
    faults::{
        load,
        redis::{House, directory_with_key},
    },
    process::{Server, Start},
    support::{program::Program, replicated_cluster::ReplicatedCluster, sentinels::Sentinels},
};

/// Calls at once.
const CALLS: usize = 40;

/// Draws in traces of their own, all at once.
async fn draw_at_once(lottery: &Lottery) {
    let draws = (1..=CALLS).map(|number| {
        let mut lottery = lottery.clone();
        tokio::spawn(async move {
            // Every other caller does not trace.
            let flags = if number % 2 == 0 { "01" } else { "00" };
            let request = traced(draw(&format!("u-{number}")), &trace(number), flags);
            lottery.draw(request).await.unwrap();
        })
    });
    for drawn in draws.collect::<Vec<_>>() {
        drawn.await.unwrap();
    }
}

/// The batches that a call links to.
fn batches_of<'e>(call: &Exported, exported: &'e [Exported]) -> Vec<&'e Exported> {
    let links = call.links();
    let batch = |(trace, id): &(String, String)| {
        let found = exported
            .iter()
            .find(|it| it.trace() == *trace && it.id() == *id);
        found.unwrap_or_else(|| panic!("{trace} {id} is not exported: {exported:#?}"))
    };
    links.iter().map(batch).collect()
}

/// Asserts that a batch is the store's work, of no caller's trace, and begins during its call. It
/// may end later: its span ends once all answers are on their way.
fn assert_batch(call: &Exported, batch: &Exported, name: &str, system: &str) {
    assert_eq!(batch.span.name, name);
    assert_eq!(batch.parent(), "");
    assert_ne!(batch.trace(), call.trace());
    assert_eq!(batch.attribute("db.system.name"), system);
    assert!(!batch.is_error());
    assert!(call.span.start_time_unix_nano <= batch.span.start_time_unix_nano);
    let (begun, of_call) = (
        batch.span.start_time_unix_nano,
        call.span.end_time_unix_nano,
    );
    // The end of a call is measured from its beginning, by another clock than that of dates.
    const ERROR_NS: u64 = 5_000_000;
    assert!(begun <= of_call + ERROR_NS, "{begun} {of_call}");
}

/// Draws, and follows the links of the calls to their batches.
async fn links_lead_to_batches(server: Server, collector: &Collector, name: &str, system: &str) {
    let lottery = server.lottery().await;
    draw_at_once(&lottery).await;
    let request = CheckLimitRequest {
        campaign_id: "flow".into(),
        user_id: "u-1".into(),
        segments: Vec::new(),
    };
    let mut lottery = lottery.clone();
    let request = traced(request, &trace(CALLS + 1), "01");
    lottery.check_limit(request).await.unwrap();
    stopped(server);
    let exported = collector.exported();
    let calls: Vec<_> = exported.iter().filter(|it| it.span.name == DRAW).collect();
    assert_eq!(calls.len(), CALLS / 2);
    let mut seen = BTreeSet::new();
    for call in calls {
        let batches = batches_of(call, &exported);
        assert!(!batches.is_empty(), "{call:#?}");
        // A draw that found its pool empty is in a further batch.
        let draws: Vec<_> = batches
            .iter()
            .filter(|batch| batch.span.name == name)
            .collect();
        assert!(!draws.is_empty(), "{batches:#?}");
        for batch in draws {
            assert_batch(call, batch, name, system);
            assert!(!batch.span.events.is_empty(), "{batch:#?}");
            seen.insert(batch.id());
        }
    }
    assert!(seen.len() < CALLS, "calls do not share batches");
    let check = exported
        .iter()
        .find(|it| it.span.name == CHECK_LIMIT)
        .unwrap();
    let batches = batches_of(check, &exported);
    let [batch] = batches.as_slice() else {
        panic!("{batches:#?}");
    };
    let name = match system {
        "redis" => "EVALSHA check_limit",
        _ => "SELECT tombola.sqlite3",
    };
    assert_batch(check, batch, name, system);
    assert_eq!(
        batch.attribute("db.operation.batch.size"),
        "",
        "one call is no batch"
    );
}

async fn on_redis(url: &str) {
    let collector = Collector::start().await;
    let data = directory_with_key();
    let start = Start::on_redis(data.path(), url);
    start.init().well();
    let start = start.with(&collector.arguments());
    let server = start.with("--trace-sample 0").serve();
    load::apply_now(&server).await;
    links_lead_to_batches(server, &collector, "EVALSHA draw", "redis").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_link_to_their_batches_on_the_embedded_store() {
    let collector = Collector::start().await;
    let (_data, server) = super::serve(&collector, "--trace-sample 0").await;
    links_lead_to_batches(server, &collector, "BATCH tombola.sqlite3", "sqlite").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_link_to_their_batches_on_one_redis() {
    let house = House::with(&[]);
    on_redis(&house.redis.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_link_to_their_batches_with_sentinels() {
    let sentinels = Sentinels::start(Program::Valkey8);
    on_redis(&sentinels.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_link_to_their_batches_on_a_cluster() {
    let cluster = ReplicatedCluster::start(Program::Redis8);
    on_redis(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_does_for_one_call_alone_is_below_its_span() {
    let collector = Collector::start().await;
    let house = House::new();
    let start = house.start().with(&collector.arguments());
    let server = start.with("--trace-sample 0").serve();
    load::apply_now(&server).await;
    let mut campaigns = server.campaigns().await;
    let request = tombola::proto::PauseCampaignRequest {
        campaign_id: "flow".into(),
        operator: "tests".into(),
        ..Default::default()
    };
    let paused = campaigns.pause_campaign(traced(request, &trace(1), "01"));
    paused.await.unwrap();
    let call = collector
        .span(&trace(1), "tombola.v1.CampaignService/PauseCampaign")
        .await;
    for script in ["load", "commit"] {
        let name = format!("EVALSHA {script}");
        let steps = collector.spans(&trace(1), &name, 1).await;
        for step in steps {
            assert_eq!(step.parent(), call.id());
            assert_eq!(step.span.kind().as_str_name(), "SPAN_KIND_CLIENT");
            assert_eq!(step.attribute("db.stored_procedure.name"), script);
            assert_eq!(step.attribute("db.operation.name"), "EVALSHA");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_fails_says_why_and_its_call_has_the_reason() {
    let collector = Collector::start().await;
    let mut house = House::new();
    let start = house.start().with(&collector.arguments());
    let server = start.with("--trace-sample 0").serve();
    load::apply_now(&server).await;
    let mut lottery = server.lottery().await;
    // The service knows the campaign then.
    lottery.draw(draw("u-1")).await.unwrap();
    house.redis.kill();
    let failed = lottery.draw(traced(draw("u-2"), &trace(1), "01")).await;
    assert_eq!(failed.unwrap_err().code(), Code::Unavailable);
    let call = collector.span(&trace(1), DRAW).await;
    assert_eq!(call.attribute("tombola.reason"), "STORE_UNAVAILABLE");
    assert_eq!(call.attribute("error.type"), "UNAVAILABLE");
    assert!(call.is_error());
    let exported = collector.exported();
    let batches = batches_of(&call, &exported);
    let last = batches.last().unwrap();
    assert_eq!(last.attribute("error.type"), "unavailable");
    assert!(last.is_error());
    // The line about it belongs to the call.
    server.says(&format!("trace_id={}", trace(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn grabs_link_to_their_batches() {
    for house in [None, Some(House::new())] {
        let collector = Collector::start().await;
        let data = tempfile::tempdir().unwrap();
        let start = match &house {
            Some(house) => house.start(),
            None => Start::on(data.path()),
        };
        let start = start.with(&collector.arguments());
        let server = start.with("--trace-sample 0").serve();
        let made = server.run(&[
            "envelope",
            "create",
            "packet-1",
            "--sender",
            "s-1",
            "--total",
            "500",
            "--currency",
            "CNY",
            "--packets",
            "5",
        ]);
        made.well();
        let channel = server.connect().await;
        let mut envelopes =
            tombola::proto::envelope_service_client::EnvelopeServiceClient::new(channel);
        let request = GrabEnvelopeRequest {
            envelope_id: "packet-1".into(),
            user_id: "u-1".into(),
        };
        let grabbed = envelopes.grab_envelope(traced(request, &trace(1), "01"));
        grabbed.await.unwrap();
        stopped(server);
        let exported = collector.exported();
        let name = "tombola.v1.EnvelopeService/GrabEnvelope";
        let call = exported.iter().find(|it| it.span.name == name).unwrap();
        let batches = batches_of(call, &exported);
        let system = match house {
            Some(_) => ("EVALSHA grab", "redis"),
            None => ("BATCH tombola.sqlite3", "sqlite"),
        };
        let batch = batches.last().unwrap();
        assert_batch(call, batch, system.0, system.1);
    }
}
