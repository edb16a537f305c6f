//! Where every unit of a campaign is, prize by prize, with the acts on a prize.

use maud::{Markup, html};

use super::{forms::request_id, prize_name};
use crate::{
    console::{
        charts::{self, Part},
        i18n::Language,
        ui::{self, live, number},
    },
    model::id::flaw_of_new,
    proto::{Campaign, CampaignState, CampaignStatus, GetStatsResponse, PrizePlan, PrizeStats},
};

/// The places of units: their class, and their count.
fn parts<'a>(lang: Language, prize: &PrizeStats) -> [Part<'a>; 5] {
    let part = |class, name, units| Part { class, name, units };
    [
        part("won", lang.t("units.won"), prize.won),
        part("waiting", lang.t("units.waiting"), prize.waiting),
        part("held", lang.t("units.held"), prize.held),
        part("left", lang.t("units.left"), prize.left),
        part("withdrawn", lang.t("units.withdrawn"), prize.withdrawn),
    ]
}

/// The table of prizes.
pub(super) fn table(lang: Language, status: &CampaignStatus, stats: &GetStatsResponse) -> Markup {
    let campaign = status.campaign.clone().unwrap_or_default();
    let is_over = matches!(
        status.state(),
        CampaignState::Ending | CampaignState::Closed
    );
    let legend = parts(lang, &PrizeStats::default()).map(|part| (part.class, part.name));
    html! {
        (charts::legend(&legend))
        (ui::scroll(lang.t("units.title"), &html! {
            table.prizes {
                thead { tr {
                    th scope="col" { (lang.t("units.prize")) }
                    th scope="col" { (lang.t("units.acts")) }
                    th.n scope="col" { (lang.t("units.stock")) }
                    th.n scope="col" { (lang.t("units.won")) }
                    th.n scope="col" { (lang.t("units.waiting")) }
                    th.n scope="col" { (lang.t("units.held")) }
                    th.n scope="col" { (lang.t("units.left")) }
                    th.n scope="col" { (lang.t("units.withdrawn")) }
                } }
                tbody {
                    @for prize in &stats.prizes { (row(lang, &campaign, prize, is_over)) }
                    @if stats.prizes.len() > 1 { (totals(lang, &stats.prizes)) }
                }
            }
        }))
        p.hint { (lang.t("units.sum")) }
    }
}

fn row(lang: Language, campaign: &Campaign, prize: &PrizeStats, is_over: bool) -> Markup {
    let id = &prize.prize_id;
    let key = |part: &str| format!("{part}:{id}");
    let count = |part, units| live(&key(part), &number(units));
    html! {
        tr {
            th scope="row" {
                (prize_name(campaign, id))
                (charts::shares(&key("bar"), id, &parts(lang, prize)))
            }
            td {
                // The address of a prize `..` would be that of the campaign's own brake.
                @if !is_over && flaw_of_new(id).is_none() {
                    div data-live=(key("brake")) { (brake(lang, campaign, prize)) }
                }
            }
            td.n {
                @if prize.unlimited { (lang.t("units.unlimited")) }
                @else { (count("stock", prize.stock)) }
            }
            td.n { (count("won", prize.won)) }
            td.n { (count("waiting", prize.waiting)) }
            td.n { (count("held", prize.held)) }
            td.n { (count("left", prize.left)) }
            td.n { (count("withdrawn", prize.withdrawn)) }
        }
    }
}

/// The sums of all prizes. Stock has none if one of them is unlimited.
fn totals(lang: Language, prizes: &[PrizeStats]) -> Markup {
    let sum = |part: &str, units: fn(&PrizeStats) -> u64| {
        let units = prizes.iter().map(units).fold(0, u64::saturating_add);
        live(&format!("total:{part}"), &number(units))
    };
    html! {
        tr.total {
            th scope="row" { (lang.t("units.total")) }
            td {}
            td.n {
                @if prizes.iter().any(|prize| prize.unlimited) { "–" }
                @else { (sum("stock", |prize| prize.stock)) }
            }
            td.n { (sum("won", |prize| prize.won)) }
            td.n { (sum("waiting", |prize| prize.waiting)) }
            td.n { (sum("held", |prize| prize.held)) }
            td.n { (sum("left", |prize| prize.left)) }
            td.n { (sum("withdrawn", |prize| prize.withdrawn)) }
        }
    }
}

/// The button that holds or releases a prize, at once.
fn brake(lang: Language, campaign: &Campaign, prize: &PrizeStats) -> Markup {
    let act = if prize.paused { "resume" } else { "pause" };
    let path = format!("/campaigns/{}/prizes/{}/{act}", campaign.id, prize.prize_id);
    let (text, class) = match prize.paused {
        true => (lang.t("brake.resume"), "go"),
        false => (lang.t("brake.pause"), "stop"),
    };
    let name = format!("{text}: {}", prize.prize_id);
    button(
        &path,
        &format!("brake-{}", prize.prize_id),
        (text, &name),
        class,
    )
}

/// How long a click on the brake waits before the page says that no answer has come.
const BRAKE: &str = r#"{"timeout": 10000}"#;

/// A form of one button, which acts at once. With scripts the page is not loaded again, and the
/// button that takes its place gets the focus.
pub(super) fn button(path: &str, id: &str, (text, name): (&str, &str), class: &str) -> Markup {
    html! {
        form method="post" action=(path) hx-post=(path) hx-target="#main" hx-select="#main"
            hx-swap="outerHTML show:none" hx-request=(BRAKE)
        {
            button id=(id) class=(class) type="submit" aria-label=(name) { (text) }
        }
    }
}

/// The forms that raise the stock of prizes.
pub(super) fn stock(lang: Language, status: &CampaignStatus) -> Markup {
    let campaign = status.campaign.clone().unwrap_or_default();
    let raisable = campaign
        .prizes
        .iter()
        .filter(|prize| !prize.unlimited && !prize.codes)
        .filter(|prize| flaw_of_new(&prize.id).is_none());
    let raisable: Vec<_> = raisable.collect();
    html! {
        @if !raisable.is_empty() {
            section.card {
                h2 { (lang.t("stock.title")) }
                p.hint { (lang.t("stock.hint")) }
                @for (index, prize) in raisable.iter().enumerate() {
                    form.line method="post"
                        action={ "/campaigns/" (campaign.id) "/prizes/" (prize.id) "/stock" }
                    {
                        span.what { (prize_name(&campaign, &prize.id)) ": " (number(prize.stock)) }
                        input type="hidden" name="version" value=(status.version);
                        (request_id())
                        label.hidden for={ "add-" (index) } {
                            (lang.t("stock.add")) " " (prize.id)
                        }
                        input id={ "add-" (index) } name="units" type="number" min="1" required
                            inputmode="numeric" placeholder=(lang.t("stock.add"));
                        label.hidden for={ "why-" (index) } { (lang.t("form.reason")) }
                        input id={ "why-" (index) } name="reason" maxlength="1024"
                            placeholder=(lang.t("form.reason"));
                        button type="submit" { (lang.t("stock.submit")) }
                    }
                }
            }
        }
    }
}

/// The stock of a prize, and what it lacks for its plan.
pub(super) fn planned_stock(lang: Language, plan: &PrizePlan) -> Markup {
    let short = plan.planned.saturating_sub(plan.stock);
    html! {
        @if plan.unlimited { (lang.t("units.unlimited")) }
        @else if plan.codes { (lang.t("plan.codes")) }
        @else {
            (number(plan.stock))
            @if short > 0 { " " span.badge.test { (lang.with("plan.short", &number(short))) } }
        }
    }
}
