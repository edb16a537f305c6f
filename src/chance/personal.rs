//! The chance of each user in personal pools: what a draw gives is a function of the seed, the
//! pool, the user's pseudonym and the number of the user's draw there, and of what guarantees have
//! counted.
//!
//! Positions count from 0: a draw that reaches the pool takes the next one, whatever it gives.
//!
//! - **Odds.** The numbers of a draw are those of the stream with the label `("personal", pool id,
//!   pseudonym, position)`. [`rule`] asks for one of some weights: a
//!   single weight above 0 takes no number; else a number below the sum of the weights is drawn
//!   (see [`Stream::below`]), and it is the weight that covers that number when the weights lie
//!   side by side.
//! - **Decks.** A user's round, from 1, is one plus the position divided by the size of the deck.
//!   Its cards are dealt as [`deal`](super::deal()) deals a chunk with all cards of the round, with
//!   the stream of the label `("personal deck", pool id, pseudonym, round)`. The position modulo
//!   the size is the index of the draw's card.
//!
//! The pseudonym is the one of the settled ledger, as its 64 hexadecimal digits.

use std::{fmt, num::NonZeroU64};

use super::{deck::deal_from, seed::Seed, stream::Stream};
use crate::model::{
    Campaign, PoolKind, PoolNo, PrizeNo,
    deck::Deck,
    personal::{Chance, Outcome, PersonalKind, PoolProgress, rule},
};

/// The chance of one user of a campaign; a secret.
#[derive(Clone)]
pub struct UserChance {
    seed: Seed,
    pseudonym: String,
}

/// What a draw of a personal pool gives, if it can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalDraw {
    /// The user's draws of the pool before this one.
    pub position: u64,
    /// None: no prize.
    pub prize: Option<PrizeNo>,
    /// The index of the guarantee that gave it surely.
    pub guarantee: Option<usize>,
    /// How far the user is afterwards. It does not depend on stock, or on the user's limits: no
    /// prize of a guarantee has any of these.
    pub after: PoolProgress,
}

impl UserChance {
    /// The chance of the user with this pseudonym, from the campaign's seed.
    pub fn new(seed: Seed, pseudonym: String) -> Self {
        Self { seed, pseudonym }
    }

    /// What the next draw gives to the user, who is so far; none if the pool is not personal, or
    /// gives the user nothing more. `is_held` says which prizes nobody may have now: they are
    /// paused, or beyond the budget.
    ///
    /// # Panics
    /// If the pool is not of this campaign.
    pub fn draw(
        &self,
        campaign: &Campaign,
        pool: PoolNo,
        progress: &PoolProgress,
        is_held: impl Fn(PrizeNo) -> bool,
    ) -> Option<PersonalDraw> {
        let definition = campaign.pool(pool);
        let PoolKind::Personal(personal) = &definition.kind else {
            return None;
        };
        let position = progress.position;
        if personal.is_used_up(position, |prize| campaign.prize(prize).grand) {
            return None;
        }
        let counters = progress.counters(&personal.guarantees);
        let Outcome { prize, guarantee } = match &personal.kind {
            PersonalKind::Odds(odds) => {
                let mut stream = self.seed.stream(&[
                    b"personal",
                    definition.id.as_str().as_bytes(),
                    self.pseudonym.as_bytes(),
                    &position.to_le_bytes(),
                ]);
                rule::draw(personal, odds, &counters, &is_held, &mut stream)
            }
            PersonalKind::Deck(deck) => Outcome {
                prize: self.card(campaign, pool, deck, position),
                guarantee: None,
            },
        };
        let given = prize.filter(|prize| !is_held(*prize));
        Some(PersonalDraw {
            position,
            prize,
            guarantee,
            after: progress.counting(&personal.guarantees, given),
        })
    }

    /// The prize of the card at a position; none: a blank.
    fn card(
        &self,
        campaign: &Campaign,
        pool: PoolNo,
        deck: &Deck,
        position: u64,
    ) -> Option<PrizeNo> {
        let (round, index) = (position / deck.size + 1, position % deck.size);
        let cards = match round {
            1 => deck.first_round(),
            _ => deck.later_round(|prize| campaign.prize(prize).grand),
        };
        let mut stream = self.seed.stream(&[
            b"personal deck",
            campaign.pool(pool).id.as_str().as_bytes(),
            self.pseudonym.as_bytes(),
            &round.to_le_bytes(),
        ]);
        // A personal deck is small.
        let dealt = deal_from(&mut stream, &cards, index as usize + 1);
        dealt.last().copied().flatten()
    }
}

impl fmt::Debug for UserChance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserChance").finish_non_exhaustive()
    }
}

impl Chance for Stream {
    fn one_of(&mut self, weights: &[u64]) -> usize {
        let mut above = (0..weights.len()).filter(|index| weights[*index] > 0);
        let first = above.next().unwrap_or(0);
        if above.next().is_none() {
            return first;
        }
        let all: u64 = weights.iter().sum();
        let Some(all) = NonZeroU64::new(all) else {
            return first;
        };
        let number = self.below(all);
        let mut end = 0;
        let covered = weights.iter().position(|weight| {
            end += weight;
            number < end
        });
        covered.unwrap_or(first)
    }
}
