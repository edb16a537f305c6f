//! The table of permissions: which one each RPC needs, and what each request is about.
//!
//! Both lists are exhaustive, and the compiler holds that. [`Rpc`] is generated from the proto
//! files, and [`permission`] names every variant. Every request passes the generated guard, which
//! needs [`Scoped`] of its type.

use super::{Permission, Rpc};
use crate::proto;

/// The permission that an RPC needs.
pub const fn permission(rpc: Rpc) -> Permission {
    match rpc {
        // LotteryService
        Rpc::Draw => Permission::Draw,
        Rpc::GetDraw | Rpc::CheckLimit | Rpc::GetOdds => Permission::Check,
        Rpc::GrantBonus => Permission::Grant,
        // EnvelopeService
        Rpc::CreateEnvelope => Permission::Grant,
        Rpc::GrabEnvelope => Permission::Draw,
        Rpc::GetEnvelope | Rpc::ListGrabs => Permission::Check,
        Rpc::CancelEnvelope => Permission::Stop,
        // CampaignService
        Rpc::ApplyCampaign | Rpc::SetPlan | Rpc::ImportCodes => Permission::Plan,
        Rpc::ListCodes => Permission::CodesRead,
        Rpc::GetCampaign
        | Rpc::ListCampaigns
        | Rpc::GetSchedule
        | Rpc::GetUser
        | Rpc::ListBlockedUsers
        | Rpc::GetStats
        | Rpc::GetProposal
        | Rpc::ListProposals
        | Rpc::ListAlerts => Permission::Read,
        Rpc::ProposeChange => Permission::Propose,
        Rpc::ApproveProposal | Rpc::RejectProposal => Permission::Approve,
        Rpc::PauseCampaign
        | Rpc::ResumeCampaign
        | Rpc::PausePrize
        | Rpc::ResumePrize
        | Rpc::RecallUnits
        | Rpc::BlockUsers
        | Rpc::UnblockUsers => Permission::Stop,
        Rpc::CloseCampaign => Permission::Admin,
        Rpc::GrantDraws => Permission::Grant,
        // LedgerService
        Rpc::ListWins => Permission::Check,
        Rpc::ListDraws
        | Rpc::ListEnvelopes
        | Rpc::ListOperations
        | Rpc::GetActivity
        | Rpc::WatchEntries => Permission::Read,
        Rpc::MarkDelivered | Rpc::RevokeWin => Permission::Deliver,
        Rpc::ForgetUser => Permission::Admin,
        // AdminService
        Rpc::Backup => Permission::Admin,
    }
}

/// Whether an RPC is for operators, who must be able to act however much callers do. Its permission
/// decides, unless services and operators share that one.
pub const fn is_operators(rpc: Rpc) -> bool {
    match permission(rpc) {
        Permission::Draw | Permission::Check => false,
        Permission::Grant => matches!(rpc, Rpc::GrantDraws),
        Permission::Deliver => matches!(rpc, Rpc::RevokeWin),
        Permission::CodesRead
        | Permission::Read
        | Permission::Plan
        | Permission::Propose
        | Permission::Approve
        | Permission::Stop
        | Permission::Admin => true,
    }
}

/// Whether an RPC only shows something.
pub const fn is_read(rpc: Rpc) -> bool {
    matches!(
        permission(rpc),
        Permission::Check | Permission::CodesRead | Permission::Read
    )
}

/// Whether the change that an RPC makes can be proposed. Whoever may propose it gets its dry run,
/// and else the advice to propose it, in place of a refusal.
pub const fn is_proposable(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::ApplyCampaign | Rpc::SetPlan | Rpc::CloseCampaign | Rpc::RecallUnits
    )
}

/// Whether an RPC pauses something.
pub(super) const fn is_brake(rpc: Rpc) -> bool {
    matches!(rpc, Rpc::PauseCampaign | Rpc::PausePrize)
}

/// The permission for reflection, if it is served by permission.
pub(super) const REFLECTION: Permission = Permission::Admin;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// A campaign.
    Campaign(&'a str),
    /// Envelopes of a sender.
    Sender(&'a str),
    /// An envelope, whose sender is looked up.
    Envelope(&'a str),
    /// A list, which shows only what the identity may see: its query has the patterns.
    Listed,
    /// The whole store.
    Store,
}

/// A request that says what it is about.
pub trait Scoped {
    /// What it is about.
    fn scope(&self) -> Scope<'_>;

    /// It only shows what it would change.
    fn is_dry_run(&self) -> bool {
        false
    }
}

macro_rules! scoped {
    ($($request:ident => |$message:ident| $scope:expr $(, dry run: $dry_run:expr)?;)*) => {$(
        impl Scoped for proto::$request {
            fn scope(&self) -> Scope<'_> {
                let $message = self;
                $scope
            }
            $(
                fn is_dry_run(&self) -> bool {
                    let $message = self;
                    $dry_run
                }
            )?
        }
    )*};
}

scoped! {
    // LotteryService
    DrawRequest => |it| Scope::Campaign(&it.campaign_id);
    GetDrawRequest => |it| Scope::Campaign(&it.campaign_id);
    CheckLimitRequest => |it| Scope::Campaign(&it.campaign_id);
    GrantBonusRequest => |it| Scope::Campaign(&it.campaign_id);
    GetOddsRequest => |it| Scope::Campaign(&it.campaign_id);
    // EnvelopeService
    CreateEnvelopeRequest => |it| Scope::Sender(&it.sender_id);
    GrabEnvelopeRequest => |it| Scope::Envelope(&it.envelope_id);
    GetEnvelopeRequest => |it| Scope::Envelope(&it.envelope_id);
    ListGrabsRequest => |it| Scope::Envelope(&it.envelope_id);
    CancelEnvelopeRequest => |it| Scope::Envelope(&it.envelope_id);
    // CampaignService
    ApplyCampaignRequest => |it| Scope::Campaign(it.campaign.as_ref().map_or("", |it| &it.id)),
        dry run: it.dry_run;
    SetPlanRequest => |it| Scope::Campaign(&it.campaign_id), dry run: it.dry_run;
    GetCampaignRequest => |it| Scope::Campaign(&it.campaign_id);
    ListCampaignsRequest => |_it| Scope::Listed;
    GetScheduleRequest => |it| Scope::Campaign(&it.campaign_id);
    GetUserRequest => |it| Scope::Campaign(&it.campaign_id);
    ListBlockedUsersRequest => |it| Scope::Campaign(&it.campaign_id);
    GetStatsRequest => |it| match it.campaign_id.as_str() {
        "" => Scope::Store,
        id => Scope::Campaign(id),
    };
    PauseCampaignRequest => |it| Scope::Campaign(&it.campaign_id);
    ResumeCampaignRequest => |it| Scope::Campaign(&it.campaign_id);
    PausePrizeRequest => |it| Scope::Campaign(&it.campaign_id);
    ResumePrizeRequest => |it| Scope::Campaign(&it.campaign_id);
    RecallUnitsRequest => |it| Scope::Campaign(&it.campaign_id);
    BlockUsersRequest => |it| Scope::Campaign(&it.campaign_id);
    UnblockUsersRequest => |it| Scope::Campaign(&it.campaign_id);
    CloseCampaignRequest => |it| Scope::Campaign(&it.campaign_id);
    GrantDrawsRequest => |it| Scope::Campaign(&it.campaign_id);
    ImportCodesRequest => |it| Scope::Campaign(&it.campaign_id);
    ListCodesRequest => |it| Scope::Campaign(&it.campaign_id);
    ProposeChangeRequest => |it| Scope::Campaign(&it.campaign_id);
    ApproveProposalRequest => |it| Scope::Campaign(&it.campaign_id);
    RejectProposalRequest => |it| Scope::Campaign(&it.campaign_id);
    GetProposalRequest => |it| Scope::Campaign(&it.campaign_id);
    ListProposalsRequest => |it| campaign_or_listed(&it.campaign_id);
    ListAlertsRequest => |_it| Scope::Listed;
    // LedgerService
    ListWinsRequest => |it| campaign_or_listed(&it.campaign_id);
    ListDrawsRequest => |it| campaign_or_listed(&it.campaign_id);
    ListOperationsRequest => |it| campaign_or_listed(&it.campaign_id);
    GetActivityRequest => |it| Scope::Campaign(&it.campaign_id);
    WatchEntriesRequest => |it| campaign_or_listed(&it.campaign_id);
    ListEnvelopesRequest => |it| match it.envelope_id.as_str() {
        "" => Scope::Listed,
        id => Scope::Envelope(id),
    };
    MarkDeliveredRequest => |it| Scope::Campaign(&it.campaign_id);
    RevokeWinRequest => |it| Scope::Campaign(&it.campaign_id);
    ForgetUserRequest => |_it| Scope::Store;
    // AdminService
    BackupRequest => |_it| Scope::Store;
}

/// Requests of lists name a campaign or none.
fn campaign_or_listed(id: &str) -> Scope<'_> {
    match id {
        "" => Scope::Listed,
        id => Scope::Campaign(id),
    }
}
