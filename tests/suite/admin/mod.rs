//! The admin port: probes through a service's life, and metrics.

pub mod metrics;
mod probes;
