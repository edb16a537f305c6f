//! The odds of a campaign, as they are published.

use axum::{extract::Path, response::Response};
use maud::{Markup, html};

use super::{Tab, definition, head, prize_label, prize_name, status};
use crate::{
    console::{
        i18n::Language,
        layout::Place,
        ui::{self, Column, number},
        visit::{Contents, Visit},
    },
    model::{convert::shown_money, text::percent},
    proto::{
        BudgetOdds, Campaign, DeckOdds, GetOddsRequest, GetOddsResponse, Guarantee, PersonalOdds,
        PrizeCap, pool_odds::Kind,
    },
};

/// The page of the odds.
pub(in crate::console) async fn page(visit: Visit, Path(id): Path<String>) -> Response {
    let contents = odds_of(&visit, &id).await;
    visit.page(Place::Campaigns, &id, contents)
}

async fn odds_of(visit: &Visit, id: &str) -> Contents {
    let lang = visit.language;
    let status = status(visit, id).await?;
    let (campaign, _) = definition(&status);
    let request = GetOddsRequest {
        campaign_id: id.into(),
        version: 0,
    };
    let odds = visit.lottery().get_odds(request).await;
    let odds = odds.map(|odds| published(visit, &campaign, &odds.into_inner()));
    Ok(html! {
        (head(visit, &status, Tab::Odds))
        p.hint { (lang.t("odds.hint")) }
        (visit.section(odds))
    })
}

fn published(visit: &Visit, campaign: &Campaign, odds: &GetOddsResponse) -> Markup {
    let lang = visit.language;
    html! {
        @if !odds.guarantees.is_empty() {
            section.card {
                h2 { (lang.t("guarantee.title")) }
                p { (lang.t("guarantee.first")) }
                (promises(lang, campaign, &odds.guarantees))
            }
        }
        @for pool in &odds.pools {
            section.card {
                h2 { (lang.with("odds.pool", &pool.pool_id)) }
                @match &pool.kind {
                    Some(Kind::Deck(deck)) => { (rounds(lang, campaign, deck)) }
                    Some(Kind::Personal(personal)) => {
                        p { (lang.t("odds.personal")) }
                        @if let Some(deck) = &personal.deck { (rounds(lang, campaign, deck)) }
                        @else { (own_odds(lang, campaign, personal)) }
                        @if !personal.fallback_prize_id.is_empty() {
                            p { (lang.with(
                                "odds.fallback",
                                &prize_label(campaign, &personal.fallback_prize_id),
                            )) }
                        }
                        @if !personal.guarantees.is_empty() {
                            h3 { (lang.t("guarantee.title")) }
                            (promises(lang, campaign, &personal.guarantees))
                        }
                    }
                    Some(Kind::Schedule(schedule)) => {
                        p { (lang.t("odds.schedule")) }
                        dl.pairs {
                            @for prize in &schedule.totals {
                                dt { (prize_name(campaign, &prize.prize_id)) }
                                dd { (number(prize.units)) }
                            }
                        }
                    }
                    None => {}
                }
            }
        }
        (rules(lang, campaign, odds))
        section.card {
            h2 { (lang.t("odds.proof")) }
            dl.pairs {
                dt { (lang.t("odds.commitment")) } dd { code.long { (odds.seed_commitment) } }
                @if !odds.seed.is_empty() {
                    dt { (lang.t("odds.seed")) } dd { code.long { (odds.seed) } }
                }
            }
        }
    }
}

/// What else decides what a user wins: limits of wins, caps, the budget, and what there is of
/// prizes.
fn rules(lang: Language, campaign: &Campaign, odds: &GetOddsResponse) -> Markup {
    let most = |most: Option<u32>| match most {
        Some(most) => number(most.into()),
        None => lang.t("limits.none").into(),
    };
    let names = |prizes: &[String]| {
        let names = prizes.iter().map(|prize| prize_label(campaign, prize));
        names.collect::<Vec<_>>().join(", ")
    };
    let lists = [
        (lang.t("odds.beyond-limit"), &odds.prizes_beyond_limit),
        (lang.t("odds.unlimited"), &odds.unlimited_prizes),
        (lang.t("odds.with-codes"), &odds.prizes_with_codes),
    ];
    html! {
        section.card {
            h2 { (lang.t("odds.rules")) }
            dl.pairs {
                dt { (lang.t("limits.wins-per-user")) } dd { (most(odds.wins_per_user)) }
                @for entry in &odds.segment_wins {
                    dt { (lang.with("odds.wins-in-segment", &entry.segment)) }
                    dd { (most(entry.wins_per_user)) }
                }
                @for prize in &odds.capped_prizes {
                    (cap(lang, &prize_label(campaign, &prize.prize_id), prize.per_user))
                }
                @for (name, prizes) in lists { @if !prizes.is_empty() {
                    dt { (name) } dd { (names(prizes)) }
                } }
            }
        }
        @if let Some(budget) = &odds.budget { (budget_of_all(lang, campaign, budget)) }
    }
}

/// The most units of a prize that a user may win, as an entry of a list.
pub(super) fn cap(lang: Language, prize: &str, cap: Option<PrizeCap>) -> Markup {
    let cap = cap.unwrap_or_default();
    html! {
        dt { (lang.with("odds.cap", prize)) }
        dd {
            @if let Some(most) = cap.per_day {
                (lang.with("odds.cap-day", &number(most.into()))) " "
            }
            @if let Some(most) = cap.total {
                (lang.with("odds.cap-total", &number(most.into())))
            }
        }
    }
}

/// What all users may win, and what each prize is worth in that.
fn budget_of_all(lang: Language, campaign: &Campaign, budget: &BudgetOdds) -> Markup {
    let bounds = [
        (lang.t("odds.budget-day"), &budget.per_day),
        (lang.t("odds.budget-total"), &budget.total),
    ];
    html! {
        section.card {
            h2 { (lang.t("budget.title")) }
            p { (lang.t("odds.budget")) }
            dl.pairs {
                @for (name, most) in bounds { @if let Some(most) = most {
                    dt { (name) } dd { (shown_money(Some(most))) }
                } }
                @for prize in &budget.values {
                    dt { (prize_name(campaign, &prize.prize_id)) }
                    dd { (shown_money(prize.value.as_ref())) }
                }
            }
        }
    }
}

/// The rounds of a deck.
fn rounds(lang: Language, campaign: &Campaign, deck: &DeckOdds) -> Markup {
    let rounds = [
        (lang.t("odds.first-round"), &deck.first_round),
        (lang.t("odds.later-rounds"), &deck.later_rounds),
    ];
    html! {
        @for (title, cards) in rounds { @if !cards.is_empty() {
            h3 { (title) }
            (ui::scroll(title, &html! { table {
                thead { tr {
                    th scope="col" { (lang.t("units.prize")) }
                    th.n scope="col" { (lang.t("odds.cards")) }
                    th.n scope="col" { (lang.t("odds.odds")) }
                } }
                tbody { @for card in cards { tr {
                    th scope="row" {
                        @if card.prize_id.is_empty() { (lang.t("odds.blank")) }
                        @else { (prize_name(campaign, &card.prize_id)) }
                    }
                    td.n { (number(card.cards)) " / " (number(card.size)) }
                    td.n { (percent(card.cards, card.size)) }
                } } }
            } }))
        } }
    }
}

/// Guarantees: which prizes, within how many draws, and how chances rise and are shared.
fn promises(lang: Language, campaign: &Campaign, all: &[Guarantee]) -> Markup {
    let names = |prizes: &[String]| {
        let names = prizes.iter().map(|prize| prize_label(campaign, prize));
        names.collect::<Vec<_>>().join(", ")
    };
    let columns = [
        Column::Text(lang.t("guarantee.id")),
        Column::Text(lang.t("guarantee.prizes")),
        Column::Number(lang.t("guarantee.within")),
        Column::Text(lang.t("guarantee.ramp")),
        Column::Text(lang.t("guarantee.among")),
    ];
    let rows = html! {
        @for it in all { tr {
            th scope="row" { (it.id) }
            td { (names(&it.prizes)) }
            td.n { @if it.within > 0 { (number(it.within.into())) } @else { "–" } }
            td { @for ramp in &it.ramp {
                div { (lang.with("guarantee.from", &ramp.from.to_string())) " +" (ramp.add) }
            } }
            td { (names(&it.among)) }
        } }
    };
    ui::table(lang.t("guarantee.title"), &columns, &rows)
}

/// The odds of a personal pool: of each draw, and with its guarantees.
fn own_odds(lang: Language, campaign: &Campaign, personal: &PersonalOdds) -> Markup {
    let base = |prize: &str| {
        let found = personal.base.iter().find(|odds| odds.prize_id == prize);
        found.map_or("0", |odds| odds.percent.as_str())
    };
    let title = lang.t("odds.odds");
    ui::scroll(
        title,
        &html! { table {
            thead { tr {
                th scope="col" { (lang.t("units.prize")) }
                th.n scope="col" { (lang.t("odds.each-draw")) }
                th.n scope="col" { (lang.t("odds.long-run")) }
            } }
            tbody { @for odds in &personal.effective { tr {
                th scope="row" {
                    @if odds.prize_id.is_empty() { (lang.t("odds.blank")) }
                    @else { (prize_name(campaign, &odds.prize_id)) }
                }
                td.n { (base(&odds.prize_id)) " %" }
                td.n { (odds.percent) " %" }
            } } }
        } },
    )
}
