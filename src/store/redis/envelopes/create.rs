//! The lanes of new envelopes (see [`batch`]): the ids of a batch are looked up together, the rule
//! decides on those that are free, and one script writes these.
//!
//! Calls with the same id are in one group: the first that the rule admits creates the envelope,
//! and those after it are retries, or find the id in use.

use super::{
    codec,
    load::{Found, unreadable},
};
use crate::store::redis::{
    batch::{self, Call},
    core::Core,
    format::{
        keys::{IdDigest, PartitionKeys},
        reply::{self, Parts},
        scripts,
        words::Words,
    },
    gone::left_over,
    lane,
    step::campaign::to_json,
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        CreateEnvelope, EnvelopeReply, LedgerId, Refusal, Result, StoreError,
        entry::Body,
        rules::envelope::{self as rules, EnvelopeState},
    },
};

/// Packets, and users who may grab, that take as much room in a batch as a draw.
const PACKETS_OF_UNIT: usize = 10;
const USERS_OF_UNIT: usize = 50;

/// A creation that waits for its reply.
pub(crate) struct Create(CreateEnvelope);

/// The lanes of new envelopes.
pub(crate) type CreateLanes = lane::Lanes<Create>;

/// The creations of one id in a batch.
type Group = batch::Group<Create>;

/// What is known of an id once it is looked up.
pub(crate) struct Looked {
    now: Moment,
    found: Found,
    /// What the rule makes of a free id, and the index of the call that it is made for.
    new: Option<(usize, EnvelopeState)>,
    /// The envelope that is there is as durable as the store promises, so that a retry may be
    /// answered with it.
    is_kept: bool,
}

impl CreateLanes {
    /// Creates an envelope through its lane; for a retry, returns the one that exists.
    pub(super) async fn create(
        &self,
        core: &Core,
        command: CreateEnvelope,
    ) -> Result<EnvelopeReply> {
        let id = &command.envelope.id;
        let partition = core.envelope_partition(id).number;
        let digest = IdDigest::envelope(id);
        self.call(partition, digest.field[0], Create(command)).await
    }
}

impl Call for Create {
    type Answer = EnvelopeReply;
    type Subject = EnvelopeId;
    type Known = Box<Looked>;
    const SCRIPT: &'static str = "create";

    fn subject(&self) -> &EnvelopeId {
        &self.0.envelope.id
    }

    fn units(&self) -> usize {
        2 + self.0.packets.len() / PACKETS_OF_UNIT + self.0.allowed_users.len() / USERS_OF_UNIT
    }

    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    /// An id may be taken by another service at any moment, so nothing of it is remembered.
    fn known(_core: &Core, _id: &EnvelopeId) -> Option<Box<Looked>> {
        None
    }

    async fn read(core: &Core, ids: &[EnvelopeId]) -> Vec<Result<Box<Looked>>> {
        match core.load_envelopes(ids).await {
            Ok((now, found)) => {
                let looked = |found| Looked {
                    now,
                    found,
                    new: None,
                    is_kept: false,
                };
                let found = found.into_iter();
                found
                    .map(|found| found.map(|found| Box::new(looked(found))))
                    .collect()
            }
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn send(core: &Core, groups: &mut [Group]) -> Result<(Moment, Parts)> {
        let partition = core.envelope_partition(groups[0].id());
        recall(core, partition, groups).await?;
        for group in groups.iter_mut() {
            group.decide(core);
        }
        send(core, partition, groups).await
    }

    fn answers(
        core: &Core,
        group: &Group,
        _now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<EnvelopeReply>>>> {
        let (id, looked) = (group.id(), &group.known);
        let partition = core.envelope_partition(id);
        let Some((creator, state)) = &looked.new else {
            // What was looked up may be gone, as another server may have taken over since.
            let is_sure = group.repeated().is_none() || looked.is_kept;
            return Ok(is_sure.then(|| group.unchanged(core, partition)));
        };
        let reply = reply::bytes(reply).map_err(StoreError::after_write)?;
        let sequence = match reply.split_first() {
            Some((b'S', _)) => return Ok(None),
            Some((b'G', key)) => return Err(left_over("the envelope", key)),
            Some((b'X', flaw)) => return Err(unreadable(id, &String::from_utf8_lossy(flaw))),
            _ => reply::number(redis::Value::BulkString(reply)).map_err(StoreError::after_write)?,
        };
        core.learn_envelope(partition, &state.record, sequence);
        let ledger = LedgerId {
            partition: partition.number,
            sequence,
        };
        let view = state
            .view(looked.now, ledger, None)
            .map_err(StoreError::after_write)?;
        let answers = group.calls().enumerate().map(|(index, Create(command))| {
            if index < *creator {
                return Err(refusal(core, command, looked.now));
            } else if index > *creator && !rules::is_same(&state.record, command) {
                return Err(Refusal::EnvelopeExists.into());
            }
            Ok(EnvelopeReply {
                view: view.clone(),
                replayed: index > *creator,
            })
        });
        Ok(Some(answers.collect()))
    }
}

impl Group {
    fn id(&self) -> &EnvelopeId {
        // A group has at least one call.
        self.calls().next().map(Call::subject).expect("a call")
    }

    /// The entry that created the envelope, if it is there and a call asks for it again.
    fn repeated(&self) -> Option<u64> {
        let Found::Envelope(loaded) = &self.known.found else {
            return None;
        };
        let record = &loaded.state.record;
        let is_repeated = self
            .calls()
            .any(|Create(command)| rules::is_same(record, command));
        is_repeated.then_some(loaded.created_sequence)
    }

    /// Lets the rule decide, if the id is free.
    fn decide(&mut self, core: &Core) {
        if let Found::Nothing = self.known.found {
            let (now, is_test) = (self.known.now, core.clock.is_test());
            let new = self.calls().enumerate().find_map(|(index, call)| {
                let state = rules::create(&call.0, now, is_test).ok()?;
                Some((index, state))
            });
            self.known.new = new;
        }
    }

    /// The answers if nothing is created.
    fn unchanged(&self, core: &Core, partition: &PartitionKeys) -> Vec<Result<EnvelopeReply>> {
        let now = self.known.now;
        let answers = self.calls().map(|Create(command)| match &self.known.found {
            Found::Envelope(loaded) if rules::is_same(&loaded.state.record, command) => {
                Ok(EnvelopeReply {
                    view: loaded.view(partition, now)?,
                    replayed: true,
                })
            }
            Found::Envelope(_) | Found::Removed => Err(Refusal::EnvelopeExists.into()),
            Found::Nothing => Err(refusal(core, command, now)),
        });
        answers.collect()
    }
}

/// Finds out whether the envelopes that retries ask for are as durable as the store promises.
async fn recall(core: &Core, partition: &PartitionKeys, groups: &mut [Group]) -> Result<()> {
    let repeated = groups
        .iter()
        .filter_map(|group| Some((group.id().clone(), group.repeated()?)));
    let repeated: Vec<_> = repeated.collect();
    if repeated.is_empty() {
        return Ok(());
    }
    let kept = core.recall_entries(partition, "created", &repeated).await?;
    let groups = groups.iter_mut().filter(|group| group.repeated().is_some());
    for (group, is_kept) in groups.zip(kept) {
        group.known.is_kept = is_kept;
    }
    Ok(())
}

/// Why the rule does not admit a call.
fn refusal(core: &Core, command: &CreateEnvelope, now: Moment) -> StoreError {
    match rules::create(command, now, core.clock.is_test()) {
        Err(error) => error,
        Ok(_) => StoreError::corrupt("a rule refused what it admits"),
    }
}

/// One call of the script, if anything is created; a reply for each group, nil if nothing is.
async fn send(core: &Core, partition: &PartitionKeys, groups: &[Group]) -> Result<(Moment, Parts)> {
    let (mut keys, mut args) = (Words::default(), Words::default());
    for key in [
        &partition.partition,
        &partition.ledger,
        &partition.open_envelopes,
        &partition.envelope_sums,
    ] {
        keys.push(key);
    }
    let new = || groups.iter().filter_map(|group| group.known.new.as_ref());
    let read_at = groups[0].known.now;
    args.write(format_args!("{}", read_at.as_micros()));
    args.write(format_args!("{}", core.read_holds().as_micros()));
    args.write(format_args!("{}", new().count()));
    for (_, state) in new() {
        push_arguments(partition, state, &mut keys, &mut args);
    }
    if new().next().is_none() {
        let replies = groups.iter().map(|_| redis::Value::Nil).collect();
        return Ok((read_at, Parts::of(redis::Value::Array(replies))?));
    }
    let (now, mut parts) = core.run(partition, &scripts::CREATE, keys, args).await?;
    let replies = groups.iter().map(|group| match group.known.new {
        Some(_) => parts.next().map_err(StoreError::after_write),
        None => Ok(redis::Value::Nil),
    });
    let replies = replies.collect::<Result<_>>()?;
    Ok((now, Parts::of(redis::Value::Array(replies))?))
}

/// Adds the keys and arguments of an envelope.
fn push_arguments(
    partition: &PartitionKeys,
    state: &EnvelopeState,
    keys: &mut Words,
    args: &mut Words,
) {
    let (record, changes) = (&state.record, &state.changes);
    let envelope = &record.envelope;
    let digest = IdDigest::envelope(&envelope.id);
    let own = partition.envelope(&envelope.id);
    keys.push(&own.envelope);
    keys.push(&own.packets);
    keys.push(&own.allowed);
    keys.push(partition.removed_envelopes(digest));
    args.push(envelope.id.as_str());
    args.push(digest.field);
    args.write(format_args!("{}", record.expiry.as_micros()));
    args.push(&envelope.currency);
    args.write(format_args!("{}", envelope.total_minor));
    args.push(to_json(record));
    args.push(codec::encode_gate(state));
    args.push(
        changes
            .entry
            .as_ref()
            .map(to_json::<Body>)
            .unwrap_or_default(),
    );
    args.write(format_args!("{}", changes.packets_in.len() * 2));
    for packet in &changes.packets_in {
        args.write(format_args!("{}", codec::score(envelope, packet)));
        args.push(codec::encode_packet(packet));
    }
    let allowed = codec::encode_allowed(&changes.allowed_in);
    args.write(format_args!("{}", allowed.len() * 2));
    for (bucket, digests) in allowed {
        args.write(format_args!("{bucket}"));
        args.push(digests);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chance::Nonce,
        model::convert::envelope_from_proto,
        proto::CreateEnvelopeRequest,
        store::{
            envelope::NewPacket,
            redis::{
                batch::tests::{core, group},
                envelopes::load::Loaded,
            },
        },
    };

    const CREATED: u64 = 70;

    fn command(total_minor: i64) -> CreateEnvelope {
        let (envelope, _) = envelope_from_proto(&CreateEnvelopeRequest {
            envelope_id: "one".into(),
            sender_id: "sender".into(),
            total_minor,
            currency: "CNY".into(),
            packets: 1,
            ..CreateEnvelopeRequest::default()
        })
        .unwrap();
        CreateEnvelope {
            packets: vec![NewPacket {
                amount_minor: envelope.total_minor,
                after: std::time::Duration::ZERO,
            }],
            envelope: Arc::new(envelope),
            allowed_users: Arc::new([]),
            created_by: None,
            nonce: Nonce([7; 32]),
            commitment: String::new(),
        }
    }

    /// These calls, whose envelope is there with a total of 1000.
    fn creations(totals: &[i64]) -> Group {
        let now = Moment::EPOCH;
        let loaded = Loaded {
            state: rules::create(&command(1_000), now, true).unwrap(),
            revision: "1".into(),
            counts: None,
            created_sequence: CREATED,
            refund_sequence: None,
            removed_ahead: 0,
        };
        let looked = Looked {
            now,
            found: Found::Envelope(Box::new(loaded)),
            new: None,
            is_kept: false,
        };
        let calls = totals.iter().map(|total| Create(command(*total)));
        group(Box::new(looked), calls.collect())
    }

    fn exists(answer: &Result<EnvelopeReply>) -> bool {
        matches!(answer, Err(StoreError::Refused(Refusal::EnvelopeExists)))
    }

    #[test]
    fn a_retry_is_answered_only_with_what_is_kept() {
        let core = core();
        let answers = |group: &Group| {
            let answers = Create::answers(&core, group, Moment::EPOCH, redis::Value::Nil);
            answers.unwrap()
        };
        let mut retried = creations(&[999, 1_000]);
        assert_eq!(retried.repeated(), Some(CREATED));
        assert!(answers(&retried).is_none(), "it is looked up again");
        retried.known.is_kept = true;
        let answered = answers(&retried).unwrap();
        assert!(exists(&answered[0]));
        assert!(answered[1].as_ref().unwrap().replayed);
        // Refusals depend on nothing that was written.
        let others = creations(&[999]);
        assert_eq!(others.repeated(), None);
        assert!(exists(&answers(&others).unwrap()[0]));
    }
}
