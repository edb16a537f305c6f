//! What the rules of envelopes promise, whatever a store makes of them.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    chance::Nonce,
    model::{Envelope, EnvelopeId, Moment, OperatorId, RequestId, Split, UserId},
    store::{
        Author, CancelEnvelope, CreateEnvelope, FillEnvelope, GrabOutcome, Refusal, Step,
        StoreError,
        entry::{Body, RefundCause},
        envelope::{NewPacket, WaitingPacket},
    },
};

const START: Moment = Moment::from_micros(1_795_046_400_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

fn command(packets: u32, users: &[&str]) -> CreateEnvelope {
    let users: Vec<UserId> = users
        .iter()
        .map(|id| UserId::parse("user", id).unwrap())
        .collect();
    CreateEnvelope {
        envelope: Arc::new(Envelope {
            id: EnvelopeId::parse("id", "e1").unwrap(),
            sender: UserId::parse("sender", "s").unwrap(),
            total_minor: u64::from(packets) * 10,
            currency: "CNY".into(),
            packets,
            split: Split::Equal,
            min_minor: 1,
            start: None,
            ttl_micros: 3_600_000_000,
            rain_micros: 0,
            allowed_users: users.len() as u32,
            attributes: [("title".to_owned(), "hi".to_owned())].into(),
        }),
        allowed_users: users.into(),
        created_by: None,
        nonce: Nonce([7; 32]),
        commitment: "c0ffee".into(),
        packets: Vec::new(),
    }
}

fn fill_command(filled: u32, packets: u32) -> FillEnvelope {
    let packet = |number| WaitingPacket {
        number,
        amount_minor: 10,
        release: START,
    };
    FillEnvelope {
        envelope: EnvelopeId::parse("id", "e1").unwrap(),
        filled,
        packets: (filled + 1..=filled + packets).map(packet).collect(),
    }
}

/// As a store keeps it between steps.
fn kept(state: EnvelopeState) -> EnvelopeState {
    let json = serde_json::to_string(&state.record).unwrap();
    let record: EnvelopeRecord = serde_json::from_str(&json).unwrap();
    assert_eq!(record, state.record, "{json}");
    EnvelopeState {
        record,
        grabbed: state.grabbed,
        changes: EnvelopeChanges::default(),
    }
}

fn grabbed(mut state: EnvelopeState, packets: u32) -> EnvelopeState {
    state.grabbed.packets += packets;
    state.grabbed.amount_minor += 10 * u64::from(packets);
    state.grabbed.last = Some(START + Duration::from_secs(60));
    state
}

#[test]
fn a_new_envelope_holds_its_whole_amount() {
    let state = create(&command(3, &[]), START, true).unwrap();
    assert_eq!(state.record.start, START);
    assert_eq!(state.record.expiry, START + HOUR);
    let sums = state.changes.sums;
    assert_eq!((sums.envelopes, sums.open), (1, 1));
    assert_eq!((sums.created_minor, sums.waiting_minor), (30, 30));
    assert!(matches!(
        state.changes.entry,
        Some(Body::EnvelopeCreated(_))
    ));
    assert_eq!(kept(state).refund_due_at(), Some(START + HOUR));
}

#[test]
fn packets_that_come_with_a_new_envelope_are_its_first() {
    let new = |amount_minor, after_seconds| NewPacket {
        amount_minor,
        after: Duration::from_secs(after_seconds),
    };
    let mut whole = command(3, &[]);
    whole.packets = vec![new(5, 0), new(10, 2), new(15, 2)];
    let state = create(&whole, START, true).unwrap();
    let packets: Vec<_> = state.changes.packets_in.iter().collect();
    assert_eq!(
        packets.iter().map(|p| p.number).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(packets[1].release, START + Duration::from_secs(2));
    let state = kept(state);
    assert_eq!((state.waiting(), state.record.filled_minor), (3, 30));
    for wrong in [
        |packets: &mut Vec<NewPacket>| packets[0].amount_minor = 6,
        |packets: &mut Vec<NewPacket>| packets[0].amount_minor = 0,
        |packets: &mut Vec<NewPacket>| packets.push(packets[0]),
    ] {
        let mut command = whole.clone();
        wrong(&mut command.packets);
        let refused = create(&command, START, true);
        assert!(matches!(refused, Err(StoreError::Corrupt { .. })));
    }
    assert!(is_same(&state.record, &command(3, &[])));
}

#[test]
fn the_same_request_is_the_same_envelope_and_any_other_is_not() {
    let record = create(&command(3, &["a", "b"]), START, true)
        .unwrap()
        .record;
    let mut again = command(3, &["a", "b"]);
    again.nonce = Nonce([8; 32]);
    again.commitment = "other".into();
    assert!(is_same(&record, &again), "chance is not a request's");
    assert!(!is_same(&record, &command(4, &["a", "b"])));
    assert!(!is_same(&record, &command(3, &["a", "c"])));
    let other = |change: fn(&mut Envelope)| {
        let mut command = command(3, &["a", "b"]);
        change(Arc::make_mut(&mut command.envelope));
        command
    };
    assert!(!is_same(&record, &other(|e| e.ttl_micros += 1)));
    assert!(!is_same(&record, &other(|e| e.start = Some(START))));
    assert!(!is_same(&record, &other(|e| e.attributes.clear())));
    let removed = EnvelopeRecord {
        removed: Some(0),
        ..record
    };
    assert!(!is_same(&removed, &command(3, &["a", "b"])));
}

#[test]
fn an_envelope_that_would_have_expired_is_refused() {
    let mut late = command(3, &[]);
    Arc::make_mut(&mut late.envelope).start = Some(START);
    let refused = create(&late, START + HOUR, true).unwrap_err();
    let StoreError::Refused(Refusal::EnvelopeRefused(problems)) = refused else {
        panic!("{refused}");
    };
    assert_eq!(problems.0[0].path, "start_time");
    assert!(create(&late, START + HOUR - Duration::from_micros(1), true).is_ok());
}

#[test]
fn a_new_envelope_has_no_id_that_browsers_take_out_of_an_address() {
    for id in [".", ".."] {
        let mut odd = command(3, &[]);
        Arc::make_mut(&mut odd.envelope).id = EnvelopeId::parse("id", id).unwrap();
        let refused = create(&odd, START, true).unwrap_err();
        let StoreError::Refused(Refusal::EnvelopeRefused(problems)) = refused else {
            panic!("{refused}");
        };
        assert_eq!(problems.0[0].path, "envelope_id");
    }
}

#[test]
fn packets_come_in_order_once_and_add_up() {
    let mut state = create(&command(150, &[]), START, true).unwrap();
    assert_eq!(
        fill(&mut state, &fill_command(0, 100), START).unwrap(),
        Step::Done
    );
    assert_eq!(state.changes.packets_in.len(), 100);
    let mut state = kept(state);
    assert_eq!(state.waiting(), 100);
    assert_eq!(
        fill(&mut state, &fill_command(0, 100), START).unwrap(),
        Step::Stale
    );
    // Too much, too little at the end, too many, out of order.
    for wrong in [
        |c: &mut FillEnvelope| c.packets[0].amount_minor = 11,
        |c: &mut FillEnvelope| c.packets[49].amount_minor = 0,
        |c: &mut FillEnvelope| c.packets.extend(c.packets.clone()),
        |c: &mut FillEnvelope| c.packets.swap(3, 4),
        |c: &mut FillEnvelope| c.packets.clear(),
    ] {
        let mut command = fill_command(100, 50);
        wrong(&mut command);
        let mut copy = state.clone();
        assert!(matches!(
            fill(&mut copy, &command, START),
            Err(StoreError::Corrupt { .. })
        ));
    }
    let mut late = state.clone();
    let expired = fill(&mut late, &fill_command(100, 50), START + HOUR);
    assert_eq!(expired.unwrap(), Step::Stale);
    assert_eq!(
        fill(&mut state, &fill_command(100, 50), START).unwrap(),
        Step::Done
    );
    assert_eq!(state.record.filled_minor, 1500);
}

#[test]
fn grabs_are_checked_in_their_order() {
    let mut state = create(&command(3, &[]), START, true).unwrap();
    let before = START - Duration::from_micros(1);
    let after = START + HOUR;
    assert_eq!(admit(&state, true, START), None);
    assert_eq!(
        admit(&state, false, before),
        Some(GrabOutcome::NotAllowed),
        "whoever may not, never"
    );
    assert_eq!(admit(&state, true, before), Some(GrabOutcome::NotStarted));
    assert_eq!(admit(&state, true, after), Some(GrabOutcome::Expired));
    state = grabbed(state, 3);
    assert_eq!(admit(&state, true, START), Some(GrabOutcome::Empty));
    assert_eq!(admit(&state, true, after), Some(GrabOutcome::Expired));
}

#[test]
fn the_rest_goes_back_once() {
    let state = kept(create(&command(3, &[]), START, true).unwrap());
    let mut state = grabbed(state, 1);
    let before = START + HOUR - Duration::from_micros(1);
    assert_eq!(settle(&mut state, KEPT, before), None);
    let settled = settle(&mut state, KEPT, START + HOUR).unwrap();
    assert!(settled.refunded && !settled.more);
    let refund = state.record.refund.unwrap();
    assert_eq!((refund.packets, refund.amount_minor), (2, 20));
    assert_eq!(refund.cause, RefundCause::Expired);
    assert_eq!(state.changes.sums.waiting_minor, -20);
    assert_eq!(state.changes.sums.refunded_minor, 20);
    assert!(state.changes.packets_out);
    let mut state = kept(state);
    assert_eq!(settle(&mut state, KEPT, START + HOUR), None);
    assert!(!cancel(&mut state, &cancel_command(), START + HOUR));
    assert_eq!(state.changes, EnvelopeChanges::default());
}

fn cancel_command() -> CancelEnvelope {
    CancelEnvelope {
        envelope: EnvelopeId::parse("id", "e1").unwrap(),
        author: Author::named(
            RequestId::parse("r", "r").unwrap(),
            OperatorId::parse("o", "o").unwrap(),
            "",
        ),
    }
}

#[test]
fn a_cancelled_envelope_gives_nothing_more() {
    let state = kept(create(&command(3, &[]), START, true).unwrap());
    let mut state = grabbed(state, 2);
    assert!(cancel(&mut state, &cancel_command(), START));
    assert_eq!(admit(&state, true, START), Some(GrabOutcome::Expired));
    let refund = state.record.refund.unwrap();
    assert_eq!((refund.packets, refund.cause), (1, RefundCause::Cancelled));
}

#[test]
fn what_was_cancelled_after_its_time_has_expired() {
    let mut state = kept(create(&command(3, &[]), START, true).unwrap());
    assert!(!cancel(&mut state, &cancel_command(), START + HOUR));
    assert_eq!(state.record.refund.unwrap().cause, RefundCause::Expired);
}

#[test]
fn an_envelope_goes_row_by_row_once_it_was_kept() {
    let state = kept(create(&command(180, &["a", "b", "c"]), START, true).unwrap());
    let mut state = grabbed(state, 180);
    let end = state.settled_at().unwrap() + KEPT;
    assert_eq!(
        settle(&mut state, KEPT, end - Duration::from_micros(1)),
        None
    );
    let mut steps = Vec::new();
    loop {
        let settled = settle(&mut state, KEPT, end).unwrap();
        let removal = state.changes.removal.unwrap();
        steps.push((
            removal.grabs_after,
            removal.grabs_until,
            removal.allowed_users,
        ));
        assert_eq!(settled.more, !removal.is_last);
        assert!(state.is_removed());
        if removal.is_last {
            break;
        }
        state = kept(state);
    }
    assert_eq!(steps, [(0, 100, 0), (100, 180, 3)]);
}
