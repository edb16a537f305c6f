//! The one place where errors become statuses: code, reason, whether it was executed, and what to
//! do next.
//!
//! The texts of drivers and of the system go only into the log: callers get a text that helps them
//! and gives nothing away.

use std::{collections::HashMap, sync::LazyLock, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use tracing::{error, warn};

use super::{
    access::{Denial, On, Permission},
    once_a_second::OnceASecond,
};
use crate::{
    model::{Problem, Problems, limits::LimitKind, text::visible},
    proto::ErrorReason,
    store::{Executed, Refusal, StoreError},
};

/// The domain of every `google.rpc.ErrorInfo`.
const DOMAIN: &str = "tombola.v1";

/// The most bytes of field violations in a status. Statuses travel in trailers, and many clients
/// take no more than 8 KiB.
const VIOLATION_BYTES_MAX: usize = 3 * 1024;

/// The most bytes of a status's message, for the same reason.
const MESSAGE_BYTES_MAX: usize = 700;

/// When to come back to a service whose ledger is not settled.
const BACKLOG_RETRY: Duration = Duration::from_secs(5);

/// When to come back to a service that is overloaded: at a random time, so that those who were
/// refused together do not all come back together.
const OVERLOAD_RETRY_MS: std::ops::Range<u64> = 100..500;

/// When to come back if the keys of an issuer cannot be fetched.
const KEYS_RETRY: Duration = Duration::from_secs(2);

/// Why a call has no answer.
#[derive(Debug, PartialEq)]
pub(super) enum CallError {
    /// Fields are missing or wrong.
    Invalid(Problems),
    /// The store refused or failed.
    Store(StoreError),
    /// The call's time was over before its answer came.
    TimedOut(Executed),
    /// A task of the service panicked.
    Broken(Executed),
    /// Clients leave more answers unread than the service may hold.
    Unread,
    /// The sink of the ledger cannot be read, for this cause.
    LedgerUnavailable(String),
    /// Settling is behind: what was not found may be in entries that are not settled yet.
    LedgerBehind,
    /// The ledger is settled nowhere.
    LedgerNotSettled,
    /// The server may not erase from the settled ledger: what to do.
    EraserMissing(String),
    /// A stream ends since the server stops.
    WatchEnded,
    /// What a cursor has seen is not there: what is known of it.
    CursorLost(String),
    /// Nobody implements the method, or the compression: what is known of it.
    Unimplemented(String),
    /// The caller may not do it.
    Denied(Denial),
}

impl From<Denial> for CallError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

impl From<Denial> for Status {
    fn from(denial: Denial) -> Self {
        status(&denial.into(), "")
    }
}

impl From<Problems> for CallError {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

impl From<Problem> for CallError {
    fn from(problem: Problem) -> Self {
        Self::Invalid(Problems(vec![problem]))
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        Self::Store(refusal.into())
    }
}

impl CallError {
    /// An error that came when the change was already made, while its answer was put together: it
    /// must not say that nothing happened.
    pub(super) fn after_the_change(error: StoreError) -> Self {
        Self::Store(match error {
            // A retry finds the same.
            StoreError::Corrupt { detail, .. } => {
                StoreError::corrupt_after(format!("after the change: {detail}"))
            }
            error => StoreError::Unavailable {
                executed: Executed::Unknown,
                detail: format!("after the change: {error}"),
            },
        })
    }
}

/// What a client switches on.
pub(super) type Verdict = (Code, ErrorReason, Executed);

/// The map from errors to what a client switches on.
pub(super) fn verdict(error: &CallError) -> Verdict {
    use ErrorReason as R;
    let no = |code, reason| (code, reason, Executed::No);
    let refusal = match error {
        CallError::Invalid(_) => return no(Code::InvalidArgument, R::InvalidRequest),
        CallError::TimedOut(executed) => {
            return (Code::DeadlineExceeded, R::DeadlineExceeded, *executed);
        }
        CallError::Broken(executed) => return (Code::Internal, R::Internal, *executed),
        CallError::Unread => return no(Code::Unavailable, R::Overloaded),
        CallError::LedgerUnavailable(_) | CallError::LedgerBehind => {
            return no(Code::Unavailable, R::LedgerUnavailable);
        }
        CallError::WatchEnded => return no(Code::Unavailable, R::WatchEnded),
        CallError::CursorLost(_) => return no(Code::FailedPrecondition, R::CursorLost),
        CallError::LedgerNotSettled => {
            return no(Code::FailedPrecondition, R::LedgerNotSettled);
        }
        CallError::EraserMissing(_) => return no(Code::FailedPrecondition, R::EraserMissing),
        CallError::Unimplemented(_) => return no(Code::Unimplemented, R::InvalidRequest),
        CallError::Denied(denial) => {
            let (code, reason) = denied(denial);
            return no(code, reason);
        }
        CallError::Store(error) => match error {
            StoreError::Overloaded => return no(Code::Unavailable, R::Overloaded),
            StoreError::Halted(_) => return no(Code::Unavailable, R::StoreUnavailable),
            StoreError::Unavailable { executed, .. } => {
                return (Code::Unavailable, R::StoreUnavailable, *executed);
            }
            StoreError::Corrupt { executed, .. } => {
                return (Code::Internal, R::Internal, *executed);
            }
            StoreError::Refused(refusal) => refusal,
        },
    };
    match refusal {
        Refusal::CampaignNotFound => no(Code::NotFound, R::CampaignNotFound),
        Refusal::PoolNotFound(_) => no(Code::NotFound, R::PoolNotFound),
        Refusal::PrizeNotFound(_) => no(Code::NotFound, R::PrizeNotFound),
        Refusal::VersionNotFound(_) => no(Code::NotFound, R::VersionNotFound),
        Refusal::DrawNotFound => no(Code::NotFound, R::DrawNotFound),
        Refusal::WindowNotFound(_) => no(Code::NotFound, R::WindowNotFound),
        Refusal::WinNotFound(_) => no(Code::NotFound, R::WinNotFound),
        Refusal::WinDelivered(_) => no(Code::FailedPrecondition, R::WinDelivered),
        Refusal::WinRevoked(_) => no(Code::FailedPrecondition, R::WinRevoked),
        Refusal::UpgradeNeeded => no(Code::FailedPrecondition, R::UpgradeNeeded),
        Refusal::ApprovalNeeded => no(Code::FailedPrecondition, R::ApprovalNeeded),
        Refusal::IdentityNeeded => no(Code::FailedPrecondition, R::IdentityNeeded),
        Refusal::ProposalNotFound(_) => no(Code::NotFound, R::ProposalNotFound),
        Refusal::ProposalVoid { .. } => no(Code::FailedPrecondition, R::ProposalVoid),
        Refusal::OwnProposal(_) => no(Code::PermissionDenied, R::OwnProposal),
        Refusal::TooManyProposals => no(Code::ResourceExhausted, R::TooManyProposals),
        Refusal::EnvelopeNotFound => no(Code::NotFound, R::EnvelopeNotFound),
        Refusal::EnvelopeExists => no(Code::AlreadyExists, R::EnvelopeExists),
        Refusal::EnvelopeRefused(_) => no(Code::InvalidArgument, R::InvalidRequest),
        Refusal::NotASchedule(_) => no(Code::InvalidArgument, R::InvalidRequest),
        Refusal::RequestIdReused => no(Code::InvalidArgument, R::RequestIdReused),
        Refusal::NotStarted(_) => no(Code::FailedPrecondition, R::CampaignNotStarted),
        Refusal::Ended(_) => no(Code::FailedPrecondition, R::CampaignEnded),
        Refusal::Paused => no(Code::FailedPrecondition, R::CampaignPaused),
        Refusal::LedgerBacklog => no(Code::Unavailable, R::LedgerBacklog),
        Refusal::Closed | Refusal::Removed { .. } => {
            no(Code::FailedPrecondition, R::CampaignClosed)
        }
        Refusal::Expired(_) => no(Code::FailedPrecondition, R::RequestExpired),
        Refusal::ChangeRefused(_) => no(Code::FailedPrecondition, R::ChangeRefused),
        Refusal::VersionStale { .. } => no(Code::Aborted, R::VersionStale),
        Refusal::DeadlineExceeded => no(Code::DeadlineExceeded, R::DeadlineExceeded),
        Refusal::Limit { reached, .. } => {
            let reason = match reached.limit {
                LimitKind::DrawsPerHour => R::DrawsPerHour,
                LimitKind::DrawsPerDay => R::DrawsPerDay,
                LimitKind::PaidDrawsPerDay => R::PaidDrawsPerDay,
                LimitKind::DrawsPerUser => R::DrawsPerUser,
                LimitKind::GrantedPerDay => R::GrantedPerDay,
            };
            no(Code::ResourceExhausted, reason)
        }
    }
}

fn denied(denial: &Denial) -> (Code, ErrorReason) {
    use ErrorReason as R;
    match denial {
        Denial::Missing => (Code::Unauthenticated, R::CredentialsMissing),
        Denial::Invalid(_) => (Code::Unauthenticated, R::CredentialsInvalid),
        Denial::Expired => (Code::Unauthenticated, R::CredentialsExpired),
        Denial::Unverifiable => (Code::Unavailable, R::CredentialsUnverifiable),
        Denial::Forbidden { .. } => (Code::PermissionDenied, R::PermissionDenied),
        Denial::ApprovalNeeded => (Code::FailedPrecondition, R::ApprovalNeeded),
        Denial::TooMany(_) => (Code::ResourceExhausted, R::RateLimited),
    }
}

/// The canonical name of a code, as in `google.rpc.Code`.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The name of a reason as clients see it.
pub(super) fn reason_name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

/// The status of a failed call; `request_id` is empty if the call has none. What operators must
/// know is logged here.
pub(super) fn status(error: &CallError, request_id: &str) -> Status {
    let (code, reason, executed) = verdict(error);
    log(error, request_id);
    let executed = match executed {
        Executed::No => "no",
        Executed::Unknown => "unknown",
    };
    let mut metadata = HashMap::from([("executed".to_owned(), executed.to_owned())]);
    if !request_id.is_empty() {
        metadata.insert("request_id".into(), request_id.into());
    }
    if let CallError::Store(StoreError::Halted(_)) = error {
        metadata.insert("halted".into(), "true".into());
    }
    if let CallError::Denied(Denial::Forbidden { permission, on }) = error {
        add_permission(&mut metadata, *permission, on);
    }
    let message = message(error, !request_id.is_empty());
    let mut details = ErrorDetails::with_error_info(reason_name(reason), DOMAIN, metadata);
    add_violations(error, &mut details);
    if let Some(delay) = retry_after(error) {
        details.set_retry_info(Some(delay));
    }
    Status::with_error_details(code, message, details)
}

/// What the caller lacks, for programs.
fn add_permission(metadata: &mut HashMap<String, String>, permission: Permission, on: &On) {
    metadata.insert("permission".into(), permission.name().into());
    if let Some((name, id)) = on.named() {
        metadata.insert(name.into(), id.into());
    }
}

/// Calls without a request id are safe to repeat as they are.
fn message(error: &CallError, has_request_id: bool) -> String {
    let with_its_id = if has_request_id {
        " with the same request id"
    } else {
        ""
    };
    let text = match error {
        CallError::Invalid(problems)
        | CallError::Store(StoreError::Refused(Refusal::EnvelopeRefused(problems))) => {
            first_of(problems)
        }
        CallError::Store(StoreError::Refused(Refusal::ChangeRefused(problems))) => {
            format!("the change is refused: {}", first_of(problems))
        }
        CallError::Unread => {
            "the service holds too many answers that clients do not read: read them, then retry"
                .into()
        }
        CallError::LedgerUnavailable(_) => {
            "the database of the ledger cannot be read now: retry. Draws go on; the server's log \
             says why"
                .into()
        }
        CallError::LedgerBehind => {
            "settling is behind, so this may be in the ledger and is not found yet: retry. Draws \
             go on"
                .into()
        }
        CallError::LedgerNotSettled => {
            "the ledger of this server is settled nowhere, so it cannot be listed: start the \
             server with --postgres-url"
                .into()
        }
        CallError::Unimplemented(detail) if detail.is_empty() => {
            "this server has no such method: reflection lists those that it has".into()
        }
        CallError::Denied(denial) => denial.to_string(),
        CallError::WatchEnded => "the server stops: watch again with the last cursor".into(),
        CallError::Unimplemented(detail)
        | CallError::CursorLost(detail)
        | CallError::EraserMissing(detail) => detail.clone(),
        CallError::TimedOut(Executed::No) => "the answer did not come in time: retry".into(),
        CallError::TimedOut(Executed::Unknown) => {
            format!("the answer did not come in time: retry{with_its_id} until it does")
        }
        CallError::Broken(executed) | CallError::Store(StoreError::Corrupt { executed, .. }) => {
            let then = match executed {
                Executed::No => String::new(),
                Executed::Unknown => {
                    format!(
                        "; it may have been carried out: retry{with_its_id} once that is repaired"
                    )
                }
            };
            format!(
                "the service found something that must not be and stopped rather than guess: its \
                 log says what{then}"
            )
        }
        CallError::Store(StoreError::Unavailable { .. }) => {
            format!("the store is unavailable: retry{with_its_id}")
        }
        CallError::Store(
            error @ (StoreError::Refused(_) | StoreError::Overloaded | StoreError::Halted(_)),
        ) => error.to_string(),
    };
    shortened(text, MESSAGE_BYTES_MAX)
}

/// Many clients show the message only, so it has the first problem; the details have all.
fn first_of(problems: &Problems) -> String {
    match problems.0.as_slice() {
        [] => "the request is not valid".into(),
        [one] => format!("{}: {}", one.path, one.message),
        [one, rest @ ..] => {
            format!("{}: {} (and {} more)", one.path, one.message, rest.len())
        }
    }
}

fn retry_after(error: &CallError) -> Option<Duration> {
    match error {
        CallError::Unread | CallError::Store(StoreError::Overloaded) => {
            let delay_ms = rand::random_range(OVERLOAD_RETRY_MS);
            Some(Duration::from_millis(delay_ms))
        }
        CallError::LedgerBehind | CallError::Store(StoreError::Refused(Refusal::LedgerBacklog)) => {
            Some(BACKLOG_RETRY)
        }
        CallError::Store(StoreError::Refused(Refusal::Limit {
            retry_at: Some(at),
            now,
            ..
        })) => Some(at.since(*now)),
        CallError::Denied(Denial::TooMany(delay)) => Some(*delay),
        CallError::Denied(Denial::Unverifiable) => Some(KEYS_RETRY),
        CallError::Invalid(_)
        | CallError::Denied(_)
        | CallError::Store(_)
        | CallError::TimedOut(_)
        | CallError::Broken(_)
        | CallError::LedgerUnavailable(_)
        | CallError::LedgerNotSettled
        | CallError::EraserMissing(_)
        | CallError::WatchEnded
        | CallError::CursorLost(_)
        | CallError::Unimplemented(_) => None,
    }
}

/// Problems as `google.rpc.BadRequest`, as many as a status can carry, and how many it could not.
fn add_violations(error: &CallError, details: &mut ErrorDetails) {
    let (CallError::Invalid(problems)
    | CallError::Store(StoreError::Refused(
        Refusal::ChangeRefused(problems) | Refusal::EnvelopeRefused(problems),
    ))) = error
    else {
        if let CallError::Store(StoreError::Refused(refusal @ Refusal::NotASchedule(_))) = error {
            details.add_bad_request_violation("pool_id", refusal.to_string());
        }
        return;
    };
    let mut bytes = 0;
    for (index, problem) in problems.0.iter().enumerate() {
        bytes += problem.path.len() + problem.message.len();
        if index > 0 && bytes > VIOLATION_BYTES_MAX {
            let omitted = problems.0.len() - index;
            details.add_bad_request_violation("", format!("{omitted} more problems"));
            return;
        }
        details.add_bad_request_violation(
            shortened(problem.path.clone(), VIOLATION_BYTES_MAX / 2),
            shortened(problem.message.clone(), VIOLATION_BYTES_MAX / 2),
        );
    }
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let mut end = bytes_max;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// Logs what an operator must see; refusals are the callers' business. A call without a request id
/// is answered without one.
fn log(error: &CallError, request_id: &str) {
    let request_id = (!request_id.is_empty()).then_some(request_id);
    let what = request_id.map_or_else(
        || "a call".to_owned(),
        |id| format!("request {}", visible(id)),
    );
    match error {
        CallError::Store(StoreError::Corrupt { detail, .. }) => {
            static DAMAGE: LazyLock<OnceASecond> = LazyLock::new(OnceASecond::default);
            if let Some(unlogged) = DAMAGE.pass(detail) {
                error!(
                    request_id,
                    detail, unlogged, "{what}: the stored data contradict themselves"
                );
            }
        }
        CallError::Broken(_) => error!(request_id, "{what}: a task panicked"),
        CallError::Store(StoreError::Unavailable { detail, .. }) => {
            static ABSENCE: LazyLock<OnceASecond> = LazyLock::new(OnceASecond::default);
            if let Some(unlogged) = ABSENCE.pass("") {
                warn!(
                    request_id,
                    detail, unlogged, "{what}: the store is unavailable"
                );
            }
        }
        CallError::LedgerUnavailable(detail) => {
            static ABSENCE: LazyLock<OnceASecond> = LazyLock::new(OnceASecond::default);
            if let Some(unlogged) = ABSENCE.pass("") {
                warn!(
                    detail,
                    unlogged, "{what}: the ledger cannot be read: {detail}"
                );
            }
        }
        // The store says itself, once, that it is halted.
        CallError::Store(
            StoreError::Refused(_) | StoreError::Overloaded | StoreError::Halted(_),
        )
        | CallError::Invalid(_)
        | CallError::TimedOut(_)
        | CallError::Unread
        | CallError::LedgerBehind
        | CallError::LedgerNotSettled
        | CallError::EraserMissing(_)
        | CallError::WatchEnded
        | CallError::CursorLost(_)
        | CallError::Unimplemented(_)
        | CallError::Denied(_) => {}
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
