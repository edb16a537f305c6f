//! What entries say of users' records, booked again on records that are recomputed.

use serde::{Deserialize, Serialize};

use super::{books::Books, findings::Check, own::OwnDraws};
use crate::model::{
    Campaign, Moment, PrizeNo,
    limits::{Funding, HourDraws, LimitKind, UserCounts, UserRecord},
    personal::Progress,
};

/// What limits count of a draw, and which limits these are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Results that count as wins.
    pub(super) wins: u32,
    /// The number of the prize of each win of a prize that has a cap, in order.
    pub(super) capped: Vec<u16>,
    /// The index of the user's limits: of everybody or of a segment.
    pub(super) limits: usize,
}

/// What happened to a user's record.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Act {
    Draw {
        version: u32,
        funding: Funding,
        draws: u32,
        counted: Counted,
        stated: Stated,
        own: Option<Box<OwnDraws>>,
    },
    Grant {
        draws: u32,
        expires: Moment,
    },
    Bonus {
        version: u32,
        draws: u32,
        expires: Moment,
        stated: Stated,
    },
}

/// Counts in the order of [`UserCounts`]. That leaves out what is empty,
/// which a note cannot, and a note has numbers for prizes.
pub(super) type Stated = (
    u32,
    u32,
    u64,
    u64,
    u64,
    u64,
    Vec<(u16, u32, u64)>,
    Option<HourDraws>,
    u32,
    u32,
    Progress,
);

/// The counts that an entry states.
pub(super) fn stated(counts: &UserCounts) -> Stated {
    let prizes = counts.prizes.iter();
    (
        counts.free_today,
        counts.paid_today,
        counts.draws,
        counts.bonus_used,
        counts.wins,
        counts.bonus_left,
        prizes
            .map(|(prize, today, total)| (prize.0, today, total))
            .collect(),
        counts.hour,
        counts.granted_today,
        counts.bonus_today,
        counts.progress.clone(),
    )
}

impl Act {
    /// Books it on its user's record. The texts say which limit a draw exceeds, or how its counts
    /// differ from those that follow from the entries before it, or which results are not those of
    /// the seed.
    pub(super) fn book(
        self,
        record: &mut UserRecord,
        books: &Books,
        at: Moment,
    ) -> Vec<(Check, String)> {
        let mut found = Vec::new();
        let (version, funding, draws, counted, entry, own) = match self {
            Self::Grant { draws, expires } => {
                record.grant(draws, expires);
                return Vec::new();
            }
            Self::Bonus {
                version,
                draws,
                expires,
                stated,
            } => {
                record.grant(draws, expires);
                if let Some(campaign) = books.version(version) {
                    book_bonus(record, &campaign, draws, &mut found);
                    compare(record, stated, &mut found);
                }
                return of_limits(found).collect();
            }
            Self::Draw {
                version,
                funding,
                draws,
                counted,
                stated,
                own,
            } => (version, funding, draws, counted, stated, own),
        };
        let wins = counted.wins;
        let Some(campaign) = books.version(version) else {
            return Vec::new(); // no draw of such a version is noted
        };
        let limits = campaign.limits_at(counted.limits);
        let hour = campaign.limited_hour(limits, at);
        let of_chance = own.map(|own| own.book(record, &campaign, limits, books.seed()));
        match record.admit(limits, funding, draws, hour) {
            Ok(charge) => {
                record.charge(charge, hour);
                if campaign.counts_bonus_of_day() {
                    record.count_bonus_of_day(charge);
                }
            }
            Err(reached) => found.push(format!(
                "{draws} draws of a user were made, and {} leaves {}",
                limit_name(reached.limit),
                reached.left
            )),
        }
        record.wins += u64::from(wins);
        if let Some(most) = limits.wins_per_user
            && wins > 0
            && record.wins > u64::from(most)
        {
            found.push(format!(
                "its user has {} wins, and the limit is {most}",
                record.wins
            ));
        }
        book_capped(record, &campaign, &counted.capped, &mut found);
        compare(record, entry, &mut found);
        let of_chance = of_chance.unwrap_or_default();
        of_limits(found).chain(of_chance).collect()
    }
}

fn of_limits(found: Vec<String>) -> impl Iterator<Item = (Check, String)> {
    found.into_iter().map(|text| (Check::Limits, text))
}

/// Counts bonus draws that a caller granted, and says if they are more than a day allows.
fn book_bonus(record: &mut UserRecord, campaign: &Campaign, draws: u32, found: &mut Vec<String>) {
    if let Err(reached) = record.admit_bonus(&campaign.limits, draws) {
        found.push(format!(
            "{draws} bonus draws were granted to a user, and {} leaves {}",
            limit_name(reached.limit),
            reached.left
        ));
    }
    record.count_bonus(&campaign.limits, draws);
}

/// Compares the record with the counts of an entry, unless something is wrong with it already.
fn compare(record: &mut UserRecord, entry: Stated, found: &mut Vec<String>) {
    let computed = stated(&record.counts());
    if computed != entry {
        if found.is_empty() {
            found.push(differ(&entry, &computed));
        }
        adopt(record, entry);
    }
}

/// Counts wins of prizes that have caps, and says which were more than a user may have.
fn book_capped(
    record: &mut UserRecord,
    campaign: &Campaign,
    capped: &[u16],
    found: &mut Vec<String>,
) {
    for no in capped.iter().map(|no| PrizeNo(*no)) {
        let prize = campaign.prize(no);
        let had = record.prizes.of(no);
        if let Some(cap) = prize.per_user.filter(|cap| cap.is_reached(had)) {
            let most = |most: Option<u32>| most.map_or_else(|| "none".into(), |it| it.to_string());
            found.push(format!(
                "its user had won {} of {} that day and {} in all, and perUser is {} a day and {} \
                 in all",
                had.today,
                prize.id,
                had.total,
                most(cap.per_day),
                most(cap.total)
            ));
        }
        record.prizes.add(no);
    }
}

/// The name of a limit in a campaign's file.
fn limit_name(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::DrawsPerHour => "drawsPerHour",
        LimitKind::DrawsPerDay => "drawsPerDay",
        LimitKind::PaidDrawsPerDay => "paidDrawsPerDay",
        LimitKind::DrawsPerUser => "drawsPerUser",
        LimitKind::GrantedPerDay => "grantedPerDay",
    }
}

/// Goes on with the counts of an entry, so that one difference is found once.
fn adopt(record: &mut UserRecord, entry: Stated) {
    let (free, paid, draws, bonus_used, wins, _, prizes, hour, granted, bonus_today, progress) =
        entry;
    record.free_today = free;
    record.paid_today = paid;
    record.draws = draws;
    record.bonus_used = bonus_used;
    record.wins = wins;
    record.hour = hour;
    (record.granted_today, record.bonus_today) = (granted, bonus_today);
    record.progress = progress;
    let prizes = prizes.into_iter();
    record.prizes = prizes
        .map(|(no, today, total)| (PrizeNo(no), today, total))
        .collect();
}

fn differ(entry: &Stated, computed: &Stated) -> String {
    let counts = |stated: &Stated| {
        let (free, paid, draws, bonus_used, wins, left, prizes, hour, granted, of_bonus, own) =
            stated;
        let positions = own.0.values().map(|pool| pool.position).sum();
        let of_day = prizes.iter().map(|(_, today, _)| u64::from(*today)).sum();
        let in_all = prizes.iter().map(|(_, _, total)| total).sum();
        [
            ("free draws of the day", u64::from(*free)),
            ("paid draws of the day", u64::from(*paid)),
            ("draws", *draws),
            ("bonus draws used", *bonus_used),
            ("wins", *wins),
            ("bonus draws left", *left),
            ("wins of the day of prizes with caps", of_day),
            ("wins of prizes with caps", in_all),
            (
                "free draws of the hour",
                hour.map_or(0, |hour| hour.draws.into()),
            ),
            ("bonus draws granted on the day", u64::from(*granted)),
            ("bonus draws of the day", u64::from(*of_bonus)),
            ("draws of personal pools", positions),
        ]
    };
    let pairs = counts(entry).into_iter().zip(counts(computed));
    let pairs = pairs.map(|((name, entry), (_, computed))| (name, entry, computed));
    let mut differences: Vec<String> = pairs
        .filter(|(_, entry, computed)| entry != computed)
        .map(|(name, entry, computed)| {
            format!("{name} {entry}, from the entries before it {computed}")
        })
        .collect();
    if differences.is_empty() {
        differences.push("prizes with caps, the hour of its free draws, or guarantees".into());
    }
    format!(
        "the counts of its user do not follow: {}",
        differences.join("; ")
    )
}
