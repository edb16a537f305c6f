//! A campaign's time zone: its days (for limits) and its windows, the full local hours (for schedules).

use jiff::{civil::DateTime, tz::TimeZone};

use super::moment::Moment;

/// An IANA time zone of the database that is built in, so that every replica of one build agrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

/// A local calendar day, in days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

/// One local hour, or the part of it that lies in the campaign: `start <= t < end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First moment.
    pub start: Moment,
    /// First moment after it.
    pub end: Moment,
    /// The local full hour it lies in, e.g. `2026-11-29T20:00`.
    pub local_hour: DateTime,
}

impl Zone {
    /// The zone of this IANA name, or what to write instead.
    pub fn parse(name: &str) -> Result<Self, String> {
        unimplemented!("{name}")
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The local day of a moment.
    pub fn day(&self, at: Moment) -> Day {
        unimplemented!("{at} {:?}", self.zone)
    }

    /// The first moment of the local day after the one of `at`.
    pub fn next_day_start(&self, at: Moment) -> Moment {
        unimplemented!("{at}")
    }

    /// The window that `at` lies in, clipped to `start..end`; none outside of it.
    ///
    /// A window ends where the local clock reaches another full hour, or jumps over one. A repeated hour is two windows, a
    /// skipped one none; where the clock goes back by half an hour the hour is one window of 90 minutes.
    pub fn window_at(&self, at: Moment, start: Moment, end: Moment) -> Option<Window> {
        unimplemented!("{at} {start} {end}")
    }

    /// The windows from the one that `from` lies in (or the first after it) to the end of `start..end`, in order.
    pub fn windows(
        &self,
        from: Moment,
        start: Moment,
        end: Moment,
    ) -> impl Iterator<Item = Window> + '_ {
        let first = self.window_at(from.max(start), start, end);
        std::iter::successors(first, move |last| self.window_at(last.end, start, end))
    }

    /// A moment as local time with its offset, e.g. `2026-11-29T20:00+08:00`.
    pub fn local(&self, at: Moment) -> String {
        unimplemented!("{at}")
    }
}
