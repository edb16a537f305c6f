//! Importing codes: each code of a prize is there once, and a repeated call is recognised.
//!
//! The store checks that an import begins where the one before ended. So all codes before it are
//! known, and a new one is compared with them: by a hash of 64 bits of each, which the service that
//! imports keeps in memory (8 to 16 bytes a code), and then with the codes themselves.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Injector,
    codes::{decrypt, read},
};
use crate::{
    chance::CodeKey,
    model::{CampaignId, PrizeNo, Problems, text::grouped},
    store::{
        Author, CampaignView, OperateCommand, Operated, Operation, Refusal, Result, SealedBlock,
        Store, codes::BLOCK_CODES,
    },
};

/// Blocks that are read at once.
const READ_BLOCKS: u64 = 256;
/// The hashes are forgotten when nothing was imported for this long.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Hashes are kept in lists by their first bits, each in order.
const LISTS: usize = 4_096;
/// Duplicates that an error names.
const SHOWN_MAX: usize = 10;

/// An import of codes.
#[derive(Clone, Debug)]
pub struct ImportCodes {
    /// To which campaign.
    pub campaign: CampaignId,
    /// To which prize.
    pub prize_id: String,
    /// The index of the first code.
    pub first: u64,
    /// The codes, each valid (see [`crate::model::code::check`]).
    pub codes: Vec<String>,
    /// By whom.
    pub author: Author,
}

/// What was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedCodes {
    /// Codes that the prize has now.
    pub codes: u64,
    /// They were there already.
    pub replayed: bool,
}

/// The codes of a prize, as hashes.
pub(super) struct Imported {
    campaign: CampaignId,
    prize: PrizeNo,
    /// How many of the prize's codes are among the hashes.
    count: u64,
    hasher: RandomState,
    lists: Vec<Vec<u64>>,
    used: Instant,
}

impl Imported {
    fn new(campaign: &CampaignId, prize: PrizeNo) -> Self {
        Self {
            campaign: campaign.clone(),
            prize,
            count: 0,
            hasher: RandomState::new(),
            lists: vec![Vec::new(); LISTS],
            used: Instant::now(),
        }
    }

    fn list(&self, hash: u64) -> usize {
        usize::try_from(hash >> 52).unwrap_or(0) % LISTS
    }

    fn may_have(&self, code: &str) -> bool {
        let hash = self.hasher.hash_one(code);
        self.lists[self.list(hash)].binary_search(&hash).is_ok()
    }

    fn add(&mut self, codes: &[String]) {
        for code in codes {
            let hash = self.hasher.hash_one(code);
            let list = self.list(hash);
            let list = &mut self.lists[list];
            if let Err(index) = list.binary_search(&hash) {
                list.insert(index, hash);
            }
        }
        self.count += codes.len() as u64;
        self.used = Instant::now();
    }
}

impl Injector {
    /// Adds codes to a prize. Imports of this service are done one after another.
    ///
    /// # Errors
    /// Those of the store; a refusal if codes are there already, or do not follow those that are.
    pub async fn import_codes(self: &Arc<Self>, import: ImportCodes) -> Result<ImportedCodes> {
        let view = self.store.campaign(&import.campaign).await?;
        let prize = view
            .campaign
            .prize_no(&import.prize_id)
            .ok_or_else(|| Refusal::PrizeNotFound(import.prize_id.clone()))?;
        let key = self.code_key(&view);
        let mut turn = self.codes.imported.lock().await;
        let at = At {
            store: self.store.as_ref(),
            key: &key,
            campaign: &import.campaign,
            prize,
        };
        let before = self.store.code_counts(&import.campaign, prize).await?;
        let has_codes = view.campaign.prize(prize).codes;
        if has_codes && import.first < before.imported {
            at.compare(&import, before.imported).await?;
            return Ok(ImportedCodes {
                codes: before.imported,
                replayed: true,
            });
        }
        if has_codes && import.first == before.imported {
            let known = turn.take().filter(|known| {
                known.campaign == import.campaign
                    && known.prize == prize
                    && known.count <= before.imported
            });
            let mut known = known.unwrap_or_else(|| Imported::new(&import.campaign, prize));
            at.learn(&mut known, before.imported).await?;
            let checked = at.refuse_duplicates(&known, &import).await;
            let known = turn.insert(known);
            checked?;
            let blocks = at.seal(&import).await?;
            let operated = self.operate_import(&view, &import, (prize, &key), blocks);
            let operated = operated.await?;
            known.add(&import.codes);
            self.forget_later();
            return Ok(ImportedCodes {
                codes: before.imported + import.codes.len() as u64,
                replayed: operated.replayed,
            });
        }
        // The store refuses it, and says why.
        let operated = self.operate_import(&view, &import, (prize, &key), Vec::new());
        operated.await.map(|operated| ImportedCodes {
            codes: before.imported,
            replayed: operated.replayed,
        })
    }

    async fn operate_import(
        self: &Arc<Self>,
        view: &CampaignView,
        import: &ImportCodes,
        (prize, key): (PrizeNo, &CodeKey),
        blocks: Vec<SealedBlock>,
    ) -> Result<Operated> {
        let command = OperateCommand {
            campaign: view.campaign.id.clone(),
            operation: Operation::ImportCodes {
                prize,
                first: import.first,
                codes: import.codes.len() as u64,
                digest: key.digest(prize, import.first, &import.codes),
            },
            blocks,
            author: import.author.clone(),
        };
        self.operate(command).await
    }

    /// Forgets the hashes once nothing was imported for a while.
    fn forget_later(self: &Arc<Self>) {
        let injector = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(KNOWN_FOR).await;
            if let Some(injector) = injector.upgrade() {
                let mut known = injector.codes.imported.lock().await;
                known.take_if(|known| known.used.elapsed() >= KNOWN_FOR);
            }
        });
    }
}

/// The codes of a prize in a store.
struct At<'a> {
    store: &'a dyn Store,
    key: &'a CodeKey,
    campaign: &'a CampaignId,
    prize: PrizeNo,
}

impl At<'_> {
    async fn read(&self, range: std::ops::Range<u64>) -> Result<Vec<String>> {
        read(self.store, self.key, (self.campaign, self.prize), range).await
    }

    /// The codes before `imported` in parts, from `from` on, each part with its first index.
    async fn each_part(
        &self,
        from: u64,
        imported: u64,
        mut work: impl FnMut(u64, &[String]),
    ) -> Result<()> {
        let mut from = from;
        while from < imported {
            let until = imported.min(from + READ_BLOCKS * BLOCK_CODES);
            work(from, &self.read(from..until).await?);
            from = until;
        }
        Ok(())
    }

    /// Adds the codes that are there and not among the hashes.
    async fn learn(&self, known: &mut Imported, imported: u64) -> Result<()> {
        let from = known.count;
        self.each_part(from, imported, |_, codes| known.add(codes))
            .await
    }

    /// Refuses an import whose codes are not those that are there already.
    async fn compare(&self, import: &ImportCodes, imported: u64) -> Result<()> {
        let end = import.first.saturating_add(import.codes.len() as u64);
        let there = self.read(import.first..end.min(imported)).await?;
        let mut pairs = (import.first..).zip(import.codes.iter().zip(&there));
        let mut problems = Problems::default();
        let next = grouped(imported);
        if let Some((index, _)) = pairs.find(|(_, (code, there))| code != there) {
            problems.add(
                format!("codes[{}]", index - import.first),
                format!(
                    "is another code than {}, which was imported before: more codes begin with \
                     first {next}",
                    grouped(index)
                ),
            );
        } else if end > imported {
            problems.add(
                "first",
                format!(
                    "is {}, and the prize has {next} codes: begin with first {next}",
                    grouped(import.first)
                ),
            );
        }
        problems
            .or(())
            .map_err(|problems| Refusal::ChangeRefused(problems).into())
    }

    /// Refuses codes that are twice in the import, or that are there already.
    async fn refuse_duplicates(&self, known: &Imported, import: &ImportCodes) -> Result<()> {
        let mut problems = Problems::default();
        let (mut seen, mut suspects) = (HashMap::new(), HashMap::new());
        for (i, code) in import.codes.iter().enumerate() {
            if let Some(earlier) = seen.insert(code.as_str(), i) {
                note(&mut problems, i, &format!("codes[{earlier}]"));
            } else if known.may_have(code) {
                suspects.insert(code.as_str(), i);
            }
        }
        if !suspects.is_empty() {
            self.each_part(0, known.count, |from, codes| {
                for (index, code) in (from..).zip(codes) {
                    if let Some(i) = suspects.get(code.as_str()) {
                        let earlier = format!("code {} of the prize", grouped(index));
                        note(&mut problems, *i, &earlier);
                    }
                }
            })
            .await?;
        }
        problems
            .or(())
            .map_err(|problems| Refusal::ChangeRefused(problems).into())
    }

    /// The blocks of an import. The first one has the codes of the last block that is not full.
    async fn seal(&self, import: &ImportCodes) -> Result<Vec<SealedBlock>> {
        let first = import.first / BLOCK_CODES;
        let mut codes = Vec::new();
        if !import.first.is_multiple_of(BLOCK_CODES) {
            let stored = self.store.code_blocks(self.campaign, self.prize, first, 1);
            if let Some(stored) = stored.await?.first() {
                codes = decrypt(self.key, self.campaign, self.prize, stored)?;
            }
            codes.truncate((import.first % BLOCK_CODES) as usize);
        }
        codes.extend_from_slice(&import.codes);
        let blocks = (first..).zip(codes.chunks(BLOCK_CODES as usize));
        Ok(blocks
            .map(|(index, codes)| SealedBlock {
                index,
                bytes: self.key.seal((self.prize, index), rand::random(), codes),
            })
            .collect())
    }
}

/// Notes that a code of the import is there already; only the first ones.
fn note(problems: &mut Problems, i: usize, earlier: &str) {
    if problems.0.len() < SHOWN_MAX {
        problems.add(
            format!("codes[{i}]"),
            format!("is the same code as {earlier}: each code of a prize is there once"),
        );
    }
}
