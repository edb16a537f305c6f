//! Codes of prizes.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{SqliteStore, deliveries::delivery, read::campaign_no};
use crate::{
    model::{CampaignId, PoolNo, PrizeNo},
    store::{CodeCounts, CodeStore, DeliveryState, Refusal, Result, SealedBlock, Unit},
};

#[async_trait]
impl CodeStore for SqliteStore {
    async fn code_counts(&self, campaign: &CampaignId, prize: PrizeNo) -> Result<CodeCounts> {
        let id = campaign.clone();
        self.read(move |db| counts(db, campaign_no(db, &id)?, prize))
            .await
    }

    async fn code_blocks(
        &self,
        campaign: &CampaignId,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<Vec<SealedBlock>> {
        let id = campaign.clone();
        self.read(move |db| blocks(db, campaign_no(db, &id)?, (prize, from), limit))
            .await
    }

    async fn revoked(&self, campaign: &CampaignId, wins: &[(PoolNo, Unit)]) -> Result<Vec<bool>> {
        let (id, wins) = (campaign.clone(), wins.to_vec());
        self.read(move |db| {
            let no = campaign_no(db, &id)?;
            let is_revoked = |(pool, unit): &(PoolNo, Unit)| -> Result<bool> {
                let known = delivery(db, no, *pool, *unit)?;
                Ok(known.is_some_and(|known| known.state == DeliveryState::Revoked))
            };
            wins.iter().map(is_revoked).collect()
        })
        .await
    }
}

fn counts(db: &Connection, campaign: i64, prize: PrizeNo) -> Result<CodeCounts> {
    let found = db
        .prepare_cached(
            "SELECT given, won + skipped FROM stock WHERE campaign = ?1 AND prize = ?2",
        )?
        .query_row(params![campaign, prize.0], |row| {
            Ok(CodeCounts {
                imported: row.get(0)?,
                next: row.get(1)?,
            })
        })
        .optional()?;
    found.ok_or_else(|| Refusal::PrizeNotFound(format!("number {}", prize.0)).into())
}

fn blocks(
    db: &Connection,
    campaign: i64,
    (prize, from): (PrizeNo, u64),
    limit: usize,
) -> Result<Vec<SealedBlock>> {
    let mut statement = db.prepare_cached(
        "SELECT block, sealed FROM codes WHERE campaign = ?1 AND prize = ?2 AND block >= ?3
         ORDER BY block LIMIT ?4",
    )?;
    let rows = statement.query_map(params![campaign, prize.0, from, limit], |row| {
        Ok(SealedBlock {
            index: row.get(0)?,
            bytes: row.get(1)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Writes blocks of codes; the first one may take the place of a shorter one.
pub(super) fn save_codes(
    db: &Connection,
    campaign: i64,
    (prize, blocks): &(PrizeNo, Vec<SealedBlock>),
) -> Result<()> {
    let mut statement = db.prepare_cached(
        "INSERT OR REPLACE INTO codes (campaign, prize, block, sealed) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for block in blocks {
        statement.execute(params![campaign, prize.0, block.index, block.bytes])?;
    }
    Ok(())
}
