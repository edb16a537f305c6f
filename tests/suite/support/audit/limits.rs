//! Limits, grants and pools of users, recomputed from the entries (P5).

use tombola::{
    model::{Campaign, Moment, PoolNo, limits::Funding},
    store::{BonusEntry, Cause, DrawResult, entry::DrawEntry},
};

use super::Book;

impl Book {
    /// A caller's grant is in the campaign's time and within its limit (P5).
    pub(super) fn bonus(&mut self, at: Moment, bonus: &BonusEntry) {
        let campaign = &self.versions[&bonus.version];
        assert!(!self.is_over && at < campaign.end, "P5: {bonus:?}");
        assert!(bonus.expires > at, "P5: {bonus:?}");
        let draws = u64::from(bonus.draws);
        *self.granted.entry(bonus.user.clone()).or_default() += draws;
        let day = (bonus.user.clone(), campaign.zone.day(at));
        let on_day = self.granted_on.entry(day).or_default();
        if let Some(limit) = campaign.limits.granted_per_day {
            *on_day += draws;
            assert!(*on_day <= u64::from(limit), "P5: {bonus:?}");
        }
        assert_eq!(
            u64::from(bonus.counts.granted_today),
            *on_day,
            "P5: {bonus:?}"
        );
    }

    /// Nothing comes from a pool that is for others, or not open to the user.
    pub(super) fn check_pools(&self, at: Moment, draw: &DrawEntry, campaign: &Campaign) {
        let closed: Vec<_> = campaign.pools_closed_to(&draw.segments).collect();
        let totals = self.totals.get(&draw.user).copied();
        let (drawn, mut wins) = totals.unwrap_or_default();
        let day = (draw.user.clone(), campaign.zone.day(at));
        let (free, paid) = self.days.get(&day).copied().unwrap_or_default();
        for (number, result) in (0..).zip(&draw.results) {
            let pool = match result {
                DrawResult::Won { pool, .. } => pool,
                DrawResult::NotWon { cause, .. } => match cause {
                    Cause::Forfeited { pool, .. } | Cause::Blank { pool, .. } => pool,
                    _ => continue,
                },
            };
            assert!(!closed.contains(pool), "P5: a pool for others: {draw:?}");
            let (draws, today) = (drawn + number, free + paid + number);
            // Guarantees are tried for everybody.
            let is_open = *pool == PoolNo::GUARANTEES
                || campaign.pool(*pool).is_open_after(draws, today, wins);
            assert!(is_open, "P5: a pool that is not open: {draw:?}");
            if let DrawResult::Won { prize, .. } = result {
                wins += u64::from(campaign.prize(*prize).counts_as_win);
            }
        }
    }

    /// No limit is exceeded; bonus draws do not count (P5).
    pub(super) fn check_limits(
        &mut self,
        at: Moment,
        draw: &DrawEntry,
        campaign: &Campaign,
        wins: u64,
    ) {
        let made = draw.results.len() as u64;
        let limits = campaign.limits_of(&draw.segments);
        let counts = &draw.counts;
        let day = campaign.zone.day(at);
        let (free, paid) = self.days.entry((draw.user.clone(), day)).or_default();
        match draw.funding {
            Funding::Free => *free += made,
            Funding::Paid => *paid += made,
        }
        let before = self.bonus_used.insert(draw.user.clone(), counts.bonus_used);
        let granted = self.granted.get(&draw.user).copied().unwrap_or(0);
        assert!(counts.bonus_used <= granted, "P5: {draw:?}");
        // Of these draws, those that are no bonus draws.
        let own = made - (counts.bonus_used - before.unwrap_or(0));
        let within = |made: u64, limit: Option<u32>| {
            assert!(
                limit.is_none_or(|limit| made <= limit.into()),
                "P5: {draw:?}"
            );
        };
        if draw.funding == Funding::Free {
            let on_day = self.own.entry((draw.user.clone(), day)).or_default();
            *on_day += own;
            let hour = (draw.user.clone(), campaign.zone.hour(at).0);
            let in_hour = self.hours.entry(hour).or_default();
            // Draws are counted by the hour where the hour is limited.
            if limits.draws_per_hour.is_some() {
                *in_hour += own;
            }
            // Earlier draws may have had the limits of another segment.
            if own > 0 {
                within(*on_day, limits.draws_per_day);
                within(*in_hour, limits.draws_per_hour);
            }
        } else {
            within(*paid, limits.paid_draws_per_day);
        }
        let (all, won) = self.totals.entry(draw.user.clone()).or_default();
        *all += made;
        *won += wins;
        if own > 0 {
            within(*all - counts.bonus_used, limits.draws_per_user);
        }
        if wins > 0 {
            within(*won, limits.wins_per_user);
        }
        assert_eq!((counts.draws, counts.wins), (*all, *won));
        let prizes = self.capped.of(&draw.user, day);
        assert_eq!(draw.counts.prizes, prizes, "P5: {draw:?}");
    }
}
