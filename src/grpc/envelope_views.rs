//! Envelopes as the store shows them, as messages.

use std::time::Duration;

use super::views::{durability, ledger_id};
use crate::{
    model::{
        Envelope, Split,
        convert::{duration_to_proto, moment_to_proto},
    },
    proto,
    store::{
        Durability, EnvelopeSums, EnvelopeView, GrabAnswer, GrabOutcome, GrabView,
        entry::RefundCause,
        envelope::{Packet, Phase, RefundView},
    },
};

/// A grab's answer.
pub(super) fn grab_answer(answer: &GrabAnswer, level: Durability) -> proto::GrabEnvelopeResponse {
    use proto::GrabOutcome as O;
    let (outcome, packet) = match answer.outcome {
        GrabOutcome::Grabbed(packet) => (O::Grabbed, Some(packet)),
        GrabOutcome::AlreadyGrabbed(packet) => (O::AlreadyGrabbed, Some(packet)),
        GrabOutcome::Empty => (O::Empty, None),
        GrabOutcome::NotYet => (O::NotYet, None),
        GrabOutcome::Expired => (O::Expired, None),
        GrabOutcome::NotStarted => (O::NotStarted, None),
        GrabOutcome::NotAllowed => (O::NotAllowed, None),
    };
    let envelope: &Envelope = &answer.envelope;
    proto::GrabEnvelopeResponse {
        outcome: outcome.into(),
        amount_minor: packet.map_or(0, |packet| packet.amount_minor),
        currency: envelope.currency.clone(),
        packet: packet.map_or(0, |packet| packet.number),
        grab_time: packet.map(|packet| moment_to_proto(packet.at)),
        ledger_id: packet.map(|packet| ledger_id(packet.ledger)),
        attributes: envelope.attributes.clone(),
        durability: durability(level).into(),
        start_time: Some(moment_to_proto(answer.start)),
        expire_time: Some(moment_to_proto(answer.expiry)),
        sender_id: envelope.sender.as_str().into(),
    }
}

/// Who has which packet.
pub(super) fn grab(grab: &GrabView) -> proto::Grab {
    let Packet {
        number,
        amount_minor,
        at,
        ledger,
    } = grab.packet;
    proto::Grab {
        user_id: grab.user.as_str().into(),
        packet: number,
        amount_minor,
        grab_time: Some(moment_to_proto(at)),
        ledger_id: Some(ledger_id(ledger)),
    }
}

/// An envelope as it stands; the seed if it may be revealed.
pub(super) fn envelope(
    view: &EnvelopeView,
    luckiest: Option<&GrabView>,
    seed: Option<String>,
    test_clock: bool,
) -> proto::Envelope {
    let envelope: &Envelope = &view.envelope;
    let last = view.grabbed.last.filter(|_| view.is_empty());
    proto::Envelope {
        envelope_id: envelope.id.to_string(),
        sender_id: envelope.sender.as_str().into(),
        total_minor: envelope.total_minor,
        currency: envelope.currency.clone(),
        packets: envelope.packets,
        split: split(envelope.split).into(),
        min_minor: envelope.min_minor,
        create_time: Some(moment_to_proto(view.created)),
        start_time: Some(moment_to_proto(view.start)),
        expire_time: Some(moment_to_proto(view.expiry)),
        rain: envelope
            .is_rain()
            .then(|| duration_to_proto(Duration::from_micros(envelope.rain_micros))),
        allowed_users: envelope.allowed_users,
        attributes: envelope.attributes.clone(),
        state: state(view.phase()).into(),
        packets_grabbed: view.grabbed.packets,
        grabbed_minor: view.grabbed.amount_minor,
        packets_waiting: view.packets_waiting(),
        waiting_minor: view.waiting_minor(),
        refund: view.refund.as_ref().map(refund),
        luckiest: luckiest.map(grab),
        time_to_empty: last.map(|last| duration_to_proto(last.since(view.start))),
        ledger_id: Some(ledger_id(view.ledger)),
        seed_commitment: view.commitment.clone(),
        seed: seed.unwrap_or_default(),
        test_clock,
    }
}

/// How it is split.
pub(super) fn split(split: Split) -> proto::Split {
    match split {
        Split::Random => proto::Split::Random,
        Split::Equal => proto::Split::Equal,
    }
}

fn state(phase: Phase) -> proto::EnvelopeState {
    match phase {
        Phase::Scheduled => proto::EnvelopeState::Scheduled,
        Phase::Open => proto::EnvelopeState::Open,
        Phase::Empty => proto::EnvelopeState::Empty,
        Phase::Expired => proto::EnvelopeState::Expired,
        Phase::Cancelled => proto::EnvelopeState::Cancelled,
    }
}

fn refund(view: &RefundView) -> proto::Refund {
    let refund = &view.refund;
    proto::Refund {
        packets: refund.packets,
        amount_minor: refund.amount_minor,
        cause: refund_cause(refund.cause).into(),
        refund_time: Some(moment_to_proto(refund.at)),
        ledger_id: Some(ledger_id(view.ledger)),
    }
}

/// Why it went back.
pub(super) fn refund_cause(cause: RefundCause) -> proto::RefundCause {
    match cause {
        RefundCause::Expired => proto::RefundCause::Expired,
        RefundCause::Cancelled => proto::RefundCause::Cancelled,
    }
}

/// The sums of a currency.
pub(super) fn sums(sums: &EnvelopeSums) -> proto::EnvelopeSums {
    let minor = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    proto::EnvelopeSums {
        currency: sums.currency.clone(),
        envelopes: sums.envelopes,
        envelopes_open: sums.open,
        created_minor: minor(sums.created_minor),
        grabbed_minor: minor(sums.grabbed_minor),
        waiting_minor: minor(sums.waiting_minor),
        refunded_minor: minor(sums.refunded_minor),
        balanced: sums.balanced(),
    }
}
