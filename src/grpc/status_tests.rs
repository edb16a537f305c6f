use std::time::Duration;

use super::*;
use crate::model::limits::LimitReached;
use crate::model::{Moment, OperatorId};

fn limit(limit: LimitKind, retry_at: Option<Moment>) -> CallError {
    let reached = LimitReached {
        limit,
        resets: retry_at.is_some(),
        asked: 3,
        left: 2,
    };
    let now = Moment::from_micros(1_000_000);
    Refusal::Limit {
        reached,
        retry_at,
        now,
    }
    .into()
}

fn problems(count: usize) -> Problems {
    let mut problems = Problems::default();
    for i in 0..count {
        problems.add(format!("pools[{i}].id"), "is empty: an id has a character");
    }
    problems
}

fn unavailable(executed: Executed) -> CallError {
    CallError::Store(StoreError::Unavailable {
        executed,
        detail: "/secret/path is read-only".into(),
    })
}

/// Every error with its code, its reason and whether it was executed.
fn table() -> Vec<(CallError, Code, &'static str, &'static str)> {
    let at = Moment::EPOCH;
    let corrupt = CallError::Store(StoreError::corrupt("table x"));
    let corrupt_after = CallError::Store(StoreError::corrupt_after("table x"));
    vec![
        (
            CallError::Invalid(problems(1)),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "no",
        ),
        (
            CallError::LedgerUnavailable("connection refused".into()),
            Code::Unavailable,
            "LEDGER_UNAVAILABLE",
            "no",
        ),
        (
            CallError::LedgerBehind,
            Code::Unavailable,
            "LEDGER_UNAVAILABLE",
            "no",
        ),
        (
            CallError::WatchEnded,
            Code::Unavailable,
            "WATCH_ENDED",
            "no",
        ),
        (
            CallError::CursorLost("entry 4 is not there".into()),
            Code::FailedPrecondition,
            "CURSOR_LOST",
            "no",
        ),
        (
            CallError::LedgerNotSettled,
            Code::FailedPrecondition,
            "LEDGER_NOT_SETTLED",
            "no",
        ),
        (
            CallError::EraserMissing("name a role".into()),
            Code::FailedPrecondition,
            "ERASER_MISSING",
            "no",
        ),
        (
            CallError::TimedOut(Executed::No),
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            "no",
        ),
        (
            CallError::TimedOut(Executed::Unknown),
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            "unknown",
        ),
        (
            CallError::Broken(Executed::Unknown),
            Code::Internal,
            "INTERNAL",
            "unknown",
        ),
        (corrupt, Code::Internal, "INTERNAL", "no"),
        (corrupt_after, Code::Internal, "INTERNAL", "unknown"),
        (
            StoreError::Overloaded.into(),
            Code::Unavailable,
            "OVERLOADED",
            "no",
        ),
        (
            unavailable(Executed::No),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            "no",
        ),
        (
            unavailable(Executed::Unknown),
            Code::Unavailable,
            "STORE_UNAVAILABLE",
            "unknown",
        ),
        (
            Refusal::CampaignNotFound.into(),
            Code::NotFound,
            "CAMPAIGN_NOT_FOUND",
            "no",
        ),
        (
            Refusal::Removed { end: at }.into(),
            Code::FailedPrecondition,
            "CAMPAIGN_CLOSED",
            "no",
        ),
        (
            Refusal::PoolNotFound("p".into()).into(),
            Code::NotFound,
            "POOL_NOT_FOUND",
            "no",
        ),
        (
            Refusal::PrizeNotFound("p".into()).into(),
            Code::NotFound,
            "PRIZE_NOT_FOUND",
            "no",
        ),
        (
            Refusal::VersionNotFound(7).into(),
            Code::NotFound,
            "VERSION_NOT_FOUND",
            "no",
        ),
        (
            Refusal::DrawNotFound.into(),
            Code::NotFound,
            "DRAW_NOT_FOUND",
            "no",
        ),
        (
            Refusal::WinNotFound("deck:1:4".into()).into(),
            Code::NotFound,
            "WIN_NOT_FOUND",
            "no",
        ),
        (
            Refusal::WinDelivered("parcel-1".into()).into(),
            Code::FailedPrecondition,
            "WIN_DELIVERED",
            "no",
        ),
        (
            Refusal::WinRevoked(at).into(),
            Code::FailedPrecondition,
            "WIN_REVOKED",
            "no",
        ),
        (
            Refusal::UpgradeNeeded.into(),
            Code::FailedPrecondition,
            "UPGRADE_NEEDED",
            "no",
        ),
        (
            Denial::Missing.into(),
            Code::Unauthenticated,
            "CREDENTIALS_MISSING",
            "no",
        ),
        (
            Denial::Invalid("its signature is wrong").into(),
            Code::Unauthenticated,
            "CREDENTIALS_INVALID",
            "no",
        ),
        (
            Denial::Expired.into(),
            Code::Unauthenticated,
            "CREDENTIALS_EXPIRED",
            "no",
        ),
        (
            Denial::Unverifiable.into(),
            Code::Unavailable,
            "CREDENTIALS_UNVERIFIABLE",
            "no",
        ),
        (
            Denial::Forbidden {
                permission: Permission::Plan,
                on: On::Store,
            }
            .into(),
            Code::PermissionDenied,
            "PERMISSION_DENIED",
            "no",
        ),
        (
            Denial::TooMany(Duration::from_secs(1)).into(),
            Code::ResourceExhausted,
            "RATE_LIMITED",
            "no",
        ),
        (
            Refusal::ApprovalNeeded.into(),
            Code::FailedPrecondition,
            "APPROVAL_NEEDED",
            "no",
        ),
        (
            Refusal::IdentityNeeded.into(),
            Code::FailedPrecondition,
            "IDENTITY_NEEDED",
            "no",
        ),
        (
            Refusal::ProposalNotFound("p-1".into()).into(),
            Code::NotFound,
            "PROPOSAL_NOT_FOUND",
            "no",
        ),
        (
            Refusal::ProposalVoid {
                id: "p-1".into(),
                why: "was rejected".into(),
            }
            .into(),
            Code::FailedPrecondition,
            "PROPOSAL_VOID",
            "no",
        ),
        (
            Refusal::OwnProposal(OperatorId::parse("operator", "ann").unwrap()).into(),
            Code::PermissionDenied,
            "OWN_PROPOSAL",
            "no",
        ),
        (
            Refusal::TooManyProposals.into(),
            Code::ResourceExhausted,
            "TOO_MANY_PROPOSALS",
            "no",
        ),
        (
            Refusal::EnvelopeNotFound.into(),
            Code::NotFound,
            "ENVELOPE_NOT_FOUND",
            "no",
        ),
        (
            Refusal::EnvelopeExists.into(),
            Code::AlreadyExists,
            "ENVELOPE_EXISTS",
            "no",
        ),
        (
            Refusal::EnvelopeRefused(problems(1)).into(),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "no",
        ),
        (
            Refusal::WindowNotFound(at).into(),
            Code::NotFound,
            "WINDOW_NOT_FOUND",
            "no",
        ),
        (
            Refusal::NotASchedule("p".into()).into(),
            Code::InvalidArgument,
            "INVALID_REQUEST",
            "no",
        ),
        (
            Refusal::RequestIdReused.into(),
            Code::InvalidArgument,
            "REQUEST_ID_REUSED",
            "no",
        ),
        (
            Refusal::NotStarted(at).into(),
            Code::FailedPrecondition,
            "CAMPAIGN_NOT_STARTED",
            "no",
        ),
        (
            Refusal::Ended(at).into(),
            Code::FailedPrecondition,
            "CAMPAIGN_ENDED",
            "no",
        ),
        (
            Refusal::LedgerBacklog.into(),
            Code::Unavailable,
            "LEDGER_BACKLOG",
            "no",
        ),
        (
            Refusal::Paused.into(),
            Code::FailedPrecondition,
            "CAMPAIGN_PAUSED",
            "no",
        ),
        (
            Refusal::Closed.into(),
            Code::FailedPrecondition,
            "CAMPAIGN_CLOSED",
            "no",
        ),
        (
            Refusal::Expired(at).into(),
            Code::FailedPrecondition,
            "REQUEST_EXPIRED",
            "no",
        ),
        (
            Refusal::ChangeRefused(problems(2)).into(),
            Code::FailedPrecondition,
            "CHANGE_REFUSED",
            "no",
        ),
        (
            Refusal::DeadlineExceeded.into(),
            Code::DeadlineExceeded,
            "DEADLINE_EXCEEDED",
            "no",
        ),
        (
            Refusal::VersionStale {
                named: 1,
                current: 2,
            }
            .into(),
            Code::Aborted,
            "VERSION_STALE",
            "no",
        ),
        (
            limit(LimitKind::DrawsPerHour, None),
            Code::ResourceExhausted,
            "DRAWS_PER_HOUR",
            "no",
        ),
        (
            limit(LimitKind::GrantedPerDay, None),
            Code::ResourceExhausted,
            "GRANTED_PER_DAY",
            "no",
        ),
        (
            limit(LimitKind::DrawsPerDay, None),
            Code::ResourceExhausted,
            "DRAWS_PER_DAY",
            "no",
        ),
        (
            limit(LimitKind::PaidDrawsPerDay, None),
            Code::ResourceExhausted,
            "PAID_DRAWS_PER_DAY",
            "no",
        ),
        (
            limit(LimitKind::DrawsPerUser, None),
            Code::ResourceExhausted,
            "DRAWS_PER_USER",
            "no",
        ),
    ]
}

#[test]
fn every_error_says_why_and_whether_it_happened() {
    for (error, code, reason, executed) in table() {
        let status = status(&error, "r-1");
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(status.code(), code, "{error:?}");
        assert_eq!(info.reason, reason, "{error:?}");
        assert_eq!(info.domain, "tombola.v1");
        assert_eq!(info.metadata["executed"], executed, "{error:?}");
        assert_eq!(info.metadata["request_id"], "r-1");
        assert!(!status.message().is_empty());
    }
}

#[test]
fn every_reason_of_the_proto_is_used_but_the_zero() {
    let used: Vec<_> = table().into_iter().map(|row| row.2).collect();
    for number in 1.. {
        let Ok(reason) = ErrorReason::try_from(number) else {
            assert!(number > 20);
            return;
        };
        assert!(used.contains(&reason_name(reason)), "{reason:?}");
    }
}

#[test]
fn the_text_of_the_driver_is_not_sent() {
    for error in [
        unavailable(Executed::Unknown),
        CallError::Store(StoreError::corrupt("/secret/path")),
    ] {
        let status = status(&error, "");
        assert!(!status.message().contains("secret"));
        assert!(!String::from_utf8_lossy(status.details()).contains("secret"));
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert!(!info.metadata.contains_key("request_id"));
    }
}

#[test]
fn problems_are_reported_all_at_once_with_their_fields() {
    for error in [
        CallError::Invalid(problems(3)),
        Refusal::ChangeRefused(problems(3)).into(),
        Refusal::EnvelopeRefused(problems(3)).into(),
    ] {
        let details = status(&error, "r").get_error_details();
        let violations = &details.bad_request().unwrap().field_violations;
        assert_eq!(violations.len(), 3);
        assert_eq!(violations[2].field, "pools[2].id");
    }
    let not_a_schedule = status(&Refusal::NotASchedule("d".into()).into(), "r");
    let details = not_a_schedule.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    assert_eq!(violations[0].field, "pool_id");
}

#[test]
fn a_status_fits_into_the_headers_of_any_client() {
    let mut many = problems(5_000);
    many.0[1].message = "\u{e9}".repeat(20_000);
    let status = status(&CallError::Invalid(many), &"r".repeat(128));
    assert!(status.details().len() < 5_500, "{}", status.details().len());
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    let last = &violations.last().unwrap().description;
    assert!(last.ends_with("more problems"), "{last}");
}

#[test]
fn a_limit_that_resets_and_an_overload_say_when_to_come_back() {
    let resets = limit(
        LimitKind::DrawsPerDay,
        Some(Moment::from_micros(61_000_000)),
    );
    let delay = |error: &CallError| {
        let details = status(error, "r").get_error_details();
        details.retry_info().and_then(|info| info.retry_delay)
    };
    assert_eq!(delay(&resets), Some(Duration::from_secs(60)));
    assert_eq!(delay(&limit(LimitKind::DrawsPerUser, None)), None);
    let delays: std::collections::BTreeSet<_> = (0..20)
        .map(|_| delay(&StoreError::Overloaded.into()).unwrap())
        .collect();
    assert!(delays.len() > 1, "all would come back at once");
}

#[test]
fn an_error_after_the_change_never_says_that_nothing_happened() {
    let late = CallError::after_the_change(Refusal::CampaignNotFound.into());
    assert_eq!(verdict(&late).2, Executed::Unknown);
    // Damage stays damage: no retry helps before the repair.
    let damaged = CallError::after_the_change(StoreError::corrupt("block 0 is missing"));
    let expected = (Code::Internal, ErrorReason::Internal, Executed::Unknown);
    assert_eq!(verdict(&damaged), expected);
}
