//! Codes of prizes: encrypted for the store when they are imported, decrypted for those who may
//! read them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{Injector, imported::Known};
use crate::{
    cache::Cache,
    chance::CodeKey,
    model::{CampaignId, PrizeNo},
    store::{
        CampaignView, CodeCounts, DrawAnswer, DrawResult, Refusal, Result, SealedBlock, Store,
        StoreError, codes::BLOCK_CODES,
    },
};

/// How long a decrypted block is used. Draws that follow each other get codes of the same block. It
/// is short since a store that was rolled back may get other codes in its place.
const BLOCK_HOLDS: Duration = Duration::from_secs(5);
/// Blocks that are kept in memory, at most 16 KiB each.
const BLOCKS_MAX: usize = 256;
/// Keys of campaigns that are kept in memory.
const KEYS_MAX: usize = 4_096;

/// A block of codes of a prize.
type BlockName = (CampaignId, PrizeNo, u64);

/// Codes that the service has decrypted, and what it knows of imports.
#[derive(Default)]
pub(super) struct Codes {
    keys: Cache<CampaignId, CodeKey, KEYS_MAX>,
    blocks: Mutex<HashMap<BlockName, Decrypted>>,
    pub(super) imported: tokio::sync::Mutex<Known>,
}

/// A block, and since when it is known.
struct Decrypted {
    at: Instant,
    codes: Arc<[String]>,
}

impl Injector {
    /// The text of the code of each result of a draw: none for results without one, for wins that
    /// were revoked, and for a campaign whose data have left the store.
    ///
    /// # Errors
    /// Those of the store, and codes that are missing or cannot be decrypted.
    pub async fn codes_of(&self, answer: &DrawAnswer) -> Result<Vec<Option<String>>> {
        let results = &answer.entry.results;
        let campaign = &answer.campaign.id;
        let coded = results.iter().filter_map(|result| match *result {
            DrawResult::Won {
                pool,
                unit,
                code: Some(_),
                ..
            } => Some((pool, unit)),
            _ => None,
        });
        let coded: Vec<_> = coded.collect();
        if coded.is_empty() {
            return Ok(vec![None; results.len()]);
        }
        // A win that has just been made was not revoked, and its campaign is there.
        let mut revoked = vec![false; coded.len()];
        if answer.replayed {
            match self.store.campaign(campaign).await {
                Err(StoreError::Refused(Refusal::Removed { .. })) => {
                    return Ok(vec![None; results.len()]);
                }
                view => drop(view?),
            }
            revoked = self.store.revoked(campaign, &coded).await?;
        }
        let mut revoked = revoked.into_iter();
        let mut texts = Vec::with_capacity(results.len());
        for result in results {
            texts.push(match *result {
                DrawResult::Won {
                    prize,
                    code: Some(code),
                    ..
                } if revoked.next() == Some(false) => Some(self.code(campaign, prize, code).await?),
                _ => None,
            });
        }
        Ok(texts)
    }

    /// The codes of a prize that nobody has won, from an index on, each with its index; at most
    /// `limit`, and whether there are more.
    ///
    /// # Errors
    /// As [`Self::codes_of`].
    pub async fn unused_codes(
        &self,
        view: &CampaignView,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, String)>, bool)> {
        let id = &view.campaign.id;
        let CodeCounts { imported, next } = self.store.code_counts(id, prize).await?;
        let from = from.max(next);
        let until = imported.min(from.saturating_add(limit as u64));
        if from >= until {
            return Ok((Vec::new(), false));
        }
        let key = self.code_key(view);
        let codes = read(self.store.as_ref(), &key, (id, prize), from..until).await?;
        Ok(((from..).zip(codes).collect(), until < imported))
    }

    /// One code.
    async fn code(&self, campaign: &CampaignId, prize: PrizeNo, index: u64) -> Result<String> {
        let block = index / BLOCK_CODES;
        let within = usize::try_from(index % BLOCK_CODES).unwrap_or(usize::MAX);
        let name = (campaign.clone(), prize, block);
        if let Some(codes) = self.codes.known(&name)
            && let Some(code) = codes.get(within)
        {
            return Ok(code.clone());
        }
        let stored = self.store.code_blocks(campaign, prize, block, 1).await?;
        let stored = stored.into_iter().find(|stored| stored.index == block);
        let stored = stored.ok_or_else(|| missing(campaign, prize, index))?;
        let kept = self.codes.keys.get(campaign);
        let codes = kept.and_then(|key| decrypt(&key, campaign, prize, &stored).ok());
        let codes: Arc<[String]> = match codes {
            Some(codes) => codes.into(),
            // A store that was rolled back may have another campaign of this id, with another key.
            None => {
                let key = self.code_key(&self.store.campaign(campaign).await?);
                decrypt(&key, campaign, prize, &stored)?.into()
            }
        };
        let code = codes.get(within).cloned();
        self.codes.keep(name, codes);
        code.ok_or_else(|| missing(campaign, prize, index))
    }

    /// The key of a campaign's codes.
    pub(super) fn code_key(&self, view: &CampaignView) -> CodeKey {
        let id = &view.campaign.id;
        let key = self.key.codes(id, &view.nonce);
        self.codes.keys.put(id.clone(), key.clone());
        key
    }
}

impl Codes {
    fn known(&self, name: &BlockName) -> Option<Arc<[String]>> {
        let blocks = lock(&self.blocks);
        let known = blocks
            .get(name)
            .filter(|known| known.at.elapsed() < BLOCK_HOLDS);
        known.map(|known| Arc::clone(&known.codes))
    }

    fn keep(&self, name: BlockName, codes: Arc<[String]>) {
        let mut blocks = lock(&self.blocks);
        if blocks.len() >= BLOCKS_MAX {
            blocks.retain(|_, known| known.at.elapsed() < BLOCK_HOLDS);
        }
        if blocks.len() < BLOCKS_MAX {
            let at = Instant::now();
            blocks.insert(name, Decrypted { at, codes });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The codes of these indexes, which must all be there.
pub(super) async fn read(
    store: &dyn Store,
    key: &CodeKey,
    (campaign, prize): (&CampaignId, PrizeNo),
    range: std::ops::Range<u64>,
) -> Result<Vec<String>> {
    let first = range.start / BLOCK_CODES;
    let blocks = range.end.div_ceil(BLOCK_CODES).saturating_sub(first);
    let stored = store
        .code_blocks(campaign, prize, first, blocks as usize)
        .await?;
    let mut codes = Vec::with_capacity((range.end - range.start) as usize);
    for (index, stored) in (first..).zip(&stored) {
        if stored.index != index {
            break;
        }
        let block = decrypt(key, campaign, prize, stored)?;
        let numbered = (index * BLOCK_CODES..).zip(block);
        codes.extend(
            numbered
                .filter(|(index, _)| range.contains(index))
                .map(|(_, code)| code),
        );
    }
    if codes.len() as u64 != range.end - range.start {
        return Err(missing(campaign, prize, range.start + codes.len() as u64));
    }
    Ok(codes)
}

/// The codes of a block.
pub(super) fn decrypt(
    key: &CodeKey,
    campaign: &CampaignId,
    prize: PrizeNo,
    stored: &SealedBlock,
) -> Result<Vec<String>> {
    key.open((prize, stored.index), &stored.bytes)
        .ok_or_else(|| {
            StoreError::corrupt(format!(
                "campaign {campaign}: block {} of the codes of prize {} cannot be decrypted with \
                 this master key",
                stored.index, prize.0
            ))
        })
}

fn missing(campaign: &CampaignId, prize: PrizeNo, index: u64) -> StoreError {
    StoreError::corrupt(format!(
        "campaign {campaign}: code {index} of prize {} is missing",
        prize.0
    ))
}
