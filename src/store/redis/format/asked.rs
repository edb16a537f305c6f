//! What a draw or a caller's grant asks for: as scripts want it, as it is remembered, and as the
//! ledger has it (`record` has the table).

use sha2::{Digest as _, Sha256};

use super::{
    codec::{MOMENT_MAX, Packer, Unpacker, malformed},
    counts::decode_draw_counts,
    ids::{pack_id, unpack_id},
    record::lapses_at,
    results::decode_results,
};
use crate::{
    model::{
        Campaign, Moment, RequestId, SegmentId, UserId, limits::Funding, segments::SEGMENTS_MAX,
    },
    store::{
        BonusCommand, BonusEntry, DrawCommand, Result,
        entry::{Body, DrawEntry},
    },
};

/// Bytes of the digest of a payment reference.
pub(super) const PAYMENT_BYTES: usize = 6;
/// What a draw asks for has a payment reference.
pub(super) const HAS_PAYMENT: u64 = 4;
/// A ledger part ends with segments. What a draw asks for is a number below this.
const HAS_SEGMENTS: u64 = 1024;
/// What a caller's grant asks for, in place of what a draw asks for.
pub(crate) const A_GRANT: u64 = 0;
/// When a draw without `expire_time` expires.
const NEVER: i64 = 0;

/// What a caller grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) draws: u32,
    pub(super) expires: Moment,
}

/// What a draw asks for, in a number.
pub(crate) fn what(command: &DrawCommand) -> u64 {
    let has_payment = u64::from(!command.payment_ref.is_empty());
    let is_paid = u64::from(command.funding == Funding::Paid);
    u64::from(command.count) * 8
        + has_payment * HAS_PAYMENT
        + is_paid * 2
        + u64::from(command.consolation_only)
}

/// How many draws are asked for.
pub(super) fn count(what: u64) -> u64 {
    what / 8
}

/// What a draw asks for, as the script wants it.
pub(crate) fn encode_kind(command: &DrawCommand) -> Vec<u8> {
    let mut packer = Packer(Vec::with_capacity(16));
    let expire = command
        .expire
        .map_or(NEVER, |at| at.as_micros().clamp(NEVER + 1, MOMENT_MAX));
    packer.count(what(command)).int(expire);
    packer.bytes(&payment_digest(&command.payment_ref)).done()
}

/// The same of a caller's grant.
pub(crate) fn encode_bonus_kind(command: &BonusCommand) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.count(A_GRANT).int(NEVER);
    let mut grant = Packer::default();
    pack_grant(&mut grant, command.draws, command.expires);
    packer.bytes(&grant.done()).done()
}

fn pack_grant(packer: &mut Packer, draws: u32, expires: Moment) {
    packer.count(draws.into());
    packer.moment(expires);
}

pub(super) fn decode_grant(unpacker: &mut Unpacker<'_>) -> Result<Grant> {
    Ok(Grant {
        draws: unpacker.int()?,
        expires: lapses_at(unpacker.moment()?),
    })
}

fn payment_digest(payment_ref: &str) -> Vec<u8> {
    if payment_ref.is_empty() {
        return Vec::new();
    }
    Sha256::digest(payment_ref)[..PAYMENT_BYTES].to_vec()
}

/// What the script must know of the segments that a caller states, for a campaign that names any:
/// these segments as they are remembered, or nothing; and two lists. The first has the limits of
/// draws a day, paid draws a day, draws and wins a user, draws an hour (-1: none), or nothing if
/// they are those of everybody. The second has the pools that are not for the user, counted from 1.
pub(crate) fn encode_view(campaign: &Campaign, segments: &[SegmentId]) -> Vec<u8> {
    let mut stated = Packer::default();
    pack_segments(&mut stated, segments);
    let mut packer = Packer::default();
    packer.bytes(&stated.done()).list(2);
    if campaign.limits_index(segments) == 0 {
        packer.list(0);
    } else {
        let limits = campaign.limits_of(segments);
        packer.list(5);
        for limit in [
            limits.draws_per_day,
            limits.paid_draws_per_day,
            limits.draws_per_user,
            limits.wins_per_user,
            limits.draws_per_hour,
        ] {
            packer.int(limit.map_or(-1, i64::from));
        }
    }
    let closed: Vec<_> = campaign.pools_closed_to(segments).collect();
    packer.list(closed.len());
    for pool in closed {
        packer.count(u64::from(pool.0) + 1);
    }
    packer.done()
}

/// What the ledger keeps of a draw's request. `segments` are those that the entry has.
pub(crate) fn encode_part(command: &DrawCommand, segments: &[SegmentId], parts: &mut Vec<u8>) {
    let mut packer = Packer(std::mem::take(parts));
    let has_segments = u64::from(!segments.is_empty());
    packer.count(what(command) + has_segments * HAS_SEGMENTS);
    pack_id(&mut packer, command.user.as_str());
    pack_id(&mut packer, command.request.as_str());
    if !command.payment_ref.is_empty() {
        packer.bytes(command.payment_ref.as_bytes());
    }
    pack_segments(&mut packer, segments);
    *parts = packer.done();
}

/// The same of a caller's grant.
pub(crate) fn encode_bonus_part(command: &BonusCommand, parts: &mut Vec<u8>) {
    let mut packer = Packer(std::mem::take(parts));
    packer.count(A_GRANT);
    pack_id(&mut packer, command.user.as_str());
    pack_id(&mut packer, command.request.as_str());
    pack_grant(&mut packer, command.draws, command.expires);
    *parts = packer.done();
}

/// The segments that a caller states, as requests and the ledger have them; nothing if there are
/// none.
fn pack_segments(packer: &mut Packer, segments: &[SegmentId]) {
    if segments.is_empty() {
        return;
    }
    packer.list(segments.len());
    for segment in segments {
        packer.bytes(segment.as_str().as_bytes());
    }
}

pub(super) fn decode_segments(unpacker: &mut Unpacker<'_>) -> Result<Vec<SegmentId>> {
    let count = unpacker.list()? as usize;
    if !(1..=SEGMENTS_MAX).contains(&count) {
        return Err(malformed());
    }
    let segments = (0..count).map(|_| {
        let segment = SegmentId::parse("segment", unpacker.text()?);
        segment.map_err(|_| malformed())
    });
    segments.collect()
}

pub(super) fn funding(what: u64) -> Funding {
    if what / 2 % 2 == 1 {
        Funding::Paid
    } else {
        Funding::Free
    }
}

/// The draws and callers' grants of an item of the ledger: their parts, and their answers.
pub(crate) fn decode_draws(parts: &[u8], answers: &[u8], version: u32) -> Result<Vec<Body>> {
    let (mut part, mut answer) = (Unpacker::new(parts), Unpacker::new(answers));
    let mut entries = Vec::new();
    while !part.is_done() {
        let stated: u64 = part.int()?;
        let (what, has_segments) = (stated % HAS_SEGMENTS, stated / HAS_SEGMENTS);
        if has_segments > 1 || (has_segments == 1 && what == A_GRANT) {
            return Err(malformed());
        }
        let user = UserId::parse("user", &unpack_id(&mut part)?);
        let request = RequestId::parse("request", &unpack_id(&mut part)?);
        let (user, request) = (
            user.map_err(|_| malformed())?,
            request.map_err(|_| malformed())?,
        );
        if what == A_GRANT {
            let Grant { draws, expires } = decode_grant(&mut part)?;
            entries.push(Body::Bonus(BonusEntry {
                version,
                user,
                request,
                draws,
                expires,
                counts: decode_draw_counts(&mut answer)?,
            }));
            continue;
        }
        let payment_ref = match what & HAS_PAYMENT {
            0 => String::new(),
            _ => part.text()?.to_owned(),
        };
        let segments = if has_segments == 1 {
            decode_segments(&mut part)?
        } else {
            Vec::new()
        };
        let counts = decode_draw_counts(&mut answer)?;
        entries.push(Body::Draw(DrawEntry {
            version,
            user,
            request,
            funding: funding(what),
            payment_ref,
            consolation_only: what % 2 == 1,
            results: decode_results(&mut answer, count(what))?,
            counts,
            segments,
        }));
    }
    if answer.is_done() {
        Ok(entries)
    } else {
        Err(malformed())
    }
}
