//! The admin port: probes through a service's life, and metrics.

mod metrics;
mod probes;
