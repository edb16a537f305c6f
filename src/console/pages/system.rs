//! The service itself and its store, as far as the services tell.

use axum::{extract::State, response::Response};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use tokio::task::JoinSet;

use super::{definition, overview::seconds, partitions, replicas, rows, troubles};
use crate::{
    console::{
        About, Shared, StoreKind,
        i18n::Language,
        layout::Place,
        ui::{self, Column, number},
        visit::{Contents, Visit},
    },
    grpc::readiness::Phase,
    metrics::{INJECTOR, STORE, TLS},
    model::convert::times::from_wire,
    proto::{
        CampaignState, EnvelopeSums, GetScheduleRequest, GetStatsRequest, GetStatsResponse,
        LaneStats, LedgerStats, ListCampaignsRequest, ReplicaState,
    },
    store::Durability,
};

const MIB: u64 = 1024 * 1024;
/// Campaigns whose next hour the page shows.
const FIRINGS_MAX: u32 = 10;

/// The page.
pub(in crate::console) async fn page(State(console): State<Shared>, visit: Visit) -> Response {
    let lang = visit.language;
    let stats = visit
        .campaigns()
        .get_stats(GetStatsRequest::default())
        .await;
    let stats = stats.map(tonic::Response::into_inner);
    let work = work(&visit, &console.about);
    let firings = firings(&visit).await;
    let store = stats.map(|stats| store(&visit, &stats));
    let contents = html! {
        h1 { (lang.t("nav.system")) }
        section.card {
            h2 { (lang.t("system.service")) }
            dl.pairs {
                dt { (lang.t("system.state")) }
                dd { (phase(&visit, &console.readiness.phase())) }
                dt { (lang.t("system.version")) }
                dd { (env!("CARGO_PKG_VERSION")) " " code { (crate::BUILD_ID) } }
                dt { (lang.t("system.store")) }
                dd { (kind(lang, console.about.store)) " " code { (console.about.store_id) } }
                dt { (lang.t("system.keeps")) } dd { (keeps(lang, console.about.durability)) }
                dt { (lang.t("system.access")) }
                dd {
                    @if console.is_policed { (lang.t("system.policed")) }
                    @else { (lang.t("system.open")) }
                }
                dt { (lang.t("system.tls")) }
                dd {
                    @if console.has_tls { (lang.t("system.tls-on")) }
                    @else { (lang.t("system.tls-off")) }
                }
                @for (certificate, expiry_s) in TLS.expiries() {
                    dt { (lang.with("system.certificate", &certificate)) }
                    dd { (until(expiry_s)) }
                }
            }
            p.hint { (lang.t("system.replica")) }
        }
        section.card {
            h2 { (lang.t("system.next")) }
            (visit.section(firings))
            p.hint { (lang.with("system.lead", &number(console.about.lead.as_secs()))) }
        }
        (work)
        (visit.section(store))
        section.card {
            h2 { (lang.t("system.elsewhere")) }
            p { (lang.t("system.elsewhere-text")) }
        }
    };
    visit.page(Place::System, lang.t("nav.system"), Ok(contents))
}

fn phase(visit: &Visit, phase: &Phase) -> Markup {
    let lang = visit.language;
    match phase {
        Phase::Ready => replicas::state(lang, ReplicaState::Ready, ""),
        Phase::Impaired(which) => replicas::state(lang, ReplicaState::Impaired, which),
        Phase::Starting | Phase::Waiting(_) | Phase::Stopping => html! { (lang.t("away.title")) },
        Phase::NotReady(cause) => html! {
            (replicas::state(lang, ReplicaState::NotReady, cause))
            p.hint { (lang.t("system.recover")) " " code { "tombola recover" } }
        },
    }
}

/// A moment of Unix time, in UTC.
fn until(at_s: i64) -> Markup {
    let at = prost_types::Timestamp {
        seconds: at_s,
        nanos: 0,
    };
    html! { (ui::time(Some(&at), &TimeZone::UTC)) " UTC" }
}

/// Where the store is.
fn kind(lang: Language, store: StoreKind) -> &'static str {
    match store {
        StoreKind::Embedded => lang.t("system.embedded"),
        StoreKind::Redis => lang.t("system.redis"),
        StoreKind::Sentinel => lang.t("system.sentinel"),
        StoreKind::Cluster => lang.t("system.cluster"),
    }
}

/// What an acknowledged draw survives.
pub(in crate::console) fn keeps(lang: Language, durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => lang.t("system.keeps-nothing"),
        Durability::Embedded => lang.t("system.keeps-embedded"),
        Durability::Fast => lang.t("system.keeps-fast"),
        Durability::Local => lang.t("system.keeps-local"),
        Durability::Strict => lang.t("system.keeps-strict"),
    }
}

/// When hours are filled next, of the first campaigns that run.
async fn firings(visit: &Visit) -> Contents {
    let lang = visit.language;
    let request = ListCampaignsRequest {
        page_size: FIRINGS_MAX,
        state: CampaignState::Running.into(),
        ..ListCampaignsRequest::default()
    };
    let list = visit
        .campaigns()
        .list_campaigns(request)
        .await?
        .into_inner();
    let mut reads = JoinSet::new();
    for status in &list.campaigns {
        let (visit, (campaign, zone)) = (visit.clone(), definition(status));
        reads
            .spawn(async move { Some((next_firing(&visit, &campaign.id).await?, campaign, zone)) });
    }
    let mut firings: Vec<_> = reads.join_all().await.into_iter().flatten().collect();
    firings.sort_by_key(|(next, campaign, _)| (next.seconds, campaign.id.clone()));
    Ok(html! {
        @if firings.is_empty() { p { (lang.t("system.none-next")) } }
        ul.plain { @for (next, campaign, zone) in &firings { li {
            (ui::time(Some(next), zone)) " " (campaign.time_zone) " · "
            a href={ "/campaigns/" (campaign.id) "/schedule" } { (campaign.id) }
        } } }
        @if !list.next_page_token.is_empty() {
            p.hint { (lang.with("system.more-next", &FIRINGS_MAX.to_string())) }
        }
    })
}

/// When the next hour of a campaign is filled; none if it has no more, or if that cannot be read.
async fn next_firing(visit: &Visit, campaign: &str) -> Option<prost_types::Timestamp> {
    let request = GetScheduleRequest {
        campaign_id: campaign.into(),
        page_size: 1,
        ..GetScheduleRequest::default()
    };
    let response = visit.campaigns().get_schedule(request).await;
    response.ok()?.into_inner().next_injection_time
}

/// What the service has done since it was started.
fn work(visit: &Visit, about: &About) -> Markup {
    let lang = visit.language;
    let mean = |times: &prometheus::Histogram, scale: f64| match times.get_sample_count() {
        0 => "–".to_owned(),
        count => format!("{:.1}", times.get_sample_sum() * scale / count as f64),
    };
    html! {
        section.card {
            h2 { (lang.t("system.work")) }
            dl.pairs {
                dt { (lang.t("system.hours")) }
                dd { (lang.with("system.in-time", &number(INJECTOR.in_time.get())))
                    " · " (lang.with("system.late", &number(INJECTOR.late.get())))
                    " · " (lang.with("system.missed", &number(INJECTOR.missed.get()))) }
                @if about.store != StoreKind::Embedded {
                    dt { (lang.t("system.forks")) } dd { (number(STORE.forks.get())) }
                }
                dt { (lang.t("system.batches")) }
                dd { (number(STORE.batch_calls.get_sample_count())) " · "
                    (lang.with("system.calls", &mean(&STORE.batch_calls, 1.0))) }
                dt { (lang.t("system.waits")) } dd { (mean(&STORE.queue_s, 1e3)) " ms" }
                dt { (lang.t("system.at-store")) } dd { (mean(&STORE.call_s, 1e3)) " ms" }
            }
        }
    }
}

fn store(visit: &Visit, stats: &GetStatsResponse) -> Markup {
    let lang = visit.language;
    html! {
        (troubles::halted(lang, &stats.halted))
        @if stats.test_clock {
            (ui::notice("warn", &html! { (lang.t("system.test-clock")) }))
        }
        (replicas::shown(lang, &stats.replicas))
        (lanes(lang, &stats.lanes))
        @if let Some(ledger) = &stats.ledger { (ledger_of(visit, ledger, stats)) }
        (envelopes(visit, &stats.envelopes))
    }
}

/// Calls of this service that wait, and batches that are at the store.
fn lanes(lang: Language, lanes: &[LaneStats]) -> Markup {
    let name = lang.t("system.lanes");
    let columns = [
        Column::Text(lang.t("system.lane-calls")),
        Column::Number(lang.t("system.lane-count")),
        Column::Number(lang.t("system.lane-waiting")),
        Column::Number(lang.t("system.lane-longest")),
    ];
    html! {
        section.card {
            h2 { (name) }
            (ui::table(name, &columns, &html! { @for lane in lanes { tr {
                th scope="row" {
                    (ui::named(lang, "lane", "LANE_KIND_", lane.kind().as_str_name()))
                }
                td.n { (lane.lanes) }
                td.n { (number(lane.waiting_calls)) }
                td.n { @match &lane.longest_batch {
                    Some(longest) => { (milliseconds(longest)) " ms" }
                    None => { "–" }
                } }
            } } }))
            p.hint { (lang.t("system.lanes-hint")) }
        }
    }
}

fn milliseconds(span: &prost_types::Duration) -> String {
    let seconds = span.seconds as f64 + f64::from(span.nanos) / 1e9;
    format!("{:.1}", seconds * 1e3)
}

fn ledger_of(visit: &Visit, ledger: &LedgerStats, stats: &GetStatsResponse) -> Markup {
    let lang = visit.language;
    html! {
        section.card {
            h2 { (lang.t("system.ledger")) }
            dl.pairs {
                dt { (lang.t("system.settled")) }
                dd {
                    @if ledger.settled { (lang.t("system.yes")) }
                    @else { (lang.t("system.no")) }
                }
                dt { (lang.t("system.unsettled")) } dd { (number(ledger.unsettled_entries)) }
                @if let Some(lag) = &ledger.lag {
                    dt { (lang.t("system.lag")) } dd { (seconds(lang, lag)) }
                }
                @if ledger.memory_max_bytes > 0 {
                    dt { (lang.t("system.memory")) }
                    dd {
                        (number(ledger.memory_used_bytes / MIB)) " / "
                        (number(ledger.memory_max_bytes / MIB)) " MiB"
                        @if let Some(lasts) = &ledger.memory_lasts {
                            " · " (lang.with("system.memory-lasts", &ui::span(lang, lasts)))
                        }
                    }
                }
                dt { (lang.t("system.clock")) }
                dd { (ui::time(stats.read_time.as_ref(), &TimeZone::UTC)) " UTC"
                    @if !stats.test_clock { " · " (skew(visit, stats)) } }
            }
            @if !ledger.settled { p.hint { (lang.t("ledger.absent")) } }
            (partitions::shown(lang, ledger, stats))
        }
    }
}

/// How far the store's clock is ahead of this machine's, in tenths of a second.
fn skew(visit: &Visit, stats: &GetStatsResponse) -> String {
    let store = from_wire(stats.read_time.as_ref()).unwrap_or_default();
    let ahead_ms = store.as_millisecond() - Timestamp::now().as_millisecond();
    let text = format!("{:+.1}", ahead_ms as f64 / 1e3);
    visit.language.with("system.skew", &text)
}

/// Where the money of envelopes is.
fn envelopes(visit: &Visit, sums: &[EnvelopeSums]) -> Markup {
    let lang = visit.language;
    html! {
        section.card {
            h2 { (lang.t("nav.envelopes")) }
            @if sums.is_empty() {
                (ui::empty(&html! { p { (lang.t("envelope.none")) } }))
            } @else {
                (ui::scroll(lang.t("nav.envelopes"), &html! { table {
                    thead { tr {
                        th scope="col" { (lang.t("envelope.currency")) }
                        th.n scope="col" { (lang.t("nav.envelopes")) }
                        th.n scope="col" { (lang.t("envelope.total")) }
                        th.n scope="col" { (lang.t("envelope.grabbed")) }
                        th.n scope="col" { (lang.t("envelope.waiting")) }
                        th.n scope="col" { (lang.t("envelope.refunded")) }
                    } }
                    tbody { @for sum in sums {
                        @let amount = |minor| rows::amount(&sum.currency, minor);
                        tr {
                            th scope="row" {
                                (sum.currency)
                                @if !sum.balanced {
                                    " " span.badge.state-paused { (lang.t("alert.unbalanced")) }
                                }
                            }
                            td.n { (number(sum.envelopes)) }
                            td.n { (amount(sum.created_minor)) }
                            td.n { (amount(sum.grabbed_minor)) }
                            td.n { (amount(sum.waiting_minor)) }
                            td.n { (amount(sum.refunded_minor)) }
                        }
                    } }
                } }))
            }
        }
    }
}
