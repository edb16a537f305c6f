//! What a soak found, as Markdown.

use std::collections::BTreeMap;

use serde::Serialize;
use tombola::model::text::grouped;

use super::{flat::Trend, samples::Sample, services::ServicesRecord, stage::Retries};
use crate::{
    campaigns::Sums,
    host::{Environment, Host},
};

/// The number of samples that a table shows.
const ROWS: usize = 24;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Soak {
    pub(super) tombola: &'static str,
    pub(super) build: &'static str,
    pub(super) host: Host,
    pub(super) load_seconds: f64,
    /// The days that passed by the stores' clock, and how many times as fast that was.
    pub(super) days: f64,
    pub(super) speed: u32,
    pub(super) users: u64,
    pub(super) stores: Vec<StoreSoak>,
}

/// What was found on one store.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StoreSoak {
    pub(super) environment: Environment,
    /// Absent if the rate was named.
    pub(super) peak_per_second: Option<f64>,
    pub(super) rate: u64,
    pub(super) services: ServicesRecord,
    pub(super) samples: Vec<Sample>,
    pub(super) trends: Vec<Trend>,
    /// Plans of the main campaign.
    pub(super) versions: u32,
    pub(super) sums: Vec<Sums>,
    /// Draws that callers got an answer to, and draws that the store counts.
    pub(super) draws_answered: u64,
    pub(super) draws_counted: u64,
    pub(super) replays: u64,
    /// Attempts that were made again, by reason.
    pub(super) retries: BTreeMap<String, Retries>,
    pub(super) settling_seconds: f64,
    pub(super) audit_seconds: f64,
    /// What must not have happened.
    pub(super) faults: Vec<String>,
}

impl Soak {
    /// What must not have happened, on all stores.
    pub(crate) fn faults(&self) -> Vec<&str> {
        let faults = self.stores.iter().flat_map(|store| &store.faults);
        faults.map(String::as_str).collect()
    }
}

/// The report.
pub(crate) fn render(soak: &Soak) -> String {
    let Soak { host, .. } = soak;
    let mut page = format!(
        "# A soak of {:.0} minutes\n\ntombola {} (build {}) on {} cores of {}. In {}, a write of \
         4 KiB is on disk after {} µs (p50), {} µs (p99). By the stores' clock, {:.2} days passed, \
         {} times as fast as in reality. {} users.\n",
        soak.load_seconds / 60.0,
        soak.tombola,
        soak.build,
        host.cores,
        host.processor,
        host.directory,
        grouped(host.fsync_us_p50),
        grouped(host.fsync_us_p99),
        soak.days,
        soak.speed,
        grouped(soak.users),
    );
    for store in &soak.stores {
        page += &store.render();
    }
    page
}

impl StoreSoak {
    fn render(&self) -> String {
        let mut parts = vec![
            format!("\n## {}", self.environment.store),
            self.summary(),
            self.verdict(),
            self.over_time(),
        ];
        if !self.faults.is_empty() {
            let faults: Vec<String> = self.faults.iter().map(|one| format!("- {one}")).collect();
            parts.push(format!("### Faults\n\n{}", faults.join("\n")));
        }
        parts.join("\n\n") + "\n"
    }

    fn summary(&self) -> String {
        let environment = &self.environment;
        let servers = match environment.redis_version.as_str() {
            "" => String::new(),
            redis => format!(
                "- Servers: Redis {redis} (appendfsync {}), {}.\n",
                environment.appendfsync, environment.postgres_version
            ),
        };
        let peak = self.peak_per_second.map_or(String::new(), |peak| {
            format!(", a quarter of {}", grouped(peak as u64))
        });
        let calls: u64 = self.samples.iter().map(|one| one.calls).sum();
        let services = &self.services;
        let (sums, off) = (&self.sums, self.sums.iter().filter(|one| !one.balanced));
        let even = self.samples.iter().filter(|one| one.balanced);
        format!(
            "{servers}- Load: {} calls a second{peak}; {} calls.\n\
             - Services: {} starts, {} stops by SIGTERM, {} by SIGKILL.\n\
             - Campaigns: {}, of which {} left the store; {} plans of the largest.\n\
             - Refusals: {}.\n\
             - Attempts that were made again:{}\n\
             - Draws: {} answered, {} counted by the store; {} asked for again, with the same \
             answer.\n\
             - Sums (P2): {} of {} add up at the end, and in {} of {} samples. The audit took \
             {:.0} s, {:.1} s after the load the ledger was settled.\n\
             - Faults: {}.",
            grouped(self.rate),
            grouped(calls),
            services.starts,
            services.terminated,
            services.killed,
            sums.len(),
            services.removed,
            self.versions,
            counts(&self.refusals()),
            self.retries(),
            grouped(self.draws_answered),
            grouped(self.draws_counted),
            grouped(self.replays),
            sums.len() - off.count(),
            sums.len(),
            even.count(),
            self.samples.len(),
            self.audit_seconds,
            self.settling_seconds,
            self.faults.len(),
        )
    }

    fn refusals(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (reason, calls) in self.samples.iter().flat_map(|one| &one.refused) {
            *all.entry(reason.clone()).or_default() += calls;
        }
        all
    }

    fn retries(&self) -> String {
        let retries = self.retries.iter().map(|(reason, one)| {
            format!(
                "\n  - {reason} {}, the first: {}",
                grouped(one.attempts),
                one.first
            )
        });
        match self.retries.is_empty() {
            true => " none.".into(),
            false => retries.collect(),
        }
    }

    fn verdict(&self) -> String {
        let mut lines = vec![
            "| figure | second quarter | last quarter | ratio | flat |".to_owned(),
            "|---|---|---|---|---|".to_owned(),
        ];
        for trend in &self.trends {
            let Trend { second, last, .. } = trend;
            let ratio = match *second > 0.0 {
                true => format!("{:.2}", last / second),
                false => String::new(),
            };
            let unit = match trend.unit {
                "" => String::new(),
                unit => format!(", {unit}"),
            };
            lines.push(format!(
                "| {}{unit} | {second:.1} | {last:.1} | {ratio} | {} |",
                trend.name,
                if trend.is_flat { "yes" } else { "**no**" }
            ));
        }
        lines.join("\n")
    }

    fn over_time(&self) -> String {
        let is_on_redis = self.samples.iter().any(|one| one.redis_bytes.is_some());
        let files = match is_on_redis {
            true => "Redis MiB | append-only file MiB | PostgreSQL MiB",
            false => "database MiB | write-ahead log MiB",
        };
        let mut lines = vec![format!(
            "| second | calls a second | won | refused | p50 ms | p99 | p99.9 | max | \
             service MiB | open files | {files} | unsettled |"
        )];
        lines.push("|---".repeat(if is_on_redis { 14 } else { 13 }) + "|");
        let step = self.samples.len().div_ceil(ROWS).max(1);
        // The last sample is always shown.
        let shown = self.samples.iter().rev().step_by(step);
        let shown: Vec<&Sample> = shown.collect();
        for one in shown.into_iter().rev() {
            let files = match is_on_redis {
                true => vec![one.redis_bytes, one.redis_file_bytes, one.postgres_bytes],
                false => vec![one.database_bytes, one.wal_bytes],
            };
            let files: Vec<String> = files
                .into_iter()
                .map(|file| mib(file.unwrap_or(0)))
                .collect();
            let (ms, latency) = (
                |us: u64| format!("{:.1}", us as f64 / 1000.0),
                one.latency_us,
            );
            lines.push(format!(
                "| {:.0} | {:.0} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                one.second,
                one.per_second,
                grouped(one.wins),
                grouped(one.refused.values().sum()),
                ms(latency.p50),
                ms(latency.p99),
                ms(latency.p999),
                ms(latency.max),
                mib(one.service_bytes),
                one.open_files,
                files.join(" | "),
                grouped(one.unsettled),
            ));
        }
        lines.join("\n")
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}

fn counts(by_reason: &BTreeMap<String, u64>) -> String {
    let counts = by_reason.iter();
    let counts: Vec<String> = counts
        .map(|(reason, calls)| format!("{reason} {}", grouped(*calls)))
        .collect();
    match counts.is_empty() {
        true => "none".into(),
        false => counts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::flat::tests::sample;

    #[test]
    fn samples_whose_sums_are_wrong_are_not_counted_with_the_others() {
        let mut samples = vec![sample(0, 1), sample(1, 1)];
        samples[1].balanced = false;
        let found = StoreSoak {
            environment: Environment {
                store: "embedded".into(),
                redis_version: String::new(),
                appendonly: String::new(),
                appendfsync: String::new(),
                postgres_version: String::new(),
                protections: "",
            },
            peak_per_second: None,
            rate: 1,
            services: ServicesRecord::default(),
            samples,
            trends: Vec::new(),
            versions: 1,
            sums: Vec::new(),
            draws_answered: 0,
            draws_counted: 0,
            replays: 0,
            retries: BTreeMap::new(),
            settling_seconds: 0.0,
            audit_seconds: 0.0,
            faults: Vec::new(),
        };
        let summary = found.summary();
        assert!(summary.contains("and in 1 of 2 samples"), "{summary}");
    }
}
