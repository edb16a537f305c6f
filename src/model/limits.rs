//! Limits: one record a user, and the rule that admits a draw or refuses it.

/// Limits for each user of a campaign; none means unlimited, 0 means none but bonus draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawLimits {
    /// Free draws a day.
    pub draws_per_day: Option<u32>,
    /// Paid draws a day.
    pub paid_draws_per_day: Option<u32>,
    /// Free and paid draws in all, bonus draws aside.
    pub draws_per_user: Option<u32>,
    /// Wins in all.
    pub wins_per_user: Option<u32>,
}
