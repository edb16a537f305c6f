//! What cannot be undone: closing a campaign, and taking units back that are not released. The id
//! of the campaign must be typed.

use axum::{Form, extract::Path, response::Response};
use maud::{Markup, html};

use super::definition;
use crate::{
    console::{
        pages::{
            acts,
            fields::Fields,
            forms::request_id,
            prize_label,
            proposals::{self, Wanted},
            sent::Sent,
        },
        visit::Visit,
    },
    proto::{
        CampaignStatus, CloseCampaignRequest, Pool, ProposedClose, ProposedRecall,
        RecallUnitsRequest, pool::Kind, propose_change_request::Change,
    },
};

/// What people fill in.
const SHOWN: [(&str, &str); 2] = [("hour", "ending.one-hour"), ("reason", "form.reason")];

/// The forms.
pub(super) fn forms(visit: &Visit, status: &CampaignStatus) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let base = format!("/campaigns/{}", campaign.id);
    let is_schedule = |pool: &&Pool| matches!(pool.kind, Some(Kind::Schedule(_)));
    let schedules: Vec<_> = campaign.pools.iter().filter(is_schedule).collect();
    let confirm = html! {
        label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
        label { (lang.with("form.type-id", &campaign.id))
            input name="typed" required maxlength="128" autocomplete="off";
        }
    };
    html! {
        section.card {
            h2 { (lang.t("ending.title")) }
            @if !schedules.is_empty() {
                details.act {
                    summary { (lang.t("ending.recall")) }
                    p { (lang.t("ending.recall-hint")) }
                    form.line method="post" action={ (base) "/recall" } {
                        label { (lang.t("deck.pool"))
                            select name="pool" {
                                @for pool in &schedules { option { (pool.id) } }
                            }
                        }
                        label { (lang.t("units.prize"))
                            select name="prize" {
                                option value="" { (lang.t("overview.all")) }
                                @for prize in &campaign.prizes {
                                    option value=(prize.id) { (prize_label(&campaign, &prize.id)) }
                                }
                            }
                        }
                        label { (lang.with("ending.hour", &campaign.time_zone))
                            input name="hour" type="datetime-local" step="3600";
                        }
                        label { (lang.t("ending.units"))
                            select name="units" {
                                option value="stock" { (lang.t("ending.to-stock")) }
                                option value="withdraw" { (lang.t("ending.withdraw")) }
                            }
                        }
                        (request_id())
                        (confirm)
                        button.stop type="submit" { (lang.t("ending.recall")) }
                    }
                }
            }
            details.act {
                summary { (lang.t("ending.close")) }
                p { (lang.t("ending.close-hint")) }
                form.line method="post" action={ (base) "/close" } {
                    (request_id())
                    (confirm)
                    button.stop type="submit" { (lang.t("ending.close")) }
                }
            }
        }
    }
}

/// Closes a campaign whose id was typed.
pub(in crate::console) async fn close(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let sent = Sent::of(fields.pairs(), &SHOWN, Some(&id));
    if let Some(page) = sent.mistyped(&visit) {
        return page;
    }
    let target = acts::campaign_address(&id);
    let request = CloseCampaignRequest {
        campaign_id: id.clone(),
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().close_campaign(request).await;
    let wanted = wanted(&id, Change::Close(ProposedClose {}), &fields);
    proposals::finish(&visit, result, wanted, (&target, "closed"), &sent).await
}

/// Takes units of one injected hour or of all of them back that are not released.
pub(in crate::console) async fn recall(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    let sent = Sent::of(fields.pairs(), &SHOWN, Some(&id));
    if let Some(page) = sent.mistyped(&visit) {
        return page;
    }
    let window_start_time = match acts::moment(&visit, &id, fields.get("hour")).await {
        Ok(moment) => moment,
        Err(trouble) => return trouble.page(&visit, &sent),
    };
    let target = acts::campaign_address(&id);
    let withdraw = fields.get("units") == "withdraw";
    let recall = ProposedRecall {
        pool_id: fields.get("pool").into(),
        window_start_time,
        prize_id: fields.get("prize").into(),
        withdraw,
    };
    let request = RecallUnitsRequest {
        campaign_id: id.clone(),
        pool_id: recall.pool_id.clone(),
        window_start_time,
        prize_id: recall.prize_id.clone(),
        withdraw,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    let result = visit.campaigns().recall_units(request).await;
    let wanted = wanted(&id, Change::Recall(recall), &fields);
    let done = if withdraw { "withdrawn" } else { "recalled" };
    proposals::finish(&visit, result, wanted, (&target, done), &sent).await
}

/// What is proposed if it needs an approval.
fn wanted(campaign: &str, change: Change, fields: &Fields) -> Wanted {
    Wanted {
        campaign: campaign.into(),
        change,
        base: None,
        request_id: fields.get("request_id").into(),
        reason: fields.get("reason").into(),
    }
}
