//! What a list asks for.
//!
//! Lists are sorted newest first: by time, then partition, then number, all descending. A page
//! begins after a [`Position`], so entries that are settled in between never move it.

use crate::{
    model::{CampaignId, EnvelopeId, Moment, Patterns, RequestId, UserId},
    store::{Entry, LedgerId},
};

use super::SettledWin;

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// When the entry was written.
    pub at: Moment,
    /// The entry.
    pub id: LedgerId,
    /// The index of the win within its draw; 0 in lists of entries.
    pub index: u16,
}

impl Position {
    /// Where an entry is.
    pub fn of_entry(entry: &Entry) -> Self {
        Self {
            at: entry.at,
            id: entry.id,
            index: 0,
        }
    }

    /// Where a win is.
    pub fn of_win(settled: &SettledWin) -> Self {
        let win = &settled.win;
        let id = LedgerId {
            partition: win.partition,
            sequence: win.sequence,
        };
        Self {
            at: win.at,
            id,
            index: win.number.cast_unsigned(),
        }
    }
}

/// The part of a list that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// From this moment on.
    pub from: Option<Moment>,
    /// Before this moment.
    pub to: Option<Moment>,
    /// Only what comes after this in the list.
    pub after: Option<Position>,
    /// At most this many rows.
    pub limit: usize,
}

/// Which wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WinQuery {
    /// Of this campaign.
    pub campaign: Option<CampaignId>,
    /// Of this prize of the campaign.
    pub prize: Option<String>,
    /// Of this user.
    pub user: Option<UserId>,
    /// Of this unit. Units of several campaigns may have the same id.
    pub unit: Option<String>,
    /// Only of campaigns that these patterns match.
    pub campaigns: Option<Patterns>,
    /// Which part.
    pub range: Range,
}

/// The kinds of entries that a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Draws.
    Draws,
    /// Everything about envelopes.
    Envelopes,
    /// Envelopes that were created.
    EnvelopesCreated,
    /// Packets that were grabbed.
    Grabs,
    /// Refunds of envelopes.
    Refunds,
    /// What operators did, but for deliveries.
    Operations,
    /// Deliveries of wins.
    Deliveries,
}

/// Which entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryQuery {
    /// Of these kinds.
    pub kinds: Kinds,
    /// Of this campaign.
    pub campaign: Option<CampaignId>,
    /// Of this envelope.
    pub envelope: Option<EnvelopeId>,
    /// Of this user.
    pub user: Option<UserId>,
    /// With this request id; only of draws.
    pub request: Option<RequestId>,
    /// Which of them the reader may see.
    pub seen: Seen,
    /// Which part.
    pub range: Range,
}

/// Which entries a reader may see. Entries of no campaign and no envelope are seen by who sees
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of campaigns that these patterns match; of all campaigns if there are none.
    pub campaigns: Option<Patterns>,
    /// Of envelopes whose senders these patterns match; of all envelopes if there are none.
    pub senders: Option<Patterns>,
}

/// Which campaigns whose data have left the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed<'a> {
    /// This one.
    One(&'a CampaignId),
    /// Those whose ids follow this text, at most as many.
    After(&'a str, usize),
}

/// Rows of a list in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<T> {
    /// At most as many as were asked for.
    pub rows: Vec<T>,
    /// Whether there may be more behind them.
    pub more: bool,
}
