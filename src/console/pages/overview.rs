//! The first page: all campaigns, with their sums and what needs a look.

use axum::{
    extract::{Query, State},
    http::{HeaderMap, header::SET_COOKIE},
    response::Response,
};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;
use tokio::task::JoinSet;
use tonic::Status;

use super::{alerts, campaign::a_minute, definition, proposals, since, troubles};
use crate::{
    console::{
        Shared,
        i18n::Language,
        layout::Place,
        ui::{self, live, number},
        visit::{Contents, Visit},
    },
    grpc,
    proto::{
        CampaignState, CampaignStatus, GetStatsRequest, GetStatsResponse, ListCampaignsRequest,
        PrizeStats,
    },
};

/// Campaigns on a page: each costs a call for its sums.
const PAGE_SIZE: u32 = 25;
/// Alerts that a row shows.
const ALERTS_MAX: usize = 3;
/// The states to filter by.
const STATES: [CampaignState; 5] = [
    CampaignState::Running,
    CampaignState::Scheduled,
    CampaignState::Paused,
    CampaignState::Ending,
    CampaignState::Closed,
];

/// Which campaigns.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    /// The name of a state; empty: all.
    #[serde(default)]
    state: String,
    #[serde(default)]
    page: String,
}

/// The page.
pub(in crate::console) async fn page(
    State(console): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Response {
    let listed = async {
        let listed = read(&visit, &asked).await;
        let now_s = listed.as_ref().ok().and_then(Listed::read_s);
        let since = match now_s {
            Some(now_s) => since::last_visit(&console, &visit, &headers, now_s).await,
            None => (html! {}, None),
        };
        (listed, since)
    };
    let ((listed, (changes, cookie)), proposals) =
        tokio::join!(listed, proposals::open(&visit, ""));
    let contents = listed.map(|listed| {
        let list = shown(&visit, &asked, &listed);
        framed(&visit, &asked, &html! { (proposals) (changes) }, &list)
    });
    let title = visit.language.t("nav.campaigns");
    let mut response = visit.page(Place::Campaigns, title, contents);
    if let Some(Ok(cookie)) = cookie.map(|cookie| cookie.parse()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

/// A span without what is less than a second.
pub(super) fn seconds(lang: Language, exact: &prost_types::Duration) -> String {
    let whole = prost_types::Duration {
        seconds: exact.seconds,
        nanos: 0,
    };
    ui::span(lang, &whole)
}

fn framed(visit: &Visit, asked: &Asked, notes: &Markup, list: &Markup) -> Markup {
    let lang = visit.language;
    let query = [
        ("state", asked.state.as_str()),
        ("page", asked.page.as_str()),
    ];
    html! {
        div.title {
            h1 { (lang.t("nav.campaigns")) }
            a.button href="/new" { (lang.t("new.title")) }
        }
        (notes)
        nav.filters aria-label=(lang.t("overview.filter")) {
            a href="/" aria-current=[asked.state.is_empty().then_some("true")] {
                (lang.t("overview.all"))
            }
            @for state in STATES {
                @let name = short(state);
                a href=(ui::address("/", &[("state", name)]))
                    aria-current=[(asked.state == name).then_some("true")]
                {
                    (ui::named(lang, "state", "", name))
                }
            }
        }
        div data-stream=(ui::address("/live/overview", &query)) { (list) }
    }
}

fn short(state: CampaignState) -> &'static str {
    state.as_str_name().trim_start_matches("CAMPAIGN_STATE_")
}

/// A page of campaigns, with their sums.
struct Listed {
    troubles: Markup,
    alerts: alerts::Card,
    campaigns: Vec<CampaignStatus>,
    stats: Vec<Result<GetStatsResponse, Status>>,
    next: String,
}

impl Listed {
    /// When it was read, by the store's clock.
    fn read_s(&self) -> Option<i64> {
        let first = self.campaigns.first()?;
        first.read_time.as_ref().map(|at| at.seconds)
    }
}

async fn read(visit: &Visit, asked: &Asked) -> Result<Listed, Status> {
    let state = STATES
        .into_iter()
        .find(|state| short(*state) == asked.state);
    let request = ListCampaignsRequest {
        page_size: PAGE_SIZE,
        page_token: asked.page.clone(),
        state: state.unwrap_or_default().into(),
        ..ListCampaignsRequest::default()
    };
    let response = visit
        .campaigns()
        .list_campaigns(request)
        .await?
        .into_inner();
    let (alerts, stats) = tokio::join!(alerts::card(visit), all_stats(visit, &response.campaigns));
    Ok(Listed {
        troubles: troubles::shown(visit.language, &response),
        alerts,
        campaigns: response.campaigns,
        stats,
        next: response.next_page_token,
    })
}

/// The table of campaigns.
pub(in crate::console) async fn list(visit: &Visit, asked: &Asked) -> Contents {
    let listed = read(visit, asked).await?;
    Ok(shown(visit, asked, &listed))
}

fn shown(visit: &Visit, asked: &Asked, listed: &Listed) -> Markup {
    let lang = visit.language;
    let is_filtered = !asked.state.is_empty() || !asked.page.is_empty();
    let rows = listed.campaigns.iter().zip(&listed.stats);
    html! {
        div data-live="troubles" { (listed.troubles) }
        div data-live="alerts" { (listed.alerts.shown) }
        @if listed.campaigns.is_empty() {
            (ui::empty(&html! {
                @if is_filtered {
                    p { (lang.t("overview.none-here")) }
                } @else {
                    p { strong { (lang.t("overview.none")) } }
                    p { a.button.primary href="/new" { (lang.t("new.title")) } }
                    p { (lang.t("overview.begin")) }
                    pre { code { "tombola apply wheel.yaml" } }
                }
            }))
        } @else {
            (ui::scroll(lang.t("nav.campaigns"), &html! {
                table.campaigns {
                    thead { tr {
                        th scope="col" { (lang.t("overview.campaign")) }
                        th scope="col" { (lang.t("overview.state")) }
                        th.n scope="col" { (lang.t("sum.draws")) }
                        th.n scope="col" { (lang.t("sum.wins")) }
                        th.n scope="col" { (lang.t("sum.a-minute")) }
                        th.n scope="col" { (lang.t("overview.left")) }
                        th scope="col" { (lang.t("overview.alerts")) }
                    } }
                    tbody { @for (status, stats) in rows {
                        (row(visit, status, stats, &listed.alerts))
                    } }
                }
            }))
        }
        (ui::next(lang, "/", &[("state", &asked.state)], &listed.next))
    }
}

fn row(
    visit: &Visit,
    status: &CampaignStatus,
    stats: &Result<GetStatsResponse, Status>,
    card: &alerts::Card,
) -> Markup {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let id = &campaign.id;
    let name = if campaign.name.is_empty() {
        id
    } else {
        &campaign.name
    };
    let key = |part: &str| format!("{part}:{id}");
    html! {
        tr {
            th scope="row" {
                a href={ "/campaigns/" (id) } { (name) }
                @if name != id { span.id { (id) } }
            }
            td data-live=(key("state")) { (ui::state(lang, status.state())) }
            @match stats {
                Ok(stats) => {
                    td.n { (live(&key("draws"), &number(stats.draws))) }
                    td.n { (live(&key("wins"), &number(stats.wins))) }
                    td.n { (live(&key("minute"), &a_minute(stats))) }
                    td.n data-live=(key("left")) { (left(lang, stats, &zone)) }
                    td data-live=(key("alerts")) {
                        @if !stats.halted.is_empty() {
                            span.badge.window-missed { (lang.t("halt.badge")) }
                        }
                        (card.others(lang, &grpc::alerts::of(status, stats), ALERTS_MAX))
                    }
                }
                Err(status) => { td colspan="5" { (visit.trouble(status)) } }
            }
        }
    }
}

/// The prize that runs out first if users go on winning as they do, and when; else the one with the
/// smallest part of its stock left. And how much that is.
fn left(lang: Language, stats: &GetStatsResponse, zone: &TimeZone) -> Markup {
    let limited = stats
        .prizes
        .iter()
        .filter(|prize| !prize.unlimited && prize.stock > 0);
    let percent = |prize: &PrizeStats| {
        let there = prize.left + prize.waiting + prize.held;
        u128::from(there) * 100 / u128::from(prize.stock)
    };
    let next = limited.min_by_key(|prize| {
        let out = prize.runs_out_time.as_ref();
        (out.map_or(i64::MAX, |out| out.seconds), percent(prize))
    });
    html! {
        @match next {
            Some(prize) => {
                (prize.prize_id) " " (percent(prize)) "%"
                @if prize.runs_out_time.is_some() {
                    br; span.hint {
                        (lang.t("overview.runs-out")) " "
                        (ui::time(prize.runs_out_time.as_ref(), zone))
                    }
                }
            }
            None => "–",
        }
    }
}

/// The sums of all campaigns of a page, in their order.
async fn all_stats(
    visit: &Visit,
    campaigns: &[CampaignStatus],
) -> Vec<Result<GetStatsResponse, Status>> {
    let mut calls = JoinSet::new();
    for (index, status) in campaigns.iter().enumerate() {
        let (campaign, _) = definition(status);
        let mut client = visit.campaigns();
        let request = GetStatsRequest {
            campaign_id: campaign.id,
        };
        calls.spawn(async move { (index, client.get_stats(request).await) });
    }
    let mut stats: Vec<_> = calls.join_all().await;
    stats.sort_by_key(|(index, _)| *index);
    let stats = stats.into_iter();
    stats
        .map(|(_, response)| response.map(tonic::Response::into_inner))
        .collect()
}
