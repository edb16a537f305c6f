//! What the store returns, as messages. Numbers of prizes and pools become ids here.

use crate::{
    model::{
        Campaign, Moment, PoolKind, PoolNo, Quantities, UserId,
        change::Difference,
        convert::{campaign_to_proto, cap_to_proto, moment_to_proto, money_to_proto},
        deck::{CardCount, Deck},
        limits::{Bonus, Quota, Quotas},
        personal::GuaranteeProgress,
        summary::{DeckPlan, PersonalPlan, PlanSummary, PlannedHour, PrizePlan},
    },
    proto,
    store::{
        BlockedUser, BonusAnswer, CampaignView, DrawAnswer, DrawResult, Durability, Hold, LedgerId,
        Lifecycle, PartitionState, Trouble, UserDetails, view::VersionInfo,
    },
};

/// A draw's answer, with the texts of its codes by result: none if the caller may not read them.
pub(super) fn draw(
    answer: &DrawAnswer,
    durability: Durability,
    codes: Vec<Option<String>>,
) -> proto::DrawResponse {
    let results = answer.entry.results.iter();
    let results = results.map(|result| draw_result(*result, &answer.campaign, answer.ledger));
    let mut results: Vec<_> = results.collect();
    for (result, code) in results.iter_mut().zip(codes) {
        result.code = code.unwrap_or_default();
    }
    proto::DrawResponse {
        request_id: answer.entry.request.as_str().into(),
        results,
        draw_time: Some(moment_to_proto(answer.at)),
        replayed: answer.replayed,
        durability: self::durability(durability).into(),
        limits: Some(limits(&answer.quotas(), &answer.campaign)),
    }
}

/// The answer to a grant of bonus draws.
pub(super) fn bonus(answer: &BonusAnswer, durability: Durability) -> proto::GrantBonusResponse {
    proto::GrantBonusResponse {
        request_id: answer.entry.request.as_str().into(),
        grant_time: Some(moment_to_proto(answer.at)),
        replayed: answer.replayed,
        durability: self::durability(durability).into(),
        limits: Some(limits(&answer.quotas(), &answer.campaign)),
        ledger_id: Some(ledger_id(answer.ledger)),
    }
}

/// What a crash could undo.
pub(super) fn durability(level: Durability) -> proto::Durability {
    match level {
        Durability::Volatile => proto::Durability::Unspecified,
        Durability::Embedded => proto::Durability::Embedded,
        Durability::Fast => proto::Durability::Fast,
        Durability::Local => proto::Durability::Local,
        Durability::Strict => proto::Durability::Strict,
    }
}

/// The result of one of a draw's `count`, by the version of the campaign under which it was made.
pub(super) fn draw_result(
    result: DrawResult,
    campaign: &Campaign,
    entry: LedgerId,
) -> proto::DrawResult {
    let ledger_id = Some(ledger_id(entry));
    match result {
        DrawResult::Won {
            prize,
            pool,
            unit,
            release,
            code: _, // its text is added for those who may read codes
            guarantee,
        } => {
            let guarantee = guarantee.and_then(|it| campaign.guarantee(pool, it));
            let prize = campaign.prize(prize);
            proto::DrawResult {
                outcome: proto::Outcome::Won.into(),
                prize_id: prize.id.to_string(),
                prize_name: prize.name.clone(),
                attributes: prize.attributes.clone(),
                // What is stored names known pools only.
                unit_id: unit.id(campaign.pool_name(pool).unwrap_or_default()),
                release_time: release.map(moment_to_proto),
                ledger_id,
                code: String::new(),
                guarantee_id: guarantee.map_or_else(String::new, |it| it.id.to_string()),
            }
        }
        DrawResult::NotWon {
            consolation: true, ..
        } => {
            let mut result = proto::DrawResult {
                outcome: proto::Outcome::Consolation.into(),
                ledger_id,
                ..proto::DrawResult::default()
            };
            if let Some(consolation) = &campaign.consolation {
                result.prize_id = consolation.id.to_string();
                result.prize_name = consolation.name.clone();
                result.attributes = consolation.attributes.clone();
            }
            result
        }
        DrawResult::NotWon { .. } => proto::DrawResult {
            outcome: proto::Outcome::Nothing.into(),
            ledger_id,
            ..proto::DrawResult::default()
        },
    }
}

/// The name of an entry of the ledger.
pub(super) fn ledger_id(id: LedgerId) -> proto::LedgerId {
    proto::LedgerId {
        partition: id.partition,
        sequence: id.sequence,
    }
}

/// A user's limits in a campaign.
pub(super) fn limits(quotas: &Quotas, campaign: &Campaign) -> proto::Limits {
    let prizes = quotas.prizes.iter();
    proto::Limits {
        draws_today: Some(quota(&quotas.draws_today)),
        paid_draws_today: Some(quota(&quotas.paid_draws_today)),
        draws_total: Some(quota(&quotas.draws_total)),
        wins_total: Some(quota(&quotas.wins_total)),
        prizes: prizes
            .map(|capped| proto::PrizeQuota {
                prize_id: campaign.prize(capped.prize).id.to_string(),
                today: Some(quota(&capped.today)),
                total: Some(quota(&capped.total)),
            })
            .collect(),
        draws_this_hour: quotas.draws_this_hour.as_ref().map(quota),
        granted_today: quotas.granted_today.as_ref().map(quota),
        guarantees: quotas
            .guarantees
            .iter()
            .filter_map(|progress| guarantee_progress(progress, campaign))
            .collect(),
    }
}

fn guarantee_progress(
    progress: &GuaranteeProgress,
    campaign: &Campaign,
) -> Option<proto::GuaranteeProgress> {
    let guarantee = u16::try_from(progress.guarantee).ok()?;
    let guarantee = campaign.guarantee(progress.pool, guarantee)?;
    Some(proto::GuaranteeProgress {
        pool_id: campaign.pool_name(progress.pool)?.into(),
        guarantee_id: guarantee.id.to_string(),
        draws_since: progress.since,
        draws_left: progress.left,
        due: progress.is_due,
    })
}

fn quota(quota: &Quota) -> proto::Quota {
    proto::Quota {
        limit: quota.limit.map(u64::from),
        used: quota.used,
        remaining: quota.remaining(),
        bonus: quota.bonus,
        reset_time: quota.reset.map(moment_to_proto),
    }
}

/// A campaign as it stands at `now`.
pub(super) fn campaign_status(
    view: &CampaignView,
    now: Moment,
    test_clock: bool,
) -> proto::CampaignStatus {
    let paused = view.paused_prizes.iter();
    proto::CampaignStatus {
        campaign: Some(campaign_to_proto(&view.campaign)),
        version: view.version,
        state: campaign_state(view, now).into(),
        paused_prize_ids: paused
            .map(|no| view.campaign.prize(*no).id.to_string())
            .collect(),
        versions: view.versions.iter().map(campaign_version).collect(),
        seed_commitment: view.commitment.to_string(),
        test_clock,
        read_time: Some(moment_to_proto(now)),
        blocked_users: view.blocked_users,
        holds: view.holds.iter().map(|held| hold(held, view)).collect(),
    }
}

/// What operators call the state. A pause shows before the start, too: it is what they must undo.
pub(super) fn campaign_state(view: &CampaignView, now: Moment) -> proto::CampaignState {
    match view.lifecycle {
        Lifecycle::Closed => proto::CampaignState::Closed,
        Lifecycle::Closing => proto::CampaignState::Ending,
        Lifecycle::Open | Lifecycle::Paused if now >= view.campaign.end => {
            proto::CampaignState::Ending
        }
        Lifecycle::Paused => proto::CampaignState::Paused,
        Lifecycle::Open if now < view.campaign.start => proto::CampaignState::Scheduled,
        Lifecycle::Open => proto::CampaignState::Running,
    }
}

fn hold(hold: &Hold, view: &CampaignView) -> proto::Hold {
    let prize = hold.prize.map(|no| view.campaign.prize(no).id.to_string());
    let note = hold.note.as_ref();
    proto::Hold {
        prize_id: prize.unwrap_or_default(),
        hold_time: note.map(|note| moment_to_proto(note.at)),
        operator: note.map_or("", |note| note.operator.as_str()).into(),
        reason: note.map_or("", |note| &note.reason).into(),
    }
}

/// A user as operators see one.
pub(super) fn user(id: &UserId, details: &UserDetails) -> proto::User {
    let record = &details.view.record;
    let bonus = record.bonus.iter();
    proto::User {
        user_id: id.as_str().into(),
        draws: record.draws,
        bonus_draws_used: record.bonus_used,
        wins: record.wins,
        bonus_draws: bonus.map(bonus_draws).collect(),
        limits: Some(limits(&details.view.quotas(), &details.view.view.campaign)),
        block: details.block.as_ref().map(blocked_user),
        read_time: Some(moment_to_proto(details.view.now)),
    }
}

fn bonus_draws(bonus: &Bonus) -> proto::BonusDraws {
    proto::BonusDraws {
        draws: bonus.left.into(),
        expire_time: lapse_time(bonus.expires),
    }
}

/// When bonus draws lapse; none if they lapse with the campaign.
pub(super) fn lapse_time(expires: Moment) -> Option<prost_types::Timestamp> {
    (expires < Moment::FAR_FUTURE).then(|| moment_to_proto(expires))
}

/// A blocked user.
pub(super) fn blocked_user(blocked: &BlockedUser) -> proto::BlockedUser {
    let note = blocked.note.as_ref();
    proto::BlockedUser {
        user_id: blocked.user.as_str().into(),
        block_time: note.map(|note| moment_to_proto(note.at)),
        operator: note.map_or("", |note| note.operator.as_str()).into(),
        reason: note.map_or("", |note| &note.reason).into(),
    }
}

fn campaign_version(info: &VersionInfo) -> proto::CampaignVersion {
    proto::CampaignVersion {
        version: info.version,
        apply_time: Some(moment_to_proto(info.at)),
        operator: info.operator.as_str().into(),
        reason: info.reason.clone(),
        proposed_by: info
            .proposed_by
            .as_ref()
            .map_or_else(String::new, |by| by.as_str().into()),
    }
}

/// Units by prize.
pub(super) fn quantities(
    quantities: &Quantities,
    campaign: &Campaign,
) -> Vec<proto::PrizeQuantity> {
    quantities
        .iter()
        .map(|(no, units)| proto::PrizeQuantity {
            prize_id: campaign.prize(*no).id.to_string(),
            units: *units,
        })
        .collect()
}

/// Parts of the store that are halted.
pub(super) fn halted(troubles: Vec<Trouble>) -> Vec<proto::HaltedPartition> {
    let halted = troubles
        .into_iter()
        .filter(|trouble| trouble.state() == PartitionState::Halted);
    let shown = halted.map(|trouble| proto::HaltedPartition {
        partition: trouble.partition,
        message: trouble.to_string(),
    });
    shown.collect()
}

/// The plan in full.
pub(super) fn plan(summary: &PlanSummary, campaign: &Campaign) -> proto::PlanSummary {
    let prizes = summary.prizes.iter();
    let hours = summary.hours.iter();
    proto::PlanSummary {
        prizes: prizes.map(|plan| prize_plan(plan, campaign)).collect(),
        hours: hours.map(|hour| planned_hour(hour, campaign)).collect(),
        hours_omitted: summary.hours_omitted,
        decks: summary
            .decks
            .iter()
            .filter_map(|plan| match &campaign.pool(plan.pool).kind {
                PoolKind::Deck(deck) => Some(deck_plan(plan, deck, campaign)),
                PoolKind::Schedule(_) | PoolKind::Personal(_) => None,
            })
            .collect(),
        wins_per_user: campaign.limits.wins_per_user,
        prizes_beyond_limit: prizes_beyond_limit(campaign),
        capped_prizes: capped_prizes(campaign),
        personal: summary
            .personal
            .iter()
            .map(|plan| personal_plan(plan, campaign))
            .collect(),
    }
}

fn personal_plan(plan: &PersonalPlan, campaign: &Campaign) -> proto::PersonalPlan {
    proto::PersonalPlan {
        pool_id: pool_id(campaign, plan.pool),
        stock: quantities(&plan.stock, campaign),
        per_user: quantities(&plan.per_user, campaign),
        users: plan.users,
        shares_stock: plan.shares_stock,
    }
}

/// Prizes of which a user may win only so many units.
pub(super) fn capped_prizes(campaign: &Campaign) -> Vec<proto::CappedPrize> {
    let capped = campaign.capped_prizes();
    let capped = capped.map(|(prize, cap)| proto::CappedPrize {
        prize_id: campaign.prize(prize).id.to_string(),
        per_user: Some(cap_to_proto(cap)),
    });
    capped.collect()
}

/// Prizes that a user who has reached the limit of wins, of everybody or of a segment, may still
/// have.
pub(super) fn prizes_beyond_limit(campaign: &Campaign) -> Vec<String> {
    let mut limits = campaign.all_limits();
    if limits.all(|limits| limits.wins_per_user.is_none()) {
        return Vec::new();
    }
    let prizes = campaign.prizes.iter();
    let beyond = prizes.filter(|prize| !prize.counts_as_win);
    beyond.map(|prize| prize.id.to_string()).collect()
}

fn deck_plan(plan: &DeckPlan, deck: &Deck, campaign: &Campaign) -> proto::DeckPlan {
    let mut rounded = first_round(deck, campaign);
    rounded.retain(|kind| !kind.written_odds.is_empty());
    proto::DeckPlan {
        pool_id: pool_id(campaign, plan.pool),
        size: deck.size,
        rounds: plan.rounds.whole,
        lacking: quantities(&plan.rounds.lacking, campaign),
        left_over: quantities(&plan.rounds.left_over, campaign),
        shares_stock: plan.shares_stock,
        rounded,
    }
}

/// The cards of a deck's first round, with the odds that they were rounded from.
pub(super) fn first_round(deck: &Deck, campaign: &Campaign) -> Vec<proto::CardCount> {
    let mut cards = cards(&deck.first_round(), deck.size, campaign);
    for (kind, card) in deck.first_round().iter().zip(&mut cards) {
        let written = kind.prize.and_then(|prize| deck.rounded_odds.get(&prize));
        card.written_odds = written.cloned().unwrap_or_default();
    }
    cards
}

/// The cards of a round by kind.
pub(super) fn cards(round: &[CardCount], size: u64, campaign: &Campaign) -> Vec<proto::CardCount> {
    let card = |kind: &CardCount| proto::CardCount {
        prize_id: kind
            .prize
            .map_or_else(String::new, |no| campaign.prize(no).id.to_string()),
        cards: kind.cards,
        size,
        written_odds: String::new(),
    };
    round.iter().map(card).collect()
}

fn prize_plan(plan: &PrizePlan, campaign: &Campaign) -> proto::PrizePlan {
    let prize = campaign.prize(plan.prize);
    let worth = |units| {
        let value = prize.value.as_ref()?;
        Some(money_to_proto(&value.times(units)))
    };
    proto::PrizePlan {
        prize_id: prize.id.to_string(),
        stock: plan.stock,
        unlimited: plan.unlimited,
        codes: plan.codes,
        planned: plan.planned,
        planned_value: worth(plan.planned),
        stock_value: worth(plan.stock).filter(|_| !plan.unlimited && !plan.codes),
        per_round: plan.per_round,
    }
}

fn planned_hour(hour: &PlannedHour, campaign: &Campaign) -> proto::PlannedHour {
    proto::PlannedHour {
        pool_id: pool_id(campaign, hour.pool),
        start_time: Some(moment_to_proto(hour.window.start)),
        end_time: Some(moment_to_proto(hour.window.end)),
        prizes: quantities(&hour.quantities, campaign),
        local_start: campaign.zone.local(hour.window.start),
    }
}

/// The id of a pool.
pub(super) fn pool_id(campaign: &Campaign, no: PoolNo) -> String {
    campaign.pool(no).id.to_string()
}

/// One difference between two versions.
pub(super) fn change(difference: Difference) -> proto::Change {
    proto::Change {
        path: difference.path,
        before: difference.before,
        after: difference.after,
    }
}
