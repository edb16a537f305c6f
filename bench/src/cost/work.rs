//! Types that the parts of `tombola-bench cost` share.

use std::path::PathBuf;

use serde::Serialize;

use super::args::CostArgs;
use crate::{
    failure::Outcome,
    host::Host,
    rig::Rig,
    subject::{Kind, Store},
};

/// The results.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Costs {
    pub(super) tombola: &'static str,
    pub(super) host: Host,
    pub(super) costs: Vec<Cost>,
    /// Parts that failed, each with its reason.
    pub(crate) failed: Vec<String>,
    /// Whether P2 holds, for every campaign of the bench.
    pub(crate) balanced: bool,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) store: String,
    pub(super) what: String,
    /// The number of users, units or connections.
    pub(super) at: String,
    pub(super) value: f64,
    pub(super) unit: &'static str,
}

/// The state that the parts share.
pub(super) struct Work<'a> {
    pub(super) args: &'a CostArgs,
    /// The server program.
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) rig: &'a mut Rig,
    pub(super) costs: Found,
    pub(super) failed: Vec<String>,
    pub(super) balanced: bool,
}

/// The figures so far.
#[derive(Default)]
pub(super) struct Found(pub(super) Vec<Cost>);

impl Found {
    /// Adds a figure.
    pub(super) fn found(
        &mut self,
        store: &str,
        what: &str,
        at: impl Into<String>,
        value: f64,
        unit: &'static str,
    ) {
        self.0.push(Cost {
            store: store.into(),
            what: what.into(),
            at: at.into(),
            value,
            unit,
        });
    }
}

impl Work<'_> {
    /// Checks the sums of all running services, and removes the services.
    pub(super) async fn close(&mut self) -> Outcome {
        for subject in self.rig.subjects() {
            self.balanced &= subject.sums().await?.iter().all(|sums| sums.balanced);
        }
        self.rig.close().await;
        Ok(())
    }

    /// A service that the bench starts itself.
    pub(super) fn own(&self, store: Store) -> Kind {
        Kind::Own {
            program: self.program.clone(),
            store,
            redis_url: None,
            is_shedding: false,
        }
    }
}
