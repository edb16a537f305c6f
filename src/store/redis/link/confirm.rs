//! The confirmation of replicas that `--durability strict` waits for: `WAITAOF` on servers that
//! have it, else `WAIT`.
//!
//! Both count only up to what *this connection* wrote last, so they go over the connection of the
//! write, which nobody else uses meanwhile. A replica confirms what it had on disk at the end of
//! its previous turn and otherwise speaks once a second; each `WAITAOF` asks it anew. A server
//! looks at the time-outs of those that wait only when something wakes it, up to a tenth of a
//! second later. So it is asked again and again on the same connection without waiting for the
//! answer before, which also wakes it.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::{fault::Fault, lease::Lease, url::RedisUrl};

/// How long replicas have to confirm a write.
const CONFIRM_MAX: Duration = Duration::from_millis(2500);
/// After this, and each time after twice as long, it is asked again.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(3);
const ASK_AGAIN_MAX: Duration = Duration::from_millis(100);
/// How long the count at the end may take.
const COUNT_MAX: Duration = Duration::from_millis(500);

/// How many replicas must confirm a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    /// As many as an operator said.
    pub(crate) named: Option<u32>,
    /// All replicas of a cluster's shard, since only masters vote there.
    pub(crate) is_cluster: bool,
}

impl Quorum {
    /// Of so many replicas, dead ones counted; none if there are no replicas. `eligible` are those
    /// of which Sentinel may promote any.
    ///
    /// With Sentinel the replicas make at least a majority of all nodes together with the primary:
    /// when the primary dies, the replica with the highest offset is promoted, and has all that was
    /// confirmed. In a planned failover any replica may be, while the others still follow and
    /// confirm what the old primary writes. So all that are alive are waited for.
    pub(crate) fn of(self, replicas: u32, eligible: u32) -> Option<u32> {
        if let Some(named) = self.named {
            return Some(named);
        }
        match (replicas, self.is_cluster) {
            (0, _) => None,
            (all, true) => Some(all),
            (some, false) => Some(some.div_ceil(2).max(eligible)),
        }
    }
}

/// Waits until so many replicas have what this connection wrote last.
pub(crate) async fn confirm(
    lease: &mut Lease<'_>,
    needed: u32,
    url: &RedisUrl,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let has_waitaof = lease.has_waitaof();
    let mut pause = ASK_AGAIN_FIRST;
    loop {
        // The last time it only counts, which takes no wait.
        let is_last = begun.elapsed() >= CONFIRM_MAX;
        let cmd = wait(has_waitaof, if is_last { 0 } else { needed }, pause);
        let asked = lease
            .call_within(&cmd, if is_last { COUNT_MAX } else { pause })
            .await;
        let mut counts = Counts::default();
        if let Some(value) = asked.map_err(Fault::afterwards)? {
            counts = Counts::read(&value, has_waitaof).map_err(|fault| lease.give_up(fault))?;
            if counts.suffice(needed) {
                return Ok(());
            }
        }
        if is_last {
            let said = format!(
                "{counts}, {needed} needed, waited {} ms; retry with the same request id",
                CONFIRM_MAX.as_millis()
            );
            return Err(lease.give_up(Fault::unconfirmed(&said, url)));
        }
        pause = (pause * 2).min(ASK_AGAIN_MAX);
    }
}

fn wait(has_waitaof: bool, replicas: u32, most: Duration) -> Cmd {
    let mut cmd = redis::cmd(if has_waitaof { "WAITAOF" } else { "WAIT" });
    if has_waitaof {
        cmd.arg(u32::from(replicas > 0));
    }
    // Zero would wait for ever.
    cmd.arg(replicas).arg(most.as_millis().max(1) as u64);
    cmd
}

/// Who has a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// The primary has it on disk, as far as it says so.
    is_local: bool,
    replicas: u32,
}

impl Counts {
    fn read(value: &Value, has_waitaof: bool) -> Result<Self, Fault> {
        let read = if has_waitaof {
            redis::from_redis_value_ref::<(u32, u32)>(value)
        } else {
            // With AOF always the script's reply came after the write to disk.
            redis::from_redis_value_ref::<u32>(value).map(|replicas| (1, replicas))
        };
        let (local, replicas) = read.map_err(|_| Fault::protocol("WAIT gives no numbers"))?;
        Ok(Self {
            is_local: local >= 1,
            replicas,
        })
    }

    fn suffice(self, needed: u32) -> bool {
        self.is_local && self.replicas >= needed
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let replicas = self.replicas;
        write!(f, "{replicas} replicas confirmed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_and_the_primary_are_a_majority_of_all_nodes() {
        let quorum = |named, is_cluster| Quorum { named, is_cluster };
        let of = |quorum: Quorum| [0, 1, 2, 3, 4].map(|replicas| quorum.of(replicas, 0));
        assert_eq!(
            of(quorum(None, false)),
            [None, Some(1), Some(1), Some(2), Some(2)]
        );
        assert_eq!(
            of(quorum(None, true)),
            [None, Some(1), Some(2), Some(3), Some(4)]
        );
        assert_eq!(of(quorum(Some(2), false)), [Some(2); 5]);
        assert_eq!(quorum(None, false).of(2, 2), Some(2), "any may be promoted");
        assert_eq!(quorum(Some(1), false).of(2, 2), Some(1));
    }

    #[test]
    fn both_counts_are_checked() {
        let counts = |local, replicas| {
            let value = Value::Array(vec![Value::Int(local), Value::Int(replicas)]);
            Counts::read(&value, true).unwrap()
        };
        assert!(counts(1, 2).suffice(2));
        assert!(!counts(0, 2).suffice(2));
        assert!(!counts(1, 1).suffice(2));
        assert!(Counts::read(&Value::Int(1), false).unwrap().suffice(1));
        assert!(Counts::read(&Value::Okay, false).is_err());
    }
}
