//! What pages do: each act is one call of a service, which admits or refuses it.

use axum::{
    Form,
    extract::Path,
    response::{IntoResponse as _, Redirect, Response},
};
use serde::Deserialize;
use tonic::Status;

use super::{
    proposals::{self, Wanted},
    refused, rows, status,
};
use crate::{
    console::{
        layout::Place,
        ui,
        visit::{Contents, Visit},
    },
    proto::{
        ApplyCampaignRequest, BlockUsersRequest, Campaign, CancelEnvelopeRequest,
        GrantDrawsRequest, MarkDeliveredRequest, PauseCampaignRequest, PausePrizeRequest,
        ResumeCampaignRequest, ResumePrizeRequest, RevokeWinRequest, UnblockUsersRequest,
        propose_change_request::Change,
    },
};

/// What forms of acts have; each act uses its own fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::console) struct Fields {
    reason: String,
    user: String,
    draws: u32,
    request_id: String,
    unit: String,
    reference: String,
    units: u64,
    version: u32,
    typed: String,
    back: String,
}

/// Goes to the page that shows the effect, or shows why there is none.
pub(super) fn finish<T>(
    visit: &Visit,
    result: Result<T, Status>,
    target: &str,
    done: &str,
) -> Response {
    match result {
        Ok(_) => {
            let mark = if target.contains('?') { '&' } else { '?' };
            Redirect::to(&format!("{target}{mark}done={done}")).into_response()
        }
        Err(status) => {
            let contents: Contents = Err(status);
            visit.page(Place::Elsewhere, visit.language.t("error.title"), contents)
        }
    }
}

pub(super) fn campaign_address(id: &str) -> String {
    format!("/campaigns/{}", ui::encoded(id))
}

/// Pauses a campaign, at once.
pub(in crate::console) async fn pause(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = PauseCampaignRequest {
        campaign_id: id.clone(),
        operator: visit.operator(),
        reason: fields.reason,
        ..PauseCampaignRequest::default()
    };
    let result = visit.campaigns().pause_campaign(request).await;
    finish(&visit, result, &campaign_address(&id), "paused")
}

/// Resumes a campaign.
pub(in crate::console) async fn resume(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = ResumeCampaignRequest {
        campaign_id: id.clone(),
        operator: visit.operator(),
        reason: fields.reason,
        ..ResumeCampaignRequest::default()
    };
    let result = visit.campaigns().resume_campaign(request).await;
    finish(&visit, result, &campaign_address(&id), "resumed")
}

/// Holds a prize, at once.
pub(in crate::console) async fn pause_prize(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = PausePrizeRequest {
        campaign_id: id.clone(),
        prize_id: prize,
        operator: visit.operator(),
        reason: fields.reason,
        ..PausePrizeRequest::default()
    };
    let result = visit.campaigns().pause_prize(request).await;
    finish(&visit, result, &campaign_address(&id), "prize-paused")
}

/// Releases a prize.
pub(in crate::console) async fn resume_prize(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = ResumePrizeRequest {
        campaign_id: id.clone(),
        prize_id: prize,
        operator: visit.operator(),
        reason: fields.reason,
        ..ResumePrizeRequest::default()
    };
    let result = visit.campaigns().resume_prize(request).await;
    finish(&visit, result, &campaign_address(&id), "prize-resumed")
}

/// Adds units to the stock of a prize: a new version of the campaign. It changes the version that
/// the form has seen, and none that came later.
pub(in crate::console) async fn raise_stock(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = campaign_address(&id);
    let campaign = match raised(&visit, &id, &prize, fields.units).await {
        Ok(campaign) => campaign,
        Err(status) => return finish::<()>(&visit, Err(status), &target, ""),
    };
    let request = ApplyCampaignRequest {
        campaign: Some(campaign.clone()),
        base_version: fields.version,
        operator: visit.operator(),
        reason: fields.reason.clone(),
        ..ApplyCampaignRequest::default()
    };
    let result = visit.campaigns().apply_campaign(request).await;
    let wanted = Wanted {
        campaign: id,
        change: Change::Campaign(campaign),
        base: Some(fields.version),
        request_id: String::new(),
        reason: fields.reason,
    };
    proposals::finish(&visit, result, wanted, (&target, "stock-raised")).await
}

/// The campaign with more units of a prize.
async fn raised(visit: &Visit, id: &str, prize: &str, units: u64) -> Result<Campaign, Status> {
    let mut campaign = status(visit, id).await?.campaign.unwrap_or_default();
    let known = campaign.prizes.iter_mut().find(|known| known.id == prize);
    let known = known.ok_or_else(|| Status::not_found(format!("there is no prize {prize}")))?;
    known.stock = known.stock.saturating_add(units);
    Ok(campaign)
}

/// Grants a user draws. The form has a request id: sent twice, it grants once.
pub(in crate::console) async fn grant(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = rows::user_address(&id, &fields.user);
    let request = GrantDrawsRequest {
        campaign_id: id,
        user_ids: vec![fields.user],
        draws: fields.draws,
        request_id: fields.request_id,
        operator: visit.operator(),
        reason: fields.reason,
        ..GrantDrawsRequest::default()
    };
    let result = visit.campaigns().grant_draws(request).await;
    finish(&visit, result, &target, "granted")
}

/// Blocks a user.
pub(in crate::console) async fn block(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = rows::user_address(&id, &fields.user);
    let request = BlockUsersRequest {
        campaign_id: id,
        user_ids: vec![fields.user],
        operator: visit.operator(),
        reason: fields.reason,
        ..BlockUsersRequest::default()
    };
    let result = visit.campaigns().block_users(request).await;
    finish(&visit, result, &target, "blocked")
}

/// Unblocks a user.
pub(in crate::console) async fn unblock(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = rows::user_address(&id, &fields.user);
    let request = UnblockUsersRequest {
        campaign_id: id,
        user_ids: vec![fields.user],
        operator: visit.operator(),
        reason: fields.reason,
        ..UnblockUsersRequest::default()
    };
    let result = visit.campaigns().unblock_users(request).await;
    finish(&visit, result, &target, "unblocked")
}

/// Marks a win as delivered.
pub(in crate::console) async fn deliver(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = MarkDeliveredRequest {
        campaign_id: id,
        unit_id: fields.unit,
        reference: fields.reference,
        operator: visit.operator(),
        ..MarkDeliveredRequest::default()
    };
    let result = visit.ledger().mark_delivered(request).await;
    finish(&visit, result, ui::own_path(&fields.back), "delivered")
}

/// Revokes a win; its unit goes back to stock.
pub(in crate::console) async fn revoke(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = RevokeWinRequest {
        campaign_id: id,
        unit_id: fields.unit,
        reason: fields.reason,
        operator: visit.operator(),
        ..RevokeWinRequest::default()
    };
    let result = visit.ledger().revoke_win(request).await;
    finish(&visit, result, ui::own_path(&fields.back), "revoked")
}

/// Cancels an envelope whose id was typed.
pub(in crate::console) async fn cancel_envelope(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = format!("/envelopes/{}", ui::encoded(&id));
    let typed = (fields.typed.as_str(), id.as_str());
    if let Some(page) = refused::typed(&visit, Place::Envelopes, typed, &target) {
        return page;
    }
    let request = CancelEnvelopeRequest {
        envelope_id: id,
        operator: visit.operator(),
        reason: fields.reason,
        ..CancelEnvelopeRequest::default()
    };
    let result = visit.envelopes().cancel_envelope(request).await;
    finish(&visit, result, &target, "cancelled")
}
