//! What happened in a campaign: its draws, its wins, and who did what and why.

use axum::{
    extract::{Path, Query},
    response::Response,
};
use maud::html;
use serde::Deserialize;

use super::{Tab, definition, forms, head, rows, status};
use crate::{
    console::{
        layout::Place,
        ui,
        visit::{Contents, Visit},
    },
    proto::{CampaignStatus, ListDrawsRequest, ListOperationsRequest, ListWinsRequest},
};

/// Elements of a page.
const PAGE_SIZE: u32 = 50;

/// The filters of a list.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    #[serde(default)]
    user: String,
    #[serde(default)]
    request: String,
    #[serde(default)]
    prize: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    page: String,
    done: Option<String>,
}

/// The draws of a campaign.
pub(in crate::console) async fn draws(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = match status(&visit, &id).await {
        Ok(status) => {
            let list = list_draws(&visit, &status, &asked).await;
            Ok(html! { (head(&visit, &status, Tab::Draws)) (visit.section(list)) })
        }
        Err(status) => Err(status),
    };
    visit.page(Place::Campaigns, &id, contents)
}

async fn list_draws(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = ListDrawsRequest {
        campaign_id: campaign.id.clone(),
        user_id: asked.user.clone(),
        request_id: asked.request.clone(),
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
        ..ListDrawsRequest::default()
    };
    let list = visit.ledger().list_draws(request).await?.into_inner();
    let path = format!("/campaigns/{}/draws", campaign.id);
    let query = [
        ("user", asked.user.as_str()),
        ("request", asked.request.as_str()),
    ];
    Ok(html! {
        (forms::filter(lang, &path, &[
            ("user", lang.t("list.user"), &asked.user),
            ("request", lang.t("list.request"), &asked.request),
        ]))
        (rows::behind(lang, list.complete_until.as_ref(), &zone))
        @if list.draws.is_empty() { (ui::empty(&html! { p { (lang.t("list.no-draws")) } })) }
        @else { (rows::draws(lang, &list.draws, &zone)) }
        (ui::next(lang, &path, &query, &list.next_page_token))
    })
}

/// The wins of a campaign.
pub(in crate::console) async fn wins(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let lang = visit.language;
    let contents = match status(&visit, &id).await {
        Ok(status) => {
            let list = list_wins(&visit, &status, &asked).await;
            Ok(html! {
                (head(&visit, &status, Tab::Wins))
                @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
                (visit.section(list))
            })
        }
        Err(status) => Err(status),
    };
    visit.page(Place::Campaigns, &id, contents)
}

async fn list_wins(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = ListWinsRequest {
        campaign_id: campaign.id.clone(),
        user_id: asked.user.clone(),
        prize_id: asked.prize.clone(),
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
        ..ListWinsRequest::default()
    };
    let list = visit.ledger().list_wins(request).await?.into_inner();
    let path = format!("/campaigns/{}/wins", campaign.id);
    let query = [
        ("user", asked.user.as_str()),
        ("prize", asked.prize.as_str()),
    ];
    let back = ui::address(&path, &query);
    Ok(html! {
        (forms::filter(lang, &path, &[
            ("user", lang.t("list.user"), &asked.user),
            ("prize", lang.t("units.prize"), &asked.prize),
        ]))
        (rows::behind(lang, list.complete_until.as_ref(), &zone))
        @if list.wins.is_empty() { (ui::empty(&html! { p { (lang.t("list.no-wins")) } })) }
        @else { (rows::wins(lang, &list.wins, &zone, &back)) }
        (ui::next(lang, &path, &query, &list.next_page_token))
    })
}

/// Versions, and who did what and why.
pub(in crate::console) async fn history(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let lang = visit.language;
    let contents = match status(&visit, &id).await {
        Ok(status) => {
            let acts = list_acts(&visit, &status, &asked).await;
            let (_, zone) = definition(&status);
            Ok(html! {
                (head(&visit, &status, Tab::History))
                section.card {
                    h2 { (lang.t("history.versions")) }
                    (ui::scroll(lang.t("history.versions"), &html! { table {
                        thead { tr {
                            th.n scope="col" { (lang.t("history.version")) }
                            th scope="col" { (lang.t("list.time")) }
                            th scope="col" { (lang.t("list.operator")) }
                            th scope="col" { (lang.t("form.reason")) }
                        } }
                        tbody { @for version in status.versions.iter().rev() { tr {
                            td.n { (version.version) }
                            td { (ui::time(version.apply_time.as_ref(), &zone)) }
                            td { (version.operator) }
                            td { (version.reason) }
                        } } }
                    } }))
                }
                section.card { h2 { (lang.t("history.acts")) } (visit.section(acts)) }
            })
        }
        Err(status) => Err(status),
    };
    visit.page(Place::Campaigns, &id, contents)
}

async fn list_acts(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = ListOperationsRequest {
        campaign_id: campaign.id.clone(),
        user_id: asked.user.clone(),
        operator: asked.operator.clone(),
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
        ..ListOperationsRequest::default()
    };
    let list = visit.ledger().list_operations(request).await?.into_inner();
    let path = format!("/campaigns/{}/history", campaign.id);
    let query = [
        ("operator", asked.operator.as_str()),
        ("user", asked.user.as_str()),
    ];
    Ok(html! {
        (forms::filter(lang, &path, &[
            ("operator", lang.t("list.operator"), &asked.operator),
            ("user", lang.t("list.user"), &asked.user),
        ]))
        (rows::behind(lang, list.complete_until.as_ref(), &zone))
        @if list.operations.is_empty() {
            (ui::empty(&html! { p { (lang.t("history.none")) } }))
        } @else {
            (rows::operations(lang, &list.operations, &zone))
        }
        (ui::next(lang, &path, &query, &list.next_page_token))
    })
}
