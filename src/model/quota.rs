//! A user's counts beside the limits: what answers and the ledger show.

use serde::{Deserialize, Serialize};

use super::{
    campaign::Campaign,
    caps::{PrizeCounts, PrizeQuota},
    id::SegmentId,
    limits::HourDraws,
    moment::Moment,
    number::is_zero,
    personal::{GuaranteeProgress, Progress},
};

/// The counts of a user on one day, as answers and ledger show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserCounts {
    /// Free draws of the day, bonus draws aside.
    pub free_today: u32,
    /// Paid draws of the day.
    pub paid_today: u32,
    /// Draws in all, bonus draws too.
    pub draws: u64,
    /// Of these, bonus draws.
    pub bonus_used: u64,
    /// Wins that count.
    pub wins: u64,
    /// Bonus draws left.
    pub bonus_left: u64,
    /// Wins of prizes while they had caps. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "PrizeCounts::is_empty")]
    pub prizes: PrizeCounts,
    /// Free draws of the latest hour with any, while there was a limit. Earlier versions wrote
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<HourDraws>,
    /// Bonus draws that callers granted on the day, while there was a limit. Earlier versions wrote
    /// none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted_today: u32,
    /// Bonus draws made on the day, while a pool needed them. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bonus_today: u32,
    /// How far the user is in personal pools. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Progress::is_empty")]
    pub progress: Progress,
}

/// One limit as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// None means unlimited.
    pub limit: Option<u32>,
    /// Used of it.
    pub used: u64,
    /// Bonus draws on top.
    pub bonus: u64,
    /// When `used` falls back to zero.
    pub reset: Option<Moment>,
}

impl Quota {
    /// What is left without the bonus; none means unlimited.
    pub fn remaining(&self) -> Option<u64> {
        self.limit
            .map(|limit| u64::from(limit).saturating_sub(self.used))
    }
}

/// All limits of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Free draws of the day.
    pub draws_today: Quota,
    /// Paid draws of the day.
    pub paid_draws_today: Quota,
    /// Draws in all.
    pub draws_total: Quota,
    /// Wins in all.
    pub wins_total: Quota,
    /// Prizes that have a cap, by number.
    pub prizes: Vec<PrizeQuota>,
    /// Free draws of the hour; none unless they are limited.
    pub draws_this_hour: Option<Quota>,
    /// Bonus draws that callers granted on the day; none unless they are limited.
    pub granted_today: Option<Quota>,
    /// The guarantees of personal pools, by pool.
    pub guarantees: Vec<GuaranteeProgress>,
}

impl Quotas {
    /// The limits of a user in these segments of a campaign, beside the user's counts, at a moment
    /// on the day of these counts.
    pub fn new(
        campaign: &Campaign,
        segments: &[SegmentId],
        counts: &UserCounts,
        at: Moment,
    ) -> Self {
        let (limits, zone) = (campaign.limits_of(segments), &campaign.zone);
        let reset = zone.next_day_start(at);
        let quota = |limit, used, bonus, reset| Quota {
            limit,
            used,
            bonus,
            reset,
        };
        Self {
            draws_today: quota(
                limits.draws_per_day,
                u64::from(counts.free_today),
                counts.bonus_left,
                Some(reset),
            ),
            paid_draws_today: quota(
                limits.paid_draws_per_day,
                u64::from(counts.paid_today),
                0,
                Some(reset),
            ),
            draws_total: quota(
                limits.draws_per_user,
                counts.draws.saturating_sub(counts.bonus_used),
                counts.bonus_left,
                None,
            ),
            wins_total: quota(limits.wins_per_user, counts.wins, 0, None),
            prizes: campaign
                .capped_prizes()
                .map(|(prize, cap)| PrizeQuota::new(prize, cap, counts.prizes.of(prize), reset))
                .collect(),
            draws_this_hour: limits.draws_per_hour.map(|limit| {
                let (start, end) = zone.hour(at);
                let used = HourDraws::as_of(counts.hour, start);
                quota(Some(limit), used.into(), counts.bonus_left, Some(end))
            }),
            granted_today: limits
                .granted_per_day
                .map(|limit| quota(Some(limit), counts.granted_today.into(), 0, Some(reset))),
            guarantees: counts.progress.guarantees(campaign),
        }
    }
}
