//! Envelopes as text.

use jiff::tz::TimeZone;

use super::{
    output::{Side, Table, counted},
    time::{shown as moment, span},
};
use crate::{
    model::{
        money::Money,
        text::{grouped, visible},
    },
    proto::{
        CancelEnvelopeResponse, CreateEnvelopeResponse, Envelope, EnvelopeState, EnvelopeSums,
        Grab, GrabEnvelopeResponse, GrabOutcome, RefundCause, Split,
    },
};

/// An amount in whole units of its currency.
fn amount(currency: &str, minor: u64) -> String {
    Money::of_minor(currency, minor).to_string()
}

pub(super) fn created(response: &CreateEnvelopeResponse) -> String {
    let envelope = response.envelope.clone().unwrap_or_default();
    let by = if response.replayed {
        " (created by an earlier call)"
    } else {
        ""
    };
    format!("{}{by}", headline(&envelope))
}

pub(super) fn cancelled(response: &CancelEnvelopeResponse) -> String {
    let envelope = response.envelope.clone().unwrap_or_default();
    let by = if response.replayed {
        " (nothing was left to cancel)"
    } else {
        ""
    };
    format!("{}{by}", headline(&envelope))
}

/// The outcome of a grab.
pub(super) fn grabbed(response: &GrabEnvelopeResponse) -> String {
    let packet = || {
        let ledger = response.ledger_id.unwrap_or_default();
        format!(
            "{}, packet {}, grabbed {}, ledger {}/{}",
            amount(&response.currency, response.amount_minor),
            grouped(response.packet.into()),
            moment(response.grab_time.as_ref(), &TimeZone::UTC),
            ledger.partition,
            ledger.sequence
        )
    };
    match response.outcome() {
        GrabOutcome::Grabbed => packet(),
        GrabOutcome::AlreadyGrabbed => format!("{} (from before)", packet()),
        GrabOutcome::Empty => "nothing: every packet is grabbed".into(),
        GrabOutcome::NotYet => "nothing yet: more packets will fall".into(),
        GrabOutcome::Expired => "nothing: the envelope's time is over".into(),
        GrabOutcome::NotStarted => format!(
            "nothing yet: the envelope starts {}",
            moment(response.start_time.as_ref(), &TimeZone::UTC)
        ),
        GrabOutcome::NotAllowed => "nothing: the user is not on the envelope's list".into(),
        GrabOutcome::Unspecified => "an outcome that this version does not know".into(),
    }
}

/// An envelope and its grabs.
pub(super) fn shown(envelope: &Envelope, grabs: &[Grab]) -> String {
    let mut parts = vec![headline(envelope), facts(envelope)];
    if !grabs.is_empty() {
        parts.push(table(envelope, grabs));
    }
    let more = u64::from(envelope.packets_grabbed).saturating_sub(grabs.len() as u64);
    if more > 0 {
        parts.push(format!("{} more: see --grabs", counted(more, "grab")));
    }
    parts.join("\n\n")
}

fn headline(envelope: &Envelope) -> String {
    let clock = if envelope.test_clock {
        " (a test clock)"
    } else {
        ""
    };
    format!(
        "{}: {}{clock}, {} from {} in {}, {} grabbed",
        envelope.envelope_id,
        state(envelope.state()),
        amount(&envelope.currency, envelope.total_minor),
        visible(&envelope.sender_id),
        counted(envelope.packets.into(), "packet"),
        grouped(envelope.packets_grabbed.into())
    )
}

fn state(state: EnvelopeState) -> &'static str {
    match state {
        EnvelopeState::Unspecified => "in an unknown state",
        EnvelopeState::Scheduled => "scheduled",
        EnvelopeState::Open => "open",
        EnvelopeState::Empty => "empty",
        EnvelopeState::Expired => "expired",
        EnvelopeState::Cancelled => "cancelled",
    }
}

/// Further properties of an envelope, one per line.
fn facts(envelope: &Envelope) -> String {
    let money = |minor| amount(&envelope.currency, minor);
    let time = |time: Option<&prost_types::Timestamp>| moment(time, &TimeZone::UTC);
    let split = match envelope.split() {
        Split::Equal => "equal".to_owned(),
        Split::Random | Split::Unspecified => {
            format!("random, at least {} each", money(envelope.min_minor))
        }
    };
    let mut lines = vec![
        ("split", split),
        (
            "time",
            format!(
                "{} to {}",
                time(envelope.start_time.as_ref()),
                time(envelope.expire_time.as_ref())
            ),
        ),
    ];
    if let Some(rain) = &envelope.rain {
        lines.push(("rain", format!("over the first {}", span(rain))));
    }
    if envelope.allowed_users > 0 {
        let users = counted(envelope.allowed_users.into(), "user");
        lines.push(("only for", users));
    }
    for (key, value) in &envelope.attributes {
        lines.push(("attribute", format!("{key}={value}")));
    }
    lines.push(("grabbed", money(envelope.grabbed_minor)));
    lines.push(("waiting", money(envelope.waiting_minor)));
    if let Some(refund) = &envelope.refund {
        let cause = match refund.cause() {
            RefundCause::Cancelled => "cancelled",
            RefundCause::Expired | RefundCause::Unspecified => "expired",
        };
        lines.push((
            "refunded",
            format!(
                "{} in {}, {}, {cause}",
                money(refund.amount_minor),
                counted(refund.packets.into(), "packet"),
                time(refund.refund_time.as_ref())
            ),
        ));
    }
    if let Some(time) = &envelope.time_to_empty {
        lines.push(("empty after", span(time)));
    }
    if let Some(luckiest) = &envelope.luckiest {
        let amount = money(luckiest.amount_minor);
        lines.push((
            "luckiest",
            format!("{}, {amount}", visible(&luckiest.user_id)),
        ));
    }
    lines.push(("commitment", envelope.seed_commitment.clone()));
    if !envelope.seed.is_empty() {
        lines.push(("seed", envelope.seed.clone()));
    }
    let lines = lines.into_iter();
    let lines: Vec<_> = lines
        .map(|(name, value)| format!("{name:<12}{value}"))
        .collect();
    lines.join("\n")
}

fn table(envelope: &Envelope, grabs: &[Grab]) -> String {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("packet", Right),
        ("user", Left),
        ("amount", Right),
        ("grabbed", Left),
        ("ledger", Left),
    ]);
    for grab in grabs {
        let ledger = grab.ledger_id.unwrap_or_default();
        table.row([
            grouped(grab.packet.into()),
            grab.user_id.clone(),
            amount(&envelope.currency, grab.amount_minor),
            moment(grab.grab_time.as_ref(), &TimeZone::UTC),
            format!("{}/{}", ledger.partition, ledger.sequence),
        ]);
    }
    table.render()
}

/// The sums of all envelopes.
pub(super) fn sums(sums: &[EnvelopeSums]) -> String {
    use Side::{Left, Right};
    if sums.is_empty() {
        return "no envelope was ever created".into();
    }
    let mut table = Table::new([
        ("currency", Left),
        ("envelopes", Right),
        ("open", Right),
        ("created", Right),
        ("grabbed", Right),
        ("waiting", Right),
        ("refunded", Right),
        ("", Left),
    ]);
    for sum in sums {
        let money = |minor| amount(&sum.currency, minor);
        let unbalanced = if sum.balanced { "" } else { "NOT BALANCED" };
        table.row([
            sum.currency.clone(),
            grouped(sum.envelopes),
            grouped(sum.envelopes_open),
            money(sum.created_minor),
            money(sum.grabbed_minor),
            money(sum.waiting_minor),
            money(sum.refunded_minor),
            unbalanced.into(),
        ]);
    }
    table.render()
}
