//! Codes of prizes as a store keeps them: encrypted blocks, which only callers can read.

use async_trait::async_trait;

use super::{Result, Unit};
use crate::model::{CampaignId, PoolNo, PrizeNo};

/// Codes of a prize that are encrypted together. Every block but a prize's last one has as many.
pub const BLOCK_CODES: u64 = 64;

/// Encrypted codes of a prize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedBlock {
    /// The index of the block: that of its first code over [`BLOCK_CODES`].
    pub index: u64,
    /// What [`crate::chance::CodeKey::seal`] made of the codes.
    pub bytes: Vec<u8>,
}

/// How many codes a prize has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// Imported, in all.
    pub imported: u64,
    /// The index of the next code that is won: those before it were won, or were passed over after
    /// entries had been lost.
    pub next: u64,
}

/// What a store does with codes: a part of [`super::Store`], with the same promises and errors. An
/// import of codes is an operation, and a draw names the codes that it gave by their indexes.
#[async_trait]
pub trait CodeStore: Send + Sync {
    /// How many codes a prize has.
    async fn code_counts(&self, campaign: &CampaignId, prize: PrizeNo) -> Result<CodeCounts>;

    /// The blocks of a prize's codes from the index `from` on, in order, at most `limit`; fewer if
    /// there are no more.
    async fn code_blocks(
        &self,
        campaign: &CampaignId,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<Vec<SealedBlock>>;

    /// For each of these wins whether it was revoked.
    async fn revoked(&self, campaign: &CampaignId, wins: &[(PoolNo, Unit)]) -> Result<Vec<bool>>;
}
