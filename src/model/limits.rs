//! Limits: one record a user, and the rule that admits a draw or refuses it.
//!
//! A new day is seen by comparing days, never by a counter's expiry, so no quota is doubled at
//! midnight.

use serde::{Deserialize, Serialize};

use super::{moment::Moment, zone::Day};

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
    /// Free draws of the day.
    DrawsPerDay,
    /// Paid draws of the day.
    PaidDrawsPerDay,
    /// Draws in the whole campaign.
    DrawsPerUser,
}

/// A draw that a limit refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which limit.
    pub limit: LimitKind,
    /// The same draw would be admitted on another day.
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
    /// the day (see [`Self::on`]).
    pub fn admit(
        &self,
        limits: &DrawLimits,
        funding: Funding,
        count: u32,
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
        let bonus_left = match funding {
            Funding::Free => self.bonus_left(),
            Funding::Paid => 0,
        };
        let wanted = u64::from(count);
        let regular = wanted.min(day_left).min(total_left);
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
            let fresh_day = left(day_limit, 0).saturating_add(bonus_left);
            return Err(reached(limit, wanted <= fresh_day));
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

    /// Books an admitted draw.
    pub fn charge(&mut self, charge: Charge) {
        self.free_today += charge.free;
        self.paid_today += charge.paid;
        self.draws += u64::from(charge.free + charge.bonus + charge.paid);
        self.bonus_used += u64::from(charge.bonus);
        let mut owed = charge.bonus;
        for bonus in &mut self.bonus {
            let part = owed.min(bonus.left);
            bonus.left -= part;
            owed -= part;
        }
        self.bonus.retain(|bonus| bonus.left > 0);
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
        }
    }
}

/// What is left of a limit.
fn left(limit: Option<u32>, used: u64) -> u64 {
    limit.map_or(u64::MAX, |limit| u64::from(limit).saturating_sub(used))
}

/// The counts of a user on one day, as answers and ledger show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Free draws of the day.
    pub draws_today: Quota,
    /// Paid draws of the day.
    pub paid_draws_today: Quota,
    /// Draws in all.
    pub draws_total: Quota,
    /// Wins in all.
    pub wins_total: Quota,
}

impl Quotas {
    /// The limits beside a user's counts; the day ends at `reset`.
    pub fn new(limits: &DrawLimits, counts: &UserCounts, reset: Moment) -> Self {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: DrawLimits = DrawLimits {
        draws_per_day: Some(3),
        paid_draws_per_day: Some(2),
        draws_per_user: Some(4),
        wins_per_user: None,
    };

    fn user(day: i32) -> UserRecord {
        UserRecord::default().on(Day(day), Moment::EPOCH)
    }

    fn refused(user: &UserRecord, funding: Funding, count: u32) -> LimitReached {
        user.admit(&LIMITS, funding, count).unwrap_err()
    }

    #[test]
    fn a_day_s_quota_is_all_or_nothing_and_comes_back_on_a_later_day_only() {
        let mut u = user(10);
        u.charge(u.admit(&LIMITS, Funding::Free, 2).unwrap());
        let full = refused(&u, Funding::Free, 2);
        assert_eq!(
            full,
            LimitReached {
                limit: LimitKind::DrawsPerDay,
                resets: true,
                asked: 2,
                left: 1,
            }
        );
        let earlier = u.clone().on(Day(9), Moment::EPOCH);
        assert_eq!(
            earlier.free_today, 2,
            "a clock that steps back gives nothing"
        );
        let later = u.on(Day(11), Moment::EPOCH);
        assert!(later.admit(&LIMITS, Funding::Free, 2).is_ok());
        assert!(!refused(&later, Funding::Free, 3).resets, "four in all");
    }

    #[test]
    fn paid_draws_have_their_own_quota_and_share_the_sum() {
        let mut u = user(10);
        u.charge(u.admit(&LIMITS, Funding::Paid, 2).unwrap());
        assert_eq!(
            refused(&u, Funding::Paid, 1).limit,
            LimitKind::PaidDrawsPerDay
        );
        u.charge(u.admit(&LIMITS, Funding::Free, 2).unwrap());
        assert_eq!(
            refused(&u, Funding::Free, 1),
            LimitReached {
                limit: LimitKind::DrawsPerUser,
                resets: false,
                asked: 1,
                left: 0,
            }
        );
    }

    #[test]
    fn bonus_draws_come_after_the_quota_on_top_of_both_limits_and_lapse() {
        let mut u = user(10);
        assert!(u.grant(2, Moment::from_micros(100)));
        assert!(u.grant(5, Moment::from_micros(50)));
        u.charge(u.admit(&LIMITS, Funding::Free, 4).unwrap());
        assert_eq!((u.free_today, u.bonus_used, u.bonus_left()), (3, 1, 6));
        assert_eq!(u.bonus[0].left, 4, "the soonest to lapse goes first");
        let u = u.on(Day(10), Moment::from_micros(50));
        assert_eq!(u.bonus_left(), 2);
        assert!(u.admit(&LIMITS, Funding::Free, 2).is_ok());
        assert!(
            u.admit(&LIMITS, Funding::Paid, 2).is_err(),
            "one left in all"
        );
    }

    #[test]
    fn a_refusal_says_how_many_draws_would_be_admitted() {
        let mut u = user(10);
        u.charge(u.admit(&LIMITS, Funding::Free, 1).unwrap());
        u.grant(4, Moment::FAR_FUTURE);
        for (funding, limit, left) in [
            (Funding::Free, LimitKind::DrawsPerUser, 6), // two of the day, four by bonus
            (Funding::Paid, LimitKind::DrawsPerUser, 2),
        ] {
            let reached = refused(&u, funding, 9);
            assert_eq!((reached.limit, reached.asked), (limit, 9));
            assert_eq!(reached.left, left, "{funding:?}");
            assert!(u.admit(&LIMITS, funding, left).is_ok(), "{funding:?}");
            refused(&u, funding, left + 1);
        }
        let paid = refused(&u, Funding::Paid, 3);
        assert_eq!((paid.limit, paid.left), (LimitKind::PaidDrawsPerDay, 2));
    }

    #[test]
    fn zero_means_none_but_bonus_and_absent_means_unlimited() {
        let none = DrawLimits {
            draws_per_day: Some(0),
            ..DrawLimits::default()
        };
        let mut u = user(1);
        let refusal = u.admit(&none, Funding::Free, 1).unwrap_err();
        assert!(!refusal.resets, "no day will ever admit it");
        u.grant(1, Moment::FAR_FUTURE);
        assert!(u.admit(&none, Funding::Free, 1).is_ok());
        assert!(u.admit(&none, Funding::Paid, 100).is_ok());
    }

    #[test]
    fn open_grants_are_bounded() {
        let mut u = user(1);
        for i in 0..OPEN_GRANTS_MAX {
            assert!(u.grant(1, Moment::from_micros(1000 + i as i64)));
        }
        assert!(!u.grant(1, Moment::from_micros(5)));
        assert!(u.grant(1, Moment::from_micros(1000)), "same expiry adds up");
    }
}
