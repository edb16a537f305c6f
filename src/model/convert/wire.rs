//! Model types as proto messages, and times and money both ways.

use std::{collections::BTreeMap, time::Duration};

use super::{hours, personal, segments::rule_to_proto};
use crate::{
    model::{
        campaign::{Campaign, Consolation, Pool, PoolKind, Prize},
        caps::PrizeCap,
        deck::{Deck, OnExhausted},
        limits::DrawLimits,
        moment::Moment,
        money::{Money, NANOS_PER_UNIT},
        number::PrizeNo,
        problem::Problem,
        schedule::{Daily, Missed, Schedule, Special, Unclaimed},
        text::grouped,
    },
    proto,
};

/// Checks a time, and cuts it to microseconds; `path` names the field in the problem.
///
/// # Errors
/// Before 1970 or after [`Moment::FAR_FUTURE`], or with nanoseconds that are none.
///
/// ```
/// use tombola::model::convert::moment_from_proto;
/// let time = prost_types::Timestamp { seconds: 1, nanos: 500_000_000 };
/// assert_eq!(moment_from_proto("startTime", &time).unwrap().as_micros(), 1_500_000);
/// ```
pub fn moment_from_proto(path: &str, time: &prost_types::Timestamp) -> Result<Moment, Problem> {
    let wrong = |message| {
        Err(Problem {
            path: path.to_owned(),
            message,
        })
    };
    if !(0..=Moment::FAR_FUTURE.as_seconds()).contains(&time.seconds) {
        return wrong("is not a time from 1970-01-01T00:00:00Z to 9999-12-31T00:00:00Z".into());
    }
    if !(0..1_000_000_000).contains(&time.nanos) {
        return wrong(format!(
            "has {} nanos: they must be from 0 to 999999999",
            time.nanos
        ));
    }
    let micros = i64::from(time.nanos / 1_000);
    Ok(Moment::from_micros(time.seconds * 1_000_000 + micros))
}

/// A moment as a proto time.
pub fn moment_to_proto(moment: Moment) -> prost_types::Timestamp {
    let micros = moment.as_micros() % 1_000_000;
    prost_types::Timestamp {
        seconds: moment.as_seconds(),
        nanos: i32::try_from(micros * 1_000).unwrap_or(0), // below a thousand million
    }
}

/// An amount as a proto message; the largest there is if it is more.
pub fn money_to_proto(money: &Money) -> proto::Money {
    let per_unit = u128::from(NANOS_PER_UNIT);
    proto::Money {
        currency_code: money.currency.clone(),
        units: i64::try_from(money.nanos / per_unit).unwrap_or(i64::MAX),
        nanos: i32::try_from(money.nanos % per_unit).unwrap_or(0), // below a thousand million
    }
}

/// An amount in billionths of its unit, to compare amounts of one currency; none if there is none
/// or it is negative.
pub(crate) fn money_nanos(money: Option<&proto::Money>) -> Option<u128> {
    let money = money?;
    let whole = u128::try_from(money.units).ok()?;
    Some(whole * 1_000_000_000 + u128::try_from(money.nanos).ok()?)
}

/// For example `CNY 120,000.50`; `-` if there is none.
pub(crate) fn shown_money(money: Option<&proto::Money>) -> String {
    let Some(money) = money else {
        return "-".into();
    };
    let units = grouped(money.units.unsigned_abs());
    let fraction = format!("{:09}", money.nanos.unsigned_abs());
    match fraction.trim_end_matches('0') {
        "" => format!("{} {units}", money.currency_code),
        digits => format!("{} {units}.{digits:0<2}", money.currency_code),
    }
}

/// A campaign as a proto message: what [`super::campaign_from_proto`] makes the same campaign of.
/// Defaults are written out, odds come back as cards.
pub fn campaign_to_proto(campaign: &Campaign) -> proto::Campaign {
    let publication = if campaign.publish_hours {
        proto::PlanPublication::Hourly
    } else {
        proto::PlanPublication::Totals
    };
    let limits = limits_to_proto(&campaign.limits);
    proto::Campaign {
        id: campaign.id.to_string(),
        name: campaign.name.clone(),
        time_zone: campaign.zone.name().to_owned(),
        start_time: Some(moment_to_proto(campaign.start)),
        end_time: Some(moment_to_proto(campaign.end)),
        limits: (limits != proto::DrawLimits::default()).then_some(limits),
        consolation: campaign.consolation.as_ref().map(consolation_to_proto),
        prizes: campaign.prizes.iter().map(prize_to_proto).collect(),
        pools: campaign
            .pools
            .iter()
            .map(|pool| pool_to_proto(pool, campaign))
            .collect(),
        publish_plan: publication.into(),
        approval_required: campaign.approval_required,
        segment_limits: campaign
            .segment_limits
            .iter()
            .map(|entry| proto::SegmentLimits {
                segment: entry.segment.to_string(),
                limits: Some(limits_to_proto(&entry.own)),
            })
            .collect(),
        budget: campaign.budget.as_ref().map(|budget| proto::Budget {
            per_day: budget
                .per_day
                .map(|minor| money_to_proto(&budget.money(minor))),
            total: budget
                .total
                .map(|minor| money_to_proto(&budget.money(minor))),
        }),
        guarantees: personal::guarantees_to_proto(&campaign.guarantees, |no| {
            campaign.prize(no).id.to_string()
        }),
    }
}

fn limits_to_proto(limits: &DrawLimits) -> proto::DrawLimits {
    proto::DrawLimits {
        draws_per_day: limits.draws_per_day,
        paid_draws_per_day: limits.paid_draws_per_day,
        draws_per_user: limits.draws_per_user,
        wins_per_user: limits.wins_per_user,
        draws_per_hour: limits.draws_per_hour,
        granted_per_day: limits.granted_per_day,
    }
}

fn consolation_to_proto(consolation: &Consolation) -> proto::Consolation {
    proto::Consolation {
        id: consolation.id.to_string(),
        name: consolation.name.clone(),
        attributes: consolation.attributes.clone(),
    }
}

fn prize_to_proto(prize: &Prize) -> proto::Prize {
    proto::Prize {
        id: prize.id.to_string(),
        name: prize.name.clone(),
        stock: prize.stock,
        grand: prize.grand,
        value: prize.value.as_ref().map(money_to_proto),
        counts_as_win: (!prize.counts_as_win).then_some(false),
        attributes: prize.attributes.clone(),
        per_user: prize.per_user.as_ref().map(cap_to_proto),
        unlimited: prize.unlimited,
        codes: prize.codes,
    }
}

/// A cap as a proto message.
pub fn cap_to_proto(cap: &PrizeCap) -> proto::PrizeCap {
    proto::PrizeCap {
        total: cap.total,
        per_day: cap.per_day,
    }
}

fn pool_to_proto(pool: &Pool, campaign: &Campaign) -> proto::Pool {
    let id_of = |no: PrizeNo| campaign.prize(no).id.to_string();
    let kind = match &pool.kind {
        PoolKind::Schedule(schedule) => {
            proto::pool::Kind::Schedule(schedule_to_proto(schedule, campaign))
        }
        PoolKind::Deck(deck) => proto::pool::Kind::Deck(deck_to_proto(deck, id_of)),
        PoolKind::Personal(pool) => proto::pool::Kind::Personal(personal::to_proto(pool, id_of)),
    };
    proto::Pool {
        id: pool.id.to_string(),
        unlock_after_draws: pool.unlock_after_draws,
        kind: Some(kind),
        lock_after_wins: pool.lock_after_wins.unwrap_or(0),
        unlock_after_draws_today: pool.unlock_after_draws_today,
        segments: pool.segments.as_ref().map(rule_to_proto),
    }
}

fn schedule_to_proto(schedule: &Schedule, campaign: &Campaign) -> proto::Schedule {
    let daily = |daily: &Daily| proto::DailyHours {
        from: format!("{:02}:00", daily.from_hour),
        to: format!("{:02}:00", daily.to_hour),
        per_hour: by_id(&daily.per_hour, campaign),
    };
    let special = |special: &Special| proto::SpecialHours {
        from: hours::show(special.from),
        to: hours::show(special.to),
        per_hour: by_id(&special.per_hour, campaign),
        multiply: special.factor.as_whole().filter(|n| *n > 1).unwrap_or(0),
        factor: match special.factor.as_whole() {
            Some(_) => String::new(),
            None => special.factor.to_string(),
        },
    };
    let missed = match schedule.missed {
        Missed::Spread => proto::Missed::Spread,
        Missed::Skip => proto::Missed::Skip,
        Missed::Release => proto::Missed::Release,
    };
    let (unclaimed, return_after) = match schedule.unclaimed {
        Unclaimed::Keep => (proto::Unclaimed::Keep, None),
        Unclaimed::ReturnAfter(after) => (proto::Unclaimed::Return, Some(duration_to_proto(after))),
    };
    proto::Schedule {
        total: by_id(&schedule.total, campaign),
        per_hour: by_id(&schedule.per_hour, campaign),
        daily: schedule.daily.iter().map(daily).collect(),
        special: schedule.special.iter().map(special).collect(),
        missed: missed.into(),
        unclaimed: unclaimed.into(),
        return_after,
    }
}

/// A deck as a proto message, with the ids that `id` has for prizes.
pub(super) fn deck_to_proto(deck: &Deck, id: impl Fn(PrizeNo) -> String) -> proto::Deck {
    let on_exhausted = match deck.on_exhausted {
        OnExhausted::Stop => proto::OnExhausted::Stop,
        OnExhausted::Reshuffle => proto::OnExhausted::Reshuffle,
    };
    proto::Deck {
        size: deck.size,
        cards: deck
            .cards
            .iter()
            .map(|(no, cards)| (id(*no), *cards))
            .collect(),
        odds: BTreeMap::new(),
        on_exhausted: on_exhausted.into(),
        rounded_odds: deck
            .rounded_odds
            .iter()
            .map(|(no, odds)| (id(*no), odds.clone()))
            .collect(),
    }
}

/// A duration as a proto message.
pub fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0), // below a thousand million
    }
}

fn by_id<T: Clone>(by_no: &BTreeMap<PrizeNo, T>, campaign: &Campaign) -> BTreeMap<String, T> {
    by_no
        .iter()
        .map(|(no, value)| (campaign.prize(*no).id.to_string(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_outside_of_its_range_names_the_part() {
        let text = |seconds, nanos| {
            let time = prost_types::Timestamp { seconds, nanos };
            moment_from_proto("expire_time", &time).map_err(|problem| problem.message)
        };
        let last = 253_402_214_400; // 9999-12-31T00:00:00Z
        assert_eq!(text(last, 0), Ok(Moment::FAR_FUTURE));
        for seconds in [-1, last + 1] {
            assert!(text(seconds, 0).unwrap_err().contains("to 9999-12-31T00"));
        }
        for nanos in [-1, 1_000_000_000] {
            let message = text(1, nanos).unwrap_err();
            assert!(message.contains(&format!("{nanos} nanos")), "{message}");
        }
    }
}
