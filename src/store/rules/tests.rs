//! What the stores' suite cannot see from outside: where sweeps look, and the sums that are kept
//! beside the windows.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    chance::{Nonce, Release},
    model::{
        Moment, OperatorId, PoolNo, PrizeNo, RequestId,
        convert::{campaign_from_proto, tests::spring_wheel},
        deck::CardCount,
    },
    store::{
        AdjustCommand, ApplyCommand, Author, DealCommand, FillCommand, Filled, FreezeCommand,
        OperateCommand, Operation, Step, Sweep, Unit,
        entry::{Body, Span},
        fill::{Chunk, PlannedWindow},
    },
};

const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const COUPONS: PoolNo = PoolNo(1);
pub(super) const COUPON: PrizeNo = PrizeNo(1);
const OTHER: PrizeNo = PrizeNo(0);

fn author() -> Author {
    Author::named(
        RequestId::parse("request", "r1").unwrap(),
        OperatorId::parse("operator", "tests").unwrap(),
        "",
    )
}

/// Two hours of ten coupons each are frozen, an hour before the first.
pub(super) fn two_hours() -> State {
    let campaign = Arc::new(campaign_from_proto(&spring_wheel()).unwrap());
    let now = campaign.start - HOUR;
    let command = ApplyCommand {
        campaign,
        base_version: 0,
        nonce: Nonce([0; 32]),
        commitment: String::new(),
        author: author(),
    };
    let mut state = create(&command, now, true).unwrap();
    let start = command.campaign.start;
    let windows = [start, start + HOUR].map(|start| PlannedWindow {
        start,
        end: start + HOUR,
        planned: [(COUPON, 10)].into(),
        windows_left: 2,
    });
    let command = FreezeCommand {
        campaign: command.campaign.id.clone(),
        version: 1,
        pool: COUPONS,
        windows: windows.to_vec(),
    };
    assert_eq!(freeze(&mut state, &command), Ok(Step::Done));
    state
}

/// Puts this number of units of an hour into the pool, one a second.
fn put_in(state: &mut State, window: Moment, units: u64) {
    let at = |second| window + Duration::from_secs(second);
    let release = |second| Release {
        at: at(second),
        prize: COUPON,
    };
    let command = FillCommand {
        campaign: state.view.campaign.id.clone(),
        pool: COUPONS,
        window,
        generation: 0,
        filled: 0,
        units: (0..units).map(release).collect(),
        until: at(units),
    };
    assert_eq!(fill(state, &command), Ok(Filled::Reached(units)));
}

fn recall_hour(state: &mut State, window: Moment) {
    let command = OperateCommand {
        campaign: state.view.campaign.id.clone(),
        operation: Operation::Recall {
            pool: COUPONS,
            window: Some(window),
            prize: None,
            withdraw: false,
        },
        blocks: Vec::new(),
        author: author(),
    };
    assert_eq!(operate(state, &command, &Subjects::None), Ok(0));
}

fn adjust_hour(state: &mut State, window: Moment, units: u64) {
    state.view.version += 1;
    let command = AdjustCommand {
        campaign: state.view.campaign.id.clone(),
        version: state.view.version,
        pool: COUPONS,
        window,
        planned: vec![(COUPON, units)],
    };
    assert_eq!(adjust(state, &command), Ok(Step::Done));
}

/// The units that lie in a range, of an hour filled by [`put_in`] with ten.
fn found(state: &State, window: Moment, sweep: Sweep) -> Vec<Placed> {
    let mut found = Vec::new();
    for range in search(state, sweep) {
        let units = (0..10).map(|number| Placed {
            pool: COUPONS,
            prize: Some(COUPON),
            score: (window + Duration::from_secs(number)).as_micros(),
            unit: Unit {
                window: window.as_seconds(),
                fork: 0,
                number,
            },
        });
        let is_in = |placed: &Placed| {
            (range.pool, range.prize) == (placed.pool, placed.prize)
                && (range.from..=range.to).contains(&placed.score)
        };
        found.extend(units.filter(is_in).rev().take(range.limit));
    }
    found
}

fn check_sums(state: &mut State) {
    let waiting = state.changes.waiting.get(&(COUPONS, Some(COUPON))).copied();
    let stock = state.stock[1];
    let schedule = state.schedule(COUPONS).unwrap();
    let windows = schedule.windows.values();
    let windows = windows.filter_map(|window| window.prizes.get(&COUPON));
    let (injected, returned) = windows.fold((0, 0), |(injected, returned), units| {
        let injected = injected + units.granted - units.recalled;
        (injected, returned + units.returned)
    });
    let kept =
        |quantities: &crate::model::Quantities| quantities.get(&COUPON).copied().unwrap_or(0);
    assert_eq!(kept(&schedule.injected), injected);
    assert_eq!(kept(&schedule.returned), returned);
    assert_eq!(waiting.unwrap_or(0).unsigned_abs(), injected - returned);
    assert_eq!(stock.given, stock.remaining + injected - returned);
}

#[test]
fn a_recall_of_an_hour_to_come_looks_in_that_hour_alone() {
    let mut state = two_hours();
    let first = state.view.campaign.start;
    put_in(&mut state, first, 10);
    put_in(&mut state, first + HOUR, 10);
    recall_hour(&mut state, first + HOUR);
    let window = first + HOUR;
    let sweep = Sweep::Recall {
        pool: COUPONS,
        window,
    };
    let [range] = search(&state, sweep)[..] else {
        panic!("one prize is due");
    };
    assert_eq!(range.from, window.as_micros());
    assert_eq!(range.to, (window + HOUR).as_micros() - 1);
    state.now = window + HOUR / 2;
    let [range] = search(&state, sweep)[..] else {
        panic!("one prize is due");
    };
    assert_eq!(range.from, state.now.as_micros() + 1, "released units stay");
}

#[test]
fn the_sums_beside_the_windows_follow_every_step() {
    let mut state = two_hours();
    let first = state.view.campaign.start;
    let second = first + HOUR;
    check_sums(&mut state);
    put_in(&mut state, first, 10);
    put_in(&mut state, second, 4);
    recall_hour(&mut state, second);
    check_sums(&mut state);
    adjust_hour(&mut state, first, 7);
    let recall = Sweep::Recall {
        pool: COUPONS,
        window: first,
    };
    let latest = found(&state, first, recall);
    assert_eq!(latest.len(), 3, "only what the new plan does not want");
    let swept = sweep(&mut state, recall, latest).unwrap();
    assert!(!swept.more);
    check_sums(&mut state);
    assert!(search(&state, recall).is_empty(), "nothing is due any more");
    adjust_hour(&mut state, first, 9);
    check_sums(&mut state);
    state.now = first + Duration::from_secs(5);
    state.view.lifecycle = crate::store::Lifecycle::Closing;
    let mut rest = found(&state, first, Sweep::Ending);
    rest.drain(..3); // the recalled ones
    let more = sweep(&mut state, Sweep::Ending, rest).unwrap().more;
    assert!(more);
    check_sums(&mut state);
}

/// What was taken back last: how many coupons, and which.
fn last_taken_back(state: &State) -> (u64, Vec<Span>) {
    let mut entries = state.changes.entries.iter().rev();
    let taken_back = entries.find_map(|body| match body {
        Body::TakenBack { units, spans, .. } => Some((units[&COUPON], spans.clone())),
        _ => None,
    });
    taken_back.unwrap()
}

#[test]
fn what_is_taken_back_is_named_unit_by_unit() {
    let mut state = two_hours();
    let first = state.view.campaign.start;
    let span = |window: Moment, generation, first, last| Span {
        window: window.as_seconds(),
        fork: 0,
        generation,
        first,
        last,
    };
    // Of the second hour four units are in the pool; the other six go back at once.
    put_in(&mut state, first + HOUR, 4);
    recall_hour(&mut state, first + HOUR);
    let second = first + HOUR;
    assert_eq!(last_taken_back(&state), (6, vec![span(second, 0, 4, 9)]));
    // Of the first hour's units, some in between are gone, and three are of a top-up.
    put_in(&mut state, first, 10);
    adjust_hour(&mut state, first, 13);
    let Some(Body::Injected(top_up)) = state.changes.entries.last() else {
        panic!("{:?}", state.changes.entries);
    };
    assert_eq!(
        (top_up.generation, &top_up.granted),
        (1, &[(COUPON, 3)].into())
    );
    assert_eq!(top_up.in_force, Some([(COUPON, 13)].into()));
    state.now = first + HOUR;
    state.view.lifecycle = crate::store::Lifecycle::Closing;
    let mut rest = found(&state, first, Sweep::Ending);
    rest.retain(|placed| ![0, 4, 5].contains(&placed.unit.number));
    sweep(&mut state, Sweep::Ending, rest).unwrap();
    let spans = vec![span(first, 0, 1, 3), span(first, 0, 6, 9)];
    assert_eq!(last_taken_back(&state), (7, spans));
    let entries = state.changes.entries.iter().rev();
    let top_up = entries.clone().find_map(|body| match body {
        Body::TakenBack { spans, .. } if spans[0].generation == 1 => Some(spans.clone()),
        _ => None,
    });
    assert_eq!(top_up, Some(vec![span(first, 1, 10, 12)]));
}

#[test]
fn units_that_go_different_ways_are_named_once() {
    let mut state = two_hours();
    let window = state.view.campaign.start + HOUR * 2;
    let command = FreezeCommand {
        campaign: state.view.campaign.id.clone(),
        version: 1,
        pool: COUPONS,
        windows: vec![PlannedWindow {
            start: window,
            end: window + HOUR,
            planned: [(OTHER, 1), (COUPON, 10)].into(),
            windows_left: 1,
        }],
    };
    assert_eq!(freeze(&mut state, &command), Ok(Step::Done));
    put_in(&mut state, window, 4);
    let prizes = &mut state
        .schedule(COUPONS)
        .unwrap()
        .window(window)
        .unwrap()
        .prizes;
    prizes.get_mut(&OTHER).unwrap().withdraw = true;
    state.changes.entries.clear();
    state.truncate_fills(COUPONS, window).unwrap();
    let taken_back = state.changes.entries.iter().map(|body| match body {
        Body::TakenBack {
            units,
            withdrawn,
            spans,
            ..
        } => (units.clone(), *withdrawn, spans.len()),
        body => panic!("{body:?}"),
    });
    assert_eq!(
        taken_back.collect::<Vec<_>>(),
        [
            ([(COUPON, 6)].into(), false, 1),
            ([(OTHER, 1)].into(), true, 0)
        ]
    );
}

/// The next three hours of the state of [`two_hours`] are missed, or not; each with this number of
/// units.
fn freeze_hours(state: &mut State, units: u64, hours: u32) {
    let end = state.view.campaign.start + HOUR * 2;
    let windows = (0..hours).map(|n| PlannedWindow {
        start: end + HOUR * n,
        end: end + HOUR * (n + 1),
        planned: [(COUPON, units)].into(),
        windows_left: u64::from(hours - n),
    });
    let command = FreezeCommand {
        campaign: state.view.campaign.id.clone(),
        version: 1,
        pool: COUPONS,
        windows: windows.collect(),
    };
    assert_eq!(freeze(state, &command), Ok(Step::Done));
}

#[test]
fn an_hour_takes_over_no_more_of_missed_ones_than_an_hour_may_have() {
    let mut state = two_hours();
    let most = crate::model::convert::HOUR_UNITS_MAX;
    state.stock[usize::from(COUPON.0)].remaining = 100 * most;
    // Two of the three have passed.
    state.now = state.view.campaign.start + HOUR * 4;
    freeze_hours(&mut state, most - 1, 3);
    let schedule = state.schedule(COUPONS).unwrap();
    let (_, window) = schedule.windows.last_key_value().unwrap();
    let units = window.prizes[&COUPON];
    assert_eq!((units.planned, units.carried), (most - 1, 1));
    assert_eq!(schedule.carry.units[&COUPON], 2 * (most - 1) - 1);
    assert_eq!(schedule.carry.windows, 1);
}

/// The first 400 cards of a deck, all of one prize.
fn four_chunks(state: &State) -> DealCommand {
    let chunk = |chunk: u64| Chunk {
        round: 1,
        chunk,
        round_cards: 10_000,
        cards: vec![Some(COUPON); 100],
        remaining: vec![CardCount {
            prize: Some(COUPON),
            cards: 9_900 - 100 * chunk,
        }],
    };
    DealCommand {
        campaign: state.view.campaign.id.clone(),
        pool: state.view.campaign.pool_no("everyday").unwrap(),
        expected: (1, 0),
        fork: 0,
        chunks: (0..4).map(chunk).collect(),
    }
}

#[test]
fn of_several_chunks_those_are_dealt_of_which_stock_has_all_units() {
    let mut state = two_hours();
    let command = four_chunks(&state);
    let pool = command.pool;
    state.stock[1].remaining = 270;
    let entries = state.changes.entries.len();
    assert_eq!(deal(&mut state, &command), Ok(Step::Done));
    assert_eq!(state.stock[1].remaining, 70);
    let deck = state.deck(pool).unwrap().clone();
    assert_eq!((deck.round, deck.chunk, deck.dealt), (1, 2, 200));
    assert_eq!(state.deck_lacking(&deck), [(COUPON, 30)].into());
    let numbers = state.changes.units_in.iter().map(|it| it.unit.number);
    assert!(numbers.eq(0..200));
    assert_eq!(state.changes.entries.len(), entries + 2);
    assert_eq!(deal(&mut state, &command), Ok(Step::Stale));
}

#[test]
fn no_chunk_is_dealt_once_all_that_is_left_of_a_deck_is_held() {
    let mut state = two_hours();
    let command = four_chunks(&state);
    let campaign = Arc::make_mut(&mut state.view.campaign);
    let pool = &mut campaign.pools[usize::from(command.pool.0)];
    if let crate::model::PoolKind::Deck(deck) = &mut pool.kind {
        deck.size = 100; // no blanks in later rounds
    }
    state.view.paused_prizes = [COUPON].into();
    assert_eq!(deal(&mut state, &command), Ok(Step::Done));
    assert_eq!(state.deck(command.pool).unwrap().dealt, 100);
}

#[test]
fn one_of_several_deals_stops_a_deck_that_stock_cannot_fill() {
    let mut state = two_hours();
    let pool = state.view.campaign.pool_no("everyday").unwrap();
    let command = DealCommand {
        campaign: state.view.campaign.id.clone(),
        pool,
        expected: (1, 0),
        fork: 0,
        chunks: vec![Chunk {
            round: 1,
            chunk: 0,
            round_cards: 10_000,
            cards: vec![Some(COUPON); 100],
            remaining: Vec::new(),
        }],
    };
    let stock = std::mem::replace(&mut state.stock[1].remaining, 70);
    assert_eq!(deal(&mut state, &command), Ok(Step::Done));
    let lacking = |state: &mut State| {
        let deck = state.deck(pool).unwrap().clone();
        state.deck_lacking(&deck)
    };
    assert_eq!(lacking(&mut state), [(COUPON, 30)].into());
    assert_eq!(deal(&mut state, &command), Ok(Step::Stale));
    state.stock[1].remaining = stock;
    assert!(lacking(&mut state).is_empty());
    assert_eq!(deal(&mut state, &command), Ok(Step::Done));
    assert_eq!(state.stock[1].remaining, stock - 100);
}
