//! Redis hangs, as on a paused machine, and then goes on.
//!
//! `TOMBOLA_HANG_SECONDS` sets for how long it hangs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tombola::{
    model::Moment,
    proto::{DrawResponse, GetDrawRequest},
    store::{
        DrawCommand, DrawResult, Drawn, Refusal, Store as _, StoreError,
        clock::{Clock as _, SystemClock},
        entry::Body,
    },
};
use tonic::{Code, Request};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{
    House, Lottery, PARTITIONS, assert_not_executed, callers::Callers, draws, healthy, request,
    store_at,
};
use crate::{
    faults::{book::Book, kill::setting, load},
    support::{Answer as _, DrawWords as _, all_of, audit, redis_server::until, words},
};

/// A deck in which every card wins: a draw without a win would be false.
const SURE: &str = "
id: sure
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 100, cards: {mug: 100}, onExhausted: RESHUFFLE}}]
";
/// The number of draws that wait while Redis hangs.
const LATE: usize = 40;

fn span() -> Duration {
    Duration::from_secs(setting("TOMBOLA_HANG_SECONDS").unwrap_or(8))
}

async fn find(lottery: &mut Lottery, user: &str, id: &str) -> Option<DrawResponse> {
    let names = GetDrawRequest {
        campaign_id: "sure".into(),
        user_id: user.into(),
        request_id: id.into(),
    };
    match lottery.get_draw(names).await {
        Ok(response) => response.into_inner().draw,
        Err(status) => {
            assert_eq!(status.code(), Code::NotFound, "{status:?}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_hangs_draws_nothing_late_and_nothing_twice() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    load::apply_all(&server, &load::now_and_about_noon(SURE)).await;
    let mut lottery = server.lottery().await;
    for number in 0..LATE {
        draws(&mut lottery, "sure", &format!("u-{number}"), "first").await;
    }
    healthy(&server, Serving).await;
    let callers = Callers::start(&[&server], 5, 0);
    callers.go_on(50).await;

    let begun = Instant::now();
    house.redis.freeze();
    let patience = Duration::from_secs(1);
    let late = {
        let lottery = lottery.clone();
        all_of(LATE, move |number| {
            let mut lottery = lottery.clone();
            async move {
                let mut draw = Request::new(request("sure", &format!("u-{number}"), "late"));
                draw.set_timeout(patience);
                lottery.draw(draw).await.unwrap_err()
            }
        })
        .await
    };
    assert_eq!(late.len(), LATE);
    let over = SystemClock.now();
    // Long enough for the connections to time out. Calls that only read are reported as not
    // executed.
    let names = GetDrawRequest {
        campaign_id: "sure".into(),
        user_id: "u-1".into(),
        request_id: "first".into(),
    };
    let status = lottery.get_draw(names).await.unwrap_err();
    assert_not_executed(&status, Code::Unavailable);
    healthy(&server, NotServing).await;
    tokio::time::sleep(span().saturating_sub(begun.elapsed())).await; // this is the hang itself
    house.redis.thaw();
    healthy(&server, Serving).await;
    callers.go_on(100).await;
    Book::default().settle(&server, callers.end().await).await;

    for number in 0..LATE {
        let user = format!("u-{number}");
        let found = find(&mut lottery, &user, "late").await;
        let again = draws(&mut lottery, "sure", &user, "late").await;
        assert_eq!(again.replayed, found.is_some(), "{again:?}");
        if let Some(found) = found {
            let drawn = found.draw_time.unwrap();
            let drawn =
                Moment::from_micros(drawn.seconds * 1_000_000 + i64::from(drawn.nanos) / 1000);
            assert!(drawn <= over, "drawn when its caller was gone: {found:?}");
        }
        let third = draws(&mut lottery, "sure", &user, "late").await;
        assert_eq!(
            (third.draw_time, third.results),
            (again.draw_time, again.results)
        );
    }
    let store = store_at(&house.redis.url(), PARTITIONS).await;
    let entries = audit::ledger(&store).await;
    let made = entries.iter().filter(|entry| match &entry.body {
        Body::Draw(draw) => {
            let is_ours = entry
                .subject
                .campaign()
                .is_some_and(|id| id.as_str() == "sure");
            let has_won = matches!(draw.results[..], [DrawResult::Won { .. }]);
            assert!(!is_ours || has_won, "a false no win: {draw:?}");
            is_ours && draw.request.as_str() == "late"
        }
        _ => false,
    });
    assert_eq!(made.count(), LATE, "each was drawn once");
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_callers_than_may_wait_for_a_redis_that_hangs_are_sent_away_while_it_hangs() {
    const CALLS: usize = 24_000;
    let house = House::new();
    let server = house.serve();
    load::apply_all(&server, &load::now_and_about_noon(SURE)).await;
    let store = Arc::new(store_at(&house.redis.url(), PARTITIONS).await);
    let command = |number: usize| DrawCommand {
        not_after: SystemClock.now() + words::seconds(5),
        ..words::draw(&format!("u-{number}")).of("sure")
    };
    store.draw(command(0).into()).await.unwrap();
    house.redis.freeze();
    let sent_away = Arc::new(AtomicUsize::new(0));
    let calls: JoinSet<_> = (0..CALLS)
        .map(|number| {
            let (store, command, sent_away) = (store.clone(), command(number), sent_away.clone());
            async move {
                let not_after = command.not_after;
                match store.draw(command.into()).await {
                    Ok(Drawn::Done(answer)) => {
                        assert!(answer.at <= not_after, "drawn too late");
                        assert_eq!(answer.wins(), 1, "a false no win");
                    }
                    Ok(Drawn::NeedFill(_))
                    | Err(
                        StoreError::Unavailable { .. }
                        | StoreError::Refused(Refusal::DeadlineExceeded),
                    ) => {}
                    Err(StoreError::Overloaded) => {
                        sent_away.fetch_add(1, Ordering::SeqCst);
                    }
                    other => panic!("{other:?}"),
                }
            }
        })
        .collect();
    until("callers are sent away", || {
        sent_away.load(Ordering::SeqCst) > CALLS / 8
    });
    house.redis.thaw();
    calls.join_all().await;
    healthy(&server, Serving).await;
    draws(&mut server.lottery().await, "sure", "u-after", "after").await;
    house.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_stopped_while_redis_hangs_ends() {
    let house = House::new();
    let mut server = house.serve();
    load::apply_now(&server).await;
    let callers = Callers::start(&[&server], 6, 0);
    callers.go_on(20).await;
    house.redis.freeze();
    server.signal("TERM");
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    house.redis.thaw();
    let server = house.serve();
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}
