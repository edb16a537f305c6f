use super::super::{
    State, Window,
    state::{PoolState, WindowPrize},
    tests::{COUPON, COUPONS, two_hours},
};
use crate::{
    model::PrizeNo,
    store::{Executed, StoreError},
};

/// The state, once something in it was written over.
fn spoiled(spoil: impl FnOnce(&mut State)) -> State {
    let mut state = two_hours();
    assert_eq!(state.check(), Ok(()));
    spoil(&mut state);
    state
}

fn window(state: &mut State) -> &mut Window {
    let schedule = state.schedule(COUPONS).unwrap();
    schedule.windows.values_mut().next().unwrap()
}

fn coupons(state: &mut State) -> &mut WindowPrize {
    window(state).prizes.get_mut(&COUPON).unwrap()
}

#[test]
fn numbers_that_contradict_each_other_are_found_before_anything_is_decided() {
    let foreign = PrizeNo(999);
    let states: [(&str, State); 14] = [
        (
            "stock",
            spoiled(|s| s.stock[1].remaining = s.stock[1].given + 1),
        ),
        ("withdrawn", spoiled(|s| s.stock[1].withdrawn = u64::MAX)),
        ("stocks", spoiled(|s| s.stock.truncate(1))),
        ("pools", spoiled(|s| s.pools.truncate(1))),
        ("kinds", spoiled(|s| s.pools.reverse())),
        ("held", spoiled(|s| s.view.paused_prizes = [foreign].into())),
        ("placed", spoiled(|s| coupons(s).placed = 11)),
        ("recalled", spoiled(|s| coupons(s).recalled = 11)),
        ("returned", spoiled(|s| coupons(s).returned = u64::MAX)),
        ("filled", spoiled(|s| window(s).fills[0].filled = 11)),
        (
            "end",
            spoiled(|s| window(s).end = crate::model::Moment::EPOCH),
        ),
        (
            "window",
            spoiled(|s| {
                let units = *coupons(s);
                window(s).prizes.insert(foreign, units);
            }),
        ),
        (
            "injected",
            spoiled(|s| {
                s.schedule(COUPONS).unwrap().injected.insert(foreign, 1);
            }),
        ),
        (
            "dealt",
            spoiled(|s| {
                for pool in &mut s.pools {
                    if let PoolState::Deck(deck) = pool {
                        deck.dealt = -1;
                    }
                }
            }),
        ),
    ];
    for (what, state) in states {
        match state.check() {
            Err(StoreError::Corrupt { executed, .. }) => {
                assert_eq!(executed, Executed::No, "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn more_than_there_is_cannot_be_taken_off() {
    use super::super::book::{less, subtract};
    let mut units = crate::model::Quantities::from([(COUPON, 3)]);
    assert!(subtract(&mut units, COUPON, 4).is_err());
    assert!(subtract(&mut units, PrizeNo(7), 1).is_err());
    assert_eq!(units, [(COUPON, 3)].into());
    assert_eq!(subtract(&mut units, PrizeNo(7), 0), Ok(()));
    assert_eq!(subtract(&mut units, COUPON, 3), Ok(()));
    assert!(units.is_empty());
    assert_eq!(less(3, 3), Ok(0));
    assert!(less(3, 4).is_err());
}
