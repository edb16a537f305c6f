//! The state of a campaign that draws depend on and that changes without a new version.

use super::codec::Packer;
use crate::{
    model::PoolNo,
    store::rules::{PoolState, State, Stock},
};

/// The state that draws depend on: lifecycle, number of blocked users, held prizes, and for each
/// pool one value. For a schedule, that is the moment until which it is filled. For a deck, it is 1
/// if more cards will be dealt and 0 if not; or, if stock lacks prizes that forfeited cards can
/// bring back, a list of prizes and numbers: the deck is dealt on once that many cards of each of
/// these prizes are forfeited. Then a list of prizes and numbers of codes that were passed over,
/// and one of prizes and numbers of revoked wins if there is a budget in all; what is empty at the
/// end is left out.
pub(crate) fn encode_gate(state: &State) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.int(state.view.lifecycle.code().into());
    packer.count(state.view.blocked_users);
    packer.list(state.view.paused_prizes.len());
    for prize in state.view.paused_prizes.iter() {
        packer.int(prize.0.into());
    }
    packer.list(state.pools.len());
    for ((no, _), pool) in state.view.campaign.numbered_pools().zip(&state.pools) {
        match pool {
            PoolState::Schedule(schedule) => {
                packer.moment(schedule.filled_until());
            }
            PoolState::Deck(_) => encode_deck_gate(&mut packer, state, no),
        }
    }
    let budget = state.view.campaign.budget.as_ref();
    let needs_revoked = budget.is_some_and(|budget| budget.total.is_some());
    let revoked = counted(state, |stock| stock.revoked).filter(|_| needs_revoked);
    let revoked: Vec<_> = revoked.collect();
    let skipped: Vec<_> = counted(state, |stock| stock.skipped).collect();
    if !skipped.is_empty() || !revoked.is_empty() {
        pack_counts(&mut packer, &skipped);
    }
    if !revoked.is_empty() {
        pack_counts(&mut packer, &revoked);
    }
    packer.done()
}

/// Each prize of which something was counted, with the count.
fn counted(state: &State, count: fn(&Stock) -> u64) -> impl Iterator<Item = (u64, u64)> {
    let counts = (0..).zip(state.stock.iter().map(count));
    counts.filter(|(_, count)| *count > 0)
}

fn pack_counts(packer: &mut Packer, counts: &[(u64, u64)]) {
    packer.list(counts.len() * 2);
    for (prize, count) in counts {
        packer.count(*prize).count(*count);
    }
}

fn encode_deck_gate(packer: &mut Packer, state: &State, no: PoolNo) {
    let missing = state.missing_units(no);
    if missing.is_empty() {
        packer.int(i64::from(state.deck_stop(no).is_none()));
        return;
    }
    packer.list(missing.len() * 2);
    for (prize, units) in missing {
        let forfeited = state.stock[usize::from(prize.0)].forfeited;
        packer.int(prize.0.into()).count(forfeited + units);
    }
}
