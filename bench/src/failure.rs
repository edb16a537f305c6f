//! Errors of the bench, each with what to do next. Only this file turns a [`Status`] into text and
//! chooses exit codes.

use std::{error::Error as _, fmt, process::ExitCode};

use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The result of a part of the bench.
pub(crate) type Outcome<T = ()> = Result<T, Box<Failure>>;

/// Why something could not be connected to.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// The reason of a failure of many calls of the load.
pub(crate) const CALLS_FAIL: &str = "CALLS_FAIL";

/// Exit codes, the same as those of the server's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The bench was refused, or it failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 64,
    /// The server or Redis cannot be reached.
    Unavailable = 69,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of the bench.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// For programs: the service's reason, or a name that the bench chose.
    pub(crate) reason: String,
    pub(crate) message: String,
    /// What to do next, unless the message says so.
    pub(crate) hint: String,
}

impl Failure {
    fn new(exit: Exit, reason: &str, message: String) -> Box<Self> {
        Box::new(Self {
            exit,
            reason: reason.into(),
            message,
            hint: String::new(),
        })
    }

    /// An operation failed or was refused.
    pub(crate) fn refused(reason: &str, message: impl Into<String>) -> Box<Self> {
        Self::new(Exit::Failed, reason, message.into())
    }

    /// The command line is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Box<Self> {
        Self::new(Exit::Usage, "USAGE", message.into())
    }

    /// A server that the bench needs cannot be reached.
    pub(crate) fn unavailable(reason: &str, message: impl Into<String>) -> Box<Self> {
        Self::new(Exit::Unavailable, reason, message.into())
    }

    /// No server answers at `url`.
    pub(crate) fn no_server(url: &str, error: &(dyn std::error::Error + 'static)) -> Box<Self> {
        let message =
            format!("no server at {url}: start one with \"tombola serve\", or leave out --server");
        let advice = match url.starts_with("https://") {
            true => "; the files of TLS are --tls-ca, --tls-cert and --tls-key",
            false => "",
        };
        Self::unavailable("NO_SERVER", message).advise(format!(
            "the connection failed: {}{advice}",
            innermost(error)
        ))
    }

    /// The service, or a proxy in front of it, answered a call with an error.
    pub(crate) fn answered(status: Status) -> Box<Self> {
        let exit = match status.code() {
            Code::Unavailable => Exit::Unavailable,
            _ => Exit::Failed,
        };
        Self::new(exit, &reason(&status), text_of(&status))
    }

    /// Replaces the advice on what to do next.
    pub(crate) fn advise(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = hint.into();
        self
    }

    /// The error as JSON, for programs; it goes to standard error.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({ "reason": self.reason, "message": self.message })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\n  {}", self.hint)?;
        }
        Ok(())
    }
}

/// The service's reason; the name of the gRPC code if the error does not come from the service.
pub(crate) fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    match details.error_info() {
        Some(info) => info.reason.clone(),
        None => format!("{:?}", status.code()),
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
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
