//! What chance must hold: the same numbers for ever, evenly spread, and no unit more or less than
//! was granted.

mod chi_square;
mod golden;
mod personal;
mod properties;
mod splits;
mod statistics;

use super::Seed;
use crate::model::{Moment, PoolId, PrizeNo, deck::CardCount};

const HOUR_MICROS: i64 = 3_600_000_000;
/// 2026-11-19T00:00:00Z.
const START: Moment = Moment::from_micros(1_795_046_400_000_000);

fn pool(id: &str) -> PoolId {
    PoolId::parse("pool", id).unwrap()
}

/// The moment this number of microseconds after [`START`].
fn after_start(micros: i64) -> Moment {
    Moment::from_micros(START.as_micros() + micros)
}

/// A seed for each number.
fn numbered_seed(number: u64) -> Seed {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Seed::from_bytes(bytes)
}

fn kind(prize: Option<u16>, cards: u64) -> CardCount {
    CardCount {
        prize: prize.map(PrizeNo),
        cards,
    }
}
