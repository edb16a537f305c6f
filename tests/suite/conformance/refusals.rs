//! A refused draw says why, costs nothing and changes nothing (P5). `World::refused` compares the
//! ledger, the statistics and the user before and after.

use tombola::{
    model::{PoolNo, PrizeNo},
    store::{DealCommand, Lifecycle, Operation, Refusal, StoreError, Sweep, fill::Chunk},
};

use crate::support::{DrawWords as _, World, at, campaign, draw, hours};

promises![
    a_draw_of_an_unknown_campaign_is_refused,
    a_draw_before_the_start_is_refused,
    a_draw_at_the_end_is_refused,
    a_draw_of_a_paused_campaign_is_refused_until_it_is_resumed,
    a_draw_of_a_closed_campaign_is_refused_for_ever,
    a_draw_above_a_limit_is_refused_for_each_limit,
    a_draw_after_the_end_gets_the_same_refusal_for_ever,
    a_command_that_contradicts_the_data_fails_alone,
    a_sweep_of_a_pool_that_is_gone_takes_nothing,
];

const YAML: &str = "
    limits: {drawsPerDay: 2, paidDrawsPerDay: 2, drawsPerUser: 5}
    prizes: [{id: coupon, stock: 100}]
    pools: [{id: deck, deck: {cards: {coupon: 100}}}]
";

async fn a_draw_of_an_unknown_campaign_is_refused(world: &mut World) {
    world.begin(YAML).await;
    let refusal = world.refused(draw("u").of("sprnig")).await;
    assert_eq!(refusal, Refusal::CampaignNotFound);
}

async fn a_draw_before_the_start_is_refused(world: &mut World) {
    let campaign = campaign(YAML);
    world.try_apply(campaign.clone(), 0).await.unwrap();
    world.at("2026-11-19T23:59:59.999999+08:00").await;
    let refusal = world.refused(draw("u")).await;
    assert_eq!(refusal, Refusal::NotStarted(campaign.start));
    world.set_time(campaign.start).await;
    world.draw(draw("u")).await;
}

async fn a_draw_at_the_end_is_refused(world: &mut World) {
    let campaign = world.begin(YAML).await;
    world.at("2026-12-19T23:59:59.999999+08:00").await;
    world.draw(draw("u")).await;
    world.set_time(campaign.end).await;
    let refusal = world.refused(draw("u")).await;
    assert_eq!(refusal, Refusal::Ended(at("2026-12-20T00:00:00+08:00")));
}

async fn a_draw_of_a_paused_campaign_is_refused_until_it_is_resumed(world: &mut World) {
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    world.operate(Operation::Pause).await;
    assert_eq!(world.refused(draw("u")).await, Refusal::Paused);
    world.pass(hours(1)).await;
    world.tick().await;
    assert_eq!(world.refused(draw("new")).await, Refusal::Paused);
    world.operate(Operation::Resume).await;
    world.draw(draw("u")).await;
}

async fn a_draw_of_a_closed_campaign_is_refused_for_ever(world: &mut World) {
    world.begin(YAML).await;
    world.draw(draw("u")).await;
    world.operate(Operation::Close).await;
    assert_eq!(world.refused(draw("u")).await, Refusal::Closed);
    world.reopen().await;
    assert_eq!(world.refused(draw("new")).await, Refusal::Closed);
    assert!(world.try_operate(Operation::Resume).await.is_err());
}

async fn a_draw_above_a_limit_is_refused_for_each_limit(world: &mut World) {
    world.begin(YAML).await;
    world.draw(draw("u").times(2)).await;
    world.draw(draw("u").times(2).paid("a")).await;
    for command in [
        draw("u"),
        draw("u").times(3),
        draw("u").paid("b"),
        draw("u").consolation_only(),
        draw("u").times(100),
        draw("new").times(3),
    ] {
        let refusal = world.refused(command).await;
        assert!(matches!(refusal, Refusal::Limit { .. }), "{refusal}");
    }
    world.pass(hours(24)).await;
    world.refused(draw("u").times(2)).await; // one left in all
    world.draw(draw("u")).await;
    world.refused(draw("u")).await;
}

async fn a_draw_after_the_end_gets_the_same_refusal_for_ever(world: &mut World) {
    let campaign = world.begin(YAML).await;
    world.set_time(campaign.end).await;
    let ended = Refusal::Ended(campaign.end);
    assert_eq!(world.refused(draw("u")).await, ended);
    world.tick().await;
    let lifecycle = world.stats().await.view.lifecycle;
    assert_eq!(lifecycle, Lifecycle::Closed);
    assert_eq!(world.refused(draw("u")).await, ended);
}

async fn a_command_that_contradicts_the_data_fails_alone(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let command = DealCommand {
        campaign: campaign.id.clone(),
        pool: PoolNo(0),
        expected: (1, 0),
        fork: 0,
        chunks: vec![Chunk {
            round: 1,
            chunk: 0,
            round_cards: 1,
            cards: vec![Some(PrizeNo(99))],
            remaining: Vec::new(),
        }],
    };
    let fault = world.store().deal(command).await.unwrap_err();
    assert!(matches!(fault, StoreError::Corrupt { .. }), "{fault}");
    world.draw(draw("u")).await;
    world.store().now().await.unwrap();
}

/// A sweep may have read a version that another one has replaced, with other pools.
async fn a_sweep_of_a_pool_that_is_gone_takes_nothing(world: &mut World) {
    let campaign = world.begin(YAML).await;
    let pool = PoolNo(1);
    let window = campaign.start;
    for sweep in [Sweep::Unclaimed { pool }, Sweep::Recall { pool, window }] {
        let swept = world.store().sweep(&campaign.id, sweep).await.unwrap();
        assert!(swept.units.is_empty() && !swept.more);
    }
    world.draw(draw("u")).await;
}
