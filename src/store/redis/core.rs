//! What every call to Redis goes through: the script with the store's identity before it, the clock and the loss of data after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{error, warn};

use super::{
    campaign::Layouts,
    connect::Connections,
    envelopes::KnownEnvelopes,
    keys::{PartitionKeys, partition_of},
    level::Level,
    reply::{Parts, moment, text},
    script::Script,
    words::Words,
};
use crate::{
    model::{CampaignId, EnvelopeId, Moment},
    store::{
        Executed, Result, StoreError,
        clock::{Clock, SystemClock},
    },
};

/// A reply that took longer says little of the store's clock, but for how far off it is at least.
const PROMPT: Duration = Duration::from_millis(250);
/// Two clocks that differ by more than this are told of.
const SKEW_TOLD: Duration = Duration::from_secs(1);

/// A store on Redis.
pub(super) struct Core {
    pub(super) connections: Connections,
    pub(super) partitions: Vec<Arc<PartitionKeys>>,
    pub(super) store_id: String,
    pub(super) clock: StoreClock,
    pub(super) request_memory: Duration,
    pub(super) layouts: Layouts,
    pub(super) envelopes: KnownEnvelopes,
    /// The log has told that data are lost.
    pub(super) has_told_loss: AtomicBool,
    pub(super) level: Level,
}

impl Core {
    /// The partition of a campaign.
    pub(super) fn partition(&self, id: &CampaignId) -> &Arc<PartitionKeys> {
        self.partition_of(id.as_str())
    }

    /// The partition of an envelope.
    pub(super) fn envelope_partition(&self, id: &EnvelopeId) -> &Arc<PartitionKeys> {
        self.partition_of(id.as_str())
    }

    fn partition_of(&self, id: &str) -> &Arc<PartitionKeys> {
        let partitions = u32::try_from(self.partitions.len()).unwrap_or(1);
        &self.partitions[partition_of(id, partitions) as usize]
    }

    /// Runs a script: `args` come after the clock and the store's id. Gives the store's time and what the reply holds after it.
    /// What it wrote or repeats is then as durable as the store promises.
    pub(super) async fn run(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        self.call(partition, script, keys, args, true).await
    }

    async fn call(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
        is_kept: bool,
    ) -> Result<(Moment, Parts)> {
        let sent = Instant::now();
        let (keys, args) = (keys.into(), args.into());
        let mut all = Words::with_capacity(args.len() + 2, args.size() + 64);
        all.push(self.clock.argument(partition.number));
        all.push(&self.store_id);
        all.append(&args);
        let reply = if is_kept {
            self.connections.write(script, &keys, &all).await?
        } else {
            self.connections.run(script, &keys, &all).await?
        };
        let mut parts = Parts::of(reply)?;
        let now = moment(parts.next()?)?;
        self.clock.learn(partition.number, now, sent.elapsed());
        Ok((now, parts))
    }

    /// The same of a script that only reads: whatever goes wrong, nothing happened.
    pub(super) async fn ask(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        let answer = self.call(partition, script, keys, args, false).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }

    /// The same of a script that repeats what was written: that is then as durable as the store promises.
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

    /// Runs a command that only reads, and whose first argument is its key: whatever goes wrong, nothing happened.
    pub(super) async fn ask_command(&self, command: &redis::Cmd) -> Result<redis::Value> {
        let key = match command.args_iter().nth(1) {
            Some(redis::Arg::Simple(key)) => key,
            _ => &[],
        };
        let answer = self.connections.command_on(key, command).await;
        answer.map_err(|fault| StoreError::from(fault).with_executed(Executed::No))
    }

    /// The data are not those of the store that this service began with.
    pub(super) fn lost(&self) -> StoreError {
        let id = &self.store_id;
        if !self.has_told_loss.swap(true, Ordering::Relaxed) {
            error!(store = %id, "Redis has lost the data of store {id}, or holds those of another one");
        }
        StoreError::Unavailable {
            executed: Executed::No,
            detail: format!(
                "Redis has lost the data of store {id}, or holds those of another one; nothing is written: restore \
                 them, then go on; to begin anew, restart the service"
            ),
        }
    }
}

/// The second part of a reply, where it is a letter that says why there is nothing else.
pub(super) fn letter(value: &redis::Value) -> Option<u8> {
    match value {
        redis::Value::BulkString(bytes) if bytes.len() == 1 => Some(bytes[0]),
        redis::Value::SimpleString(text) if text.len() == 1 => Some(text.as_bytes()[0]),
        _ => None,
    }
}

/// The time of Redis as the service knows it.
pub(super) struct StoreClock {
    test: Option<Arc<dyn Clock>>,
    /// Microseconds that the store's clock is ahead of the service's.
    ahead: AtomicI64,
    /// The last moment that each partition told.
    told: Vec<AtomicI64>,
    last: AtomicI64,
}

impl StoreClock {
    /// The real time of Redis, or a test clock instead.
    pub(super) fn new(test: Option<Arc<dyn Clock>>, partitions: usize) -> Self {
        Self {
            test,
            ahead: AtomicI64::new(0),
            told: (0..partitions).map(|_| AtomicI64::new(0)).collect(),
            last: AtomicI64::new(0),
        }
    }

    /// What scripts are told of it: the moment that no step of the partition may come before, or that of a test clock.
    pub(super) fn argument(&self, partition: u32) -> Vec<u8> {
        let told = self.told[partition as usize].load(Ordering::Relaxed);
        match &self.test {
            Some(clock) => format!("={}", clock.now().as_micros().max(told)).into(),
            None => told.to_string().into(),
        }
    }

    /// About the store's time, never behind what it told. An estimate itself binds nobody: where the service's clock jumps ahead
    /// and comes back, so does this.
    pub(super) fn hint(&self) -> Moment {
        let now = match &self.test {
            Some(clock) => clock.now().as_micros(),
            None => SystemClock.now().as_micros() + self.ahead.load(Ordering::Relaxed),
        };
        Moment::from_micros(now.max(self.last.load(Ordering::Relaxed)))
    }

    /// The last moment that a partition told; an estimate where it has told none.
    pub(super) fn told(&self, partition: u32) -> Moment {
        match self.told[partition as usize].load(Ordering::Relaxed) {
            0 => self.hint(),
            told => Moment::from_micros(told),
        }
    }

    /// A partition has just told the time, in a reply that took so long.
    pub(super) fn learn(&self, partition: u32, now: Moment, took: Duration) {
        self.told[partition as usize].fetch_max(now.as_micros(), Ordering::Relaxed);
        self.last.fetch_max(now.as_micros(), Ordering::Relaxed);
        if self.test.is_some() {
            return;
        }
        let ahead = now.as_micros() - SystemClock.now().as_micros();
        let before = self.ahead.load(Ordering::Relaxed);
        if took > PROMPT && i128::from(ahead.abs_diff(before)) <= took.as_micros().cast_signed() {
            return;
        }
        self.ahead.store(ahead, Ordering::Relaxed);
        if ahead.abs_diff(before) > SKEW_TOLD.as_micros() as u64 {
            let skew_ms = ahead / 1000;
            warn!(
                skew_ms,
                "the clock of Redis is now {skew_ms} ms ahead of the service's: it, or the service's, has been set; \
                 draws go by that of Redis"
            );
        }
    }
}

/// The text of a part that says what is wrong.
pub(super) fn told(value: redis::Value) -> String {
    text(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    /// How far the hint is ahead of this machine's clock, in whole days.
    fn days_ahead(clock: &StoreClock) -> i64 {
        let ahead = clock.hint().as_micros() - SystemClock.now().as_micros();
        (ahead + DAY / 2).div_euclid(DAY)
    }

    #[test]
    fn a_wrong_estimate_lasts_until_the_store_tells_its_time() {
        let clock = StoreClock::new(None, 2);
        // As if this machine's clock had jumped three days ahead since the last reply.
        clock.ahead.store(3 * DAY, Ordering::Relaxed);
        assert_eq!(days_ahead(&clock), 3);
        clock.learn(0, SystemClock.now(), Duration::ZERO);
        assert_eq!(days_ahead(&clock), 0);
    }

    #[test]
    fn a_slow_reply_still_tells_of_a_clock_that_is_days_off() {
        let clock = StoreClock::new(None, 1);
        clock.learn(
            0,
            SystemClock.now() + Duration::from_secs(2 * 86_400),
            PROMPT * 4,
        );
        assert_eq!(days_ahead(&clock), 2);
    }

    #[test]
    fn each_partition_goes_by_what_it_told_itself() {
        let clock = StoreClock::new(None, 2);
        let (behind, ahead) = (Moment::from_micros(DAY), Moment::from_micros(9 * DAY));
        clock.learn(0, behind, Duration::ZERO);
        clock.learn(1, ahead, Duration::ZERO);
        assert_eq!((clock.told(0), clock.told(1)), (behind, ahead));
    }
}
