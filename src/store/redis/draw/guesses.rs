//! What a service remembers of users' progress in personal pools, and the plans of draws that it
//! makes from that. What it remembers may be out of date: the script compares it with what is
//! stored, and replies what is stored if that is something else.

use std::{
    collections::HashMap,
    iter::once,
    sync::{Arc, Mutex, PoisonError},
};

use super::{bonus::Ask, lanes::Group};
use crate::store::redis::format::{
    codec::{Packer, Unpacker},
    counts::{decode_progress, pack_progress},
    keys::{Field, IdDigest},
    plans::{Over, PoolPlan, held_text},
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
    /// Prizes of guarantees that the budget may hold.
    watched: Vec<PrizeNo>,
    /// Those of them that it held when a request last began to draw.
    over: Mutex<Arc<[PrizeNo]>>,
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
            watched: campaign.guaranteed_in_budget(),
            over: Mutex::new([].into()),
        })
    }

    fn key(&self, user: IdDigest) -> Key {
        let mut key = [0; 24];
        key[..12].copy_from_slice(&self.campaign);
        key[12..].copy_from_slice(&user.field);
        key
    }

    /// There are prizes of guarantees that the budget may hold.
    pub(super) fn is_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Remembers what is stored: the held prizes, and those that the budget holds. What it holds
    /// within a request may have come from a win of that request, which is not made yet.
    pub(super) fn put(&self, held: Vec<PrizeNo>, over: Option<&Over>) {
        set(&self.held, held);
        if let Some(over) = over.filter(|over| over.step == 0) {
            set(&self.over, over.prizes.clone());
        }
    }
}

fn get(known: &Mutex<Arc<[PrizeNo]>>) -> Arc<[PrizeNo]> {
    Arc::clone(&known.lock().unwrap_or_else(PoisonError::into_inner))
}

fn set(known: &Mutex<Arc<[PrizeNo]>>, prizes: Vec<PrizeNo>) {
    *known.lock().unwrap_or_else(PoisonError::into_inner) = prizes.into();
}

/// Adds what one more attempt of a request has found: what was found of later steps of that pool
/// followed from something else.
pub(super) fn learned(mut known: Vec<Over>, found: Option<Over>) -> Vec<Over> {
    if let Some(found) = found {
        known.retain(|over| over.pool != found.pool || over.step < found.step);
        known.push(found);
    }
    known
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
    let campaign = &*group.known.campaign;
    let (held, over) = (get(&guessed.held), get(&guessed.over));
    let mut packer = Packer::default();
    packer.bytes(held_text(&held).as_bytes());
    packer.list(guessed.watched.len());
    for prize in &guessed.watched {
        packer.int(prize.0.into());
    }
    let guess = Guess {
        campaign,
        held: &held,
        is_watched: guessed.is_watched(),
        over: &over,
    };
    let mut planned = HashMap::<Field, Progress>::new();
    for job in group.calls() {
        let plan = match &job.ask {
            Ask::Draw(command) => {
                let progress = planned
                    .entry(job.user.field)
                    .or_insert_with(|| recent.get(guessed, job.user));
                plan(&guess, &job.over, command, progress)
            }
            Ask::Grant(_) => Vec::new(),
        };
        packer.bytes(&plan);
    }
    packer.done()
}

/// What draws of a batch are planned from.
struct Guess<'a> {
    campaign: &'a Campaign,
    held: &'a [PrizeNo],
    is_watched: bool,
    /// Watched prizes that the budget holds as a request begins.
    over: &'a [PrizeNo],
}

/// The plan of a draw for a user who is so far, which is brought to how far the user probably is
/// afterwards: the first pool that everybody may draw from gives all of the draws something.
/// `found` is what earlier attempts have found the budget to hold.
fn plan(
    guess: &Guess<'_>,
    found: &[Over],
    command: &DrawCommand,
    progress: &mut Progress,
) -> Vec<u8> {
    let Guess { campaign, held, .. } = *guess;
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
        let found = found.iter().filter(|over| over.pool == pool);
        let found = found.map(|over| (over.step, &*over.prizes));
        let plan = PoolPlan {
            campaign,
            pool,
            held,
            is_watched: guess.is_watched,
            over: once((0, guess.over)).chain(found).collect(),
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
            watched: Vec::new(),
            over: Mutex::new([].into()),
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
    fn what_an_attempt_finds_replaces_what_followed_from_something_else() {
        let over = |pool, step, prize| Over {
            pool: PoolNo(pool),
            step,
            prizes: vec![PrizeNo(prize)],
        };
        let known = vec![over(0, 3, 1), over(1, 4, 1), over(0, 7, 2)];
        let now = learned(known.clone(), Some(over(0, 5, 3)));
        assert_eq!(now, [over(0, 3, 1), over(1, 4, 1), over(0, 5, 3)]);
        assert_eq!(learned(known.clone(), None), known);
    }

    #[test]
    fn a_user_without_progress_takes_no_room() {
        let campaign = campaign_from_proto(&spring_wheel()).unwrap();
        assert!(Guessed::new(&campaign).is_none(), "no personal pools");
        let guessed = Guessed {
            campaign: digest(&campaign.id),
            held: Mutex::new([].into()),
            watched: Vec::new(),
            over: Mutex::new([].into()),
        };
        let recent = RecentProgress::default();
        recent.put(&guessed, user(1), &at(5));
        recent.put(&guessed, user(1), &Progress::default());
        assert!(recent.get(&guessed, user(1)).is_empty());
        let shard = recent.shards[0].lock().unwrap();
        assert!(shard.new.is_empty() && shard.old.is_empty());
    }
}
