//! The ledger: every change of a campaign or an envelope is an entry, written in the step that
//! makes the change.
//!
//! Prizes and pools are written as numbers (see [`crate::model::number`]); moments as microseconds
//! since the Unix epoch.

use serde::{Deserialize, Serialize};

use super::{
    Result, StoreError,
    operation::{Author, Operation},
};
use crate::model::{
    Campaign, CampaignId, Envelope, EnvelopeId, Moment, PoolId, PoolNo, PrizeNo, Quantities,
    RequestId, UserId,
    limits::{Funding, UserCounts},
};

/// The name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerId {
    /// The partition, from 0.
    pub partition: u32,
    /// The entry's number in its partition, from 1, without gaps.
    pub sequence: u64,
}

/// An entry of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub id: LedgerId,
    /// When it was written, by the store's clock.
    pub at: Moment,
    /// What it is about.
    pub subject: Subject,
    /// What happened.
    pub body: Body,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A campaign.
    Campaign(CampaignId),
    /// An envelope.
    Envelope(EnvelopeId),
    /// The partition itself.
    Partition,
}

impl Subject {
    /// The campaign; none if it is something else.
    pub fn campaign(&self) -> Option<&CampaignId> {
        match self {
            Self::Campaign(id) => Some(id),
            Self::Envelope(_) | Self::Partition => None,
        }
    }

    /// The envelope; none if it is something else.
    pub fn envelope(&self) -> Option<&EnvelopeId> {
        match self {
            Self::Campaign(_) | Self::Partition => None,
            Self::Envelope(id) => Some(id),
        }
    }
}

/// What happened, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Body {
    /// A version came into force.
    Applied {
        /// Its number.
        version: u32,
        /// The version it changed; 0 for a new campaign.
        base_version: u32,
        /// SHA-256 of its encoded definition, hexadecimal; the definition itself is kept beside the
        /// ledger.
        definition_sha256: String,
        /// SHA-256 of the seed, hexadecimal.
        commitment: String,
        /// Units added to stock.
        stock_added: Quantities,
        /// Nothing had happened to the campaign: what was in stock before is void, `stock_added` is
        /// all there is.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stock_anew: bool,
        /// By whom.
        author: Author,
    },
    /// An operator's act.
    Operated {
        /// What.
        operation: Operation,
        /// By whom.
        author: Author,
        /// Users that it concerned.
        users: u32,
    },
    /// A draw.
    Draw(DrawEntry),
    /// Units went from stock to a window; their moments follow from the seed and this entry.
    Injected(Injected),
    /// A window passed unfilled.
    Missed {
        /// The pool.
        pool: PoolNo,
        /// The window's start.
        window: Moment,
        /// The plan's version.
        version: u32,
        /// The plan's quantities.
        planned: Quantities,
        /// They are spread over the next windows.
        spread: bool,
    },
    /// Cards went from stock to a deck's pool; which ones follows from the seed and this entry.
    Dealt {
        /// The pool.
        pool: PoolNo,
        /// The round, from 1.
        round: u64,
        /// The chunk of the round, from 0.
        chunk: u64,
        /// Cards by prize.
        granted: Quantities,
        /// Blanks.
        blanks: u64,
        /// Mark of the fork under which they were dealt; see [`Unit::fork`].
        #[serde(default, skip_serializing_if = "is_zero")]
        fork: u32,
    },
    /// Units left a pool.
    TakenBack {
        /// The pool.
        pool: PoolNo,
        /// Why.
        cause: TakenBackCause,
        /// Units by prize.
        units: Quantities,
        /// They left the campaign instead of going back to stock.
        withdrawn: bool,
    },
    /// Every unit of an ended campaign is back; the seed may be revealed.
    Closed {},
    /// Another server came to serve the partition, or the same one was restarted: the numbers of
    /// the entries jump to this one's, the only gap there ever is.
    Forked {
        /// Replication id of the server, 40 hexadecimal digits.
        replid: String,
        /// Number of the last entry before the fork.
        base: u64,
        /// The fork's mark; see [`Unit::fork`].
        mark: u32,
    },
    /// An operator let the partition go on after entries were lost.
    Recovered {
        /// What had halted the partition: replication id of a fork, number of the last acknowledged
        /// entry, number of the last entry of that fork in the store (or -).
        halt: String,
        /// By whom.
        author: Author,
    },
    /// An envelope was created.
    EnvelopeCreated(Box<EnvelopeCreated>),
    /// A user has a packet of an envelope.
    Grab {
        /// Who.
        user: UserId,
        /// The packet's number, from 1.
        packet: u32,
        /// What it holds, in minor units of the envelope's currency.
        amount_minor: u64,
    },
    /// What was left of an envelope went back, once and for all.
    Refund {
        /// Packets that nobody had grabbed.
        packets: u32,
        /// Their sum, in minor units of the envelope's currency.
        amount_minor: u64,
        /// Why.
        cause: RefundCause,
        /// Who cancelled it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<Author>,
    },
}

/// An envelope as it was created: with the seed all that its packets follow from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvelopeCreated {
    /// What was asked for.
    pub envelope: Envelope,
    /// Who may grab; empty: everyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_users: Vec<UserId>,
    /// From when on it can be grabbed.
    pub start: Moment,
    /// From when on it cannot.
    pub expiry: Moment,
    /// The nonce of its seed, hexadecimal.
    pub nonce: String,
    /// SHA-256 of its seed, hexadecimal.
    pub commitment: String,
}

/// Why what was left of an envelope went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundCause {
    /// Its time was over.
    Expired,
    /// An operator cancelled it.
    Cancelled,
}

/// Why units left a pool without being won.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakenBackCause {
    /// An operator, or a smaller plan, recalled them before their release.
    Recalled,
    /// Nobody took them after their release.
    Unclaimed,
    /// The campaign ended.
    Ended,
    /// Entries were lost in a failover, and these units may have been won in them.
    Recovered,
}

/// Units that went from stock to a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Injected {
    /// The pool.
    pub pool: PoolNo,
    /// The window's start.
    pub window: Moment,
    /// 0 for the window's first injection, then a top-up each.
    pub generation: u32,
    /// The plan's version.
    pub version: u32,
    /// The units are scattered from here...
    pub from: Moment,
    /// ...to here: the window's end, or the moment at which a missed window was released.
    pub until: Moment,
    /// What the plan asked for.
    pub planned: Quantities,
    /// Taken over from missed windows.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    pub carried: Quantities,
    /// What stock could give.
    pub granted: Quantities,
    /// Mark of the fork under which they were injected; see [`Unit::fork`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fork: u32,
}

/// Serde hands out references.
fn is_zero(mark: &u32) -> bool {
    *mark == 0
}

/// A draw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawEntry {
    /// The campaign's version.
    pub version: u32,
    /// Who drew.
    pub user: UserId,
    /// The request id.
    pub request: RequestId,
    /// What paid.
    pub funding: Funding,
    /// The caller's reference of the payment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub payment_ref: String,
    /// The caller asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub consolation_only: bool,
    /// One for each of `count`.
    pub results: Vec<DrawResult>,
    /// The user's counts just after.
    pub counts: UserCounts,
}

impl DrawEntry {
    /// Checks that the results are ones that draws of this campaign can have.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] names the prize or the pool that the campaign does not have.
    pub(super) fn check(&self, campaign: &Campaign) -> Result<()> {
        for result in &self.results {
            if let DrawResult::Won { prize, pool, .. } | DrawResult::Forfeited { prize, pool, .. } =
                result
                && (usize::from(prize.0) >= campaign.prizes.len()
                    || usize::from(pool.0) >= campaign.pools.len())
            {
                return Err(StoreError::corrupt(format!(
                    "campaign {}: version {} has no prize {} in pool {}, which a draw took",
                    campaign.id, self.version, prize.0, pool.0
                )));
            }
        }
        Ok(())
    }
}

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

    #[test]
    fn a_draw_entry_reads_back_as_it_was_written() {
        let entry = Body::Draw(DrawEntry {
            version: 3,
            user: UserId::parse("user", "u1").unwrap(),
            request: RequestId::parse("request", "r1").unwrap(),
            funding: Funding::Paid,
            payment_ref: "order 7".into(),
            consolation_only: false,
            results: vec![
                DrawResult::Won {
                    prize: PrizeNo(1),
                    pool: PoolNo(0),
                    unit: Unit {
                        window: 1_795_960_800,
                        fork: 0,
                        number: 17,
                    },
                    release: Some(Moment::from_micros(1_795_960_801_000_000)),
                },
                DrawResult::Won {
                    prize: PrizeNo(1),
                    pool: PoolNo(0),
                    unit: Unit {
                        window: 3,
                        fork: 0x00ab_cdef,
                        number: 4,
                    },
                    release: None,
                },
                DrawResult::Consolation,
                DrawResult::Nothing,
                forfeited(true),
                forfeited(false),
            ],
            counts: UserCounts::default(),
        });
        let json = serde_json::to_string(&entry).unwrap();
        assert!(
            json.contains("[1,0,1795960800,17,1795960801000000],[1,0,3,4,0,11259375],1,0,"),
            "{json}"
        );
        let cards = "[1,[2,1,3,5,0]],[0,[2,1,3,5,0]]]";
        assert!(json.contains(cards), "{json}");
        assert_eq!(serde_json::from_str::<Body>(&json).unwrap(), entry);
    }

    #[test]
    fn an_entry_with_quantities_reads_back_as_it_was_written() {
        let entry = Body::TakenBack {
            pool: PoolNo(1),
            cause: TakenBackCause::Ended,
            units: Quantities::from([(PrizeNo(0), 3), (PrizeNo(12), 1)]),
            withdrawn: false,
        };
        let json = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Body>(&json).unwrap(), entry);
    }
}
