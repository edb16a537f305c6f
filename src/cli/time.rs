//! Moments: parsing them from the command line, and showing those of a response.

use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, tz::TimeZone};

/// A moment on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// A moment with its offset, as RFC 3339 writes it.
    At(Timestamp),
    /// A time span after the current time of the service's clock; `now` is zero.
    After(SignedDuration),
}

impl Time {
    /// Parses `2026-11-20T20:00:00+08:00`, `now`, `+2h` or `+1d12h`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str =
            "a time is 2026-11-20T20:00:00+08:00 (with its offset or Z), now, or +2h";
        if text == "now" {
            return Ok(Self::After(SignedDuration::ZERO));
        }
        if let Some(span) = text.strip_prefix('+') {
            return duration(span).map(Self::After).ok_or(FORMS.into());
        }
        text.parse().map(Self::At).map_err(|_| FORMS.into())
    }

    /// The absolute moment, if the service's clock shows `now`.
    pub(super) fn by(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::After(duration) => now.checked_add(duration).unwrap_or(Timestamp::MAX),
        }
    }
}

/// Parses a time span such as `90s`, `5m`, `1h30m` or `2d`. It is never negative.
pub(super) fn parse_span(text: &str) -> Result<SignedDuration, String> {
    duration(text).ok_or("a span of time is 90s, 5m, 1h30m or 2d".into())
}

/// Parses a span that is not negative; a day has 24 hours.
fn duration(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    (!duration.is_negative()).then_some(duration)
}

/// Converts a span to its protobuf type.
pub(super) fn span_to_wire(span: SignedDuration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: span.as_secs(),
        nanos: span.subsec_nanos(),
    }
}

/// Converts a moment to its protobuf type.
pub(super) fn to_wire(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: moment.as_second(),
        nanos: moment.subsec_nanosecond(),
    }
}

/// Converts a moment from its protobuf type; `None` if it is absent or out of range.
pub(super) fn from_wire(moment: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    let moment = moment?;
    Timestamp::new(moment.seconds, moment.nanos).ok()
}

/// To the second, in the zone of this name, or in UTC if the name is unknown; `-` if it is absent.
pub(super) fn shown_in_zone(moment: Option<&prost_types::Timestamp>, zone: &str) -> String {
    shown(moment, &zone_named(zone))
}

/// The zone of this name, or UTC if it is unknown.
pub(super) fn zone_named(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// To the second, with the offset of `zone` (`Z` for UTC); `-` if it is absent.
pub(super) fn shown(moment: Option<&prost_types::Timestamp>, zone: &TimeZone) -> String {
    let Some(moment) = from_wire(moment) else {
        return "-".into();
    };
    if *zone == TimeZone::UTC {
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    let local = moment.to_zoned(zone.clone());
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// The full hour in this zone that contains `moment`, but not before `first`.
pub(super) fn hour_of(moment: Timestamp, zone: &str, first: Option<Timestamp>) -> Timestamp {
    let local = moment.to_zoned(zone_named(zone));
    let into = Duration::from_secs(u64::from(local.minute().unsigned_abs()) * 60)
        + Duration::from_secs(u64::from(local.second().unsigned_abs()))
        + Duration::from_nanos(u64::from(local.subsec_nanosecond().unsigned_abs()));
    let hour = moment.checked_sub(into).unwrap_or(moment);
    first.map_or(hour, |first| hour.max(first))
}

/// A time span for people: `5m`, `1h 30m`.
pub(super) fn span(span: &prost_types::Duration) -> String {
    let duration = SignedDuration::new(span.seconds, span.nanos);
    format!("{duration:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_absolute_or_relative_to_the_services_clock() {
        let now = at("2026-11-20T10:00:00Z");
        for (text, expected) in [
            ("2026-11-20T20:00:00+08:00", "2026-11-20T12:00:00Z"),
            ("2026-11-20T20:00:00Z", "2026-11-20T20:00:00Z"),
            ("now", "2026-11-20T10:00:00Z"),
            ("+2h", "2026-11-20T12:00:00Z"),
            ("+90m", "2026-11-20T11:30:00Z"),
            ("+1d12h", "2026-11-21T22:00:00Z"),
        ] {
            let time = Time::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(time.by(now), at(expected), "{text}");
        }
    }

    #[test]
    fn a_bad_time_says_what_a_good_one_looks_like() {
        for text in [
            "",
            "tomorrow",
            "2026-11-20",
            "2026-11-20T20:00:00",
            "+",
            "+x",
            "+-2h",
            "2h",
        ] {
            let error = Time::parse(text).unwrap_err();
            assert!(error.contains("+2h"), "{text}: {error}");
        }
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
    fn an_hour_is_a_full_hour_of_the_zone_and_not_before_the_start() {
        let moment = at("2026-11-20T12:45:10Z");
        let hour = |first| hour_of(moment, "Asia/Kolkata", first).to_string();
        assert_eq!(hour(None), "2026-11-20T12:30:00Z");
        let first = at("2026-11-20T12:40:00Z");
        assert_eq!(hour(Some(first)), "2026-11-20T12:40:00Z");
    }

    #[test]
    fn spans_are_short() {
        let five_minutes = prost_types::Duration {
            seconds: 300,
            nanos: 0,
        };
        assert_eq!(span(&five_minutes), "5m");
    }
}
