//! What must hold for packed values that are read back from Redis: what is read can be written, and
//! settled. Bytes are whatever someone else has written there; whoever reads them must not panic.

use redis::Value;

use super::{
    envelopes::{Base, decode_counts, decode_grab_of, decode_grabs},
    format::{
        asked::{decode_draws, encode_bonus_part, encode_part, what},
        blocks,
        codec::{Packer, Unpacker, decode_unit, encode_unit},
        counts::pack_progress,
        effect,
        ids::{pack_id, unpack_id},
        plans::{decode_guess, held_text},
        record::{decode_drawn, decode_record, decode_remembered, encode_record},
        script::Effect,
    },
    read::read_item,
    step::campaign::from_json,
};
use crate::{
    fuzzing::{assert_json_reads_back, fields},
    model::{CampaignId, Moment, RequestId, UserId, limits::Funding},
    store::{
        BonusCommand, BonusEntry, DrawCommand, DrawResult, LedgerId, ProposalBase, Proposals,
        entry::{Body, DrawEntry},
    },
};

/// A stored value. The first byte says what it is.
pub(crate) fn record(data: &[u8]) -> bool {
    let Some((kind, bytes)) = data.split_first() else {
        return false;
    };
    match kind % 13 {
        0 => user_record(bytes),
        1 => remembered(bytes),
        2 => drawn(bytes),
        3 => draws(bytes),
        4 => unit(bytes),
        5 => block(bytes),
        6 => grabs(bytes),
        7 => grab_of_user(bytes),
        8 => effects(bytes),
        9 => ledger_item(bytes),
        10 => packed_id(bytes),
        11 => wrong_guess(bytes),
        _ => proposals(bytes),
    }
}

fn user_record(bytes: &[u8]) -> bool {
    let Ok(stored) = decode_record(bytes) else {
        return false;
    };
    let written = encode_record(&stored.record, stored.has_older);
    let read = decode_record(&written).expect("a written record can be read");
    assert_eq!(read.record, stored.record);
    assert_eq!(read.has_older, stored.has_older);
    assert!(read.latest.is_none());
    if let Some(latest) = stored.latest {
        // Redis moves it to a field of its own in this form.
        remembered(&latest.packed);
    }
    true
}

fn remembered(bytes: &[u8]) -> bool {
    let Ok(remembered) = decode_remembered(bytes) else {
        return false;
    };
    let body = if remembered.is_grant() {
        let entry = remembered.into_bonus(user("u"), request("r"));
        Body::Bonus(entry.expect("a grant"))
    } else {
        Body::Draw(remembered.into_entry(user("u"), request("r"), String::new()))
    };
    can_be_settled(&body);
    true
}

/// The record that a draw was written with, as the draw itself.
fn drawn(bytes: &[u8]) -> bool {
    let Some((count, bytes)) = bytes.split_first() else {
        return false;
    };
    let Some((field, bytes)) = bytes.split_first_chunk() else {
        return false;
    };
    let command = DrawCommand {
        campaign: CampaignId::parse("campaign", "c").expect("an id"),
        user: user("u"),
        request: request("r"),
        count: u32::from(*count),
        funding: Funding::Free,
        payment_ref: String::new(),
        consolation_only: false,
        segments: Vec::new(),
        expire: None,
        not_after: Moment::FAR_FUTURE,
        chance: None,
    };
    let Ok(drawn) = decode_drawn(&mut Unpacker::new(bytes), field, what(&command)) else {
        return false;
    };
    let entry = drawn.into_entry(command.user, command.request, String::new());
    assert_eq!(entry.results.len(), usize::from(*count));
    can_be_settled(&Body::Draw(entry));
    true
}

/// The command that made a draw.
fn command(draw: &DrawEntry) -> DrawCommand {
    DrawCommand {
        campaign: CampaignId::parse("campaign", "c").expect("an id"),
        user: draw.user.clone(),
        request: draw.request.clone(),
        count: u32::try_from(draw.results.len()).expect("few results"),
        funding: draw.funding,
        payment_ref: draw.payment_ref.clone(),
        consolation_only: draw.consolation_only,
        segments: Vec::new(),
        expire: None,
        not_after: Moment::FAR_FUTURE,
        chance: None,
    }
}

/// The command that made a grant.
fn bonus_command(bonus: &BonusEntry) -> BonusCommand {
    BonusCommand {
        campaign: CampaignId::parse("campaign", "c").expect("an id"),
        user: bonus.user.clone(),
        request: bonus.request.clone(),
        draws: bonus.draws,
        expires: bonus.expires,
        not_after: Moment::FAR_FUTURE,
    }
}

/// Draws and grants of an item of the ledger.
fn draws(bytes: &[u8]) -> bool {
    let [parts, answers] = fields(bytes)[..] else {
        return false;
    };
    let Ok(draws) = decode_draws(parts, answers, 1) else {
        return false;
    };
    let mut written = Vec::new();
    for body in &draws {
        match body {
            Body::Draw(draw) => encode_part(&command(draw), &draw.segments, &mut written),
            Body::Bonus(bonus) => encode_bonus_part(&bonus_command(bonus), &mut written),
            other => panic!(
                "a batch of draws has made an entry of kind {}",
                other.kind()
            ),
        }
        can_be_settled(body);
    }
    assert_eq!(
        decode_draws(&written, answers, 1).expect("what was written"),
        draws
    );
    true
}

/// A member of a pool.
fn unit(bytes: &[u8]) -> bool {
    let Ok((score, unit)) = decode_unit(bytes) else {
        return false;
    };
    let written = encode_unit(score, unit);
    assert!(
        written.len() <= bytes.len(),
        "a member is as short as it can be"
    );
    assert_eq!(
        decode_unit(&written).expect("a written unit"),
        (score, unit)
    );
    true
}

fn block(bytes: &[u8]) -> bool {
    let Ok(blocked) = blocks::decode(bytes) else {
        return false;
    };
    let note = blocked.note.clone().expect("a member has a note");
    let written = blocks::encode(&blocked.user, &note);
    assert_eq!(blocks::decode(&written).expect("a written member"), blocked);
    true
}

/// Grabs of an item of the ledger.
fn grabs(bytes: &[u8]) -> bool {
    let [users, packets] = fields(bytes)[..] else {
        return false;
    };
    let Ok(grabs) = decode_grabs(users, packets) else {
        return false;
    };
    grabs.iter().for_each(can_be_settled);
    true
}

/// A user of a bucket of grabs, with the packet.
fn grab_of_user(bytes: &[u8]) -> bool {
    let [name, value] = fields(bytes)[..] else {
        return decode_counts(bytes).is_ok();
    };
    let ledger = LedgerId {
        partition: 3,
        sequence: 70_000,
    };
    let created = Moment::from_micros(1_795_960_801_000_000);
    let Ok(grab) = decode_grab_of(name, value, Base { created, ledger }) else {
        return false;
    };
    assert!(grab.packet.at >= created && grab.packet.ledger.sequence >= ledger.sequence);
    true
}

/// The reply of a batch: its parts are fields, and a part that begins with `*` is a list of one.
fn effects(bytes: &[u8]) -> bool {
    let part = |field: &[u8]| match field.strip_prefix(b"*") {
        Some(inner) => Value::Array(vec![Value::BulkString(inner.to_vec())]),
        None => Value::BulkString(field.to_vec()),
    };
    let parts: Vec<Value> = fields(bytes).into_iter().map(part).collect();
    let is_empty = parts.len() < 2;
    let reply = Value::Array(parts);
    let effects = [effect::of_draws(&reply), effect::of_grabs(&reply)];
    is_empty || effects.iter().any(|effect| *effect != Effect::Unread)
}

/// An item of the stream of entries: its id, then names and values.
fn ledger_item(bytes: &[u8]) -> bool {
    let mut fields = fields(bytes).into_iter();
    let value = |field: &[u8]| Value::BulkString(field.to_vec());
    let Some(id) = fields.next() else {
        return false;
    };
    let item = Value::Array(vec![value(id), Value::Array(fields.map(value).collect())]);
    let mut entries = Vec::new();
    if read_item(3, item, &mut entries).is_err() {
        return false;
    }
    let first = entries.first().map_or(0, |entry| entry.id.sequence);
    for (sequence, entry) in (first..).zip(&entries) {
        assert_eq!((entry.id.partition, entry.id.sequence), (3, sequence));
        can_be_settled(&entry.body);
    }
    true
}

fn packed_id(bytes: &[u8]) -> bool {
    let mut unpacker = Unpacker::new(bytes);
    let Ok(id) = unpack_id(&mut unpacker) else {
        return false;
    };
    let mut packer = Packer::default();
    pack_id(&mut packer, &id);
    let written = packer.done();
    assert_eq!(
        unpack_id(&mut Unpacker::new(&written)).expect("a packed id"),
        id
    );
    true
}

/// The reply to a draw that was planned from something else.
fn wrong_guess(bytes: &[u8]) -> bool {
    let read = [false, true].map(|is_watched| can_be_read(bytes, is_watched));
    read.contains(&true)
}

fn can_be_read(bytes: &[u8], is_watched: bool) -> bool {
    let Ok(stored) = decode_guess(bytes, is_watched) else {
        return false;
    };
    let mut packer = Packer::default();
    packer.bytes(held_text(&stored.held).as_bytes());
    if let Some(over) = &stored.over {
        packer.count(over.pool.0.into()).count(over.step.into());
        packer.bytes(held_text(&over.prizes).as_bytes());
    }
    if !stored.progress.is_empty() {
        pack_progress(&mut packer, &stored.progress);
    }
    let written = packer.done();
    assert_eq!(
        decode_guess(&written, is_watched).expect("a written guess"),
        stored
    );
    true
}

/// The proposals of a campaign. Each stands somewhere at any moment.
fn proposals(bytes: &[u8]) -> bool {
    let Ok(list) = from_json::<Proposals>(bytes) else {
        return false;
    };
    for proposal in &list.0 {
        for now in [Moment::EPOCH, proposal.at, proposal.expires] {
            proposal.state(ProposalBase::default(), now);
        }
        assert_eq!(
            list.get(&proposal.id).map(|found| &found.id),
            Some(&proposal.id)
        );
    }
    list.kept_until();
    assert_json_reads_back(&list);
    true
}

/// Whatever Redis says of the past must be fit for the settled ledger.
fn can_be_settled(body: &Body) {
    let mut body = body.clone();
    if let Body::Draw(draw) = &mut body {
        // The ledger cannot tell a release at the epoch from none. No campaign begins there.
        draw.results.retain(|result| match result {
            DrawResult::Won { release, .. } => *release != Some(Moment::EPOCH),
            DrawResult::NotWon { .. } => true,
        });
    }
    assert_json_reads_back(&body);
}

fn user(id: &str) -> UserId {
    UserId::parse("user", id).expect("an id")
}

fn request(id: &str) -> RequestId {
    RequestId::parse("request", id).expect("an id")
}
