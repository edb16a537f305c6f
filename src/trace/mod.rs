//! Traces: spans of calls and of what stores do for them, exported over OTLP.
//!
//! Every layer may report here; nothing here knows a layer. A call is recorded if its caller says
//! so in `traceparent`, or else by chance ([`sampler`]). Its span ([`call`]) goes on from the
//! caller's. What a store does for it is found by the current task ([`scope`]) and recorded too
//! ([`store`]). A span that has ended goes through a bounded queue ([`queue`]) to a task that sends
//! it ([`export`]), so a collector that is slow, away or broken costs spans and nothing else.
//!
//! A call that is not recorded costs a look at its headers: nothing is allocated for it.

mod call;
mod collector;
mod export;
mod ids;
mod otlp;
mod parent;
mod queue;
mod resource;
mod sampler;
mod scope;
mod span;
mod store;

use std::num::NonZeroU32;

pub use self::{
    call::Tracer,
    collector::Endpoint,
    export::Exporter,
    resource::{Resource, ResourceError},
};
pub(crate) use self::{
    call::{Arrived, CallTrace},
    scope::{Ids, Scope, current, ids, inherit, within},
    span::Span,
    store::{Operation, StoreSpan, batch, event, for_call},
};

/// The flags of traces that begin here: recorded, and their ids are random.
const OWN_FLAGS: u8 = parent::SAMPLED | 2;

/// How calls are traced.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where spans go.
    pub endpoint: Endpoint,
    /// The share of calls that are traced if their callers have not decided, 0 to 1.
    pub share: f64,
    /// The most calls a second that are traced since callers say so, and the most of the share.
    pub calls_per_second_max: NonZeroU32,
    /// What the spans are about.
    pub resource: Resource,
}

/// Starts to trace. Must be called within a Tokio runtime.
pub fn start(settings: Settings) -> (Tracer, Exporter) {
    let (queue, records) = queue::Queue::new();
    let sampler = sampler::Sampler::new(settings.share, settings.calls_per_second_max);
    let collector = collector::Collector::new(settings.endpoint);
    let exporter = Exporter::start(collector, settings.resource, records);
    (Tracer::new(sampler, queue), exporter)
}
