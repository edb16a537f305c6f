//! Draws of personal pools and of the campaign's guarantees, made again: from the campaign's seed,
//! the user's pseudonym, the position and the counters that follow from the user's draws before.
//!
//! A guarantee that is due and can be kept must be kept, and none else: that needs no seed.
//!
//! A draw reaches a pool if that is open to the user, holds a prize that the user may have, and no
//! pool before it gave anything. Without the seed the results are taken as they are, and only the
//! positions and counters are recomputed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::findings::Check;
use crate::{
    chance::{Seed, UserChance, personal::PersonalDraw},
    model::{
        Campaign, PoolKind, PoolNo, PrizeNo,
        budget::Spent,
        caps::PrizeCounts,
        limits::{DrawLimits, UserRecord},
        personal::{Personal, PoolProgress, Progress},
    },
    store::{Cause, DrawResult, entry::DrawEntry},
};

/// What is noted of a draw from a campaign with personal pools or guarantees. A note has plain
/// numbers for prizes: [`PrizeNo`] reads what describes itself.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OwnDraws {
    /// The user's pseudonym.
    user: String,
    /// Pools that are for users in other segments.
    closed: Vec<PoolNo>,
    /// Prizes that were stopped.
    held: Vec<u16>,
    /// Units in stock before the draw, of prizes that draws take off stock and that are not
    /// unlimited.
    stock: Vec<(u16, u64)>,
    /// What was won of the budget before the draw, on its day and in all.
    spent: (u64, u64),
    results: Vec<Given>,
}

/// A result, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Given {
    Won {
        pool: PoolNo,
        prize: u16,
        guarantee: Option<u16>,
    },
    Blank {
        pool: PoolNo,
        number: u64,
    },
    Forfeited {
        pool: PoolNo,
    },
    /// No pool gave anything.
    Nothing,
    /// The draw did not touch the pools.
    Barred,
}

impl From<&DrawResult> for Given {
    fn from(result: &DrawResult) -> Self {
        match *result {
            DrawResult::Won {
                pool,
                prize,
                guarantee,
                ..
            } => Self::Won {
                pool,
                prize: prize.0,
                guarantee,
            },
            DrawResult::NotWon { cause, .. } => match cause {
                Cause::Blank { pool, unit } => Self::Blank {
                    pool,
                    number: unit.number,
                },
                Cause::Forfeited { pool, .. } => Self::Forfeited { pool },
                Cause::Blocked | Cause::ConsolationOnly => Self::Barred,
                Cause::NothingDue
                | Cause::WinsLimit
                | Cause::PrizeCap
                | Cause::Budget
                | Cause::Unknown => Self::Nothing,
            },
        }
    }
}

impl Given {
    fn won(self) -> Option<(PoolNo, PrizeNo)> {
        match self {
            Self::Won { pool, prize, .. } => Some((pool, PrizeNo(prize))),
            _ => None,
        }
    }

    fn pool(self) -> Option<PoolNo> {
        match self {
            Self::Won { pool, .. } | Self::Blank { pool, .. } | Self::Forfeited { pool } => {
                Some(pool)
            }
            Self::Nothing | Self::Barred => None,
        }
    }
}

impl OwnDraws {
    /// What is noted of a draw; none if its campaign takes nothing off stock in draws. `held` are
    /// the prizes that were stopped, `left` says how many units of a prize were in stock before it,
    /// and `spent` is what had been won of the budget.
    pub(super) fn of(
        campaign: &Campaign,
        draw: &DrawEntry,
        held: impl Iterator<Item = PrizeNo>,
        left: impl Fn(PrizeNo) -> u64,
        spent: Spent,
    ) -> Option<Self> {
        let mut limited: Vec<PrizeNo> = campaign
            .prizes_off_stock()
            .filter(|prize| !campaign.prize(*prize).unlimited)
            .collect();
        limited.sort_unstable();
        limited.dedup();
        let is_noted = campaign.has_personal_pools() || !campaign.guarantees.is_empty();
        is_noted.then(|| Self {
            user: draw.user.to_string(),
            closed: campaign.pools_closed_to(&draw.segments).collect(),
            held: held.map(|it| it.0).collect(),
            stock: limited.into_iter().map(|it| (it.0, left(it))).collect(),
            spent: (spent.today, spent.total),
            results: draw.results.iter().map(Given::from).collect(),
        })
    }

    /// Brings the progress of a user's record to what the draw makes of it. The record is the one
    /// before the draw. Says which results are not those that the seed gives.
    pub(super) fn book(
        self,
        record: &mut UserRecord,
        campaign: &Campaign,
        limits: &DrawLimits,
        seed: Option<&Seed>,
    ) -> Vec<(Check, String)> {
        let (drawn, today) = (record.draws, record.draws_today());
        let mut walk = Walk {
            campaign,
            limits,
            chance: seed.map(|seed| UserChance::new(seed.clone(), self.user)),
            closed: self.closed,
            held: self.held.into_iter().map(PrizeNo).collect(),
            stock: self
                .stock
                .into_iter()
                .map(|(no, left)| (PrizeNo(no), left))
                .collect(),
            spent: Spent {
                today: self.spent.0,
                total: self.spent.1,
            },
            wins: record.wins,
            prizes: record.prizes.clone(),
            progress: record.progress.clone(),
            found: Vec::new(),
        };
        for (number, given) in (0..).zip(self.results) {
            walk.draw(given, drawn + number, today + number);
        }
        record.progress = walk.progress;
        let found = walk.found.into_iter();
        found.map(|text| (Check::Chance, text)).collect()
    }
}

/// The draws of an entry, one after another.
struct Walk<'a> {
    campaign: &'a Campaign,
    limits: &'a DrawLimits,
    chance: Option<UserChance>,
    closed: Vec<PoolNo>,
    held: Vec<PrizeNo>,
    stock: BTreeMap<PrizeNo, u64>,
    spent: Spent,
    wins: u64,
    prizes: PrizeCounts,
    progress: Progress,
    found: Vec<String>,
}

impl Walk<'_> {
    /// A draw of a user who has drawn so many times before, and on the day.
    fn draw(&mut self, given: Given, draws: u64, today: u64) {
        if given == Given::Barred {
            return;
        }
        let campaign = self.campaign;
        self.found.extend(self.guarantee_flaw(given));
        for (no, pool) in campaign.numbered_pools() {
            if given.pool() == Some(PoolNo::GUARANTEES) {
                break; // no pool was tried
            }
            let is_open = pool.is_open_after(draws, today, self.wins) && !self.closed.contains(&no);
            let is_last = given.pool() == Some(no);
            if let PoolKind::Personal(personal) = &pool.kind {
                if is_open && self.gives(no, personal) {
                    self.reach(no, personal, given);
                } else if is_last {
                    let pool = &pool.id;
                    let text = format!("its user does not reach pool {pool}, which gave something");
                    self.found.push(text);
                }
            }
            if is_last {
                break;
            }
        }
        if let Some((pool, prize)) = given.won()
            && let Some(definition) = campaign.prizes.get(usize::from(prize.0))
        {
            self.wins += u64::from(definition.counts_as_win);
            if definition.per_user.is_some() {
                self.prizes.add(prize);
            }
            if let Some(budget) = &campaign.budget {
                self.spent.add(budget.value(prize));
            }
            let is_off_stock = pool == PoolNo::GUARANTEES
                || matches!(self.kind(pool), Some(PoolKind::Personal(_)));
            if is_off_stock && let Some(left) = self.stock.get_mut(&prize) {
                *left = left.saturating_sub(1);
            }
        }
        if !campaign.guarantees.is_empty() {
            let before = self.progress.of(PoolNo::GUARANTEES);
            let prize = given.won().map(|(_, prize)| prize);
            let after = before.counting(&campaign.guarantees, prize);
            self.progress.0.insert(PoolNo::GUARANTEES, after);
        }
    }

    /// What is wrong with a result by the campaign's guarantees: the first one that is due and can
    /// be kept gives the first of its prizes that can be given.
    fn guarantee_flaw(&self, given: Given) -> Option<String> {
        let guarantees = &self.campaign.guarantees;
        let counters = self.progress.of(PoolNo::GUARANTEES).counters(guarantees);
        let due = (0..).zip(guarantees).zip(counters);
        let mut due = due.filter(|((_, guarantee), counter)| guarantee.is_due(*counter));
        let expected = due.find_map(|((index, guarantee), _)| {
            let mut prizes = guarantee.prizes.iter().copied();
            let prize = prizes.find(|prize| self.can_be_given(*prize))?;
            Some((guarantee, index, prize))
        });
        let is_guaranteed = given.pool() == Some(PoolNo::GUARANTEES);
        match expected {
            Some((guarantee, index, prize)) => {
                let right = Given::Won {
                    pool: PoolNo::GUARANTEES,
                    prize: prize.0,
                    guarantee: Some(index),
                };
                (given != right).then(|| {
                    let (due, prize) = (&guarantee.id, &self.campaign.prize(prize).id);
                    format!("guarantee {due} is due and gives {prize}, and the entry has {given:?}")
                })
            }
            None => is_guaranteed.then(|| {
                format!("no guarantee is due that can be kept, and the entry has {given:?}")
            }),
        }
    }

    /// A personal pool has something that the user may have.
    fn gives(&self, no: PoolNo, personal: &Personal) -> bool {
        let position = self.progress.of(no).position;
        let is_grand = |prize| self.campaign.prize(prize).grand;
        personal.prizes().any(|prize| self.may_have(prize))
            && !personal.is_used_up(position, is_grand)
    }

    fn kind(&self, pool: PoolNo) -> Option<&PoolKind> {
        let pool = self.campaign.pools.get(usize::from(pool.0))?;
        Some(&pool.kind)
    }

    /// A draw that reaches a personal pool.
    fn reach(&mut self, no: PoolNo, personal: &Personal, given: Given) {
        let before = self.progress.of(no);
        let is_held = |prize: PrizeNo| self.held.contains(&prize) || self.passes_budget(prize);
        let chance = self.chance.as_ref();
        let computed = chance.and_then(|it| it.draw(self.campaign, no, &before, is_held));
        if let Some(text) = self.flaw(no, personal, given, &before, computed) {
            self.found.push(text);
        }
        // Of a prize that could not be given, nothing counts: no guarantee has one.
        let outcome = given.won().filter(|(pool, _)| *pool == no);
        let outcome = outcome.map(|(_, prize)| prize);
        let after = before.counting(&personal.guarantees, outcome);
        self.progress.0.insert(no, after);
    }

    /// What is wrong with a result of a draw that reached a pool.
    fn flaw(
        &self,
        no: PoolNo,
        personal: &Personal,
        given: Given,
        before: &PoolProgress,
        computed: Option<PersonalDraw>,
    ) -> Option<String> {
        let (pool, position) = (&self.campaign.pool(no).id, before.position);
        if let Given::Blank { pool: of, number } = given
            && of == no
            && number != position
        {
            return Some(format!(
                "its draw {number} of pool {pool} follows {position} of the user's draws there"
            ));
        }
        let computed = computed?;
        // In order: what is drawn, and what stands for it.
        let drawn = computed.prize;
        let guarantee = computed.guarantee.and_then(|it| u16::try_from(it).ok());
        let stands = [drawn, personal.fallback].into_iter().flatten();
        let prize = drawn.and_then(|_| stands.into_iter().find(|it| self.can_be_given(*it)));
        let is_right = match given {
            Given::Won {
                pool,
                prize: won,
                guarantee: by,
            } if pool == no => {
                let won = Some(PrizeNo(won));
                prize == won && by == guarantee.filter(|_| drawn == won)
            }
            Given::Blank { pool, .. } if pool == no => drawn.is_none(),
            // Another pool gave something, or none.
            _ => drawn.is_some() && prize.is_none(),
        };
        (!is_right).then(|| {
            let name = |prize: Option<PrizeNo>| {
                prize.map_or("nothing", |prize| self.campaign.prize(prize).id.as_str())
            };
            format!(
                "draw {position} of its user from pool {pool} gives {} by the seed, and the entry \
                 has {given:?}",
                name(prize)
            )
        })
    }

    /// A unit of a prize is in stock, not held, and one that the user may have.
    fn can_be_given(&self, prize: PrizeNo) -> bool {
        let is_left = self.stock.get(&prize).is_none_or(|left| *left > 0);
        is_left && !self.held.contains(&prize) && self.may_have(prize)
    }

    /// The user has neither all wins nor reached the prize's cap, and the budget allows it.
    fn may_have(&self, prize: PrizeNo) -> bool {
        let definition = self.campaign.prize(prize);
        let most = self.limits.wins_per_user;
        let has_all = most.is_some_and(|most| self.wins >= u64::from(most));
        let cap = definition.per_user;
        let is_capped = cap.is_some_and(|cap| cap.is_reached(self.prizes.of(prize)));
        !(has_all && definition.counts_as_win || is_capped || self.passes_budget(prize))
    }

    /// One more unit of a prize would pass the budget.
    fn passes_budget(&self, prize: PrizeNo) -> bool {
        let budget = self.campaign.budget.as_ref();
        budget.is_some_and(|budget| budget.holds(prize, self.spent))
    }
}
