//! The most that a campaign may hold.

/// The largest count and amount: 2^53 - 1, what a double holds exactly (Lua and JSON have no other
/// numbers).
pub const COUNT_MAX: u64 = (1 << 53) - 1;

/// The most units of one prize that a schedule plans in one hour, or by `total` in the whole
/// campaign.
pub const PLANNED_UNITS_MAX: u64 = 10_000_000;

/// The most units of all prizes that the schedules of a campaign plan in one hour.
pub const HOUR_UNITS_MAX: u64 = 10_000_000;

/// The most layers of daily hours in a schedule.
pub const DAILY_LAYERS_MAX: usize = 100;

/// The most special hours in a schedule.
pub const SPECIAL_LAYERS_MAX: usize = 1_000;
