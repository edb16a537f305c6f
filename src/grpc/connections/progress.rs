//! What a connection does, when it last made progress, and what that says about it.

use std::time::Duration;

use tokio::time::Instant;

/// How long a client may take to begin to speak HTTP/2.
pub(super) const SPEAK_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may leave its answers unread.
pub(super) const UNREAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a client may leave its answers unread while all connections together hold too much.
pub(super) const UNREAD_TIME_MAX_WHEN_FULL: Duration = Duration::from_secs(1);

/// What a connection does.
pub(super) struct Work {
    pub(super) has_spoken: bool,
    /// Calls whose answer is not complete.
    pub(super) calls: usize,
    /// Those of them that are of health and reflection.
    pub(super) others: usize,
    /// Those of these that may last for ever.
    pub(super) lasting: usize,
    /// Bytes of larger requests.
    pub(super) taken: usize,
    /// Bytes of answers that are not written to the socket.
    pub(super) unsent: usize,
    /// The number of the next answer.
    pub(super) next_answer: u64,
    pub(super) left: Left,
    /// Since when there is neither a call nor an unsent answer.
    quiet_since: Instant,
    /// When an answer was sent in full; or, of the first unsent one, when it was ready.
    pub(super) sent_at: Instant,
    /// Since when the socket takes no more bytes.
    pub(super) blocked_since: Option<Instant>,
}

/// The answers that were unsent at a moment. What is left of them later shows which client reads
/// some answers and leaves others.
pub(super) struct Left {
    at: Instant,
    /// The number of the first answer that came later.
    pub(super) before: u64,
    /// The bytes of these answers that are still unsent.
    pub(super) bytes: usize,
}

/// What a connection's progress says about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its client does not do what it must.
    Bad(&'static str),
    /// Its client did not speak HTTP/2 yet.
    Mute,
    /// It has had no call for the idle time.
    Idle,
    /// It has had no call for this long.
    Quiet(Duration),
    /// It has calls.
    Working,
}

impl Work {
    /// A connection that was just accepted.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            has_spoken: false,
            calls: 0,
            others: 0,
            lasting: 0,
            taken: 0,
            unsent: 0,
            next_answer: 0,
            left: Left {
                at: now,
                before: 0,
                bytes: 0,
            },
            quiet_since: now,
            sent_at: now,
            blocked_since: None,
        }
    }

    /// How long the client has left its answers unread.
    pub(super) fn unread_time(&self, now: Instant) -> Option<Duration> {
        let unread_since = (self.unsent > 0).then_some(self.sent_at);
        let since = match (unread_since, self.blocked_since) {
            (Some(unread), Some(blocked)) => unread.min(blocked),
            (unread, blocked) => unread.or(blocked)?,
        };
        Some(now.saturating_duration_since(since))
    }

    /// The bytes of answers that the client has left for [`UNREAD_TIME_MAX_WHEN_FULL`] or longer.
    pub(super) fn left_bytes(&mut self, now: Instant) -> usize {
        if now.saturating_duration_since(self.left.at) < UNREAD_TIME_MAX_WHEN_FULL {
            return 0;
        }
        let bytes = self.left.bytes;
        if bytes == 0 {
            self.left = Left {
                at: now,
                before: self.next_answer,
                bytes: self.unsent,
            };
        }
        bytes
    }

    /// What the connection's progress says about it.
    pub(super) fn state(&self, now: Instant, idle_time: Duration) -> State {
        let quiet_time = now.saturating_duration_since(self.quiet_since);
        if self
            .unread_time(now)
            .is_some_and(|time| time >= UNREAD_TIME_MAX)
        {
            return State::Bad("its client does not read");
        }
        if !self.has_spoken {
            return match quiet_time < SPEAK_TIME_MAX {
                true => State::Mute,
                false => State::Bad("its client does not speak HTTP/2"),
            };
        }
        match self.calls == 0 && self.unsent == 0 {
            true if quiet_time >= idle_time => State::Idle,
            true => State::Quiet(quiet_time),
            false => State::Working,
        }
    }

    /// After a call or an answer ended.
    pub(super) fn ended(&mut self) {
        if self.calls == 0 && self.unsent == 0 {
            self.quiet_since = Instant::now();
        }
    }
}
