//! Operations on a single win.

use super::{
    campaign::from_json,
    decide::win_fingerprint,
    load::{Loaded, delivery_field},
};
use crate::store::{
    Refusal, Result, WinCommand, WinOperated, WonUnit,
    redis::{
        core::Core,
        format::{reply, version::FULL_ENTRIES_FORMAT},
    },
    rules::{self, KnownWin},
};

impl Core {
    /// Operates on a win; none if the campaign has changed since it was read.
    pub(crate) async fn try_operate_win(
        &self,
        command: &WinCommand,
    ) -> Result<Option<WinOperated>> {
        let id = &command.campaign;
        let mut loaded = self.load(id, &[]).await?;
        if loaded.fields.number::<u32>("format")? < FULL_ENTRIES_FORMAT {
            return Err(Refusal::UpgradeNeeded.into());
        }
        let fingerprint = win_fingerprint(&command.win, &command.operation);
        let request = &command.author.request;
        let replayed = self.replayed(id, request, &fingerprint, 0).await?;
        let known = self.load_win(&loaded, &command.win).await?;
        if replayed.is_some() {
            return known.replay().map(Some);
        }
        let operated = rules::operate_win(&mut loaded.state, command, known)?;
        if operated.replayed {
            return Ok(Some(operated));
        }
        let written = self.write(&loaded).await?;
        Ok(written.map(|_| operated))
    }

    /// What is known of a win. A retry may be answered with it.
    async fn load_win(&self, loaded: &Loaded, win: &WonUnit) -> Result<KnownWin> {
        let id = &loaded.state.view.campaign.id;
        let partition = self.partition(id);
        let deliveries = partition.campaign(id).deliveries;
        let field = delivery_field(win.pool, win.unit);
        let mut found = self.recall(partition, &[deliveries], &field).await?;
        let record = reply::maybe_bytes(found.next()?)?;
        Ok(KnownWin {
            won: loaded.fields.counter(&format!("won:{}", win.prize.0))?,
            delivery: record.as_deref().map(from_json).transpose()?,
        })
    }
}
