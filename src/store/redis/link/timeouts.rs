//! The bounds on waiting for a server.

use std::time::Duration;

/// For TCP, TLS and AUTH with one server, which are a few round trips.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(2);
/// For a free connection, if all are in use.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(2);
/// For an answer. It takes milliseconds, or up to two seconds behind an fsync of a slow disk.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
