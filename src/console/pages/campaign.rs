//! A campaign: its state and brake, where every unit is, limits.

use axum::{
    extract::{Path, Query},
    response::Response,
};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    Tab, acts, alerts, budget, curve, definition, head, odds, prize_label, prize_name, prizes,
    proposals, status, troubles,
};
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, fact, live, number},
        visit::{Contents, Visit},
    },
    grpc,
    proto::{
        Campaign, CampaignState, CampaignStatus, DeckStats, DrawLimits, GetStatsRequest,
        GetStatsResponse, Hold,
    },
};

/// Alerts that the page shows.
const ALERTS_MAX: usize = 20;
/// The live element with all sums. Only a page that says why there are none has it: they take the
/// place of that once they can be read.
const NUMBERS: &str = "numbers";

/// What was just done.
#[derive(Debug, Default, Deserialize)]
pub(in crate::console) struct Asked {
    done: Option<String>,
    /// The time that the curve shows.
    #[serde(default)]
    curve: curve::Span,
}

/// The page of a campaign.
pub(in crate::console) async fn page(
    visit: Visit,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let contents = summary(&visit, &id, &asked).await;
    visit.page(Place::Campaigns, &id, contents)
}

async fn summary(visit: &Visit, id: &str, asked: &Asked) -> Contents {
    let lang = visit.language;
    let status = status(visit, id).await?;
    let (campaign, zone) = definition(&status);
    let curve = match asked.curve {
        curve::Span::Hour => None,
        span => Some(curve::settled(visit, &status, span).await),
    };
    let numbers = numbers_of(visit, &status, curve).await;
    Ok(html! {
        (head(visit, &status, Tab::Summary))
        @if let Some(done) = ui::done(lang, asked.done.as_deref()) { (done) }
        (brake(visit, &status))
        (proposals::open(visit, id).await)
        @for hold in &status.holds { (held(visit, &campaign, hold, &zone)) }
        div data-stream={ "/live/campaigns/" (id) } {
            @match &numbers {
                Ok(numbers) => { (numbers) }
                Err(why) => { div data-live=(NUMBERS) { (visit.trouble(why)) } }
            }
        }
        @if !is_over(&status) {
            (prizes::stock(lang, &status))
            p { a.button href={ "/campaigns/" (id) "/edit" } { (lang.t("new.edit-link")) } }
        }
        section.card {
            h2 { (lang.t("limits.title")) }
            (limits(visit, campaign.limits.as_ref()))
            @for segment in &campaign.segment_limits {
                h3 { (lang.with("limits.segment", &segment.segment)) }
                (limits(visit, segment.limits.as_ref()))
            }
            (caps(visit, &campaign))
        }
    })
}

pub(super) fn is_over(status: &CampaignStatus) -> bool {
    matches!(
        status.state(),
        CampaignState::Ending | CampaignState::Closed
    )
}

/// The sums of a campaign: the part of its page that is live.
pub(in crate::console) async fn numbers(visit: &Visit, id: &str) -> Contents {
    let status = status(visit, id).await?;
    let state = ui::state(visit.language, status.state());
    let numbers = numbers_of(visit, &status, None).await?;
    Ok(html! {
        span data-live="state" { (state) }
        (brake(visit, &status))
        div data-live=(NUMBERS) { (numbers) }
    })
}

/// The sums of a campaign, with a curve; with that of the last hour unless there is another one.
async fn numbers_of(visit: &Visit, status: &CampaignStatus, curve: Option<Markup>) -> Contents {
    let lang = visit.language;
    let (campaign, zone) = definition(status);
    let request = GetStatsRequest {
        campaign_id: campaign.id.clone(),
    };
    let stats = visit.campaigns().get_stats(request).await?.into_inner();
    let curve = curve.unwrap_or_else(|| curve::last_hour(visit, status, &stats));
    let sums = [
        ("draws", lang.t("sum.draws"), stats.draws),
        ("wins", lang.t("sum.wins"), stats.wins),
        (
            "consolations",
            lang.t("sum.consolations"),
            stats.consolations,
        ),
        ("nothings", lang.t("sum.nothings"), stats.nothings),
        ("users", lang.t("sum.users"), stats.users),
    ];
    let alerts = grpc::alerts::of(status, &stats);
    Ok(html! {
        div data-live="halted" { (troubles::halted(lang, &stats.halted)) }
        div data-live="alerts" { (alerts::shown(lang, &alerts, ALERTS_MAX)) }
        dl.facts {
            @for (key, name, value) in sums { (fact(name, &live(key, &number(value)))) }
            (fact(lang.t("sum.win-rate"), &live("rate", &rate(stats.wins, stats.draws))))
            (fact(lang.t("sum.a-minute"), &live("minute", &a_minute(&stats))))
        }
        (curve)
        section.card {
            h2 { (lang.t("units.title")) }
            (prizes::table(lang, status, &stats))
        }
        (budget::shown(lang, &campaign, stats.budget.as_ref()))
        (decks(visit, &campaign, &stats))
        p.hint { (lang.t("sum.read")) " " span data-live="read" {
            (ui::time(stats.read_time.as_ref(), &zone))
        } }
    })
}

/// Draws and wins a minute: `120 / 14`.
pub(super) fn a_minute(stats: &GetStatsResponse) -> String {
    stats.rate.as_ref().map_or_else(
        || "–".into(),
        |rate| format!("{} / {}", number(rate.draws), number(rate.wins)),
    )
}

/// A share to a tenth of a percent.
fn rate(part: u64, all: u64) -> String {
    match u128::from(part) * 1_000 / u128::from(all.max(1)) {
        _ if all == 0 => "–".into(),
        tenths => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

/// The emergency brake: one click, at once.
fn brake(visit: &Visit, status: &CampaignStatus) -> Markup {
    let lang = visit.language;
    let (campaign, _) = definition(status);
    let button = |act: &str, text: &str, class| {
        let path = format!("/campaigns/{}/{act}", campaign.id);
        prizes::button(&path, "brake", (text, text), class)
    };
    html! {
        div.brake data-live="brake" {
            @match status.state() {
                CampaignState::Running | CampaignState::Scheduled => {
                    (button("pause", lang.t("brake.pause-campaign"), "stop big"))
                    span.hint { (lang.t("brake.pause-hint")) }
                }
                CampaignState::Paused => {
                    (button("resume", lang.t("brake.resume-campaign"), "go big"))
                    span.hint { (lang.t("brake.resume-hint")) }
                }
                _ => {}
            }
        }
    }
}

/// Who paused what, since when and why. A reason that was not given can follow.
fn held(visit: &Visit, campaign: &Campaign, hold: &Hold, zone: &TimeZone) -> Markup {
    let lang = visit.language;
    let base = format!("/campaigns/{}", campaign.id);
    let (what, path) = match hold.prize_id.as_str() {
        "" => (html! { (lang.t("hold.campaign")) }, format!("{base}/pause")),
        id => (
            prize_name(campaign, id),
            format!("{base}/prizes/{id}/pause"),
        ),
    };
    let field = format!("reason-{}", hold.prize_id);
    ui::notice(
        "warn",
        &html! {
            p {
                strong { (what) } " " (lang.t("hold.since")) " "
                (ui::time(hold.hold_time.as_ref(), zone)) " " (lang.t("hold.by")) " "
                strong { (hold.operator) }
                @if !hold.reason.is_empty() { ": " (hold.reason) }
            }
            @if hold.reason.is_empty() {
                form.line method="post" action=(path) {
                    input type="hidden" name="held" value=(acts::pause_mark(hold));
                    label for=(field) { (lang.t("hold.why")) }
                    input id=(field) name="reason" required maxlength="1024";
                    button type="submit" { (lang.t("hold.submit")) }
                }
                p.hint { (lang.t("hold.hint")) }
            }
        },
    )
}

/// How far decks are.
fn decks(visit: &Visit, campaign: &Campaign, stats: &GetStatsResponse) -> Markup {
    let lang = visit.language;
    let row = |deck: &DeckStats| {
        let key = |part: &str| format!("{part}:deck:{}", deck.pool_id);
        let lacking = deck.lacking.iter();
        let lacking = lacking.map(|prize| format!("{} {}", number(prize.units), prize.prize_id));
        html! {
            tr {
                th scope="row" { (deck.pool_id) }
                td.n { (live(&key("round"), &number(deck.round))) }
                td.n { (live(&key("cards"), &number(deck.cards_left))) }
                td.n { (live(&key("waiting"), &number(deck.cards_waiting))) }
                td data-live=(key("stopped")) {
                    @if deck.stopped.is_empty() { (lang.t("deck.goes-on")) }
                    @else {
                        (stop(lang, &deck.stopped))
                        " " (lacking.collect::<Vec<_>>().join(", "))
                    }
                }
            }
        }
    };
    html! {
        @if !stats.decks.is_empty() && !campaign.pools.is_empty() {
            section.card {
                h2 { (lang.t("deck.title")) }
                (ui::scroll(lang.t("deck.title"), &html! { table {
                    thead { tr {
                        th scope="col" { (lang.t("deck.pool")) }
                        th.n scope="col" { (lang.t("deck.round")) }
                        th.n scope="col" { (lang.t("deck.cards")) }
                        th.n scope="col" { (lang.t("deck.waiting")) }
                        th scope="col" { (lang.t("deck.state")) }
                    } }
                    tbody { @for deck in &stats.decks { (row(deck)) } }
                } }))
            }
        }
    }
}

/// Why a deck gives no more cards; as the service says it if this console does not know it.
fn stop(lang: Language, stopped: &str) -> Markup {
    let text = match stopped {
        grpc::DECK_EXHAUSTED => lang.t("deck.exhausted"),
        grpc::DECK_OUT_OF_STOCK => lang.t("deck.out-of-stock"),
        grpc::DECK_HELD => lang.t("deck.held"),
        other => return html! { span lang="en" { (other) } },
    };
    html! { (text) }
}

/// Prizes of which a user may win only so many.
fn caps(visit: &Visit, campaign: &Campaign) -> Markup {
    let prizes = campaign.prizes.iter();
    let capped: Vec<_> = prizes.filter(|prize| prize.per_user.is_some()).collect();
    html! {
        @if !capped.is_empty() {
            h3 { (visit.language.t("limits.prizes")) }
            dl.pairs { @for prize in &capped {
                (odds::cap(visit.language, &prize_label(campaign, &prize.id), prize.per_user))
            } }
        }
    }
}

/// Limits for each user.
fn limits(visit: &Visit, limits: Option<&DrawLimits>) -> Markup {
    let lang = visit.language;
    let limits = limits.copied().unwrap_or_default();
    let rows = [
        (lang.t("limits.draws-per-day"), limits.draws_per_day),
        (lang.t("limits.draws-per-hour"), limits.draws_per_hour),
        (
            lang.t("limits.paid-draws-per-day"),
            limits.paid_draws_per_day,
        ),
        (lang.t("limits.draws-per-user"), limits.draws_per_user),
        (lang.t("limits.wins-per-user"), limits.wins_per_user),
        (lang.t("limits.granted-per-day"), limits.granted_per_day),
    ];
    html! {
        dl.pairs {
            @for (name, most) in rows {
                dt { (name) }
                dd { @match most {
                    Some(most) => (number(most.into())),
                    None => (lang.t("limits.none")),
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_deck_stopped_is_said_in_the_visitor_s_language() {
        let chinese = Language::of_tag("zh").unwrap();
        let known = [
            grpc::DECK_EXHAUSTED,
            grpc::DECK_OUT_OF_STOCK,
            grpc::DECK_HELD,
        ];
        for stopped in known {
            assert_eq!(stop(Language::ENGLISH, stopped).into_string(), stopped);
            assert!(!stop(chinese, stopped).into_string().is_ascii());
        }
        let new = stop(chinese, "it is new").into_string();
        assert_eq!(new, r#"<span lang="en">it is new</span>"#);
    }
}
