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
pub(crate) type CreateLanes = batch::Lanes<Create>;

/// The creations of one id in a batch.
type Group = batch::Group<Create>;

/// What is known of an id once it is looked up.
pub(crate) struct Looked {
    now: Moment,
    found: Found,
    /// What the rule makes of a free id, and the index of the call that it is made for.
    new: Option<(usize, EnvelopeState)>,
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
        if groups.iter().any(Group::is_in_use) {
            // A retry's answer must be as durable as the first one.
            let key = partition.partition.as_ref();
            core.connections.confirm(key).await?;
        }
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
            return Ok(Some(group.unchanged(core, partition)));
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

    /// There is an envelope of this id.
    fn is_in_use(&self) -> bool {
        matches!(self.known.found, Found::Envelope(_))
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
