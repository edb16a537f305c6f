//! The results of a draw, as users' records and the ledger hold them (`record` has the table).

use super::codec::{Unpacker, decode_scored, decode_unscored, malformed};
use crate::{
    model::{Moment, PoolNo, PrizeNo},
    store::{Cause, DrawResult, Result},
};

/// Begins the result of a forfeited card.
pub(crate) const FORFEITED: i32 = -1;
/// Begins the result of a blank, less 1 if the user gets the consolation prize.
pub(crate) const BLANK: i32 = -10;
const BLANK_GIVEN: i32 = BLANK - 1;
/// Is added to what begins the result of a win, if the prize has codes: the code's index follows
/// the unit. It is beyond what begins other results of wins, as a campaign has few pools.
pub(crate) const CODED: i32 = 1024;
/// Is added if a guarantee gave it: the index of the guarantee follows at the end.
pub(crate) const GUARANTEED: i32 = 2048;

/// Reads the results of a draw, one after another.
pub(crate) fn decode_results(unpacker: &mut Unpacker<'_>, count: u64) -> Result<Vec<DrawResult>> {
    (0..count).map(|_| decode_result(unpacker)).collect()
}

fn decode_result(unpacker: &mut Unpacker<'_>) -> Result<DrawResult> {
    match unpacker.int()? {
        FORFEITED => decode_forfeited(unpacker),
        code @ (BLANK | BLANK_GIVEN) => decode_blank(unpacker, code == BLANK_GIVEN),
        // Earlier versions wrote 0 and 1, later ones negative numbers of more than 1.
        code @ (..=1) => {
            let code = u8::try_from(code.unsigned_abs()).map_err(|_| malformed())?;
            DrawResult::from_plain_code(code).ok_or_else(malformed)
        }
        code => decode_won(unpacker, code),
    }
}

fn decode_blank(unpacker: &mut Unpacker<'_>, consolation: bool) -> Result<DrawResult> {
    let pool = PoolNo(unpacker.int()?);
    let unit = decode_unscored(unpacker)?;
    Ok(DrawResult::NotWon {
        consolation,
        cause: Cause::Blank { pool, unit },
    })
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
            code: None,
            guarantee: None,
        } if given <= 1 => Ok(DrawResult::NotWon {
            consolation: given == 1,
            cause: Cause::Forfeited { prize, pool, unit },
        }),
        _ => Err(malformed()),
    }
}

/// Reads a unit that was taken, after its code.
fn decode_won(unpacker: &mut Unpacker<'_>, begin: i32) -> Result<DrawResult> {
    let is_guaranteed = begin >= GUARANTEED;
    let begin = begin - i32::from(is_guaranteed) * GUARANTEED;
    let has_code = begin >= CODED;
    let begin = begin - i32::from(has_code) * CODED;
    let pool = begin
        .checked_sub(2)
        .filter(|pool| *pool >= 0)
        .ok_or_else(malformed)?
        / 2;
    let is_scheduled = begin % 2 == 0;
    let prize = PrizeNo(unpacker.int()?);
    let (score, unit) = decode_scored(unpacker)?;
    let code = has_code.then(|| unpacker.int()).transpose()?;
    let guarantee = is_guaranteed.then(|| unpacker.int()).transpose()?;
    Ok(DrawResult::Won {
        prize,
        pool: PoolNo(pool.try_into().map_err(|_| malformed())?),
        unit,
        release: is_scheduled.then(|| Moment::from_micros(score)),
        code,
        guarantee,
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
            let cause = Cause::Forfeited {
                prize: PrizeNo(7),
                pool: PoolNo(4),
                unit,
            };
            let expected = DrawResult::NotWon { consolation, cause };
            assert_eq!(read(-1, given, 11).unwrap(), expected);
        }
        for (forfeited, given, code) in [(-12, 0, 11), (-1, 2, 11), (-1, 0, 10), (-1, 0, 1)] {
            assert!(
                read(forfeited, given, code).is_err(),
                "{forfeited} {given} {code}"
            );
        }
    }

    #[test]
    fn a_win_with_a_code_has_its_index_after_the_unit() {
        let unit = Unit {
            window: 3,
            fork: 7,
            number: 5,
        };
        for (begin, release, score) in [(11, None, 9), (10, Some(9), 9)] {
            let mut packer = Packer::default();
            packer.int(i64::from(CODED) + begin).int(7);
            packer.0.extend(encode_unit(score, unit));
            packer.int(4_999_999);
            let bytes = packer.done();
            let expected = DrawResult::Won {
                prize: PrizeNo(7),
                pool: PoolNo(4),
                unit,
                release: release.map(Moment::from_micros),
                code: Some(4_999_999),
                guarantee: None,
            };
            let read = decode_result(&mut Unpacker::new(&bytes)).unwrap();
            assert_eq!(read, expected);
            for length in 0..bytes.len() {
                assert!(decode_result(&mut Unpacker::new(&bytes[..length])).is_err());
            }
        }
    }

    #[test]
    fn a_result_without_a_unit_says_why() {
        let read = |code: i64, card: &[u8]| {
            let mut packer = Packer::default();
            packer.int(code).0.extend(card);
            decode_result(&mut Unpacker::new(&packer.done()))
        };
        for (code, consolation, cause) in [
            (0, false, Cause::Unknown),
            (1, true, Cause::Unknown),
            (-2, false, Cause::NothingDue),
            (-3, true, Cause::NothingDue),
            (-5, true, Cause::WinsLimit),
            (-6, false, Cause::Blocked),
            (-9, true, Cause::ConsolationOnly),
            (-16, false, Cause::Budget),
        ] {
            let expected = DrawResult::NotWon { consolation, cause };
            assert_eq!(read(code, &[]).unwrap(), expected, "{code}");
        }
        let unit = Unit {
            window: 3,
            fork: 0x00ab_cdef,
            number: 500,
        };
        // A blank's card is a unit without the seven bytes of its position.
        let card = [&[4][..], &encode_unit(9, unit)[7..]].concat();
        let cause = Cause::Blank {
            pool: PoolNo(4),
            unit,
        };
        for (code, consolation) in [(-10, false), (-11, true)] {
            let expected = DrawResult::NotWon { consolation, cause };
            assert_eq!(read(code, &card).unwrap(), expected);
        }
        assert!(read(-10, &card[..5]).is_err());
        assert!(read(-12, &[]).is_err());
    }
}
