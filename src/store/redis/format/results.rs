//! The results of a draw, as users' records and the ledger hold them (`record` has the table).

use super::codec::{Unpacker, decode_scored, malformed};
use crate::{
    model::{Moment, PoolNo, PrizeNo},
    store::{DrawResult, Result},
};

/// Begins the result of a forfeited card.
pub(crate) const FORFEITED: i32 = -1;

/// Reads the results of a draw, one after another.
pub(crate) fn decode_results(unpacker: &mut Unpacker<'_>, count: u64) -> Result<Vec<DrawResult>> {
    (0..count).map(|_| decode_result(unpacker)).collect()
}

fn decode_result(unpacker: &mut Unpacker<'_>) -> Result<DrawResult> {
    match unpacker.int()? {
        0 => Ok(DrawResult::Nothing),
        1 => Ok(DrawResult::Consolation),
        FORFEITED => decode_forfeited(unpacker),
        code => decode_won(unpacker, code),
    }
}

fn decode_forfeited(unpacker: &mut Unpacker<'_>) -> Result<DrawResult> {
    let given: u8 = unpacker.int()?;
    let code = unpacker.int()?;
    match decode_won(unpacker, code)? {
        DrawResult::Won {
            prize,
            pool,
            unit,
            release: None,
        } if given <= 1 => Ok(DrawResult::Forfeited {
            prize,
            pool,
            unit,
            consolation: given == 1,
        }),
        _ => Err(malformed()),
    }
}

/// Reads a unit that was taken, after its code.
fn decode_won(unpacker: &mut Unpacker<'_>, code: i32) -> Result<DrawResult> {
    let pool = code
        .checked_sub(2)
        .filter(|pool| *pool >= 0)
        .ok_or_else(malformed)?
        / 2;
    let is_scheduled = code % 2 == 0;
    let prize = PrizeNo(unpacker.int()?);
    let (score, unit) = decode_scored(unpacker)?;
    Ok(DrawResult::Won {
        prize,
        pool: PoolNo(pool.try_into().map_err(|_| malformed())?),
        unit,
        release: is_scheduled.then(|| Moment::from_micros(score)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        Unit,
        redis::format::codec::{Packer, encode_unit},
    };

    #[test]
    fn a_forfeited_card_is_a_card_of_a_deck_and_what_its_user_got() {
        let unit = Unit {
            window: 3,
            fork: 0,
            number: 5,
        };
        let read = |forfeited: i64, given: i64, code: i64| {
            let mut packer = Packer::default();
            packer.int(forfeited).int(given).int(code).int(7);
            packer.0.extend(encode_unit(1, unit));
            decode_result(&mut Unpacker::new(&packer.done()))
        };
        for (given, consolation) in [(0, false), (1, true)] {
            let expected = DrawResult::Forfeited {
                prize: PrizeNo(7),
                pool: PoolNo(4),
                unit,
                consolation,
            };
            assert_eq!(read(-1, given, 11).unwrap(), expected);
        }
        for (forfeited, given, code) in [(-2, 0, 11), (-1, 2, 11), (-1, 0, 10), (-1, 0, 1)] {
            assert!(
                read(forfeited, given, code).is_err(),
                "{forfeited} {given} {code}"
            );
        }
    }
}
