//! What one draw gave, and the unit that it took.

use serde::{Deserialize, Serialize};

use crate::model::{Moment, PoolId, PoolNo, PrizeNo};

/// The result of one draw. In JSON: `[prize, pool, window, number, release]` for a win, with the
/// fork after it if there is one; 1 for the consolation prize, 0 for nothing;
/// `[given, [prize, pool, window, number, fork]]` for a forfeited card, `given` being 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ResultCode", into = "ResultCode")]
pub enum DrawResult {
    /// A unit was won.
    Won {
        /// Of which prize.
        prize: PrizeNo,
        /// From which pool.
        pool: PoolNo,
        /// Which unit.
        unit: Unit,
        /// From when it could be won; none if a deck gave it.
        release: Option<Moment>,
    },
    /// The consolation prize.
    Consolation,
    /// Nothing.
    Nothing,
    /// A deck's card of a prize that the user may not have. Its unit goes back to stock.
    Forfeited {
        /// Of which prize.
        prize: PrizeNo,
        /// From which deck.
        pool: PoolNo,
        /// Which unit.
        unit: Unit,
        /// The user gets the consolation prize; otherwise nothing.
        consolation: bool,
    },
}

impl DrawResult {
    /// The result as its user sees it: a forfeited card is the same as a blank.
    #[must_use]
    pub fn seen(self) -> Self {
        match self {
            Self::Forfeited {
                consolation: true, ..
            } => Self::Consolation,
            Self::Forfeited { .. } => Self::Nothing,
            other => other,
        }
    }
}

/// A unit within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// A schedule's window, by its start in seconds since the Unix epoch; a deck's round, from 1.
    pub window: i64,
    /// Mark of the fork of the store under which it was injected or dealt; 0 before the first fork.
    /// A store that was rolled back may fill the same window again: under another fork, so with
    /// other units.
    pub fork: u32,
    /// The index in the window or round, from 0.
    pub number: u64,
}

impl Unit {
    /// The unit's id, unique in its campaign.
    pub fn id(&self, pool: &PoolId) -> String {
        match self.fork {
            0 => format!("{pool}:{}:{}", self.window, self.number),
            fork => format!("{pool}:{}:{}:{fork:06x}", self.window, self.number),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ResultCode {
    Plain(u8),
    Won(PrizeNo, PoolNo, i64, u64, i64),
    Forked(PrizeNo, PoolNo, i64, u64, i64, u32),
    Forfeited(u8, (PrizeNo, PoolNo, i64, u64, u32)),
}

impl From<DrawResult> for ResultCode {
    fn from(result: DrawResult) -> Self {
        match result {
            DrawResult::Won {
                prize,
                pool,
                unit,
                release,
            } => {
                let release = release.map_or(0, Moment::as_micros);
                let Unit {
                    window,
                    fork,
                    number,
                } = unit;
                match fork {
                    0 => Self::Won(prize, pool, window, number, release),
                    fork => Self::Forked(prize, pool, window, number, release, fork),
                }
            }
            DrawResult::Consolation => Self::Plain(1),
            DrawResult::Nothing => Self::Plain(0),
            DrawResult::Forfeited {
                prize,
                pool,
                unit,
                consolation,
            } => {
                let card = (prize, pool, unit.window, unit.number, unit.fork);
                Self::Forfeited(consolation.into(), card)
            }
        }
    }
}

impl TryFrom<ResultCode> for DrawResult {
    type Error = String;

    fn try_from(code: ResultCode) -> std::result::Result<Self, String> {
        let won = |prize, pool, unit, release| Self::Won {
            prize,
            pool,
            unit,
            release: (release != 0).then(|| Moment::from_micros(release)),
        };
        let unit = |window, fork, number| Unit {
            window,
            fork,
            number,
        };
        match code {
            ResultCode::Won(prize, pool, window, number, release) => {
                Ok(won(prize, pool, unit(window, 0, number), release))
            }
            ResultCode::Forked(prize, pool, window, number, release, fork) => {
                Ok(won(prize, pool, unit(window, fork, number), release))
            }
            ResultCode::Plain(1) => Ok(Self::Consolation),
            ResultCode::Plain(0) => Ok(Self::Nothing),
            ResultCode::Forfeited(given @ 0..=1, (prize, pool, window, number, fork)) => {
                Ok(Self::Forfeited {
                    prize,
                    pool,
                    unit: unit(window, fork, number),
                    consolation: given == 1,
                })
            }
            ResultCode::Plain(code) | ResultCode::Forfeited(code, _) => {
                Err(format!("no result of a draw has code {code}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_an_unknown_code_is_no_lost_draw() {
        assert!(serde_json::from_str::<DrawResult>("0").is_ok());
        for foreign in [
            "2",
            "255",
            "-1",
            "[]",
            "\"x\"",
            "null",
            "[2,[0,0,1,1,0]]",
            "[0,[0,0,1]]",
        ] {
            assert!(
                serde_json::from_str::<DrawResult>(foreign).is_err(),
                "{foreign}"
            );
        }
    }

    fn forfeited(consolation: bool) -> DrawResult {
        DrawResult::Forfeited {
            prize: PrizeNo(2),
            pool: PoolNo(1),
            unit: Unit {
                window: 3,
                fork: 0,
                number: 5,
            },
            consolation,
        }
    }

    #[test]
    fn a_user_sees_a_forfeited_card_as_a_blank() {
        assert_eq!(forfeited(true).seen(), DrawResult::Consolation);
        assert_eq!(forfeited(false).seen(), DrawResult::Nothing);
    }
}
