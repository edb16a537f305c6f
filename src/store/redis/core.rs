//! What every call to Redis goes through: the script with the store's identity before it, the clock and the loss of data after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::error;

use super::{
    campaign::Layouts,
    clock::StoreClock,
    connect::Connections,
    envelopes::KnownEnvelopes,
    keys::{PartitionKeys, partition_of},
    reply::{Parts, moment, text},
    script::Script,
    words::Words,
};
use crate::{
    model::{CampaignId, EnvelopeId, Moment},
    store::{Executed, Result, StoreError},
};

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
    pub(super) async fn run(
        &self,
        partition: &PartitionKeys,
        script: &Script,
        keys: impl Into<Words>,
        args: impl Into<Words>,
    ) -> Result<(Moment, Parts)> {
        let sent = Instant::now();
        let (keys, args) = (keys.into(), args.into());
        let mut all = Words::with_capacity(args.len() + 2, args.size() + 64);
        all.push(self.clock.argument(partition.number));
        all.push(&self.store_id);
        all.append(&args);
        let mut parts = Parts::of(self.connections.run(script, &keys, &all).await?)?;
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
        let answer = self.run(partition, script, keys, args).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }

    /// Runs a command that only reads: whatever goes wrong, nothing happened.
    pub(super) async fn ask_command(&self, command: &redis::Cmd) -> Result<redis::Value> {
        let answer = self.connections.command(command).await;
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
                 them, then go on; `tombola init --begin-anew {id}` gives them up"
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

/// The text of a part that says what is wrong.
pub(super) fn told(value: redis::Value) -> String {
    text(value).unwrap_or_default()
}
