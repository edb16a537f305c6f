//! What came of the draws of a campaign in each hour: sums that a sink keeps beside the entries, so
//! that a curve of weeks needs no decoding.
//!
//! Entries that the store lost in a rollback after they were settled stay counted.

use std::collections::BTreeMap;

use super::wins::draw_of;
use crate::{
    model::Moment,
    store::{DrawResult, Entry},
};

/// An hour, in microseconds.
const HOUR_US: i64 = 3_600_000_000;

/// What came of draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Results: a draw of three counts three times.
    pub draws: u64,
    /// Those that won a unit.
    pub wins: u64,
    /// Those that gave the consolation prize.
    pub consolations: u64,
}

/// An hour of UTC in which there were draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hour {
    /// Its beginning.
    pub start: Moment,
    /// What came of its draws.
    pub counts: Counts,
}

/// The sums of a batch, by campaign and the beginning of the hour.
pub type Sums = BTreeMap<(String, Moment), Counts>;

/// Adds what an entry drew.
pub fn add(sums: &mut Sums, entry: &Entry) {
    let (Some(campaign), Some(draw)) = (entry.subject.campaign(), draw_of(entry)) else {
        return;
    };
    let key = (campaign.to_string(), hour_of(entry.at));
    let counts = sums.entry(key).or_default();
    for result in &draw.results {
        counts.draws += 1;
        match result {
            DrawResult::Won { .. } => counts.wins += 1,
            DrawResult::NotWon {
                consolation: true, ..
            } => counts.consolations += 1,
            DrawResult::NotWon { .. } => {}
        }
    }
}

/// The beginning of the hour of UTC in which a moment is.
pub fn hour_of(at: Moment) -> Moment {
    let at_us = at.as_micros();
    Moment::from_micros(at_us - at_us.rem_euclid(HOUR_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_begins_at_its_first_microsecond() {
        for (at, start) in [(0, 0), (HOUR_US - 1, 0), (HOUR_US, HOUR_US), (-1, -HOUR_US)] {
            let hour = hour_of(Moment::from_micros(at));
            assert_eq!(hour, Moment::from_micros(start), "{at}");
        }
    }
}
