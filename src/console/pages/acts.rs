//! What pages do: each act is one call of a service, which admits or refuses it.

use axum::{
    Form,
    extract::Path,
    response::{IntoResponse as _, Redirect, Response},
};
use maud::html;
use tonic::Status;

use super::{
    change, definition,
    fields::Fields,
    proposals::{self, Wanted},
    refused::refused,
    rows,
    sent::Sent,
    status,
};
use crate::{
    console::{layout::Place, ui, visit::Visit},
    proto::{
        ApplyCampaignRequest, BlockUsersRequest, Campaign, CancelEnvelopeRequest,
        GetCampaignRequest, GrantDrawsRequest, Hold, MarkDeliveredRequest, PauseCampaignRequest,
        PausePrizeRequest, ResumeCampaignRequest, ResumePrizeRequest, RevokeWinRequest,
        UnblockUsersRequest, propose_change_request::Change,
    },
};

/// The field that most forms have.
pub(super) const REASON: (&str, &str) = ("reason", "form.reason");

/// Goes to the page that shows the effect, or shows why there is none, above the form with what was
/// typed.
pub(super) fn finish<T>(
    visit: &Visit,
    result: Result<T, Status>,
    (target, done): (&str, &str),
    sent: &Sent<'_>,
) -> Response {
    match result {
        Ok(_) => gone_to(target, done),
        Err(status) => sent.refused(visit, &status),
    }
}

/// [`finish`] of a button that pauses or resumes, on the page of the campaign.
fn pressed<T>(
    visit: &Visit,
    result: Result<T, Status>,
    (campaign, done): (&str, &str),
    fields: &Fields,
) -> Response {
    let sent = Sent::of(fields.pairs(), &[REASON], None);
    finish(visit, result, (&campaign_address(campaign), done), &sent)
}

/// Goes to a page, which says what was done.
pub(super) fn gone_to(target: &str, done: &str) -> Response {
    let mark = if target.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{target}{mark}done={done}")).into_response()
}

pub(super) fn campaign_address(id: &str) -> String {
    format!("/campaigns/{}", ui::encoded(id))
}

/// The moment of a pause, by which a form knows it again.
pub(super) fn pause_mark(hold: &Hold) -> String {
    let time = hold.hold_time.unwrap_or_default();
    format!("{}.{}", time.seconds, time.nanos)
}

/// If a form adds the reason of a pause that has ended, the page that says so: to pause with this
/// reason would begin another pause.
async fn ended_pause(visit: &Visit, id: &str, prize: &str, fields: &Fields) -> Option<Response> {
    let mark = fields.get("held");
    if mark.is_empty() {
        return None;
    }
    let status = match status(visit, id).await {
        Ok(status) => status,
        Err(status) => {
            let sent = Sent::of(fields.pairs(), &[REASON], None);
            return Some(sent.refused(visit, &status));
        }
    };
    let mut holds = status.holds.iter();
    let is_held = holds.any(|hold| hold.prize_id == prize && pause_mark(hold) == mark);
    let why = html! { (visit.language.t("hold.ended")) };
    (!is_held).then(|| refused(visit, Place::Campaigns, &why, &campaign_address(id)))
}

/// Pauses a campaign, at once.
pub(in crate::console) async fn pause(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    if let Some(page) = ended_pause(&visit, &id, "", &fields).await {
        return page;
    }
    let request = PauseCampaignRequest {
        campaign_id: id.clone(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
        ..PauseCampaignRequest::default()
    };
    let result = visit.campaigns().pause_campaign(request).await;
    pressed(&visit, result, (&id, "paused"), &fields)
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
        reason: fields.get("reason").into(),
        ..ResumeCampaignRequest::default()
    };
    let result = visit.campaigns().resume_campaign(request).await;
    pressed(&visit, result, (&id, "resumed"), &fields)
}

/// Holds a prize, at once.
pub(in crate::console) async fn pause_prize(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    if let Some(page) = ended_pause(&visit, &id, &prize, &fields).await {
        return page;
    }
    let request = PausePrizeRequest {
        campaign_id: id.clone(),
        prize_id: prize,
        operator: visit.operator(),
        reason: fields.get("reason").into(),
        ..PausePrizeRequest::default()
    };
    let result = visit.campaigns().pause_prize(request).await;
    pressed(&visit, result, (&id, "prize-paused"), &fields)
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
        reason: fields.get("reason").into(),
        ..ResumePrizeRequest::default()
    };
    let result = visit.campaigns().resume_prize(request).await;
    pressed(&visit, result, (&id, "prize-resumed"), &fields)
}

/// Adds units to the stock of a prize: a new version of the campaign. It changes the version that
/// the form has seen, and none that came later.
pub(in crate::console) async fn raise_stock(
    visit: Visit,
    Path((id, prize)): Path<(String, String)>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = campaign_address(&id);
    let shown = [("units", "stock.add"), REASON];
    let sent = Sent::of(fields.pairs(), &shown, None);
    let (Some(units), Some(version)) = (fields.parsed("units"), fields.parsed("version")) else {
        return sent.wrong(&visit, visit.language.t("form.whole"));
    };
    let campaign = match raised(&visit, (&id, version), &prize, units).await {
        Ok(campaign) => campaign,
        Err(status) => return sent.refused(&visit, &status),
    };
    let reason = fields.get("reason").to_owned();
    let request = ApplyCampaignRequest {
        campaign: Some(campaign.clone()),
        base_version: version,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: reason.clone(),
        ..ApplyCampaignRequest::default()
    };
    let result = visit.campaigns().apply_campaign(request).await;
    let wanted = Wanted {
        campaign: id,
        change: Change::Campaign(campaign),
        base: Some(version),
        request_id: fields.get("request_id").into(),
        reason,
    };
    proposals::finish(&visit, result, wanted, (&target, "stock-raised"), &sent).await
}

/// A version of a campaign with more units of a prize. A form that is sent twice asks for the same
/// twice, though there is a newer version the second time.
async fn raised(
    visit: &Visit,
    (id, version): (&str, u32),
    prize: &str,
    units: u64,
) -> Result<Campaign, Status> {
    let request = GetCampaignRequest {
        campaign_id: id.into(),
        version,
    };
    let seen = visit.campaigns().get_campaign(request).await?.into_inner();
    let mut campaign = seen.status.unwrap_or_default().campaign.unwrap_or_default();
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
    let target = rows::user_address(&id, fields.exact("user"));
    let shown = [
        ("draws", "user.grant-draws"),
        ("expire", "user.grant-until"),
        REASON,
    ];
    let sent = Sent::of(fields.pairs(), &shown, None);
    let Some(draws) = fields.parsed("draws") else {
        return sent.wrong(&visit, visit.language.t("form.whole"));
    };
    let expire_time = match moment(&visit, &id, fields.get("expire")).await {
        Ok(moment) => moment,
        Err(trouble) => return trouble.page(&visit, &sent),
    };
    let request = GrantDrawsRequest {
        campaign_id: id,
        user_ids: vec![fields.exact("user").into()],
        draws,
        expire_time,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().grant_draws(request).await;
    finish(&visit, result, (&target, "granted"), &sent)
}

/// Why a form has no moment.
pub(super) enum NoMoment {
    /// What was typed is none.
    Wrong(String),
    /// The campaign, whose zone counts, cannot be read.
    Refused(Status),
}

impl NoMoment {
    pub(super) fn page(self, visit: &Visit, sent: &Sent<'_>) -> Response {
        match self {
            Self::Wrong(text) => sent.wrong(visit, &visit.language.with("edit.bad-time", &text)),
            Self::Refused(status) => sent.refused(visit, &status),
        }
    }
}

/// The moment of a field with a local time in the campaign's zone; none if it is empty.
pub(super) async fn moment(
    visit: &Visit,
    campaign: &str,
    text: &str,
) -> Result<Option<prost_types::Timestamp>, NoMoment> {
    if text.is_empty() {
        return Ok(None);
    }
    let status = status(visit, campaign).await.map_err(NoMoment::Refused)?;
    let (_, zone) = definition(&status);
    let moment = change::moment(text, &zone);
    moment.map(Some).ok_or_else(|| NoMoment::Wrong(text.into()))
}

/// Blocks a user.
pub(in crate::console) async fn block(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = rows::user_address(&id, fields.exact("user"));
    let request = BlockUsersRequest {
        campaign_id: id,
        user_ids: vec![fields.exact("user").into()],
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().block_users(request).await;
    let sent = Sent::of(fields.pairs(), &[REASON], None);
    finish(&visit, result, (&target, "blocked"), &sent)
}

/// Unblocks a user.
pub(in crate::console) async fn unblock(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = rows::user_address(&id, fields.exact("user"));
    let request = UnblockUsersRequest {
        campaign_id: id,
        user_ids: vec![fields.exact("user").into()],
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().unblock_users(request).await;
    let sent = Sent::of(fields.pairs(), &[REASON], None);
    finish(&visit, result, (&target, "unblocked"), &sent)
}

/// Marks a win as delivered.
pub(in crate::console) async fn deliver(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let request = MarkDeliveredRequest {
        campaign_id: id,
        unit_id: fields.exact("unit").into(),
        reference: fields.get("reference").into(),
        operator: visit.operator(),
        ..MarkDeliveredRequest::default()
    };
    let result = visit.ledger().mark_delivered(request).await;
    let target = (ui::own_path(fields.exact("back")), "delivered");
    let sent = Sent::of(fields.pairs(), &[("reference", "win.reference")], None);
    finish(&visit, result, target, &sent)
}

/// Revokes a win; its unit goes back to stock, or leaves the campaign once the unit's id is typed.
pub(in crate::console) async fn revoke(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let withdraw = fields.get("units") == "withdraw";
    let unit = fields.exact("unit");
    let sent = Sent::of(fields.pairs(), &[REASON], withdraw.then_some(unit));
    if let Some(page) = sent.mistyped(&visit) {
        return page;
    }
    let request = RevokeWinRequest {
        campaign_id: id,
        unit_id: unit.into(),
        reason: fields.get("reason").into(),
        withdraw,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
    };
    let result = visit.ledger().revoke_win(request).await;
    let target = (ui::own_path(fields.exact("back")), "revoked");
    finish(&visit, result, target, &sent)
}

/// Cancels an envelope whose id was typed.
pub(in crate::console) async fn cancel_envelope(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let target = format!("/envelopes/{}", ui::encoded(&id));
    let sent = Sent::of(fields.pairs(), &[REASON], Some(&id));
    if let Some(page) = sent.mistyped(&visit) {
        return page;
    }
    let request = CancelEnvelopeRequest {
        envelope_id: id.clone(),
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.envelopes().cancel_envelope(request).await;
    finish(&visit, result, (&target, "cancelled"), &sent)
}
