//! Errors of the command line, each with what to do next. Only this file turns a [`Status`] into
//! text and chooses exit codes.

use std::{error::Error as _, fmt, process::ExitCode, time::Duration};

use clap::ArgMatches;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    shell::quoted,
    stranger::Stranger,
    tls_failure::TlsFault,
    tries::{EarlierTries, may_be_lost},
};
use crate::{
    grpc::status::code_name,
    model::{Problem, Problems, text::visible},
    proto::ErrorReason,
};

/// Exit codes of the process. The numbers follow `sysexits.h` if it has one for the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The command was refused, or it failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 64,
    /// The server or its store cannot be reached.
    Unavailable = 69,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The error of a command.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// For programs: the name of an [`ErrorReason`], or a name that the command line chose.
    pub(super) reason: String,
    pub(super) message: String,
    /// `no` or `unknown` for a call that changes something; empty for other calls.
    pub(super) executed: String,
    pub(super) request_id: String,
    pub(super) violations: Problems,
    pub(super) retry_after: Option<Duration>,
    /// What to do next; if empty, the service's reason decides.
    pub(super) hint: String,
    /// The service's reason; unspecified if the error does not come from the service.
    answer: ErrorReason,
    /// Nothing in it comes from the service: another program may be at its address.
    pub(super) is_unsigned: bool,
    earlier: EarlierTries,
    subject: Subject,
}

/// The objects that a command is about, for messages that name them. A name in capitals stands for
/// an object that the command does not name.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    campaign: String,
    envelope: String,
    user: String,
}

impl Default for Subject {
    fn default() -> Self {
        let named = |name: &str| name.to_owned();
        Self {
            campaign: named("CAMPAIGN"),
            envelope: named("ENVELOPE"),
            user: named("USER"),
        }
    }
}

impl Subject {
    /// The objects that the arguments of the innermost subcommand name.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        if let Some((_, inner)) = matches.subcommand() {
            return Self::of(inner);
        }
        let argument = |name: &str| {
            let found = matches.try_get_one::<String>(name).ok().flatten();
            found.map(|id| quoted(id))
        };
        let unnamed = Self::default();
        Self {
            campaign: argument("campaign").unwrap_or(unnamed.campaign),
            envelope: argument("envelope").unwrap_or(unnamed.envelope),
            user: argument("user").unwrap_or(unnamed.user),
        }
    }
}

impl Failure {
    fn new(exit: Exit, reason: &str, message: String) -> Box<Self> {
        Box::new(Self {
            exit,
            reason: reason.into(),
            message,
            executed: String::new(),
            request_id: String::new(),
            violations: Problems::default(),
            retry_after: None,
            hint: String::new(),
            answer: ErrorReason::Unspecified,
            is_unsigned: false,
            earlier: EarlierTries::default(),
            subject: Subject::default(),
        })
    }

    /// No server answers at `url`.
    pub(super) fn no_server(url: &str, error: &tonic::transport::Error) -> Box<Self> {
        let mut failure = Self::new(
            Exit::Unavailable,
            "NO_SERVER",
            format!(
                "no server at {url}: start one with \"tombola serve\" or name it with --server"
            ),
        );
        failure.hint = format!("the connection failed: {}", innermost(error));
        failure.executed = "no".into();
        failure.is_unsigned = true;
        failure
    }

    /// The server and this program do not agree on TLS, so nothing was sent, unless an earlier try
    /// reached a Tombola.
    pub(super) fn is_of_tls(&mut self, url: &str, fault: TlsFault) {
        let TlsFault { problem, advice } = fault;
        self.exit = Exit::Unavailable;
        self.reason = "TLS".into();
        self.message = format!("no TLS connection to {url}: {problem}");
        if self.executed == "unknown" && self.earlier.reached_a_tombola {
            self.hint = format!("{advice}; {}", self.hint);
        } else {
            self.executed = "no".into();
            self.hint = advice.into();
        }
    }

    /// The same failure, for a program at `url` that is no Tombola. Another program has not
    /// executed the call. But if a try may have reached a Tombola, what is known of the call stays.
    pub(super) fn of_stranger(self: Box<Self>, url: &str, stranger: &Stranger) -> Box<Self> {
        let message = format!("there is no Tombola at {url}: {stranger}");
        let mut failure = Self::new(Exit::Unavailable, "NO_TOMBOLA", message);
        if self.executed == "unknown" && self.may_have_reached_a_tombola(stranger) {
            failure.executed = self.executed;
            failure.request_id = self.request_id;
            failure.hint = self.hint;
        } else {
            failure.executed = "no".into();
            failure.hint = "name the address of \"tombola serve\" with --server".into();
        }
        failure
    }

    /// Whether a try may have reached a Tombola, although this stranger answers at its address now.
    /// A proxy in front of a Tombola that is gone says nothing, or sends an answer of its own.
    fn may_have_reached_a_tombola(&self, stranger: &Stranger) -> bool {
        let EarlierTries {
            may_have_executed,
            reached_a_tombola,
        } = self.earlier;
        let was_passed_on = *stranger == Stranger::OtherService && may_have_executed;
        stranger.says_nothing() || reached_a_tombola || was_passed_on
    }

    /// The command itself refuses, before it sends anything.
    pub(super) fn refused(reason: &str, message: impl Into<String>) -> Box<Self> {
        let mut failure = Self::new(Exit::Failed, reason, message.into());
        failure.executed = "no".into();
        failure
    }

    /// The store cannot be reached.
    pub(super) fn unavailable(message: impl Into<String>) -> Box<Self> {
        let mut failure = Self::new(Exit::Unavailable, "STORE_UNAVAILABLE", message.into());
        failure.executed = "no".into();
        failure
    }

    /// The command line is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Box<Self> {
        let mut failure = Self::new(Exit::Usage, "USAGE", message.into());
        failure.executed = "no".into();
        failure
    }

    /// One or more options are wrong.
    pub(super) fn options(problems: Problems) -> Box<Self> {
        let message = match problems.0.as_slice() {
            [Problem { path, message }] => format!("{path}: {message}"),
            several => format!("{} options are wrong", several.len()),
        };
        let mut failure = Self::usage(message);
        failure.violations = problems;
        failure
    }

    /// A server does not start, or it failed while it ran.
    pub(super) fn start(exit: Exit, reason: &str, message: impl Into<String>) -> Box<Self> {
        let mut failure = Self::new(exit, reason, message.into());
        failure.executed = "no".into();
        failure
    }

    /// An input file or list has problems; nothing was sent.
    pub(super) fn problems(what: &str, problems: Problems) -> Box<Self> {
        let count = super::output::counted(problems.0.len() as u64, "problem");
        let mut failure = Self::refused(
            without_prefix(ErrorReason::InvalidRequest.as_str_name()),
            format!("{what} has {count}; nothing was sent"),
        );
        failure.violations = problems;
        failure
    }

    /// A call that changes nothing failed.
    pub(super) fn read(status: Status) -> Box<Self> {
        let mut failure = Self::answered(&status);
        // "Nothing happened" is no news for a call that changes nothing.
        failure.executed.clear();
        failure
    }

    fn answered(status: &Status) -> Box<Self> {
        let details = status.get_error_details();
        let mut failure = Self::new(exit_of(status), code_name(status.code()), text_of(status));
        failure.is_unsigned = true;
        if let Some(info) = details.error_info() {
            let field = |name: &str| info.metadata.get(name).cloned().unwrap_or_default();
            let name = format!("ERROR_REASON_{}", info.reason);
            failure.answer = ErrorReason::from_str_name(&name).unwrap_or_default();
            failure.is_unsigned = false;
            failure.reason = info.reason.clone();
            failure.request_id = field("request_id");
            failure.executed = field("executed");
        }
        if let Some(request) = details.bad_request() {
            for violation in &request.field_violations {
                failure
                    .violations
                    .add(&violation.field, &violation.description);
            }
        }
        failure.retry_after = details.retry_info().and_then(|info| info.retry_delay);
        failure
    }

    /// Sets the objects that the command is about.
    pub(super) fn about(&mut self, subject: Subject) {
        if self.answer == ErrorReason::CampaignNotFound {
            self.message = format!("there is no campaign {}", subject.campaign);
        }
        self.subject = subject;
    }

    /// What to do next; empty if there is nothing to say.
    fn advice(&self) -> String {
        if self.hint.is_empty() {
            hint(self.answer, &self.subject)
        } else {
            self.hint.clone()
        }
    }

    /// A call that changes something failed. Unless the service itself says otherwise, it may have
    /// happened.
    pub(super) fn change(status: Status, request_id: &str) -> Box<Self> {
        let is_from_service = status.get_error_details().error_info().is_some();
        let lost = may_be_lost(status.code());
        let mut failure = Self::answered(&status);
        if failure.request_id.is_empty() {
            failure.request_id = request_id.into();
        }
        if failure.executed.is_empty() {
            failure.executed = if lost && !is_from_service {
                "unknown"
            } else {
                "no"
            }
            .into();
        }
        if failure.executed == "unknown" {
            failure.hint = format!(
                "repeat the command with --request-id {}: however often it is sent, it takes \
                 effect once",
                quoted(&failure.request_id)
            );
        }
        failure
    }

    /// The same failure, for the last of several tries. If an earlier one may have executed the
    /// call, a refusal of the last one does not undo it.
    pub(super) fn after(mut self: Box<Self>, earlier: EarlierTries) -> Box<Self> {
        self.earlier = earlier;
        if earlier.may_have_executed {
            self.executed = "unknown".into();
        }
        self
    }

    /// Names the file that has the problems. `field` is the request's field that holds the file;
    /// the paths in the file do not have it.
    pub(super) fn in_file(mut self: Box<Self>, file: &str, field: &str) -> Box<Self> {
        const NOT_OF_THE_FILE: [&str; 4] = ["operator", "reason", "request_id", "base_version"];
        let is_of_the_file = |Problem { path, .. }: &Problem| {
            path.starts_with(field) && !NOT_OF_THE_FILE.contains(&path.as_str())
        };
        if self.violations.is_empty() || !self.violations.0.iter().all(is_of_the_file) {
            return self;
        }
        for problem in &mut self.violations.0 {
            let (sent, within) = (problem.path.clone(), problem.path.strip_prefix(field));
            let Some(path) = within.and_then(|path| path.strip_prefix('.')) else {
                continue;
            };
            problem.path = path.to_owned();
            let in_file = format!("{}: {}", problem.path, problem.message);
            self.message = self
                .message
                .replace(&format!("{sent}: {}", problem.message), &in_file);
        }
        self.message = format!("{file}: {}", self.message);
        self
    }

    /// Replaces the advice on what to do next.
    pub(super) fn advise(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = hint.into();
        self
    }

    /// The violations that the message does not contain. The service's message contains the first
    /// one, for clients that show only the message.
    fn violations_not_in_message(&self) -> &[Problem] {
        match self.violations.0.as_slice() {
            [Problem { path, message }, rest @ ..]
                if self.message.contains(&format!("{path}: {message}"))
                    || self.message == *message =>
            {
                rest
            }
            all => all,
        }
    }

    /// The error as JSON, for programs; it goes to standard error.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let violations = self.violations.0.iter();
        let violations: Vec<_> = violations
            .map(|problem| json!({"field": problem.path, "description": problem.message}))
            .collect();
        json!({
            "reason": self.reason,
            "message": self.message,
            "executed": or_null(&self.executed),
            "request_id": or_null(&self.request_id),
            "violations": violations,
            "hint": or_null(&self.advice()),
        })
    }
}

fn or_null(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        for problem in self.violations_not_in_message() {
            write!(f, "\n  {}: {}", problem.path, problem.message)?;
        }
        if !self.request_id.is_empty() {
            let outcome = match self.executed.as_str() {
                "" => "",
                "no" => "nothing happened; ",
                _ => "it may have happened; ",
            };
            write!(
                f,
                "\n  {outcome}reason {}, request id {}",
                self.reason,
                visible(&self.request_id)
            )?;
        }
        if let Some(delay) = self.retry_after {
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            let delay = super::time::span(&prost_types::Duration { seconds, nanos: 0 });
            write!(f, "\n  worth another try in {delay}")?;
        }
        match self.advice().as_str() {
            "" => Ok(()),
            advice => write!(f, "\n  {advice}"),
        }
    }
}

fn without_prefix(reason: &str) -> &str {
    reason.strip_prefix("ERROR_REASON_").unwrap_or(reason)
}

fn exit_of(status: &Status) -> Exit {
    match status.code() {
        Code::Unavailable => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

fn text_of(status: &Status) -> String {
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    match status.source() {
        Some(source) => format!("{message}: {}", innermost(source)),
        None => message.into(),
    }
}

/// The innermost cause of an error.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// What an operator can do about a reason: the command that helps, which the service does not know.
fn hint(reason: ErrorReason, subject: &Subject) -> String {
    use ErrorReason as R;
    let Subject {
        campaign,
        envelope,
        user,
    } = subject;
    match reason {
        R::RequestIdReused => "take another --request-id, or none: one is made".into(),
        R::CampaignNotFound => "\"tombola campaigns\" lists those there are".into(),
        R::PoolNotFound | R::PrizeNotFound => {
            format!("\"tombola campaign {campaign} -o yaml\" shows its pools and prizes")
        }
        R::EnvelopeExists => {
            format!("\"tombola envelope show {envelope}\" shows the one that is there")
        }
        R::WindowNotFound => format!("\"tombola schedule {campaign}\" lists the hours"),
        R::DrawNotFound => {
            "a try that is still under way may yet draw: to settle it, repeat the draw with its \
             --request-id"
                .into()
        }
        R::VersionNotFound => format!("\"tombola campaign {campaign}\" lists the versions"),
        R::CampaignPaused => format!("\"tombola resume {campaign}\" takes draws again"),
        R::VersionStale => {
            "run it again without --base-version: it shows what differs from the current version"
                .into()
        }
        R::DrawsPerHour | R::DrawsPerDay | R::DrawsPerUser | R::GrantedPerDay => {
            format!("\"tombola grant {campaign} --draws N {user}\" gives bonus draws")
        }
        R::WinNotFound => {
            format!("\"tombola wins --campaign {campaign}\" lists the wins with their units")
        }
        R::LedgerBacklog => {
            "\"tombola stats\" shows what waits; the log of the settler says why".into()
        }
        R::Overloaded | R::StoreUnavailable => {
            "the server is there, but cannot do it now; its log says why".into()
        }
        R::LedgerUnavailable => {
            "the server is there, but not the database of its ledger; its log says why".into()
        }
        R::Internal => "the server's log says more".into(),
        R::CredentialsMissing => {
            "give a token with --token-file, or a certificate with --tls-cert and --tls-key".into()
        }
        R::PermissionDenied => {
            "whoever keeps the server's access file can bind a role with this permission; \
             \"tombola access check\" shows what a file allows"
                .into()
        }
        R::ApprovalNeeded => {
            "the option --propose of apply, close and recall proposes the change".into()
        }
        R::ProposalNotFound | R::ProposalVoid | R::TooManyProposals => {
            format!("\"tombola proposals {campaign}\" lists the proposals")
        }
        R::Unspecified
        | R::OwnProposal
        | R::IdentityNeeded
        | R::InvalidRequest
        | R::RequestExpired
        | R::CampaignNotStarted
        | R::CampaignEnded
        | R::CampaignClosed
        | R::PaidDrawsPerDay
        | R::ChangeRefused
        | R::EnvelopeNotFound
        | R::LedgerNotSettled
        | R::EraserMissing
        | R::WinDelivered
        | R::WinRevoked
        | R::UpgradeNeeded
        | R::WatchEnded
        | R::CursorLost
        | R::CredentialsInvalid
        | R::CredentialsExpired
        | R::CredentialsUnverifiable
        | R::RateLimited
        | R::DeadlineExceeded => String::new(),
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
