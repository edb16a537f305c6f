//! The records of a campaign's users, recomputed from their draws and grants (P5).

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
};

use crate::{
    model::{
        Moment, UserId,
        limits::{Bonus, DrawLimits, LimitKind, UserCounts, UserRecord},
        zone::Day,
    },
    store::entry::DrawEntry,
};

/// What is kept of a user. Millions of users may have one, so it is small.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    day: i32,
    free_today: u32,
    paid_today: u32,
    draws: u32,
    bonus_used: u32,
    wins: u32,
}

/// The users of a campaign. A user is known by a digest of 64 bits under a key of this run.
#[derive(Debug, Default)]
pub(super) struct Users {
    hasher: RandomState,
    counts: HashMap<u64, Counts>,
    /// Of users who were granted bonus draws and have some left.
    bonus: HashMap<u64, Vec<Bonus>>,
    /// Users whose earlier draws are not known to be theirs.
    unlinked: HashSet<u64>,
}

impl Users {
    /// Users who have drawn or were granted draws.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Says who a user was in earlier entries, which have clear ids; none if that is erased. Then
    /// the limits of the user's draws cannot be checked.
    pub(super) fn link(&mut self, pseudonym: &str, clear: Option<&str>) {
        let key = self.hasher.hash_one(pseudonym);
        if self.counts.contains_key(&key) {
            return;
        }
        let Some(clear) = clear else {
            self.unlinked.insert(key);
            return;
        };
        let before = self.hasher.hash_one(clear);
        if let Some(counts) = self.counts.remove(&before) {
            self.counts.insert(key, counts);
        }
        if let Some(bonus) = self.bonus.remove(&before) {
            self.bonus.insert(key, bonus);
        }
    }

    /// Whether all draws of a user are known to be theirs.
    pub(super) fn is_known(&self, user: &UserId) -> bool {
        self.unlinked.is_empty() || !self.unlinked.contains(&self.hasher.hash_one(user.as_str()))
    }

    /// Books a draw of which `wins` results count as wins. The text says which limit it exceeds, or
    /// how its counts differ from those that follow from the entries before it.
    pub(super) fn draw(
        &mut self,
        draw: &DrawEntry,
        limits: &DrawLimits,
        (today, at): (Day, Moment),
        wins: u32,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let key = self.hasher.hash_one(draw.user.as_str());
        let mut record = self.record(key).on(today, at);
        let count = draw.results.len() as u32;
        match record.admit(limits, draw.funding, count) {
            Ok(charge) => record.charge(charge),
            Err(reached) => found.push(format!(
                "{count} draws of user {} were made, and {} leaves {}",
                draw.user,
                limit_name(reached.limit),
                reached.left
            )),
        }
        record.wins += u64::from(wins);
        if let Some(most) = limits.wins_per_user
            && wins > 0
            && record.wins > u64::from(most)
        {
            found.push(format!(
                "user {} has {} wins, and the limit is {most}",
                draw.user, record.wins
            ));
        }
        let counts = record.counts();
        if counts != draw.counts {
            if found.is_empty() {
                found.push(differ(&draw.user, &draw.counts, &counts));
            }
            adopt(&mut record, &draw.counts);
        }
        self.keep(key, record);
        found
    }

    /// Books bonus draws.
    pub(super) fn grant(
        &mut self,
        user: &UserId,
        draws: u32,
        expires: Moment,
        (today, at): (Day, Moment),
    ) {
        let key = self.hasher.hash_one(user.as_str());
        let mut record = self.record(key).on(today, at);
        record.grant(draws, expires);
        self.keep(key, record);
    }

    fn record(&self, key: u64) -> UserRecord {
        let Some(counts) = self.counts.get(&key) else {
            return UserRecord::default();
        };
        UserRecord {
            day: Some(Day(counts.day)),
            free_today: counts.free_today,
            paid_today: counts.paid_today,
            draws: counts.draws.into(),
            bonus_used: counts.bonus_used.into(),
            wins: counts.wins.into(),
            bonus: self.bonus.get(&key).cloned().unwrap_or_default(),
        }
    }

    fn keep(&mut self, key: u64, record: UserRecord) {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let counts = Counts {
            day: record.day.map_or(i32::MIN, |day| day.0),
            free_today: record.free_today,
            paid_today: record.paid_today,
            draws: small(record.draws),
            bonus_used: small(record.bonus_used),
            wins: small(record.wins),
        };
        self.counts.insert(key, counts);
        if record.bonus.is_empty() {
            self.bonus.remove(&key);
        } else {
            self.bonus.insert(key, record.bonus);
        }
    }
}

/// The name of a limit in a campaign's file.
fn limit_name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::DrawsPerDay => "drawsPerDay",
        LimitKind::PaidDrawsPerDay => "paidDrawsPerDay",
        LimitKind::DrawsPerUser => "drawsPerUser",
    }
}

/// Goes on with the counts of an entry, so that one difference is found once.
fn adopt(record: &mut UserRecord, counts: &UserCounts) {
    record.free_today = counts.free_today;
    record.paid_today = counts.paid_today;
    record.draws = counts.draws;
    record.bonus_used = counts.bonus_used;
    record.wins = counts.wins;
}

fn differ(user: &UserId, entry: &UserCounts, computed: &UserCounts) -> String {
    let pairs = [
        (
            "free draws of the day",
            u64::from(entry.free_today),
            u64::from(computed.free_today),
        ),
        (
            "paid draws of the day",
            u64::from(entry.paid_today),
            u64::from(computed.paid_today),
        ),
        ("draws", entry.draws, computed.draws),
        ("bonus draws used", entry.bonus_used, computed.bonus_used),
        ("wins", entry.wins, computed.wins),
        ("bonus draws left", entry.bonus_left, computed.bonus_left),
    ];
    let differences: Vec<String> = pairs
        .into_iter()
        .filter(|(_, entry, computed)| entry != computed)
        .map(|(name, entry, computed)| {
            format!("{name} {entry}, from the entries before it {computed}")
        })
        .collect();
    format!(
        "the counts of user {user} do not follow: {}",
        differences.join("; ")
    )
}
