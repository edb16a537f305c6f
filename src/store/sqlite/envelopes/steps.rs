//! Every step on an envelope but a grab: read it, let the rule decide, write it.

use std::time::Duration;

use super::row::was_removed;
use crate::{
    model::EnvelopeId,
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, FillEnvelope, Refusal, Result, Settled,
        Step as Outcome,
        rules::envelope as rules,
        sqlite::{job::Command, step::Step},
    },
};

/// The work of a refund, or of the removal of as many rows as a step removes, in draws.
const SETTLED_DRAWS: usize = 20;

// All of these are small and may come by the thousand, so they share batches with the draws.

impl Command for CreateEnvelope {
    type Reply = EnvelopeReply;

    fn draws(&self) -> Option<usize> {
        Some(2 + self.allowed_users.len() / 10 + self.packets.len() / 5)
    }

    fn may_be_refused(&self) -> bool {
        true
    }

    fn run(&self, step: &mut Step<'_>) -> Result<EnvelopeReply> {
        let id = &self.envelope.id;
        let (row, replayed) = match step.find_envelope(id)? {
            Some(row) if rules::is_same(&row.state.record, self) => (row, true),
            Some(row) => {
                step.put_envelope(row);
                return Err(Refusal::EnvelopeExists.into());
            }
            None if was_removed(step.db, id)? => return Err(Refusal::EnvelopeExists.into()),
            None => {
                let state = rules::create(self, step.now, step.core.test_clock)?;
                (step.create_envelope(state)?, false)
            }
        };
        let view = row.view(step.now);
        step.put_envelope(row);
        Ok(EnvelopeReply {
            view: view?,
            replayed,
        })
    }
}

impl Command for FillEnvelope {
    type Reply = Outcome;

    fn draws(&self) -> Option<usize> {
        Some(2 + self.packets.len() / 5)
    }

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        step.with_envelope(&self.envelope, |step, row| {
            let outcome = rules::fill(&mut row.state, self, step.now)?;
            if outcome == Outcome::Done {
                step.save_envelope(row)?;
            }
            Ok(outcome)
        })
    }
}

impl Command for CancelEnvelope {
    type Reply = EnvelopeReply;

    fn draws(&self) -> Option<usize> {
        Some(SETTLED_DRAWS)
    }

    fn run(&self, step: &mut Step<'_>) -> Result<EnvelopeReply> {
        step.with_envelope(&self.envelope, |step, row| {
            let was_settled = row.state.settled_at().is_some();
            let is_cancelled = rules::cancel(&mut row.state, self, step.now);
            if !was_settled {
                step.save_envelope(row)?;
            }
            Ok(EnvelopeReply {
                view: row.view(step.now)?,
                replayed: !is_cancelled,
            })
        })
    }
}

/// Does what time has made due.
pub(super) struct SettleCommand {
    pub(super) envelope: EnvelopeId,
    pub(super) retention: Duration,
}

impl Command for SettleCommand {
    type Reply = Settled;

    fn draws(&self) -> Option<usize> {
        Some(SETTLED_DRAWS)
    }

    fn run(&self, step: &mut Step<'_>) -> Result<Settled> {
        let Some(mut row) = step.find_envelope(&self.envelope)? else {
            return Ok(Settled::default());
        };
        let settled = rules::settle(&mut row.state, self.retention, step.now);
        let is_last = (row.state.changes.removal).is_some_and(|removal| removal.is_last);
        if settled.is_some() {
            step.save_envelope(&mut row)?;
        }
        if !is_last {
            step.put_envelope(row);
        }
        Ok(settled.unwrap_or_default())
    }
}
