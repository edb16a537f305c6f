//! The confirmation of replicas that `--durability strict` waits for: `WAITAOF` on servers that
//! have it, else `WAIT`.
//!
//! Both commands count the replicas that have what *this connection* wrote last. So they go over
//! the connection of the write, which nobody else uses meanwhile.
//!
//! One `WAITAOF` is not enough. A replica reports what it had on disk some time ago, and by itself
//! reports only once a second; each further `WAITAOF` makes it report again. And a server notices
//! that the time of a waiting client is over only when something wakes it, up to a tenth of a
//! second late. So `WAITAOF` is sent several times on the same connection, without waiting for the
//! earlier answers; each one wakes server and replicas.

use std::time::{Duration, Instant};

use redis::{Cmd, Value};

use super::{fault::Fault, lease::Lease, url::RedisUrl};

/// How long replicas have to confirm a write.
const CONFIRM_MAX: Duration = Duration::from_millis(2500);
/// The first pause before the command is sent again; each further one is twice as long, up to the
/// second constant.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(3);
const ASK_AGAIN_MAX: Duration = Duration::from_millis(100);
/// How long the last command may take, which only counts.
const COUNT_MAX: Duration = Duration::from_millis(500);

/// How many replicas must confirm a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    /// The number that an operator set.
    pub(crate) named: Option<u32>,
    /// In a cluster all replicas must confirm, since only masters vote on a promotion there.
    pub(crate) is_cluster: bool,
}

impl Quorum {
    /// How many of `replicas`, dead ones included, must confirm; none if there are no replicas.
    /// `eligible` is the number of replicas that Sentinel may promote in a planned failover.
    ///
    /// With Sentinel, the confirming replicas and the primary are a majority of all nodes. When the
    /// primary dies, the replica with the most data is promoted, which has all that was confirmed.
    /// In a planned failover any replica may be promoted, while others still confirm what the old
    /// primary writes. So all replicas that are alive must confirm.
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

/// Waits until `needed` replicas have what this connection wrote last.
pub(crate) async fn confirm(
    lease: &mut Lease<'_>,
    needed: u32,
    url: &RedisUrl,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let has_waitaof = lease.has_waitaof();
    // A server without `WAITAOF` moves the connection's target with every command, `WAIT` included:
    // a repeated `WAIT` also waits for what other clients wrote since. While others write, slow
    // replicas would never reach it. So `WAIT` is sent once, and once more to count.
    let mut pause = if has_waitaof {
        ASK_AGAIN_FIRST
    } else {
        CONFIRM_MAX
    };
    let mut counts = Counts::default();
    loop {
        // The last command only counts, without a wait.
        let is_last = begun.elapsed() >= CONFIRM_MAX;
        let cmd = wait(has_waitaof, if is_last { 0 } else { needed }, pause);
        let asked = lease
            .call_within(&cmd, if is_last { COUNT_MAX } else { pause })
            .await;
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
    // Zero means no limit.
    cmd.arg(replicas).arg(most.as_millis().max(1) as u64);
    cmd
}

/// How many servers have a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// The primary has it on disk.
    is_local: bool,
    replicas: u32,
}

impl Counts {
    fn read(value: &Value, has_waitaof: bool) -> Result<Self, Fault> {
        let read = if has_waitaof {
            redis::from_redis_value_ref::<(u32, u32)>(value)
        } else {
            // With appendfsync always, the script's reply came after the write to disk.
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
