//! A moment of time.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use jiff::Timestamp;

/// A moment in microseconds since the Unix epoch (UTC), from the year 1970 to the last day of 9999.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Moment(i64);

impl Moment {
    /// The Unix epoch, before anything that can happen here.
    pub const EPOCH: Self = Self(0);
    /// After anything that can happen here: the last midnight of the year 9999.
    pub const FAR_FUTURE: Self = Self(253_402_214_400_000_000);

    /// From microseconds since the Unix epoch, brought into the range if they are outside.
    ///
    /// ```
    /// use tombola::model::Moment;
    /// assert_eq!(Moment::from_micros(1_000_000).to_string(), "1970-01-01T00:00:01Z");
    /// ```
    pub const fn from_micros(micros: i64) -> Self {
        if micros < 0 {
            Self::EPOCH
        } else if micros > Self::FAR_FUTURE.0 {
            Self::FAR_FUTURE
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1_000_000
    }

    /// From a timestamp of [`jiff`], cut to microseconds.
    pub fn from_timestamp(timestamp: Timestamp) -> Self {
        Self::from_micros(timestamp.as_microsecond())
    }

    /// As a timestamp of [`jiff`].
    pub fn to_timestamp(self) -> Timestamp {
        Timestamp::from_microsecond(self.0).unwrap_or(Timestamp::MAX)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_timestamp().fmt(f)
    }
}
