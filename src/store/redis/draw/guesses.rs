//! What a service remembers of users' progress in personal pools, and the plans of draws that it
//! makes from that. What it remembers may be out of date: the script compares it with what is
//! stored, and replies what is stored if that is something else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{bonus::Ask, lanes::Group};
use crate::store::redis::format::{
    codec::{Packer, Unpacker},
    counts::{decode_progress, pack_progress},
    keys::{Field, IdDigest},
    plans::{PoolPlan, held_text},
};
use crate::{
    model::{Campaign, CampaignId, PrizeNo, personal::Progress},
    store::DrawCommand,
};

/// Parts of the memory, each with a lock of its own.
const SHARDS: usize = 16;
/// Users of a shard that are remembered at least, if there are so many; at most twice as many are.
/// A user takes about 150 bytes.
const SHARD_USERS: usize = 8192;

/// A campaign and one of its users.
type Key = [u8; 24];

/// The progress of users who have drawn recently from a campaign with personal pools.
pub(crate) struct RecentProgress {
    shards: [Mutex<Generations>; SHARDS],
}

/// The users since the last change of generations, and those of the generation before.
#[derive(Default)]
struct Generations {
    new: HashMap<Key, Box<[u8]>>,
    old: HashMap<Key, Box<[u8]>>,
}

/// What the service remembers of a version of a campaign with personal pools.
pub(crate) struct Guessed {
    /// The first part of the keys of its users.
    campaign: Field,
    /// In the order in which they are stored.
    held: Mutex<Arc<[PrizeNo]>>,
}

impl Default for RecentProgress {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl RecentProgress {
    /// How far a user is who has drawn recently; no progress if that is not known.
    fn get(&self, guessed: &Guessed, user: IdDigest) -> Progress {
        let key = guessed.key(user);
        let mut users = self
            .shard(user)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let packed = match users.new.get(&key) {
            Some(packed) => packed,
            None => match users.old.remove(&key) {
                Some(packed) => users.keep(key, packed),
                None => return Progress::default(),
            },
        };
        // What was packed here can be read.
        decode_progress(&mut Unpacker::new(packed)).unwrap_or_default()
    }

    /// Remembers how far a user is.
    pub(super) fn put(&self, guessed: &Guessed, user: IdDigest, progress: &Progress) {
        let key = guessed.key(user);
        let mut users = self
            .shard(user)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if progress.is_empty() {
            users.new.remove(&key);
            users.old.remove(&key);
            return;
        }
        let mut packer = Packer::default();
        pack_progress(&mut packer, progress);
        users.keep(key, packer.done().into());
    }

    fn shard(&self, user: IdDigest) -> &Mutex<Generations> {
        &self.shards[usize::from(user.field[0]) % SHARDS]
    }
}

impl Generations {
    fn keep(&mut self, key: Key, packed: Box<[u8]>) -> &[u8] {
        if self.new.len() >= SHARD_USERS {
            self.old = std::mem::take(&mut self.new);
        }
        let slot = self.new.entry(key).insert_entry(packed);
        slot.into_mut()
    }
}

impl Guessed {
    /// What is guessed of a campaign at first; none if it has no personal pools.
    pub(crate) fn new(campaign: &Campaign) -> Option<Self> {
        campaign.has_personal_pools().then(|| Self {
            campaign: digest(&campaign.id),
            held: Mutex::new([].into()),
        })
    }

    fn key(&self, user: IdDigest) -> Key {
        let mut key = [0; 24];
        key[..12].copy_from_slice(&self.campaign);
        key[12..].copy_from_slice(&user.field);
        key
    }

    fn held(&self) -> Arc<[PrizeNo]> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&held)
    }

    /// Remembers the held prizes.
    pub(super) fn put_held(&self, held: Vec<PrizeNo>) {
        let mut known = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *known = held.into();
    }
}

fn digest(id: &CampaignId) -> Field {
    IdDigest::campaign(id).field
}

/// The plans of a batch's draws from one campaign (see [`plans`](super::super::format::plans));
/// nothing if it has no personal pools.
///
/// The draws of a user are planned one after another, as if each of them took what was planned.
pub(super) fn plans(recent: &RecentProgress, group: &Group) -> Vec<u8> {
    let Some(guessed) = &group.known.guessed else {
        return Vec::new();
    };
    let (campaign, held) = (&*group.known.campaign, guessed.held());
    let mut packer = Packer::default();
    packer.bytes(held_text(&held).as_bytes());
    let mut planned = HashMap::<Field, Progress>::new();
    for job in group.calls() {
        let plan = match &job.ask {
            Ask::Draw(command) => {
                let progress = planned
                    .entry(job.user.field)
                    .or_insert_with(|| recent.get(guessed, job.user));
                plan(campaign, &held, command, progress)
            }
            Ask::Grant(_) => Vec::new(),
        };
        packer.bytes(&plan);
    }
    packer.done()
}

/// The plan of a draw for a user who is so far, which is brought to how far the user probably is
/// afterwards: the first pool that everybody may draw from gives all of the draws something.
fn plan(
    campaign: &Campaign,
    held: &[PrizeNo],
    command: &DrawCommand,
    progress: &mut Progress,
) -> Vec<u8> {
    let Some(chance) = command
        .chance
        .as_deref()
        .filter(|_| !command.consolation_only)
    else {
        return Vec::new();
    };
    let mut packer = Packer::default();
    let (mut probable, mut is_sure) = (None, false);
    let closed: Vec<_> = campaign.pools_closed_to(&command.segments).collect();
    for (pool, definition, _) in campaign.personal_pools() {
        if closed.contains(&pool) {
            continue;
        }
        let plan = PoolPlan {
            campaign,
            pool,
            held,
        };
        let before = progress.0.get(&pool);
        let after = plan.pack(&mut packer, chance, before, command.count);
        if !is_sure && before.map_or(0, |it| it.position) < after.position {
            is_sure = definition.unlock_after_draws == 0;
            probable = Some((pool, after));
        }
    }
    progress.0.extend(probable);
    packer.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        PoolNo,
        convert::{campaign_from_proto, tests::spring_wheel},
        personal::PoolProgress,
    };

    /// A user of the first shard.
    fn user(number: u64) -> IdDigest {
        let mut field = [0; 12];
        field[4..].copy_from_slice(&number.to_be_bytes());
        IdDigest { bucket: 0, field }
    }

    fn at(position: u64) -> Progress {
        let progress = PoolProgress {
            position,
            ..PoolProgress::default()
        };
        Progress([(PoolNo(3), progress)].into())
    }

    #[test]
    fn users_who_draw_again_are_remembered_and_others_are_forgotten() {
        let campaign = campaign_from_proto(&spring_wheel()).unwrap();
        let guessed = Guessed {
            campaign: digest(&campaign.id),
            held: Mutex::new([].into()),
        };
        let recent = RecentProgress::default();
        let users = 5 * SHARD_USERS as u64;
        for number in 1..=users {
            recent.put(&guessed, user(number), &at(number));
            recent.put(&guessed, user(0), &at(number));
            assert_eq!(recent.get(&guessed, user(0)), at(number));
        }
        assert_eq!(recent.get(&guessed, user(users)), at(users));
        assert!(recent.get(&guessed, user(1)).is_empty());
        let shard = recent.shards[0].lock().unwrap();
        assert!(shard.new.len() + shard.old.len() <= 2 * SHARD_USERS);
    }

    #[test]
    fn a_user_without_progress_takes_no_room() {
        let campaign = campaign_from_proto(&spring_wheel()).unwrap();
        assert!(Guessed::new(&campaign).is_none(), "no personal pools");
        let guessed = Guessed {
            campaign: digest(&campaign.id),
            held: Mutex::new([].into()),
        };
        let recent = RecentProgress::default();
        recent.put(&guessed, user(1), &at(5));
        recent.put(&guessed, user(1), &Progress::default());
        assert!(recent.get(&guessed, user(1)).is_empty());
        let shard = recent.shards[0].lock().unwrap();
        assert!(shard.new.is_empty() && shard.old.is_empty());
    }
}
