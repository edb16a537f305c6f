//! How far the pools of a campaign are filled, as the injector reads it.

use crate::{
    model::{Moment, PoolNo, PrizeNo, Quantities, deck::CardCount},
    store::{
        Filling, Result,
        fill::{DeckFilling, DeckStop, FillRecord, LiveWindow, PoolFilling, ScheduleFilling},
        view::{PrizeStats, WindowState, WindowUnits, WindowView},
    },
};

use super::book::{add, less};
use super::due::due;
use super::state::{DeckState, PoolState, ScheduleState, State, Stock, Window, WindowMark};

/// How far the pools are filled; `available` returns the cards that wait in a deck, those of held
/// prizes aside.
pub(in crate::store) fn filling(
    state: &State,
    available: impl Fn(PoolNo) -> u64,
) -> Result<Filling> {
    let pools = (0..).map(PoolNo).zip(&state.pools);
    let pools = pools.map(|(no, pool)| match pool {
        PoolState::Schedule(schedule) => {
            schedule_filling(schedule, state.now).map(PoolFilling::Schedule)
        }
        PoolState::Deck(deck) => Ok(PoolFilling::Deck(DeckFilling {
            round: deck.round,
            chunk: deck.chunk,
            remaining: deck.remaining.clone(),
            available: available(no),
            stopped: state.deck_stop(no),
            lacking: state.deck_lacking(deck),
            fork: state.fork,
        })),
        PoolState::Personal => Ok(PoolFilling::Personal),
    });
    let mut used = Quantities::new();
    for (prize, stock) in (0..).map(PrizeNo).zip(&state.stock) {
        add(&mut used, prize, less(stock.given, stock.remaining)?);
    }
    Ok(Filling {
        view: state.view.clone(),
        due: due(state),
        used,
        pools: pools.collect::<Result<_>>()?,
    })
}

fn schedule_filling(schedule: &ScheduleState, now: Moment) -> Result<ScheduleFilling> {
    let windows = || schedule.windows.iter();
    let recalling = windows().filter(|(_, window)| window.is_recalling());
    let live =
        windows().filter(|(_, window)| window.end > now && window.mark != WindowMark::Missed);
    Ok(ScheduleFilling {
        horizon: schedule.horizon,
        oldest: schedule.oldest,
        totals: schedule.totals.clone(),
        carry: schedule.carry.units.clone(),
        open: open_fills(schedule),
        recalling: recalling.map(|(start, _)| *start).collect(),
        live: live
            .map(|(start, window)| live_window(*start, window))
            .collect::<Result<_>>()?,
    })
}

fn open_fills(schedule: &ScheduleState) -> Vec<FillRecord> {
    let windows = schedule.windows.iter();
    let fills =
        windows.flat_map(|(start, window)| window.fills.iter().map(move |fill| (start, fill)));
    let mut open: Vec<_> = fills.filter(|(_, fill)| !fill.closed).collect();
    open.sort_by_key(|(_, fill)| fill.until);
    let open = open.into_iter();
    open.map(|(start, fill)| FillRecord {
        window_start: *start,
        window_end: fill.finish,
        generation: fill.generation,
        from: fill.from,
        granted: fill.granted.clone(),
        filled: fill.filled,
        fork: fill.fork,
        until: fill.until,
    })
    .collect()
}

fn live_window(start: Moment, window: &Window) -> Result<LiveWindow> {
    let mut live = LiveWindow {
        start,
        end: window.end,
        version: window.version,
        recalled: window.mark == WindowMark::Recalled,
        planned: Quantities::new(),
        carried: Quantities::new(),
        injected: Quantities::new(),
    };
    for (prize, units) in &window.prizes {
        live.planned.insert(*prize, units.planned);
        live.carried.insert(*prize, units.carried);
        let injected = less(units.granted, units.recalled)?;
        live.injected.insert(*prize, injected);
    }
    Ok(live)
}

impl Window {
    /// How far it is, as readers see it.
    pub(in crate::store) fn state(&self) -> WindowState {
        match self.mark {
            WindowMark::Missed => WindowState::Missed,
            WindowMark::Recalled => WindowState::Recalled,
            WindowMark::Frozen if self.is_filling() => WindowState::Injecting,
            WindowMark::Frozen => WindowState::Injected,
        }
    }

    /// As readers see it; `count` gives the units of a prize that were won, and those that are
    /// released and wait.
    pub(in crate::store) fn view(
        &self,
        pool: PoolNo,
        start: Moment,
        mut count: impl FnMut(PrizeNo) -> Result<(u64, u64)>,
    ) -> Result<WindowView> {
        let prizes = self.prizes.iter().map(|(prize, units)| {
            let (won, due) = count(*prize)?;
            let units = WindowUnits {
                planned: units.planned,
                carried: units.carried,
                injected: units.granted,
                released: won + units.returned + due,
                won,
                recalled: units.recalled,
                returned: units.returned,
            };
            Ok((*prize, units))
        });
        Ok(WindowView {
            pool,
            start,
            end: self.end,
            version: self.version,
            state: self.state(),
            prizes: prizes.collect::<Result<_>>()?,
        })
    }
}

impl Stock {
    /// As readers see it, without what is in the pools.
    pub(in crate::store) fn stats(&self, won: u64) -> PrizeStats {
        PrizeStats {
            stock: self.given,
            left: self.remaining,
            waiting: 0,
            won: self.still_won(won),
            revoked: self.revoked,
            withdrawn: self.withdrawn,
            returned: self.returned,
            forfeited: self.forfeited,
            released: won.saturating_add(self.forfeited),
            skipped: self.skipped,
        }
    }
}

impl DeckState {
    /// Units that stock lacks for the next chunk, if it could not be dealt.
    pub(in crate::store) fn lacks(
        &self,
        in_stock: impl Fn(PrizeNo) -> u64,
    ) -> impl Iterator<Item = (PrizeNo, u64)> {
        let needed = self.short.iter().flatten();
        needed.filter_map(move |(prize, needed)| {
            let lacking = needed.saturating_sub(in_stock(*prize));
            (lacking > 0).then_some((*prize, lacking))
        })
    }

    /// Why the deck gives no more cards than wait in it; none if it does.
    pub(in crate::store) fn stop(
        &self,
        later_round: &[CardCount],
        in_stock: impl Fn(PrizeNo) -> u64,
        is_held: impl Fn(PrizeNo) -> bool,
    ) -> Option<DeckStop> {
        if self.remaining.is_empty() && later_round.is_empty() {
            return Some(DeckStop::Exhausted);
        }
        if self.lacks(in_stock).next().is_some() {
            return Some(DeckStop::OutOfStock);
        }
        let is_held = |kind: &CardCount| kind.prize.is_some_and(&is_held);
        if self.remaining.iter().chain(later_round).all(is_held) {
            return Some(DeckStop::Held);
        }
        None
    }
}
