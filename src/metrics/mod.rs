//! What the service counts and measures, in the text format of Prometheus.
//!
//! Every layer may report here; nothing here knows a layer. The numbers are of the process: they
//! are atomics, and reporting allocates nothing. No metric has a user's id, and the number of
//! series is bounded.

mod calls;
mod campaigns;
mod injector;
mod live;
mod shed;
mod state;
mod store;
mod tls;
mod trace;

use std::sync::LazyLock;

use prometheus::{
    Encoder as _, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, TextEncoder, core::Collector,
};

pub(crate) use calls::{CALLS, CallKey, OTHER};
pub(crate) use campaigns::{CAMPAIGNS, CampaignFigures, Figure};
pub(crate) use injector::INJECTOR;
pub(crate) use live::LIVE;
pub(crate) use shed::SHED;
pub(crate) use state::STATE;
pub(crate) use store::STORE;
pub(crate) use tls::{FilesInUse, TLS};
pub(crate) use trace::TRACES;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// All metrics of the process.
///
/// # Errors
/// A metric is inconsistent.
pub fn text() -> Result<String, prometheus::Error> {
    LazyLock::force(&CALLS);
    LazyLock::force(&INJECTOR);
    LazyLock::force(&LIVE);
    LazyLock::force(&SHED);
    LazyLock::force(&STATE);
    LazyLock::force(&STORE);
    LazyLock::force(&TLS);
    LazyLock::force(&TRACES);
    let _held = CAMPAIGNS.hold();
    let mut text = Vec::new();
    TextEncoder::new().encode(&prometheus::gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Adds a metric to those of the process. It fails only if two metrics have one name.
fn registered<M: Collector + Clone + 'static>(made: prometheus::Result<M>) -> M {
    let metric = made.and_then(|metric| {
        prometheus::register(Box::new(metric.clone()))?;
        Ok(metric)
    });
    metric.unwrap_or_else(|error| unreachable!("{error}"))
}

fn gauge(name: &str, help: &str) -> IntGauge {
    registered(IntGauge::new(name, help))
}

fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    registered(IntGaugeVec::new(Opts::new(name, help), labels))
}

fn seconds(name: &str, help: &str) -> Gauge {
    registered(Gauge::new(name, help))
}

fn counter(name: &str, help: &str) -> IntCounter {
    registered(IntCounter::new(name, help))
}

fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    registered(IntCounterVec::new(Opts::new(name, help), labels))
}

fn histogram(name: &str, help: &str, bounds: &[f64]) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(bounds.to_vec());
    registered(Histogram::with_opts(options))
}

/// A gauge that is always 1: its labels are what it says.
fn info(name: &str, help: &str, labels: &[(&str, &str)]) {
    let options = labels
        .iter()
        .fold(Opts::new(name, help), |options, (name, value)| {
            options.const_label(*name, *value)
        });
    registered(IntGauge::with_opts(options)).set(1);
}
