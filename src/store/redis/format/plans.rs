//! What a service plans for draws from personal pools, as the draw script takes it, and what the
//! script replies if it was planned from something else than what is stored.
//!
//! | what | values |
//! |---|---|
//! | plans of a campaign | the held prizes as a text of their numbers with commas between them, in the order in which they are stored; a list of the watched prizes (those of guarantees that the budget may hold); for each draw its plan as a text, empty if there is none |
//! | a plan | for each personal pool: its number, the progress before (see `record`; empty if there is none), a list of steps |
//! | a step | the prize (-1: none), the result if there is none (else empty), the index of the guarantee that gives the prize (-1: chance does); if there are watched prizes, those that it takes the budget to hold, as a text; the progress after |
//! | a wrong guess | the held prizes; if there are watched prizes, the pool, the index of the step, and those that the budget holds in it; the progress in all personal pools, if there is any |
//!
//! The budget holds a prize for everybody, from the win on that leaves too little of it. This may
//! be a win of the same request, so each step names what it takes to be held.

use super::{
    codec::{Packer, Unpacker, encode_unit, malformed},
    counts::{decode_progress, pool_progress},
    keys::slot,
    results::BLANK,
};
use crate::{
    chance::{UserChance, personal::PersonalDraw},
    model::{
        Campaign, PoolNo, PrizeNo,
        personal::{PoolProgress, Progress},
    },
    store::{Result, Unit},
};

/// Bytes of a unit's score.
const SCORE_BYTES: usize = 7;

/// Held prizes as the script compares them.
pub(crate) fn held_text(held: &[PrizeNo]) -> String {
    let numbers: Vec<String> = held.iter().map(|prize| prize.0.to_string()).collect();
    numbers.join(",")
}

fn decode_held(text: &str) -> Result<Vec<PrizeNo>> {
    let numbers = text.split(',').filter(|number| !number.is_empty());
    let prizes = numbers.map(|number| number.parse().map(PrizeNo).map_err(|_| malformed()));
    prizes.collect()
}

/// Watched prizes that the budget holds, from a step of a request in a pool on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) pool: PoolNo,
    /// The index of the step, from 0.
    pub(crate) step: u32,
    /// In ascending order.
    pub(crate) prizes: Vec<PrizeNo>,
}

/// What is stored, where a draw was planned from something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) held: Vec<PrizeNo>,
    /// None if no prizes are watched.
    pub(crate) over: Option<Over>,
    pub(crate) progress: Progress,
}

/// Reads the reply to a draw that was planned from something else.
pub(crate) fn decode_guess(bytes: &[u8], is_watched: bool) -> Result<Stored> {
    let mut unpacker = Unpacker::new(bytes);
    let held = decode_held(unpacker.text()?)?;
    let over = match is_watched {
        true => Some(Over {
            pool: PoolNo(unpacker.int()?),
            step: unpacker.int()?,
            prizes: decode_held(unpacker.text()?)?,
        }),
        false => None,
    };
    let progress = match unpacker.is_done() {
        true => Progress::default(),
        false => decode_progress(&mut unpacker)?,
    };
    unpacker.finish(Stored {
        held,
        over,
        progress,
    })
}

/// The plan of a command's draws in one personal pool.
pub(crate) struct PoolPlan<'a> {
    pub(crate) campaign: &'a Campaign,
    pub(crate) pool: PoolNo,
    pub(crate) held: &'a [PrizeNo],
    /// Prizes are watched.
    pub(crate) is_watched: bool,
    /// Those that the budget holds, at first and from a step of this pool on, in ascending order.
    pub(crate) over: Vec<(u32, &'a [PrizeNo])>,
}

impl PoolPlan<'_> {
    /// Adds the plan of as many draws to a draw's plan, for a user who is so far. The result is how
    /// far the user is once all of them have reached the pool.
    pub(crate) fn pack(
        &self,
        packer: &mut Packer,
        chance: &UserChance,
        before: Option<&PoolProgress>,
        draws: u32,
    ) -> PoolProgress {
        let known = before.map(pool_progress).unwrap_or_default();
        packer.count(self.pool.0.into()).bytes(&known);
        let mut progress = before.cloned().unwrap_or_default();
        let (mut steps, mut values) = (Packer::default(), 0);
        for step in 0..draws {
            let over = self.over_in(step);
            let is_held = |prize| self.held.contains(&prize) || over.contains(&prize);
            let Some(draw) = chance.draw(self.campaign, self.pool, &progress, is_held) else {
                break;
            };
            values += self.pack_step(&mut steps, &draw, over);
            progress = draw.after;
        }
        packer.list(values).0.extend(steps.done());
        progress
    }

    /// The watched prizes that the budget holds in a step.
    fn over_in(&self, step: u32) -> &[PrizeNo] {
        let known = self.over.iter().rev();
        let known = known.filter(|(from, _)| *from <= step);
        known.map(|(_, prizes)| *prizes).next().unwrap_or_default()
    }

    /// Adds a step; the number of its values.
    fn pack_step(&self, steps: &mut Packer, draw: &PersonalDraw, over: &[PrizeNo]) -> usize {
        steps.int(slot(draw.prize).into());
        steps.bytes(&match draw.prize {
            Some(_) => Vec::new(),
            None => self.blank(draw.position),
        });
        let guarantee = draw.guarantee.and_then(|index| i64::try_from(index).ok());
        steps.int(guarantee.unwrap_or(-1));
        if self.is_watched {
            steps.bytes(held_text(over).as_bytes());
        }
        steps.bytes(&pool_progress(&draw.after));
        if self.is_watched { 5 } else { 4 }
    }

    /// The result of a draw that gives nothing, at this position.
    fn blank(&self, position: u64) -> Vec<u8> {
        let unit = Unit {
            window: 0,
            fork: 0,
            number: position,
        };
        let given = i64::from(self.campaign.consolation.is_some());
        let mut packer = Packer::default();
        packer.int(i64::from(BLANK) - given);
        packer.count(self.pool.0.into());
        packer.0.extend(&encode_unit(0, unit)[SCORE_BYTES..]);
        packer.done()
    }
}
