//! The books of a campaign, kept from its entries alone: where every unit is (P2), which units left
//! their pools (P1), and what its users drew (P5).

mod budget;
mod moves;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::Serialize;

use self::moves::{Leaves, note};
use super::{
    acts::Counted,
    approvals,
    codes::Codes,
    findings::{Check, Findings},
    own::OwnDraws,
    units::{Place, Units},
    users::{CampaignNo, Users, When},
};
use crate::{
    chance::{Seed, unhex},
    model::{Campaign, CampaignId, Moment, PoolNo, PrizeNo, budget::SpentDay, convert, zone::Day},
    store::{
        Cause, DrawResult, Entry, LedgerId, Unit, WonUnit,
        entry::{Applied, Body, DrawEntry, TakenBackCause},
        operation::Operation,
        view::DrawCounts,
    },
};

/// Where the units of a prize are, by the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrizeSums {
    /// Given to the campaign.
    pub stock: u64,
    /// In stock.
    pub left: u64,
    /// In pools.
    pub waiting: u64,
    /// Won and not revoked.
    pub won: u64,
    /// Left the campaign.
    pub withdrawn: u64,
}

/// What went into a pool and what left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSums {
    /// Injected or dealt, in all.
    pub put: u64,
    /// Won.
    pub won: u64,
    /// Back in stock or withdrawn.
    pub taken_back: u64,
    /// In the pool.
    pub waiting: u64,
}

/// The books of one campaign.
#[derive(Debug)]
pub struct Books {
    id: CampaignId,
    no: CampaignNo,
    /// The partition and the number of the last entry.
    last: LedgerId,
    prizes: BTreeMap<PrizeNo, PrizeSums>,
    pools: BTreeMap<(PoolNo, PrizeNo), PoolSums>,
    draws: DrawCounts,
    units: Units,
    codes: Codes,
    revoked: BTreeSet<(PoolNo, Unit)>,
    users: u64,
    versions: HashMap<u32, Option<Arc<Campaign>>>,
    newest: Option<Arc<Campaign>>,
    /// The day that was computed last, and its first and last moment.
    today: Option<(Day, Moment, Moment)>,
    /// What was won under a budget.
    spent_day: SpentDay,
    unknown_limits: u64,
    /// What its chance follows from, if that is known.
    seed: Option<Seed>,
    /// Prizes that are stopped.
    held: BTreeSet<PrizeNo>,
    /// Draws while there were personal pools that were not made again, as the seed is not known.
    unknown_chance: u64,
}

impl Books {
    /// No entry yet.
    pub(super) fn new(id: CampaignId, no: CampaignNo, last: LedgerId, seed: Option<Seed>) -> Self {
        Self {
            id,
            no,
            last,
            prizes: BTreeMap::new(),
            pools: BTreeMap::new(),
            draws: DrawCounts::default(),
            units: Units::default(),
            codes: Codes::default(),
            revoked: BTreeSet::new(),
            users: 0,
            versions: HashMap::new(),
            newest: None,
            today: None,
            spent_day: SpentDay::default(),
            unknown_limits: 0,
            seed,
            held: BTreeSet::new(),
            unknown_chance: 0,
        }
    }

    /// The campaign.
    pub(super) fn id(&self) -> &CampaignId {
        &self.id
    }

    /// The campaign's number in this audit.
    pub(super) fn no(&self) -> CampaignNo {
        self.no
    }

    /// What its chance follows from, if that is known.
    pub(super) fn seed(&self) -> Option<&Seed> {
        self.seed.as_ref()
    }

    /// Draws of a campaign with personal pools whose results were not compared with the seed, as it
    /// is not known: it is revealed after the end.
    pub fn unknown_chance(&self) -> u64 {
        self.unknown_chance
    }

    /// The newest definition, if an entry has it.
    pub fn campaign(&self) -> Option<&Campaign> {
        self.newest.as_deref()
    }

    /// The definition of a version, if an entry has it.
    pub(super) fn version(&self, version: u32) -> Option<Arc<Campaign>> {
        self.versions.get(&version).cloned().flatten()
    }

    /// The last entry that was booked.
    pub fn last(&self) -> LedgerId {
        self.last
    }

    /// By prize.
    pub fn prizes(&self) -> &BTreeMap<PrizeNo, PrizeSums> {
        &self.prizes
    }

    /// By pool and prize.
    pub fn pools(&self) -> &BTreeMap<(PoolNo, PrizeNo), PoolSums> {
        &self.pools
    }

    /// Draws by how they came out.
    pub fn draws(&self) -> DrawCounts {
        self.draws
    }

    /// Users who have drawn or were granted draws; known at the end of the audit.
    pub fn users(&self) -> u64 {
        self.users
    }

    /// Sets the number of users.
    pub(super) fn set_users(&mut self, users: u64) {
        self.users = users;
    }

    /// Draws whose limits could not be checked: no entry has the definition of their version, or it
    /// is not known which earlier draws their user made.
    pub fn unknown_limits(&self) -> u64 {
        self.unknown_limits
    }

    /// Books the next entry; what it says of users is noted in `users`.
    pub(super) fn take(&mut self, entry: &Entry, users: &mut Users, findings: &mut Findings) {
        self.last = entry.id;
        let lacking = approvals::lacking(&entry.body, self.newest.as_deref());
        let mut faults: Faults = lacking.into_iter().collect();
        match &entry.body {
            Body::Applied(applied) => self.apply(applied, &mut faults),
            Body::Injected(injected) => {
                let place = Place {
                    pool: injected.pool,
                    window: injected.window.as_seconds(),
                };
                let units = injected.granted.values().sum();
                self.units.put(place, units, injected.fork);
                self.put(injected.pool, &injected.granted, &mut faults);
            }
            Body::Dealt {
                pool,
                round,
                granted,
                blanks,
                fork,
                ..
            } => {
                let place = Place {
                    pool: *pool,
                    window: round.cast_signed(),
                };
                let cards = granted.values().sum::<u64>() + blanks;
                self.units.put(place, cards, *fork);
                self.units.close_rounds(place);
                self.put(*pool, granted, &mut faults);
            }
            Body::TakenBack {
                pool,
                units,
                withdrawn,
                spans,
                cause,
            } => {
                self.take_back(*pool, units, *withdrawn, spans, &mut faults);
                if *cause == TakenBackCause::Recovered {
                    self.pass_over_codes(units);
                }
            }
            Body::Draw(draw) => {
                // It tells of stock before the draw.
                let own = self.own(draw, entry.at);
                self.draw(draw, entry, &mut faults);
                self.count(draw, own, entry, users);
            }
            Body::Revoked { win, withdrawn, .. } => self.revoke(win, *withdrawn, &mut faults),
            Body::Operated {
                operation:
                    Operation::ImportCodes {
                        prize,
                        first,
                        codes,
                        ..
                    },
                ..
            } => {
                let sums = self.prizes.entry(*prize).or_default();
                sums.stock += codes;
                sums.left += codes;
                note(self.codes.import(*prize, *first, *codes), &mut faults);
            }
            Body::Operated {
                operation: Operation::PausePrize { prize },
                ..
            } => drop(self.held.insert(*prize)),
            Body::Operated {
                operation: Operation::ResumePrize { prize },
                ..
            } => drop(self.held.remove(prize)),
            Body::Operated {
                operation: Operation::Grant { .. },
                ..
            }
            | Body::Bonus(_) => users.grants(self.no, self.when(entry), &entry.body),
            _ => {}
        }
        for (check, text) in faults {
            findings.add(
                check,
                Some(entry.id),
                format!("campaign {}: {text}", self.id),
            );
        }
    }

    fn apply(&mut self, applied: &Applied, faults: &mut Faults) {
        if applied.stock_anew {
            self.prizes.clear();
        }
        for (prize, units) in &applied.stock_added {
            let sums = self.prizes.entry(*prize).or_default();
            sums.stock += units;
            sums.left += units;
        }
        let campaign = match definition(&applied.definition) {
            Ok(campaign) => campaign.map(Arc::new),
            Err(text) => {
                faults.push((
                    Check::Order,
                    format!("the definition of version {} {text}", applied.version),
                ));
                None
            }
        };
        if applied.stock_anew {
            self.renumber_held(campaign.as_deref());
        }
        self.check_seed(applied, faults);
        if campaign.is_some() {
            self.newest.clone_from(&campaign);
            self.today = None;
        }
        self.versions.insert(applied.version, campaign);
    }

    /// A version before the first draw may have its prizes in another order. A stopped one stays
    /// so.
    fn renumber_held(&mut self, after: Option<&Campaign>) {
        let Some((before, after)) = self.newest.as_ref().zip(after) else {
            return;
        };
        let ids = self
            .held
            .iter()
            .filter_map(|no| before.prizes.get(usize::from(no.0)));
        self.held = ids
            .filter_map(|it| after.prize_no(it.id.as_str()))
            .collect();
    }

    /// A seed counts only if it is the one to which the campaign was bound.
    fn check_seed(&mut self, applied: &Applied, faults: &mut Faults) {
        let bound = &applied.commitment;
        if let Some(seed) = &self.seed
            && !bound.is_empty()
            && seed.commitment() != *bound
        {
            let text = "the seed that was revealed does not fit the commitment";
            faults.push((Check::Chance, text.into()));
            self.seed = None;
        }
    }

    fn draw(&mut self, draw: &DrawEntry, entry: &Entry, faults: &mut Faults) {
        let campaign = self.version(draw.version);
        for result in &draw.results {
            self.draws.add(*result);
            match *result {
                DrawResult::Won {
                    prize,
                    pool,
                    unit,
                    release,
                    code,
                    guarantee: _, // it is checked with the user's other draws
                } => {
                    if let Some(campaign) = &campaign {
                        self.spend(campaign, prize, entry.at, faults);
                    }
                    if self.is_off_stock(pool) {
                        self.take_own((pool, prize), unit, faults);
                        continue;
                    }
                    self.take_unit(pool, unit, "won", faults);
                    self.leave((pool, prize), 1, Leaves::Won, faults);
                    self.give_code(prize, code, faults);
                    if let Some(release) = release.filter(|release| *release > entry.at) {
                        faults.push((
                            Check::Release,
                            format!("a unit of {release} was won at {}", entry.at),
                        ));
                    }
                }
                DrawResult::NotWon {
                    cause: Cause::Forfeited { prize, pool, unit },
                    ..
                } => {
                    self.take_unit(pool, unit, "forfeited", faults);
                    self.leave((pool, prize), 1, Leaves::ToStock, faults);
                }
                DrawResult::NotWon {
                    cause: Cause::Blank { pool, unit },
                    ..
                } => {
                    // Of a personal pool it is no card, but the number of a user's draw.
                    if !self.is_off_stock(pool) {
                        self.take_unit(pool, unit, "drawn as a blank", faults);
                    }
                }
                DrawResult::NotWon { .. } => {}
            }
        }
    }

    fn revoke(&mut self, win: &WonUnit, withdrawn: bool, faults: &mut Faults) {
        if !self.revoked.insert((win.pool, win.unit)) {
            let text = format!(
                "unit {} of pool {} is revoked twice",
                win.unit.number, win.pool.0
            );
            faults.push((Check::Units, text));
        }
        let sums = self.prizes.entry(win.prize).or_default();
        match sums.won.checked_sub(1) {
            Some(won) => sums.won = won,
            None => faults.push((
                Check::Sums,
                format!(
                    "a unit of prize {} is revoked, and none is won",
                    win.prize.0
                ),
            )),
        }
        if withdrawn {
            sums.withdrawn += 1;
        } else {
            sums.left += 1;
        }
    }

    /// What is to be noted of a draw that may be of personal pools or guarantees.
    fn own(&mut self, draw: &DrawEntry, at: Moment) -> Option<OwnDraws> {
        let campaign = self.version(draw.version)?;
        let spent = self.spent(&campaign, at);
        let left = |prize| self.prizes.get(&prize).map_or(0, |sums| sums.left);
        let own = OwnDraws::of(&campaign, draw, self.held.iter().copied(), left, spent)?;
        if self.seed.is_none() && campaign.has_personal_pools() {
            self.unknown_chance += 1;
        }
        Some(own)
    }

    /// Notes a draw, if the limits of its version are known.
    fn count(&mut self, draw: &DrawEntry, own: Option<OwnDraws>, entry: &Entry, users: &mut Users) {
        let Some(campaign) = self.version(draw.version) else {
            self.unknown_limits += 1;
            return;
        };
        let won = draw.results.iter().filter_map(|result| match result {
            DrawResult::Won { prize, .. } => {
                Some((*prize, campaign.prizes.get(usize::from(prize.0))?))
            }
            DrawResult::NotWon { .. } => None,
        });
        let counted = Counted {
            wins: won.clone().filter(|(_, prize)| prize.counts_as_win).count() as u32,
            capped: won
                .filter(|(_, prize)| prize.per_user.is_some())
                .map(|(no, _)| no.0)
                .collect(),
            limits: campaign.limits_index(&draw.segments),
        };
        if !users.draw(self.no, self.when(entry), draw, (counted, own)) {
            self.unknown_limits += 1;
        }
    }

    fn when(&mut self, entry: &Entry) -> When {
        When {
            entry: entry.id,
            at: entry.at,
            today: self.today(entry.at),
        }
    }

    /// The local day of a moment in the campaign's zone.
    fn today(&mut self, at: Moment) -> Day {
        if let Some((day, first, end)) = self.today
            && (first..end).contains(&at)
        {
            return day;
        }
        let Some(campaign) = &self.newest else {
            return Day(0);
        };
        let day = campaign.zone.day(at);
        self.today = Some((day, at, campaign.zone.next_day_start(at)));
        day
    }

    /// The id of a pool; `/guarantees` for what guarantees of the campaign give.
    pub fn pool_name(&self, pool: PoolNo) -> String {
        let campaign = self.newest.as_ref();
        match campaign.and_then(|campaign| campaign.pool_name(pool)) {
            Some("") => "/guarantees".into(),
            Some(name) => name.into(),
            None => pool.0.to_string(),
        }
    }
}

type Faults = Vec<(Check, String)>;

/// The definition of an entry; none if an earlier version wrote the entry.
fn definition(text: &str) -> Result<Option<Campaign>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let bytes = unhex(text).ok_or("is not hexadecimal")?;
    let campaign = convert::decode(&bytes);
    campaign
        .map(Some)
        .map_err(|problems| format!("cannot be read: {problems}"))
}
