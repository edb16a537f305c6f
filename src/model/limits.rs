//! Limits: one record a user, and the rule that admits a draw or refuses it.
//!
//! A new day is seen by comparing days, never by a counter's expiry, so no quota is doubled at
//! midnight.

use serde::{Deserialize, Serialize};

use super::{caps::PrizeCounts, moment::Moment, personal::Progress, zone::Day};

pub use super::quota::{Quota, Quotas, UserCounts};

/// The most grants of bonus draws with different expiry that a user may have open.
pub const OPEN_GRANTS_MAX: usize = 32;

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
    /// Free draws in an hour.
    pub draws_per_hour: Option<u32>,
    /// Bonus draws that callers grant on a day.
    pub granted_per_day: Option<u32>,
}

/// What pays for a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Funding {
    /// The day's free quota, then bonus draws.
    Free,
    /// The caller's system took points or money.
    Paid,
}

/// The limit that refuses a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Free draws of the hour.
    DrawsPerHour,
    /// Free draws of the day.
    DrawsPerDay,
    /// Paid draws of the day.
    PaidDrawsPerDay,
    /// Draws in the whole campaign.
    DrawsPerUser,
    /// Bonus draws that callers grant on a day.
    GrantedPerDay,
}

/// A draw, or a grant of bonus draws, that a limit refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which limit.
    pub limit: LimitKind,
    /// The same would be admitted on another day, or in another hour.
    pub resets: bool,
    /// Draws that were asked for.
    pub asked: u32,
    /// Draws that would be admitted now, fewer than were asked for.
    pub left: u32,
}

/// Bonus draws of one or more grants with the same expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bonus {
    /// They lapse at this moment.
    pub expires: Moment,
    /// Draws left, at least 1.
    pub left: u32,
}

/// Free draws of an hour. In JSON `[start in seconds since the Unix epoch, draws]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, u32)", into = "(i64, u32)")]
pub struct HourDraws {
    /// The start of the hour, a whole second.
    pub start: Moment,
    /// Draws in it, bonus draws aside.
    pub draws: u32,
}

impl From<(i64, u32)> for HourDraws {
    fn from((start_s, draws): (i64, u32)) -> Self {
        Self {
            start: Moment::from_micros(start_s.saturating_mul(1_000_000)),
            draws,
        }
    }
}

impl From<HourDraws> for (i64, u32) {
    fn from(hour: HourDraws) -> Self {
        (hour.start.as_seconds(), hour.draws)
    }
}

impl HourDraws {
    /// The draws of the hour that starts at `now`: a later hour starts at zero.
    pub(super) fn as_of(hour: Option<Self>, now: Moment) -> u32 {
        hour.filter(|hour| hour.start >= now)
            .map_or(0, |hour| hour.draws)
    }
}

/// What a campaign remembers of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRecord {
    /// The day that `free_today` and `paid_today` count; none before the first draw.
    pub day: Option<Day>,
    /// Free draws of that day, bonus draws aside.
    pub free_today: u32,
    /// Paid draws of that day.
    pub paid_today: u32,
    /// Draws in all, bonus draws too.
    pub draws: u64,
    /// Of these, bonus draws.
    pub bonus_used: u64,
    /// Wins that count.
    pub wins: u64,
    /// Bonus draws left, soonest to lapse first, each expiry once.
    pub bonus: Vec<Bonus>,
    /// Wins of prizes while they had caps.
    pub prizes: PrizeCounts,
    /// Free draws of the latest hour with any, while there was a limit.
    pub hour: Option<HourDraws>,
    /// Bonus draws that callers granted on that day, while there was a limit.
    pub granted_today: u32,
    /// Bonus draws made on that day, while a pool needed them.
    pub bonus_today: u32,
    /// How far the user is in personal pools.
    pub progress: Progress,
}

/// How an admitted draw is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// From the day's free quota.
    pub free: u32,
    /// From bonus draws.
    pub bonus: u32,
    /// From the day's paid quota.
    pub paid: u32,
}

impl UserRecord {
    /// The record as it stands on `today` at `now`: a later day starts at zero, lapsed bonus draws
    /// are gone.
    #[must_use]
    pub fn on(mut self, today: Day, now: Moment) -> Self {
        if self.day.is_none_or(|day| today > day) {
            self.day = Some(today);
            self.free_today = 0;
            self.paid_today = 0;
            self.granted_today = 0;
            self.bonus_today = 0;
            self.prizes.begin_day();
        }
        self.bonus.retain(|bonus| now < bonus.expires);
        self
    }

    /// Bonus draws left.
    pub fn bonus_left(&self) -> u64 {
        self.bonus.iter().map(|bonus| u64::from(bonus.left)).sum()
    }

    /// Draws that count against the limit of draws in all.
    pub fn limited_draws(&self) -> u64 {
        self.draws.saturating_sub(self.bonus_used)
    }

    /// Admits all of `count` draws or refuses them, changing nothing. The record must be that of
    /// the day (see [`Self::on`]); `hour` is the start of the hour, none unless free draws of an
    /// hour are limited.
    pub fn admit(
        &self,
        limits: &DrawLimits,
        funding: Funding,
        count: u32,
        hour: Option<Moment>,
    ) -> Result<Charge, LimitReached> {
        let total_left = left(limits.draws_per_user, self.limited_draws());
        let (day_limit, used_today, limit) = match funding {
            Funding::Free => (
                limits.draws_per_day,
                self.free_today,
                LimitKind::DrawsPerDay,
            ),
            Funding::Paid => (
                limits.paid_draws_per_day,
                self.paid_today,
                LimitKind::PaidDrawsPerDay,
            ),
        };
        let day_left = left(day_limit, u64::from(used_today));
        let hour = hour.filter(|_| funding == Funding::Free);
        let hour_limit = limits.draws_per_hour.filter(|_| hour.is_some());
        let used_this_hour = hour.map_or(0, |hour| HourDraws::as_of(self.hour, hour));
        let hour_left = left(hour_limit, u64::from(used_this_hour));
        let bonus_left = match funding {
            Funding::Free => self.bonus_left(),
            Funding::Paid => 0,
        };
        let wanted = u64::from(count);
        let regular = wanted.min(day_left).min(hour_left).min(total_left);
        if wanted - regular > bonus_left {
            let reached = |limit, resets| LimitReached {
                limit,
                resets,
                asked: count,
                left: u32::try_from(regular + bonus_left).unwrap_or(count), // fewer than `count`
            };
            if wanted > total_left.saturating_add(bonus_left) {
                return Err(reached(LimitKind::DrawsPerUser, false));
            }
            // What a day gives in one call, it gives in one of its hours.
            let fresh = left(day_limit, 0).min(left(hour_limit, 0));
            let resets = wanted <= fresh.saturating_add(bonus_left);
            if wanted > day_left.saturating_add(bonus_left) {
                return Err(reached(limit, resets));
            }
            return Err(reached(LimitKind::DrawsPerHour, resets));
        }
        let regular = u32::try_from(regular).unwrap_or(count);
        Ok(match funding {
            Funding::Free => Charge {
                free: regular,
                bonus: count - regular,
                paid: 0,
            },
            Funding::Paid => Charge {
                free: 0,
                bonus: 0,
                paid: count,
            },
        })
    }

    /// Books an admitted draw; `hour` as in [`Self::admit`].
    pub fn charge(&mut self, charge: Charge, hour: Option<Moment>) {
        self.free_today += charge.free;
        self.paid_today += charge.paid;
        self.draws += u64::from(charge.free + charge.bonus + charge.paid);
        self.bonus_used += u64::from(charge.bonus);
        if let Some(now) = hour.filter(|_| charge.free > 0) {
            let known = self.hour.filter(|known| known.start >= now);
            let known = known.unwrap_or(HourDraws {
                start: now,
                draws: 0,
            });
            self.hour = Some(HourDraws {
                draws: known.draws + charge.free,
                ..known
            });
        }
        let mut owed = charge.bonus;
        for bonus in &mut self.bonus {
            let part = owed.min(bonus.left);
            bonus.left -= part;
            owed -= part;
        }
        self.bonus.retain(|bonus| bonus.left > 0);
    }

    /// Admits all of the bonus draws that a caller grants, or refuses them, changing nothing. The
    /// record must be that of the day (see [`Self::on`]).
    pub fn admit_bonus(&self, limits: &DrawLimits, draws: u32) -> Result<(), LimitReached> {
        let left = left(limits.granted_per_day, self.granted_today.into());
        if u64::from(draws) <= left {
            return Ok(());
        }
        Err(LimitReached {
            limit: LimitKind::GrantedPerDay,
            resets: limits.granted_per_day.is_none_or(|limit| draws <= limit),
            asked: draws,
            left: u32::try_from(left).unwrap_or(draws), // fewer than `draws`
        })
    }

    /// Counts bonus draws that a caller granted, if they are limited.
    pub fn count_bonus(&mut self, limits: &DrawLimits, draws: u32) {
        if limits.granted_per_day.is_some() {
            self.granted_today = self.granted_today.saturating_add(draws);
        }
    }

    /// Draws of the day, bonus draws too if they are counted (see [`Self::count_bonus_of_day`]).
    pub fn draws_today(&self) -> u64 {
        let counts = [self.free_today, self.paid_today, self.bonus_today];
        counts.into_iter().map(u64::from).sum()
    }

    /// Counts the bonus draws of an admitted draw on its day, for campaigns with pools that need
    /// it.
    pub fn count_bonus_of_day(&mut self, charge: Charge) {
        self.bonus_today = self.bonus_today.saturating_add(charge.bonus);
    }

    /// Adds bonus draws; false, and nothing changed, if the user has too many open grants.
    pub fn grant(&mut self, draws: u32, expires: Moment) -> bool {
        match self
            .bonus
            .binary_search_by_key(&expires, |bonus| bonus.expires)
        {
            Ok(index) => self.bonus[index].left = self.bonus[index].left.saturating_add(draws),
            Err(_) if self.bonus.len() >= OPEN_GRANTS_MAX => return false,
            Err(index) => self.bonus.insert(
                index,
                Bonus {
                    expires,
                    left: draws,
                },
            ),
        }
        true
    }

    /// The limits as answers show them.
    pub fn counts(&self) -> UserCounts {
        UserCounts {
            free_today: self.free_today,
            paid_today: self.paid_today,
            draws: self.draws,
            bonus_used: self.bonus_used,
            wins: self.wins,
            bonus_left: self.bonus_left(),
            prizes: self.prizes.clone(),
            hour: self.hour,
            granted_today: self.granted_today,
            bonus_today: self.bonus_today,
            progress: self.progress.clone(),
        }
    }
}

/// What is left of a limit.
fn left(limit: Option<u32>, used: u64) -> u64 {
    limit.map_or(u64::MAX, |limit| u64::from(limit).saturating_sub(used))
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
