//! Operations on a single win: it is delivered, or revoked.
//!
//! The store knows what became of each win that is not pending any more. So a win is revoked at
//! most once, and delivered under one reference, whatever runs at the same time.

use crate::store::{
    Delivery, DeliveryState, Lifecycle, Refusal, Result, StoreError, WinCommand, WinOperated,
    WinOperation, entry::Body,
};

use super::state::State;

/// What a store reads of a win.
#[derive(Clone, Debug)]
pub(in crate::store) struct KnownWin {
    /// Units of its prize that were ever won.
    pub(in crate::store) won: u64,
    /// What became of it; none while it is pending.
    pub(in crate::store) delivery: Option<Delivery>,
}

impl KnownWin {
    /// The reply to a request that was answered before.
    pub(in crate::store) fn replay(self) -> Result<WinOperated> {
        let lost = || StoreError::corrupt("nothing became of a win that was operated on");
        Ok(WinOperated {
            replayed: true,
            delivery: self.delivery.ok_or_else(lost)?,
        })
    }
}

/// Does what is asked about a win.
pub(in crate::store) fn operate_win(
    state: &mut State,
    command: &WinCommand,
    known: KnownWin,
) -> Result<WinOperated> {
    refuse_unknown(state, command)?;
    match (&command.operation, known.delivery) {
        (_, Some(delivery)) if delivery.state == DeliveryState::Revoked => {
            Err(Refusal::WinRevoked(delivery.at).into())
        }
        (WinOperation::Deliver { reference }, Some(delivery)) => {
            if delivery.reference == *reference {
                return Ok(WinOperated {
                    replayed: true,
                    delivery,
                });
            }
            Err(Refusal::WinDelivered(delivery.reference).into())
        }
        (WinOperation::Deliver { reference }, None) => Ok(deliver(state, command, reference)),
        (WinOperation::Revoke { withdraw }, delivery) => {
            let reference = delivery.map_or_else(String::new, |delivery| delivery.reference);
            revoke(state, command, *withdraw, (known.won, reference))
        }
    }
}

/// The caller may have read the numbers from a version that was replaced since.
fn refuse_unknown(state: &State, command: &WinCommand) -> Result<()> {
    let campaign = &state.view.campaign;
    let (pool, prize) = (command.win.pool, command.win.prize);
    if campaign.pool_name(pool).is_none() {
        return Err(Refusal::PoolNotFound(format!("number {}", pool.0)).into());
    }
    if usize::from(prize.0) >= campaign.prizes.len() {
        return Err(Refusal::PrizeNotFound(format!("number {}", prize.0)).into());
    }
    Ok(())
}

fn deliver(state: &mut State, command: &WinCommand, reference: &str) -> WinOperated {
    let body = Body::Delivered {
        version: state.view.version,
        win: command.win.clone(),
        reference: reference.to_owned(),
        author: command.author.clone(),
    };
    note(state, command, (DeliveryState::Delivered, reference), body)
}

fn revoke(
    state: &mut State,
    command: &WinCommand,
    withdraw: bool,
    (won, reference): (u64, String),
) -> Result<WinOperated> {
    let prize = command.win.prize;
    // The code of a revoked win is never given to anybody else, so there is none for its unit.
    let has_code = state.view.campaign.prize(prize).codes;
    let withdrawn = withdraw || has_code || is_over(state);
    let stock = state.stock_mut(prize)?;
    if stock.revoked >= won {
        return Err(StoreError::corrupt(format!(
            "a win of prize {} is to be revoked, but all {won} that were won are revoked: {:?}",
            prize.0, command.win.unit
        )));
    }
    stock.revoked += 1;
    if withdrawn {
        stock.withdrawn += 1;
    } else {
        stock.remaining += 1;
    }
    let body = Body::Revoked {
        version: state.view.version,
        win: command.win.clone(),
        withdraw,
        withdrawn,
        author: command.author.clone(),
    };
    Ok(note(
        state,
        command,
        (DeliveryState::Revoked, &reference),
        body,
    ))
}

/// Nobody can win anything any more.
fn is_over(state: &State) -> bool {
    let is_closed = match state.view.lifecycle {
        Lifecycle::Open | Lifecycle::Paused => false,
        Lifecycle::Closing | Lifecycle::Closed => true,
    };
    is_closed || state.now >= state.view.campaign.end
}

fn note(
    state: &mut State,
    command: &WinCommand,
    (to, reference): (DeliveryState, &str),
    body: Body,
) -> WinOperated {
    let delivery = Delivery {
        state: to,
        reference: reference.to_owned(),
        at: state.now,
    };
    let changes = &mut state.changes;
    changes.entries.push(body);
    changes.request = Some(command.author.request.clone());
    changes.delivery = Some((command.win.pool, command.win.unit, delivery.clone()));
    WinOperated {
        replayed: false,
        delivery,
    }
}
