//! Redis has reached its memory limit.

use tombola::proto::DrawRequest;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{House, assert_not_executed, callers::Callers, healthy, request};
use crate::faults::{book::Book, load};

/// A deck so small that a draw of a hundred must have it dealt again.
const DRY: &str = "
id: dry
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_nothing_is_drawn_or_filled_and_nothing_is_half_done() {
    let house = House::new();
    let server = house.serve();
    load::apply_now(&server).await;
    load::apply_all(&server, &load::now_and_about_noon(DRY)).await;
    let mut lottery = server.lottery().await;
    let callers = Callers::start(&[&server], 4, 0);
    callers.go_on(100).await;
    let limit = |bytes| house.redis.command(&["CONFIG", "SET", "maxmemory", bytes]);
    assert_eq!(limit("1"), "OK");
    callers.fail(50).await;
    healthy(&server, NotServing).await;
    let before = house.redis.digest();
    for campaign in load::IDS {
        for number in 0..5 {
            let draw = request(campaign, "u-new", &format!("full-{number}"));
            let status = lottery.draw(draw).await.unwrap_err();
            assert_not_executed(&status, Code::Unavailable);
        }
    }
    let hundred = DrawRequest {
        count: 100,
        ..request("dry", "u-new", "fill")
    };
    let status = lottery.draw(hundred.clone()).await.unwrap_err();
    assert_not_executed(&status, Code::Unavailable);
    assert_eq!(house.redis.digest(), before);
    server.says("raise it with `CONFIG SET maxmemory <bytes>`");
    assert_eq!(limit("0"), "OK");
    callers.go_on(100).await;
    healthy(&server, Serving).await;
    assert!(!lottery.draw(hundred).await.unwrap().into_inner().replayed);
    Book::default().settle(&server, callers.end().await).await;
    house.audit().await;
}
