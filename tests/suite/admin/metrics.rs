//! Metrics: their form, what they count, and their table in the documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Instant,
};

use tombola::proto::GetStatsRequest;
use tonic::Code;

use crate::{
    faults::{load, redis::request},
    process::{PATIENCE, Server, Start, project},
    support::certificates,
};

/// Only such a campaign has every metric.
const WITH_UNLIMITED_PRIZE: &str = "
id: unlimited
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: coupon, unlimited: true}]
pools: [{id: deck, deck: {cards: {coupon: 1}}}]
";

/// A sample: its name, its labels, its value.
type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Metrics that were read.
pub struct Metrics {
    pub text: String,
    /// The type of each.
    types: BTreeMap<String, String>,
    pub samples: Samples,
}

impl Metrics {
    /// Reads a server's metrics, and checks their form.
    pub fn of(server: &Server) -> Self {
        let (status, head, text) = server.admin().get("/metrics");
        assert_eq!(status, 200, "{text}");
        assert!(
            head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        let (mut types, mut samples) = (BTreeMap::new(), Samples::new());
        for line in text.lines() {
            if let Some(line) = line.strip_prefix("# TYPE ") {
                let (name, kind) = line.split_once(' ').unwrap();
                let again = types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(again, None, "{name}");
            } else if let Some(line) = line.strip_prefix("# HELP ") {
                assert!(
                    line.split_once(' ')
                        .is_some_and(|(_, help)| !help.is_empty()),
                    "{line}"
                );
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let again = samples.insert(read_series(series), value.parse().unwrap());
                assert_eq!(again, None, "{line}");
            }
        }
        let metrics = Self {
            text,
            types,
            samples,
        };
        metrics.check();
        metrics
    }

    /// Checks that each sample has a type, counters a total, and histograms all their buckets.
    fn check(&self) {
        for (name, labels) in self.samples.keys() {
            let is_part = |suffix: &str| {
                let base = name.strip_suffix(suffix);
                base.is_some_and(|base| {
                    self.types.get(base).is_some_and(|kind| kind == "histogram")
                })
            };
            let is_histogram = ["_bucket", "_sum", "_count"].into_iter().any(is_part);
            assert!(is_histogram || self.types.contains_key(name), "{name}");
            if let Some(base) = name.strip_suffix("_count").filter(|_| is_part("_count")) {
                let mut all = labels.clone();
                all.insert("le".into(), "+Inf".into());
                let bucket = self.samples[&(format!("{base}_bucket"), all)];
                assert_eq!(
                    bucket,
                    self.samples[&(name.clone(), labels.clone())],
                    "{name}"
                );
            }
        }
        for (name, kind) in &self.types {
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        }
    }

    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        self.samples.get(&(name.into(), labels.collect())).copied()
    }

    /// How many calls of a method of `LotteryService` ended so.
    fn calls(&self, method: &str, code: &str, reason: &str) -> Option<f64> {
        let method = format!("tombola.v1.LotteryService/{method}");
        let labels = [
            ("rpc_method", method.as_str()),
            ("rpc_response_status_code", code),
            ("reason", reason),
        ];
        self.value("rpc_server_call_duration_seconds_count", &labels)
    }
}

/// Reads `name{label="value",…}`. No value has a quote or a comma.
fn read_series(series: &str) -> (String, BTreeMap<String, String>) {
    let Some((name, labels)) = series.split_once('{') else {
        return (series.into(), BTreeMap::new());
    };
    let labels = labels.strip_suffix('}').unwrap().split(',').map(|label| {
        let (name, value) = label.split_once('=').unwrap();
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'));
        (name.to_owned(), value.unwrap().to_owned())
    });
    (name.into(), labels.collect())
}

pub fn served(data: &tempfile::TempDir) -> Server {
    Start::on(data.path()).with("--admin 127.0.0.1:0").serve()
}

/// A server over TLS, which has all metrics. Its files are in the directory.
pub fn served_over_tls(files: &tempfile::TempDir) -> Server {
    let authority = certificates::make(files.path(), "server");
    let (path, data) = (files.path().display(), files.path().join("data"));
    Start::on(&data)
        .with("--admin 127.0.0.1:0")
        .with(&format!(
            "--tls-cert {path}/server.crt --tls-key {path}/server.key"
        ))
        .serve()
        .over_tls(&authority.pem)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_counted_by_method_and_outcome_before_they_are_answered() {
    let data = tempfile::tempdir().unwrap();
    let server = served(&data);
    load::apply(&server).await;
    let mut lottery = server.lottery().await;
    for number in 0..3 {
        let draw = request("flow", "u-secret", &format!("r-{number}"));
        lottery.draw(draw).await.unwrap();
    }
    let refused = lottery.draw(request("none", "u-secret", "r-9")).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    let metrics = Metrics::of(&server);
    assert_eq!(metrics.calls("Draw", "OK", ""), Some(3.0));
    assert_eq!(
        metrics.calls("Draw", "NOT_FOUND", "CAMPAIGN_NOT_FOUND"),
        Some(1.0)
    );
    assert_eq!(metrics.calls("Draw", "CANCELLED", ""), None);
    assert_eq!(metrics.value("tombola_rpc_calls_in_flight", &[]), Some(0.0));
    assert_eq!(metrics.value("tombola_ready", &[]), Some(1.0));
    assert!(metrics.value("tombola_connections", &[]) >= Some(1.0));
    // A probe that is at work is counted as a batch before its transaction ends.
    let begun = Instant::now();
    loop {
        let metrics = Metrics::of(&server);
        let batches = metrics.value("tombola_store_batch_calls_count", &[]);
        assert!(batches >= Some(4.0), "{batches:?}");
        let transactions = metrics.value("tombola_store_call_duration_seconds_count", &[]);
        if transactions >= batches {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{transactions:?}, {batches:?}");
    }
    assert!(!metrics.text.contains("u-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_units_of_each_prize_add_up_to_its_stock() {
    let data = tempfile::tempdir().unwrap();
    let server = served(&data);
    load::apply(&server).await;
    let mut lottery = server.lottery().await;
    for number in 0..20 {
        let draw = request("flow", "u-secret", &format!("r-{number}"));
        lottery.draw(draw).await.unwrap();
    }
    let metrics = Metrics::of(&server);
    let request = GetStatsRequest {
        campaign_id: "flow".into(),
    };
    let stats = server.campaigns().await.get_stats(request).await;
    let stats = stats.unwrap().into_inner();
    assert!(!stats.prizes.is_empty());
    for prize in &stats.prizes {
        let units = |state| {
            let labels = [
                ("campaign", "flow"),
                ("prize", prize.prize_id.as_str()),
                ("state", state),
            ];
            metrics.value("tombola_prize_units", &labels).unwrap() as u64
        };
        assert_eq!(units("won"), prize.won);
        let states = ["left", "waiting", "held", "won", "withdrawn"];
        assert_eq!(states.map(units).iter().sum::<u64>(), prize.stock);
    }
    let draws = |outcome| {
        let labels = [("campaign", "flow"), ("outcome", outcome)];
        metrics.value("tombola_campaign_draws", &labels).unwrap()
    };
    let outcomes = ["win", "consolation", "nothing"];
    assert_eq!(outcomes.map(draws).iter().sum::<f64>(), 20.0);
    for gauges in ["campaigns", "shared"] {
        let labels = [("gauges", gauges)];
        let read_at = metrics.value("tombola_store_read_timestamp_seconds", &labels);
        assert!(read_at.unwrap() > 0.0);
    }
    assert!(!metrics.text.contains("u-secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_methods_share_a_series() {
    let data = tempfile::tempdir().unwrap();
    let server = served(&data);
    let channel = server.connect().await;
    for method in ["/tombola.v1.LotteryService/Steal", "/a.b/C"] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let called = grpc.unary(tonic::Request::new(()), method.parse().unwrap(), codec);
        assert_eq!(called.await.unwrap_err().code(), Code::Unimplemented);
    }
    let labels = [
        ("rpc_method", "_OTHER"),
        ("rpc_response_status_code", "UNIMPLEMENTED"),
        ("reason", "INVALID_REQUEST"),
    ];
    let count = Metrics::of(&server).value("rpc_server_call_duration_seconds_count", &labels);
    assert_eq!(count, Some(2.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_list_exactly_the_metrics_that_there_are() {
    let files = tempfile::tempdir().unwrap();
    let server = served_over_tls(&files);
    load::apply(&server).await;
    load::apply_all(&server, WITH_UNLIMITED_PRIZE).await;
    load::apply_all(&server, load::WITH_BUDGET).await;
    let metrics = Metrics::of(&server);
    let labels = [("campaign", "unlimited"), ("prize", "coupon")];
    assert_eq!(metrics.value("tombola_prize_unlimited", &labels), Some(1.0));
    let labels = [("campaign", "flow"), ("prize", "coupon")];
    assert_eq!(metrics.value("tombola_prize_unlimited", &labels), None);
    let page = fs::read_to_string(project("docs/operations.md")).unwrap();
    let (_, table) = page.split_once("\n### Metrics\n").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    let rows = table.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once('`')?;
        let kind = rest.strip_prefix(" | ")?.split(' ').next()?;
        Some((name.to_owned(), kind.to_owned()))
    });
    let listed: BTreeSet<_> = rows.collect();
    let found: BTreeSet<_> = metrics.types.into_iter().collect();
    assert_eq!(listed, found);
}
