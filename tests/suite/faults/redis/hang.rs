//! Redis hangs, as a machine that is paused does, and goes on.
//!
//! `TOMBOLA_HANG_SECONDS` sets for how long.

use std::time::{Duration, Instant};

use tombola::{
    injector::Injector,
    model::Moment,
    proto::{DrawResponse, GetDrawRequest},
    store::{
        DrawCommand, Executed, Refusal, Store as _, StoreError,
        clock::{Clock as _, SystemClock},
        entry::{Body, DrawResult},
    },
};
use tonic::{Code, Request};
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{House, Lottery, callers::Callers, draws, healthy, request, store_at};
use crate::{
    faults::{book::Book, kill::setting, load},
    support::{all_of, audit, words},
};

/// A deck that wins always: any draw that wins nothing is a lie.
const SURE: &str = "
id: sure
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 100, cards: {mug: 100}, onExhausted: RESHUFFLE}}]
";
/// Draws that wait while it hangs.
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
    let store = store_at(&house.redis.url()).await;
    let entries = audit::ledger(&store).await;
    let made = entries.iter().filter(|entry| match &entry.body {
        Body::Draw(draw) => {
            let is_ours = entry.campaign.as_str() == "sure";
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
async fn more_callers_than_may_wait_for_a_redis_that_hangs_are_sent_away_at_once() {
    const CALLS: usize = 24_000;
    let house = House::new();
    let server = house.serve();
    load::apply_all(&server, &load::now_and_about_noon(SURE)).await;
    let store = std::sync::Arc::new(store_at(&house.redis.url()).await);
    let injector = std::sync::Arc::new(Injector::new(
        store.clone(),
        crate::support::world::key(),
        words::minutes(5),
    ));
    let command = |number: usize, seconds: u64| DrawCommand {
        campaign: words::campaign_id("sure"),
        not_after: SystemClock.now() + words::seconds(seconds),
        ..words::draw(&format!("u-{number}"))
    };
    injector.draw(command(0, 60)).await.unwrap();
    house.redis.freeze();
    let calls = {
        let store = store.clone();
        all_of(CALLS, move |number| {
            let store = store.clone();
            let command = command(number, 2);
            async move {
                match store.draw(command).await {
                    Err(StoreError::Overloaded) => (true, SystemClock.now()),
                    Err(
                        StoreError::Unavailable {
                            executed: Executed::Unknown,
                            ..
                        }
                        | StoreError::Refused(Refusal::DeadlineExceeded),
                    ) => (false, SystemClock.now()),
                    other => panic!("{other:?}"),
                }
            }
        })
        .await
    };
    let sent_away = calls.iter().filter(|(is_sent_away, _)| *is_sent_away);
    assert!(
        sent_away.clone().count() > CALLS / 8,
        "{}",
        sent_away.count()
    );
    let last = sent_away.map(|(_, at)| *at).max().unwrap();
    let others = calls.iter().filter(|(is_sent_away, _)| !is_sent_away);
    let first = others.map(|(_, at)| *at).min().unwrap();
    assert!(last < first, "who is sent away does not wait for Redis");
    house.redis.thaw();
    let entries_before = audit::ledger(&*store).await.len();
    injector.draw(command(1, 60)).await.unwrap();
    let entries = audit::ledger(&*store).await;
    assert!(
        entries.len() <= entries_before + 2,
        "what was sent before was too late"
    );
    house.audit().await;
}
