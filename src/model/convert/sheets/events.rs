//! What happened to envelopes.

use jiff::tz::TimeZone;

use super::{super::times::shown, ledger};
use crate::proto::EnvelopeEvent;

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 9] = [
    "time",
    "envelope",
    "event",
    "user",
    "packet",
    "amount_minor",
    "currency",
    "by",
    "ledger",
];

/// A row: a cell for each column.
pub(crate) fn row(event: &EnvelopeEvent, zone: &TimeZone) -> Vec<String> {
    let kind = event.kind().as_str_name();
    let kind = kind.trim_start_matches("ENVELOPE_EVENT_KIND_");
    vec![
        shown(event.event_time.as_ref(), zone),
        event.envelope_id.clone(),
        kind.to_ascii_lowercase(),
        event.user_id.clone(),
        match event.packet {
            0 => String::new(),
            packet => packet.to_string(),
        },
        event.amount_minor.to_string(),
        event.currency.clone(),
        event.operator.clone(),
        ledger(event.ledger_id),
    ]
}
