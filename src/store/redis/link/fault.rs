//! A fault of Redis, made once from the driver's error: whether the command may have run, and what
//! to do.

use std::fmt;

use deadpool::managed::{PoolError, TimeoutType};
use redis::RedisError;

use super::{
    fault_kind::FaultKind,
    timeouts::{ANSWER_MAX, WAIT_MAX},
    url::{Address, RedisUrl, Topology},
};
use crate::store::{Executed, StoreError};

/// Why a command has no usual answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whether it may have run nevertheless.
    pub executed: Executed,
    /// The kind of fault.
    pub kind: FaultKind,
    /// A text for operators: which server, what Redis answered and what to do.
    pub text: String,
    /// Who serves the keys instead, if a cluster's node says so.
    pub(crate) redirect: Option<Redirect>,
}

/// The node to which a cluster's node redirects a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) address: Address,
    /// The redirection holds only for this command, while its slot moves.
    pub(crate) is_ask: bool,
}

impl Fault {
    /// No connection was free or could be made, so nothing was sent.
    pub(crate) fn pooling(error: PoolError<Self>, url: &RedisUrl) -> Self {
        match error {
            PoolError::Backend(fault) => fault,
            PoolError::Timeout(TimeoutType::Wait) => {
                let said = waited(WAIT_MAX.as_secs());
                Self::new(Executed::No, FaultKind::NoConnectionFree, url, &said)
            }
            PoolError::Timeout(_) => Self::no_connection_in_time(url),
            other => Self::new(
                Executed::No,
                FaultKind::Unreachable,
                url,
                &other.to_string(),
            ),
        }
    }

    /// A connection could not be made, so nothing was sent.
    pub(crate) fn connecting(error: &RedisError, url: &RedisUrl) -> Self {
        let (kind, said) = match FaultKind::of(error, url) {
            FaultKind::TimedOut => return Self::no_connection_in_time(url),
            FaultKind::Lost => (FaultKind::Unreachable, closed_at_once(error, url)),
            FaultKind::Other => (FaultKind::Unreachable, error.to_string()),
            kind => (kind, error.to_string()),
        };
        Self::new(Executed::No, kind, url, &said)
    }

    /// A connection could not be made in time, so nothing was sent.
    pub(crate) fn no_connection_in_time(url: &RedisUrl) -> Self {
        let said = no_connection_in_time(url);
        Self::new(Executed::No, FaultKind::Unreachable, url, &said)
    }

    /// The server to connect to is a replica, so nothing was sent.
    pub(crate) fn replica(server: &Address, master: &str, url: &RedisUrl) -> Self {
        let said = format!("{server}: it is a replica of {master}");
        Self::new(Executed::No, FaultKind::ReadOnly, url, &said)
    }

    /// Nobody is known to be the master, so nothing was sent.
    pub(crate) fn no_master(said: &str, url: &RedisUrl) -> Self {
        let kind = match url.topology {
            Topology::Cluster(_) => FaultKind::ClusterDown,
            Topology::Single(_) | Topology::Sentinel { .. } => FaultKind::NoMaster,
        };
        Self::new(Executed::No, kind, url, said)
    }

    /// Another server became the master.
    pub(crate) fn master_changed(executed: Executed, server: &Address, url: &RedisUrl) -> Self {
        let said = format!("it was {server}");
        Self::new(executed, FaultKind::MasterChanged, url, &said)
    }

    /// Too few replicas confirmed a write in time.
    pub(crate) fn unconfirmed(said: &str, url: &RedisUrl) -> Self {
        Self::new(Executed::Unknown, FaultKind::Unconfirmed, url, said)
    }

    /// No replica is known that could confirm a write, so nothing was sent.
    pub(crate) fn no_replicas(server: &Address, url: &RedisUrl) -> Self {
        let said = format!("{server} has no replica");
        Self::new(Executed::No, FaultKind::NoReplicas, url, &said)
    }

    /// An error instead of an answer.
    pub(crate) fn answering(error: &RedisError, url: &RedisUrl) -> Self {
        let kind = match FaultKind::of(error, url) {
            // Only a reply can say that nothing was written. A connection that broke says nothing
            // of a command that was sent, whatever the text.
            kind if error.code().is_none() && kind.is_refusal() => FaultKind::Lost,
            kind => kind,
        };
        let said = error.to_string();
        // Most refusals come before a script's first write, but the user's rights are checked for
        // each of its commands.
        let in_midst = kind == FaultKind::Permission && said.contains("user_script");
        let executed = if kind.is_refusal() && !in_midst {
            Executed::No
        } else {
            Executed::Unknown
        };
        Self {
            redirect: Redirect::of(error),
            ..Self::new(executed, kind, url, &said)
        }
    }

    /// The same fault, of a step after a command that ran: that command may last or not.
    pub(crate) fn afterwards(self) -> Self {
        Self {
            executed: Executed::Unknown,
            redirect: None,
            ..self
        }
    }

    /// No answer came. It may still come, to a connection that is gone by then.
    pub(crate) fn timed_out(url: &RedisUrl) -> Self {
        let said = waited(ANSWER_MAX.as_secs());
        Self::new(Executed::Unknown, FaultKind::TimedOut, url, &said)
    }

    /// The answer does not have the form that its command's answers have.
    pub(crate) fn protocol(text: &str) -> Self {
        Self {
            executed: Executed::Unknown,
            kind: FaultKind::Protocol,
            text: text.to_owned(),
            redirect: None,
        }
    }

    fn new(executed: Executed, kind: FaultKind, url: &RedisUrl, said: &str) -> Self {
        let said = match kind {
            FaultKind::Script => said,
            // An operator cannot change the script, so its name is left out.
            _ => said.split(" script: ").next().unwrap_or(said),
        };
        Self {
            executed,
            kind,
            text: format!("Redis at {url} {} ({said})", kind.advice()),
            redirect: None,
        }
    }
}

impl Redirect {
    fn of(error: &RedisError) -> Option<Self> {
        let is_ask = match error.code() {
            Some("MOVED") => false,
            Some("ASK") => true,
            _ => return None,
        };
        let (address, _slot) = error.redirect_node()?;
        let (host, port) = address.rsplit_once(':')?;
        Some(Self {
            address: Address {
                host: host.to_owned(),
                port: port.parse().ok()?,
            },
            is_ask,
        })
    }
}

/// The text of a connection that was not made in time. A server without TLS takes the client's TLS
/// greeting for the start of a command and waits for its end.
fn no_connection_in_time(url: &RedisUrl) -> String {
    let hint = if url.tls {
        "; one that does not speak TLS stays silent, then write redis:// instead of rediss://"
    } else {
        ""
    };
    format!("no connection in time{hint}")
}

fn closed_at_once(error: &RedisError, url: &RedisUrl) -> String {
    let hint = if url.tls {
        "one that does not speak TLS does so, then write redis:// instead of rediss://"
    } else {
        "one that speaks TLS does so, then write rediss:// instead of redis://"
    };
    format!("it closed the connection at once, {error}; {hint}")
}

fn waited(seconds: u64) -> String {
    format!("waited {seconds} s")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::WrongType | FaultKind::CrossSlot => Self::Corrupt {
                executed: fault.executed,
                detail: fault.text,
            },
            // A script that failed in the middle may have written; a retry with the same request id
            // finds out.
            _ => Self::Unavailable {
                executed: fault.executed,
                detail: fault.text,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    fn url(text: &str) -> RedisUrl {
        RedisUrl::parse(text).unwrap()
    }

    fn reply(code: &str, detail: &str) -> RedisError {
        make_extension_error(code.into(), Some(detail.into()))
    }

    #[test]
    fn a_refusal_was_not_executed_and_says_what_to_do() {
        for (code, kind, word) in [
            ("OOM", FaultKind::Memory, "CONFIG SET maxmemory"),
            ("MISCONF", FaultKind::Disk, "INFO persistence"),
            ("NOAUTH", FaultKind::Password, ":password@"),
            ("NOREPLICAS", FaultKind::NoReplicas, "min-replicas-to-write"),
            ("BUSY", FaultKind::Busy, "SCRIPT KILL"),
            ("MOVED", FaultKind::WrongTopology, "redis+cluster://"),
        ] {
            let fault = Fault::answering(&reply(code, "said"), &url("redis://:secret@h"));
            assert_eq!((fault.executed, fault.kind), (Executed::No, kind));
            assert!(fault.text.contains(word), "{fault}");
            assert!(fault.text.contains("said"), "{fault}");
            assert!(!fault.text.contains("secret"), "{fault}");
        }
    }

    #[test]
    fn a_connection_that_breaks_refuses_nothing() {
        for text in [
            // what a server that ends leaves to a client over TLS, by the name of a library
            "peer closed connection without sending TLS close_notify: docs of rustls",
            "Connection refused (os error 111)",
            "Network is unreachable (os error 101)",
        ] {
            let error = RedisError::from(std::io::Error::other(text));
            let fault = Fault::answering(&error, &url("rediss://h"));
            assert_eq!(
                (fault.executed, fault.kind),
                (Executed::Unknown, FaultKind::Lost)
            );
            // The same error while the connection was being made: nothing was sent.
            let fault = Fault::connecting(&error, &url("rediss://h"));
            assert_eq!(fault.executed, Executed::No);
        }
    }

    #[test]
    fn a_redirection_names_the_node() {
        let error = redis::parse_redis_value(b"-MOVED 3999 127.0.0.1:6381\r\n").unwrap();
        let error = error.extract_error().unwrap_err();
        let fault = Fault::answering(&error, &url("redis+cluster://h"));
        assert_eq!(fault.executed, Executed::No);
        let redirect = fault.redirect.unwrap();
        assert_eq!(redirect.address.to_string(), "127.0.0.1:6381");
        assert!(!redirect.is_ask);
    }

    #[test]
    fn what_an_older_server_wraps_is_found() {
        let script = |text: &str| {
            let text = format!("Error running script (call to f_00): @user_script:12: {text}");
            Fault::answering(&reply("ERR", &text), &url("redis://h")).kind
        };
        assert_eq!(
            script("WRONGTYPE Operation against a key"),
            FaultKind::WrongType
        );
        assert_eq!(script("-OOM command not allowed"), FaultKind::Memory);
        assert_eq!(script("attempt to index a nil value"), FaultKind::Script);
    }

    #[test]
    fn contradicting_data_is_permanent_and_the_rest_is_not() {
        let store = |code| StoreError::from(Fault::answering(&reply(code, ""), &url("redis://h")));
        let corrupt = store("WRONGTYPE");
        assert!(matches!(corrupt, StoreError::Corrupt { .. }));
        assert_eq!(corrupt.executed(), Executed::No);
        let unavailable = store("LOADING");
        assert!(matches!(
            unavailable,
            StoreError::Unavailable {
                executed: Executed::No,
                ..
            }
        ));
        let timed_out = StoreError::from(Fault::timed_out(&url("redis://h")));
        assert!(matches!(
            timed_out,
            StoreError::Unavailable {
                executed: Executed::Unknown,
                ..
            }
        ));
    }
}
