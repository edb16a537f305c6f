//! What operators did.

use jiff::tz::TimeZone;

use super::{super::times::shown, ledger};
use crate::{
    model::text::counted,
    proto::{OperationKind, RecordedOperation},
};

/// The names of the columns.
pub(crate) const COLUMNS: [&str; 7] = [
    "time",
    "about",
    "operation",
    "by",
    "reason",
    "request",
    "ledger",
];

/// A row: a cell for each column.
pub(crate) fn row(act: &RecordedOperation, zone: &TimeZone) -> Vec<String> {
    vec![
        shown(act.operation_time.as_ref(), zone),
        format!("{}{}", act.campaign_id, act.envelope_id),
        what(act, zone),
        by(act),
        reason(act),
        act.request_id.clone(),
        ledger(act.ledger_id),
    ]
}

/// Who did it: `deploy-bot for olga`, or `olga, proposed by ben` if it was proposed.
pub(crate) fn by(act: &RecordedOperation) -> String {
    let by = match act.on_behalf_of.as_str() {
        "" => act.operator.clone(),
        other => format!("{} for {other}", act.operator),
    };
    match act.proposed_by.as_str() {
        "" => by,
        proposer => format!("{by}, proposed by {proposer}"),
    }
}

/// Why it was done: the reason of who did it, and of who proposed it.
pub(crate) fn reason(act: &RecordedOperation) -> String {
    let reasons = [&act.proposal_reason, &act.reason];
    let reasons = reasons.into_iter().filter(|reason| !reason.is_empty());
    reasons.cloned().collect::<Vec<_>>().join("; ")
}

/// What was done.
pub(crate) fn what(act: &RecordedOperation, zone: &TimeZone) -> String {
    let users = || match &act.user_ids[..] {
        [user] => user.clone(),
        users => counted(users.len() as u64, "user"),
    };
    match act.kind() {
        OperationKind::Unspecified => "unknown".into(),
        OperationKind::Apply => format!("apply version {}", act.version),
        OperationKind::Pause => "pause".into(),
        OperationKind::Resume => "resume".into(),
        OperationKind::Close => "close".into(),
        OperationKind::PausePrize => format!("pause prize {}", act.prize_id),
        OperationKind::ResumePrize => format!("resume prize {}", act.prize_id),
        OperationKind::Recall => recall(act, zone),
        OperationKind::Grant => {
            format!("grant {} to {}", counted(act.draws.into(), "draw"), users())
        }
        OperationKind::Block => format!("block {}", users()),
        OperationKind::Unblock => format!("unblock {}", users()),
        OperationKind::CancelEnvelope => "cancel".into(),
        OperationKind::Recover => "recover a partition".into(),
        OperationKind::Deliver => format!("deliver {} as {}", win(act), act.reference),
        OperationKind::Revoke if act.withdraw => format!("revoke and withdraw {}", win(act)),
        OperationKind::Revoke => format!("revoke {}", win(act)),
        OperationKind::ImportCodes => {
            let codes = counted(act.codes, "code");
            format!(
                "import {codes} of {} from {} on",
                act.prize_id, act.first_code
            )
        }
    }
}

/// `mug coupons:1795960800:17 of user-1`
fn win(act: &RecordedOperation) -> String {
    let user = act.user_ids.first().map_or("", String::as_str);
    format!("{} {} of {user}", act.prize_id, act.unit_id)
}

/// `recall and withdraw coupon of pool hours, window 2026-12-05T12:00:00+08:00`
fn recall(act: &RecordedOperation, zone: &TimeZone) -> String {
    let withdraw = if act.withdraw { " and withdraw" } else { "" };
    let prize = match act.prize_id.as_str() {
        "" => "all prizes",
        prize => prize,
    };
    let window = act.window_time.as_ref();
    let window = window.map(|_| format!(", window {}", shown(act.window_time.as_ref(), zone)));
    let window = window.unwrap_or_default();
    format!("recall{withdraw} {prize} of pool {}{window}", act.pool_id)
}
