//! Envelopes in the simulation: the possible steps, and a minimal model of their results.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use tombola::{
    chance,
    model::Moment,
    proto::CreateEnvelopeRequest,
    store::{
        EnvelopeView, GrabOutcome, Refusal, StoreError,
        envelope::{Packet, Phase},
    },
};

use crate::support::{EnvelopeWords as _, Outcome as _, World, all_of, envelope, hours};

const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// There are few envelopes, so that steps often use the same id.
const SLOTS: u8 = 4;
const USERS: u16 = 40;

/// A step.
#[derive(Clone, Debug)]
pub enum Step {
    Create {
        slot: u8,
        packets: u32,
        delay_hours: u64,
        hours: u64,
        rain: bool,
        restricted: bool,
    },
    /// The same request again.
    Again {
        slot: u8,
    },
    Grab {
        slot: u8,
        user: u16,
    },
    /// Grabs by `calls` users at once, the first of whom is `from`.
    Storm {
        slot: u8,
        user: u16,
        calls: u16,
    },
    Cancel {
        slot: u8,
    },
}

/// Any step.
pub fn any_step() -> impl Strategy<Value = Step> {
    let slot = || 0..SLOTS;
    let create = (
        slot(),
        prop_oneof![1..12_u32, 90..250_u32],
        prop_oneof![3 => Just(0), 1 => 1..5_u64],
        1..40_u64,
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.3),
    );
    prop_oneof![
        5 => create.prop_map(|(slot, packets, delay_hours, hours, rain, restricted)| Step::Create {
            slot,
            packets,
            delay_hours,
            hours,
            rain,
            restricted,
        }),
        2 => slot().prop_map(|slot| Step::Again { slot }),
        8 => (slot(), 0..USERS).prop_map(|(slot, user)| Step::Grab { slot, user }),
        6 => (slot(), 0..USERS, 2..160_u16)
            .prop_map(|(slot, user, calls)| Step::Storm { slot, user, calls }),
        1 => slot().prop_map(|slot| Step::Cancel { slot }),
    ]
}

/// All envelopes as the model expects them.
#[derive(Default)]
pub struct Envelopes {
    by_slot: BTreeMap<u8, Envelope>,
}

/// An envelope as the model expects it.
struct Envelope {
    request: CreateEnvelopeRequest,
    start: Moment,
    expiry: Moment,
    amounts: Vec<u64>,
    releases: Vec<Moment>,
    packets: BTreeMap<String, Packet>,
    is_cancelled: bool,
    /// The time since when nothing can happen to it any more, as far as anyone has read it.
    settled: Option<Moment>,
    is_removed: bool,
}

fn id(slot: u8) -> String {
    format!("envelope-{slot}")
}

fn name(user: u16) -> String {
    format!("u{user}")
}

impl Envelopes {
    pub async fn step(&mut self, world: &World, step: Step) {
        match step {
            Step::Create {
                slot,
                packets,
                delay_hours,
                hours: ttl_hours,
                rain,
                restricted,
            } => {
                let now = world.store().now().await.unwrap();
                let mut request = envelope(&id(slot), i64::from(packets) * 17 + 3, packets);
                request = request.lasting(ttl_hours as i64 * 3600);
                if delay_hours > 0 {
                    request = request.starting(now + hours(delay_hours));
                }
                if rain {
                    request = request.raining(ttl_hours as i64 * 1800);
                }
                if restricted {
                    let users: Vec<String> = (0..USERS / 2).map(name).collect();
                    let users: Vec<&str> = users.iter().map(String::as_str).collect();
                    request = request.only_for(&users);
                }
                self.create(world, slot, request).await;
            }
            Step::Again { slot } => {
                if let Some(envelope) = self.by_slot.get(&slot) {
                    let request = envelope.request.clone();
                    self.create(world, slot, request).await;
                }
            }
            Step::Grab { slot, user } => self.storm(world, slot, user, 1).await,
            Step::Storm { slot, user, calls } => self.storm(world, slot, user, calls).await,
            Step::Cancel { slot } => self.cancel(world, slot).await,
        }
    }

    async fn create(&mut self, world: &World, slot: u8, request: CreateEnvelopeRequest) {
        let reply = world.try_create(&request).await;
        let Some(known) = self.by_slot.get(&slot) else {
            let reply = reply.unwrap();
            assert!(!reply.replayed);
            let envelope = Envelope::new(world, request, &reply.view);
            self.by_slot.insert(slot, envelope);
            return;
        };
        if known.is_removed || known.request != request {
            let exists = StoreError::Refused(Refusal::EnvelopeExists);
            assert_eq!(reply.unwrap_err(), exists);
        } else {
            let reply = reply.unwrap();
            assert!(reply.replayed);
            assert_eq!(reply.view.expiry, known.expiry);
        }
    }

    /// Which user gets which packet cannot be predicted. The model checks afterwards that each got
    /// the next one.
    async fn storm(&mut self, world: &World, slot: u8, from: u16, calls: u16) {
        let grab = |call: usize| {
            let (world, id, user) = (world.clone(), id(slot), name(from + call as u16));
            async move { (user.clone(), world.try_grab(&id, &user).await) }
        };
        let mut answers = all_of(usize::from(calls), grab).await;
        let Some(envelope) = self.by_slot.get_mut(&slot).filter(|e| !e.is_removed) else {
            let missing = StoreError::Refused(Refusal::EnvelopeNotFound);
            assert!(
                answers
                    .iter()
                    .all(|(_, answer)| *answer == Err(missing.clone()))
            );
            return;
        };
        // Partitions may have different times once the clock was set back.
        let now = world.envelope(&id(slot)).await.now;
        answers.sort_by_key(|(_, answer)| {
            let got = answer.as_ref().ok().and_then(GrabOutcome::got);
            got.map_or(u32::MAX, |packet| packet.number)
        });
        for (user, answer) in answers {
            envelope.compare(&user, now, answer.unwrap());
        }
    }

    async fn cancel(&mut self, world: &World, slot: u8) {
        let Some(envelope) = self.by_slot.get_mut(&slot).filter(|e| !e.is_removed) else {
            return;
        };
        let reply = world.cancel(&id(slot)).await;
        let is_over = envelope.is_over(reply.view.now);
        assert_eq!(reply.replayed, is_over);
        envelope.is_cancelled |= !is_over;
    }

    /// Checks what the store says of every envelope, after a step that was a tick or another one.
    pub async fn check(&mut self, world: &World, is_ticked: bool) {
        for (slot, envelope) in &mut self.by_slot {
            if world.is_no_envelope(&id(*slot)).await {
                let now = world.store().now().await.unwrap();
                let is_over = envelope.settled.is_some_and(|at| at + KEPT <= now);
                assert!(envelope.is_removed || (is_over && is_ticked));
                envelope.is_removed = true;
                continue;
            }
            assert!(!envelope.is_removed);
            let view = world.envelope(&id(*slot)).await;
            let now = view.now;
            let is_over = envelope.settled.is_some_and(|at| at + KEPT <= now);
            assert!(!(is_over && is_ticked), "{view:#?}");
            assert_eq!(view.phase(), envelope.phase(now), "{view:#?}");
            assert_eq!(view.grabbed.packets as usize, envelope.packets.len());
            if is_ticked && envelope.is_over(now) {
                assert!(view.is_settled(), "{view:#?}");
            }
            if envelope.settled.is_none() && view.is_settled() {
                let refunded = view.refund.map(|refund| refund.refund.at);
                envelope.settled = refunded.or(view.grabbed.last);
            }
        }
    }
}

impl Envelope {
    fn new(world: &World, request: CreateEnvelopeRequest, view: &EnvelopeView) -> Self {
        let envelope = &view.envelope;
        let seed = world.injector().envelope_seed(view);
        let (total, packets) = (envelope.total_minor, envelope.packets);
        Self {
            request,
            start: view.start,
            expiry: view.expiry,
            amounts: chance::split(&seed, envelope.split, total, packets, envelope.min_minor),
            releases: chance::rain(&seed, view.start, envelope.rain_micros, packets),
            packets: BTreeMap::new(),
            is_cancelled: false,
            settled: None,
            is_removed: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.packets.len() == self.amounts.len()
    }

    fn is_over(&self, now: Moment) -> bool {
        self.is_cancelled || self.is_empty() || now >= self.expiry
    }

    fn phase(&self, now: Moment) -> Phase {
        if self.is_cancelled {
            Phase::Cancelled
        } else if self.is_empty() {
            Phase::Empty
        } else if now >= self.expiry {
            Phase::Expired
        } else if now < self.start {
            Phase::Scheduled
        } else {
            Phase::Open
        }
    }

    /// Compares an outcome with the expected one.
    fn compare(&mut self, user: &str, now: Moment, outcome: GrabOutcome) {
        let allowed = &self.request.allowed_user_ids;
        let index = self.packets.len();
        let expected = if let Some(packet) = self.packets.get(user) {
            GrabOutcome::AlreadyGrabbed(*packet)
        } else if !allowed.is_empty() && !allowed.iter().any(|id| id == user) {
            GrabOutcome::NotAllowed
        } else if now < self.start {
            GrabOutcome::NotStarted
        } else if self.is_cancelled || now >= self.expiry {
            GrabOutcome::Expired
        } else if self.is_empty() {
            GrabOutcome::Empty
        } else if self.releases[index] > now {
            GrabOutcome::NotYet
        } else {
            let packet = outcome.got().unwrap_or_else(|| panic!("{outcome:?}"));
            assert_eq!(packet.number as usize, index + 1);
            assert_eq!(packet.amount_minor, self.amounts[index]);
            assert_eq!(packet.at, now);
            self.packets.insert(user.to_owned(), packet);
            GrabOutcome::Grabbed(packet)
        };
        assert_eq!(outcome, expected, "{user}");
    }
}
