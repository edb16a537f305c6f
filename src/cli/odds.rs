//! `tombola odds`: shows the odds that may be published.

use clap::Args;
use jiff::tz::TimeZone;

use super::{
    client::{Client, Outcome, campaign_id, whole},
    failure::Failure,
    output::{Side, Table, counted},
    phrases::{
        caps, for_whom, limit_of_wins, listed, open_when, percent, promise, wins_of_segments,
    },
    time::shown,
};
use crate::{
    model::{convert::shown_money, text::grouped},
    proto::{
        BudgetOdds, CardCount, DeckOdds, GetOddsRequest, GetOddsResponse, Guarantee, PersonalOdds,
        PoolOdds, ScheduleOdds, pool_odds::Kind,
    },
};

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola odds spring-wheel")]
pub(super) struct OddsArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The version to show [default: the current one]
    #[arg(
        long,
        env = "TOMBOLA_CAMPAIGN_VERSION",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = whole::<u32>(0..=u32::MAX.into())
    )]
    version: u32,
}

pub(super) async fn run(client: &Client, args: OddsArgs) -> Outcome {
    let mut server = client.lottery().await?;
    let zone = client.zone(&args.campaign).await;
    let request = GetOddsRequest {
        campaign_id: args.campaign,
        version: args.version,
    };
    let response = server
        .get_odds(request)
        .await
        .map_err(Failure::read)?
        .into_inner();
    client.show("GetOddsResponse", &response, |response| {
        view(response, &zone)
    });
    Ok(())
}

fn view(response: &GetOddsResponse, zone: &TimeZone) -> String {
    let mut parts = vec![format!(
        "{}: version {} of {}",
        response.campaign_id,
        response.version,
        response.versions.len()
    )];
    let promises: Vec<String> = response.guarantees.iter().map(promised).collect();
    if !promises.is_empty() {
        parts.push(format!("tried first\n{}", promises.join("\n")));
    }
    parts.extend(response.pools.iter().map(|odds| pool(odds, zone)));
    parts.push(match response.consolation_prize_id.as_str() {
        "" => "else: nothing".into(),
        id => format!("else: {id}"),
    });
    let is_deck = |odds: &PoolOdds| matches!(odds.kind, Some(Kind::Deck(_)));
    parts.extend(limit_of_wins(
        response.wins_per_user,
        &response.prizes_beyond_limit,
        response.pools.iter().any(is_deck),
    ));
    parts.extend(wins_of_segments(
        &response.segment_wins,
        &response.prizes_beyond_limit,
        response.pools.iter().any(is_deck),
    ));
    parts.extend(caps(
        &response.capped_prizes,
        response.pools.iter().any(is_deck),
    ));
    parts.extend(response.budget.as_ref().map(budget));
    let supply = [
        ("never run out", &response.unlimited_prizes),
        ("each with a code of its own", &response.prizes_with_codes),
    ];
    let supply = supply.iter().filter(|(_, prizes)| !prizes.is_empty());
    parts.extend(supply.map(|(what, prizes)| format!("{what}: {}", prizes.join(", "))));
    let seed = match response.seed.as_str() {
        "" => "revealed when the campaign has ended",
        seed => seed,
    };
    parts.push(format!(
        "seed commitment  {}\nseed             {seed}",
        response.seed_commitment
    ));
    let mut versions = Table::new([("version", Side::Right), ("in force from", Side::Left)]);
    for version in &response.versions {
        versions.row([
            version.version.to_string(),
            shown(version.apply_time.as_ref(), zone),
        ]);
    }
    parts.push(versions.render());
    parts.join("\n\n")
}

fn pool(pool: &PoolOdds, zone: &TimeZone) -> String {
    let (draws, today) = (pool.unlock_after_draws, pool.unlock_after_draws_today);
    let mut rules = open_when(draws, today, pool.lock_after_wins);
    rules.extend(pool.segments.as_ref().map(for_whom));
    let rules: String = rules.iter().map(|rule| format!(", {rule}")).collect();
    let (kind, table) = match &pool.kind {
        Some(Kind::Deck(deck)) => ("deck, drawn without replacement", decks(deck)),
        Some(Kind::Schedule(schedule)) => (
            "schedule, units released over time",
            quantities(schedule, zone),
        ),
        Some(Kind::Personal(personal)) => ("each user alone", own(personal)),
        None => ("unknown kind", String::new()),
    };
    format!("pool {}: {kind}{rules}\n{table}", pool.pool_id)
}

/// What users may win in all, and what happens beyond that.
fn budget(budget: &BudgetOdds) -> String {
    let bounds = [(&budget.per_day, "a day"), (&budget.total, "in all")];
    let bounds = bounds.iter().filter_map(|(most, when)| {
        let most = most.as_ref()?;
        Some(format!("{} {when}", shown_money(Some(most))))
    });
    let bounds: Vec<_> = bounds.collect();
    let values = budget.values.iter();
    let values =
        values.map(|prize| format!("{} {}", prize.prize_id, shown_money(prize.value.as_ref())));
    let values: Vec<_> = values.collect();
    format!(
        "budget: {}; a prize that would pass it is held for everybody, and a card of it is \
         forfeited\nvalues: {}",
        bounds.join(", "),
        values.join("; ")
    )
}

/// The rounds of a deck.
fn decks(deck: &DeckOdds) -> String {
    let first = cards(&deck.first_round);
    if deck.later_rounds.is_empty() {
        return first;
    }
    format!("{first}\nlater rounds\n{}", cards(&deck.later_rounds))
}

fn cards(cards: &[CardCount]) -> String {
    use Side::{Left, Right};
    let is_rounded = cards.iter().any(|card| !card.written_odds.is_empty());
    let mut columns = vec![
        ("prize", Left),
        ("cards", Right),
        ("of", Right),
        ("odds", Right),
    ];
    if is_rounded {
        columns.push(("written as", Right));
    }
    let mut table = Table::new(columns);
    for card in cards {
        let prize = if card.prize_id.is_empty() {
            "(blank)"
        } else {
            &card.prize_id
        };
        let mut row = vec![
            prize.into(),
            grouped(card.cards),
            grouped(card.size),
            percent(card.cards, card.size),
        ];
        if is_rounded {
            row.push(card.written_odds.clone());
        }
        table.row(row);
    }
    table.render()
}

/// The odds of a personal pool, and its guarantees.
fn own(personal: &PersonalOdds) -> String {
    use Side::{Left, Right};
    let fallback = match personal.fallback_prize_id.as_str() {
        "" => String::new(),
        prize => format!("\n{prize} in place of a prize that cannot be given"),
    };
    if let Some(deck) = &personal.deck {
        return decks(deck) + &fallback;
    }
    let columns = [
        ("prize", Left),
        ("each draw", Right),
        ("in the long run", Right),
    ];
    let mut table = Table::new(columns);
    let base = |prize: &str| {
        let mut base = personal.base.iter();
        base.find(|odds| odds.prize_id == prize)
            .map(|odds| format!("{}%", odds.percent))
    };
    for odds in &personal.effective {
        let prize = match odds.prize_id.as_str() {
            "" => "(nothing)",
            prize => prize,
        };
        let base = base(&odds.prize_id).unwrap_or_default();
        table.row([prize.into(), base, format!("{}%", odds.percent)]);
    }
    let promises = personal.guarantees.iter().map(promised);
    let promises: String = promises.map(|text| format!("\n{text}")).collect();
    format!("{}{fallback}{promises}", table.render())
}

fn promised(guarantee: &Guarantee) -> String {
    format!("guarantee {}", promise(guarantee))
}

fn quantities(schedule: &ScheduleOdds, zone: &TimeZone) -> String {
    let mut table = Table::new([("prize", Side::Left), ("units in all", Side::Right)]);
    for prize in &schedule.totals {
        table.row([prize.prize_id.clone(), grouped(prize.units)]);
    }
    if schedule.hours.is_empty() {
        return table.render();
    }
    let mut hours = Table::new([("hour", Side::Left), ("units", Side::Left)]);
    for hour in &schedule.hours {
        hours.row([shown(hour.start_time.as_ref(), zone), listed(&hour.prizes)]);
    }
    let count = counted(schedule.hours.len() as u64, "hour");
    format!("{}\n{count}\n{}", table.render(), hours.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_that_were_rounded_stand_beside_those_that_were_written() {
        let card = |cards, written: &str| CardCount {
            prize_id: "mug".into(),
            cards,
            size: 100,
            written_odds: written.into(),
        };
        let table = cards(&[card(33, "33.333%"), card(1, "")]);
        for part in ["written as", "33.333%", "33%"] {
            assert!(table.contains(part), "{part} in {table}");
        }
        assert!(!cards(&[card(1, "")]).contains("written"));
    }
}
