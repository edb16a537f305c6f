//! Whether the service does its work, for the probes of the admin port. The health service of gRPC
//! says the same to clients.

use std::sync::{Arc, PoisonError, RwLock};

use crate::metrics::STATE;

/// The state of a service in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// The store is not open yet.
    #[default]
    Starting,
    /// The store cannot be opened for this cause, which may pass.
    Waiting(String),
    /// Draws and grabs work.
    Ready,
    /// Draws and grabs work, but not in some partitions of the store: which, and what to do.
    Impaired(String),
    /// The store does not do its work, for this cause.
    NotReady(String),
    /// A signal has stopped the service.
    Stopping,
}

/// The state of a service, shared by what finds it out and what reports it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<RwLock<Phase>>);

impl Readiness {
    /// The state now.
    pub fn phase(&self) -> Phase {
        let phase = self.0.read().unwrap_or_else(PoisonError::into_inner);
        phase.clone()
    }

    /// The store cannot be opened yet, for this cause.
    pub fn wait(&self, cause: String) {
        self.set(Phase::Waiting(cause));
    }

    /// Changes the state. A service that stops never becomes ready again.
    pub(super) fn set(&self, next: Phase) {
        let mut phase = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if *phase != Phase::Stopping {
            let is_ready = matches!(next, Phase::Ready | Phase::Impaired(_));
            STATE.is_ready.set(i64::from(is_ready));
            *phase = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_stops_does_not_become_ready_again() {
        let readiness = Readiness::default();
        assert_eq!(readiness.phase(), Phase::Starting);
        for phase in [
            Phase::Waiting("away".into()),
            Phase::Ready,
            Phase::Impaired("partition 3".into()),
            Phase::NotReady("full".into()),
            Phase::Stopping,
        ] {
            readiness.set(phase.clone());
            assert_eq!(readiness.phase(), phase);
        }
        readiness.set(Phase::Ready);
        assert_eq!(readiness.phase(), Phase::Stopping);
    }
}
