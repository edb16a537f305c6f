//! One batch of a partition: read, compared with the cursor, written in one transaction, and given
//! up by the store.
//!
//! It may be cut off between any two of these steps. The cursor in the sink is what counts: what
//! was not committed is read again, and what was committed is not.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use thiserror::Error;
use tracing::warn;

use super::{
    activity,
    continuity::{compare, unsettled_base},
    contradiction::{Alarm, Contradiction},
    deliveries::{DeliveryChange, change, changed_win},
    entry::{self, StoredEntry},
    said::Said,
    sink::{Batch, Cursor, PrizeRow, Sink, SinkError},
    wins::{Win, draw_of, wins},
};
use crate::{
    chance::{MasterKey, Pseudonyms, Salt},
    model::{Campaign, CampaignId, Moment, money::NANOS_PER_UNIT},
    store::{Entry, Store, StoreError, Unsettled, entry::Body},
};

/// Campaigns whose pseudonyms are kept in memory.
const PSEUDONYMS_MAX: usize = 10_000;
/// Definitions that are kept in memory.
const DEFINITIONS_MAX: usize = 1000;

/// Why a batch was not settled.
#[derive(Debug, Error)]
pub enum SettleError {
    /// The sink.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The store; the other partitions may be well.
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
    /// Nothing of the partition is settled until someone has looked.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}

/// The outcome of a look at a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// There is nothing to settle.
    Nothing,
    /// Another settler was faster.
    Elsewhere,
    /// Entries were settled.
    Entries {
        /// How many.
        count: usize,
        /// When the first of them was written.
        first: Moment,
        /// Whether further ones wait.
        has_more: bool,
    },
}

/// The pseudonyms of a campaign.
struct Known {
    pseudonyms: Pseudonyms,
    /// The salt, as long as the sink does not have it.
    unwritten: Option<Salt>,
}

/// What takes entries from a store to a sink.
pub struct Carrier {
    store: Arc<dyn Store>,
    key: MasterKey,
    /// By partition and campaign; '' for all other entries of the partition.
    pseudonyms: HashMap<(u32, String), Known>,
    cursors: BTreeMap<u32, Cursor>,
    definitions: HashMap<(CampaignId, u32), Arc<Campaign>>,
    /// The store keeps entries that are settled.
    said_kept: Said,
}

impl Carrier {
    /// From this store, whose master key this is.
    pub fn new(store: Arc<dyn Store>, key: MasterKey) -> Self {
        Self {
            store,
            key,
            pseudonyms: HashMap::new(),
            cursors: BTreeMap::new(),
            definitions: HashMap::new(),
            said_kept: Said::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Reads how far everything is settled, and lets the store give up what it still has of that: a
    /// settler before this one may have ended between the two.
    ///
    /// # Errors
    /// The sink is away.
    pub async fn resume(&mut self, sink: &mut dyn Sink) -> Result<(), SinkError> {
        self.forget();
        self.cursors = sink.cursors().await?;
        sink.confirm().await?;
        for cursor in self.cursors.clone().values() {
            self.trim(cursor).await;
        }
        Ok(())
    }

    /// Forgets what was read of campaigns: the store may have another version under the same
    /// number, or a campaign under the same id.
    fn forget(&mut self) {
        self.definitions.clear();
        self.pseudonyms.clear();
    }

    /// The same of one partition.
    fn forget_partition(&mut self, partition: u32) {
        let store = &self.store;
        self.definitions
            .retain(|(id, _), _| store.partition_of(id.as_str()) != partition);
        self.pseudonyms.retain(|(of, _), _| *of != partition);
    }

    /// Lets the store give up what is settled. What it keeps because of an error is given up after
    /// the next batch.
    async fn trim(&mut self, settled: &Cursor) {
        let (partition, sequence) = (settled.partition, settled.up_to.sequence);
        match self.store.trim(partition, &settled.up_to).await {
            Ok(true) => {}
            Ok(false) if self.said_kept.is_due() => warn!(
                partition,
                "the store does not have entry {sequence} of partition {partition} any more, \
                 which is settled: nothing of the partition is given up"
            ),
            Err(error) if self.said_kept.is_due() => {
                warn!(partition, %error, "entries that are settled stay in the store for now");
            }
            Ok(false) | Err(_) => {}
        }
    }

    /// Settles the next entries of a partition.
    ///
    /// # Errors
    /// See [`SettleError`]. After an error of the sink, begin with a new one and
    /// [`Self::resume`].
    pub async fn settle(
        &mut self,
        sink: &mut dyn Sink,
        partition: u32,
    ) -> Result<Settled, SettleError> {
        let before = self.cursors.get(&partition).cloned();
        let up_to = before.as_ref().map(|cursor| &cursor.up_to);
        let read = self
            .store
            .unsettled(partition, up_to, sink.batch_entries())
            .await?;
        let mut compared = compare(before.as_ref(), &read);
        if let Ok(Some((first, settled))) = compared
            && !sink.has_entry(partition, first - 1).await?
        {
            compared = Err(unsettled_base(partition, first - 1, settled));
        }
        let orphans = match compared {
            Ok(orphans) => orphans,
            // The store may have given up entries that another settler has settled meanwhile.
            Err(contradiction) => {
                self.cursors = sink.cursors().await?;
                return if self.cursors.get(&partition) == before.as_ref() {
                    Err(contradiction.into())
                } else {
                    self.forget();
                    Ok(Settled::Elsewhere)
                };
            }
        };
        let Some(first) = read.entries.first().map(|entry| entry.at) else {
            return Ok(Settled::Nothing);
        };
        let has_more = read.has_more;
        if orphans.is_some() {
            self.forget();
        }
        let batch = self.batch(sink, partition, read, orphans).await;
        let batch = Arc::new(batch.inspect_err(|_| self.forget_partition(partition))?);
        let Some(after) = sink.write(before.as_ref(), &batch).await? else {
            self.forget();
            self.cursors = sink.cursors().await?;
            return Ok(Settled::Elsewhere);
        };
        for (campaign, _) in &batch.salts {
            if let Some(known) = self.pseudonyms.get_mut(&(partition, campaign.clone())) {
                known.unwritten = None;
            }
        }
        if !sink.trims() {
            self.trim(&after).await;
        }
        self.cursors.insert(partition, after);
        Ok(Settled::Entries {
            count: batch.entries.len(),
            first,
            has_more,
        })
    }

    async fn batch(
        &mut self,
        sink: &mut dyn Sink,
        partition: u32,
        read: Unsettled,
        orphans: Option<(u64, u64)>,
    ) -> Result<Batch, SettleError> {
        let mut batch = Batch {
            partition,
            fork: read.fork,
            orphans,
            ..Batch::default()
        };
        let mut salts = BTreeMap::new();
        for entry in &read.entries {
            let campaign = entry.subject.campaign().map_or("", CampaignId::as_str);
            let known = self.known(sink, partition, campaign).await?;
            if let Some(salt) = known.unwritten {
                salts.insert(campaign.to_owned(), salt);
            }
            batch
                .entries
                .push(StoredEntry::of(entry, &known.pseudonyms));
            batch.wins.extend(self.wins(entry).await?);
            activity::add(&mut batch.activity, entry);
            batch.deliveries.extend(self.delivery(entry).await?);
            batch.prizes.extend(self.prizes(entry).await?);
        }
        batch.salts = salts.into_iter().collect();
        batch.digest = read.entries.last().map(entry::digest).unwrap_or_default();
        Ok(batch)
    }

    /// Gives the sink's salt to a store that has none, as after a rollback: draws of personal pools
    /// follow from it too.
    async fn hand_over(&self, partition: u32, campaign: &str, salt: Salt) {
        match self.store.salt(partition, campaign, salt).await {
            Ok(kept) if kept == salt => {}
            Ok(_) => warn!(
                partition,
                campaign,
                "the salt of campaign {campaign} in the store is not the settled one: its draws of \
                 personal pools cannot be verified"
            ),
            // It does not keep anything from being settled.
            Err(error) => warn!(
                partition,
                campaign,
                %error,
                "the settled salt of campaign {campaign} is not compared with that of the store"
            ),
        }
    }

    /// The pseudonyms of a campaign. The sink's salt counts: a store that was rolled back may have
    /// made another one since.
    async fn known(
        &mut self,
        sink: &mut dyn Sink,
        partition: u32,
        campaign: &str,
    ) -> Result<&Known, SettleError> {
        let name = (partition, campaign.to_owned());
        if !self.pseudonyms.contains_key(&name) {
            let (salt, unwritten) = match sink.salt(partition, campaign).await? {
                Some(salt) => {
                    self.hand_over(partition, campaign, salt).await;
                    (salt, None)
                }
                None => {
                    let new = Salt(rand::random());
                    let salt = self.store.salt(partition, campaign, new).await?;
                    (salt, Some(salt))
                }
            };
            if self.pseudonyms.len() >= PSEUDONYMS_MAX {
                self.pseudonyms.clear();
            }
            let known = Known {
                pseudonyms: self.key.pseudonyms(campaign, &salt),
                unwritten,
            };
            self.pseudonyms.insert(name.clone(), known);
        }
        Ok(&self.pseudonyms[&name])
    }

    async fn wins(&mut self, entry: &Entry) -> Result<Vec<Win>, SettleError> {
        let (Some(id), Some(draw)) = (entry.subject.campaign(), draw_of(entry)) else {
            return Ok(Vec::new());
        };
        let campaign = self.definition(id, draw.version).await?;
        wins(entry, draw, &campaign).ok_or_else(|| {
            self.unknown_prize(
                entry,
                &format!("won what version {} of campaign {id}", draw.version),
            )
        })
    }

    fn unknown_prize(&self, entry: &Entry, what: &str) -> SettleError {
        let (partition, sequence) = (entry.id.partition, entry.id.sequence);
        let settled = self.cursors.get(&partition);
        SettleError::Contradiction(Contradiction {
            alarm: Alarm::UnknownPrize,
            partition,
            sequence: settled.map_or(0, |cursor| cursor.up_to.sequence),
            detail: format!("entry {sequence} of partition {partition} {what} does not have"),
        })
    }

    async fn delivery(&mut self, entry: &Entry) -> Result<Option<DeliveryChange>, SettleError> {
        let (Some(id), Some((win, version))) = (entry.subject.campaign(), changed_win(entry))
        else {
            return Ok(None);
        };
        let campaign = self.definition(id, version).await?;
        let change = change(entry, &campaign);
        if change.is_none() {
            let pool = win.pool.0;
            let what =
                format!("is about a win of pool {pool}, which version {version} of campaign {id}");
            return Err(self.unknown_prize(entry, &what));
        }
        Ok(change)
    }

    async fn prizes(&mut self, entry: &Entry) -> Result<Vec<PrizeRow>, SettleError> {
        let (Some(id), Body::Applied(applied)) = (entry.subject.campaign(), &entry.body) else {
            return Ok(Vec::new());
        };
        let campaign = self.definition(id, applied.version).await?;
        let prizes = campaign.prizes.iter();
        let rows = prizes.map(|prize| PrizeRow {
            campaign: id.to_string(),
            version: applied.version,
            prize: prize.id.to_string(),
            // The one character that PostgreSQL's texts cannot have.
            name: prize.name.replace('\0', ""),
            stock: prize.stock,
            value: prize.value.as_ref().map(|value| {
                let (units, nanos) = (
                    value.nanos / u128::from(NANOS_PER_UNIT),
                    value.nanos % u128::from(NANOS_PER_UNIT),
                );
                // Whole units are below 2^53.
                (value.currency.clone(), units as i64, nanos as i32)
            }),
        });
        Ok(rows.collect())
    }

    async fn definition(
        &mut self,
        id: &CampaignId,
        version: u32,
    ) -> Result<Arc<Campaign>, StoreError> {
        let key = (id.clone(), version);
        if let Some(known) = self.definitions.get(&key) {
            return Ok(Arc::clone(known));
        }
        let campaign = self.store.version(id, version).await?;
        if self.definitions.len() >= DEFINITIONS_MAX {
            self.definitions.clear();
        }
        self.definitions.insert(key, Arc::clone(&campaign));
        Ok(campaign)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        chance::Nonce,
        ledger::{DirectorySink, DirectoryTarget},
        model::{
            OperatorId, PoolNo, PrizeNo, RequestId, UserId,
            convert::{campaign_from_proto, tests::spring_wheel},
        },
        store::{
            ApplyCommand, Author, Unit, WinCommand, WinOperation, WonUnit, clock::ManualClock,
            memory::MemoryStore,
        },
    };

    fn author(request: &str) -> Author {
        Author::named(
            RequestId::parse("request", request).unwrap(),
            OperatorId::parse("operator", "o").unwrap(),
            "",
        )
    }

    /// A store in which a version came into force, and a win was delivered.
    async fn delivered(campaign: &Arc<Campaign>) -> Arc<dyn Store> {
        let clock = Arc::new(ManualClock::at(campaign.start));
        let store = MemoryStore::new(clock, Duration::from_secs(60));
        let applied = ApplyCommand {
            campaign: Arc::clone(campaign),
            base_version: 0,
            nonce: Nonce([3; 32]),
            commitment: String::new(),
            author: author("apply"),
        };
        store.apply(applied).await.unwrap();
        let unit = Unit {
            window: 1,
            fork: 0,
            number: 0,
        };
        let delivery = WinCommand {
            campaign: campaign.id.clone(),
            win: WonUnit {
                user: UserId::parse("user", "u").unwrap(),
                prize: PrizeNo(0),
                pool: PoolNo(0),
                unit,
            },
            operation: WinOperation::Deliver {
                reference: "parcel".into(),
            },
            author: author("deliver"),
        };
        store.operate_win(delivery).await.unwrap();
        Arc::new(store)
    }

    #[tokio::test]
    async fn what_was_read_for_a_batch_that_was_not_settled_is_read_again() {
        let campaign = Arc::new(campaign_from_proto(&spring_wheel()).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let target = DirectoryTarget {
            path: directory.path().into(),
            file_bytes_max: 1 << 20,
        };
        let mut sink = DirectorySink::open(&target, "memory").await.unwrap();
        let store = delivered(&campaign).await;
        let mut carrier = Carrier::new(store, MasterKey::from_bytes([7; 32]));
        carrier.resume(&mut sink).await.unwrap();
        // As if the store had lost this version, and had another one under its number since.
        let lost = Campaign {
            pools: Vec::new(),
            ..Campaign::clone(&campaign)
        };
        let version = (campaign.id.clone(), 1);
        carrier.definitions.insert(version, Arc::new(lost));
        let refused = carrier.settle(&mut sink, 0).await.unwrap_err();
        assert!(refused.to_string().starts_with("LEDGER_UNKNOWN_PRIZE"));
        let settled = carrier.settle(&mut sink, 0).await.unwrap();
        assert!(matches!(settled, Settled::Entries { count: 2, .. }));
    }
}
