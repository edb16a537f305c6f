//! A schedule: how many units of which prize in which window.

use std::time::Duration;

use jiff::civil::DateTime;

use super::{campaign::Quantities, zone::Window};

/// The plan of a scheduled pool. A later layer overrides an earlier one, prize by prize.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Units in the whole campaign, each in an hour that only the seed knows. These prizes are in no other layer.
    pub total: Quantities,
    /// Units in every hour; a zero stands for a plan that is still to come.
    pub per_hour: Quantities,
    /// Hours of every day.
    pub daily: Vec<Daily>,
    /// Hours of certain days, without overlap, by start.
    pub special: Vec<Special>,
    /// What becomes of an hour that passed unfilled.
    pub missed: Missed,
    /// What becomes of released units that nobody took.
    pub unclaimed: Unclaimed,
}

/// Hours of every day.
#[derive(Clone, Debug, PartialEq)]
pub struct Daily {
    /// First hour, 0 to 23.
    pub from_hour: i8,
    /// End of the last hour, 1 to 24; at or before `from_hour` it is on the next day.
    pub to_hour: i8,
    /// Units in each of these hours; a zero says none (so it may hold zeros, unlike the campaign's sums).
    pub per_hour: Quantities,
}

/// Hours of certain days.
#[derive(Clone, Debug, PartialEq)]
pub struct Special {
    /// Local start of the first hour.
    pub from: DateTime,
    /// Local end of the last hour.
    pub to: DateTime,
    /// Units in each of these hours; may hold zeros.
    pub per_hour: Quantities,
    /// Multiplies what earlier layers say of prizes that `per_hour` does not name; at least 1.
    pub multiply: u32,
}

/// What becomes of an hour that passed unfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Its units go to as many of the next hours as were missed.
    Spread,
    /// Its units stay in stock.
    Skip,
    /// Its units are released at once.
    Release,
}

/// What becomes of released units that nobody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unclaimed {
    /// They wait.
    Keep,
    /// They go back to stock this long after their release.
    ReturnAfter(Duration),
}

impl Schedule {
    /// The plan's quantities of a window, prizes planned by `total` aside.
    pub fn hourly(&self, window: &Window) -> Quantities {
        unimplemented!("{window:?}")
    }
}
