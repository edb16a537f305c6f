//! `tombola stats`: shows the state of every unit.

use clap::Args;
use jiff::tz::TimeZone;

use super::{
    client::{Client, Outcome, campaign_id},
    envelope_view,
    failure::Failure,
    output::{Side, Table, counted},
    phrases::listed,
    schedule,
    time::shown,
};
use crate::{
    model::{
        convert::{shown_money, times::signed_seconds},
        text::grouped,
    },
    proto::{
        BudgetStats, DeckStats, GetStatsRequest, GetStatsResponse, LedgerStats, Money, PrizeStats,
        Replica, ReplicaState,
    },
};

/// The number of hours to show; `schedule` shows all.
const HOURS_SHOWN: usize = 24;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola stats spring-wheel\n  tombola stats")]
pub(super) struct StatsArgs {
    /// The campaign [default: none, but the sums of all envelopes, the ledger and the replicas]
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: Option<String>,
}

pub(super) async fn run(client: &Client, args: StatsArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    let campaign = args.campaign.as_deref();
    let zone = match campaign {
        Some(id) => client.zone(id).await,
        None => TimeZone::UTC,
    };
    let request = GetStatsRequest {
        campaign_id: campaign.unwrap_or_default().into(),
    };
    let response = server
        .get_stats(request)
        .await
        .map_err(Failure::read)?
        .into_inner();
    client.show("GetStatsResponse", &response, |response| match campaign {
        Some(_) => view(response, &zone),
        None => whole_store(response),
    });
    Ok(())
}

/// All money in envelopes, the ledger, and the replicas.
fn whole_store(response: &GetStatsResponse) -> String {
    let balance = if response.balanced {
        "balanced: created = grabbed + waiting + refunded"
    } else {
        "NOT BALANCED: there is too little or too much money; keep the data and look at the \
         server's log"
    };
    let read = shown(response.read_time.as_ref(), &TimeZone::UTC);
    let clock = if response.test_clock {
        " (a test clock)"
    } else {
        ""
    };
    let sums = envelope_view::sums(&response.envelopes);
    let ledger = response.ledger.as_ref().map_or_else(String::new, ledger);
    let replicas = replicas(&response.replicas);
    format!("{sums}\n{balance}\n\n{ledger}{replicas}\n\nread {read}{clock}")
}

/// The services of the store.
fn replicas(replicas: &[Replica]) -> String {
    use Side::{Left, Right};
    let columns = ["replica", "version", "build", "started", "last seen"];
    let columns = columns.map(|name| (name, Left)).into_iter();
    let mut table = Table::new(columns.chain([("clock skew", Right), ("", Left)]));
    for replica in replicas {
        let state = match replica.state() {
            ReplicaState::Ready => "ready".to_owned(),
            ReplicaState::Impaired => format!("ready, but not everywhere: {}", replica.cause),
            ReplicaState::NotReady => format!("NOT READY: {}", replica.cause),
            ReplicaState::Stopping => "stopping".to_owned(),
            ReplicaState::Unspecified => "unknown to this version".to_owned(),
        };
        let answers = if replica.answering {
            " (it answers)"
        } else {
            ""
        };
        let skew = replica.clock_skew.as_ref();
        table.row([
            replica.name.clone(),
            replica.version.clone(),
            replica.build.clone(),
            shown(replica.start_time.as_ref(), &TimeZone::UTC),
            shown(replica.seen_time.as_ref(), &TimeZone::UTC),
            skew.map_or_else(String::new, |skew| format!("{} s", signed_seconds(skew))),
            format!("{state}{answers}"),
        ]);
    }
    table.without_empty(&["clock skew"]).render()
}

/// What waits to be settled.
fn ledger(stats: &LedgerStats) -> String {
    let entries = counted(stats.unsettled_entries, "entry");
    let waiting = match &stats.lag {
        _ if !stats.settled => format!("nothing settles it, {entries}"),
        Some(lag) => {
            let seconds = u64::try_from(lag.seconds).unwrap_or_default();
            format!(
                "{entries} not settled, the oldest for {}",
                counted(seconds, "second")
            )
        }
        None => "every entry is settled".into(),
    };
    let mut text = format!("ledger: {waiting}\n");
    if stats.memory_max_bytes > 0 {
        let mebibytes = |bytes: u64| grouped(bytes >> 20);
        text += &format!(
            "memory: {} of {} MiB used",
            mebibytes(stats.memory_used_bytes),
            mebibytes(stats.memory_max_bytes)
        );
        if let Some(lasts) = &stats.memory_lasts {
            let hours = u64::try_from(lasts.seconds).unwrap_or_default() / 3600;
            text += &format!(", lasts {} at the present rate", counted(hours, "hour"));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

fn view(response: &GetStatsResponse, zone: &TimeZone) -> String {
    let clock = if response.test_clock {
        " (a test clock)"
    } else {
        ""
    };
    let balance = if response.balanced {
        "balanced: every unit is accounted for"
    } else {
        "NOT BALANCED: there are too few or too many units; keep the data and look at the \
         server's log"
    };
    let mut parts = vec![
        format!(
            "{}: {} won, {}, {} gave nothing; {}",
            counted(response.draws, "draw"),
            grouped(response.wins),
            counted(response.consolations, "consolation"),
            grouped(response.nothings),
            counted(response.users, "user")
        ),
        format!("{}\n{balance}", prizes(&response.prizes, zone)),
    ];
    parts.extend(response.budget.as_ref().map(budget));
    if !response.decks.is_empty() {
        parts.push(decks(&response.decks));
    }
    if !response.windows.is_empty() {
        let older = response.windows.len().saturating_sub(HOURS_SHOWN);
        parts.push(schedule::windows(&response.windows[older..]));
        if older > 0 {
            parts.push(format!(
                "{} before these: see schedule",
                counted(older as u64, "hour")
            ));
        }
    }
    parts.push(format!(
        "read {}{clock}",
        shown(response.read_time.as_ref(), zone)
    ));
    parts.join("\n\n")
}

fn prizes(prizes: &[PrizeStats], zone: &TimeZone) -> String {
    let numbers = [
        "stock",
        "left",
        "waiting",
        "held",
        "won",
        "withdrawn",
        "released",
        "returned",
        "forfeited",
        "revoked",
    ];
    let columns = [("prize", Side::Left)]
        .into_iter()
        .chain(numbers.map(|name| (name, Side::Right)));
    let mut table = Table::new(columns.chain([("", Side::Left)]));
    for prize in prizes {
        let units = [
            prize.stock,
            prize.left,
            prize.waiting,
            prize.held,
            prize.won,
            prize.withdrawn,
            prize.released,
            prize.returned,
            prize.forfeited,
            prize.revoked,
        ];
        let codes = counted(prize.codes_left, "code");
        let out = shown(prize.runs_out_time.as_ref(), zone);
        let marks = [
            (prize.unlimited, "unlimited"),
            (prize.codes_left > 0, &format!("{codes} left")),
            (
                prize.runs_out_time.is_some(),
                &format!("at this rate it runs out at {out}"),
            ),
            (prize.paused, "PAUSED"),
        ];
        let marks = marks.iter().filter(|mark| mark.0).map(|mark| mark.1);
        let marks = marks.collect::<Vec<_>>().join(", ");
        let cells = [prize.prize_id.clone()]
            .into_iter()
            .chain(units.map(grouped));
        table.row(cells.chain([marks]));
    }
    table.render()
}

/// What was won of the budget, and which prizes it holds.
fn budget(stats: &BudgetStats) -> String {
    let money = |amount: &Option<Money>| shown_money(amount.as_ref());
    let won = |won: &Option<Money>, most: &Option<Money>, when: &str| match most {
        Some(_) => format!("{} won of {} {when}", money(won), money(most)),
        None => format!("{} won {when}", money(won)),
    };
    let mut text = format!(
        "budget: {}, {}",
        won(&stats.won_today, &stats.per_day, "today"),
        won(&stats.won_total, &stats.total, "in all")
    );
    if !stats.held_prize_ids.is_empty() {
        let held = stats.held_prize_ids.join(", ");
        text += &format!("\nHELD: one more unit of {held} would pass the budget");
    }
    text
}

fn decks(decks: &[DeckStats]) -> String {
    use Side::{Left, Right};
    let columns = [
        ("deck", Left),
        ("round", Right),
        ("cards not dealt", Right),
        ("dealt and waiting", Right),
        ("", Left),
    ];
    let mut table = Table::new(columns);
    for deck in decks {
        let stopped = match deck.stopped.as_str() {
            "" => String::new(),
            why if deck.lacking.is_empty() => format!("STOPPED: {why}"),
            why => format!("STOPPED: {why}; it needs {} more", listed(&deck.lacking)),
        };
        table.row([
            deck.pool_id.clone(),
            grouped(deck.round),
            grouped(deck.cards_left),
            grouped(deck.cards_waiting),
            stopped,
        ]);
    }
    format!(
        "{}\ncards are dealt some hundreds ahead, into the next round too: those that wait are \
         for the draws to come",
        table.render()
    )
}
