//! Creating an envelope, filling packets in, taking the rest back, and removing it.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::{
    model::{Envelope, Moment, Problems, UserId, id::flaw_of_new},
    store::{
        CancelEnvelope, CreateEnvelope, FillEnvelope, GrabAnswer, GrabOutcome, Refusal, Result,
        Settled, Step, StoreError,
        entry::{Body, EnvelopeCreated, RefundCause},
        envelope::{
            CHUNK_PACKETS_MAX, GrabCounts, REMOVED_ROWS_MAX, Refund, WaitingPacket, low_packets,
        },
        operation::Author,
    },
};

use super::state::{EnvelopeChanges, EnvelopeRecord, EnvelopeState, Removal, SumsChange, signed};

/// An envelope of an id that was never used.
///
/// `test_clock` says whether the store is on a test clock.
pub(in crate::store) fn create(
    command: &CreateEnvelope,
    now: Moment,
    test_clock: bool,
) -> Result<EnvelopeState> {
    let envelope = &command.envelope;
    let start = envelope.start_at(now);
    let expiry = envelope.expiry_at(start);
    let mut problems = Problems::default();
    if let Some(flaw) = flaw_of_new(envelope.id.as_str()) {
        problems.add("envelope_id", flaw);
    }
    if expiry <= now {
        problems.add(
            "start_time",
            format!("is too early: it is {now}, and the envelope would have expired at {expiry}"),
        );
    }
    if !problems.is_empty() {
        return Err(Refusal::EnvelopeRefused(problems).into());
    }
    let total = signed(envelope.total_minor);
    let record = EnvelopeRecord {
        envelope: envelope.clone(),
        digest: digest(envelope, &command.allowed_users),
        nonce: command.nonce,
        commitment: command.commitment.clone(),
        created: now,
        start,
        expiry,
        filled: 0,
        filled_minor: 0,
        refund: None,
        removed: None,
    };
    let entry = Body::EnvelopeCreated(Box::new(EnvelopeCreated {
        envelope: Envelope::clone(envelope),
        allowed_users: command.allowed_users.to_vec(),
        created_by: command.created_by.clone(),
        start,
        expiry,
        nonce: command.nonce.to_hex(),
        commitment: command.commitment.clone(),
        test_clock,
    }));
    let mut state = EnvelopeState {
        record,
        grabbed: GrabCounts::default(),
        changes: EnvelopeChanges {
            entry: Some(entry),
            allowed_in: command.allowed_users.clone(),
            sums: SumsChange {
                envelopes: 1,
                open: 1,
                created_minor: total,
                waiting_minor: total,
                ..SumsChange::default()
            },
            ..EnvelopeChanges::default()
        },
    };
    if !command.packets.is_empty() {
        let packets = (1..).zip(&command.packets);
        let packets = packets.map(|(number, packet)| packet.waiting(number, start));
        put_in(&mut state, packets.collect())?;
    }
    Ok(state)
}

/// The envelope that is there is what this command asks for; else its id is taken.
pub(in crate::store) fn is_same(record: &EnvelopeRecord, command: &CreateEnvelope) -> bool {
    record.removed.is_none() && record.digest == digest(&command.envelope, &command.allowed_users)
}

/// SHA-256 of the envelope as JSON and of those who may grab it, a line each; hexadecimal.
fn digest(envelope: &Envelope, allowed_users: &[UserId]) -> String {
    let mut hash = Sha256::new();
    let json = serde_json::to_vec(envelope);
    // Only maps with keys that are not text fail, and there are none.
    hash.update(json.unwrap_or_else(|error| unreachable!("{error}")));
    for user in allowed_users {
        hash.update(b"\n");
        hash.update(user.as_str());
    }
    crate::chance::hex(&hash.finalize())
}

/// Why a user who has no packet yet gets none; none if the next packet is the user's as soon as
/// it is there.
///
/// Every store's grab checks the same in the same order, in the step itself: a packet that the user
/// has goes before all this, and after it comes whether the next packet must be filled in, or waits
/// for its release.
pub(in crate::store) fn admit(
    state: &EnvelopeState,
    is_allowed: bool,
    now: Moment,
) -> Option<GrabOutcome> {
    if !is_allowed {
        Some(GrabOutcome::NotAllowed)
    } else if now < state.record.start {
        Some(GrabOutcome::NotStarted)
    } else if state.record.refund.is_some() || now >= state.record.expiry {
        Some(GrabOutcome::Expired)
    } else if state.is_empty() {
        Some(GrabOutcome::Empty)
    } else {
        None
    }
}

/// The answer to a grab, of the envelope as it stands after it.
pub(in crate::store) fn answer(
    state: &EnvelopeState,
    outcome: GrabOutcome,
    now: Moment,
) -> GrabAnswer {
    let record = &state.record;
    GrabAnswer {
        outcome,
        envelope: Arc::clone(&record.envelope),
        start: record.start,
        expiry: record.expiry,
        // One grab passes the mark, and it alone asks for more.
        running_low: matches!(outcome, GrabOutcome::Grabbed(_))
            && state.waiting() == low_packets(state.grabbed.packets)
            && record.filled < record.envelope.packets,
        refund_due: now >= record.expiry && state.refund_due_at().is_some(),
    }
}

/// Puts the next packets in.
pub(in crate::store) fn fill(
    state: &mut EnvelopeState,
    command: &FillEnvelope,
    now: Moment,
) -> Result<Step> {
    let record = &state.record;
    let is_over = record.refund.is_some() || record.removed.is_some() || now >= record.expiry;
    if is_over || command.filled != record.filled {
        return Ok(Step::Stale);
    }
    put_in(state, command.packets.clone())?;
    Ok(Step::Done)
}

/// Adds packets to those that were filled in. They must be the envelope's next ones.
fn put_in(state: &mut EnvelopeState, packets: Vec<WaitingPacket>) -> Result<()> {
    let record = &mut state.record;
    let envelope = &record.envelope;
    let numbers = packets.iter().map(|packet| packet.number);
    let in_order = numbers.eq((record.filled + 1..).take(packets.len()));
    let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
    let filled = record.filled.saturating_add(count);
    let amounts = packets.iter().map(|packet| packet.amount_minor);
    let added = amounts.clone().fold(0, u64::saturating_add);
    let filled_minor = record.filled_minor.saturating_add(added);
    // The rest must hold at least the least of each packet, and the last chunk all that is left.
    let rest = u64::from(envelope.packets.saturating_sub(filled)) * envelope.min_minor;
    let fits = match filled == envelope.packets {
        true => filled_minor == envelope.total_minor,
        false => filled_minor.saturating_add(rest) <= envelope.total_minor,
    };
    let is_chunk = !packets.is_empty()
        && packets.len() <= CHUNK_PACKETS_MAX
        && filled <= envelope.packets
        && amounts.min() >= Some(envelope.min_minor);
    if !(in_order && fits && is_chunk) {
        let id = &envelope.id;
        return Err(StoreError::corrupt(format!(
            "packets after {} do not fit into envelope {id}: is this the key that it was made \
             with?",
            record.filled
        )));
    }
    record.filled = filled;
    record.filled_minor = filled_minor;
    state.changes.packets_in = packets;
    Ok(())
}

/// Takes the rest back at once; false if there is no rest any more.
pub(in crate::store) fn cancel(
    state: &mut EnvelopeState,
    command: &CancelEnvelope,
    now: Moment,
) -> bool {
    if state.settled_at().is_some() {
        return false;
    }
    if now >= state.record.expiry {
        // Its time was over before anyone cancelled it.
        refund(state, RefundCause::Expired, None, now);
        return false;
    }
    let author = Some(command.author.clone());
    refund(state, RefundCause::Cancelled, author, now);
    true
}

/// Does what is due: refunds the rest of an expired envelope, or removes the next rows of one that
/// was settled longer ago than `retention`. None if nothing is due.
pub(in crate::store) fn settle(
    state: &mut EnvelopeState,
    retention: std::time::Duration,
    now: Moment,
) -> Option<Settled> {
    match state.settled_at() {
        None if now >= state.record.expiry => {
            refund(state, RefundCause::Expired, None, now);
            Some(Settled {
                refunded: true,
                ..Settled::default()
            })
        }
        Some(at) if state.is_removed() || at + retention <= now => Some(Settled {
            refunded: false,
            removed: true,
            more: remove(state),
        }),
        None | Some(_) => None,
    }
}

fn refund(state: &mut EnvelopeState, cause: RefundCause, author: Option<Author>, now: Moment) {
    let envelope = &state.record.envelope;
    let refund = Refund {
        packets: envelope.packets - state.grabbed.packets,
        amount_minor: envelope.total_minor - state.grabbed.amount_minor,
        cause,
        at: now,
    };
    let amount = signed(refund.amount_minor);
    state.record.refund = Some(refund);
    state.changes.packets_out = true;
    state.changes.sums += SumsChange {
        open: -1,
        waiting_minor: -amount,
        refunded_minor: amount,
        ..SumsChange::default()
    };
    state.changes.entry = Some(Body::Refund {
        packets: refund.packets,
        amount_minor: refund.amount_minor,
        cause,
        author,
    });
}

/// Removes the next rows; true if there are more.
fn remove(state: &mut EnvelopeState) -> bool {
    let grabs = state.grabbed.packets;
    let rows = grabs + state.record.envelope.allowed_users;
    let from = state.record.removed.unwrap_or(0);
    let until = rows.min(from.saturating_add(REMOVED_ROWS_MAX));
    state.record.removed = Some(until);
    let is_last = until == rows;
    state.changes.removal = Some(Removal {
        grabs_after: from.min(grabs),
        grabs_until: until.min(grabs),
        allowed_users: until.max(grabs) - from.max(grabs),
        is_last,
    });
    !is_last
}
