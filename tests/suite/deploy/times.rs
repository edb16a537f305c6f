//! The times by which the pods of the overlay `production` are replaced.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::render::{Rendered, text};
use crate::process::project;

/// When a pod is taken for ready or not, how a new one takes the place of an old one, and how long
/// that one may take to end.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The fewest pods.
    pub replicas: usize,
    /// How long a pod serves after its signal to stop.
    pub drain_delay: Duration,
    /// The age at which a connection is ended.
    pub connection_age: Duration,
    /// How often the readiness probe asks, and how many failures in a row make a pod not ready.
    pub probe_period: Duration,
    pub probe_failures: u32,
    /// How long a pod may take from its signal to its end before it is killed.
    pub grace: Duration,
}

impl Times {
    /// As the manifests have them.
    pub fn of_production() -> Self {
        let rendered = Rendered::of(&project("deploy/kustomize"), "production");
        let deployment = &rendered.named("Deployment", "tombola")["spec"];
        // A new pod is ready before an old one is stopped.
        let update = &deployment["strategy"]["rollingUpdate"];
        assert_eq!(
            (&update["maxSurge"], &update["maxUnavailable"]),
            (&Value::from(1), &0.into())
        );
        let spec = &rendered.server()["spec"];
        let container = &spec["containers"][0];
        // The signal comes at once: no hook waits before it.
        assert_eq!(container["lifecycle"], Value::Null);
        let variables = rendered.variables(container);
        let span = |name: &str| -> Duration {
            let found = variables.iter().rev().find(|(own, _)| own == name);
            let value = found.unwrap().1.as_deref().unwrap();
            value.parse::<SignedDuration>().unwrap().try_into().unwrap()
        };
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
        let probe = &container["readinessProbe"];
        assert_eq!(text(&probe["httpGet"]["path"]), "/readyz");
        let scaler = rendered.named("HorizontalPodAutoscaler", "tombola");
        Self {
            replicas: number(&scaler["spec"]["minReplicas"]) as usize,
            drain_delay: span("TOMBOLA_DRAIN_DELAY"),
            connection_age: span("TOMBOLA_MAX_CONNECTION_AGE"),
            probe_period: Duration::from_secs(number(&probe["periodSeconds"])),
            probe_failures: number(&probe["failureThreshold"]) as u32,
            grace: Duration::from_secs(number(&spec["terminationGracePeriodSeconds"])),
        }
    }

    /// The same, this many times faster; connections end faster still, so that many end in a test.
    /// The grace period stays as it is: how fast the machine works is not scaled.
    pub fn faster(self, times: u32) -> Self {
        Self {
            drain_delay: self.drain_delay / times,
            connection_age: self.connection_age / (times * times),
            probe_period: self.probe_period / times,
            ..self
        }
    }
}
