//! Users of a campaign: who is blocked, and all that is known of one user.

use axum::{
    extract::{Path, Query},
    response::{IntoResponse as _, Redirect, Response},
};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Tab, definition,
    fields::Fields,
    forget, forms, head, prize_name,
    rows::{self, Of},
    status,
};
use crate::{
    console::{
        layout::Place,
        ui::{self, Column, fact, number},
        visit::{Contents, Visit},
    },
    proto::{
        CampaignStatus, GetUserRequest, GuaranteeProgress, Limits, ListBlockedUsersRequest,
        ListDrawsRequest, ListWinsRequest, Quota, User,
    },
};

/// Blocked users on a page.
const BLOCKED_SIZE: u32 = 50;
/// Draws and wins of a user that the page shows.
const RECORDS_SIZE: u32 = 20;

/// Which user.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// As people type it.
    #[serde(default)]
    user: String,
    /// To the byte.
    #[serde(default)]
    id: String,
    #[serde(default)]
    page: String,
    done: Option<String>,
}

impl Asked {
    /// The user; empty for none.
    fn user(&self) -> &str {
        match self.id.as_str() {
            "" => self.user.trim(),
            id => id,
        }
    }
}

/// Goes to a user of a campaign.
pub(in crate::console) async fn find(Query(fields): Query<Fields>) -> Response {
    let address = rows::user_address(fields.get("campaign"), fields.get("user"));
    Redirect::to(&address).into_response()
}

/// The page.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = match status(&visit, &id).await {
        Ok(status) => Ok(framed(&visit, &status, &asked).await),
        Err(status) => Err(status),
    };
    match asked.user() {
        "" => visit.page(Place::Campaigns, &id, contents),
        user => {
            let title = format!("{user} · {}", visit.language.t("tab.users"));
            visit.page(Place::Campaigns, &title, contents)
        }
    }
}

async fn framed(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let rest = match asked.user() {
        "" => visit.section(blocked(visit, status, asked).await),
        id => user(visit, status, id).await,
    };
    html! {
        (head(visit, status, Tab::Users))
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (forms::find_user(lang, &campaign.id, asked.user()))
        p { a href={ "/campaigns/" (campaign.id) "/many" } { (lang.t("many.link")) } }
        (rest)
    }
}

async fn blocked(visit: &Visit, status: &CampaignStatus, asked: &Asked) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = ListBlockedUsersRequest {
        campaign_id: campaign.id.clone(),
        page_size: BLOCKED_SIZE,
        page_token: asked.page.clone(),
    };
    let list = visit
        .campaigns()
        .list_blocked_users(request)
        .await?
        .into_inner();
    let path = format!("/campaigns/{}/users", campaign.id);
    Ok(html! {
        section.card {
            h2 { (lang.t("user.blocked-users")) " (" (number(list.blocked_users)) ")" }
            @if list.users.is_empty() {
                (ui::empty(&html! { p { (lang.t("user.none-blocked")) } }))
            } @else {
                (ui::scroll(lang.t("user.blocked-users"), &html! { table {
                    thead { tr {
                        th scope="col" { (lang.t("list.user")) }
                        th scope="col" { (lang.t("list.time")) }
                        th scope="col" { (lang.t("list.operator")) }
                        th scope="col" { (lang.t("form.reason")) }
                    } }
                    tbody { @for user in &list.users { tr {
                        th scope="row" {
                            a href=(rows::user_address(&campaign.id, &user.user_id)) {
                                (user.user_id)
                            }
                        }
                        td { (ui::time(user.block_time.as_ref(), &zone)) }
                        td { (user.operator) }
                        td { (user.reason) }
                    } } }
                } }))
            }
            (ui::next(lang, &path, &[], &list.next_page_token))
        }
    })
}

async fn user(visit: &Visit, status: &CampaignStatus, id: &str) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = GetUserRequest {
        campaign_id: campaign.id.clone(),
        user_id: id.into(),
    };
    let user = visit.campaigns().get_user(request).await;
    let user = user.map(|response| response.into_inner().user.unwrap_or_default());
    let user = user.map(|user| record(visit, status, &user, &zone));
    let draws = draws(visit, &campaign.id, id, &zone).await;
    let wins = wins(visit, &campaign.id, id, &zone).await;
    html! {
        h2 { (id) }
        (visit.section(user))
        section.card { h2 { (lang.t("tab.draws")) } (visit.section(draws)) }
        section.card { h2 { (lang.t("tab.wins")) } (visit.section(wins)) }
    }
}

fn record(visit: &Visit, status: &CampaignStatus, user: &User, zone: &TimeZone) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    html! {
        @if let Some(block) = &user.block {
            (ui::notice("warn", &html! {
                strong { (lang.t("user.is-blocked")) } " "
                (ui::time(block.block_time.as_ref(), zone)) " " (lang.t("hold.by")) " "
                (block.operator)
                @if !block.reason.is_empty() { ": " (block.reason) }
            }))
        }
        dl.facts {
            (fact(lang.t("sum.draws"), &html! { (number(user.draws)) }))
            (fact(lang.t("sum.wins"), &html! { (number(user.wins)) }))
            (fact(lang.t("user.bonus-used"), &html! { (number(user.bonus_draws_used)) }))
        }
        section.card {
            h2 { (lang.t("limits.title")) }
            @if let Some(limits) = &user.limits { (quotas(visit, status, limits, zone)) }
            @for bonus in &user.bonus_draws {
                p {
                    (lang.with("user.bonus", &number(bonus.draws))) " "
                    @if bonus.expire_time.is_some() {
                        (lang.t("user.until")) " " (ui::time(bonus.expire_time.as_ref(), zone))
                    }
                }
            }
        }
        @if let Some(limits) = user.limits.as_ref().filter(|it| !it.guarantees.is_empty()) {
            section.card {
                h2 { (lang.t("guarantee.title")) }
                (guarantees(visit, &limits.guarantees))
            }
        }
        section.card {
            h2 { (lang.t("user.acts")) }
            (forms::user(lang, &campaign, user))
            p.hint {
                a href=(forget::address(&user.user_id)) { (lang.t("forget.link")) }
            }
        }
    }
}

fn quotas(visit: &Visit, status: &CampaignStatus, limits: &Limits, zone: &TimeZone) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let text = |key| html! { (lang.t(key)) };
    let mut rows = vec![
        (text("limits.draws-per-day"), limits.draws_today.as_ref()),
        (
            text("limits.draws-per-hour"),
            limits.draws_this_hour.as_ref(),
        ),
        (
            text("limits.paid-draws-per-day"),
            limits.paid_draws_today.as_ref(),
        ),
        (text("limits.draws-per-user"), limits.draws_total.as_ref()),
        (text("limits.wins-per-user"), limits.wins_total.as_ref()),
        (
            text("limits.granted-per-day"),
            limits.granted_today.as_ref(),
        ),
    ];
    for prize in &limits.prizes {
        let name = prize_name(&campaign, &prize.prize_id);
        let today = html! { (name) " " (lang.t("limits.today")) };
        rows.push((today, prize.today.as_ref()));
        rows.push((name, prize.total.as_ref()));
    }
    let row = |name: &Markup, quota: &Quota| {
        let most = quota
            .limit
            .map_or_else(|| lang.t("limits.none").into(), number);
        let left = quota.remaining.map_or_else(|| "–".into(), number);
        html! {
            tr {
                th scope="row" { (name) }
                td.n { (number(quota.used)) }
                td.n { (most) }
                td.n { (left) }
                td { (ui::time(quota.reset_time.as_ref(), zone)) }
            }
        }
    };
    ui::scroll(
        lang.t("limits.title"),
        &html! { table {
            thead { tr {
                th scope="col" { (lang.t("limits.limit")) }
                th.n scope="col" { (lang.t("limits.used")) }
                th.n scope="col" { (lang.t("limits.most")) }
                th.n scope="col" { (lang.t("limits.left")) }
                th scope="col" { (lang.t("limits.reset")) }
            } }
            tbody {
                @for (name, quota) in &rows { @if let Some(quota) = quota { (row(name, quota)) } }
            }
        } },
    )
}

/// How far guarantees of the campaign and of personal pools are.
fn guarantees(visit: &Visit, all: &[GuaranteeProgress]) -> Markup {
    let lang = visit.language;
    let columns = [
        Column::Text(lang.t("guarantee.id")),
        Column::Text(lang.t("deck.pool")),
        Column::Number(lang.t("guarantee.since")),
        Column::Number(lang.t("guarantee.left")),
    ];
    let rows = html! {
        @for it in all { tr {
            th scope="row" { (it.guarantee_id) }
            td { @if it.pool_id.is_empty() { (lang.t("guarantee.all")) } @else { (it.pool_id) } }
            td.n { (number(it.draws_since.into())) }
            td.n {
                @match it.draws_left {
                    _ if it.due => strong { (lang.t("guarantee.due")) },
                    Some(left) => (number(left.into())),
                    None => "–",
                }
            }
        } }
    };
    ui::table(lang.t("guarantee.title"), &columns, &rows)
}

async fn draws(visit: &Visit, campaign: &str, user: &str, zone: &TimeZone) -> Contents {
    let lang = visit.language;
    let request = ListDrawsRequest {
        campaign_id: campaign.into(),
        user_id: user.into(),
        page_size: RECORDS_SIZE,
        ..ListDrawsRequest::default()
    };
    let list = visit.ledger().list_draws(request).await?.into_inner();
    let all = ui::address(&format!("/campaigns/{campaign}/draws"), &[("user", user)]);
    Ok(html! {
        (rows::behind(lang, list.complete_until.as_ref(), zone))
        @if list.draws.is_empty() { (ui::empty(&html! { p { (lang.t("list.no-draws")) } })) }
        @else { (rows::draws(Of::One(zone), lang, &list.draws)) }
        @if !list.next_page_token.is_empty() { p { a href=(all) { (lang.t("list.all")) } } }
    })
}

async fn wins(visit: &Visit, campaign: &str, user: &str, zone: &TimeZone) -> Contents {
    let lang = visit.language;
    let request = ListWinsRequest {
        campaign_id: campaign.into(),
        user_id: user.into(),
        page_size: RECORDS_SIZE,
        ..ListWinsRequest::default()
    };
    let list = visit.ledger().list_wins(request).await?.into_inner();
    let all = ui::address(&format!("/campaigns/{campaign}/wins"), &[("user", user)]);
    let back = rows::user_address(campaign, user);
    Ok(html! {
        (rows::behind(lang, list.complete_until.as_ref(), zone))
        @if list.wins.is_empty() { (ui::empty(&html! { p { (lang.t("list.no-wins")) } })) }
        @else { (rows::wins(Of::One(zone), lang, &list.wins, &back)) }
        @if !list.next_page_token.is_empty() { p { a href=(all) { (lang.t("list.all")) } } }
    })
}
