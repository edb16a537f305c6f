//! The admin port: probes through a service's life, and metrics.

mod bounds;
mod gauges;
pub mod metrics;
mod probes;
