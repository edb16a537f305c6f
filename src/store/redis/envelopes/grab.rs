//! The lanes of grabs (see [`batch`]): the arguments of the grab script, and how its replies are
//! read.

use std::{collections::HashMap, sync::Arc};

use super::{
    codec::{self, decode_grab},
    known::Known,
    load::unreadable,
};
use crate::store::redis::{
    batch::{self, Call},
    core::Core,
    format::{
        codec::{Packer, Unpacker, malformed},
        keys::IdDigest,
        record::LAST_MOMENT,
        reply::{self, Parts, unexpected},
        scripts,
        words::Words,
    },
    lane,
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        GrabAnswer, GrabCommand, GrabOutcome, Grabbed, LedgerId, Refusal, Result, StoreError,
        envelope::Packet,
    },
};

/// Estimates for allocation: the bytes of a bucket's key, and of the arguments of one grab.
const KEY_BYTES: usize = 64;
const ARG_BYTES: usize = 32;

/// A grab that waits for its reply.
pub(crate) struct Grab {
    user: IdDigest,
    command: GrabCommand,
}

/// The lanes of grabs.
pub(crate) type GrabLanes = lane::Lanes<Grab>;

/// The grabs of an envelope in a batch.
type Group = batch::Group<Grab>;

impl GrabLanes {
    /// Sends a grab through its lane.
    pub(super) async fn grab(&self, core: &Core, command: GrabCommand) -> Result<Grabbed> {
        let partition = core.envelope_partition(&command.envelope).number;
        let user = IdDigest::user(&command.user);
        let grab = Grab { user, command };
        self.call(partition, user.field[0], grab).await
    }
}

impl Call for Grab {
    type Answer = Grabbed;
    type Subject = EnvelopeId;
    type Known = Arc<Known>;
    const SCRIPT: &'static str = "grab";

    fn subject(&self) -> &EnvelopeId {
        &self.command.envelope
    }

    /// Half as many as in a batch of draws: a grab of an envelope of its own takes 20 µs.
    fn units(&self) -> usize {
        2
    }

    /// A user who already has a packet gets it as the answer even after the deadline, so the script
    /// must look it up.
    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    fn known(&self, core: &Core) -> Option<Arc<Known>> {
        core.envelopes.get(&self.command.envelope)
    }

    async fn read(core: &Core, ids: &[EnvelopeId]) -> Vec<Result<Arc<Known>>> {
        core.know_envelopes(ids).await
    }

    async fn send(core: &Core, groups: &mut [Group]) -> Result<(Moment, Parts)> {
        send(core, groups).await
    }

    fn answers(
        core: &Core,
        group: &Group,
        _now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<Grabbed>>>> {
        let id = &group.known.envelope.id;
        let about = |error: StoreError| error.about(format_args!("envelope {id}"));
        let reply = reply::bytes(reply).map_err(|error| about(error.after_write()))?;
        match reply.split_first() {
            // It is read again, which says why it is not there.
            Some((b'M' | b'V', _)) => {
                core.envelopes.forget(id);
                Ok(None)
            }
            Some((due @ (b'0' | b'1'), replies)) => {
                let answers = read_grabs(&group.known, *due == b'1', group.len(), replies);
                let answers = answers.into_iter().map(|answer| answer.map_err(about));
                Ok(Some(answers.collect()))
            }
            Some((b'X', flaw)) => Err(unreadable(id, &String::from_utf8_lossy(flaw))),
            _ => Err(about(
                unexpected("known letter of an envelope").after_write(),
            )),
        }
    }

    fn repeated(grabbed: &Grabbed) -> Option<&LedgerId> {
        match grabbed {
            Grabbed::Done(GrabAnswer {
                outcome: GrabOutcome::AlreadyGrabbed(packet),
                ..
            }) => Some(&packet.ledger),
            _ => None,
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
    args.push(&*core.backlog_argument());
    args.write(format_args!("{}", groups.len()));
    for group in groups {
        push_arguments(group, &mut keys, &mut args)?;
    }
    core.run(partition, &scripts::GRAB, keys, args).await
}

/// Adds the keys and arguments of an envelope and its grabs.
fn push_arguments(group: &Group, keys: &mut Words, args: &mut Words) -> Result<()> {
    let too_many = |_| StoreError::corrupt("a batch of grabs is larger than it may be");
    let known = &group.known;
    let (envelope, grabs) = (&known.envelope, group.len());
    keys.push(&known.keys.envelope);
    keys.push(&known.keys.packets);
    keys.push(&known.keys.allowed);
    let buckets = codec::grab_buckets(envelope.packets);
    let allowed_buckets = codec::allowed_buckets(envelope.allowed_users);
    let mut bucket_index = HashMap::with_capacity(grabs);
    let mut users = Packer(Vec::with_capacity(grabs * ARG_BYTES));
    let mut bucket_of = Vec::with_capacity(grabs);
    let mut earliest = LAST_MOMENT;
    let mut not_afters = Vec::with_capacity(grabs * 8);
    let mut allowed = Vec::new();
    for grab in group.calls() {
        let (name, is_long) = codec::encode_user(&grab.command.user);
        users.bytes(&name);
        let bucket = codec::bucket_of(grab.user, buckets);
        let next = bucket_index.len();
        let index = *bucket_index.entry((bucket, is_long)).or_insert_with(|| {
            known.keys.push_grabs(keys, bucket, is_long);
            next
        });
        // A batch has fewer grabs than a byte has values.
        bucket_of.push(u8::try_from(index).map_err(too_many)?);
        let not_after = grab.command.not_after.min(LAST_MOMENT);
        earliest = earliest.min(not_after);
        not_afters.extend(not_after.as_micros().unsigned_abs().to_be_bytes());
        if allowed_buckets > 0 {
            let bucket = codec::bucket_of(grab.user, allowed_buckets);
            allowed.extend(u16::try_from(bucket).map_err(too_many)?.to_be_bytes());
            allowed.extend(grab.user.field);
        }
    }
    args.push(envelope.id.as_str());
    args.push(known.mark);
    args.write(format_args!("{}", bucket_index.len()));
    args.push(users.done());
    args.push(bucket_of);
    args.write(format_args!("{}", earliest.as_micros()));
    args.push(not_afters);
    args.push(allowed);
    Ok(())
}

/// What became of the grabs of an envelope. The script may have written, so what cannot be read may
/// have been grabbed; where a reply that cannot be read ends, and so the next one begins, is not
/// known.
fn read_grabs(
    known: &Known,
    refund_due: bool,
    grabs: usize,
    replies: &[u8],
) -> Vec<Result<Grabbed>> {
    let mut replies = Unpacker::new(replies);
    let mut answers = Vec::with_capacity(grabs);
    while answers.len() < grabs {
        match read_grab(known, refund_due, &mut replies) {
            Ok(answer) => answers.push(answer),
            Err(error) => answers.resize(grabs, Err(error.after_write())),
        }
    }
    if let Some(last @ Ok(_)) = answers.last_mut()
        && !replies.is_done()
    {
        *last = Err(unexpected("end").after_write());
    }
    answers
}

/// What became of one grab; the outer error is that its reply cannot be read to its end.
fn read_grab(
    known: &Known,
    refund_due: bool,
    replies: &mut Unpacker<'_>,
) -> Result<Result<Grabbed>> {
    let code = replies.raw(1)?[0];
    let outcome = match code {
        b'G' | b'W' => GrabOutcome::Grabbed(decode_packet(known, replies)?),
        b'A' => {
            // What lies in the bucket may be anything.
            let mut had = Unpacker::new(replies.detail()?);
            let packet = decode_packet(known, &mut had);
            match packet.and_then(|packet| had.finish(packet)) {
                Ok(packet) => GrabOutcome::AlreadyGrabbed(packet),
                Err(error) => return Ok(Err(error.after_write())),
            }
        }
        b'P' => return Ok(Err(Refusal::DeadlineExceeded.into())),
        b'B' => return Ok(Err(Refusal::LedgerBacklog.into())),
        b'N' => GrabOutcome::NotAllowed,
        b'S' => GrabOutcome::NotStarted,
        b'T' => GrabOutcome::Expired,
        b'E' => GrabOutcome::Empty,
        b'F' => return Ok(Ok(Grabbed::NeedFill)),
        b'Y' => GrabOutcome::NotYet,
        _ => return Err(unexpected("known code of a grab")),
    };
    Ok(Ok(Grabbed::Done(GrabAnswer {
        outcome,
        envelope: Arc::clone(&known.envelope),
        start: known.start,
        expiry: known.expiry,
        running_low: code == b'W',
        refund_due,
    })))
}

/// A packet that the envelope can have.
fn decode_packet(known: &Known, unpacker: &mut Unpacker<'_>) -> Result<Packet> {
    let packet = decode_grab(unpacker, known.base)?;
    let envelope = &known.envelope;
    let is_its_own = (1..=envelope.packets).contains(&packet.number)
        && (envelope.min_minor..=envelope.total_minor).contains(&packet.amount_minor);
    if is_its_own {
        Ok(packet)
    } else {
        Err(malformed())
    }
}

#[cfg(test)]
#[path = "grab_tests.rs"]
mod tests;
