use std::future::pending;

use redis::Value;
use tokio::task::JoinSet;

use super::*;
use crate::{
    model::Moment,
    store::{
        Executed,
        redis::{
            batch::{Group, tests::core},
            format::reply::Parts,
        },
    },
};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    Work,
    PanicBeforeRedis,
    PanicAtRedis,
    PanicAfterRedis,
    Hang,
    FillABatch,
    PanicAtTaking,
}

impl Call for Act {
    type Answer = ();
    type Subject = Self;
    type Known = Self;
    const SCRIPT: &'static str = "test";

    fn subject(&self) -> &Self {
        self
    }

    fn units(&self) -> usize {
        match self {
            Self::FillABatch => BATCH_UNITS_MAX,
            Self::PanicAtTaking => panic!("at taking"),
            _ => 1,
        }
    }

    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    fn known(&self, _core: &Core) -> Option<Self> {
        assert_ne!(*self, Self::PanicBeforeRedis);
        Some(*self)
    }

    async fn read(_core: &Core, _acts: &[Self]) -> Vec<Result<Self>> {
        Vec::new()
    }

    async fn send(_core: &Core, groups: &mut [Group<Self>]) -> Result<(Moment, Parts)> {
        for group in groups.iter() {
            assert_ne!(group.known, Self::PanicAtRedis);
            if group.known == Self::Hang {
                pending::<()>().await;
            }
        }
        let replies = groups.iter().map(|_| Value::Nil).collect();
        Ok((Moment::EPOCH, Parts::of(Value::Array(replies))?))
    }

    fn answers(
        _core: &Core,
        group: &Group<Self>,
        _now: Moment,
        _reply: Value,
    ) -> Result<Option<Vec<Result<()>>>> {
        assert_ne!(group.known, Self::PanicAfterRedis);
        Ok(Some(vec![Ok(()); group.len()]))
    }
}

#[tokio::test]
async fn calls_that_waited_for_too_long_or_for_nobody_are_not_sent() {
    let (lane, now) = (Lane::new(), Instant::now());
    let mut answers = Vec::new();
    for waited_ms in [30, 20, 10, 0] {
        let (mut waiting, answer) = Waiting::new(Act::Work);
        waiting.since = now - Duration::from_millis(waited_ms);
        lane.push(waiting).unwrap();
        answers.push(answer);
    }
    drop(answers.remove(2));
    let limit = Duration::from_millis(15);
    let mut batch = Vec::new();
    assert!(lane.take(&mut batch, |since| now - since <= limit));
    assert_eq!((batch.len(), lane.waiting()), (1, 0));
    for answer in answers.drain(..2) {
        assert_eq!(answer.await, Err(StoreError::Overloaded));
    }
}

fn executed(answer: Result<()>) -> Executed {
    match answer {
        Err(StoreError::Unavailable { executed, .. }) => executed,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lane_that_panics_goes_on_and_says_what_may_have_happened() {
    let lanes = Lanes::<Act>::start(&Arc::new(core()));
    for (act, truth) in [
        (Act::PanicBeforeRedis, Executed::No),
        (Act::PanicAtRedis, Executed::Unknown),
        (Act::PanicAfterRedis, Executed::Unknown),
    ] {
        // Both are in the same batch, since the lane runs once both wait.
        let (at_fault, beside) = tokio::join!(lanes.call(0, 0, act), lanes.call(0, 0, Act::Work));
        assert_eq!(executed(at_fault), truth, "{act:?}");
        assert_eq!(executed(beside), truth, "{act:?}");
        assert_eq!(lanes.call(0, 0, Act::Work).await, Ok(()), "{act:?}");
    }
}

#[tokio::test]
async fn a_lane_that_panics_while_it_takes_a_batch_goes_on() {
    let lanes = Lanes::<Act>::start(&Arc::new(core()));
    let (at_fault, behind) = tokio::join!(
        lanes.call(0, 0, Act::PanicAtTaking),
        lanes.call(0, 0, Act::Work)
    );
    assert_eq!((executed(at_fault), behind), (Executed::No, Ok(())));
}

#[tokio::test]
async fn what_waits_behind_a_batch_that_panics_is_done() {
    let lanes = Arc::new(Lanes::<Act>::start(&Arc::new(core())));
    let mut calls = JoinSet::new();
    for index in 0..=BATCH_UNITS_MAX {
        let lanes = Arc::clone(&lanes);
        let is_behind = index == BATCH_UNITS_MAX;
        let act = if is_behind {
            Act::Work
        } else {
            Act::PanicAtRedis
        };
        calls.spawn(async move { (is_behind, lanes.call(0, 0, act).await) });
    }
    while let Some(answer) = calls.join_next().await {
        match answer.unwrap() {
            (true, answer) => assert_eq!(answer, Ok(())),
            (false, answer) => assert_eq!(executed(answer), Executed::Unknown),
        }
    }
}

#[tokio::test]
async fn a_lane_that_does_not_move_is_noticed_and_an_idle_one_is_not() {
    let lanes = Arc::new(Lanes::<Act>::start(&Arc::new(core())));
    assert_eq!(lanes.call(0, 0, Act::Work).await, Ok(()));
    let later = Instant::now() + STUCK_AFTER + Duration::from_secs(60);
    assert_eq!(lanes.stuck_at(later), None);
    let hanging = Arc::clone(&lanes);
    let call = tokio::spawn(async move { hanging.call(0, 0, Act::Hang).await });
    while lanes.stuck_at(later).is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(lanes.stuck(), None);
    let second = Arc::clone(&lanes);
    let waits = tokio::spawn(async move { second.call(0, 0, Act::Work).await });
    while lanes.busy(LaneKind::Draws).waiting == 0 {
        tokio::task::yield_now().await;
    }
    let busy = lanes.busy(LaneKind::Draws);
    assert_eq!((busy.lanes, busy.waiting), (LANES, 1));
    assert!(busy.busy.is_some());
    waits.abort();
    assert!(lanes.stuck_at(later).is_some());
    call.abort();
}

/// Begins calls of a user at once.
fn begin(lanes: &Arc<Lanes<Act>>, user: u8, calls: usize, act: Act) -> JoinSet<Result<()>> {
    let calls = (0..calls).map(|_| {
        let lanes = Arc::clone(lanes);
        async move { lanes.call(0, user, act).await }
    });
    calls.collect()
}

#[tokio::test]
async fn lanes_share_a_batch_and_neither_begins_another_meanwhile() {
    let lanes = Arc::new(Lanes::<Act>::start(&Arc::new(core())));
    let (at_fault, beside) = tokio::join!(
        lanes.call(0, 0, Act::PanicAtRedis),
        lanes.call(0, 1, Act::Work)
    );
    assert_eq!(executed(at_fault), Executed::Unknown);
    assert_eq!(executed(beside), Executed::Unknown, "in the same batch");
    let _first = (
        begin(&lanes, 0, 1, Act::Hang),
        begin(&lanes, 1, 1, Act::Work),
    );
    while lanes.busy(LaneKind::Draws).busy.is_none() {
        tokio::task::yield_now().await;
    }
    let mut second = begin(&lanes, 1, ALONE_FROM, Act::Work);
    for _ in 0..10 * ALONE_FROM {
        tokio::task::yield_now().await;
    }
    assert_eq!(lanes.busy(LaneKind::Draws).waiting, ALONE_FROM);
    assert!(second.try_join_next().is_none());
}

#[tokio::test]
async fn a_lane_in_which_many_calls_wait_does_not_wait_for_the_other() {
    let lanes = Arc::new(Lanes::<Act>::start(&Arc::new(core())));
    let _first = begin(&lanes, 0, ALONE_FROM, Act::Hang);
    while lanes.busy(LaneKind::Draws).busy.is_none() {
        tokio::task::yield_now().await;
    }
    let mut many = begin(&lanes, 1, ALONE_FROM, Act::Work);
    while let Some(answer) = many.join_next().await {
        assert_eq!(answer.unwrap(), Ok(()));
    }
    let _few = begin(&lanes, 1, 1, Act::Work);
    while lanes.busy(LaneKind::Draws).waiting == 0 {
        tokio::task::yield_now().await;
    }
    assert!(lanes.busy(LaneKind::Draws).busy.is_some());
}

#[tokio::test]
async fn what_waits_when_lanes_are_dropped_is_done() {
    let lanes = Lanes::<Act>::start(&Arc::new(core()));
    let call = lanes.call(0, 0, Act::Work);
    drop(lanes);
    assert_eq!(call.await, Ok(()));
}

#[tokio::test]
async fn a_call_that_did_not_fit_into_the_batch_waits() {
    let lanes = Arc::new(Lanes::<Act>::start(&Arc::new(core())));
    let calls = [Act::Hang, Act::FillABatch].map(|act| {
        let lanes = Arc::clone(&lanes);
        tokio::spawn(async move { lanes.call(0, 0, act).await })
    });
    while lanes.busy(LaneKind::Draws).busy.is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(lanes.busy(LaneKind::Draws).waiting, 1);
    for call in calls {
        call.abort();
    }
}
