//! Importing codes, and which one a win gets.
//!
//! Each imported code is a unit of its prize's stock, and a revoked win's unit never goes back to
//! stock. So there are never more units than codes that are left.

use crate::{
    model::{PrizeNo, Problems, code::CODES_MAX, text::grouped},
    store::{Refusal, Result, SealedBlock, StoreError, codes::BLOCK_CODES},
};

use super::state::{State, Stock};

/// An import of codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Import<'a> {
    pub(super) prize: PrizeNo,
    /// The index of the first code.
    pub(super) first: u64,
    /// The number of codes.
    pub(super) codes: u64,
    /// All blocks that they are in; the first one may have earlier codes, too.
    pub(super) blocks: &'a [SealedBlock],
}

/// Adds codes, and as many units to stock. The campaign's shape is fixed from then on.
pub(super) fn import(state: &mut State, import: Import<'_>) -> Result<()> {
    let Import {
        prize,
        first,
        codes,
        blocks,
    } = import;
    let mut problems = Problems::default();
    let definition = state.view.campaign.prize(prize);
    if !definition.codes {
        let id = &definition.id;
        let text = format!("{id} has no codes: a prize with `codes: true` in its campaign has");
        problems.add("prize_id", text);
        return Err(Refusal::ChangeRefused(problems).into());
    }
    let stock = state.stock_mut(prize)?;
    if first != stock.given {
        problems.add("first", not_next(first, stock.given));
    } else if stock.given.saturating_add(codes) > CODES_MAX {
        problems.add(
            "codes",
            format!(
                "are {} more, and the prize has {}: it may have {}",
                grouped(codes),
                grouped(stock.given),
                grouped(CODES_MAX)
            ),
        );
    }
    if !problems.is_empty() {
        return Err(Refusal::ChangeRefused(problems).into());
    }
    let indexes = first / BLOCK_CODES..(first + codes).div_ceil(BLOCK_CODES);
    if codes == 0 || !blocks.iter().map(|block| block.index).eq(indexes) {
        return Err(StoreError::corrupt(
            "an import has other blocks than its codes",
        ));
    }
    stock.given += codes;
    stock.remaining += codes;
    state.view.touched = true;
    state.changes.codes = Some((prize, blocks.to_vec()));
    Ok(())
}

/// What is wrong with the index of an import's first code.
fn not_next(first: u64, imported: u64) -> String {
    let (first, imported) = (grouped(first), grouped(imported));
    format!("is {first}, and the prize has {imported} codes: the next one is {imported}")
}

impl Stock {
    /// The index of the code that the next win gets, after this number of wins.
    pub(in crate::store) fn next_code(&self, won: u64) -> u64 {
        won.saturating_add(self.skipped)
    }
}
