//! The names of our keys, which are made only here; and the digests that choose the hash, the
//! bucket and the field of users and requests.
//!
//! All keys of a partition share a hash tag, its number, so they are on one node of a cluster and
//! one script may use them together.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::words::Words;
use crate::model::{
    Campaign, CampaignId, EnvelopeId, PoolKind, PoolNo, PrizeNo, RequestId, UserId,
};

/// The number of hashes that hold the records of a campaign's users. They are few, so that a batch
/// reads or writes many users with one command. They are more than one, so that even with millions
/// of users a cluster can move each key.
pub(crate) const USER_HASHES: u8 = 16;
/// The number of hashes (buckets) that hold older draws of a campaign's users. Redis keeps a hash
/// of up to 512 small fields in a compact encoding, which it searches from the start, so buckets
/// are many and small.
pub(crate) const BUCKETS: u32 = 1 << 16;
/// The number of blocks of codes in a hash: so few that a script moves or removes the hash quickly.
pub(crate) const GROUP_BLOCKS: u64 = 256;
/// The most bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 64;

/// The text that all our keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(String);

/// Text that no key may begin with.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{0}` is no key prefix: write 1 to {PREFIX_BYTES_MAX} of A-Z a-z 0-9 . _ -")]
pub struct BadPrefix(String);

impl KeyPrefix {
    /// Reads a prefix.
    ///
    /// # Errors
    /// [`BadPrefix`] if it is empty, too long, or holds other characters than letters, digits,
    /// `.`, `_` and `-`.
    pub fn parse(text: &str) -> Result<Self, BadPrefix> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > PREFIX_BYTES_MAX || !text.bytes().all(is_plain) {
            return Err(BadPrefix(text.into()));
        }
        Ok(Self(text.into()))
    }

    /// The prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Matches all our keys, for `SCAN`.
    pub(crate) fn pattern(&self) -> String {
        format!("{}{{*", self.0)
    }
}

/// A key.
pub(crate) type Key = Vec<u8>;

/// The keys of a partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionKeys {
    pub(crate) number: u32,
    tag: String,
    /// The store's id, the last sequence number, the clock, the forks, and how far old requests are
    /// forgotten.
    pub(crate) partition: Key,
    /// The stream of entries.
    pub(crate) ledger: Key,
    /// Ids of its campaigns.
    pub(crate) campaigns: Key,
    /// Campaigns that the injector has something to do with, by the moment of the next step.
    pub(crate) due_campaigns: Key,
    /// Closed campaigns, by the moment since when nothing has happened to them; 0 while their data
    /// are being removed.
    pub(crate) closed_campaigns: Key,
    /// The end of each campaign whose data have left; it keeps the id from being used again.
    pub(crate) removed_campaigns: Key,
    /// Envelopes that are neither empty nor refunded, by their expiry.
    pub(crate) open_envelopes: Key,
    /// Envelopes that are empty or refunded, by the moment since when; 0 once they are being
    /// removed.
    pub(crate) settled_envelopes: Key,
    /// Sums of all envelopes ever created, by currency.
    pub(crate) envelope_sums: Key,
    /// Campaigns that have proposals, by the moment until which these are kept.
    pub(crate) proposals: Key,
    /// Random bytes from which pseudonyms are derived, by campaign.
    pub(crate) salts: Key,
    /// Announcements of replicas; only in the first partition.
    pub(crate) replicas: Key,
}

impl PartitionKeys {
    pub(crate) fn new(prefix: &KeyPrefix, number: u32) -> Self {
        let tag = format!("{}{{{number}}}", prefix.0);
        Self {
            number,
            partition: format!("{tag}:partition").into(),
            ledger: format!("{tag}:ledger").into(),
            campaigns: format!("{tag}:campaigns").into(),
            due_campaigns: format!("{tag}:campaigns:due").into(),
            closed_campaigns: format!("{tag}:campaigns:closed").into(),
            removed_campaigns: format!("{tag}:campaigns:removed").into(),
            open_envelopes: format!("{tag}:envelopes:open").into(),
            settled_envelopes: format!("{tag}:envelopes:settled").into(),
            envelope_sums: format!("{tag}:envelopes:sums").into(),
            proposals: format!("{tag}:proposals").into(),
            salts: format!("{tag}:salts").into(),
            replicas: format!("{tag}:replicas").into(),
            tag,
        }
    }

    /// The keys of a campaign whatever its version.
    pub(crate) fn campaign(&self, id: &CampaignId) -> CampaignKeys {
        let key = |kind: &str| format!("{}:{kind}:{id}", self.tag).into();
        CampaignKeys {
            campaign: key("campaign"),
            versions: key("versions"),
            operations: key("operations"),
            deliveries: key("deliveries"),
            blocked: key("blocked"),
            blocks: key("blocks"),
            long: key("long"),
            proposals: key("proposals"),
            codes: format!("{}:codes:{id}:", self.tag),
            users: format!("{}:users:{id}:", self.tag),
            older: format!("{}:older:{id}:", self.tag),
        }
    }

    /// The keys of the pools of a campaign, with a queue for each of their slots.
    pub(crate) fn pools(&self, campaign: &Campaign, slots: &Slots) -> Vec<PoolKeys> {
        let pools = campaign.numbered_pools().zip(slots);
        pools
            .map(|((no, pool), slots)| {
                let is_schedule = matches!(pool.kind, PoolKind::Schedule(_));
                self.pool(&campaign.id, no, is_schedule, slots)
            })
            .collect()
    }

    /// The keys of a pool, with a queue for each of its slots.
    pub(crate) fn pool(
        &self,
        id: &CampaignId,
        no: PoolNo,
        is_schedule: bool,
        slots: &BTreeSet<Option<PrizeNo>>,
    ) -> PoolKeys {
        let key = |kind: &str| format!("{}:{kind}:{id}:{}", self.tag, no.0).into();
        let queue = |prize: &Option<PrizeNo>| Queue {
            prize: *prize,
            key: format!("{}:units:{id}:{}:{}", self.tag, no.0, slot(*prize)).into(),
        };
        PoolKeys {
            no,
            is_schedule,
            ends: key("ends"),
            windows: key("windows"),
            wins: key("wins"),
            queues: slots.iter().map(queue).collect(),
        }
    }

    /// How far the removal of a campaign is.
    pub(crate) fn removal(&self, id: &CampaignId) -> Key {
        format!("{}:removal:{id}", self.tag).into()
    }
}

impl PartitionKeys {
    /// The keys of an envelope.
    pub(crate) fn envelope(&self, id: &EnvelopeId) -> EnvelopeKeys {
        let key = |kind: &str| format!("{}:{kind}:{id}", self.tag).into();
        EnvelopeKeys {
            envelope: key("envelope"),
            packets: key("packets"),
            allowed: key("allowed"),
            grabs: format!("{}:grabs:{id}:", self.tag),
        }
    }

    /// A bucket of removed envelopes, which keeps their ids from being used again.
    pub(crate) fn removed_envelopes(&self, envelope: IdDigest) -> Key {
        format!("{}:envelopes:removed:{:x}", self.tag, envelope.bucket).into()
    }
}

/// The keys of an envelope.
#[derive(Clone, Debug)]
pub(crate) struct EnvelopeKeys {
    /// Its fields.
    pub(crate) envelope: Key,
    /// Packets that wait to be grabbed.
    pub(crate) packets: Key,
    /// Digests of those who may grab.
    pub(crate) allowed: Key,
    grabs: String,
}

impl EnvelopeKeys {
    /// A bucket of grabs. Users with long ids have buckets of their own, since one long name would
    /// end the compact encoding of a bucket.
    pub(crate) fn grabs(&self, bucket: u32, is_long: bool) -> Key {
        format!("{}{bucket:x}{}", self.grabs, long_mark(is_long)).into()
    }

    /// Adds the same to a list.
    pub(crate) fn push_grabs(&self, keys: &mut Words, bucket: u32, is_long: bool) {
        keys.write(format_args!(
            "{}{bucket:x}{}",
            self.grabs,
            long_mark(is_long)
        ));
    }
}

fn long_mark(is_long: bool) -> &'static str {
    if is_long { ":long" } else { "" }
}

/// The keys of a campaign whatever its version.
#[derive(Clone, Debug)]
pub(crate) struct CampaignKeys {
    /// Its fields and counters.
    pub(crate) campaign: Key,
    /// Definitions by version.
    pub(crate) versions: Key,
    /// Operators' requests.
    pub(crate) operations: Key,
    /// Wins that are delivered or revoked.
    pub(crate) deliveries: Key,
    /// Blocked users.
    pub(crate) blocked: Key,
    /// Notes of who blocked them, when and why.
    pub(crate) blocks: Key,
    /// Draws that do not fit into a compact hash.
    pub(crate) long: Key,
    /// Proposals of changes; the only key of a campaign that may exist before it.
    pub(crate) proposals: Key,
    codes: String,
    users: String,
    older: String,
}

impl CampaignKeys {
    /// A hash of users.
    pub(crate) fn users(&self, hash: u8) -> Key {
        format!("{}{hash:x}", self.users).into()
    }

    /// A hash of blocks of a prize's codes, which has up to [`GROUP_BLOCKS`] of them.
    pub(crate) fn codes(&self, prize: PrizeNo, group: u64) -> Key {
        format!("{}{}:{group:x}", self.codes, prize.0).into()
    }

    /// A bucket of older draws.
    pub(crate) fn older(&self, bucket: u16) -> Key {
        format!("{}{bucket:x}", self.older).into()
    }

    /// Adds the same to a list.
    pub(crate) fn push_older(&self, keys: &mut Words, bucket: u16) {
        keys.write(format_args!("{}{bucket:x}", self.older));
    }

    /// Adds the hashes that contain these users to a list; returns how many hashes it added, and
    /// for each user the index of the user's hash among them.
    pub(crate) fn push_users(
        &self,
        keys: &mut Words,
        users: impl Iterator<Item = IdDigest>,
    ) -> (usize, Vec<u8>) {
        let mut indexes = [None; USER_HASHES as usize];
        let mut hashes = 0;
        let index_of = |user: IdDigest| {
            *indexes[usize::from(user.hash())].get_or_insert_with(|| {
                keys.write(format_args!("{}{:x}", self.users, user.hash()));
                hashes += 1;
                hashes - 1
            })
        };
        let hash_of = users.map(index_of).collect();
        (usize::from(hashes), hash_of)
    }
}

/// The group of a block of codes: the blocks of a group are in one hash.
pub(crate) fn group_of(block: u64) -> u64 {
    block / GROUP_BLOCKS
}

/// The keys of a pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolKeys {
    pub(crate) no: PoolNo,
    pub(crate) is_schedule: bool,
    /// The ends of a schedule's windows.
    pub(crate) ends: Key,
    /// A schedule's windows.
    pub(crate) windows: Key,
    /// Units won by window and prize.
    pub(crate) wins: Key,
    pub(crate) queues: Vec<Queue>,
}

/// The sorted set of one prize's units in a pool.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// None for a deck's blanks.
    pub(crate) prize: Option<PrizeNo>,
    pub(crate) key: Key,
}

impl PoolKeys {
    /// The queue of a prize.
    pub(crate) fn queue(&self, prize: Option<PrizeNo>) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.prize == prize)
    }
}

/// For each pool, the prizes that may wait in it: those that any version planned for it, and `None`
/// for a deck's blanks.
pub(crate) type Slots = Vec<BTreeSet<Option<PrizeNo>>>;

/// The slots of a campaign's pools, including those of earlier versions.
pub(crate) fn slots(campaign: &Campaign, earlier: &Slots) -> Slots {
    let mut slots: Slots = campaign
        .pools
        .iter()
        .map(|pool| planned(&pool.kind))
        .collect();
    for (slots, earlier) in slots.iter_mut().zip(earlier) {
        slots.extend(earlier);
    }
    slots
}

fn planned(kind: &PoolKind) -> BTreeSet<Option<PrizeNo>> {
    match kind {
        PoolKind::Schedule(schedule) => {
            let layers = [&schedule.total, &schedule.per_hour]
                .into_iter()
                .chain(schedule.daily.iter().map(|daily| &daily.per_hour))
                .chain(schedule.special.iter().map(|special| &special.per_hour));
            layers
                .flat_map(|layer| layer.keys().copied().map(Some))
                .collect()
        }
        PoolKind::Deck(deck) => deck.cards.keys().copied().map(Some).chain([None]).collect(),
        PoolKind::Personal(_) => BTreeSet::new(),
    }
}

/// The number of a prize in keys and fields, -1 for blanks.
pub(crate) fn slot(prize: Option<PrizeNo>) -> i32 {
    prize.map_or(-1, |prize| i32::from(prize.0))
}

/// The name of a field in a hash: 96 bits of a digest.
pub(crate) type Field = [u8; 12];

/// A digest of the id of a user, an envelope or a campaign, which says where its data are: the
/// first bits choose the hash and the bucket, the next ones are the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdDigest {
    pub(crate) bucket: u16,
    pub(crate) field: Field,
}

impl IdDigest {
    /// The digest of a user of a campaign.
    pub(crate) fn user(user: &UserId) -> Self {
        Self::of(user.as_str())
    }

    /// The digest of a removed campaign.
    pub(crate) fn campaign(id: &CampaignId) -> Self {
        Self::of(id.as_str())
    }

    /// The digest of a removed envelope.
    pub(crate) fn envelope(id: &EnvelopeId) -> Self {
        Self::of(id.as_str())
    }

    /// The number of the user's hash.
    pub(crate) fn hash(self) -> u8 {
        (self.bucket % u16::from(USER_HASHES)) as u8
    }

    fn of(id: &str) -> Self {
        let digest = Sha256::digest(id);
        Self {
            bucket: u16::from_be_bytes([digest[0], digest[1]]),
            field: part(&digest),
        }
    }
}

/// The name of a user's request among those of that user: 64 bits of a digest.
pub(crate) type RequestField = [u8; 8];

/// The name of a user's request, in the bucket of that user's older draws.
///
/// A blank separates the two ids. If the user's id contains a blank, a character that no id
/// contains separates them instead, so that no two pairs of ids give the same text.
pub(crate) fn request_field(user: &UserId, request: &RequestId) -> RequestField {
    let separator = if user.as_str().contains(' ') {
        "\0"
    } else {
        " "
    };
    let mut digest = Sha256::new();
    digest.update(user.as_str());
    digest.update(separator);
    digest.update(request.as_str());
    part(&digest.finalize())
}

/// The bytes of a digest that follow the bits that choose a bucket.
fn part<const BYTES: usize>(digest: &[u8]) -> [u8; BYTES] {
    let mut part = [0; BYTES];
    part.copy_from_slice(&digest[2..2 + BYTES]);
    part
}

/// The partition of a campaign, or of an envelope, among all of them.
pub(crate) fn partition_of<'a, T>(id: &str, partitions: &'a [T]) -> &'a T {
    let digest = Sha256::digest(id);
    let mut start = [0; 8];
    start.copy_from_slice(&digest[..8]);
    let index = u64::from_be_bytes(start) % partitions.len() as u64;
    &partitions[index as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(user: &str, request: &str) -> RequestField {
        request_field(
            &UserId::parse("user", user).unwrap(),
            &RequestId::parse("request", request).unwrap(),
        )
    }

    #[test]
    fn requests_of_ids_with_blanks_do_not_meet() {
        let ids = ["a", "b", " ", "a b", "b c", "a b c", "a ", " b"];
        let mut fields = BTreeSet::new();
        for user in ids {
            fields.extend(ids.map(|request| field(user, request)));
        }
        assert_eq!(fields.len(), ids.len() * ids.len());
    }

    #[test]
    fn requests_that_were_remembered_before_are_still_found() {
        assert_eq!(field("u", "r"), part(&Sha256::digest("u r")));
    }
}
