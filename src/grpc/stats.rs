//! `GetStats`: where every unit is.

use tonic::Request;

use super::{
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    envelope_views,
    late_hours::late_hours,
    ledger_stats::ledger_stats,
    live::Live,
    rates::Rates,
    request,
    schedule::window,
    secrets::Secrets,
    status::CallError,
    views,
};
use crate::{
    model::{
        CampaignId, PrizeNo,
        convert::{duration_to_proto, moment_to_proto, money_to_proto},
    },
    proto,
    store::{
        EnvelopeSums, EnvelopeTotals, LaneKind, LaneUse, Stats, Store, WindowView,
        fill::DeckStop,
        view::{DeckStats, PrizeStats},
    },
};

/// Where every unit is.
pub(super) async fn get_stats(
    desk: &Desk,
    request: Request<proto::GetStatsRequest>,
) -> Reply<proto::GetStatsResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let is_live = Live::is_on(&request);
    let message = request.into_inner();
    let work = async {
        let store = desk.store();
        if message.campaign_id.is_empty() {
            let mut stats = envelope_stats(store).await?;
            stats.ledger = Some(ledger_stats(store).await?);
            stats.replicas = desk.presence().replicas().await;
            return Ok(stats);
        }
        let id = request::campaign(&message.campaign_id)?;
        let read = campaign_stats(desk, &id);
        match is_live {
            true => desk.live().stats.get(id.to_string(), read).await,
            false => read.await,
        }
    };
    desk.read(deadline, work).await
}

/// Where every unit of a campaign is.
pub(super) async fn campaign_stats(
    desk: &Desk,
    id: &CampaignId,
) -> Result<proto::GetStatsResponse, CallError> {
    let store = desk.store();
    let (stats, windows, has_secrets) = desk.stats(id).await?;
    let (windows, late_hours) = match has_secrets {
        true => (
            visible_windows(store, &stats, &windows).await?,
            late_hours(store, &stats).await?,
        ),
        false => (all_windows(&stats, &windows), 0),
    };
    let rates = desk.rates();
    rates.note(&stats);
    let mut halted = store.troubles();
    halted.retain(|halted| halted.partition == stats.head.partition);
    Ok(proto::GetStatsResponse {
        halted: views::halted(halted),
        late_hours,
        ..response(&stats, windows, rates, store.info().test_clock)
    })
}

/// Where all money of envelopes is.
async fn envelope_stats(store: &dyn Store) -> crate::store::Result<proto::GetStatsResponse> {
    let EnvelopeTotals { sums, heads } = store.envelope_sums().await?;
    Ok(proto::GetStatsResponse {
        balanced: sums.iter().all(EnvelopeSums::balanced),
        envelopes: sums.iter().map(envelope_views::sums).collect(),
        read_time: Some(moment_to_proto(store.read_time().await?)),
        halted: views::halted(store.troubles()),
        ledger_heads: heads.into_iter().map(views::ledger_id).collect(),
        test_clock: store.info().test_clock,
        lanes: store.lanes().into_iter().map(lane_stats).collect(),
        ..proto::GetStatsResponse::default()
    })
}

fn lane_stats(lanes: LaneUse) -> proto::LaneStats {
    let kind = match lanes.kind {
        LaneKind::Draws => proto::LaneKind::Draws,
        LaneKind::Grabs => proto::LaneKind::Grabs,
        LaneKind::NewEnvelopes => proto::LaneKind::NewEnvelopes,
        LaneKind::LimitChecks => proto::LaneKind::LimitChecks,
        LaneKind::Writes => proto::LaneKind::Writes,
    };
    proto::LaneStats {
        kind: kind.into(),
        lanes: u32::try_from(lanes.lanes).unwrap_or(u32::MAX),
        waiting_calls: lanes.waiting as u64,
        longest_batch: lanes.busy.map(duration_to_proto),
    }
}

fn response(
    stats: &Stats,
    windows: Vec<proto::Window>,
    rates: &Rates,
    test_clock: bool,
) -> proto::GetStatsResponse {
    let counts = stats.draws;
    let prizes = (0..).map(PrizeNo).zip(&stats.prizes);
    proto::GetStatsResponse {
        prizes: prizes
            .map(|(no, prize)| proto::PrizeStats {
                runs_out_time: rates.runs_out(stats, no).map(moment_to_proto),
                ..prize_stats(no, prize, stats)
            })
            .collect(),
        balanced: stats.balanced(),
        draws: counts.wins + counts.consolations + counts.nothings,
        wins: counts.wins,
        consolations: counts.consolations,
        nothings: counts.nothings,
        users: stats.users,
        windows,
        read_time: Some(moment_to_proto(stats.now)),
        test_clock,
        envelopes: Vec::new(),
        ledger_heads: vec![views::ledger_id(stats.head)],
        ledger: None,
        halted: Vec::new(),
        decks: stats
            .decks
            .iter()
            .map(|deck| deck_stats(deck, stats))
            .collect(),
        budget: budget_stats(stats),
        minutes: rates.minutes(stats),
        rate: rates.lately(stats),
        late_hours: 0,
        replicas: Vec::new(),
        lanes: Vec::new(),
    }
}

/// What was won of the campaign's budget.
fn budget_stats(stats: &Stats) -> Option<proto::BudgetStats> {
    let campaign = &stats.view.campaign;
    let budget = campaign.budget.as_ref()?;
    let spent = stats.spent();
    let money = |minor| money_to_proto(&budget.money(minor));
    let held = budget
        .held(spent)
        .map(|no| campaign.prize(no).id.to_string());
    Some(proto::BudgetStats {
        per_day: budget.per_day.map(money),
        won_today: Some(money(spent.today)),
        total: budget.total.map(money),
        won_total: Some(money(spent.total)),
        held_prize_ids: held.collect(),
    })
}

/// Units of a paused prize that are in pools are held, of others waiting. When it runs out is left
/// open.
pub(super) fn prize_stats(no: PrizeNo, prize: &PrizeStats, stats: &Stats) -> proto::PrizeStats {
    let paused = stats.view.paused_prizes.contains(&no);
    let (waiting, held) = if paused {
        (0, prize.waiting)
    } else {
        (prize.waiting, 0)
    };
    let definition = stats.view.campaign.prize(no);
    proto::PrizeStats {
        prize_id: definition.id.to_string(),
        unlimited: definition.unlimited,
        codes_left: match definition.codes {
            true => prize.codes_left(),
            false => 0,
        },
        stock: prize.stock,
        left: prize.left,
        waiting,
        held,
        won: prize.won,
        withdrawn: prize.withdrawn,
        released: prize.released,
        returned: prize.returned,
        forfeited: prize.forfeited,
        revoked: prize.revoked,
        paused,
        runs_out_time: None,
    }
}

/// Why a deck stopped, as responses say it.
pub(crate) const DECK_EXHAUSTED: &str = "its last round is used up";
pub(crate) const DECK_OUT_OF_STOCK: &str = "stock cannot fill its next cards";
pub(crate) const DECK_HELD: &str = "every prize that it could still deal is paused";

fn deck_stats(deck: &DeckStats, stats: &Stats) -> proto::DeckStats {
    let stopped = match deck.stopped {
        None => "",
        Some(DeckStop::Exhausted) => DECK_EXHAUSTED,
        Some(DeckStop::OutOfStock) => DECK_OUT_OF_STOCK,
        Some(DeckStop::Held) => DECK_HELD,
    };
    proto::DeckStats {
        pool_id: views::pool_id(&stats.view.campaign, deck.pool),
        round: deck.round,
        cards_left: deck.cards_left,
        cards_waiting: deck.cards_waiting,
        stopped: stopped.into(),
        lacking: views::quantities(&deck.lacking, &stats.view.campaign),
    }
}

/// What may be shown of windows that the store has.
async fn visible_windows(
    store: &dyn Store,
    stats: &Stats,
    windows: &[WindowView],
) -> Result<Vec<proto::Window>, CallError> {
    let mut shown = Vec::new();
    for views in windows.chunk_by(|a, b| a.pool == b.pool) {
        let secrets = Secrets::of(store, &stats.view, views, stats.now).await?;
        shown.extend(views.iter().filter_map(|view| {
            let prizes = secrets.visible(view);
            (!prizes.is_empty()).then(|| window(view, prizes, &stats.view.campaign))
        }));
    }
    Ok(shown)
}

/// Windows of a campaign whose data have left the store, long after they have ended.
fn all_windows(stats: &Stats, windows: &[WindowView]) -> Vec<proto::Window> {
    let filled = windows.iter().filter(|view| !view.prizes.is_empty());
    filled
        .map(|view| window(view, view.prizes.iter().collect(), &stats.view.campaign))
        .collect()
}
