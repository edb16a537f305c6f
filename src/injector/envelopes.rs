//! Envelopes: splits computed from their seeds, packets filled in chunk by chunk as they are grabbed, refunds and removals when
//! they are due.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::task::JoinSet;
use tracing::warn;

use super::{Injector, Turn};
use crate::{
    chance::{self, Nonce, Seed},
    model::{Envelope, EnvelopeId, UserId},
    store::{
        CancelEnvelope, CreateEnvelope, EnvelopeReply, EnvelopeView, Executed, FillEnvelope,
        GrabAnswer, GrabCommand, GrabView, Grabbed, Refusal, Result, StoreError,
        envelope::{CHUNK_PACKETS_MAX, WaitingPacket},
    },
};

/// How long an envelope is kept after its refund or its last grab, unless configured.
pub const RETENTION_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How often a grab may find that the packets which were filled in for it are gone (others grab too) before it is given up.
const FILLS_MAX: usize = 1000;
/// Splits in memory, of envelopes that take more than one chunk: at most 2.4 MB each.
const SPLITS_MAX: usize = 16;
/// Packets from which on a split is computed away from the threads that answer calls.
const LONG_SPLIT: u32 = 5_000;
/// Turns in memory from which on those that nobody has are dropped.
const TURNS_MAX: usize = 1024;
/// Envelopes that are settled at once.
const PAGE: usize = 32;

/// What the injector keeps of envelopes.
pub(super) struct Envelopes {
    pub(super) retention: Duration,
    splits: Mutex<VecDeque<(EnvelopeId, Packets)>>,
    /// One fill of an envelope at a time in this process.
    turns: Mutex<HashMap<EnvelopeId, Weak<Turn>>>,
}

/// All packets of an envelope, in order.
type Packets = Arc<[WaitingPacket]>;

impl Default for Envelopes {
    fn default() -> Self {
        Self {
            retention: RETENTION_DEFAULT,
            splits: Mutex::default(),
            turns: Mutex::default(),
        }
    }
}

impl Injector {
    /// The seed of an envelope.
    pub fn envelope_seed(&self, view: &EnvelopeView) -> Seed {
        self.key.envelope_seed(&view.envelope.id, &view.nonce)
    }

    /// Creates an envelope that these users may grab, each once, by id; everyone where there are none.
    pub async fn create_envelope(
        self: &Arc<Self>,
        envelope: Arc<Envelope>,
        allowed_users: Vec<UserId>,
    ) -> Result<EnvelopeReply> {
        let id = envelope.id.clone();
        let nonce = Nonce(rand::random());
        let commitment = self.key.envelope_seed(&id, &nonce).commitment();
        let reply = self
            .store
            .create_envelope(CreateEnvelope {
                envelope,
                allowed_users: allowed_users.into(),
                nonce,
                commitment,
            })
            .await?;
        if !reply.replayed {
            self.fill_ahead(id);
        }
        Ok(reply)
    }

    /// Grabs a packet; fills in the next ones where they are not, and grabs again, until it is decided.
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

    /// Who has the greatest packet, the earliest of equals; none as long as not every packet is grabbed.
    pub async fn luckiest(&self, view: &EnvelopeView) -> Result<Option<GrabView>> {
        if !view.is_empty() {
            return Ok(None);
        }
        let packets = self.packets(view).await?;
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

    /// Refunds and removes what is due in a partition; goes on after a failure and tells the first one.
    pub(super) async fn settle_envelopes(self: &Arc<Self>, partition: u32) -> Result<()> {
        let retention = self.envelopes.retention;
        let mut outcome = Ok(());
        loop {
            let due = self.store.due_envelopes(partition, retention, PAGE).await?;
            let is_last = due.len() < PAGE;
            let mut is_progress = false;
            for settled in self.settle_all(due).await {
                match settled {
                    Ok(was_due) => is_progress |= was_due,
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            // Those that fail are found again and again: the next tick tries them.
            if is_last || !is_progress {
                return outcome;
            }
        }
    }

    /// Settles some envelopes at once; for each, whether anything was due.
    async fn settle_all(self: &Arc<Self>, ids: Vec<EnvelopeId>) -> Vec<Result<bool>> {
        let mut tasks = JoinSet::new();
        for id in ids {
            let injector = Arc::clone(self);
            tasks.spawn(async move {
                let settled = injector.settle_envelope(&id).await;
                if let Err(error) = &settled {
                    warn!(envelope = %id, %error, "envelope {id} could not be settled");
                }
                settled
            });
        }
        let mut settled = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let broken = |_| StoreError::Corrupt("a task that settles an envelope panicked".into());
            settled.push(done.map_err(broken).and_then(|settled| settled));
        }
        settled
    }

    /// Does what is due of an envelope, step by step; false where nothing was.
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
            let turn = injector.envelope_turn(&id);
            let _turn = turn.lock.lock().await;
            // A failure shows in the grab that will need the packets.
            let _ = injector.fill_next(&id).await;
            turn.fills.fetch_add(1, Ordering::Release);
        });
    }

    async fn fill_for_grab(&self, id: &EnvelopeId) -> Result<()> {
        let turn = self.envelope_turn(id);
        let fills_before = turn.fills.load(Ordering::Acquire);
        let _turn = turn.lock.lock().await;
        if turn.fills.load(Ordering::Acquire) != fills_before {
            // Someone filled it while this grab waited: grabbing again tells whether that was enough.
            return Ok(());
        }
        let filled = self.fill_next(id).await;
        turn.fills.fetch_add(1, Ordering::Release);
        filled
    }

    /// Fills in the next chunk. Someone else may be faster: then nothing happens.
    async fn fill_next(&self, id: &EnvelopeId) -> Result<()> {
        let view = match self.store.envelope(id).await {
            Err(StoreError::Refused(Refusal::EnvelopeNotFound)) => return Ok(()),
            view => view?,
        };
        if view.is_settled() || view.filled == view.envelope.packets {
            return Ok(());
        }
        let packets = self.packets(&view).await?;
        let next = packets.iter().skip(view.filled as usize);
        let command = FillEnvelope {
            envelope: id.clone(),
            filled: view.filled,
            packets: next.take(CHUNK_PACKETS_MAX).copied().collect(),
        };
        self.store.fill_envelope(command).await.map(drop)
    }

    /// All packets of an envelope, computed anew or from memory.
    async fn packets(&self, view: &EnvelopeView) -> Result<Packets> {
        let id = &view.envelope.id;
        if let Some(packets) = self.envelopes.known(id) {
            return Ok(packets);
        }
        let seed = self.envelope_seed(view);
        let (envelope, start) = (Arc::clone(&view.envelope), view.start);
        let compute = move || packets(&seed, &envelope, start);
        let packets = if view.envelope.packets < LONG_SPLIT {
            compute()
        } else {
            let computed = tokio::task::spawn_blocking(compute).await;
            computed.map_err(|_| StoreError::Corrupt(format!("{id} could not be split")))?
        };
        if packets.len() > CHUNK_PACKETS_MAX {
            self.envelopes.keep(id, &packets);
        }
        Ok(packets)
    }

    /// The turn of an envelope's fill in this process.
    fn envelope_turn(&self, id: &EnvelopeId) -> Arc<Turn> {
        let turns = self.envelopes.turns.lock();
        let mut turns = turns.unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= TURNS_MAX {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::<Turn>::default();
        turns.insert(id.clone(), Arc::downgrade(&turn));
        turn
    }
}

impl Envelopes {
    fn known(&self, id: &EnvelopeId) -> Option<Packets> {
        let splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        let known = splits.iter().find(|(known, _)| known == id);
        known.map(|(_, packets)| Arc::clone(packets))
    }

    /// Keeps a split, and forgets the one that was kept longest ago.
    fn keep(&self, id: &EnvelopeId, packets: &Packets) {
        let mut splits = self.splits.lock().unwrap_or_else(PoisonError::into_inner);
        if splits.iter().any(|(known, _)| known == id) {
            return;
        }
        if splits.len() == SPLITS_MAX {
            splits.pop_front();
        }
        splits.push_back((id.clone(), Arc::clone(packets)));
    }
}

/// All packets of an envelope: pure, so every replica computes the same.
fn packets(seed: &Seed, envelope: &Envelope, start: crate::model::Moment) -> Packets {
    let amounts = chance::split(
        seed,
        envelope.split,
        envelope.total_minor,
        envelope.packets,
        envelope.min_minor,
    );
    let releases = chance::rain(seed, start, envelope.rain_micros, envelope.packets);
    let packets = (1..).zip(amounts).zip(releases);
    packets
        .map(|((number, amount_minor), release)| WaitingPacket {
            number,
            amount_minor,
            release,
        })
        .collect()
}
