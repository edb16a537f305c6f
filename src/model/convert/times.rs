//! Moments and spans of messages, as people read them.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::model::zone;

/// Converts a moment to its protobuf type.
pub(crate) fn to_wire(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: moment.as_second(),
        nanos: moment.subsec_nanosecond(),
    }
}

/// Converts a moment from its protobuf type; `None` if it is absent or out of range.
pub(crate) fn from_wire(moment: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let moment = moment?;
    Timestamp::new(moment.seconds, moment.nanos).ok()
}

/// To the second, in the zone of this name, or in UTC if the name is unknown; `-` if it is absent.
pub(crate) fn shown_in_zone(moment: Option<&prost_types::Timestamp>, zone: &str) -> String {
    shown(moment, &zone_named(zone))
}

/// The zone of this name, or UTC if it is unknown. It is that of the database which decides days
/// and hours too: the system's own may be older.
pub(crate) fn zone_named(name: &str) -> TimeZone {
    zone::named(name).unwrap_or(TimeZone::UTC)
}

/// To the second, with the offset of `zone` (`Z` for UTC); `-` if it is absent.
pub(crate) fn shown(moment: Option<&prost_types::Timestamp>, zone: &TimeZone) -> String {
    let Some(moment) = from_wire(moment) else {
        return "-".into();
    };
    if *zone == TimeZone::UTC {
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    let local = moment.to_zoned(zone.clone());
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// A time span for people: `5m`, `1h 30m`.
pub(crate) fn span(span: &prost_types::Duration) -> String {
    let duration = SignedDuration::new(span.seconds, span.nanos);
    format!("{duration:#}")
}

/// Seconds to a tenth, with their sign: `+0.3`.
pub(crate) fn signed_seconds(span: &prost_types::Duration) -> String {
    let seconds = span.seconds as f64 + f64::from(span.nanos) / 1e9;
    // No `-0.0`.
    format!("{:+.1}", (seconds * 10.0).round() / 10.0 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn moments_are_shown_in_the_campaigns_zone() {
        let moment = to_wire(at("2026-11-20T12:30:15.5Z"));
        assert_eq!(shown(Some(&moment), &TimeZone::UTC), "2026-11-20T12:30:15Z");
        let local = shown_in_zone(Some(&moment), "Asia/Shanghai");
        assert_eq!(local, "2026-11-20T20:30:15+08:00");
        assert_eq!(shown(None, &TimeZone::UTC), "-");
    }

    #[test]
    fn spans_are_short() {
        let five_minutes = prost_types::Duration {
            seconds: 300,
            nanos: 0,
        };
        assert_eq!(span(&five_minutes), "5m");
    }

    #[test]
    fn seconds_have_their_sign() {
        let shown = |seconds, nanos| signed_seconds(&prost_types::Duration { seconds, nanos });
        assert_eq!(shown(2, 250_000_000), "+2.3");
        assert_eq!(shown(-1, -540_000_000), "-1.5");
        assert_eq!(shown(0, -1_000), "+0.0");
    }
}
