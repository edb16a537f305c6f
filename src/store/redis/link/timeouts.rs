//! How long a caller waits for a server of the store.

use std::time::Duration;

/// TCP, TLS and AUTH with one server are a few round trips: one that needs longer is not there.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(2);
/// All connections are out: their calls take far longer than any should.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(2);
/// A call takes milliseconds, behind an fsync of a slow disk up to a second or two.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);
