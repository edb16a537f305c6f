//! Booking units: whatever leaves stock comes to a window and its pool, and the other way round,
//! both sides at once.

use crate::{
    model::{Moment, PoolNo, PrizeNo, Quantities},
    store::{
        Result, StoreError, Unit,
        entry::{Body, Injected, Span, TakenBackCause},
    },
};

use super::{
    search::window_start,
    state::{Fill, Placed, ScheduleState, State, Window},
};

/// Adds units to quantities.
pub(in crate::store) fn add(to: &mut Quantities, prize: PrizeNo, units: u64) {
    if units > 0 {
        *to.entry(prize).or_default() += units;
    }
}

/// Takes units off quantities, which must have them.
pub(super) fn subtract(from: &mut Quantities, prize: PrizeNo, units: u64) -> Result<()> {
    let left = match from.get(&prize) {
        None if units == 0 => return Ok(()),
        found => found.and_then(|had| had.checked_sub(units)),
    };
    match left {
        Some(0) => from.remove(&prize),
        Some(left) => from.insert(prize, left),
        None => {
            return Err(StoreError::corrupt(format!(
                "{units} units of prize {} are taken off {:?}",
                prize.0,
                from.get(&prize)
            )));
        }
    };
    Ok(())
}

/// What is left of units after `taken`, of which there must be as many.
pub(super) fn less(units: u64, taken: u64) -> Result<u64> {
    units
        .checked_sub(taken)
        .ok_or_else(|| StoreError::corrupt(format!("{taken} are taken off {units}")))
}

/// Why units that were not won leave a pool, and for where.
pub(super) struct Return {
    pub(super) pool: PoolNo,
    pub(super) cause: TakenBackCause,
    pub(super) withdraw: bool,
}

/// Units that leave a pool: how many of each prize, and which.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) units: Quantities,
    pub(super) spans: Vec<Span>,
}

impl State {
    /// Takes as much of `asked` off stock as there is.
    pub(super) fn take_off_stock(&mut self, asked: &Quantities) -> Result<Quantities> {
        let mut granted = Quantities::new();
        for (prize, units) in asked {
            let part = self.in_stock(*prize).min(*units);
            self.stock_mut(*prize)?.take(part)?;
            add(&mut granted, *prize, part);
        }
        Ok(granted)
    }

    /// Books granted units on their window and their pool, and opens the fill that will put them
    /// there.
    pub(super) fn open_fill(&mut self, injected: Injected) -> Result<()> {
        for (prize, units) in &injected.granted {
            self.count(injected.pool, Some(*prize), units.cast_signed());
        }
        self.view.touched |= !injected.granted.is_empty();
        let schedule = self.schedule(injected.pool)?;
        for (prize, units) in &injected.granted {
            add(&mut schedule.injected, *prize, *units);
        }
        let window = schedule.window(injected.window)?;
        let base = window.prizes.values().map(|prize| prize.granted).sum();
        for (prize, units) in &injected.granted {
            window.prizes.entry(*prize).or_default().granted += units;
        }
        if !injected.granted.is_empty() {
            window.fills.push(Fill {
                generation: injected.generation,
                from: injected.from,
                finish: injected.until,
                base,
                granted: injected.granted.clone(),
                filled: 0,
                until: injected.from,
                closed: false,
                fork: injected.fork,
            });
        }
        self.changes.entries.push(Body::Injected(injected));
        Ok(())
    }

    /// What these units of a pool are together. Blanks are no units.
    pub(super) fn taken<'a>(
        &self,
        pool: PoolNo,
        placed: impl Iterator<Item = &'a Placed>,
    ) -> Taken {
        let mut units = Quantities::new();
        let mut spans = Vec::new();
        for placed in placed {
            let Some(prize) = placed.prize else { continue };
            add(&mut units, prize, 1);
            let Unit {
                window,
                fork,
                number,
            } = placed.unit;
            spans.push(Span {
                window,
                fork,
                generation: self.generation(pool, placed.unit),
                first: number,
                last: number,
            });
        }
        Taken {
            units,
            spans: joined(spans),
        }
    }

    /// The injection that a unit is of; 0 for a card.
    fn generation(&self, pool: PoolNo, unit: Unit) -> u32 {
        let windows = self.schedule_of(pool).map(|schedule| &schedule.windows);
        let window = windows
            .and_then(|windows| windows.get(&window_start(unit).ok()?))
            .into_iter();
        let fills = window.flat_map(|window| &window.fills);
        let before = fills.filter(|fill| fill.base <= unit.number);
        before.map(|fill| fill.generation).max().unwrap_or(0)
    }

    /// Units leave a pool for stock, or for good, as one entry; blanks only leave.
    pub(super) fn give_back(&mut self, back: &Return, taken: Taken) -> Result<()> {
        let Taken { units, spans } = taken;
        if units.is_empty() {
            return Ok(());
        }
        for (prize, units) in &units {
            self.count(back.pool, Some(*prize), -units.cast_signed());
            let has_codes = self.view.campaign.prize(*prize).codes;
            let stock = self.stock_mut(*prize)?;
            if back.withdraw {
                stock.withdrawn += units;
                if has_codes && back.cause == TakenBackCause::Recovered {
                    // If lost draws have won the units, they have given as many codes.
                    stock.skipped += units;
                }
            } else {
                stock.remaining += units;
                stock.returned += units;
            }
        }
        self.changes.entries.push(Body::TakenBack {
            pool: back.pool,
            cause: back.cause,
            units,
            withdrawn: back.withdraw,
            spans,
        });
        Ok(())
    }

    /// Counts units that come to a pool, or leave it otherwise than by a draw.
    pub(super) fn count(&mut self, pool: PoolNo, prize: Option<PrizeNo>, units: i64) {
        *self.changes.waiting.entry((pool, prize)).or_default() += units;
    }
}

/// Spans in order, of which those that follow each other are one.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined = Vec::<Span>::new();
    for span in spans {
        let start = |span: Span| (span.window, span.fork, span.generation);
        match joined.last_mut() {
            Some(last) if start(*last) == start(span) && last.last + 1 == span.first => {
                last.last = span.last;
            }
            _ => joined.push(span),
        }
    }
    joined
}

impl ScheduleState {
    /// A window that a rule changes.
    pub(super) fn window(&mut self, start: Moment) -> Result<&mut Window> {
        let window = self
            .windows
            .get_mut(&start)
            .ok_or_else(|| StoreError::corrupt(format!("the window of {start} is not there")))?;
        window.is_changed = true;
        Ok(window)
    }

    /// Adds a window that is frozen now.
    pub(super) fn add_window(&mut self, start: Moment, window: Window) {
        self.planned.extend(window.prizes.keys());
        self.windows.insert(start, window);
    }
}
