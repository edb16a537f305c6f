//! A campaign's own fields: ids, names, times, limits, prizes.

use std::{collections::BTreeMap, time::Duration};

use super::{
    bounds::COUNT_MAX,
    budget::read_budget,
    deck, personal,
    prizes::Prizes,
    report::{at, entry, noted, unknown_enum},
    schedule,
    segments::{read_rule, read_segment_limits},
    wire::moment_from_proto,
};
use crate::{
    model::{
        budget::Budget,
        campaign::{Attributes, Campaign, Consolation, Pool, PoolKind, Prize},
        caps::PrizeCap,
        id::{CampaignId, PoolId, PrizeId},
        limits::DrawLimits,
        moment::Moment,
        money::Money,
        personal::Guarantee,
        problem::{Problem, Problems},
        segments::{SegmentLimits, SegmentRule},
        text::grouped,
        zone::Zone,
    },
    proto,
};

const PRIZES_MAX: usize = 100;
const POOLS_MAX: usize = 20;
const NAME_BYTES_MAX: usize = 256;
const ATTRIBUTES_MAX: usize = 32;
const ATTRIBUTE_KEY_BYTES_MAX: usize = 64;
const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;
/// Five years, two of them leap years.
const CAMPAIGN_DAYS_MAX: u64 = 5 * 365 + 2;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What of a campaign could be read; each problem with the rest is noted already.
pub(super) struct Parts {
    pub(super) zone: Option<Zone>,
    pub(super) start: Option<Moment>,
    pub(super) end: Option<Moment>,
    /// By index of the pool; none if something in that pool's kind is wrong.
    pub(super) kinds: Vec<Option<PoolKind>>,
    id: Option<CampaignId>,
    name: String,
    limits: DrawLimits,
    segment_limits: Vec<SegmentLimits>,
    consolation: Option<Consolation>,
    prizes: Vec<Option<Prize>>,
    budget: Option<Budget>,
    guarantees: Vec<Guarantee>,
    pools: Vec<Option<PoolHead>>,
    publish_hours: bool,
    approval_required: bool,
}

/// What a pool has besides its kind.
struct PoolHead {
    id: PoolId,
    unlock_after_draws: u32,
    lock_after_wins: Option<u32>,
    unlock_after_draws_today: u32,
    segments: Option<SegmentRule>,
}

impl Parts {
    /// The campaign, if there are no problems.
    pub(super) fn finish(self, mut problems: Problems) -> Result<Campaign, Problems> {
        if !problems.is_empty() {
            return Err(problems);
        }
        self.into_campaign().ok_or_else(|| {
            problems.add("campaign", "could not be read as a whole");
            problems
        })
    }

    fn into_campaign(self) -> Option<Campaign> {
        let pools = self.pools.into_iter().zip(self.kinds);
        Some(Campaign {
            id: self.id?,
            name: self.name,
            zone: self.zone?,
            start: self.start?,
            end: self.end?,
            limits: self.limits,
            segment_limits: self.segment_limits,
            consolation: self.consolation,
            prizes: self.prizes.into_iter().collect::<Option<_>>()?,
            budget: self.budget,
            guarantees: self.guarantees,
            pools: pools
                .map(|(pool, kind)| {
                    let pool = pool?;
                    Some(Pool {
                        id: pool.id,
                        unlock_after_draws: pool.unlock_after_draws,
                        lock_after_wins: pool.lock_after_wins,
                        unlock_after_draws_today: pool.unlock_after_draws_today,
                        segments: pool.segments,
                        kind: kind?,
                    })
                })
                .collect::<Option<_>>()?,
            publish_hours: self.publish_hours,
            approval_required: self.approval_required,
        })
    }
}

/// Reads what can be read and notes every problem with the rest.
pub(super) fn read(message: &proto::Campaign, problems: &mut Problems) -> Parts {
    let id = CampaignId::parse("id", &message.id);
    let id = noted(id, problems);
    check_name("name", &message.name, problems);
    let zone = Zone::parse(&message.time_zone).map_err(|message| Problem {
        path: "timeZone".into(),
        message,
    });
    let zone = noted(zone, problems);
    let (start, end) = read_times(message, problems);
    let limits = message.limits.as_ref().map(read_limits).unwrap_or_default();
    let segment_limits = read_segment_limits(&message.segment_limits, &limits, problems);
    let consolation = message.consolation.as_ref();
    let consolation = consolation.and_then(|it| read_consolation(it, &message.prizes, problems));
    check_count("prizes", message.prizes.len(), PRIZES_MAX, problems);
    let prizes = &message.prizes[..message.prizes.len().min(PRIZES_MAX)];
    check_unique("prizes", prizes.iter().map(|prize| &prize.id), problems);
    check_count("pools", message.pools.len(), POOLS_MAX, problems);
    let pools = &message.pools[..message.pools.len().min(POOLS_MAX)];
    check_unique("pools", pools.iter().map(|pool| &pool.id), problems);
    let read_prizes = (0..).zip(prizes);
    let read_prizes = read_prizes.map(|(i, prize)| read_prize(i, prize, problems));
    let read_prizes: Vec<_> = read_prizes.collect();
    let budget = message.budget.as_ref();
    let budget = budget.and_then(|budget| read_budget(budget, &read_prizes, problems));
    let known = Prizes::of_message(message, prizes);
    let (mut read_pools, mut kinds) = (Vec::new(), Vec::new());
    for (i, pool) in pools.iter().enumerate() {
        let path = format!("pools[{i}]");
        let id = noted(PoolId::parse(&at(&path, "id"), &pool.id), problems);
        let rule = pool.segments.as_ref();
        let segments = rule.map(|rule| read_rule(&at(&path, "segments"), rule, problems));
        read_pools.push(id.map(|id| PoolHead {
            id,
            unlock_after_draws: pool.unlock_after_draws,
            lock_after_wins: Some(pool.lock_after_wins).filter(|wins| *wins > 0),
            unlock_after_draws_today: pool.unlock_after_draws_today,
            segments,
        }));
        kinds.push(read_kind(&path, pool, &known, problems));
    }
    let guarantees = personal::read_of_campaign(&message.guarantees, &known, problems);
    personal::check_guarantees(message, problems);
    Parts {
        zone,
        start,
        end,
        kinds,
        id,
        name: message.name.clone(),
        limits,
        segment_limits,
        consolation,
        prizes: read_prizes,
        budget,
        guarantees,
        pools: read_pools,
        publish_hours: read_publication(message.publish_plan, problems),
        approval_required: message.approval_required,
    }
}

fn read_times(
    message: &proto::Campaign,
    problems: &mut Problems,
) -> (Option<Moment>, Option<Moment>) {
    let mut read = |path: &str, time: &Option<prost_types::Timestamp>| match time {
        Some(time) if (1..1_000_000_000).contains(&time.nanos) => {
            problems.add(path, "has a fraction of a second: write a whole second");
            None
        }
        Some(time) => noted(moment_from_proto(path, time), problems),
        None => {
            problems.add(
                path,
                "is missing: write a time like 2026-11-20T00:00:00+08:00",
            );
            None
        }
    };
    let start = read("startTime", &message.start_time);
    let end = read("endTime", &message.end_time);
    if let (Some(start), Some(end)) = (start, end) {
        let days = u32::try_from(CAMPAIGN_DAYS_MAX).unwrap_or(u32::MAX);
        if end <= start {
            problems.add(
                "endTime",
                format!("{end} is not after startTime {start}: a campaign ends after it starts"),
            );
        } else if end.since(start) > DAY * days {
            let latest = start + DAY * days;
            problems.add(
                "endTime",
                format!("is more than five years after startTime: {latest} at the latest"),
            );
        }
    }
    (start, end)
}

pub(super) fn read_limits(message: &proto::DrawLimits) -> DrawLimits {
    DrawLimits {
        draws_per_day: message.draws_per_day,
        paid_draws_per_day: message.paid_draws_per_day,
        draws_per_user: message.draws_per_user,
        wins_per_user: message.wins_per_user,
        draws_per_hour: message.draws_per_hour,
        granted_per_day: message.granted_per_day,
    }
}

fn read_consolation(
    message: &proto::Consolation,
    prizes: &[proto::Prize],
    problems: &mut Problems,
) -> Option<Consolation> {
    let id = noted(PrizeId::parse("consolation.id", &message.id), problems);
    if let Some(i) = prizes.iter().position(|prize| prize.id == message.id)
        && id.is_some()
    {
        problems.add(
            "consolation.id",
            format!(
                "{:?} is the id of prizes[{i}]: the consolation prize needs an id of its own",
                message.id
            ),
        );
    }
    check_name("consolation.name", &message.name, problems);
    check_attributes("consolation.attributes", &message.attributes, problems);
    Some(Consolation {
        id: id?,
        name: message.name.clone(),
        attributes: message.attributes.clone(),
    })
}

fn read_prize(i: usize, message: &proto::Prize, problems: &mut Problems) -> Option<Prize> {
    let path = format!("prizes[{i}]");
    let id = noted(PrizeId::parse(&at(&path, "id"), &message.id), problems);
    check_name(&at(&path, "name"), &message.name, problems);
    if message.stock > COUNT_MAX {
        problems.add(
            at(&path, "stock"),
            format!(
                "{} is too much: at most {} (2^53 - 1)",
                grouped(message.stock),
                grouped(COUNT_MAX)
            ),
        );
    }
    let value = message.value.as_ref().and_then(|value| {
        let path = at(&path, "value");
        Money::parse(&path, &value.currency_code, value.units, value.nanos)
            .map_err(|flaws| problems.0.extend(flaws.0))
            .ok()
    });
    if message.unlimited && message.stock > 0 {
        problems.add(
            at(&path, "stock"),
            "an unlimited prize has no stock: leave stock out, or unlimited",
        );
    }
    check_codes(&path, message, problems);
    let cap = message.per_user.as_ref();
    let per_user = cap.and_then(|cap| read_cap(&at(&path, "perUser"), cap, problems));
    check_attributes(&at(&path, "attributes"), &message.attributes, problems);
    Some(Prize {
        id: id?,
        name: message.name.clone(),
        stock: message.stock,
        unlimited: message.unlimited,
        codes: message.codes,
        per_user,
        grand: message.grand,
        value,
        counts_as_win: message.counts_as_win.unwrap_or(true),
        attributes: message.attributes.clone(),
    })
}

fn check_codes(path: &str, message: &proto::Prize, problems: &mut Problems) {
    if message.codes && message.stock > 0 {
        problems.add(
            at(path, "stock"),
            "a prize with codes has as many units as codes are imported: leave stock out, or codes",
        );
    }
    if message.codes && message.unlimited {
        problems.add(
            at(path, "codes"),
            "a prize with codes is not unlimited: leave codes out, or unlimited",
        );
    }
}

fn read_cap(path: &str, message: &proto::PrizeCap, problems: &mut Problems) -> Option<PrizeCap> {
    let proto::PrizeCap { total, per_day } = *message;
    for (name, most) in [("total", total), ("perDay", per_day)] {
        if most == Some(0) {
            problems.add(
                at(path, name),
                "is 0, so nobody could win the prize: write 1 or more, or plan none of it",
            );
        }
    }
    if total.is_none() && per_day.is_none() {
        problems.add(path, "names no bound: add total, perDay or both");
    }
    Some(PrizeCap { total, per_day })
}

fn read_kind(
    path: &str,
    pool: &proto::Pool,
    prizes: &Prizes<'_>,
    problems: &mut Problems,
) -> Option<PoolKind> {
    let before = problems.0.len();
    let kind = match &pool.kind {
        Some(proto::pool::Kind::Schedule(message)) => {
            let schedule = schedule::read(&at(path, "schedule"), message, prizes, problems);
            Some(PoolKind::Schedule(schedule))
        }
        Some(proto::pool::Kind::Deck(message)) => {
            deck::read(&at(path, "deck"), message, prizes, problems).map(PoolKind::Deck)
        }
        Some(proto::pool::Kind::Personal(message)) => {
            let personal = personal::read(&at(path, "personal"), message, prizes, problems);
            personal.map(PoolKind::Personal)
        }
        None => {
            problems.add(
                path,
                "does not say how it is filled: add a schedule, a deck or a personal pool",
            );
            None
        }
    };
    kind.filter(|_| problems.0.len() == before)
}

fn read_publication(number: i32, problems: &mut Problems) -> bool {
    use proto::PlanPublication::{Hourly, Totals, Unspecified};
    match proto::PlanPublication::try_from(number) {
        Ok(Hourly) => true,
        Ok(Totals | Unspecified) => false,
        Err(_) => {
            let known = "PLAN_PUBLICATION_TOTALS or PLAN_PUBLICATION_HOURLY";
            unknown_enum("publishPlan".into(), number, known, problems);
            false
        }
    }
}

fn check_count(path: &str, count: usize, most: usize, problems: &mut Problems) {
    if count == 0 {
        problems.add(path, format!("is empty: a campaign has 1 to {most}"));
    } else if count > most {
        problems.add(
            path,
            format!(
                "has {count}: a campaign has at most {most}; only the first {most} were checked"
            ),
        );
    }
}

fn check_unique<'a>(path: &str, ids: impl Iterator<Item = &'a String>, problems: &mut Problems) {
    let mut first = BTreeMap::new();
    for (i, id) in ids.enumerate() {
        let earlier = *first.entry(id).or_insert(i);
        if earlier < i && !id.is_empty() {
            problems.add(
                format!("{path}[{i}].id"),
                format!("{id:?} is already the id of {path}[{earlier}]: ids are unique"),
            );
        }
    }
}

fn check_name(path: &str, name: &str, problems: &mut Problems) {
    if name.len() > NAME_BYTES_MAX {
        problems.add(
            path,
            format!(
                "is {} bytes long: a name has at most {NAME_BYTES_MAX}",
                name.len()
            ),
        );
    }
    if let Some(stranger) = name.chars().find(|c| c.is_control()) {
        problems.add(
            path,
            format!("has the control character {stranger:?}: a name is one line of text"),
        );
    }
}

pub(super) fn check_attributes(path: &str, attributes: &Attributes, problems: &mut Problems) {
    if attributes.len() > ATTRIBUTES_MAX {
        let count = attributes.len();
        problems.add(path, format!("has {count}: at most {ATTRIBUTES_MAX}"));
        return;
    }
    for (key, value) in attributes {
        if key.is_empty() || key.len() > ATTRIBUTE_KEY_BYTES_MAX {
            let bytes = key.len();
            problems.add(
                entry(path, key),
                format!("has a key of {bytes} bytes: 1 to {ATTRIBUTE_KEY_BYTES_MAX}"),
            );
        }
        if value.len() > ATTRIBUTE_VALUE_BYTES_MAX {
            let (bytes, most) = (value.len(), grouped(ATTRIBUTE_VALUE_BYTES_MAX as u64));
            problems.add(
                entry(path, key),
                format!("has a value of {bytes} bytes: at most {most}"),
            );
        }
    }
}
