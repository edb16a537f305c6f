//! The stored values of envelopes: msgpack values one after another, as in
//! [`crate::store::redis::format::codec`].
//!
//! | what | values |
//! |---|---|
//! | field `gate` | mark, state (0: open, 1: refunded, 2: being removed), creation, start, expiry, packets, packets filled in, 1 for a rain, buckets of those who may grab (0: everyone), currency |
//! | field `grabbed` | packets, their sum, moment of the last one |
//! | a waiting packet | number, amount |
//! | a user in a bucket, and in the ledger's `g` | a UUID as its 16 bytes, else the id as text |
//! | the user's packet | number, amount; then, both counted from the envelope's creation, the moment in seven bytes and the sequence number |
//! | a bucket of those who may grab | 12 bytes of the digest of each |

use std::collections::BTreeMap;

use crate::store::redis::format::{
    codec::{Packer, Unpacker, malformed},
    ids::{pack_id, unpack_id},
    keys::IdDigest,
};
use crate::{
    model::{Envelope, Moment, UserId},
    store::{
        LedgerId, Result,
        entry::Body,
        envelope::{GrabCounts, GrabView, Packet, WaitingPacket},
        rules::envelope::{EnvelopeRecord, EnvelopeState},
    },
};

/// Users of a bucket: few enough that Redis searches it in a microsecond.
const BUCKET_USERS: u32 = 64;
/// The most bytes of a name or value of a hash in the compact encoding.
const COMPACT_BYTES_MAX: usize = 64;
/// Bytes of a moment, counted from the envelope's creation.
const MOMENT_BYTES: usize = 7;

/// Distinguishes an envelope from an earlier one with the same id, whose data were lost.
pub(super) type Mark = [u8; 8];

/// The mark of an envelope: the start of its random nonce.
pub(super) fn mark(record: &EnvelopeRecord) -> Mark {
    let mut mark = Mark::default();
    mark.copy_from_slice(&record.nonce.0[..8]);
    mark
}

/// The number of buckets of grabs.
pub(super) fn grab_buckets(packets: u32) -> u32 {
    packets.div_ceil(BUCKET_USERS)
}

/// The number of buckets of those who may grab; 0 if everyone may.
pub(super) fn allowed_buckets(users: u32) -> u32 {
    users.div_ceil(BUCKET_USERS)
}

/// The bucket of a user, among `buckets`.
pub(super) fn bucket_of(user: IdDigest, buckets: u32) -> u32 {
    u32::from(user.bucket) % buckets.max(1)
}

/// The field `gate`: the state of an envelope that grabs depend on.
pub(super) fn encode_gate(state: &EnvelopeState) -> Vec<u8> {
    let record = &state.record;
    let envelope = &record.envelope;
    let code = match (record.removed, record.refund) {
        (Some(_), _) => 2,
        (None, Some(_)) => 1,
        (None, None) => 0,
    };
    let mut packer = Packer(Vec::with_capacity(72));
    packer.bytes(&mark(record)).int(code);
    packer
        .moment(record.created)
        .moment(record.start)
        .moment(record.expiry);
    packer
        .count(envelope.packets.into())
        .count(record.filled.into());
    packer.int(envelope.is_rain().into());
    packer.count(allowed_buckets(envelope.allowed_users).into());
    packer.bytes(envelope.currency.as_bytes()).done()
}

/// Reads the field `grabbed`.
pub(in crate::store::redis) fn decode_counts(bytes: &[u8]) -> Result<GrabCounts> {
    let mut unpacker = Unpacker::new(bytes);
    let counts = GrabCounts {
        packets: unpacker.int()?,
        amount_minor: unpacker.int()?,
        last: Some(unpacker.moment()?),
    };
    unpacker.finish(counts)
}

/// The score of a waiting packet: of a rain its release, else its number.
pub(super) fn score(envelope: &Envelope, packet: &WaitingPacket) -> i64 {
    match envelope.is_rain() {
        true => packet.release.as_micros(),
        false => packet.number.into(),
    }
}

/// A waiting packet as a member of its sorted set.
pub(super) fn encode_packet(packet: &WaitingPacket) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(12));
    packer
        .count(packet.number.into())
        .count(packet.amount_minor)
        .done()
}

/// A user as a name in a bucket of grabs; whether it is too long for a compact hash.
pub(super) fn encode_user(user: &UserId) -> (Vec<u8>, bool) {
    let mut packer = Packer(Vec::with_capacity(40));
    pack_id(&mut packer, user.as_str());
    let name = packer.done();
    let is_long = name.len() > COMPACT_BYTES_MAX;
    (name, is_long)
}

fn decode_user(unpacker: &mut Unpacker<'_>) -> Result<UserId> {
    UserId::parse("user", &unpack_id(unpacker)?).map_err(|_| malformed())
}

/// The origin from which moments and sequence numbers of grabs are counted.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Base {
    pub(in crate::store::redis) created: Moment,
    pub(in crate::store::redis) ledger: LedgerId,
}

/// Reads the packet of a user.
pub(super) fn decode_grab(unpacker: &mut Unpacker<'_>, base: Base) -> Result<Packet> {
    let (number, amount_minor) = (unpacker.int()?, unpacker.int()?);
    let since = unpacker.big_endian(MOMENT_BYTES)? as i64;
    let sequence = base.ledger.sequence.checked_add(unpacker.int()?);
    let at = base.created.as_micros().checked_add(since);
    Ok(Packet {
        number,
        amount_minor,
        at: at.map(Moment::from_micros).ok_or_else(malformed)?,
        ledger: LedgerId {
            sequence: sequence.ok_or_else(malformed)?,
            ..base.ledger
        },
    })
}

/// Reads a user and the user's packet.
pub(in crate::store::redis) fn decode_grab_of(
    name: &[u8],
    value: &[u8],
    base: Base,
) -> Result<GrabView> {
    let (mut name, mut value) = (Unpacker::new(name), Unpacker::new(value));
    let user = decode_user(&mut name)?;
    let packet = decode_grab(&mut value, base)?;
    Ok(GrabView {
        user: name.finish(user)?,
        packet: value.finish(packet)?,
    })
}

/// The buckets of those who may grab, by number.
pub(super) fn encode_allowed(users: &[UserId]) -> BTreeMap<u32, Vec<u8>> {
    let buckets = allowed_buckets(u32::try_from(users.len()).unwrap_or(u32::MAX));
    let mut digests = BTreeMap::<u32, Vec<u8>>::new();
    for user in users {
        let digest = IdDigest::user(user);
        let bucket = digests.entry(bucket_of(digest, buckets)).or_default();
        bucket.extend(digest.field);
    }
    digests
}

/// The grabs of an item of the ledger: users, and their packets.
pub(crate) fn decode_grabs(users: &[u8], packets: &[u8]) -> Result<Vec<Body>> {
    let (mut user, mut packet) = (Unpacker::new(users), Unpacker::new(packets));
    let mut grabs = Vec::new();
    while !user.is_done() {
        grabs.push(Body::Grab {
            user: decode_user(&mut user)?,
            packet: packet.int()?,
            amount_minor: packet.int()?,
        });
    }
    if packet.is_done() {
        Ok(grabs)
    } else {
        Err(malformed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_read_back_and_long_ids_are_marked() {
        let ids = [
            ("u", false),
            ("0e0b1f5e-5b0c-4c55-9b7a-3a4c5d6e7f80", false),
            ("0E0B1F5E-5B0C-4C55-9B7A-3A4C5D6E7F80", false),
            (&"x".repeat(62), false),
            (&"x".repeat(63), true),
            (&"x".repeat(128), true),
        ];
        for (id, long) in ids {
            let user = UserId::parse("user", id).unwrap();
            let (name, is_long) = encode_user(&user);
            assert_eq!(is_long, long, "{id}");
            let read = decode_user(&mut Unpacker::new(&name)).unwrap();
            assert_eq!(read, user);
        }
    }

    #[test]
    fn a_grab_reads_back_from_what_the_script_packs() {
        let base = Base {
            created: Moment::from_micros(1_000),
            ledger: LedgerId {
                partition: 3,
                sequence: 70_000,
            },
        };
        // Number 300, amount 5, 2^32 + 1 microseconds and 2 entries after the creation, in two
        // bytes more than needed.
        let value = [0xcd, 1, 44, 5, 0, 0, 1, 0, 0, 0, 1, 0xcd, 0, 2];
        let packet = decode_grab(&mut Unpacker::new(&value), base).unwrap();
        assert_eq!((packet.number, packet.amount_minor), (300, 5));
        assert_eq!(packet.at.as_micros(), 1_000 + (1 << 32) + 1);
        assert_eq!(
            (packet.ledger.partition, packet.ledger.sequence),
            (3, 70_002)
        );
        assert!(decode_grab(&mut Unpacker::new(&value[..12]), base).is_err());
    }
}
