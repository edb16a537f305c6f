//! What one draw gave, and the unit that it took.

use serde::{Deserialize, Serialize};

use crate::model::{Moment, PoolNo, PrizeNo, number::is_zero};

/// The result of one draw. In JSON, where `given` is 1 for the consolation prize and 0 for nothing:
///
/// - a win: `[prize, pool, window, number, release]`, with the fork after it if there is one; with
///   a code `[prize, pool, window, number, release, fork, code]`; by a guarantee `[prize, pool,
///   window, number, release, fork, code or null, index of the guarantee]`;
/// - a forfeited card: `[given, [prize, pool, window, number, fork]]`;
/// - a blank: `[given, [pool, window, number, fork]]`;
/// - another result without a unit: twice the code of its cause plus `given`. Codes are 0: unknown,
///   1: nothing due, 2: limit of wins, 3: blocked, 4: consolation only, 7: cap of a prize, 8:
///   budget (5 and 6 are those of cards).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ResultCode", into = "ResultCode")]
pub enum DrawResult {
    /// A unit was won.
    Won {
        /// Of which prize.
        prize: PrizeNo,
        /// From which pool; [`PoolNo::GUARANTEES`]: from a guarantee of the campaign.
        pool: PoolNo,
        /// Which unit.
        unit: Unit,
        /// From when it could be won; none if a deck gave it.
        release: Option<Moment>,
        /// The index of its code, if the prize has codes.
        code: Option<u64>,
        /// The index of the guarantee that gave it surely, among those of its pool.
        guarantee: Option<u16>,
    },
    /// No unit was won.
    NotWon {
        /// The user gets the consolation prize; otherwise nothing.
        consolation: bool,
        /// Why.
        cause: Cause,
    },
}

/// Why a draw won no unit. Later versions may know further causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An earlier version made the draw, and did not write why.
    Unknown,
    /// No pool that is open to the user had a unit that was due.
    NothingDue,
    /// The user has reached the limit of wins, and no pool had a unit that such a user may have.
    WinsLimit,
    /// The user is blocked.
    Blocked,
    /// The caller asked for no more than the consolation prize.
    ConsolationOnly,
    /// The user has reached the cap of a prize and not the limit of wins, and no pool had a unit
    /// that such a user may have.
    PrizeCap,
    /// A prize would have passed the campaign's budget, the user has reached no limit of wins and
    /// no cap, and no pool had a unit of another prize.
    Budget,
    /// A deck's blank was drawn, or nothing of a personal pool.
    Blank {
        /// From which pool.
        pool: PoolNo,
        /// Which card. Of a personal pool: the number of the user's draw there, from 0, in window
        /// 0.
        unit: Unit,
    },
    /// A deck's card was drawn of a prize that the user may not have. Its unit goes back to stock.
    Forfeited {
        /// Of which prize.
        prize: PrizeNo,
        /// From which deck.
        pool: PoolNo,
        /// Which unit.
        unit: Unit,
    },
}

impl Cause {
    /// Causes that a number says all of.
    pub(super) const PLAIN: [Self; 7] = [
        Self::Unknown,
        Self::NothingDue,
        Self::WinsLimit,
        Self::Blocked,
        Self::ConsolationOnly,
        Self::PrizeCap,
        Self::Budget,
    ];

    /// The cause's number in the ledger. A cause keeps it for ever.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::NothingDue => 1,
            Self::WinsLimit => 2,
            Self::Blocked => 3,
            Self::ConsolationOnly => 4,
            Self::Blank { .. } => 5,
            Self::Forfeited { .. } => 6,
            Self::PrizeCap => 7,
            Self::Budget => 8,
        }
    }
}

impl DrawResult {
    /// The prize of which a unit was won.
    pub fn prize(&self) -> Option<PrizeNo> {
        match self {
            Self::Won { prize, .. } => Some(*prize),
            Self::NotWon { .. } => None,
        }
    }

    /// The result without a unit of twice a cause's code, plus 1 if the user gets the consolation
    /// prize. None if no cause that a number says all of has this code.
    pub(super) fn from_plain_code(code: u8) -> Option<Self> {
        let mut causes = Cause::PLAIN.into_iter();
        let cause = causes.find(|cause| cause.code() == code / 2)?;
        Some(Self::NotWon {
            consolation: code % 2 == 1,
            cause,
        })
    }
}

/// A unit within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Unit {
    /// A schedule's window, by its start in seconds since the Unix epoch; a deck's round, from 1; 0
    /// in a personal pool and of guarantees.
    pub window: i64,
    /// Mark of the fork of the store under which it was injected or dealt; 0 before the first fork.
    /// A store that was rolled back may fill the same window again: under another fork, so with
    /// other units.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fork: u32,
    /// The index in the window or round, from 0. Units of a personal pool, and those of all
    /// guarantees of the campaign, are numbered in the order in which users win them.
    pub number: u64,
}

impl Unit {
    /// The unit of this id, if it is one of this pool (see [`Self::id`]).
    pub fn from_id(id: &str, pool: &str) -> Option<Self> {
        let rest = id.strip_prefix(head(pool))?.strip_prefix(':')?;
        let mut parts = rest.split(':');
        let (window, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let fork = parts.next().map(|fork| u32::from_str_radix(fork, 16));
        let unit = Self {
            window,
            fork: fork.transpose().ok()?.unwrap_or(0),
            number,
        };
        (unit.id(pool) == id).then_some(unit)
    }

    /// The unit's id, unique in its campaign. `pool` is the id of its pool, empty for one that a
    /// guarantee of the campaign gave.
    pub fn id(&self, pool: &str) -> String {
        let pool = head(pool);
        match self.fork {
            0 => format!("{pool}:{}:{}", self.window, self.number),
            fork => format!("{pool}:{}:{}:{fork:06x}", self.window, self.number),
        }
    }
}

/// What the id of a unit begins with. No id of a pool has a slash.
fn head(pool: &str) -> &str {
    if pool.is_empty() { "/guarantees" } else { pool }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ResultCode {
    Plain(u8),
    Won(PrizeNo, PoolNo, i64, u64, i64),
    Forked(PrizeNo, PoolNo, i64, u64, i64, u32),
    Coded(PrizeNo, PoolNo, i64, u64, i64, u32, u64),
    Guaranteed(PrizeNo, PoolNo, i64, u64, i64, u32, Option<u64>, u16),
    Forfeited(u8, (PrizeNo, PoolNo, i64, u64, u32)),
    Blank(u8, (PoolNo, i64, u64, u32)),
}

impl From<DrawResult> for ResultCode {
    fn from(result: DrawResult) -> Self {
        match result {
            DrawResult::Won {
                prize,
                pool,
                unit,
                release,
                code,
                guarantee,
            } => {
                let release = release.map_or(0, Moment::as_micros);
                let Unit {
                    window,
                    fork,
                    number,
                } = unit;
                if let Some(guarantee) = guarantee {
                    return Self::Guaranteed(
                        prize, pool, window, number, release, fork, code, guarantee,
                    );
                }
                match (code, fork) {
                    (Some(code), fork) => {
                        Self::Coded(prize, pool, window, number, release, fork, code)
                    }
                    (None, 0) => Self::Won(prize, pool, window, number, release),
                    (None, fork) => Self::Forked(prize, pool, window, number, release, fork),
                }
            }
            DrawResult::NotWon { consolation, cause } => {
                let given = consolation.into();
                match cause {
                    Cause::Forfeited { prize, pool, unit } => {
                        let card = (prize, pool, unit.window, unit.number, unit.fork);
                        Self::Forfeited(given, card)
                    }
                    Cause::Blank { pool, unit } => {
                        Self::Blank(given, (pool, unit.window, unit.number, unit.fork))
                    }
                    plain => Self::Plain(plain.code() * 2 + given),
                }
            }
        }
    }
}

impl TryFrom<ResultCode> for DrawResult {
    type Error = String;

    fn try_from(code: ResultCode) -> std::result::Result<Self, String> {
        let won = |prize, pool, unit, release, code| Self::Won {
            prize,
            pool,
            unit,
            release: (release != 0).then(|| Moment::from_micros(release)),
            code,
            guarantee: None,
        };
        let unit = |window, fork, number| Unit {
            window,
            fork,
            number,
        };
        match code {
            ResultCode::Won(prize, pool, window, number, release) => {
                Ok(won(prize, pool, unit(window, 0, number), release, None))
            }
            ResultCode::Forked(prize, pool, window, number, release, fork) => {
                Ok(won(prize, pool, unit(window, fork, number), release, None))
            }
            ResultCode::Coded(prize, pool, window, number, release, fork, code) => {
                let unit = unit(window, fork, number);
                Ok(won(prize, pool, unit, release, Some(code)))
            }
            ResultCode::Guaranteed(prize, pool, window, number, release, fork, code, guarantee) => {
                Ok(Self::Won {
                    prize,
                    pool,
                    unit: unit(window, fork, number),
                    release: (release != 0).then(|| Moment::from_micros(release)),
                    code,
                    guarantee: Some(guarantee),
                })
            }
            ResultCode::Forfeited(given @ 0..=1, (prize, pool, window, number, fork)) => {
                let unit = unit(window, fork, number);
                Ok(Self::NotWon {
                    consolation: given == 1,
                    cause: Cause::Forfeited { prize, pool, unit },
                })
            }
            ResultCode::Blank(given @ 0..=1, (pool, window, number, fork)) => {
                let unit = unit(window, fork, number);
                Ok(Self::NotWon {
                    consolation: given == 1,
                    cause: Cause::Blank { pool, unit },
                })
            }
            ResultCode::Plain(code) => Self::from_plain_code(code).ok_or_else(|| unknown(code)),
            ResultCode::Forfeited(code, _) | ResultCode::Blank(code, _) => Err(unknown(code)),
        }
    }
}

fn unknown(code: u8) -> String {
    format!("no result of a draw has code {code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_read_from_its_id_and_from_no_other() {
        let pool = "a:1";
        for fork in [0, 0x00ab_cdef] {
            let unit = Unit {
                window: 1_795_960_800,
                fork,
                number: 17,
            };
            assert_eq!(Unit::from_id(&unit.id(pool), pool), Some(unit));
            assert_eq!(Unit::from_id(&unit.id(""), ""), Some(unit));
            assert_eq!(Unit::from_id(&unit.id(""), "guarantees"), None);
        }
        for other in [
            "",
            "a:1",
            "a:1:5",
            "a:1:05:6",
            "b:5:6",
            "a:1:5:6:1",
            "a:1:5:6:000001:7",
        ] {
            assert_eq!(Unit::from_id(other, pool), None, "{other}");
        }
    }

    #[test]
    fn a_result_of_an_unknown_code_is_no_lost_draw() {
        for foreign in [
            "10",
            "13",
            "18",
            "255",
            "-1",
            "[]",
            "\"x\"",
            "null",
            "[2,[0,0,1,1,0]]",
            "[2,[0,1,1,0]]",
            "[0,[0,0,1]]",
        ] {
            assert!(
                serde_json::from_str::<DrawResult>(foreign).is_err(),
                "{foreign}"
            );
        }
    }

    #[test]
    fn results_without_a_unit_keep_their_codes() {
        let unit = Unit {
            window: 3,
            fork: 0,
            number: 5,
        };
        let (prize, pool) = (PrizeNo(2), PoolNo(1));
        for (json, consolation, cause) in [
            ("0", false, Cause::Unknown),
            ("1", true, Cause::Unknown),
            ("2", false, Cause::NothingDue),
            ("5", true, Cause::WinsLimit),
            ("7", true, Cause::Blocked),
            ("8", false, Cause::ConsolationOnly),
            ("15", true, Cause::PrizeCap),
            ("16", false, Cause::Budget),
            ("[1,[1,3,5,0]]", true, Cause::Blank { pool, unit }),
            (
                "[0,[2,1,3,5,0]]",
                false,
                Cause::Forfeited { prize, pool, unit },
            ),
        ] {
            let result = DrawResult::NotWon { consolation, cause };
            assert_eq!(serde_json::to_string(&result).unwrap(), json);
            assert_eq!(serde_json::from_str::<DrawResult>(json).unwrap(), result);
        }
    }
}
