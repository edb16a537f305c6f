//! The gate of a campaign: what draws depend on besides the definition, in one packed value that
//! every step but a draw writes.

use std::collections::BTreeSet;

use super::codec::{MOMENT_MAX, Packer};
use crate::{
    model::{Campaign, PoolKind, PoolNo, PrizeNo},
    store::rules::{PoolState, State, Stock},
};

/// The state that draws depend on: lifecycle, number of blocked users, held prizes, and for each
/// pool one value. For a schedule, that is the moment until which it is filled. For a deck, it is 1
/// if more cards will be dealt and 0 if not; or, if stock lacks prizes that forfeited cards can
/// bring back, a list of prizes and numbers: the deck is dealt on once that many cards of each of
/// these prizes are forfeited (those that draws have taken off stock added to the number).
/// For a personal pool, a list of its prizes that are not unlimited, each with a number: with the
/// forfeited cards, as many units as draws may take off stock in all. If the campaign has
/// guarantees, such a list of their prizes follows the pools. Then a
/// list of prizes and numbers of codes that were passed over, and one of prizes and numbers of
/// revoked wins if there is a budget in all; what is empty at the end is left out.
///
/// `taken` are by prize the units that draws have taken off that stock: those of personal pools and
/// of guarantees.
pub(crate) fn encode_gate(state: &State, taken: &[u64]) -> Vec<u8> {
    let mut packer = Packer::default();
    packer.int(state.view.lifecycle.code().into());
    packer.count(state.view.blocked_users);
    packer.list(state.view.paused_prizes.len());
    for prize in state.view.paused_prizes.iter() {
        packer.int(prize.0.into());
    }
    let guarantees = &state.view.campaign.guarantees;
    packer.list(state.pools.len() + usize::from(!guarantees.is_empty()));
    for ((no, _), pool) in state.view.campaign.numbered_pools().zip(&state.pools) {
        match pool {
            PoolState::Schedule(schedule) => {
                packer.moment(schedule.filled_until());
            }
            PoolState::Deck(_) => encode_deck_gate(&mut packer, state, no, taken),
            PoolState::Personal => encode_personal_gate(&mut packer, state, no, taken),
        }
    }
    if !guarantees.is_empty() {
        let prizes = guarantees.iter().flat_map(|it| &it.prizes).copied();
        encode_stock_gate(&mut packer, state, prizes.collect(), taken);
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

fn encode_personal_gate(packer: &mut Packer, state: &State, no: PoolNo, taken: &[u64]) {
    let prizes = match &state.view.campaign.pool(no).kind {
        PoolKind::Personal(personal) => personal.prizes().collect(),
        PoolKind::Schedule(_) | PoolKind::Deck(_) => BTreeSet::new(),
    };
    encode_stock_gate(packer, state, prizes, taken);
}

/// How many units draws may take of those of these prizes that are not unlimited.
fn encode_stock_gate(packer: &mut Packer, state: &State, prizes: BTreeSet<PrizeNo>, taken: &[u64]) {
    let stocked = stocked_for_draws(&state.view.campaign);
    let prizes: Vec<_> = stocked.intersection(&prizes).collect();
    packer.list(prizes.len() * 2);
    for prize in prizes {
        let stock = &state.stock[usize::from(prize.0)];
        let most = i128::from(taken[usize::from(prize.0)]) + i128::from(stock.remaining)
            - i128::from(stock.forfeited);
        packer.int(prize.0.into()).int(clamped(most));
    }
}

fn encode_deck_gate(packer: &mut Packer, state: &State, no: PoolNo, taken: &[u64]) {
    let missing = state.missing_units(no);
    if missing.is_empty() {
        packer.int(i64::from(state.deck_stop(no).is_none()));
        return;
    }
    let stocked = stocked_for_draws(&state.view.campaign);
    packer.list(missing.len() * 2);
    for (prize, units) in missing {
        let index = usize::from(prize.0);
        let forfeited = state.stock[index].forfeited;
        let is_taken = stocked.contains(&prize);
        let taken = if is_taken { taken[index] } else { 0 };
        let least = i128::from(forfeited) + i128::from(units) - i128::from(taken);
        packer.int(prize.0.into()).int(clamped(least));
    }
}

fn clamped(number: i128) -> i64 {
    let most = i128::from(MOMENT_MAX);
    number.clamp(-most, most) as i64
}

/// The prizes that draws take off stock and that are not unlimited.
pub(crate) fn stocked_for_draws(campaign: &Campaign) -> BTreeSet<PrizeNo> {
    campaign
        .prizes_off_stock()
        .filter(|prize| !campaign.prize(*prize).unlimited)
        .collect()
}
