//! Envelopes: created with their packets if these are few, else filled in chunk by chunk as they
//! are grabbed; refunds and removals when they are due.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::task::JoinSet;
use tracing::warn;

use super::{
    Injector,
    splits::{Packets, new_packets},
    turns::Waiter,
};
use crate::{
    chance::{Nonce, Seed},
    model::{Envelope, EnvelopeId, OperatorId, UserId},
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeView, Executed, FillEnvelope,
        GrabAnswer, GrabCommand, GrabView, Grabbed, Refusal, Result, StoreError,
        envelope::{CHUNK_PACKETS, chunk_packets},
    },
};

/// How often a grab may find that the packets which were filled in for it are gone (others grab
/// too) before it is given up.
const FILLS_MAX: usize = 1000;
/// Envelopes that are settled at once.
const PAGE: usize = 32;
/// Damaged envelopes of a partition after which a tick looks no further. They stay due, so they are
/// read again with each page.
const PASSED_OVER_MAX: usize = 1024;

/// Envelopes of a partition that a tick could not settle and names in the log.
const NAMED_MAX: usize = 20;

/// An envelope that could not be settled, and why.
type NotSettled = (EnvelopeId, StoreError);

impl Injector {
    /// The seed of an envelope.
    pub fn envelope_seed(&self, view: &EnvelopeView) -> Seed {
        self.key.envelope_seed(&view.envelope.id, &view.nonce)
    }

    /// Creates an envelope that these users may grab, each once, by id; everyone if there are
    /// none. `created_by` is the identity that asks for it, if the server knows identities.
    pub async fn create_envelope(
        self: &Arc<Self>,
        envelope: Arc<Envelope>,
        allowed_users: Vec<UserId>,
        created_by: Option<OperatorId>,
    ) -> Result<EnvelopeReply> {
        let id = envelope.id.clone();
        let nonce = Nonce(rand::random());
        let seed = self.key.envelope_seed(&id, &nonce);
        let is_small = envelope.packets as usize <= CHUNK_PACKETS;
        let packets = is_small.then(|| new_packets(&seed, &envelope).collect());
        let reply = self
            .store
            .create_envelope(CreateEnvelope {
                envelope,
                allowed_users: allowed_users.into(),
                created_by,
                nonce,
                commitment: seed.commitment(),
                packets: packets.unwrap_or_default(),
            })
            .await?;
        if !reply.replayed && !is_small {
            self.fill_ahead(id);
        }
        Ok(reply)
    }

    /// Grabs a packet; fills in the next ones if they are not, and grabs again, until it is
    /// decided.
    pub async fn grab(self: &Arc<Self>, command: GrabCommand) -> Result<GrabAnswer> {
        for _ in 0..FILLS_MAX {
            match self.store.grab(command.clone()).await? {
                Grabbed::Done(answer) => {
                    if answer.running_low {
                        self.fill_ahead(command.envelope);
                    } else if answer.refund_due {
                        self.settle_ahead(command.envelope);
                    }
                    return Ok(answer);
                }
                Grabbed::NeedFill => Box::pin(self.fill_for_grab(&command.envelope)).await?,
            }
        }
        Err(StoreError::Unavailable {
            executed: Executed::No,
            detail: "the packets are grabbed faster than they can be filled in".into(),
        })
    }

    /// Refunds what is left of an envelope now.
    pub async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply> {
        self.store.cancel_envelope(command).await
    }

    /// An envelope as it stands; one that has expired is refunded first.
    pub async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView> {
        let view = self.store.envelope(id).await?;
        if !view.is_refund_due() {
            return Ok(view);
        }
        self.store
            .settle_envelope(id, self.envelopes.retention)
            .await?;
        self.store.envelope(id).await
    }

    /// Who has the greatest packet, the earliest of equals; none as long as not every packet is
    /// grabbed.
    pub async fn luckiest(&self, view: &EnvelopeView) -> Result<Option<GrabView>> {
        if !view.is_empty() {
            return Ok(None);
        }
        let packets = self.split(view).await?;
        let greatest = packets
            .iter()
            .max_by_key(|packet| (packet.amount_minor, std::cmp::Reverse(packet.number)));
        let Some(number) = greatest.map(|packet| packet.number) else {
            return Ok(None);
        };
        let id = &view.envelope.id;
        let found = self.store.grabs(id, number - 1, 1).await?.pop();
        Ok(found.filter(|grab| grab.packet.number == number))
    }

    /// Refunds and removes what is due in a partition; goes on after a failure and returns the
    /// first one. Damaged envelopes do not keep those behind them waiting.
    pub(super) async fn settle_envelopes(self: &Arc<Self>, partition: u32) -> Result<()> {
        let retention = self.envelopes.retention;
        let mut passed_over = HashSet::<EnvelopeId>::new();
        let mut failed = 0;
        let mut outcome = Ok(());
        loop {
            let limit = PAGE + passed_over.len();
            let found = self.store.due_envelopes(partition, retention, limit);
            let mut due = found.await?;
            let is_last = due.len() < limit;
            due.retain(|id| !passed_over.contains(id));
            let mut is_progress = false;
            for settled in self.settle_all(due).await {
                match settled {
                    Ok(was_due) => is_progress |= was_due,
                    Err((id, error)) => {
                        failed += 1;
                        if failed <= NAMED_MAX {
                            warn!(envelope = %id, %error, "envelope {id} could not be settled");
                        }
                        if matches!(error, StoreError::Corrupt { .. }) {
                            is_progress |= passed_over.insert(id);
                        }
                        outcome = outcome.and(Err(error));
                    }
                }
            }
            // Those that fail are found again and again: the next tick tries them.
            if is_last || !is_progress || passed_over.len() >= PASSED_OVER_MAX {
                if failed > NAMED_MAX {
                    let more = failed - NAMED_MAX;
                    warn!(partition, "{more} more envelopes could not be settled");
                }
                return outcome;
            }
        }
    }

    /// Settles some envelopes at once; for each, whether anything was due.
    async fn settle_all(
        self: &Arc<Self>,
        ids: Vec<EnvelopeId>,
    ) -> Vec<std::result::Result<bool, NotSettled>> {
        let mut tasks = JoinSet::new();
        let mut by_task = HashMap::new();
        for id in ids {
            let (injector, own) = (Arc::clone(self), id.clone());
            let task = tasks.spawn(async move { injector.settle_envelope(&own).await });
            by_task.insert(task.id(), id);
        }
        let mut settled = Vec::new();
        while let Some(done) = tasks.join_next_with_id().await {
            let (task, outcome) = match done {
                Ok(done) => done,
                Err(error) => {
                    let panicked = StoreError::corrupt("its settling panicked");
                    (error.id(), Err(panicked))
                }
            };
            if let Some(id) = by_task.remove(&task) {
                settled.push(outcome.map_err(|error| (id, error)));
            }
        }
        settled
    }

    /// Does what is due of an envelope, step by step; false if nothing was.
    async fn settle_envelope(&self, id: &EnvelopeId) -> Result<bool> {
        let mut was_due = false;
        loop {
            let settled = self
                .store
                .settle_envelope(id, self.envelopes.retention)
                .await?;
            was_due |= settled.refunded || settled.removed;
            if !settled.more {
                return Ok(was_due);
            }
        }
    }

    /// Refunds an expired envelope beside its callers.
    fn settle_ahead(self: &Arc<Self>, id: EnvelopeId) {
        let injector = Arc::clone(self);
        tokio::spawn(async move {
            // A failure shows in the next tick.
            let _ = injector.settle_envelope(&id).await;
        });
    }

    /// Fills in the next packets beside the grabs.
    fn fill_ahead(self: &Arc<Self>, id: EnvelopeId) {
        let injector = Arc::clone(self);
        tokio::spawn(async move {
            let turn = injector.envelopes.turns.get(&id);
            let _turn = turn.lock.lock().await;
            // A failure shows in the grab that will need the packets.
            let _ = injector.fill_next(&id, 0).await;
            turn.filled();
        });
    }

    async fn fill_for_grab(&self, id: &EnvelopeId) -> Result<()> {
        let turn = self.envelopes.turns.get(id);
        let waiter = Waiter::at(&turn);
        let Some(_turn) = turn.take().await else {
            // Someone filled it while this grab waited: grabbing again shows whether that was
            // enough.
            return Ok(());
        };
        let filled = self.fill_next(id, waiter.all()).await;
        turn.filled();
        filled
    }

    /// Fills in the next chunk, for this number of grabs that wait for it, unless someone else is
    /// faster.
    async fn fill_next(&self, id: &EnvelopeId, users_waiting: usize) -> Result<()> {
        let view = match self.store.envelope(id).await {
            Err(StoreError::Refused(Refusal::EnvelopeNotFound)) => return Ok(()),
            view => view?,
        };
        if view.is_settled() || view.filled == view.envelope.packets {
            return Ok(());
        }
        let packets = self.split(&view).await?;
        let next = packets.get(view.filled as usize..).unwrap_or_default();
        let chunk = chunk_packets(view.grabbed.packets, users_waiting).min(next.len());
        let command = FillEnvelope {
            envelope: id.clone(),
            filled: view.filled,
            packets: next[..chunk].to_vec(),
        };
        self.store.fill_envelope(command).await.map(drop)
    }

    /// All packets of an envelope.
    async fn split(&self, view: &EnvelopeView) -> Result<Packets> {
        let seed = self.envelope_seed(view);
        self.envelopes.splits.packets(seed, view).await
    }
}
