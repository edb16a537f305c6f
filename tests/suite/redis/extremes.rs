//! The largest allowed input, and damaged data: the scripts handle both.

use std::sync::Arc;

use tombola::{
    model::PrizeNo,
    store::{Operation, StoreError},
};

use crate::support::{
    Answer as _, DrawWords as _, World, all_of, draw, hours, on_redis::OnRedis,
    redis_server::RedisServer, user, words::campaign_id,
};

async fn world(server: &Arc<RedisServer>) -> World {
    World::new(OnRedis::at(&server.url(), server.clone())).await
}

/// A hundred prizes, each in twenty pools: ten schedules and ten decks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_campaign_is_injected_drawn_held_recalled_and_closed() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = world(&server).await;
    let list = |of: &dyn Fn(u32) -> String| (0..100).map(of).collect::<Vec<_>>().join(", ");
    let prizes = list(&|n| format!("{{id: p{n}, stock: 1000}}"));
    let per_hour = list(&|n| format!("p{n}: 1"));
    let schedules = (0..10).map(|n| format!("s{n}, schedule: {{perHour: {{{per_hour}}}}}"));
    let decks = (0..10).map(|n| format!("d{n}, deck: {{size: 1000, cards: {{{per_hour}}}}}"));
    let pools = schedules
        .chain(decks)
        .map(|pool| format!("  - {{id: {pool}}}\n"));
    let pools: String = pools.collect();
    let yaml = format!(
        "endTime: 2026-11-20T03:00:00+08:00\nconsolation: {{id: points}}\nprizes: \
         [{prizes}]\npools:\n{pools}"
    );
    let campaign = world.begin(&yaml).await;
    world.tick().await;
    world.set_time(campaign.start + hours(1)).await;
    world.tick().await;
    // All released units of ten pools, then card after card.
    let answers = all_of(20, |n| {
        let world = world.clone();
        async move { world.draw(draw(&format!("u{n}")).times(100)).await }
    })
    .await;
    let wins: usize = answers.iter().map(|answer| answer.wins()).sum();
    assert_eq!(wins, 1000 + 100);
    for prize in (0..100).map(PrizeNo) {
        world.operate(Operation::PausePrize { prize }).await;
    }
    assert_eq!(world.draw(draw("u").times(100)).await.wins(), 0);
    for prize in (0..100).map(PrizeNo) {
        world.operate(Operation::ResumePrize { prize }).await;
    }
    let recall = Operation::Recall {
        pool: tombola::model::PoolNo(0),
        window: None,
        prize: None,
        withdraw: true,
    };
    world.operate(recall).await;
    world.operate(Operation::Close).await;
    world.tick().await;
    let stats = world.stats().await;
    assert!(stats.prizes.iter().all(|prize| prize.waiting == 0));
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_users_are_granted_blocked_and_freed_at_once() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = world(&server).await;
    let campaign = world
        .begin(
            "limits: {drawsPerDay: 1}\nconsolation: {id: points}\nprizes: [{id: coupon, stock: \
            10}]\npools: [{id: deck, deck: {size: 10, cards: {coupon: 10}}}]",
        )
        .await;
    let users: Vec<_> = (0..1000).map(|n| user(&format!("{n:0>128}"))).collect();
    let drawing = world.clone();
    // Some of them draw meanwhile: none of their records is lost.
    let draws = tokio::spawn(all_of(200, move |n| {
        let world = drawing.clone();
        async move { world.draw(draw(&format!("{n:0>128}"))).await }
    }));
    for (n, draws) in [(0, 10_000), (1, 1)] {
        let grant = Operation::Grant {
            users: users.clone(),
            draws,
            expires: campaign.end + hours(n),
        };
        assert_eq!(world.operate(grant).await.users, 1000);
    }
    draws.await.unwrap();
    let blocked = users.clone();
    let operated = world.operate(Operation::Block { users: blocked }).await;
    assert_eq!(operated.users, 1000);
    let operated = world.operate(Operation::Unblock { users }).await;
    assert_eq!(operated.users, 1000);
    for n in [0, 199, 999] {
        let name = format!("{n:0>128}");
        assert_eq!(world.record(&name).await.bonus_left(), 10_001);
        world.draw(draw(&name).times(100)).await;
    }
    world.audit().await;
}

/// As if a service with another release of the time-zone data had put the latest draw on the next
/// day: the quota of that day is not given anew when it comes.
#[tokio::test]
async fn the_day_of_a_record_does_not_go_back() {
    const NEXT_DAY: &str = "
        local key = redis.call('KEYS', '*:users:*')[1]
        local field = redis.call('HKEYS', key)[1]
        local record = redis.call('HGET', key, field)
        local head = struct.unpack('>I3', record) + 16
        local moved = string.sub(struct.pack('>I4', head), 2) .. string.sub(record, 4)
        return redis.call('HSET', key, field, moved)";
    let server = Arc::new(RedisServer::start(&[]));
    let world = world(&server).await;
    let limited = "limits: {drawsPerDay: 3}\nconsolation: {id: points}\nprizes: [{id: coupon, \
        stock: 50}]\npools: [{id: deck, deck: {size: 50, cards: {coupon: 50}}}]";
    world.begin(limited).await;
    world.draw(draw("u").times(2)).await;
    let before = world.record("u").await.day.unwrap();
    assert_eq!(server.command(&["EVAL", NEXT_DAY, "0"]), "0");
    let moved = world.record("u").await.day.unwrap();
    assert!(moved > before);
    world.draw(draw("u")).await;
    let record = world.record("u").await;
    assert_eq!((record.day, record.free_today), (Some(moved), 3));
    world.pass(hours(24)).await;
    world.refused(draw("u")).await;
}

/// Two campaigns share a batch: an error in one does not affect the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_campaign_that_was_spoilt_fails_alone() {
    let server = Arc::new(RedisServer::start(&[]));
    let world = world(&server).await;
    let deck = "consolation: {id: points}\nprizes: [{id: coupon, stock: 5000}]\npools: [{id: \
        deck, deck: {size: 5000, cards: {coupon: 5000}}}]";
    world.begin(deck).await;
    let partition = world.draw(draw("u")).await.ledger.partition;
    // A campaign in the same partition as the first one.
    let mut other = String::new();
    for n in 0.. {
        other = format!("other-{n}");
        world.begin(&format!("id: {other}\n{deck}")).await;
        if world.draw(draw("u").of(&other)).await.ledger.partition == partition {
            break;
        }
    }
    let keys = server.command(&["KEYS", "*:units:spring:0:0"]);
    assert_eq!(server.command(&["RENAME", &keys, "aside"]), "OK");
    assert_eq!(server.command(&["SET", &keys, "spoilt"]), "OK");
    let before = world.ledger_length().await;
    let answers = all_of(400, |n| {
        let (world, other) = (world.clone(), other.clone());
        async move {
            let command = draw("u");
            if n % 2 == 0 {
                world.try_draw(command).await
            } else {
                world.try_draw(command.of(&other)).await
            }
        }
    })
    .await;
    for (n, answer) in answers.iter().enumerate() {
        match answer {
            Err(StoreError::Corrupt { detail: text, .. }) => {
                assert!(n % 2 == 0 && text.contains("spring"), "{text}");
            }
            Err(error) => panic!("{error}"),
            Ok(answer) => assert_eq!((n % 2, answer.wins()), (1, 1)),
        }
    }
    assert_eq!(world.ledger_length().await, before + 200);
    assert_eq!(server.command(&["DEL", &keys]), "1");
    assert_eq!(server.command(&["RENAME", "aside", &keys]), "OK");
    world.draw(draw("u")).await;
    let stats = world.store().stats(&campaign_id(&other)).await.unwrap();
    assert_eq!(stats.draws.wins, 201);
    world.audit().await;
}
