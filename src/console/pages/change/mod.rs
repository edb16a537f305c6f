//! Everyday changes of a campaign: its name and end, limits, budget, names and caps of prizes. A
//! form shows first what it would change, then applies that to the version that was read and to no
//! other.

mod budget;
mod ending;
mod proposal;

use std::collections::BTreeMap;

use axum::{
    Form,
    extract::{Path, Query},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Status;

pub(in crate::console) use self::ending::{close, recall};
use self::proposal::LimitField;
pub(super) use self::proposal::moment;
use super::{
    Tab, acts,
    campaign::is_over,
    definition, head,
    proposals::{self, Wanted},
    sent::Sent,
    status,
};
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, Column, number},
        visit::{Contents, Visit, reason},
    },
    model::text::visible,
    proto::{
        ApplyCampaignRequest, ApplyCampaignResponse, Campaign, CampaignStatus, GetCampaignRequest,
        WindowChange, propose_change_request::Change,
    },
};

/// What was just done.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    done: Option<String>,
}

fn address(id: &str) -> String {
    format!("/campaigns/{}/change", ui::encoded(id))
}

/// The page with the forms.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let lang = visit.language;
    let contents = status(&visit, &id).await.map(|status| {
        html! {
            (head(&visit, &status, Tab::Change))
            @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
            @if is_over(&status) { (ui::empty(&html! { p { (lang.t("edit.over")) } })) }
            @else { (forms(&visit, &status)) (ending::forms(&visit, &status)) }
        }
    });
    visit.page(Place::Campaigns, &id, contents)
}

fn forms(visit: &Visit, status: &CampaignStatus) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let action = address(&campaign.id);
    // A form that is sent twice changes once.
    let request = format!("console-{:016x}", rand::random::<u64>());
    let hidden = html! {
        input type="hidden" name="version" value=(status.version);
        input type="hidden" name="request_id" value=(request);
    };
    let check = html! { button type="submit" { (lang.t("edit.check")) } };
    html! {
        p.hint { (lang.t("edit.hint")) }
        section.card {
            h2 { (lang.t("edit.campaign")) }
            form.line method="post" action=(action) {
                (hidden)
                label { (lang.t("edit.name"))
                    input name="name" value=(campaign.name) maxlength="256" autocomplete="off";
                }
                label { (lang.with("edit.end", &campaign.time_zone))
                    input name="end" type="datetime-local" step="1" required
                        value=(proposal::local(campaign.end_time.as_ref(), &zone));
                }
                (check)
            }
        }
        section.card {
            h2 { (lang.t("limits.title")) }
            p.hint { (lang.t("edit.limits-hint")) }
            form.line method="post" action=(action) {
                (hidden) (limits(visit, &proposal::LIMITS, 0, campaign.limits)) (check)
            }
            @for segment in &campaign.segment_limits {
                h3 { (lang.with("limits.segment", &segment.segment)) }
                form.line method="post" action=(action) {
                    (hidden)
                    input type="hidden" name="segment" value=(segment.segment);
                    (limits(visit, &proposal::LIMITS, 0, segment.limits)) (check)
                }
            }
        }
        section.card {
            h2 { (lang.t("budget.title")) }
            p.hint { (lang.t("edit.budget-hint")) }
            form.line method="post" action=(action) {
                (hidden) (budget::fields(lang, &campaign)) (check)
            }
        }
        section.card {
            h2 { (lang.t("edit.prizes")) }
            p.hint { (lang.t("edit.caps-hint")) }
            @for prize in &campaign.prizes {
                form.line method="post" action=(action) {
                    (hidden)
                    input type="hidden" name="prize" value=(prize.id);
                    label { (prize.id)
                        input name="prize_name" value=(prize.name) maxlength="256"
                            autocomplete="off";
                    }
                    (limits(visit, &proposal::CAPS, 1, prize.per_user))
                    (check)
                }
            }
        }
    }
}

fn limits<T: Default>(
    visit: &Visit,
    fields: &[LimitField<T>],
    least: u32,
    limits: Option<T>,
) -> Markup {
    let mut limits = limits.unwrap_or_default();
    html! {
        @for (name, key, limit) in fields {
            label { (visit.language.t(key))
                input name=(name) type="number" min=(least) max=(u32::MAX) inputmode="numeric"
                    value=[*limit(&mut limits)];
            }
        }
    }
}

type Fields = BTreeMap<String, String>;

/// Shows what a form would change, and changes nothing.
pub(in crate::console) async fn check(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    match propose(&visit, &id, &fields, true).await {
        Ok(would) => {
            let title = visit.language.t("edit.check-title");
            let contents = checked(&visit, &id, &fields, &would);
            visit.page(Place::Campaigns, title, Ok(contents))
        }
        Err(trouble) => trouble.page(&visit, &id, &fields).await,
    }
}

/// Applies what was checked.
pub(in crate::console) async fn apply(
    visit: Visit,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    match propose(&visit, &id, &fields, false).await {
        Ok(_) => acts::gone_to(&address(&id), "changed"),
        Err(Trouble::Refused(refusal)) if proposals::is_needed(&refusal) => {
            let campaign = match changed(&visit, &id, &fields).await {
                Ok(campaign) => campaign,
                Err(trouble) => return trouble.page(&visit, &id, &fields).await,
            };
            let wanted = Wanted {
                campaign: id.clone(),
                change: Change::Campaign(campaign),
                base: Some(base_version(&fields)),
                request_id: fields.get("request_id").cloned().unwrap_or_default(),
                reason: fields.get("reason").cloned().unwrap_or_default(),
            };
            let result = Err::<(), _>(refusal);
            let target = (address(&id), "changed");
            let sent = sent(&fields);
            proposals::finish(&visit, result, wanted, (&target.0, target.1), &sent).await
        }
        Err(trouble) => trouble.page(&visit, &id, &fields).await,
    }
}

/// The version that the form has seen, with the fields of the form.
async fn changed(visit: &Visit, id: &str, fields: &Fields) -> Result<Campaign, Trouble> {
    let request = GetCampaignRequest {
        campaign_id: id.into(),
        version: base_version(fields),
    };
    let seen = visit.campaigns().get_campaign(request).await?.into_inner();
    let (mut campaign, zone) = definition(&seen.status.unwrap_or_default());
    proposal::change(&mut campaign, &zone, fields, visit.language).map_err(Trouble::Form)?;
    Ok(campaign)
}

/// Why nothing is changed.
enum Trouble {
    /// The form is wrong.
    Form(Vec<String>),
    /// The service refuses it.
    Refused(Status),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

fn base_version(fields: &Fields) -> u32 {
    let version = fields.get("version").and_then(|text| text.parse().ok());
    version.unwrap_or_default()
}

/// Applies the fields to the version that the form has seen, or says what that would do.
async fn propose(
    visit: &Visit,
    id: &str,
    fields: &Fields,
    dry_run: bool,
) -> Result<ApplyCampaignResponse, Trouble> {
    let campaign = changed(visit, id, fields).await?;
    let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let request = ApplyCampaignRequest {
        campaign: Some(campaign),
        base_version: base_version(fields),
        dry_run,
        request_id: text("request_id"),
        operator: visit.operator(),
        reason: text("reason"),
    };
    let response = visit.campaigns().apply_campaign(request).await?;
    Ok(response.into_inner())
}

impl Trouble {
    async fn page(self, visit: &Visit, id: &str, fields: &Fields) -> Response {
        match self {
            Self::Form(problems) => sent(fields).wrong(visit, &problems.join(" · ")),
            Self::Refused(refusal) if reason(&refusal) == "VERSION_STALE" => {
                let contents = stale(visit, id, base_version(fields), &refusal).await;
                let page = visit.page(Place::Campaigns, id, contents);
                (StatusCode::CONFLICT, page).into_response()
            }
            Self::Refused(refusal) => sent(fields).refused(visit, &refusal),
        }
    }
}

/// A form of the page as it was sent: what it changes, and the reason.
fn sent(fields: &Fields) -> Sent<'_> {
    let pairs = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    Sent::of(pairs, &proposal::SHOWN, None)
}

/// Who changed the campaign since the form was made, and why.
async fn stale(visit: &Visit, id: &str, seen: u32, refusal: &Status) -> Contents {
    let lang = visit.language;
    let status = status(visit, id).await?;
    let (_, zone) = definition(&status);
    let newer = status.versions.iter().filter(|it| it.version > seen);
    Ok(html! {
        (head(visit, &status, Tab::Change))
        (visit.trouble(refusal))
        ul.plain { @for version in newer { li {
            (lang.with("campaign.version", &version.version.to_string())) " · "
            (ui::time(version.apply_time.as_ref(), &zone)) " · "
            strong { (version.operator) }
            @if !version.reason.is_empty() { ": " (version.reason) }
        } } }
        p { a.button href=(address(id)) { (lang.t("edit.again")) } }
    })
}

/// What would change, and the form that does it.
fn checked(visit: &Visit, id: &str, fields: &Fields, would: &ApplyCampaignResponse) -> Markup {
    let lang = visit.language;
    let status = would.status.clone().unwrap_or_default();
    let (campaign, zone) = definition(&status);
    let kept = fields.iter().filter(|(name, _)| *name != "reason");
    html! {
        h1 { (lang.t("edit.check-title")) }
        p.sub { (named(&campaign)) }
        @if would.changes.is_empty() {
            (ui::empty(&html! { p { (lang.t("edit.nothing")) } }))
        } @else {
            (ui::scroll(lang.t("edit.differences"), &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("edit.field")) }
                    th scope="col" { (lang.t("edit.before")) }
                    th scope="col" { (lang.t("edit.after")) }
                } }
                tbody { @for change in &would.changes { tr {
                    th scope="row" { code { (change.path) } }
                    td { (or_none(&change.before)) }
                    td { (or_none(&change.after)) }
                } } }
            } }))
            (hours(lang, &would.window_changes, &zone))
            form.line method="post" action={ (address(id)) "/apply" } {
                @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                label { (lang.t("form.reason")) input name="reason" maxlength="1024"; }
                button.primary type="submit" {
                    (lang.with("edit.apply", &status.version.to_string()))
                }
            }
        }
        p { a href=(address(id)) { (lang.t("form.back")) } }
    }
}

/// What a change does to hours that are injected already.
pub(super) fn hours(lang: Language, changes: &[WindowChange], zone: &TimeZone) -> Markup {
    let columns = [
        Column::Text(lang.t("schedule.hour")),
        Column::Text(lang.t("deck.pool")),
        Column::Text(lang.t("units.prize")),
        Column::Number(lang.t("edit.before")),
        Column::Number(lang.t("edit.after")),
        Column::Number(lang.t("schedule.injected")),
    ];
    let rows = html! { @for hour in changes { tr {
        td { (ui::time(hour.start_time.as_ref(), zone)) }
        td { (hour.pool_id) }
        td { (hour.prize_id) }
        td.n { (number(hour.before)) }
        td.n { (number(hour.after)) }
        td.n { (number(hour.injected)) }
    } } };
    html! { @if !changes.is_empty() {
        section.card #hours {
            h2 { (lang.t("edit.hours")) }
            (ui::table(lang.t("edit.hours"), &columns, &rows))
        }
    } }
}

fn named(campaign: &Campaign) -> &str {
    match campaign.name.as_str() {
        "" => &campaign.id,
        name => name,
    }
}

fn or_none(value: &str) -> Markup {
    html! { @if value.is_empty() { "–" } @else { code { (visible(value)) } } }
}
