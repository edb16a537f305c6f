//! What may be published of a campaign's odds: compositions and planned sums, never what is to
//! come.

use std::sync::{Arc, Mutex, PoisonError};

use hashlink::LruCache;
use sha2::{Digest as _, Sha256};

use crate::{
    chance::Seed,
    model::{
        Campaign, Pool, PoolKind, Prize,
        budget::Budget,
        convert::{self, moment_to_proto, rule_to_proto},
        deck::Deck,
        personal::{
            Personal, PersonalKind,
            odds::{self, Shares},
        },
        schedule::Schedule,
    },
    proto,
    store::CampaignView,
};

use super::views;

/// The most versions whose long-run odds are kept.
const KEPT_MAX: usize = 1024;

/// SHA-256 of a definition. Its id and version do not suffice: if a store was rolled back, another
/// definition may come into force under the same number.
type Version = [u8; 32];

/// The odds of personal pools in the long run, of versions that were asked for. They take up to a
/// second to compute, and those of a definition never change.
pub(super) struct LongRun(Mutex<LruCache<Version, Arc<[Shares]>>>);

impl Default for LongRun {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT_MAX)))
    }
}

impl LongRun {
    /// The shares of each pool of a version, by the pool's index; empty for pools without personal
    /// odds. One version is computed at a time, so that callers cannot keep all cores busy.
    fn of(&self, definition: &Campaign) -> Arc<[Shares]> {
        if !definition.has_personal_pools() {
            return Arc::default();
        }
        let key: Version = Sha256::digest(convert::encode(definition)).into();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = kept.get(&key) {
            return Arc::clone(shares);
        }
        // A campaign is accepted only if its odds can be computed.
        let shares_of = |pool: &Pool| match &pool.kind {
            PoolKind::Personal(personal) => match &personal.kind {
                PersonalKind::Odds(written) => {
                    odds::effective(personal, written).unwrap_or_default()
                }
                PersonalKind::Deck(_) => Shares::new(),
            },
            PoolKind::Deck(_) | PoolKind::Schedule(_) => Shares::new(),
        };
        let shares: Arc<[Shares]> = definition.pools.iter().map(shares_of).collect();
        kept.insert(key, Arc::clone(&shares));
        shares
    }
}

/// The odds of a version (0 for the current one), whose definition is given; with the seed if it
/// may be revealed.
pub(super) fn published(
    long_run: &LongRun,
    view: &CampaignView,
    version: u32,
    definition: &Campaign,
    seed: Option<&Seed>,
) -> proto::GetOddsResponse {
    let version = if version == 0 { view.version } else { version };
    let effective = long_run.of(definition);
    let versions = view.versions.iter();
    let consolation = definition.consolation.as_ref();
    proto::GetOddsResponse {
        campaign_id: definition.id.to_string(),
        version,
        pools: definition
            .pools
            .iter()
            .enumerate()
            .map(|(index, pool)| pool_odds(pool, definition, effective.get(index)))
            .collect(),
        seed_commitment: view.commitment.to_string(),
        seed: seed.map(Seed::reveal).unwrap_or_default(),
        versions: versions
            .map(|info| proto::OddsVersion {
                version: info.version,
                apply_time: Some(moment_to_proto(info.at)),
            })
            .collect(),
        consolation_prize_id: consolation.map_or_else(String::new, |prize| prize.id.to_string()),
        wins_per_user: definition.limits.wins_per_user,
        prizes_beyond_limit: views::prizes_beyond_limit(definition),
        capped_prizes: views::capped_prizes(definition),
        guarantees: convert::guarantees_to_proto(&definition.guarantees, |no| {
            definition.prize(no).id.to_string()
        }),
        budget: definition
            .budget
            .as_ref()
            .map(|budget| budget_odds(budget, definition)),
        segment_wins: segment_wins(definition),
        unlimited_prizes: ids_of(definition, |prize| prize.unlimited),
        prizes_with_codes: ids_of(definition, |prize| prize.codes),
    }
}

/// The ids of some prizes, in the order of the campaign.
fn ids_of(campaign: &Campaign, is_meant: impl Fn(&Prize) -> bool) -> Vec<String> {
    let prizes = campaign.prizes.iter().filter(|prize| is_meant(prize));
    prizes.map(|prize| prize.id.to_string()).collect()
}

fn budget_odds(budget: &Budget, campaign: &Campaign) -> proto::BudgetOdds {
    let money = |minor: u64| convert::money_to_proto(&budget.money(minor));
    let values = campaign
        .numbered_prizes()
        .map(|(no, prize)| proto::PrizeValue {
            prize_id: prize.id.to_string(),
            value: Some(money(budget.value(no))),
        });
    proto::BudgetOdds {
        per_day: budget.per_day.map(money),
        total: budget.total.map(money),
        values: values.collect(),
    }
}

/// The limits of wins of all segments that have limits; nothing if no segment has a limit of wins
/// of its own. An entry with another limit counts too: it is the first one of its users.
fn segment_wins(campaign: &Campaign) -> Vec<proto::SegmentWins> {
    let entries = &campaign.segment_limits;
    if entries
        .iter()
        .all(|entry| entry.own.wins_per_user.is_none())
    {
        return Vec::new();
    }
    let wins = entries.iter().map(|entry| proto::SegmentWins {
        segment: entry.segment.to_string(),
        wins_per_user: entry.limits.wins_per_user,
    });
    wins.collect()
}

fn pool_odds(pool: &Pool, campaign: &Campaign, effective: Option<&Shares>) -> proto::PoolOdds {
    use proto::pool_odds::Kind;
    proto::PoolOdds {
        pool_id: pool.id.to_string(),
        unlock_after_draws: pool.unlock_after_draws,
        lock_after_wins: pool.lock_after_wins.unwrap_or(0),
        unlock_after_draws_today: pool.unlock_after_draws_today,
        segments: pool.segments.as_ref().map(rule_to_proto),
        kind: Some(match &pool.kind {
            PoolKind::Deck(deck) => Kind::Deck(deck_odds(deck, campaign)),
            PoolKind::Schedule(schedule) => Kind::Schedule(schedule_odds(schedule, campaign)),
            PoolKind::Personal(personal) => {
                Kind::Personal(personal_odds(personal, campaign, effective))
            }
        }),
    }
}

fn deck_odds(deck: &Deck, campaign: &Campaign) -> proto::DeckOdds {
    let later = deck.later_round(|no| campaign.prize(no).grand);
    proto::DeckOdds {
        first_round: views::first_round(deck, campaign),
        later_rounds: views::cards(&later, deck.size, campaign),
    }
}

fn personal_odds(
    personal: &Personal,
    campaign: &Campaign,
    effective: Option<&Shares>,
) -> proto::PersonalOdds {
    let id = |no| campaign.prize(no).id.to_string();
    let guarantees = convert::guarantees_to_proto(&personal.guarantees, id);
    let fallback_prize_id = personal.fallback.map(id).unwrap_or_default();
    match &personal.kind {
        PersonalKind::Odds(written) => proto::PersonalOdds {
            base: prize_odds(&odds::base(written), campaign),
            effective: effective
                .map(|shares| prize_odds(shares, campaign))
                .unwrap_or_default(),
            guarantees,
            deck: None,
            fallback_prize_id,
        },
        PersonalKind::Deck(deck) => proto::PersonalOdds {
            deck: Some(deck_odds(deck, campaign)),
            fallback_prize_id,
            ..proto::PersonalOdds::default()
        },
    }
}

/// Shares in percent, in the order of prizes; what wins nothing comes last.
fn prize_odds(shares: &Shares, campaign: &Campaign) -> Vec<proto::PrizeOdds> {
    let prizes = shares.iter().filter(|(prize, _)| prize.is_some());
    let nothing = shares.iter().filter(|(prize, _)| prize.is_none());
    let odds = prizes
        .chain(nothing)
        .map(|(prize, share)| proto::PrizeOdds {
            prize_id: prize.map_or_else(String::new, |no| campaign.prize(no).id.to_string()),
            percent: format!("{:.6}", share * 100.0),
        });
    odds.collect()
}

fn schedule_odds(schedule: &Schedule, campaign: &Campaign) -> proto::ScheduleOdds {
    let totals = schedule.sum(&campaign.zone, campaign.start, campaign.end);
    let mut hours = Vec::new();
    if campaign.publish_hours {
        let windows = campaign
            .zone
            .windows(campaign.start, campaign.start, campaign.end);
        for window in windows {
            let planned = schedule.hourly(&window);
            if !planned.is_empty() {
                hours.push(proto::HourQuantity {
                    start_time: Some(moment_to_proto(window.start)),
                    end_time: Some(moment_to_proto(window.end)),
                    prizes: views::quantities(&planned, campaign),
                });
            }
        }
    }
    proto::ScheduleOdds {
        totals: views::quantities(&totals, campaign),
        hours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{convert::campaign_from_proto, file};

    #[test]
    fn another_definition_of_the_same_campaign_has_its_own_odds() {
        let definition = |percent: u32| {
            let yaml = format!(
                "
id: cards
timeZone: UTC
startTime: 2998-01-01T00:00:00Z
endTime: 2998-01-03T00:00:00Z
prizes: [{{id: rare, unlimited: true}}]
pools: [{{id: own, personal: {{odds: {{rare: {percent}%}}}}}}]
"
            );
            campaign_from_proto(&file::parse(&yaml).unwrap()[0]).unwrap()
        };
        let long_run = LongRun::default();
        let share = |percent| {
            let shares = long_run.of(&definition(percent));
            let rare = shares[0].iter().find(|(prize, _)| prize.is_some());
            rare.map(|(_, share)| (share * 100.0).round() as u32)
        };
        assert_eq!(share(10), Some(10));
        assert_eq!(share(20), Some(20));
        assert_eq!(share(10), Some(10));
    }
}
