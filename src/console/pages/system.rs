//! The service itself and its store, as far as the services tell.

use axum::{extract::State, response::Response};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::rows;
use crate::{
    console::{
        Shared,
        layout::Place,
        ui::{self, number},
        visit::{Contents, Visit},
    },
    grpc::readiness::Phase,
    model::convert::times::span,
    proto::{EnvelopeSums, GetStatsRequest, GetStatsResponse, LedgerStats},
};

const MIB: u64 = 1024 * 1024;

/// The page.
pub(in crate::console) async fn page(State(console): State<Shared>, visit: Visit) -> Response {
    let lang = visit.language;
    let store = store(&visit).await;
    let contents = html! {
        h1 { (lang.t("nav.system")) }
        section.card {
            h2 { (lang.t("system.service")) }
            dl.pairs {
                dt { (lang.t("system.state")) }
                dd { (phase(&visit, &console.readiness.phase())) }
                dt { (lang.t("system.version")) }
                dd { (env!("CARGO_PKG_VERSION")) " " code { (crate::BUILD_ID) } }
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
            }
            p.hint { (lang.t("system.replica")) }
        }
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
        Phase::Ready => html! { span.badge.state-running { (lang.t("system.ready")) } },
        Phase::Starting | Phase::Stopping => html! { (lang.t("away.title")) },
        Phase::NotReady(cause) => html! {
            span.badge.state-paused { (lang.t("system.not-ready")) } " " span lang="en" { (cause) }
        },
    }
}

async fn store(visit: &Visit) -> Contents {
    let lang = visit.language;
    let request = GetStatsRequest::default();
    let stats = visit.campaigns().get_stats(request).await?.into_inner();
    Ok(html! {
        @if stats.test_clock {
            (ui::notice("warn", &html! { (lang.t("system.test-clock")) }))
        }
        @if let Some(ledger) = &stats.ledger { (ledger_of(visit, ledger, &stats)) }
        (envelopes(visit, &stats.envelopes))
    })
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
                    @else { (lang.t("ledger.absent")) }
                }
                dt { (lang.t("system.unsettled")) } dd { (number(ledger.unsettled_entries)) }
                @if let Some(lag) = &ledger.lag {
                    dt { (lang.t("system.lag")) } dd { (span(lag)) }
                }
                @if ledger.memory_max_bytes > 0 {
                    dt { (lang.t("system.memory")) }
                    dd {
                        (number(ledger.memory_used_bytes / MIB)) " / "
                        (number(ledger.memory_max_bytes / MIB)) " MiB"
                        @if let Some(lasts) = &ledger.memory_lasts {
                            " · " (lang.with("system.memory-lasts", &span(lasts)))
                        }
                    }
                }
                dt { (lang.t("system.clock")) }
                dd { (ui::time(stats.read_time.as_ref(), &TimeZone::UTC)) " UTC" }
            }
            details {
                summary { (lang.t("system.partitions")) }
                (ui::scroll(lang.t("system.partitions"), &html! { table {
                    thead { tr {
                        th.n scope="col" { (lang.t("system.partition")) }
                        th.n scope="col" { (lang.t("system.entries")) }
                    } }
                    tbody { @for head in &stats.ledger_heads { tr {
                        td.n { (head.partition) } td.n { (number(head.sequence)) }
                    } } }
                } }))
            }
        }
    }
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
