//! How far a user is in personal pools: the user's draws of each, and what guarantees have counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Guarantee, rule};
use crate::model::{
    campaign::Campaign,
    id::GuaranteeId,
    number::{PoolNo, PrizeNo},
};

/// Stands for a guarantee in users' records: the first 4 bytes of the SHA-256 of its id, in
/// big-endian order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GuaranteeKey(pub u32);

impl GuaranteeKey {
    /// The key of a guarantee.
    pub fn of(id: &GuaranteeId) -> Self {
        let digest = Sha256::digest(id.as_str());
        Self(u32::from_be_bytes([
            digest[0], digest[1], digest[2], digest[3],
        ]))
    }
}

/// What a guarantee has counted of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter {
    /// Draws since the last one that gave one of its prizes.
    pub since: u32,
    /// That one gave none of `among`.
    pub missed: bool,
}

/// How far a user is in one pool, or in the guarantees of the campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolProgress {
    /// Draws of the user that reached the pool, or that the campaign's guarantees have counted.
    pub position: u64,
    /// What guarantees have counted, without those that have counted nothing.
    pub counters: BTreeMap<GuaranteeKey, Counter>,
}

/// How far a user is in all personal pools, and in the campaign's guarantees
/// ([`PoolNo::GUARANTEES`]); only what was reached. In JSON a list of
/// `[pool, position, [[key of the guarantee, draws since, 1 if missed], …]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<PoolCode>", into = "Vec<PoolCode>")]
pub struct Progress(pub BTreeMap<PoolNo, PoolProgress>);

type PoolCode = (PoolNo, u64, Vec<(GuaranteeKey, u32, u8)>);

impl From<Vec<PoolCode>> for Progress {
    fn from(codes: Vec<PoolCode>) -> Self {
        let pools = codes.into_iter().map(|(pool, position, counters)| {
            let counters = counters.into_iter().map(|(key, since, missed)| {
                let missed = missed == 1;
                (key, Counter { since, missed })
            });
            let counters = counters.collect();
            (pool, PoolProgress { position, counters })
        });
        Self(pools.collect())
    }
}

impl From<Progress> for Vec<PoolCode> {
    fn from(progress: Progress) -> Self {
        let pools = progress.0.into_iter().map(|(pool, progress)| {
            let counters = progress.counters.into_iter();
            let counters =
                counters.map(|(key, counter)| (key, counter.since, u8::from(counter.missed)));
            (pool, progress.position, counters.collect())
        });
        pools.collect()
    }
}

impl Progress {
    /// The user has reached no personal pool, and no guarantee of the campaign has counted a draw.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How far the user is in a pool.
    pub fn of(&self, pool: PoolNo) -> PoolProgress {
        self.0.get(&pool).cloned().unwrap_or_default()
    }

    /// The guarantees of a campaign and then of its pools, as they stand for the user.
    pub fn guarantees(&self, campaign: &Campaign) -> Vec<GuaranteeProgress> {
        let mut all = Vec::new();
        let pools = campaign.personal_pools().map(|(pool, ..)| pool);
        for pool in [PoolNo::GUARANTEES].into_iter().chain(pools) {
            let guarantees = campaign.guarantees_of(pool);
            let counters = self.of(pool).counters(guarantees);
            let guarantees = guarantees.iter().enumerate().zip(counters);
            all.extend(guarantees.map(|((guarantee, definition), counter)| {
                let next = counter.since.saturating_add(1);
                GuaranteeProgress {
                    pool,
                    guarantee,
                    since: counter.since,
                    left: definition
                        .within
                        .map(|within| within.max(next) - counter.since),
                    is_due: definition.is_due(counter),
                }
            }));
        }
        all
    }
}

impl PoolProgress {
    /// What the guarantees of a version have counted, in their order.
    pub fn counters(&self, guarantees: &[Guarantee]) -> Vec<Counter> {
        let guarantees = guarantees.iter();
        let counters = guarantees.map(|it| self.counters.get(&GuaranteeKey::of(&it.id)));
        counters.map(|it| it.copied().unwrap_or_default()).collect()
    }

    /// The progress after one more draw that gave this prize.
    #[must_use]
    pub fn counting(&self, guarantees: &[Guarantee], given: Option<PrizeNo>) -> Self {
        let mut counters = self.counters(guarantees);
        rule::count(guarantees, &mut counters, given);
        self.after(guarantees, &counters)
    }

    /// The progress after a draw that reached the pool, with these counters of the version's
    /// guarantees. Those of guarantees that the version does not have are gone.
    #[must_use]
    pub fn after(&self, guarantees: &[Guarantee], counters: &[Counter]) -> Self {
        let counters = guarantees.iter().zip(counters);
        let counters = counters.filter(|(_, counter)| **counter != Counter::default());
        let counters = counters.map(|(it, counter)| (GuaranteeKey::of(&it.id), *counter));
        Self {
            position: self.position + 1,
            counters: counters.collect(),
        }
    }
}

/// A guarantee as it stands for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuaranteeProgress {
    /// The pool that has it; [`PoolNo::GUARANTEES`]: the campaign.
    pub pool: PoolNo,
    /// Its index among the pool's guarantees.
    pub guarantee: usize,
    /// Draws since the last one that gave one of its prizes.
    pub since: u32,
    /// The number of draws after which one of its prizes is given at the latest, at least 1; none
    /// if it has no `within`.
    pub left: Option<u32>,
    /// The next draw gives one.
    pub is_due: bool,
}
