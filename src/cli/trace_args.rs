//! The options of traces.

use std::{env, num::NonZeroU32};

use clap::Args;
use tracing::info;

use crate::{
    model::Problems,
    trace::{Endpoint, Resource, Settings},
};

/// The variables of OpenTelemetry that are read.
const OTEL_SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const OTEL_RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

#[derive(Args, Clone, Debug)]
pub(super) struct TraceArgs {
    /// The collector that traces are sent to, by OTLP over gRPC in plaintext. None unless named
    #[arg(long, env = "TOMBOLA_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// The share of calls that are traced, 0 to 1, of those whose callers have not decided
    #[arg(
        long,
        env = "TOMBOLA_TRACE_SAMPLE",
        value_name = "SHARE",
        default_value = "0.01"
    )]
    trace_sample: String,
    /// The most calls a second that are traced since their callers say so, and the most of the
    /// share
    #[arg(
        long,
        env = "TOMBOLA_TRACE_CALLS_MAX",
        value_name = "N",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    trace_calls_max: u32,
}

impl TraceArgs {
    /// How calls are traced; none without a collector.
    pub(super) fn settings(&self, problems: &mut Problems) -> Option<Settings> {
        let share = read_share(&self.trace_sample)
            .map_err(|text| problems.add("--trace-sample", text))
            .ok();
        let endpoint = self.otlp_endpoint.as_deref()?;
        let endpoint = endpoint
            .parse::<Endpoint>()
            .map_err(|text| problems.add("--otlp-endpoint", text))
            .ok();
        let resource = resource(problems);
        Some(Settings {
            endpoint: endpoint?,
            share: share?,
            calls_per_second_max: NonZeroU32::new(self.trace_calls_max)?,
            resource: resource?,
        })
    }
}

/// Says what is traced, so that nobody waits for a trace in vain.
pub(super) fn log(settings: &Settings) {
    let collector = &settings.endpoint;
    let (share, calls_max) = (settings.share, settings.calls_per_second_max);
    info!(
        %collector,
        "traces go to {collector}: of calls whose callers trace them, and of a share of {share} of \
         the others; at most {calls_max} calls a second of either"
    );
}

/// The attributes of the process, with those of the variables.
fn resource(problems: &mut Problems) -> Option<Resource> {
    let mut read = |name: &'static str| match env::var(name) {
        Ok(text) => Some(text),
        Err(env::VarError::NotPresent) => None,
        Err(env::VarError::NotUnicode(_)) => {
            problems.add(name, "is no text: write UTF-8");
            None
        }
    };
    let (service, attributes) = (read(OTEL_SERVICE_NAME), read(OTEL_RESOURCE_ATTRIBUTES));
    Resource::new(service.as_deref(), attributes.as_deref())
        .map_err(|error| problems.add(OTEL_RESOURCE_ATTRIBUTES, error.to_string()))
        .ok()
}

fn read_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok();
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| {
        format!("`{text}` is no share: write a number from 0 to 1, e.g. 0.01 for one in a hundred")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_checked() {
        for (text, share) in [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-3", 0.001)] {
            assert_eq!(read_share(text), Ok(share));
        }
        for bad in ["", "1%", "-0.1", "1.1", "NaN", "inf", "all", "0,5"] {
            assert!(read_share(bad).is_err(), "{bad}");
        }
    }
}
