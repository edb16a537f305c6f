//! The options of the admin port and of a stop that balancers notice in time.

use std::time::Duration;

use clap::Args;
use tokio::{net::TcpListener, task::JoinSet};
use tracing::info;

use super::{
    listen::{BindError, Listen},
    time::read_span,
};
use crate::{
    admin,
    grpc::{gauges::Gauges, readiness::Readiness},
    model::Problems,
};

/// The longest wait between the signal to stop and the end of new connections.
const DRAIN_DELAY_MAX: Duration = Duration::from_secs(5 * 60);

#[derive(Args, Clone, Debug)]
pub(super) struct AdminArgs {
    /// The address of probes and metrics, over plain HTTP: not for callers. None unless named
    #[arg(long, env = "TOMBOLA_ADMIN", value_name = "HOST:PORT")]
    admin: Option<Listen>,
    /// How long the server goes on serving after the signal to stop, while it reports that it is
    /// not ready
    #[arg(
        long,
        env = "TOMBOLA_DRAIN_DELAY",
        value_name = "SPAN",
        default_value = "0s"
    )]
    drain_delay: String,
}

impl AdminArgs {
    /// The wait after the signal to stop.
    pub(super) fn drain_delay(&self, problems: &mut Problems) -> Duration {
        read_delay(&self.drain_delay).unwrap_or_else(|text| {
            problems.add("--drain-delay", text);
            Duration::ZERO
        })
    }

    /// Binds the admin port, if one is named.
    pub(super) async fn bind(&self) -> Result<Option<AdminPort>, BindError> {
        let Some(address) = &self.admin else {
            return Ok(None);
        };
        let listener = address.bind("--admin").await?;
        let local = listener
            .local_addr()
            .map_or_else(|_| address.to_string(), |local| local.to_string());
        info!(address = %local, "probes and metrics on {local}");
        Ok(Some(AdminPort(listener)))
    }
}

/// An admin port that is bound.
pub(super) struct AdminPort(TcpListener);

impl AdminPort {
    /// Answers there until the value is dropped.
    pub(super) fn serve(self, readiness: Readiness, gauges: Gauges) -> JoinSet<()> {
        let mut serving = JoinSet::new();
        serving.spawn(admin::serve(self.0, readiness, gauges));
        serving
    }
}

fn read_delay(text: &str) -> Result<Duration, String> {
    read_span(text, Duration::ZERO..=DRAIN_DELAY_MAX, "0s to 5m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_after_the_signal_is_checked() {
        assert_eq!(read_delay("0s"), Ok(Duration::ZERO));
        assert_eq!(read_delay("5m"), Ok(DRAIN_DELAY_MAX));
        for bad in ["", "5", "-1s", "6m", "soon"] {
            assert!(read_delay(bad).is_err(), "{bad}");
        }
    }
}
