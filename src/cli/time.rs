//! Moments on the command line. How those of a response are shown stands in
//! [`crate::model::convert::times`].

use std::{ops::RangeInclusive, time::Duration};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

pub(super) use crate::model::convert::times::{
    from_wire, shown, shown_in_zone, span, to_wire, zone_named,
};

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

/// Reads a span of time within a range; `range_text` is the range as a person writes it.
pub(super) fn read_span(
    text: &str,
    range: RangeInclusive<Duration>,
    range_text: &str,
) -> Result<Duration, String> {
    let span = parse_span(text).map_err(|error| format!("`{text}`: {error}"))?;
    match Duration::try_from(span) {
        Ok(span) if range.contains(&span) => Ok(span),
        _ => Err(format!("`{text}` is out of range: {range_text}")),
    }
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

/// The full hour in this zone that contains `moment`, but not before `first`.
pub(super) fn hour_of(moment: Timestamp, zone: &str, first: Option<Timestamp>) -> Timestamp {
    let local = moment.to_zoned(zone_named(zone));
    let into = Duration::from_secs(u64::from(local.minute().unsigned_abs()) * 60)
        + Duration::from_secs(u64::from(local.second().unsigned_abs()))
        + Duration::from_nanos(u64::from(local.subsec_nanosecond().unsigned_abs()));
    let hour = moment.checked_sub(into).unwrap_or(moment);
    first.map_or(hour, |first| hour.max(first))
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
    fn a_span_out_of_range_says_what_the_range_is() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(60));
        let read = |text| read_span(text, min..=max, "1s to 60s");
        assert_eq!(read("1s"), Ok(min));
        assert_eq!(read("1m"), Ok(max));
        for bad in ["0s", "61s", "1d"] {
            let expected = format!("`{bad}` is out of range: 1s to 60s");
            assert_eq!(read(bad), Err(expected));
        }
        let error = read("soon").unwrap_err();
        assert!(error.starts_with("`soon`: a span of time is"), "{error}");
    }

    #[test]
    fn an_hour_is_a_full_hour_of_the_zone_and_not_before_the_start() {
        let moment = at("2026-11-20T12:45:10Z");
        let hour = |first| hour_of(moment, "Asia/Kolkata", first).to_string();
        assert_eq!(hour(None), "2026-11-20T12:30:00Z");
        let first = at("2026-11-20T12:40:00Z");
        assert_eq!(hour(Some(first)), "2026-11-20T12:40:00Z");
    }
}
