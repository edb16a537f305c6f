//! `CampaignService`: what operators use. Each call is a function of its own in the module named
//! here.

use std::sync::Arc;

use tonic::Request;

use super::{
    alerts, apply, codes,
    desk::{Desk, Reply},
    operations, people, proposals, reads, schedule, stats,
};
use crate::proto::{self, campaign_service_server::CampaignService};

/// The service.
pub(super) struct Campaigns {
    desk: Arc<Desk>,
}

impl Campaigns {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }
}

#[tonic::async_trait]
impl CampaignService for Campaigns {
    async fn apply_campaign(
        &self,
        request: Request<proto::ApplyCampaignRequest>,
    ) -> Reply<proto::ApplyCampaignResponse> {
        apply::apply_campaign(&self.desk, request).await
    }

    async fn get_campaign(
        &self,
        request: Request<proto::GetCampaignRequest>,
    ) -> Reply<proto::GetCampaignResponse> {
        reads::get_campaign(&self.desk, request).await
    }

    async fn list_campaigns(
        &self,
        request: Request<proto::ListCampaignsRequest>,
    ) -> Reply<proto::ListCampaignsResponse> {
        reads::list_campaigns(&self.desk, request).await
    }

    async fn pause_campaign(
        &self,
        request: Request<proto::PauseCampaignRequest>,
    ) -> Reply<proto::PauseCampaignResponse> {
        operations::pause(&self.desk, request).await
    }

    async fn resume_campaign(
        &self,
        request: Request<proto::ResumeCampaignRequest>,
    ) -> Reply<proto::ResumeCampaignResponse> {
        operations::resume(&self.desk, request).await
    }

    async fn close_campaign(
        &self,
        request: Request<proto::CloseCampaignRequest>,
    ) -> Reply<proto::CloseCampaignResponse> {
        operations::close(&self.desk, request).await
    }

    async fn pause_prize(
        &self,
        request: Request<proto::PausePrizeRequest>,
    ) -> Reply<proto::PausePrizeResponse> {
        operations::pause_prize(&self.desk, request).await
    }

    async fn resume_prize(
        &self,
        request: Request<proto::ResumePrizeRequest>,
    ) -> Reply<proto::ResumePrizeResponse> {
        operations::resume_prize(&self.desk, request).await
    }

    async fn set_plan(
        &self,
        request: Request<proto::SetPlanRequest>,
    ) -> Reply<proto::SetPlanResponse> {
        apply::set_plan(&self.desk, request).await
    }

    async fn get_schedule(
        &self,
        request: Request<proto::GetScheduleRequest>,
    ) -> Reply<proto::GetScheduleResponse> {
        schedule::get_schedule(&self.desk, request).await
    }

    async fn recall_units(
        &self,
        request: Request<proto::RecallUnitsRequest>,
    ) -> Reply<proto::RecallUnitsResponse> {
        operations::recall_units(&self.desk, request).await
    }

    async fn grant_draws(
        &self,
        request: Request<proto::GrantDrawsRequest>,
    ) -> Reply<proto::GrantDrawsResponse> {
        operations::grant_draws(&self.desk, request).await
    }

    async fn import_codes(
        &self,
        request: Request<proto::ImportCodesRequest>,
    ) -> Reply<proto::ImportCodesResponse> {
        codes::import_codes(&self.desk, request).await
    }

    async fn list_codes(
        &self,
        request: Request<proto::ListCodesRequest>,
    ) -> Reply<proto::ListCodesResponse> {
        codes::list_codes(&self.desk, request).await
    }

    async fn block_users(
        &self,
        request: Request<proto::BlockUsersRequest>,
    ) -> Reply<proto::BlockUsersResponse> {
        operations::block_users(&self.desk, request).await
    }

    async fn unblock_users(
        &self,
        request: Request<proto::UnblockUsersRequest>,
    ) -> Reply<proto::UnblockUsersResponse> {
        operations::unblock_users(&self.desk, request).await
    }

    async fn get_user(
        &self,
        request: Request<proto::GetUserRequest>,
    ) -> Reply<proto::GetUserResponse> {
        people::get_user(&self.desk, request).await
    }

    async fn list_blocked_users(
        &self,
        request: Request<proto::ListBlockedUsersRequest>,
    ) -> Reply<proto::ListBlockedUsersResponse> {
        people::list_blocked_users(&self.desk, request).await
    }

    async fn get_stats(
        &self,
        request: Request<proto::GetStatsRequest>,
    ) -> Reply<proto::GetStatsResponse> {
        stats::get_stats(&self.desk, request).await
    }

    async fn propose_change(
        &self,
        request: Request<proto::ProposeChangeRequest>,
    ) -> Reply<proto::ProposeChangeResponse> {
        proposals::propose_change(&self.desk, request).await
    }

    async fn approve_proposal(
        &self,
        request: Request<proto::ApproveProposalRequest>,
    ) -> Reply<proto::ApproveProposalResponse> {
        proposals::approve_proposal(&self.desk, request).await
    }

    async fn reject_proposal(
        &self,
        request: Request<proto::RejectProposalRequest>,
    ) -> Reply<proto::RejectProposalResponse> {
        proposals::reject_proposal(&self.desk, request).await
    }

    async fn get_proposal(
        &self,
        request: Request<proto::GetProposalRequest>,
    ) -> Reply<proto::GetProposalResponse> {
        proposals::get_proposal(&self.desk, request).await
    }

    async fn list_proposals(
        &self,
        request: Request<proto::ListProposalsRequest>,
    ) -> Reply<proto::ListProposalsResponse> {
        proposals::list_proposals(&self.desk, request).await
    }

    async fn list_alerts(
        &self,
        request: Request<proto::ListAlertsRequest>,
    ) -> Reply<proto::ListAlertsResponse> {
        alerts::list_alerts(&self.desk, request).await
    }
}
