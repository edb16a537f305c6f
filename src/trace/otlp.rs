//! Spans as OTLP sends them.

use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    resource::v1::Resource as WireResource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status,
        span::{Event, Link, SpanKind},
        status::StatusCode,
    },
};

use super::{
    resource::Resource,
    span::{Kind, Record, Value},
};

/// Bits of a span's flags beyond those of W3C: whether the span above is of another process is
/// known, and it is.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// The request that exports these spans.
pub(super) fn request(resource: &Resource, records: &[Record]) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").into(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..InstrumentationScope::default()
    };
    let spans = ScopeSpans {
        scope: Some(scope),
        spans: records.iter().map(span).collect(),
        ..ScopeSpans::default()
    };
    let resource = WireResource {
        attributes: resource.attributes(),
        ..WireResource::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        }],
    }
}

fn span(record: &Record) -> Span {
    let (head, noted) = (&record.head, &record.noted);
    let is_remote = head.parent.is_some_and(|(_, is_remote)| is_remote);
    let links = noted.links.iter().map(|(trace, span)| Link {
        trace_id: trace.bytes(),
        span_id: span.bytes(),
        flags: u32::from(super::OWN_FLAGS) | HAS_IS_REMOTE,
        ..Link::default()
    });
    let events = noted.events.iter().map(|(name, after)| Event {
        time_unix_nano: nanos(head.begun_at, *after),
        name: (*name).into(),
        ..Event::default()
    });
    Span {
        trace_id: head.trace.bytes(),
        span_id: head.id.bytes(),
        parent_span_id: head
            .parent
            .map_or_else(Vec::new, |(above, _)| above.bytes()),
        trace_state: head.state.clone(),
        flags: u32::from(head.flags) | HAS_IS_REMOTE | if is_remote { IS_REMOTE } else { 0 },
        name: head.name.clone().into_owned(),
        kind: kind(head.kind).into(),
        start_time_unix_nano: nanos(head.begun_at, Duration::ZERO),
        end_time_unix_nano: nanos(head.begun_at, record.took),
        attributes: noted.attributes.iter().map(attribute).collect(),
        links: links.collect(),
        dropped_links_count: noted.links_dropped,
        events: events.collect(),
        dropped_events_count: noted.events_dropped,
        status: record.error.map(|message| Status {
            message: message.into(),
            code: StatusCode::Error.into(),
        }),
        ..Span::default()
    }
}

fn kind(kind: Kind) -> SpanKind {
    match kind {
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
        Kind::Internal => SpanKind::Internal,
    }
}

/// A time after another one, in nanoseconds of Unix time.
fn nanos(at: SystemTime, after: Duration) -> u64 {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from((since + after).as_nanos()).unwrap_or(u64::MAX)
}

fn attribute((key, value): &(&'static str, Value)) -> KeyValue {
    match value {
        Value::Name(name) => text(key, (*name).into()),
        Value::Text(value) => text(key, value.clone()),
        Value::Number(number) => pair(key, any_value::Value::IntValue(*number)),
    }
}

/// An attribute with a text.
pub(super) fn text(key: &str, value: String) -> KeyValue {
    pair(key, any_value::Value::StringValue(value))
}

fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
