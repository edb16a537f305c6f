//! What stored data must look like whatever happened to a campaign or an envelope. Checked whenever
//! they are read, so that no rule and no draw works on numbers that contradict each other: what
//! cannot be true stops the campaign instead of becoming a result.

use super::state::{DeckState, PoolState, ScheduleState, State, Stock, Window};
use crate::{
    model::{Campaign, Moment, PoolKind, PoolNo, PrizeNo, Quantities},
    store::{Result, StoreError, view::total},
};

impl State {
    /// Checks what was read.
    pub(in crate::store) fn check(&self) -> Result<()> {
        let campaign = &self.view.campaign;
        check_prizes(campaign, self.view.paused_prizes.iter())?;
        check_stock(campaign, self.stock.iter())?;
        check_pools(campaign, self.pools.iter())
    }
}

/// Prizes that are named must be the campaign's.
pub(in crate::store) fn check_prizes<'a>(
    campaign: &Campaign,
    mut prizes: impl Iterator<Item = &'a PrizeNo>,
) -> Result<()> {
    match prizes.find(|prize| usize::from(prize.0) >= campaign.prizes.len()) {
        Some(prize) => Err(StoreError::corrupt(format!(
            "there is no prize {}",
            prize.0
        ))),
        None => Ok(()),
    }
}

/// Each prize has a stock, of which no more is gone than was given.
pub(in crate::store) fn check_stock<'a>(
    campaign: &Campaign,
    stock: impl ExactSizeIterator<Item = &'a Stock>,
) -> Result<()> {
    let (prizes, kept) = (campaign.prizes.len(), stock.len());
    if kept != prizes {
        let text = format!("{prizes} prizes have {kept} stocks");
        return Err(StoreError::corrupt(text));
    }
    for (prize, stock) in stock.enumerate() {
        let held = stock.remaining.checked_add(stock.withdrawn);
        if held.is_none_or(|held| held > stock.given) {
            let text = format!("of prize {prize} more is left than was given: {stock:?}");
            return Err(StoreError::corrupt(text));
        }
    }
    Ok(())
}

/// Each pool is kept as what it is.
pub(in crate::store) fn check_pools<'a>(
    campaign: &Campaign,
    pools: impl ExactSizeIterator<Item = &'a PoolState>,
) -> Result<()> {
    let (defined, kept) = (campaign.pools.len(), pools.len());
    if kept != defined {
        let text = format!("{defined} pools are kept as {kept}");
        return Err(StoreError::corrupt(text));
    }
    for ((no, definition), pool) in campaign.numbered_pools().zip(pools) {
        match (&definition.kind, pool) {
            (PoolKind::Schedule(_), PoolState::Schedule(schedule)) => {
                schedule.check(campaign, no)?;
            }
            (PoolKind::Deck(_), PoolState::Deck(deck)) => deck.check(campaign, no)?,
            (PoolKind::Personal(_), PoolState::Personal) => {}
            _ => {
                let text = format!("pool {} is kept as another kind than it is", no.0);
                return Err(StoreError::corrupt(text));
            }
        }
    }
    Ok(())
}

impl ScheduleState {
    fn check(&self, campaign: &Campaign, no: PoolNo) -> Result<()> {
        let quantities: [&Quantities; 3] = [&self.carry.units, &self.injected, &self.returned];
        check_prizes(campaign, self.planned.iter())?;
        for quantities in quantities {
            check_prizes(campaign, quantities.keys())?;
        }
        for (start, window) in &self.windows {
            window.check(campaign, (no, *start))?;
        }
        Ok(())
    }
}

impl Window {
    fn check(&self, campaign: &Campaign, (no, start): (PoolNo, Moment)) -> Result<()> {
        check_prizes(campaign, self.prizes.keys())?;
        for (prize, units) in &self.prizes {
            let gone = units.recalled.checked_add(units.returned);
            if units.placed > units.granted || gone.is_none_or(|gone| gone > units.granted) {
                return Err(StoreError::corrupt(format!(
                    "the window of {start} of pool {} has more units of prize {} than it was \
                     given: {units:?}",
                    no.0, prize.0
                )));
            }
        }
        let is_whole = self
            .fills
            .iter()
            .all(|fill| fill.filled <= total(&fill.granted) && fill.from <= fill.finish);
        if is_whole && start < self.end {
            return Ok(());
        }
        let text = format!(
            "a fill of the window of {start} of pool {} is beyond its end",
            no.0
        );
        Err(StoreError::corrupt(text))
    }
}

impl DeckState {
    fn check(&self, campaign: &Campaign, no: PoolNo) -> Result<()> {
        check_prizes(
            campaign,
            self.remaining.iter().filter_map(|kind| kind.prize.as_ref()),
        )?;
        check_prizes(campaign, self.short.iter().flat_map(Quantities::keys))?;
        if self.dealt < 0 {
            let text = format!("of pool {} {} cards are dealt", no.0, self.dealt);
            return Err(StoreError::corrupt(text));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
