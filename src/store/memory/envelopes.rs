//! The steps and reads of envelopes.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_trait::async_trait;

use super::{
    MemoryStore,
    core::Core,
    envelope::EnvelopeData,
    ledger::{PARTITION, What, id},
};
use crate::{
    model::{EnvelopeId, Moment},
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeStore, EnvelopeSums, EnvelopeTotals,
        EnvelopeView, FillEnvelope, GrabCommand, GrabOutcome, GrabView, Grabbed, LedgerId, Refusal,
        Result, Settled, Step, StoreError, Subject,
        entry::Body,
        envelope::{Packet, WaitingPacket},
        rules::envelope::{self as rules, EnvelopeState, SumsChange},
    },
};

#[async_trait]
impl EnvelopeStore for MemoryStore {
    async fn create_envelope(&self, command: CreateEnvelope) -> Result<EnvelopeReply> {
        self.turn().await?.create_envelope(&command)
    }

    async fn grab(&self, command: GrabCommand) -> Result<Grabbed> {
        self.short_turn().await?.grab(&command)
    }

    async fn fill_envelope(&self, command: FillEnvelope) -> Result<Step> {
        let mut core = self.turn().await?;
        let now = core.now();
        let mut state = core.envelope(&command.envelope)?.state.clone();
        let step = rules::fill(&mut state, &command, now)?;
        if step == Step::Done {
            core.save_envelope(state, now)?;
        }
        Ok(step)
    }

    async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply> {
        let mut core = self.turn().await?;
        let now = core.now();
        let mut state = core.envelope(&command.envelope)?.state.clone();
        let was_settled = state.settled_at().is_some();
        let is_cancelled = rules::cancel(&mut state, &command, now);
        if !was_settled {
            core.save_envelope(state, now)?;
        }
        Ok(EnvelopeReply {
            view: core.envelope(&command.envelope)?.view(now)?,
            replayed: !is_cancelled,
        })
    }

    async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView> {
        let mut core = self.turn().await?;
        let now = core.now();
        core.envelope(id)?.view(now)
    }

    async fn grabs(&self, id: &EnvelopeId, packet: u32, limit: usize) -> Result<Vec<GrabView>> {
        let core = self.turn().await?;
        let grabs = &core.envelope(id)?.grabs;
        let after = grabs.range(packet.saturating_add(1)..);
        Ok(after.take(limit).map(|(_, grab)| grab.clone()).collect())
    }

    async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        let mut core = self.turn().await?;
        let now = core.now();
        let due = core.envelopes.iter().filter_map(|(id, envelope)| {
            let due = envelope.due(retention)?;
            (due <= now).then_some((due, id))
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        Ok(due
            .into_iter()
            .take(limit)
            .map(|(_, id)| id.clone())
            .collect())
    }

    async fn settle_envelope(&self, id: &EnvelopeId, retention: Duration) -> Result<Settled> {
        let mut core = self.turn().await?;
        let now = core.now();
        let Some(known) = core.envelopes.get(id) else {
            return Ok(Settled::default());
        };
        let mut state = known.state.clone();
        let settled = rules::settle(&mut state, retention, now);
        if settled.is_some() {
            core.save_envelope(state, now)?;
        }
        Ok(settled.unwrap_or_default())
    }

    async fn envelope_sums(&self) -> Result<EnvelopeTotals> {
        let core = self.turn().await?;
        let mut waiting = BTreeMap::<&str, u128>::new();
        for state in core.envelopes.values().map(|known| &known.state) {
            if state.refund_due_at().is_some() {
                let envelope = &state.record.envelope;
                let left = envelope.total_minor - state.grabbed.amount_minor;
                *waiting.entry(&envelope.currency).or_default() += u128::from(left);
            }
        }
        let sums = core.sums.values().map(|sums| {
            let waiting = waiting.get(sums.currency.as_str()).copied().unwrap_or(0);
            EnvelopeSums {
                envelopes_agree: waiting == sums.waiting_minor,
                ..sums.clone()
            }
        });
        Ok(EnvelopeTotals {
            sums: sums.collect(),
            heads: vec![id(core.ledger.last())],
        })
    }
}

impl Core {
    /// An envelope that is not being removed.
    fn envelope(&self, id: &EnvelopeId) -> Result<&EnvelopeData> {
        let known = self.envelopes.get(id);
        let known = known.filter(|known| !known.state.is_removed());
        known.ok_or_else(|| Refusal::EnvelopeNotFound.into())
    }

    fn create_envelope(&mut self, command: &CreateEnvelope) -> Result<EnvelopeReply> {
        let (id, now) = (&command.envelope.id, self.now());
        let replayed = match self.envelopes.get(id) {
            Some(known) if rules::is_same(&known.state.record, command) => true,
            Some(_) => return Err(Refusal::EnvelopeExists.into()),
            None if self.removed_envelopes.contains(id) => {
                return Err(Refusal::EnvelopeExists.into());
            }
            None => {
                self.insert_envelope(rules::create(command, now, self.is_test())?, now)?;
                false
            }
        };
        Ok(EnvelopeReply {
            view: self.envelope(id)?.view(now)?,
            replayed,
        })
    }

    fn insert_envelope(&mut self, mut state: EnvelopeState, now: Moment) -> Result<()> {
        let changes = std::mem::take(&mut state.changes);
        let envelope = &state.record.envelope;
        let id = envelope.id.clone();
        self.add_to_sums(&envelope.currency, changes.sums)?;
        let packets = changes.packets_in.into_iter();
        let unwritten = || StoreError::corrupt("an envelope was created without an entry");
        let entry = changes.entry.ok_or_else(unwritten)?;
        let known = EnvelopeData {
            state,
            created: self.append_of_envelope(&id, entry, now),
            refund: None,
            allowed: changes.allowed_in.iter().cloned().collect(),
            packets: packets.map(|packet| (packet.number, packet)).collect(),
            grabs: BTreeMap::new(),
            by_user: HashMap::new(),
        };
        self.envelopes.insert(id, known);
        Ok(())
    }

    /// Writes an envelope as a rule has left it.
    fn save_envelope(&mut self, mut state: EnvelopeState, now: Moment) -> Result<()> {
        let changes = std::mem::take(&mut state.changes);
        let id = state.record.envelope.id.clone();
        self.add_to_sums(&state.record.envelope.currency, changes.sums)?;
        let entry = changes
            .entry
            .map(|body| self.append_of_envelope(&id, body, now));
        let known = self
            .envelopes
            .get_mut(&id)
            .ok_or(Refusal::EnvelopeNotFound)?;
        known.state = state;
        known.refund = entry.or(known.refund);
        if changes.packets_out {
            known.packets.clear();
        }
        let packets = changes.packets_in.into_iter();
        known
            .packets
            .extend(packets.map(|packet| (packet.number, packet)));
        if let Some(removal) = changes.removal {
            known.remove(removal);
            if removal.is_last {
                self.envelopes.remove(&id);
                self.removed_envelopes.insert(id);
            }
        }
        Ok(())
    }

    fn grab(&mut self, command: &GrabCommand) -> Result<Grabbed> {
        let (id, now) = (&command.envelope, self.now());
        let known = self.envelope(id)?;
        let answer = |known: &EnvelopeData, outcome| {
            Ok(Grabbed::Done(rules::answer(&known.state, outcome, now)))
        };
        if let Some(number) = known.by_user.get(&command.user) {
            let packet = known.grabs[number].packet;
            return answer(known, GrabOutcome::AlreadyGrabbed(packet));
        }
        if now > command.not_after {
            return Err(Refusal::DeadlineExceeded.into());
        }
        let is_restricted = known.state.record.envelope.is_restricted();
        let is_allowed = !is_restricted || known.allowed.contains(&command.user);
        if let Some(outcome) = rules::admit(&known.state, is_allowed, now) {
            return answer(known, outcome);
        }
        self.admit_backlog(now)?;
        let Some(next) = known.packets.values().next().copied() else {
            return Ok(Grabbed::NeedFill);
        };
        if next.release > now {
            return answer(known, GrabOutcome::NotYet);
        }
        let packet = self.take_packet(command, next, now)?;
        answer(self.envelope(id)?, GrabOutcome::Grabbed(packet))
    }

    fn take_packet(
        &mut self,
        command: &GrabCommand,
        next: WaitingPacket,
        now: Moment,
    ) -> Result<Packet> {
        let id = &command.envelope;
        let body = Body::Grab {
            user: command.user.clone(),
            packet: next.number,
            amount_minor: next.amount_minor,
        };
        let packet = Packet {
            number: next.number,
            amount_minor: next.amount_minor,
            at: now,
            ledger: self.append_of_envelope(id, body, now),
        };
        let known = self
            .envelopes
            .get_mut(id)
            .ok_or(Refusal::EnvelopeNotFound)?;
        known.packets.pop_first();
        let user = command.user.clone();
        known.by_user.insert(user.clone(), next.number);
        known.grabs.insert(next.number, GrabView { user, packet });
        let grabbed = &mut known.state.grabbed;
        grabbed.packets += 1;
        grabbed.amount_minor += next.amount_minor;
        grabbed.last = Some(now);
        let sums = SumsChange::of_grab(next.amount_minor, known.state.is_empty());
        let currency = known.state.record.envelope.currency.clone();
        self.add_to_sums(&currency, sums)?;
        Ok(packet)
    }

    fn append_of_envelope(&mut self, id: &EnvelopeId, body: Body, now: Moment) -> LedgerId {
        let subject = Subject::Envelope(id.clone());
        self.ledger
            .append(now, subject, What::Other(Box::new(body)))
    }

    fn add_to_sums(&mut self, currency: &str, change: SumsChange) -> Result<()> {
        if change == SumsChange::default() {
            return Ok(());
        }
        let sums = self.sums.entry(currency.to_owned());
        let sums = sums.or_insert_with(|| EnvelopeSums {
            currency: currency.to_owned(),
            ..EnvelopeSums::default()
        });
        sums.change(change)
    }
}
