//! A tick finds everything that is due, and reads nothing else.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tombola::{
    model::{Moment, PoolNo},
    store::{
        Lifecycle, OperateCommand, Operation,
        fill::{PoolFilling, ScheduleFilling},
    },
};

use crate::support::{
    Meddler, World, author, campaign, draw, hours, minutes,
    words::{SPRING, campaign_id},
};

promises![
    a_tick_reads_campaigns_with_due_steps_and_no_others,
    a_campaign_that_is_closed_is_never_read_again,
    units_nobody_took_are_returned_by_the_first_tick_that_may,
    units_that_were_held_are_returned_by_the_first_tick_that_may,
    a_shorter_time_to_return_holds_for_units_that_wait_already,
    what_an_operator_has_begun_is_finished_by_a_tick_of_another_replica,
    a_plan_that_nobody_has_followed_is_followed_by_a_tick_of_another_replica,
    campaigns_of_data_without_an_index_are_found,
];

/// Counts the campaigns that an injector reads.
struct Reads(Arc<AtomicUsize>);

#[async_trait]
impl Meddler for Reads {
    async fn after_filling(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The number of campaigns that a tick of another injector reads.
async fn reads_of_a_tick(world: &World) -> usize {
    let reads = Arc::default();
    let injector = world.injector_with(Reads(Arc::clone(&reads)));
    injector.tick().await.unwrap();
    reads.load(Ordering::SeqCst)
}

/// A campaign of six hours with ten coupons each.
fn six_hours(id: &str, extra: &str) -> String {
    format!(
        "
        id: {id}
        endTime: 2026-11-20T06:00:00+08:00
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 100}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: 10}}{extra}}}}}]
        "
    )
}

async fn hours_filling(world: &World) -> ScheduleFilling {
    let filling = world.store().filling(&campaign_id(SPRING)).await.unwrap();
    match filling.pools.into_iter().next() {
        Some(PoolFilling::Schedule(filling)) => filling,
        other => panic!("a schedule: {other:?}"),
    }
}

async fn a_tick_reads_campaigns_with_due_steps_and_no_others(world: &mut World) {
    // More than an injector asks for at once, all due at the same moment.
    const CAMPAIGNS: usize = 105;
    for n in 0..CAMPAIGNS {
        let campaign = campaign(&six_hours(&format!("c{n}"), ""));
        world.try_apply(campaign, 0).await.unwrap();
    }
    let deck = "
        prizes: [{id: mug, stock: 10}]
        pools: [{id: deck, deck: {cards: {mug: 10}}}]
    ";
    world.try_apply(campaign(deck), 0).await.unwrap();
    let start = campaign(&six_hours("c0", "")).start;
    world.set_time(start - minutes(6)).await;
    assert_eq!(reads_of_a_tick(world).await, 0);
    for hour in 0..2 {
        world.set_time(start + hours(hour) - minutes(5)).await;
        assert!(reads_of_a_tick(world).await >= CAMPAIGNS);
        assert_eq!(reads_of_a_tick(world).await, 0);
        world.set_time(start + hours(hour) + minutes(50)).await;
        assert_eq!(reads_of_a_tick(world).await, 0);
    }
    for n in 0..CAMPAIGNS {
        let id = campaign_id(&format!("c{n}"));
        let windows = world.store().windows(&id, PoolNo(0), Moment::EPOCH, 9);
        let windows = windows.await.unwrap();
        let injected: Vec<_> = windows.iter().map(|it| it.prizes[0].1.injected).collect();
        assert_eq!(injected, [10, 10], "{id}");
    }
}

async fn a_campaign_that_is_closed_is_never_read_again(world: &mut World) {
    let campaign = world.begin(&six_hours(SPRING, "")).await;
    world.tick().await;
    world.operate(Operation::Close).await;
    assert_eq!(reads_of_a_tick(world).await, 0);
    for moment in [
        campaign.start + hours(1),
        campaign.end,
        campaign.end + hours(1),
    ] {
        world.set_time(moment).await;
        assert_eq!(reads_of_a_tick(world).await, 0);
    }
}

async fn units_nobody_took_are_returned_by_the_first_tick_that_may(world: &mut World) {
    let campaign = world
        .begin(&six_hours(
            SPRING,
            ", unclaimed: RETURN, returnAfter: 1200s",
        ))
        .await;
    world.tick().await;
    let mut returned = 0;
    while returned < 10 {
        let oldest = hours_filling(world).await.oldest.unwrap();
        assert!(oldest >= campaign.start && oldest < campaign.start + hours(1));
        let due = oldest + minutes(20);
        world
            .set_time(due - std::time::Duration::from_micros(1))
            .await;
        world.tick().await;
        assert_eq!(world.prize("coupon").await.returned, returned);
        world.set_time(due).await;
        world.tick().await;
        let before = returned;
        returned = world.prize("coupon").await.returned;
        assert!(returned > before, "due at {due}");
    }
}

async fn units_that_were_held_are_returned_by_the_first_tick_that_may(world: &mut World) {
    let campaign = world
        .begin(&six_hours(SPRING, ", unclaimed: RETURN, returnAfter: 60s"))
        .await;
    world.tick().await;
    let prize = world.prize_no("coupon").await;
    world.operate(Operation::PausePrize { prize }).await;
    world.set_time(campaign.start + minutes(50)).await;
    world.tick().await;
    assert_eq!(world.prize("coupon").await.returned, 0);
    world.operate(Operation::ResumePrize { prize }).await;
    world.tick().await;
    assert!(world.prize("coupon").await.returned > 0);
}

async fn a_shorter_time_to_return_holds_for_units_that_wait_already(world: &mut World) {
    let campaign = world.begin(&six_hours(SPRING, "")).await;
    world.tick().await;
    world.set_time(campaign.start + minutes(50)).await;
    world.tick().await;
    assert_eq!(world.prize("coupon").await.returned, 0);
    world
        .change(&six_hours(SPRING, ", unclaimed: RETURN, returnAfter: 60s"))
        .await;
    world.tick().await;
    assert!(world.prize("coupon").await.returned > 0);
}

/// Does the operation itself, but none of the steps that follow from it.
async fn only_begin(world: &World, operation: Operation) {
    let command = OperateCommand {
        campaign: campaign_id(SPRING),
        operation,
        blocks: Vec::new(),
        author: author("begun"),
    };
    world.store().operate(command).await.unwrap();
}

async fn what_an_operator_has_begun_is_finished_by_a_tick_of_another_replica(world: &mut World) {
    world.begin(&six_hours(SPRING, "")).await;
    world.tick().await;
    let two = world.another_replica().await;
    let recall = Operation::Recall {
        pool: PoolNo(0),
        window: None,
        prize: None,
        withdraw: false,
    };
    only_begin(world, recall).await;
    assert!(!hours_filling(world).await.recalling.is_empty());
    two.tick().await;
    assert!(hours_filling(world).await.recalling.is_empty());
    let close = OperateCommand {
        campaign: campaign_id(SPRING),
        operation: Operation::Close,
        blocks: Vec::new(),
        author: author("closed"),
    };
    world.store().operate(close).await.unwrap();
    two.tick().await;
    assert_eq!(world.stats().await.view.lifecycle, Lifecycle::Closed);
}

async fn a_plan_that_nobody_has_followed_is_followed_by_a_tick_of_another_replica(
    world: &mut World,
) {
    world.begin(&six_hours(SPRING, "")).await;
    world.tick().await;
    let two = world.another_replica().await;
    let enlarged = six_hours(SPRING, "").replace("coupon: 10", "coupon: 15");
    let command = tombola::store::ApplyCommand {
        campaign: campaign(&enlarged),
        base_version: 1,
        nonce: tombola::chance::Nonce([0; 32]),
        commitment: String::new(),
        author: author("enlarged"),
    };
    world.store().apply(command).await.unwrap();
    two.tick().await;
    let units = world.windows().await[0].prizes[0].1;
    assert_eq!((units.planned, units.injected), (15, 15));
}

async fn campaigns_of_data_without_an_index_are_found(world: &mut World) {
    let start = world.begin(&six_hours(SPRING, "")).await.start;
    for n in 0..5 {
        let other = campaign(&six_hours(&format!("c{n}"), ""));
        world.try_apply(other, 0).await.unwrap();
    }
    world.tick().await;
    world.reopen_without_index().await;
    world.set_time(start + minutes(55)).await;
    world.tick().await;
    assert_eq!(world.windows().await.len(), 2);
    for n in 0..5 {
        let id = campaign_id(&format!("c{n}"));
        let windows = world.store().windows(&id, PoolNo(0), Moment::EPOCH, 9);
        assert_eq!(windows.await.unwrap().len(), 2, "{id}");
    }
    // Once found, each campaign is in the index again.
    assert_eq!(reads_of_a_tick(world).await, 0);
    world.draw(draw("u")).await;
}
