//! The plan editor: a grid of hours or days and prizes, painted step by step into a draft. Each
//! step is a dry run of the service; applying the draft is a call of its own.
//!
//! A campaign may have tens of thousands of hours. Whatever looks at them takes a turn of
//! [`compute`]: once to paint, and once to show what came of it.

mod canvas;
mod grid;
mod preview;
mod strokes;

use axum::{
    Form,
    extract::{Path, Query},
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use tonic::Status;

use self::canvas::Canvas;
use super::{
    Tab, acts,
    fields::Fields,
    forecast, head, new, problems,
    proposals::{self, Wanted},
    sent::Sent,
    status,
};
use crate::{
    console::{
        compute::compute,
        i18n::Language,
        layout::Place,
        ui,
        visit::{Contents, Visit, http_status, reason},
    },
    model::{Problems, convert::moment_to_proto},
    proto::{
        CampaignStatus, GetCampaignRequest, GetScheduleRequest, Schedule, SetPlanRequest,
        SetPlanResponse, pool::Kind, propose_change_request::Change,
    },
};

/// Whether drafts are sent to this path.
pub(in crate::console) fn takes_draft(path: &str) -> bool {
    path.starts_with("/campaigns/") && path.ends_with("/plan")
}

/// The page with nothing painted.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(fields): Query<Fields>,
) -> Response {
    let contents = edited(&visit, &id, &fields).await;
    shown(&visit, contents)
}

fn shown(visit: &Visit, contents: Contents) -> Response {
    let title = visit.language.t("schedule.edit");
    visit.page(Place::Campaigns, title, contents)
}

/// Paints, goes elsewhere in the calendar, or applies.
pub(in crate::console) async fn submit(
    visit: Visit,
    headers: HeaderMap,
    Path(id): Path<String>,
    Form(fields): Form<Fields>,
) -> Response {
    if fields.get("do") == "apply" {
        match applied(&visit, &id, &fields).await {
            Ok(address) => return new::gone_to(&headers, address),
            // The page compares the versions.
            Err(status) if reason(&status) == "VERSION_STALE" => {}
            Err(status) => return refused(&visit, &id, &fields, &status).await,
        }
    }
    match edited(&visit, &id, &fields).await {
        // Nothing else has the draft.
        Err(status) => kept(&visit, &fields, &status),
        contents => shown(&visit, contents),
    }
}

/// Applies the draft, or proposes it if that needs an approval; the address of what came of it.
async fn applied(visit: &Visit, id: &str, fields: &Fields) -> Result<String, Status> {
    match apply(visit, id, fields).await {
        Ok(()) => {
            let query = [
                ("pool", fields.get("pool")),
                ("at", fields.get("at")),
                ("done", "plan-applied"),
            ];
            let path = format!("/campaigns/{}/plan", ui::encoded(id));
            Ok(ui::address(&path, &query))
        }
        Err(status) if proposals::is_needed(&status) => {
            let wanted = wanted(visit, id, fields).await?;
            let address = proposals::send(visit, wanted).await?;
            Ok(ui::address(&address, &[("done", "proposed")]))
        }
        Err(status) => Err(status),
    }
}

/// The editor with the draft that is not applied, and why.
async fn refused(visit: &Visit, id: &str, fields: &Fields, status: &Status) -> Response {
    let Ok(editor) = edited(visit, id, fields).await else {
        return kept(visit, fields, status);
    };
    let contents = html! { (visit.trouble(status)) (editor) };
    (http_status(status), shown(visit, Ok(contents))).into_response()
}

/// Why the editor cannot be shown now, with all that was sent in a form.
fn kept(visit: &Visit, fields: &Fields, status: &Status) -> Response {
    Sent::of(fields.pairs(), &[acts::REASON], None).refused(visit, status)
}

async fn edited(visit: &Visit, id: &str, fields: &Fields) -> Contents {
    let lang = visit.language;
    let status = status(visit, id).await?;
    let head = head(visit, &status, Tab::Schedule);
    let base = fields.parsed::<u32>("base").unwrap_or(status.version);
    let has_draft = !matches!(fields.get("draft"), "" | canvas::IN_FORCE);
    let is_stale = has_draft && base != status.version;
    if is_stale && fields.get("do") != "rebase" {
        return Ok(html! { (head) (grid::stale(visit, &status, base, fields)) });
    }
    let before = match is_stale {
        true => Some(version(visit, id, base).await?),
        false => None,
    };
    let form = fields.clone();
    let step = match compute(move || Step::of(lang, before, status, &form)).await? {
        Ok(Some(step)) => step,
        Ok(None) => {
            let none = ui::empty(&html! { p { (lang.t("schedule.none")) } });
            return Ok(html! { (head) (none) });
        }
        Err(found) => return Ok(html! { (head) (problems::list(lang, &found)) }),
    };
    let result = result(visit, id, fields, step).await?;
    Ok(html! {
        (head)
        @if let Some(done) = ui::done(lang, Some(fields.get("done"))) { (done) }
        (result)
    })
}

/// The editor after a step, and what the draft would change, if anything. There is a forecast if
/// the form asks for one and the service takes the draft.
async fn result(visit: &Visit, id: &str, fields: &Fields, step: Step) -> Contents {
    let Step {
        canvas,
        notice,
        draft,
    } = step;
    let planned = match draft {
        Some(draft) => Some(tried(visit, id, &canvas, draft).await),
        None => None,
    };
    let injected = injected(visit, id, &canvas).await;
    let has_forecast = matches!(planned, Some(Ok(_))) && fields.get("do") == "forecast";
    let (guest, form) = (visit.clone(), fields.clone());
    let draw = move || {
        let editor = grid::editor(&guest, &canvas, &form, &injected);
        let preview = planned.map(|planned| preview::preview(&guest, &canvas, &form, planned));
        let drawn = html! { (editor) @if let Some(preview) = preview { (preview) } };
        (drawn, has_forecast.then(|| canvas.drafted()))
    };
    let (editor, campaign) = compute(draw).await?;
    let forecast = match campaign {
        Some(campaign) => forecast::run(visit, campaign, fields).await,
        None => html! {},
    };
    Ok(html! { (notice) (editor) (forecast) })
}

/// What became of the draft by what a form says.
struct Step {
    canvas: Canvas,
    /// Why the draft is as it was.
    notice: Markup,
    /// The draft as a message; none if it changes nothing.
    draft: Option<Schedule>,
}

impl Step {
    /// Does to the draft what the form says. If the draft is of an earlier version, `before`, it is
    /// painted on the current one first. None if the campaign has no schedule.
    ///
    /// # Errors
    /// What is wrong with the campaign or with the draft.
    fn of(
        lang: Language,
        before: Option<CampaignStatus>,
        status: CampaignStatus,
        fields: &Fields,
    ) -> Result<Option<Self>, Problems> {
        let canvas = match before {
            Some(before) => rebased(before, status, fields)?,
            None => Canvas::of(status, fields)?,
        };
        let Some(mut canvas) = canvas else {
            return Ok(None);
        };
        let notice = stroke(lang, &mut canvas, fields);
        let is_changed = canvas.is_changed();
        let draft = is_changed.then(|| canvas.message(&canvas.draft));
        Ok(Some(Self {
            canvas,
            notice,
            draft,
        }))
    }
}

/// Does to the draft what the form says; gives why not.
fn stroke(lang: Language, canvas: &mut Canvas, fields: &Fields) -> Markup {
    match fields.get("do") {
        "undo" => canvas.undo(),
        "cells" | "range" | "copy" => match strokes::of(canvas, fields) {
            Ok(painted) => {
                if let Err(found) = canvas.paint(&painted) {
                    return html! {
                        (problems::list(lang, &found))
                        p.hint { (lang.t("plan.fold")) }
                    };
                }
            }
            Err(key) => return ui::notice("warn", &html! { (lang.t(key)) }),
        },
        _ => {}
    }
    html! {}
}

/// The draft of an earlier version, painted on the current one.
fn rebased(
    before: CampaignStatus,
    status: CampaignStatus,
    fields: &Fields,
) -> Result<Option<Canvas>, Problems> {
    let Some(other) = Canvas::of(before, fields)? else {
        return Ok(None);
    };
    let Some(mut canvas) = Canvas::of(status, &fields.without(&["draft", "last"]))? else {
        return Ok(None);
    };
    canvas.repeat(&other)?;
    Ok(Some(canvas))
}

/// The campaign with the definition of a version.
async fn version(visit: &Visit, id: &str, version: u32) -> Result<CampaignStatus, Status> {
    let request = GetCampaignRequest {
        campaign_id: id.into(),
        version,
    };
    let response = visit.campaigns().get_campaign(request).await?.into_inner();
    Ok(response.status.unwrap_or_default())
}

/// A dry run of the draft.
async fn tried(
    visit: &Visit,
    id: &str,
    canvas: &Canvas,
    draft: Schedule,
) -> Result<SetPlanResponse, Status> {
    let request = SetPlanRequest {
        campaign_id: id.into(),
        pool_id: canvas.pool_id().into(),
        base_version: canvas.status.version,
        schedule: Some(draft),
        dry_run: true,
        operator: visit.operator(),
        ..SetPlanRequest::default()
    };
    Ok(visit.campaigns().set_plan(request).await?.into_inner())
}

/// Brings a draft into force, if its version is still the current one.
async fn apply(visit: &Visit, id: &str, fields: &Fields) -> Result<(), Status> {
    let request = SetPlanRequest {
        campaign_id: id.into(),
        pool_id: fields.get("pool").into(),
        base_version: fields.parsed("base").unwrap_or(0),
        schedule: canvas::message(fields.get("draft")),
        dry_run: false,
        request_id: fields.get("request_id").into(),
        operator: visit.operator(),
        reason: fields.get("reason").into(),
    };
    visit.campaigns().set_plan(request).await.map(drop)
}

/// The campaign with a draft, as a change that is to be proposed.
async fn wanted(visit: &Visit, id: &str, fields: &Fields) -> Result<Wanted, Status> {
    let base = fields.parsed("base").unwrap_or(0);
    let seen = version(visit, id, base).await?;
    let mut campaign = seen.campaign.unwrap_or_default();
    let mut pools = campaign.pools.iter_mut();
    let pool = pools.find(|pool| pool.id == fields.get("pool"));
    if let (Some(pool), Some(schedule)) = (pool, canvas::message(fields.get("draft"))) {
        pool.kind = Some(Kind::Schedule(schedule));
    }
    Ok(Wanted {
        campaign: id.into(),
        change: Change::Campaign(campaign),
        base: Some(base),
        request_id: fields.get("request_id").into(),
        reason: fields.get("reason").into(),
    })
}

/// What is injected already in the hours of a day; empty if the grid shows a month.
async fn injected(visit: &Visit, id: &str, canvas: &Canvas) -> grid::Injected {
    let canvas::View::Day(day) = canvas.view else {
        return grid::Injected::new();
    };
    let request = GetScheduleRequest {
        campaign_id: id.into(),
        pool_id: canvas.pool_id().into(),
        from_time: Some(moment_to_proto(canvas.begin(day))),
        page_size: super::schedule::HOURS_MAX,
        ..GetScheduleRequest::default()
    };
    // The grid shows what it can without these.
    let Ok(response) = visit.campaigns().get_schedule(request).await else {
        return grid::Injected::new();
    };
    let mut injected = grid::Injected::new();
    for window in response.into_inner().windows {
        let hour = window.local_start.get(..13).unwrap_or_default();
        for prize in window.prizes.iter().filter(|prize| prize.injected > 0) {
            let key = (hour.to_owned(), prize.prize_id.clone());
            *injected.entry(key).or_default() += prize.injected;
        }
    }
    injected
}
