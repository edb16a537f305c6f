//! What a sink keeps beside the entries, so that the usual questions need no decoding: units that
//! were won, and the prizes of each version.

use crate::{
    model::{Campaign, Moment},
    store::{
        DrawResult, Entry,
        entry::{Body, DrawEntry},
    },
};

/// A unit that was won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Win {
    /// The partition of the draw's entry.
    pub partition: u32,
    /// The number of the draw's entry.
    pub sequence: u64,
    /// The index of the result within the draw, from 0.
    pub number: i16,
    /// When it was won.
    pub at: Moment,
    /// The campaign's id.
    pub campaign: String,
    /// The campaign's version.
    pub version: u32,
    /// Who won it.
    pub user: String,
    /// The draw's request id.
    pub request: String,
    /// The pool's id; empty for a win of a guarantee of the campaign.
    pub pool: String,
    /// The prize's id.
    pub prize: String,
    /// The unit's id.
    pub unit: String,
    /// From when it could be won; none for a card of a deck.
    pub release: Option<Moment>,
}

/// The draw of an entry; none if it is about something else.
pub fn draw_of(entry: &Entry) -> Option<&DrawEntry> {
    match &entry.body {
        Body::Draw(draw) => Some(draw),
        _ => None,
    }
}

/// The index of the code that a win of this draw got, if its prize has codes.
pub fn code_of(draw: &DrawEntry, win: &Win) -> Option<u64> {
    match draw.results.get(usize::try_from(win.number).ok()?)? {
        DrawResult::Won { code, .. } => *code,
        DrawResult::NotWon { .. } => None,
    }
}

/// The units that a draw won. `campaign` is the version under which it was made; prizes or pools
/// that this version does not have give none.
pub fn wins(entry: &Entry, draw: &DrawEntry, campaign: &Campaign) -> Option<Vec<Win>> {
    let mut wins = Vec::new();
    for (number, result) in (0..).zip(&draw.results) {
        let DrawResult::Won {
            prize,
            pool,
            unit,
            release,
            ..
        } = result
        else {
            continue;
        };
        let pool = campaign.pool_name(*pool)?;
        wins.push(Win {
            partition: entry.id.partition,
            sequence: entry.id.sequence,
            number,
            at: entry.at,
            campaign: campaign.id.to_string(),
            version: draw.version,
            user: draw.user.as_str().into(),
            request: draw.request.as_str().into(),
            pool: pool.to_string(),
            prize: campaign.prizes.get(usize::from(prize.0))?.id.to_string(),
            unit: unit.id(pool),
            release: *release,
        });
    }
    Some(wins)
}
