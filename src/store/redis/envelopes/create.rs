//! The lanes of new envelopes (see [`batch`]): the rule decides on the envelopes of a batch, and
//! one script writes those whose ids are free.
//!
//! An id is taken to be free at first. If the script finds that it is not, it is looked up, and the
//! calls with this id are decided again.
//!
//! Calls with the same id are in one group: the first that the rule admits creates the envelope,
//! and those after it are retries, or find the id in use.

use std::sync::atomic::{AtomicBool, Ordering};

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
pub(crate) struct Create {
    command: CreateEnvelope,
    /// Its id may be in use: it is looked up before the next try.
    looks_up: AtomicBool,
}

impl Create {
    fn new(command: CreateEnvelope) -> Self {
        Self {
            command,
            looks_up: AtomicBool::new(false),
        }
    }
}

/// The lanes of new envelopes.
pub(crate) type CreateLanes = lane::Lanes<Create>;

/// The creations of one id in a batch.
type Group = batch::Group<Create>;

/// What is known of an id.
pub(crate) struct Looked {
    /// When it was looked up; if it is a guess, about now. A new envelope begins at this moment.
    now: Moment,
    found: Found,
    /// Nothing was looked up: the id is taken to be free.
    is_guess: bool,
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
        let create = Create::new(command);
        self.call(partition, digest.field[0], create).await
    }
}

impl Call for Create {
    type Answer = EnvelopeReply;
    type Subject = EnvelopeId;
    type Known = Box<Looked>;
    const SCRIPT: &'static str = "create";

    fn subject(&self) -> &EnvelopeId {
        &self.command.envelope.id
    }

    fn units(&self) -> usize {
        let command = &self.command;
        2 + command.packets.len() / PACKETS_OF_UNIT + command.allowed_users.len() / USERS_OF_UNIT
    }

    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    /// An id that this service knows is in use, so it is looked up. Any other is taken to be free.
    fn known(&self, core: &Core) -> Option<Box<Looked>> {
        let id = self.subject();
        let is_guess = !self.looks_up.load(Ordering::Relaxed) && core.envelopes.get(id).is_none();
        is_guess.then(|| {
            Box::new(Looked {
                now: core.clock.passed(core.envelope_partition(id).number),
                found: Found::Nothing,
                is_guess,
                new: None,
                is_kept: false,
            })
        })
    }

    async fn read(core: &Core, ids: &[EnvelopeId]) -> Vec<Result<Box<Looked>>> {
        match core.load_envelopes(ids).await {
            Ok((now, found)) => {
                let looked = |found| Looked {
                    now,
                    found,
                    is_guess: false,
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
            let is_sure = !looked.is_guess && (group.repeated().is_none() || looked.is_kept);
            if !is_sure {
                group.look_up();
            }
            return Ok(is_sure.then(|| group.unchanged(core, partition)));
        };
        let reply = reply::bytes(reply).map_err(StoreError::after_write)?;
        let sequence = match reply.split_first() {
            Some((b'S', _)) => {
                group.look_up();
                return Ok(None);
            }
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
        let answers = group.calls().enumerate().map(|(index, call)| {
            let command = &call.command;
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
            .any(|call| rules::is_same(record, &call.command));
        is_repeated.then_some(loaded.created_sequence)
    }

    /// Has the id looked up before the calls are decided again.
    fn look_up(&self) {
        for call in self.calls() {
            call.looks_up.store(true, Ordering::Relaxed);
        }
    }

    /// Lets the rule decide, if the id is free.
    fn decide(&mut self, core: &Core) {
        if let Found::Nothing = self.known.found {
            let (now, is_test) = (self.known.now, core.clock.is_test());
            let new = self.calls().enumerate().find_map(|(index, call)| {
                let state = rules::create(&call.command, now, is_test).ok()?;
                Some((index, state))
            });
            self.known.new = new;
        }
    }

    /// The answers if nothing is created.
    fn unchanged(&self, core: &Core, partition: &PartitionKeys) -> Vec<Result<EnvelopeReply>> {
        let now = self.known.now;
        let answers = self.calls().map(|call| match &self.known.found {
            Found::Envelope(loaded) if rules::is_same(&loaded.state.record, &call.command) => {
                Ok(EnvelopeReply {
                    view: loaded.view(partition, now)?,
                    replayed: true,
                })
            }
            Found::Envelope(_) | Found::Removed => Err(Refusal::EnvelopeExists.into()),
            Found::Nothing => Err(refusal(core, &call.command, now)),
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
        &partition.settled_envelopes,
        &partition.envelope_sums,
    ] {
        keys.push(key);
    }
    let new = || groups.iter().filter_map(|group| group.known.new.as_ref());
    args.write(format_args!("{}", core.read_holds().as_micros()));
    args.write(format_args!("{}", new().count()));
    for (_, state) in new() {
        push_arguments(partition, state, &mut keys, &mut args);
    }
    if new().next().is_none() {
        let replies = groups.iter().map(|_| redis::Value::Nil).collect();
        return Ok((
            groups[0].known.now,
            Parts::of(redis::Value::Array(replies))?,
        ));
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
    args.write(format_args!("{}", record.created.as_micros()));
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
            is_guess: false,
            new: None,
            is_kept: false,
        };
        let calls = totals.iter().map(|total| Create::new(command(*total)));
        group(Box::new(looked), calls.collect())
    }

    fn exists(answer: &Result<EnvelopeReply>) -> bool {
        matches!(answer, Err(StoreError::Refused(Refusal::EnvelopeExists)))
    }

    #[test]
    fn an_id_that_is_not_free_after_all_is_looked_up() {
        let (core, found) = (core(), || redis::Value::BulkString(b"S".into()));
        let guessed = |totals: &[i64]| {
            let calls = totals.iter().map(|total| Create::new(command(*total)));
            let calls: Vec<_> = calls.collect();
            let known = calls[0].known(&core).unwrap();
            let mut group = group(known, calls);
            group.decide(&core);
            group
        };
        let asks_again = |group: &Group, reply| {
            let answers = Create::answers(&core, group, Moment::EPOCH, reply).unwrap();
            answers.is_none() && group.calls().all(|call| call.known(&core).is_none())
        };
        assert!(asks_again(&guessed(&[1_000, 999]), found()));
        // The rule admits none of them, but the envelope may be there from before.
        let mut refused = guessed(&[1_000]);
        refused.known.new = None;
        assert!(asks_again(&refused, redis::Value::Nil));
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
