//! Grabs on their way: what the grab script is told, and what its replies mean.

use std::{collections::HashMap, sync::Arc};

use super::{
    super::{
        batch::{self, Call},
        codec::Unpacker,
        core::{Core, letter, told},
        keys::Place,
        record::LAST_MOMENT,
        reply::{self, Parts, unexpected},
        scripts,
        words::Words,
    },
    codec::{self, decode_grab},
    known::{Known, unreadable},
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{GrabAnswer, GrabCommand, GrabOutcome, Grabbed, Refusal, Result},
};

/// Room for the key of a bucket, and for what is told of a grab.
const KEY_BYTES: usize = 64;
const ARG_BYTES: usize = 32;

/// A grab on its way.
pub(in crate::store::redis) struct Grab {
    user: Place,
    command: GrabCommand,
}

/// The lanes of grabs.
pub(in crate::store::redis) type GrabLanes = batch::Lanes<Grab>;

/// The grabs of an envelope in a batch.
type Group = batch::Group<Grab>;

impl GrabLanes {
    /// Sends a grab through its lane.
    pub(super) async fn grab(&self, core: &Core, command: GrabCommand) -> Result<Grabbed> {
        let partition = core.envelope_partition(&command.envelope).number;
        let user = Place::user(&command.user);
        self.call(partition, user.field[0], Grab { user, command })
            .await
    }
}

impl Call for Grab {
    type Answer = Grabbed;
    type Subject = EnvelopeId;
    type Known = Arc<Known>;

    fn subject(&self) -> &EnvelopeId {
        &self.command.envelope
    }

    /// A batch is half as many as of draws: where each is of an envelope of its own it takes 20 µs.
    fn units(&self) -> usize {
        2
    }

    /// A packet that the user has is told all the same, so the script looks.
    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    fn known(core: &Core, id: &EnvelopeId) -> Option<Arc<Known>> {
        core.envelopes.get(id)
    }

    async fn read(core: &Core, ids: &[EnvelopeId]) -> Vec<Result<Arc<Known>>> {
        core.know_envelopes(ids).await
    }

    fn send(core: &Core, groups: &[Group]) -> impl Future<Output = Result<(Moment, Parts)>> + Send {
        send(core, groups)
    }

    fn answers(
        core: &Core,
        group: &Group,
        _now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Grabbed>>>> {
        let id = &group.known.envelope.id;
        let replies = reply::bytes(reply)?;
        match replies.first() {
            // It is read again, which tells why it is not there.
            Some(b'M' | b'V') => {
                core.envelopes.forget(id);
                Ok(None)
            }
            Some(&due @ (b'0' | b'1')) => {
                let mut replies = Unpacker::new(&replies[1..]);
                let answers = group
                    .calls()
                    .map(|_| read_grab(&group.known, due == b'1', &mut replies))
                    .collect();
                Ok(Some(answers))
            }
            _ => {
                let text = told(redis::Value::BulkString(replies));
                Err(unreadable(id, text.get(1..).unwrap_or_default()))
            }
        }
    }
}

/// One call of the grab script; the store's time and a reply for each group.
async fn send(core: &Core, groups: &[Group]) -> Result<(Moment, Parts)> {
    let partition = &groups[0].known.partition;
    let grabs: usize = groups.iter().map(Group::len).sum();
    let words = groups.len() * 12 + 8;
    let mut keys = Words::with_capacity(words + grabs, (words + grabs) * KEY_BYTES);
    let mut args = Words::with_capacity(words, groups.len() * 128 + grabs * ARG_BYTES);
    for key in [
        &partition.partition,
        &partition.ledger,
        &partition.open_envelopes,
        &partition.settled_envelopes,
        &partition.envelope_sums,
    ] {
        keys.push(key);
    }
    args.write(format_args!("{}", groups.len()));
    for group in groups {
        tell(group, &mut keys, &mut args);
    }
    let (now, mut parts) = core.run(partition, &scripts::GRAB, keys, args).await?;
    let first = parts.next()?;
    // An envelope that is not there is told by a letter too.
    if letter(&first) == Some(b'L') {
        return Err(core.lost());
    }
    parts.put_back(first);
    Ok((now, parts))
}

/// Adds what the script is told of an envelope and its grabs.
fn tell(group: &Group, keys: &mut Words, args: &mut Words) {
    let known = &group.known;
    let (envelope, grabs) = (&known.envelope, group.len());
    keys.push(&known.keys.envelope);
    keys.push(&known.keys.packets);
    keys.push(&known.keys.allowed);
    let buckets = codec::grab_buckets(envelope.packets);
    let allowed_buckets = codec::allowed_buckets(envelope.allowed_users);
    let mut told_buckets = HashMap::with_capacity(grabs);
    let mut users = super::super::codec::Packer(Vec::with_capacity(grabs * ARG_BYTES));
    let mut bucket_of = Vec::with_capacity(grabs);
    let mut earliest = LAST_MOMENT;
    let mut not_afters = Vec::with_capacity(grabs * 8);
    let mut allowed = Vec::new();
    for grab in group.calls() {
        let (name, is_long) = codec::encode_user(&grab.command.user);
        users.bytes(&name);
        let bucket = codec::bucket_of(grab.user, buckets);
        let next = told_buckets.len();
        let place = *told_buckets.entry((bucket, is_long)).or_insert_with(|| {
            known.keys.push_grabs(keys, bucket, is_long);
            next
        });
        // A batch has fewer grabs than a byte has values.
        bucket_of.push(u8::try_from(place).unwrap_or(u8::MAX));
        let not_after = grab.command.not_after.min(LAST_MOMENT);
        earliest = earliest.min(not_after);
        not_afters.extend(not_after.as_micros().unsigned_abs().to_be_bytes());
        if allowed_buckets > 0 {
            let bucket = codec::bucket_of(grab.user, allowed_buckets);
            allowed.extend(u16::try_from(bucket).unwrap_or(u16::MAX).to_be_bytes());
            allowed.extend(grab.user.field);
        }
    }
    args.push(envelope.id.as_str());
    args.push(known.mark);
    args.write(format_args!("{}", told_buckets.len()));
    args.push(users.done());
    args.push(bucket_of);
    args.write(format_args!("{}", earliest.as_micros()));
    args.push(not_afters);
    args.push(allowed);
}

/// What became of one grab.
fn read_grab(known: &Known, refund_due: bool, replies: &mut Unpacker<'_>) -> Result<Grabbed> {
    let code = replies.raw(1)?[0];
    let outcome = match code {
        b'G' | b'W' => GrabOutcome::Grabbed(decode_grab(replies, known.base)?),
        b'A' => GrabOutcome::AlreadyGrabbed(decode_grab(replies, known.base)?),
        b'P' => return Err(Refusal::DeadlineExceeded.into()),
        b'N' => GrabOutcome::NotAllowed,
        b'S' => GrabOutcome::NotStarted,
        b'T' => GrabOutcome::Expired,
        b'E' => GrabOutcome::Empty,
        b'F' => return Ok(Grabbed::NeedFill),
        b'Y' => GrabOutcome::NotYet,
        _ => return Err(unexpected("known code of a grab")),
    };
    Ok(Grabbed::Done(GrabAnswer {
        outcome,
        envelope: Arc::clone(&known.envelope),
        start: known.start,
        expiry: known.expiry,
        running_low: code == b'W',
        refund_due,
    }))
}
