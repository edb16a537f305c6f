//! The audit: the promises recomputed from the entries of the ledger, and from nothing else.
//!
//! [`Audit`] is given every entry, each partition in order. It keeps its own books of units,
//! amounts and users, and compares them with what the store said of itself: [`StoreSums`] name the
//! entry up to which they count, so the comparison is exact while draws go on. It does not
//! read anything by itself: [`run`] feeds it from a sink.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::Arc,
};

mod acts;
mod approvals;
mod books;
mod codes;
mod envelopes;
mod findings;
#[cfg(test)]
mod guarantees_tests;
mod journal;
mod names;
mod numbers;
mod order;
mod own;
#[cfg(test)]
mod own_tests;
pub mod run;
pub mod source;
#[cfg(test)]
mod tests;
mod units;
mod users;

pub use books::{Books, PoolSums, PrizeSums};
pub use findings::{Check, Finding, Findings};

use self::{
    envelopes::Envelopes,
    order::Order,
    users::{CampaignNo, Users},
};
use crate::{
    chance::Seed,
    ledger::chain::Chain,
    model::{Campaign, CampaignId},
    store::{Entry, EnvelopeSums, LedgerId, Stats, Subject, view::DrawCounts},
};

/// What the store says of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSums {
    /// The last entry of the campaign's partition that it counts.
    pub head: LedgerId,
    /// By prize id.
    pub prizes: BTreeMap<String, PrizeSums>,
    /// Draws by how they came out.
    pub draws: DrawCounts,
}

impl StoreSums {
    /// Of statistics.
    pub fn of(stats: &Stats) -> Self {
        let campaign = &stats.view.campaign;
        let prizes = campaign.prizes.iter().zip(&stats.prizes);
        let prizes = prizes.map(|(prize, stats)| {
            let sums = PrizeSums {
                stock: stats.stock,
                left: stats.left,
                waiting: stats.waiting,
                won: stats.won,
                withdrawn: stats.withdrawn,
            };
            (prize.id.to_string(), sums)
        });
        Self {
            head: stats.head,
            prizes: prizes.collect(),
            draws: stats.draws,
        }
    }
}

/// What the store says of all its envelopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreEnvelopes {
    /// The last entry of each partition that it counts.
    pub heads: BTreeMap<u32, u64>,
    /// By currency.
    pub sums: BTreeMap<String, EnvelopeSums>,
}

/// Settled entries that the store has lost in a failover, by partition: first and last of each
/// range. They are no part of what happened.
pub type Orphans = BTreeMap<u32, Vec<(u64, u64)>>;

/// An audit that is under way.
#[derive(Debug, Default)]
pub struct Audit {
    partitions: BTreeMap<u32, Partition>,
    /// Campaigns have numbers from 0 in the order in which they are seen.
    campaigns: u32,
    users: Users,
    orphans: Orphans,
    stores: HashMap<CampaignId, StoreSums>,
    envelopes: Option<StoreEnvelopes>,
    seeds: HashMap<CampaignId, Seed>,
    findings: Findings,
    entries: u64,
    orphaned: u64,
    compared: u64,
    chains: BTreeMap<u32, (Option<Chain>, u64)>,
    unchained: u64,
}

#[derive(Debug, Default)]
struct Partition {
    order: Order,
    campaigns: BTreeMap<CampaignId, Books>,
    envelopes: Envelopes,
    /// The sums of envelopes at the entry up to which the store counts.
    then: Option<BTreeMap<String, EnvelopeSums>>,
}

/// What an audit has found out.
#[derive(Debug)]
pub struct Outcome {
    /// Entries that were booked.
    pub entries: u64,
    /// Settled entries that the store has lost; they were passed over.
    pub orphaned: u64,
    /// Campaigns by id.
    pub campaigns: BTreeMap<CampaignId, Books>,
    /// Campaigns whose books were compared with the store.
    pub compared: u64,
    /// Envelopes by currency.
    pub envelopes: BTreeMap<String, EnvelopeSums>,
    /// The running digest of each partition, and how far the partition is settled.
    pub chains: BTreeMap<u32, (Option<Chain>, u64)>,
    /// Entries that no running digest covers: a version without it has settled them.
    pub unchained: u64,
    /// What does not add up.
    pub findings: Findings,
}

impl Audit {
    /// An audit that compares its books with what the store said: of campaigns, and of envelopes.
    pub fn new(stores: HashMap<CampaignId, StoreSums>, envelopes: Option<StoreEnvelopes>) -> Self {
        Self {
            stores,
            envelopes,
            ..Self::default()
        }
    }

    /// Draws of personal pools are made again from these seeds.
    #[must_use]
    pub fn with_seeds(self, seeds: HashMap<CampaignId, Seed>) -> Self {
        Self { seeds, ..self }
    }

    /// Notes something that was found beside the entries.
    pub fn note(&mut self, check: Check, at: Option<LedgerId>, text: impl Into<String>) {
        self.findings.add(check, at, text);
    }

    /// The definition of a campaign's version, if an entry has it.
    fn definition(&self, partition: u32, id: &CampaignId, version: u32) -> Option<Arc<Campaign>> {
        let books = self.partitions.get(&partition)?.campaigns.get(id)?;
        books.version(version)
    }

    /// Whether everything was noted that is checked at the end.
    ///
    /// # Errors
    /// A temporary file could not be written.
    pub fn check_notes(&mut self) -> io::Result<()> {
        self.users.check()
    }

    /// The number of a campaign.
    fn campaign_no(&self, partition: u32, id: &CampaignId) -> Option<CampaignNo> {
        let books = self.partitions.get(&partition)?.campaigns.get(id)?;
        Some(books.no())
    }

    /// The next entry of its partition.
    pub fn take(&mut self, entry: &Entry) {
        let LedgerId {
            partition,
            sequence,
        } = entry.id;
        let orphans = self.orphans.get(&partition).map_or(&[][..], Vec::as_slice);
        if orphans
            .iter()
            .any(|&(first, last)| (first..=last).contains(&sequence))
        {
            self.orphaned += 1;
            return;
        }
        let orphaned = orphans.iter().map(|&(_, last)| last);
        let orphaned = orphaned.filter(|&last| last < sequence).max();
        self.entries += 1;
        let books = self.partitions.entry(partition).or_default();
        books.order.take(entry, orphaned, &mut self.findings);
        match &entry.subject {
            Subject::Campaign(id) => self.take_campaign(id, entry),
            Subject::Envelope(id) => {
                let heads = self.envelopes.as_ref().map(|store| &store.heads);
                let head = heads.and_then(|heads| heads.get(&partition));
                if books.then.is_none() && head.is_some_and(|&head| sequence > head) {
                    books.then = Some(books.envelopes.sums().clone());
                }
                books.envelopes.take(id, entry, &mut self.findings);
            }
            Subject::Partition => {}
        }
    }

    fn take_campaign(&mut self, id: &CampaignId, entry: &Entry) {
        let Some(partition) = self.partitions.get_mut(&entry.id.partition) else {
            return;
        };
        if !partition.campaigns.contains_key(id) {
            let seed = self.seeds.remove(id);
            let books = Books::new(id.clone(), CampaignNo(self.campaigns), entry.id, seed);
            self.campaigns += 1;
            partition.campaigns.insert(id.clone(), books);
        }
        let Some(books) = partition.campaigns.get_mut(id) else {
            return;
        };
        if let Some(store) = self.stores.get(id)
            && entry.id.sequence > store.head.sequence
        {
            compare(id, books, store, &mut self.findings);
            self.stores.remove(id);
            self.compared += 1;
        }
        books.take(entry, &mut self.users, &mut self.findings);
    }

    /// The end of all entries: compares what has not been compared yet.
    ///
    /// # Errors
    /// A temporary file cannot be written or read.
    pub fn finish(mut self) -> io::Result<Outcome> {
        let stores = std::mem::take(&mut self.stores);
        for (id, store) in stores {
            let partition = self.partitions.get(&store.head.partition);
            let settled = partition.map_or(0, |partition| partition.order.sequence());
            let books = partition.and_then(|partition| partition.campaigns.get(&id));
            match books {
                _ if settled < store.head.sequence => self.findings.add(
                    Check::Order,
                    None,
                    format!(
                        "campaign {id}: the entries end at {settled}, and the store has {} in \
                         partition {}",
                        store.head.sequence, store.head.partition
                    ),
                ),
                Some(books) => {
                    compare(&id, books, &store, &mut self.findings);
                    self.compared += 1;
                }
                None => self.findings.add(
                    Check::Order,
                    None,
                    format!("campaign {id} is in the store, and no entry is about it"),
                ),
            }
        }
        let envelopes = self.compare_envelopes();
        let users = self.check_users()?;
        let mut campaigns = BTreeMap::new();
        for partition in self.partitions.into_values() {
            campaigns.extend(partition.campaigns);
        }
        for books in campaigns.values_mut() {
            books.set_users(users.get(&books.no()).copied().unwrap_or_default());
        }
        Ok(Outcome {
            entries: self.entries,
            orphaned: self.orphaned,
            campaigns,
            compared: self.compared,
            envelopes,
            chains: self.chains,
            unchained: self.unchained,
            findings: self.findings,
        })
    }

    /// Reads the notes about users; how many users each campaign has.
    fn check_users(&mut self) -> io::Result<BTreeMap<CampaignNo, u64>> {
        let partitions = self.partitions.values();
        let books = partitions.flat_map(|partition| partition.campaigns.values());
        let mut books: Vec<&Books> = books.collect();
        books.sort_unstable_by_key(|books| books.no());
        std::mem::take(&mut self.users).finish(&books, &mut self.findings)
    }

    /// The sums of envelopes by the entries, after they were compared with the store's.
    fn compare_envelopes(&mut self) -> BTreeMap<String, EnvelopeSums> {
        let mut now = BTreeMap::new();
        let mut then = BTreeMap::new();
        for partition in self.partitions.values() {
            let sums = partition.envelopes.sums();
            add_up(&mut now, sums);
            add_up(&mut then, partition.then.as_ref().unwrap_or(sums));
        }
        let Some(store) = self.envelopes.take() else {
            return now;
        };
        let is_behind = store.heads.iter().any(|(partition, &head)| {
            let books = self.partitions.get(partition);
            books.map_or(0, |books| books.order.sequence()) < head
        });
        if is_behind {
            let text = "envelopes are not compared: the entries end before the store's";
            self.findings.add(Check::Order, None, text);
            return now;
        }
        let currencies: BTreeSet<&String> = store.sums.keys().chain(then.keys()).collect();
        for currency in currencies {
            let (store, books) = (store.sums.get(currency), then.get(currency));
            if store.map(amounts) != books.map(amounts) {
                let text = format!(
                    "envelopes in {currency}: the store has {}, the entries give {}",
                    in_words(store),
                    in_words(books)
                );
                self.findings.add(Check::Sums, None, text);
            }
        }
        now
    }
}

fn add_up(all: &mut BTreeMap<String, EnvelopeSums>, more: &BTreeMap<String, EnvelopeSums>) {
    for (currency, sums) in more {
        match all.get_mut(currency) {
            None => drop(all.insert(currency.clone(), sums.clone())),
            Some(all) => {
                all.envelopes += sums.envelopes;
                all.open += sums.open;
                all.created_minor += sums.created_minor;
                all.grabbed_minor += sums.grabbed_minor;
                all.waiting_minor += sums.waiting_minor;
                all.refunded_minor += sums.refunded_minor;
            }
        }
    }
}

fn amounts(sums: &EnvelopeSums) -> [u128; 4] {
    [
        sums.created_minor,
        sums.grabbed_minor,
        sums.waiting_minor,
        sums.refunded_minor,
    ]
}

fn in_words(sums: Option<&EnvelopeSums>) -> String {
    sums.map_or("none".into(), |sums| {
        let [created, grabbed, waiting, refunded] = amounts(sums);
        format!("{created} created, {grabbed} grabbed, {waiting} waiting, {refunded} refunded")
    })
}

/// Compares the books of a campaign with what the store says.
fn compare(id: &CampaignId, books: &Books, store: &StoreSums, findings: &mut Findings) {
    let Some(campaign) = books.campaign() else {
        return; // its entries were made by a version that wrote no definitions
    };
    let mut found = |text: String| {
        let text = format!("campaign {id}: {text}");
        findings.add(Check::Sums, Some(store.head), text);
    };
    for (no, prize) in campaign.numbered_prizes() {
        let computed = books.prizes().get(&no).copied().unwrap_or_default();
        let stated = store.prizes.get(prize.id.as_str());
        let stated = stated.copied().unwrap_or_default();
        for (name, stated, computed) in [
            ("given", stated.stock, computed.stock),
            ("in stock", stated.left, computed.left),
            ("in pools", stated.waiting, computed.waiting),
            ("won", stated.won, computed.won),
            ("withdrawn", stated.withdrawn, computed.withdrawn),
        ] {
            if stated != computed {
                found(format!(
                    "of prize {} the store has {stated} units {name}, the entries give {computed}",
                    prize.id
                ));
            }
        }
    }
    if store.draws != books.draws() {
        found(format!(
            "the store counts {:?}, the entries {:?}",
            store.draws,
            books.draws()
        ));
    }
}
