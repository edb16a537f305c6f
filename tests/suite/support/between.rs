//! A store between an injector and the real one, so that a test can do something between two steps
//! of the injector.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tombola::{
    chance::Salt,
    model::{Campaign, CampaignId, EnvelopeId, Moment, PoolNo, PrizeNo, RequestId, UserId},
    store::{
        AdjustCommand, ApplyCommand, ApproveCommand, Backlog, BacklogBound, Backup, BlockedUsers,
        BonusAnswer, BonusCommand, CampaignView, CancelEnvelope, ClosedCampaign, CodeCounts,
        CodeStore, CreateEnvelope, DealCommand, DrawAnswer, DrawCommand, Drawn, DueCampaign, Entry,
        EnvelopeReply, EnvelopeStore, EnvelopeTotals, EnvelopeView, FillCommand, FillEnvelope,
        Filled, Filling, FreezeCommand, GrabCommand, GrabView, Grabbed, Memory, OperateCommand,
        Operated, ProposalId, ProposalReply, ProposalStore, Proposals, ProposeCommand,
        RejectCommand, RemovalFence, RemovalStore, Result, SealedBlock, SettleStore, Settled,
        SettledUpTo, Stats, Step, Store, StoreInfo, Sweep, Swept, Unit, Unsettled, UserDetails,
        UserView, WinCommand, WinOperated, WindowView, sqlite::LedgerTables,
    },
};

/// The test's code between the steps.
#[async_trait]
pub trait Meddler: Send + Sync {
    /// The injector has read how far the pools are filled, but does not have the result yet.
    async fn after_filling(&self) {}
    /// Changes what the injector reads of the pools.
    fn change(&self, _filling: &mut Filling) {}
    /// The injector is about to draw.
    async fn before_draw(&self) {}
    /// The injector is about to put units in.
    async fn before_fill(&self) {}
    /// The injector is about to deal cards.
    async fn before_deal(&self) {}
    /// The injector is about to take units back.
    async fn before_sweep(&self) {}
    /// A campaign was read, and its reader does not have it yet.
    async fn after_campaign(&self) {}
    /// The settler has read what is not settled, and does not know it yet.
    async fn after_unsettled(&self) {}
    /// The settler lets the store give up what is settled.
    async fn before_trim(&self) {}
    /// A tombstone is about to be written.
    async fn before_removal(&self) {}
    /// The store has given it up.
    async fn after_trim(&self) {}
}

/// The store in between.
pub struct Between<M> {
    pub store: Arc<dyn Store>,
    pub meddler: M,
}

#[async_trait]
impl<M: Meddler> Store for Between<M> {
    async fn due_campaigns(
        &self,
        partition: u32,
        lead: Duration,
        after: Option<&DueCampaign>,
        limit: usize,
    ) -> Result<Vec<DueCampaign>> {
        let due = self.store.due_campaigns(partition, lead, after, limit);
        due.await
    }

    async fn index(&self, id: &CampaignId) -> Result<()> {
        self.store.index(id).await
    }

    async fn complete_index(&self, partition: u32) -> Result<()> {
        self.store.complete_index(partition).await
    }

    async fn filling(&self, id: &CampaignId) -> Result<Filling> {
        let mut filling = self.store.filling(id).await?;
        self.meddler.change(&mut filling);
        self.meddler.after_filling().await;
        Ok(filling)
    }

    async fn deal(&self, command: DealCommand) -> Result<Step> {
        self.meddler.before_deal().await;
        self.store.deal(command).await
    }

    async fn sweep(&self, campaign: &CampaignId, sweep: Sweep) -> Result<Swept> {
        self.meddler.before_sweep().await;
        self.store.sweep(campaign, sweep).await
    }

    fn info(&self) -> &StoreInfo {
        self.store.info()
    }

    fn rollback_mark(&self) -> u64 {
        self.store.rollback_mark()
    }

    fn clock_hint(&self) -> Moment {
        self.store.clock_hint()
    }

    async fn backup(&self) -> Result<Option<Backup>> {
        self.store.backup().await
    }

    async fn now(&self) -> Result<Moment> {
        self.store.now().await
    }

    async fn time_of(&self, campaign: &CampaignId) -> Result<Moment> {
        self.store.time_of(campaign).await
    }

    async fn draw(&self, command: Arc<DrawCommand>) -> Result<Drawn> {
        self.meddler.before_draw().await;
        self.store.draw(command).await
    }

    async fn grant_bonus(&self, command: BonusCommand) -> Result<BonusAnswer> {
        self.store.grant_bonus(command).await
    }

    async fn find_draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        self.store.find_draw(campaign, user, request).await
    }

    async fn user(&self, campaign: &CampaignId, user: &UserId) -> Result<UserView> {
        self.store.user(campaign, user).await
    }

    async fn user_details(&self, campaign: &CampaignId, user: &UserId) -> Result<UserDetails> {
        self.store.user_details(campaign, user).await
    }

    async fn blocked_users(
        &self,
        campaign: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers> {
        self.store.blocked_users(campaign, after, limit).await
    }

    async fn apply(&self, command: ApplyCommand) -> Result<Operated> {
        self.store.apply(command).await
    }

    async fn operate_win(&self, command: WinCommand) -> Result<WinOperated> {
        self.store.operate_win(command).await
    }

    async fn operate(&self, command: OperateCommand) -> Result<Operated> {
        self.store.operate(command).await
    }

    async fn campaign(&self, id: &CampaignId) -> Result<CampaignView> {
        let view = self.store.campaign(id).await;
        self.meddler.after_campaign().await;
        view
    }

    async fn version(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>> {
        self.store.version(id, version).await
    }

    async fn campaigns(&self, after: Option<&str>, limit: usize) -> Result<Vec<CampaignView>> {
        self.store.campaigns(after, limit).await
    }

    async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        self.store.campaign_ids(partition, after, limit).await
    }

    async fn freeze(&self, command: FreezeCommand) -> Result<Step> {
        self.store.freeze(command).await
    }

    async fn adjust(&self, command: AdjustCommand) -> Result<Step> {
        self.store.adjust(command).await
    }

    async fn fill(&self, command: FillCommand) -> Result<Filled> {
        self.meddler.before_fill().await;
        self.store.fill(command).await
    }

    async fn forget(&self) -> Result<bool> {
        self.store.forget().await
    }

    async fn stats(&self, id: &CampaignId) -> Result<Stats> {
        self.store.stats(id).await
    }

    async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        self.store.windows(id, pool, after, limit).await
    }

    async fn ledger(&self, partition: u32, sequence: u64, limit: usize) -> Result<Vec<Entry>> {
        self.store.ledger(partition, sequence, limit).await
    }
}

#[async_trait]
impl<M: Meddler> EnvelopeStore for Between<M> {
    async fn create_envelope(&self, command: CreateEnvelope) -> Result<EnvelopeReply> {
        self.store.create_envelope(command).await
    }

    async fn grab(&self, command: GrabCommand) -> Result<Grabbed> {
        self.store.grab(command).await
    }

    async fn fill_envelope(&self, command: FillEnvelope) -> Result<Step> {
        self.store.fill_envelope(command).await
    }

    async fn cancel_envelope(&self, command: CancelEnvelope) -> Result<EnvelopeReply> {
        self.store.cancel_envelope(command).await
    }

    async fn envelope(&self, id: &EnvelopeId) -> Result<EnvelopeView> {
        self.store.envelope(id).await
    }

    async fn grabs(&self, id: &EnvelopeId, packet: u32, limit: usize) -> Result<Vec<GrabView>> {
        self.store.grabs(id, packet, limit).await
    }

    async fn due_envelopes(
        &self,
        partition: u32,
        retention: Duration,
        limit: usize,
    ) -> Result<Vec<EnvelopeId>> {
        self.store.due_envelopes(partition, retention, limit).await
    }

    async fn settle_envelope(&self, id: &EnvelopeId, retention: Duration) -> Result<Settled> {
        self.store.settle_envelope(id, retention).await
    }

    async fn envelope_sums(&self) -> Result<EnvelopeTotals> {
        self.store.envelope_sums().await
    }
}

#[async_trait]
impl<M: Meddler> RemovalStore for Between<M> {
    async fn closed_campaigns(
        &self,
        partition: u32,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Result<Vec<ClosedCampaign>> {
        let closed = self.store.closed_campaigns(partition, keep, after, limit);
        closed.await
    }

    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        self.meddler.before_removal().await;
        self.store.begin_removal(id, fence).await
    }

    async fn remove_some(&self, id: &CampaignId) -> Result<bool> {
        self.store.remove_some(id).await
    }
}

#[async_trait]
impl<M: Meddler> CodeStore for Between<M> {
    async fn code_counts(&self, campaign: &CampaignId, prize: PrizeNo) -> Result<CodeCounts> {
        self.store.code_counts(campaign, prize).await
    }

    async fn code_blocks(
        &self,
        campaign: &CampaignId,
        prize: PrizeNo,
        from: u64,
        limit: usize,
    ) -> Result<Vec<SealedBlock>> {
        self.store.code_blocks(campaign, prize, from, limit).await
    }

    async fn revoked(&self, campaign: &CampaignId, wins: &[(PoolNo, Unit)]) -> Result<Vec<bool>> {
        self.store.revoked(campaign, wins).await
    }
}

#[async_trait]
impl<M: Meddler> ProposalStore for Between<M> {
    async fn propose(&self, command: ProposeCommand) -> Result<ProposalReply> {
        self.store.propose(command).await
    }

    async fn approve(&self, command: ApproveCommand) -> Result<Operated> {
        self.store.approve(command).await
    }

    async fn reject(&self, command: RejectCommand) -> Result<ProposalReply> {
        self.store.reject(command).await
    }

    async fn proposals(&self, campaign: &CampaignId) -> Result<Proposals> {
        self.store.proposals(campaign).await
    }

    async fn proposed_definition(
        &self,
        campaign: &CampaignId,
        proposal: &ProposalId,
    ) -> Result<Option<Arc<Campaign>>> {
        self.store.proposed_definition(campaign, proposal).await
    }

    async fn campaigns_with_proposals(
        &self,
        after: Option<&CampaignId>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        self.store.campaigns_with_proposals(after, limit).await
    }
}

#[async_trait]
impl<M: Meddler> SettleStore for Between<M> {
    async fn unsettled(
        &self,
        partition: u32,
        settled: Option<&SettledUpTo>,
        limit: usize,
    ) -> Result<Unsettled> {
        let unsettled = self.store.unsettled(partition, settled, limit).await;
        self.meddler.after_unsettled().await;
        unsettled
    }

    async fn trim(&self, partition: u32, settled: &SettledUpTo) -> Result<bool> {
        self.meddler.before_trim().await;
        let trimmed = self.store.trim(partition, settled).await?;
        self.meddler.after_trim().await;
        Ok(trimmed)
    }

    async fn salt(&self, partition: u32, campaign: &str, new: Salt) -> Result<Salt> {
        self.store.salt(partition, campaign, new).await
    }

    fn bound_backlog(&self, bound: BacklogBound) {
        self.store.bound_backlog(bound);
    }

    fn expect_settling(&self) {
        self.store.expect_settling();
    }

    async fn backlog(&self, partition: u32) -> Result<Backlog> {
        self.store.backlog(partition).await
    }

    fn memory(&self) -> Option<Memory> {
        self.store.memory()
    }

    fn ledger_tables(&self) -> Option<LedgerTables> {
        self.store.ledger_tables()
    }

    async fn head(&self, partition: u32) -> Result<u64> {
        self.store.head(partition).await
    }

    fn partition_of(&self, id: &str) -> u32 {
        self.store.partition_of(id)
    }
}
