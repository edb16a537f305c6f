//! A campaign as a rule sees it: read by a store in one moment, changed by the rule, written back
//! whole or not at all.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    chance::Nonce,
    model::{
        Campaign, Moment, PoolKind, PoolNo, Prize, PrizeNo, Quantities, RequestId, UserId,
        deck::CardCount, limits::UserRecord, number::is_zero,
    },
    store::{
        CampaignView, Delivery, HoldNote, Result, SealedBlock, StoreError, Unit,
        entry::Body,
        fill::{DeckStop, TotalsBase},
    },
};

use super::book::add;

/// A campaign and what is known of its pools. Draws change only what waits, what is won, and
/// `view.touched`; everything here is changed by rules alone.
#[derive(Clone, Debug)]
pub(in crate::store) struct State {
    /// The store's clock.
    pub(in crate::store) now: Moment,
    /// Mark of the store's current fork; 0 before the first one.
    pub(in crate::store) fork: u32,
    /// The campaign.
    pub(in crate::store) view: CampaignView,
    /// By prize.
    pub(in crate::store) stock: Vec<Stock>,
    /// By pool.
    pub(in crate::store) pools: Vec<PoolState>,
    /// What a rule has done besides.
    pub(in crate::store) changes: Changes,
}

/// The stock of one prize: `given = remaining + waiting + won - revoked + withdrawn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Stock {
    pub(in crate::store) given: u64,
    pub(in crate::store) remaining: u64,
    pub(in crate::store) withdrawn: u64,
    pub(in crate::store) returned: u64,
    /// Of the returned units, those of forfeited cards.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::store) forfeited: u64,
    /// Units that were won and then revoked: they remain again, or are withdrawn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::store) revoked: u64,
    /// Codes that no win gets: draws in entries that were lost may have given them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::store) skipped: u64,
}

/// How far a pool is filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum PoolState {
    Schedule(ScheduleState),
    Deck(DeckState),
    /// Nothing is put into it: draws take units off stock.
    Personal,
}

impl PoolState {
    /// Units of a prize that are granted to windows and not yet in the pool.
    pub(in crate::store) fn unplaced(&self, prize: PrizeNo) -> u64 {
        let Self::Schedule(schedule) = self else {
            return 0;
        };
        let windows = schedule.windows.values();
        let prizes = windows.filter_map(|window| window.prizes.get(&prize));
        prizes.map(|counted| counted.granted - counted.placed).sum()
    }
}

/// How far a schedule is filled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct ScheduleState {
    /// Windows before this moment are frozen, later ones are not.
    pub(in crate::store) horizon: Moment,
    /// The end of what was released late, of windows that were missed. Of later windows nothing is
    /// released before it.
    #[serde(default = "epoch", skip_serializing_if = "is_epoch")]
    pub(in crate::store) released: Moment,
    /// No unit that waits was released before this moment; none if none waits. Not known of
    /// older data.
    #[serde(default = "not_known")]
    pub(in crate::store) oldest: Option<Moment>,
    pub(in crate::store) totals: TotalsBase,
    pub(in crate::store) carry: Carry,
    /// Prizes that any window was planned with.
    pub(in crate::store) planned: BTreeSet<PrizeNo>,
    /// Off stock for all windows: granted, less what was recalled.
    pub(in crate::store) injected: Quantities,
    /// Of these, back in stock since nobody took them.
    pub(in crate::store) returned: Quantities,
    /// Windows by start: those that have not ended, those with an open fill or a recall to come,
    /// and those that a rule asks for or adds.
    #[serde(skip)]
    pub(in crate::store) windows: BTreeMap<Moment, Window>,
}

/// Units of missed windows that the next windows take over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct Carry {
    /// Over how many windows they are spread.
    pub(in crate::store) windows: u64,
    pub(in crate::store) units: Quantities,
}

/// How far a deck is dealt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct DeckState {
    pub(in crate::store) round: u64,
    pub(in crate::store) chunk: u64,
    /// Cards dealt in all rounds: the last card's score.
    pub(in crate::store) dealt: i64,
    #[serde(with = "cards")]
    pub(in crate::store) remaining: Vec<CardCount>,
    /// What the next chunk needs of stock and did not get.
    pub(in crate::store) short: Option<Quantities>,
}

/// A frozen window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct Window {
    pub(in crate::store) end: Moment,
    /// The version whose plan it follows.
    pub(in crate::store) version: u32,
    pub(in crate::store) mark: WindowMark,
    pub(in crate::store) prizes: BTreeMap<PrizeNo, WindowPrize>,
    /// By generation.
    pub(in crate::store) fills: Vec<Fill>,
    /// A rule has changed it.
    #[serde(skip)]
    pub(in crate::store) is_changed: bool,
}

/// What became of a frozen window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum WindowMark {
    Frozen,
    /// It passed unfilled.
    Missed,
    Recalled,
}

/// One prize in one window; what was won of it is counted by the draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct WindowPrize {
    pub(in crate::store) planned: u64,
    /// Taken over from missed windows.
    pub(in crate::store) carried: u64,
    /// Taken off stock.
    pub(in crate::store) granted: u64,
    /// Of these, put into the pool, or given back before that.
    pub(in crate::store) placed: u64,
    pub(in crate::store) recalled: u64,
    pub(in crate::store) returned: u64,
    /// Units that must still be taken back.
    pub(in crate::store) recall_due: RecallDue,
    /// ... and whether they leave the campaign.
    pub(in crate::store) withdraw: bool,
    /// The version that was in force when the prize was last recalled. Plans up to it do not fill
    /// the window again. 0 if it was never recalled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::store) fenced: u32,
}

/// Units of a window that must still be taken back, the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum RecallDue {
    #[default]
    None,
    Units(u64),
    All,
}

/// Units granted to a window at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::store) struct Fill {
    pub(in crate::store) generation: u32,
    /// Units are scattered from here...
    pub(in crate::store) from: Moment,
    /// ...to here.
    pub(in crate::store) finish: Moment,
    /// Number of the first unit.
    pub(in crate::store) base: u64,
    pub(in crate::store) granted: Quantities,
    /// Units in the pool.
    pub(in crate::store) filled: u64,
    /// Every unit released before this moment is in the pool.
    pub(in crate::store) until: Moment,
    pub(in crate::store) closed: bool,
    /// Mark of the fork under which they were granted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::store) fork: u32,
}

/// A unit in its pool's sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Placed {
    pub(in crate::store) pool: PoolNo,
    /// None for a blank.
    pub(in crate::store) prize: Option<PrizeNo>,
    /// The moment of release in microseconds, or a card's position.
    pub(in crate::store) score: i64,
    pub(in crate::store) unit: Unit,
}

/// What a rule has done besides changing the state.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Changes {
    /// Entries of the ledger, in order.
    pub(in crate::store) entries: Vec<Body>,
    /// Units that came to a pool, in units already or not, or left it otherwise than by a draw.
    pub(in crate::store) waiting: BTreeMap<(PoolNo, Option<PrizeNo>), i64>,
    pub(in crate::store) units_in: Vec<Placed>,
    /// Units that must all still be in their pools when the changes are written.
    pub(in crate::store) units_out: Vec<Placed>,
    /// Records that must be unchanged since they were read, and what they become.
    pub(in crate::store) users: Vec<UserChange>,
    /// Users who become blocked, each with the note of it.
    pub(in crate::store) blocked: Vec<(UserId, HoldNote)>,
    pub(in crate::store) unblocked: Vec<UserId>,
    /// What became of a win.
    pub(in crate::store) delivery: Option<(PoolNo, Unit, Delivery)>,
    /// New blocks of a prize's codes, of which the first one may take the place of a shorter one.
    pub(in crate::store) codes: Option<(PrizeNo, Vec<SealedBlock>)>,
    /// What was laid out before is void: stock, pools, windows, and what is counted of them.
    pub(in crate::store) is_anew: bool,
    /// `view.campaign` is the definition of a version that is new with this step.
    pub(in crate::store) is_new_version: bool,
    /// The request that the last entry answers.
    pub(in crate::store) request: Option<RequestId>,
}

/// What becomes of a user's record.
#[derive(Clone, Debug)]
pub(in crate::store) struct UserChange {
    pub(in crate::store) user: UserId,
    /// None for a user never seen.
    pub(in crate::store) before: Option<UserRecord>,
    pub(in crate::store) after: UserRecord,
}

/// A range of a queue that a sweep may take units from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Range {
    pub(in crate::store) pool: PoolNo,
    pub(in crate::store) prize: Option<PrizeNo>,
    /// Lowest score.
    pub(in crate::store) from: i64,
    /// Highest score.
    pub(in crate::store) to: i64,
    /// From the highest down.
    pub(in crate::store) descending: bool,
    pub(in crate::store) limit: usize,
}

impl State {
    /// A campaign of which nothing exists yet.
    pub(in crate::store) fn new(
        campaign: std::sync::Arc<Campaign>,
        nonce: Nonce,
        commitment: &str,
        now: Moment,
    ) -> Self {
        Self {
            now,
            fork: 0,
            view: CampaignView {
                campaign,
                version: 0,
                lifecycle: crate::store::Lifecycle::Open,
                touched: false,
                paused_prizes: [].into(),
                holds: [].into(),
                versions: [].into(),
                nonce,
                commitment: commitment.into(),
                blocked_users: 0,
            },
            stock: Vec::new(),
            pools: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// The schedule of this number, or what is wrong.
    pub(in crate::store) fn schedule(&mut self, no: PoolNo) -> Result<&mut ScheduleState> {
        match self.pools.get_mut(usize::from(no.0)) {
            Some(PoolState::Schedule(schedule)) => Ok(schedule),
            _ => Err(StoreError::corrupt(format!("pool {} is no schedule", no.0))),
        }
    }

    /// The deck of this number, or what is wrong.
    pub(in crate::store) fn deck(&mut self, no: PoolNo) -> Result<&mut DeckState> {
        match self.pools.get_mut(usize::from(no.0)) {
            Some(PoolState::Deck(deck)) => Ok(deck),
            _ => Err(StoreError::corrupt(format!("pool {} is no deck", no.0))),
        }
    }

    /// A prize is held.
    pub(in crate::store) fn is_paused(&self, prize: PrizeNo) -> bool {
        self.view.paused_prizes.contains(&prize)
    }

    /// Why a deck gives no more cards than wait in it; none if it does, or is no deck.
    pub(in crate::store) fn deck_stop(&self, no: PoolNo) -> Option<DeckStop> {
        self.deck_stop_at(no, |prize| self.in_stock(prize))
    }

    fn deck_stop_at(&self, no: PoolNo, in_stock: impl Fn(PrizeNo) -> u64) -> Option<DeckStop> {
        let PoolState::Deck(deck) = self.pools.get(usize::from(no.0))? else {
            return None;
        };
        let campaign = &self.view.campaign;
        let PoolKind::Deck(definition) = &campaign.pool(no).kind else {
            return None;
        };
        let later_round = definition.later_round(|prize| campaign.prize(prize).grand);
        deck.stop(&later_round, in_stock, |prize| self.is_paused(prize))
    }

    /// Units that stock lacks for the next chunk of a deck that nothing else stops.
    pub(in crate::store) fn missing_units(&self, no: PoolNo) -> Quantities {
        match self.pools.get(usize::from(no.0)) {
            Some(PoolState::Deck(deck)) if self.deck_stop_at(no, |_| u64::MAX).is_none() => {
                self.deck_lacking(deck)
            }
            _ => Quantities::new(),
        }
    }

    /// Units that stock lacks for the next chunk of a deck, if it could not be dealt.
    pub(in crate::store) fn deck_lacking(&self, deck: &DeckState) -> Quantities {
        deck.lacks(|prize| self.in_stock(prize)).collect()
    }

    /// Units of a prize that can be taken off stock.
    pub(in crate::store) fn in_stock(&self, prize: PrizeNo) -> u64 {
        self.stock[usize::from(prize.0)].available(self.view.campaign.prize(prize))
    }
}

impl Stock {
    /// Stock of which nothing has been used.
    pub(super) fn of(units: u64) -> Self {
        Self {
            given: units,
            remaining: units,
            ..Self::default()
        }
    }

    /// Units that can be taken, of this prize.
    pub(in crate::store) fn available(&self, prize: &Prize) -> u64 {
        if prize.unlimited {
            u64::MAX
        } else {
            self.remaining
        }
    }

    /// Takes units off; those of an unlimited prize that stock does not have are given for it.
    pub(super) fn take(&mut self, units: u64) -> Result<()> {
        let more = units.saturating_sub(self.remaining);
        let given = self.given.checked_add(more);
        self.given =
            given.ok_or_else(|| StoreError::corrupt("stock is counted beyond its bound"))?;
        self.remaining = self.remaining + more - units;
        Ok(())
    }

    /// Takes units off that users win of personal pools. Those of an unlimited prize are given for
    /// it, whatever is in stock, so that the order of such steps does not matter.
    pub(in crate::store) fn take_own(&mut self, units: u64, is_unlimited: bool) -> Result<()> {
        let counted = if is_unlimited {
            self.given
                .checked_add(units)
                .map(|given| self.given = given)
        } else {
            self.remaining
                .checked_sub(units)
                .map(|left| self.remaining = left)
        };
        counted.ok_or_else(|| {
            StoreError::corrupt(format!("{units} units are taken off stock: {self:?}"))
        })
    }

    /// Puts the units of forfeited cards back.
    pub(in crate::store) fn put_back_forfeited(&mut self, units: u64) -> Result<()> {
        for count in [&mut self.remaining, &mut self.returned, &mut self.forfeited] {
            let sum = count.checked_add(units);
            *count = sum.ok_or_else(|| StoreError::corrupt("stock is counted beyond its bound"))?;
        }
        Ok(())
    }
}

impl ScheduleState {
    /// A schedule of which nothing is frozen.
    pub(super) fn new(horizon: Moment, totals: TotalsBase) -> Self {
        Self {
            horizon,
            released: Moment::EPOCH,
            oldest: None,
            totals,
            carry: Carry::default(),
            planned: BTreeSet::new(),
            injected: Quantities::new(),
            returned: Quantities::new(),
            windows: BTreeMap::new(),
        }
    }

    /// Every unit released before this moment is in the pool.
    pub(in crate::store) fn filled_until(&self) -> Moment {
        let fills = self.windows.values().flat_map(|window| &window.fills);
        let open = fills.filter(|fill| !fill.closed).map(|fill| fill.until);
        open.fold(self.horizon.max(self.released), Moment::min)
    }
}

fn epoch() -> Moment {
    Moment::EPOCH
}

fn is_epoch(moment: &Moment) -> bool {
    *moment == Moment::EPOCH
}

fn not_known() -> Option<Moment> {
    Some(Moment::EPOCH)
}

impl Window {
    /// What is planned for it.
    pub(super) fn planned(&self) -> Quantities {
        let mut planned = Quantities::new();
        for (prize, units) in &self.prizes {
            add(&mut planned, *prize, units.planned);
        }
        planned
    }

    /// It has an open fill, or units that must be taken back.
    pub(in crate::store) fn is_open(&self) -> bool {
        self.is_filling() || self.is_recalling()
    }

    /// It has an open fill.
    pub(in crate::store) fn is_filling(&self) -> bool {
        self.fills.iter().any(|fill| !fill.closed)
    }

    /// It has units that must be taken back.
    pub(in crate::store) fn is_recalling(&self) -> bool {
        let mut prizes = self.prizes.values();
        prizes.any(|prize| prize.recall_due != RecallDue::None)
    }
}

/// Card counts as a list of `[prize or null, cards]`.
mod cards {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::model::{PrizeNo, deck::CardCount};

    pub(super) fn serialize<S: Serializer>(
        cards: &[CardCount],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let pairs: Vec<_> = cards.iter().map(|kind| (kind.prize, kind.cards)).collect();
        pairs.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<CardCount>, D::Error> {
        let pairs = Vec::<(Option<PrizeNo>, u64)>::deserialize(deserializer)?;
        let cards = pairs.into_iter();
        Ok(cards
            .map(|(prize, cards)| CardCount { prize, cards })
            .collect())
    }
}
