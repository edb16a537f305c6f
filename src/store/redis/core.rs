//! Every call to Redis goes through this file. It adds the clock, the store's id and the witnesses
//! to a script's arguments, and takes the clock and any loss of data from the reply.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, time::sleep};
use tracing::{error, warn};

use super::{
    clock::StoreClock,
    draw::RecentProgress,
    envelopes::KnownEnvelopes,
    forks::{self, Halt, Head, Refused, Witnesses},
    format::{
        keys::{Key, PartitionKeys, partition_of},
        reply::Parts,
        script::Script,
        scripts,
        version::FORMAT,
        words::Words,
    },
    level::Level,
    link::connect::Connections,
    memory::Trend,
    step::layout::Layouts,
};
use crate::{
    metrics::STORE,
    model::{CampaignId, EnvelopeId, Moment},
    store::{Executed, Result, StoreError, Trouble},
    trace::{self, Operation},
};

/// How often a script is tried while its partition forks. Each round records a fork or waits for
/// one to open.
const FORK_ROUNDS_MAX: usize = 8;

/// Connections to each server beside those of the lanes.
pub(super) const OTHER_CONNECTIONS: usize = 32;
/// Campaigns that all lists together read at the same time. The rest of these connections is for
/// whatever else is done meanwhile.
pub(super) const LIST_READS_MAX: usize = OTHER_CONNECTIONS / 2;

/// A store on Redis.
pub(super) struct Core {
    pub(super) connections: Connections,
    pub(super) partitions: Vec<Arc<PartitionKeys>>,
    pub(super) store_id: String,
    pub(super) clock: StoreClock,
    pub(super) request_memory: Duration,
    /// The bound of the backlog, as scripts take it.
    pub(super) backlog: RwLock<Arc<str>>,
    /// This service settles the ledger.
    pub(super) settles: AtomicBool,
    pub(super) memory: Trend,
    pub(super) layouts: Layouts,
    /// How often what was read of campaigns and envelopes was forgotten.
    pub(super) rollback_mark: AtomicU64,
    pub(super) recent: RecentProgress,
    /// Turns for the campaigns that lists read: all lists share a few connections of the pool.
    pub(super) list_turns: Arc<Semaphore>,
    pub(super) envelopes: KnownEnvelopes,
    /// The log already says that data are lost.
    pub(super) has_logged_loss: AtomicBool,
    pub(super) witnesses: Witnesses,
    /// How long a fork waits before it takes writes.
    pub(super) fork_pause: Duration,
    /// The store was opened by `tombola recover`, which works in halted partitions.
    pub(super) is_recovery: bool,
    /// Partitions that failed the last probe.
    pub(super) troubles: Mutex<Vec<Trouble>>,
    pub(super) level: Level,
}

/// Whether a call waits until what the script wrote or repeats is as durable as the store promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    No,
}

/// The result of one try of a script.
pub(super) enum Attempt {
    /// It ran; the parts of the reply after its head.
    Done(Parts),
    /// Another server serves the partition: the fork must be recorded first.
    Forked,
    /// The partition's fork opens after this time.
    Opens(Duration),
}

/// The error after the data were upgraded while this service ran.
fn newer(format: u32) -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: format!(
            "the data in Redis were upgraded to format {format}, and this service reads only up to \
             format {FORMAT}: replace it by the newer version"
        ),
    }
}

impl Core {
    /// The bound of the backlog, as scripts take it.
    pub(super) fn backlog_argument(&self) -> Arc<str> {
        let backlog = self.backlog.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&backlog)
    }

    /// Partitions that failed the last probe, or of which a call has found since that they are
    /// halted.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let mut troubles = self.witnesses.halted();
        let probed = self.troubles.lock();
        for trouble in probed.unwrap_or_else(PoisonError::into_inner).iter() {
            if troubles
                .iter()
                .all(|other| other.partition != trouble.partition)
            {
                troubles.push(trouble.clone());
            }
        }
        troubles.sort_unstable_by_key(|trouble| trouble.partition);
        troubles
    }

    /// The partition of a campaign.
    pub(super) fn partition(&self, id: &CampaignId) -> &Arc<PartitionKeys> {
        self.partition_of(id.as_str())
    }

    /// The partition of an envelope.
    pub(super) fn envelope_partition(&self, id: &EnvelopeId) -> &Arc<PartitionKeys> {
        self.partition_of(id.as_str())
    }

    /// The partition of a campaign or an envelope.
    pub(super) fn partition_of(&self, id: &str) -> &Arc<PartitionKeys> {
        partition_of(id, &self.partitions)
    }

    /// Runs a script and returns the store's time and the parts of the reply after its head. `args`
    /// follow the clock, the store's id and the witnesses. What the script wrote or repeats is then
    /// as durable as the store promises. If there is a new fork, this records it and waits until it
    /// takes writes.
    pub(super) async fn run(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        self.call(partition, script, keys, args, Kept::Yes).await
    }

    async fn call(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
        kept: Kept,
    ) -> Result<(Moment, Parts)> {
        let (keys, args) = (keys.into(), args.into());
        for _ in 0..FORK_ROUNDS_MAX {
            match self.attempt(partition, script, &keys, &args, kept).await? {
                (now, Attempt::Done(parts)) => return Ok((now, parts)),
                (_, Attempt::Forked) => Box::pin(self.record_fork(partition)).await?,
                (_, Attempt::Opens(after)) => sleep(after.min(self.fork_pause)).await,
            }
        }
        Err(StoreError::Unavailable {
            executed: Executed::No,
            detail: format!(
                "partition {} is served by one server after another: see that Redis has one \
                 primary",
                partition.number
            ),
        })
    }

    /// Runs a script once.
    pub(super) async fn attempt(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: &Words,
        args: &Words,
        kept: Kept,
    ) -> Result<(Moment, Attempt)> {
        let number = partition.number;
        let witnesses = self.witnesses.get(number);
        let mut all = Words::with_capacity(args.len() + 2, args.size() + 128);
        all.push(self.clock.argument(number));
        all.push(if self.is_recovery {
            forks::recovering_identity(&self.store_id)
        } else {
            forks::identity(&self.store_id, &witnesses)
        });
        all.append(args);
        let span = trace::for_call(Operation::Script(script.name()));
        let sent = Instant::now();
        let reply = match kept {
            Kept::Yes if self.level.awaits_replicas() => {
                self.connections.write(script, keys, &all).await
            }
            Kept::Yes | Kept::No => self.connections.run(script, keys, &all).await,
        };
        let reply = reply.map_err(StoreError::from);
        if let Some(span) = span {
            span.end(reply.as_ref().err().map(StoreError::kind));
        }
        let reply = reply?;
        STORE.call_s.observe(sent.elapsed().as_secs_f64());
        // The script has run, and perhaps written.
        let mut parts = Parts::of(reply).map_err(StoreError::after_write)?;
        let head = parts.next().and_then(Head::read);
        let head = head.map_err(StoreError::after_write)?;
        let now = head.now;
        self.clock.learn(number, now, sent.elapsed());
        let attempt = match Refused::read(&mut parts).map_err(StoreError::after_write)? {
            None => {
                self.witnesses.learn(number, &witnesses, &head);
                parts.fork = head.replid;
                Attempt::Done(parts)
            }
            Some(Refused::Forked) => {
                self.forget_read();
                Attempt::Forked
            }
            Some(Refused::Opens(after)) => {
                self.forget_read();
                Attempt::Opens(after)
            }
            Some(Refused::Lost) => return Err(self.lost()),
            Some(Refused::Halted(halt)) => return Err(self.halted(number, &halt)),
            Some(Refused::Newer(format)) => return Err(newer(format)),
        };
        Ok((now, attempt))
    }

    /// Records that another server serves the partition, unless another service has done so.
    pub(super) async fn record_fork(&self, partition: &PartitionKeys) -> Result<()> {
        let keys = [partition.partition.clone(), partition.ledger.clone()].into();
        let (random, pause) = (forks::random_part(), self.fork_pause.as_micros());
        let args = [random.to_string(), pause.to_string()].into();
        let fork = self
            .attempt(partition, &scripts::FORK, &keys, &args, Kept::Yes)
            .await;
        let (_, attempt) = fork.map_err(|error| error.with_executed(Executed::No))?;
        if let Attempt::Done(_) = attempt {
            STORE.forks.inc();
            let number = partition.number;
            warn!(
                partition = number,
                "partition {number} is served by another Redis server, or by one that was \
                 restarted: draws go on once all services had time to say what they have \
                 acknowledged"
            );
        }
        Ok(())
    }

    /// Forgets what was read of campaigns and envelopes. Entries may be lost that made one of them,
    /// and others may be made under the same id, a campaign with the same version.
    fn forget_read(&self) {
        self.rollback_mark.fetch_add(1, Ordering::Relaxed);
        self.layouts.clear();
        self.envelopes.clear();
    }

    /// The error of a partition whose acknowledged entries are lost; logs it the first time.
    fn halted(&self, partition: u32, halt: &Halt) -> StoreError {
        let error = forks::halted(partition, halt);
        if self.witnesses.is_news(partition, &error.to_string()) {
            self.forget_read();
            error!(partition, "{error}");
        }
        error
    }

    /// As [`Self::run`], for a script that only reads: every error says that nothing happened.
    pub(super) async fn ask(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        let answer = self.call(partition, script, keys, args, Kept::No).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }

    /// As [`Self::ask`], for a script that repeats what was written: that is then as durable as the
    /// store promises.
    pub(super) async fn ask_kept(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        let answer = self.run(partition, script, keys, args).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }

    /// What earlier steps have left for their retries in a field of some hashes: a part for each
    /// hash. If there is something, it is as durable as the store promises. For an entry that is
    /// then acknowledged, call [`Witnesses::repeat`]. An error once this was sent says `unknown`:
    /// an earlier step may have left something.
    pub(super) async fn recall(
        &self,
        partition: &PartitionKeys,
        hashes: &[Key],
        field: &[u8],
    ) -> Result<Parts> {
        let keys = std::iter::once(&partition.partition).chain(hashes);
        let (_, parts) = self.run(partition, &scripts::RECALL, keys, [field]).await?;
        Ok(parts)
    }

    /// Runs a command that only reads, and whose first argument is its key: every error says that
    /// nothing happened.
    pub(super) async fn ask_command(&self, command: &redis::Cmd) -> Result<redis::Value> {
        let key = match command.args_iter().nth(1) {
            Some(redis::Arg::Simple(key)) => key,
            _ => &[],
        };
        let answer = self.connections.command_on(key, command).await;
        answer.map_err(|fault| StoreError::from(fault).with_executed(Executed::No))
    }

    /// The error if the data are not those of the store that this service began with; logs it the
    /// first time.
    pub(super) fn lost(&self) -> StoreError {
        let id = &self.store_id;
        if !self.has_logged_loss.swap(true, Ordering::Relaxed) {
            error!(store = %id, "Redis has lost the data of store {id}, or holds those of another \
                                 one");
        }
        StoreError::Unavailable {
            executed: Executed::No,
            detail: format!(
                "Redis has lost the data of store {id}, or holds those of another one; nothing is \
                 written: restore them, then go on; `tombola init --begin-anew {id}` gives them \
                 up"
            ),
        }
    }
}
