//! Log lines with the ids of the trace that they belong to, under OpenTelemetry's names for them:
//! `trace_id` and `span_id`.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Json, Writer},
    },
    registry::LookupSpan,
};

use crate::trace::{self, Ids};

/// A format of log lines that adds ids to those that belong to a trace.
pub(super) struct WithIds<F> {
    inner: F,
    /// Adds ids to a line without its end.
    add: fn(&mut String, Ids),
}

impl WithIds<Format<Full>> {
    /// Lines for people.
    pub(super) fn text(inner: Format<Full>, is_ansi: bool) -> Self {
        Self {
            // A line with ids goes through a buffer, which does not say whether it takes colours.
            inner: inner.with_ansi(is_ansi),
            add: add_to_text,
        }
    }
}

impl WithIds<Format<Json>> {
    /// Lines of JSON.
    pub(super) fn json(inner: Format<Json>) -> Self {
        Self {
            inner,
            add: add_to_json,
        }
    }
}

impl<S, N, F> FormatEvent<S, N> for WithIds<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(ids) = trace::ids() else {
            return self.inner.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.inner
            .format_event(context, Writer::new(&mut line), event)?;
        line.truncate(line.trim_end_matches('\n').len());
        (self.add)(&mut line, ids);
        writeln!(writer, "{line}")
    }
}

fn add_to_text(line: &mut String, ids: Ids) {
    line.push_str(&format!(" trace_id={}", ids.trace));
    if let Some(span) = ids.span {
        line.push_str(&format!(" span_id={span}"));
    }
}

fn add_to_json(line: &mut String, ids: Ids) {
    let object = line.strip_suffix('}').map_or(0, str::len);
    line.truncate(object);
    line.push_str(&format!(r#","trace_id":"{}""#, ids.trace));
    if let Some(span) = ids.span {
        line.push_str(&format!(r#","span_id":"{span}""#));
    }
    line.push('}');
}
