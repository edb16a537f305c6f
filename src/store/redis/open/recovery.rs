//! Recovery of partitions that are halted because acknowledged entries were lost.
//!
//! Only this code can write to a halted partition; services may run meanwhile. Each part can be
//! repeated, so a recovery that was interrupted is started again.

use super::{identity::Found, open_error::OpenError};
use crate::store::redis::{
    RedisStore,
    forks::{self, Halt},
    format::{
        reply::{self, letter},
        scripts,
    },
    step::{campaign::to_json, decide::contended},
};
use crate::{
    model::{CampaignId, EnvelopeId},
    store::{
        Author, Executed, Lifecycle, Result, Store as _, StoreError,
        entry::Body,
        withdrawal::{Withdrawn, withdraw_due},
    },
};

/// Campaigns or envelopes that are read at a time.
const PAGE: usize = 100;

/// A store on Redis, opened to let halted partitions go on.
pub struct Recovery {
    store: RedisStore,
}

/// A partition that is halted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltedPartition {
    /// Its number, from 0.
    pub partition: u32,
    /// Why.
    pub halt: Halt,
    /// Its campaigns that are not closed.
    pub campaigns: Vec<CampaignId>,
    /// Its envelopes that are not settled.
    pub envelopes: Vec<EnvelopeId>,
}

impl Recovery {
    /// Opens the store that was found; it needs no master key, since it fills no pool.
    ///
    /// # Errors
    /// There is no store.
    pub fn open(found: Found) -> std::result::Result<Self, OpenError> {
        let store_id = found.whole_id()?;
        Ok(Self {
            store: RedisStore::of(found, store_id, true),
        })
    }

    /// The id of the store.
    pub fn store_id(&self) -> &str {
        &self.store.core.store_id
    }

    /// The partitions that are halted.
    ///
    /// # Errors
    /// Redis cannot be read.
    pub async fn halted(&self) -> Result<Vec<HaltedPartition>> {
        let mut halted = Vec::new();
        for keys in &self.store.core.partitions {
            let mut command = redis::cmd("HGET");
            command.arg(&keys.partition).arg("halt");
            let field = self.store.core.ask_command(&command).await?;
            if let Some(text) = reply::maybe_bytes(field)? {
                let halt = Halt::parse(&String::from_utf8_lossy(&text))?;
                halted.push(HaltedPartition {
                    partition: keys.number,
                    halt,
                    campaigns: self.campaigns(keys.number).await?,
                    envelopes: self.envelopes(keys.number).await?,
                });
            }
        }
        Ok(halted)
    }

    async fn campaigns(&self, partition: u32) -> Result<Vec<CampaignId>> {
        let mut campaigns = Vec::<CampaignId>::new();
        let mut after: Option<CampaignId> = None;
        loop {
            let from = after.as_ref().map(CampaignId::as_str);
            let page = self.store.core.campaign_ids(partition, from, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(campaigns);
            };
            after = Some(last.clone());
            for id in page {
                if self.store.campaign(&id).await?.lifecycle != Lifecycle::Closed {
                    campaigns.push(id);
                }
            }
        }
    }

    async fn envelopes(&self, partition: u32) -> Result<Vec<EnvelopeId>> {
        let keys = &self.store.core.partitions[partition as usize];
        let mut command = redis::cmd("ZRANGE");
        command.arg(&keys.open_envelopes).arg(0).arg(-1);
        let ids = reply::list(self.store.core.ask_command(&command).await?)?;
        ids.into_iter()
            .map(|id| {
                EnvelopeId::parse("envelope", &reply::text(id)?)
                    .map_err(|problem| StoreError::corrupt(problem.message))
            })
            .collect()
    }

    /// Withdraws every unit that could be won when the loss was noticed, so that none can be won
    /// twice, and ends the open envelopes: what nobody has grabbed is refunded.
    ///
    /// # Errors
    /// Redis cannot be written. What was withdrawn stays so; try again.
    pub async fn withdraw_due(
        &self,
        halted: &HaltedPartition,
        author: &Author,
    ) -> Result<Withdrawn> {
        let (campaigns, envelopes) = (&halted.campaigns, &halted.envelopes);
        let until = halted.halt.noticed_at;
        withdraw_due(&self.store, campaigns, envelopes, until, author).await
    }

    /// Lets the partition go on without the lost entries.
    ///
    /// # Errors
    /// Redis cannot be written, or the partition is halted for another reason by now: read the
    /// halted partitions again.
    pub async fn go_on(&self, halted: &HaltedPartition, author: &Author) -> Result<()> {
        let core = &self.store.core;
        let partition = &core.partitions[halted.partition as usize];
        let entry = to_json(&Body::Recovered {
            halt: halted.halt.text.clone(),
            author: author.clone(),
        });
        let keys = [partition.partition.clone(), partition.ledger.clone()];
        let args: [Vec<u8>; 5] = [
            halted.halt.text.clone().into(),
            forks::random_part().to_string().into(),
            forks::random_mark().to_string().into(),
            core.fork_pause.as_micros().to_string().into(),
            entry,
        ];
        let (_, mut parts) = core.run(partition, &scripts::RECOVER, keys, args).await?;
        match letter(&parts.next()?) {
            Some(b'S') => Err(contended().with_executed(Executed::No)),
            _ => Ok(()),
        }
    }
}
