//! Importing codes: each code of a prize is there once, and a repeated call is recognised.
//!
//! The store checks that an import begins where the one before ended. So all codes before it are
//! known, and a new one is compared with them: by a hash of 64 bits of each, which the service that
//! imports keeps in memory for the prizes of the last imports (8 to 16 bytes a code), and then with
//! the codes themselves.

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
/// Prizes whose hashes are kept.
const PRIZES_MAX: usize = 4;
/// Codes of all prizes whose hashes are kept, unless it is one prize alone.
const CODES_MAX: u64 = 10_000_000;
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

/// The codes of the prizes of the last imports; the last prize comes last.
#[derive(Default)]
pub(super) struct Known(Vec<Imported>);

impl Known {
    /// Takes out what is known of a prize that has this many codes. A store that was rolled back
    /// has fewer codes than are known.
    fn take(&mut self, campaign: &CampaignId, prize: PrizeNo, imported: u64) -> Option<Imported> {
        let of_prize = |known: &Imported| known.campaign == *campaign && known.prize == prize;
        let known = self.0.remove(self.0.iter().position(of_prize)?);
        (known.count <= imported).then_some(known)
    }

    /// Keeps what is known of a prize, and forgets the prizes for which there is no room, those
    /// that were not used for longest.
    fn keep(&mut self, known: Imported) -> &mut Imported {
        self.0.push(known);
        let codes = |all: &[Imported]| all.iter().map(|known| known.count).sum::<u64>();
        while self.0.len() > PRIZES_MAX || (self.0.len() > 1 && codes(&self.0) > CODES_MAX) {
            self.0.remove(0);
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Forgets prizes to which nothing was imported for a while.
    fn forget_unused(&mut self) {
        self.0.retain(|known| known.used.elapsed() < KNOWN_FOR);
    }
}

/// The codes of a prize, as hashes.
struct Imported {
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
            let known = turn.take(&import.campaign, prize, before.imported);
            let mut known = known.unwrap_or_else(|| Imported::new(&import.campaign, prize));
            at.learn(&mut known, before.imported).await?;
            let checked = at.refuse_duplicates(&known, &import).await;
            let known = turn.keep(known);
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
                injector.codes.imported.lock().await.forget_unused();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign() -> CampaignId {
        CampaignId::parse("campaign", "spring").unwrap()
    }

    fn imported(prize: u16, codes: u64) -> Imported {
        Imported {
            count: codes,
            ..Imported::new(&campaign(), PrizeNo(prize))
        }
    }

    /// The prizes that are known, the one that was not used for longest first.
    fn prizes(known: &Known) -> Vec<u16> {
        known.0.iter().map(|imported| imported.prize.0).collect()
    }

    #[test]
    fn imports_for_several_prizes_in_turn_keep_the_codes_of_each() {
        let mut known = Known::default();
        for round in 0..3 {
            for prize in 0..4 {
                let found = known.take(&campaign(), PrizeNo(prize), 10 * round);
                assert_eq!(found.is_some(), round > 0, "prize {prize}");
                let mut found = found.unwrap_or_else(|| imported(prize, 0));
                assert_eq!(found.count, 10 * round);
                found.count += 10;
                known.keep(found);
            }
        }
        known.keep(imported(7, 1));
        assert_eq!(prizes(&known), [1, 2, 3, 7]);
    }

    #[test]
    fn the_codes_of_all_prizes_are_bounded_but_those_of_one() {
        let mut known = Known::default();
        known.keep(imported(0, 4_000_000));
        known.keep(imported(1, 4_000_000));
        known.keep(imported(2, 4_000_000));
        assert_eq!(prizes(&known), [1, 2]);
        known.keep(imported(3, CODES_MAX + 1));
        assert_eq!(prizes(&known), [3]);
    }

    #[test]
    fn a_store_that_was_rolled_back_is_read_again() {
        let mut known = Known::default();
        known.keep(imported(0, 20));
        assert!(known.take(&campaign(), PrizeNo(0), 19).is_none());
        assert!(prizes(&known).is_empty());
    }
}
