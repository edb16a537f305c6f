//! The end of a campaign's data: a closed campaign leaves the store, step by step, and its id stays
//! taken.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tombola::{
    model::{CampaignId, Moment, PrizeNo},
    store::{
        ClosedCampaign, OperateCommand, Operation, Refusal, RemovalFence, Store, StoreError,
        WinCommand, WinOperation, WonUnit, removal::REMOVED_FIELDS_MAX,
    },
};

use crate::support::{
    Answer as _, Meddler, World, author, campaign, draw, hours, minutes, request, user,
    words::{DrawWords as _, SPRING, campaign_id, new_request},
};

promises![
    a_closed_campaign_leaves_the_store_and_its_id_stays_taken,
    a_campaign_leaves_only_once_it_is_closed_and_as_the_fence_says,
    a_removal_goes_on_after_a_restart_between_any_two_steps,
    a_tick_of_another_replica_finishes_a_removal,
    what_happens_to_a_closed_campaign_begins_its_time_anew,
    an_act_that_is_faster_than_the_tombstone_stops_it,
    a_retry_of_a_draw_after_the_removal_is_refused_and_draws_nothing,
    other_campaigns_go_on_while_one_is_removed,
];

const YAML: &str = "
    limits: {drawsPerDay: 40}
    consolation: {id: points}
    prizes:
      - {id: coupon, stock: 20000}
      - {id: mug, stock: 1000}
      - {id: ticket, codes: true}
    pools:
      - {id: hours, schedule: {perHour: {coupon: 10}}}
      - {id: deck, deck: {size: 1000, cards: {mug: 500}}}
";
const DAY: Duration = Duration::from_secs(86_400);

/// A campaign that all kinds of things have happened to; one of its wins.
async fn busy(world: &World) -> WonUnit {
    world.begin(YAML).await;
    for first in [0, 10_000] {
        let codes: Vec<String> = (first..first + 10_000).map(|i| format!("T-{i}")).collect();
        world.import("ticket", first, &codes).await;
    }
    world.tick().await;
    for turn in 0..3 {
        let calls = (0..20).map(|i| draw(&format!("u{i}")).times(1 + turn));
        world.storm(calls.collect()).await;
    }
    let win = loop {
        let mut won = world.draw(draw("winner")).await.won_units();
        if let Some(win) = won.pop() {
            break win;
        }
    };
    let reference = "parcel".into();
    let delivery = WinOperation::Deliver { reference };
    world.try_operate_win(&win, delivery).await.unwrap();
    let users = (0..30).map(|i| user(&format!("u{i}"))).collect();
    world.operate(Operation::Block { users }).await;
    assert_eq!(codes_left(world).await, 20_000_usize.div_ceil(64));
    win
}

/// Users whom a step cannot remove at once.
async fn grant_many(world: &World) {
    for turn in 0..3 {
        let users = (0..500).map(|i| user(&format!("granted-{turn}-{i}")));
        let grant = Operation::Grant {
            users: users.collect(),
            draws: 1,
            expires: Moment::FAR_FUTURE,
        };
        world.operate(grant).await;
    }
}

/// Blocks of codes that the store still gives.
async fn codes_left(world: &World) -> usize {
    let id = campaign_id(SPRING);
    let blocks = world.store().code_blocks(&id, PrizeNo(2), 0, 1_000).await;
    blocks.map_or(0, |blocks| blocks.len())
}

async fn close(world: &World) {
    world.operate(Operation::Close).await;
    world.tick().await;
}

async fn fence(store: &dyn Store, id: &str) -> RemovalFence {
    let partition = store.partition_of(id);
    let stats = store.stats(&campaign_id(id)).await.unwrap();
    RemovalFence {
        entries: stats.entries,
        fork: store.unsettled(partition, None, 1).await.unwrap().fork,
    }
}

/// Removes all data of a campaign that is closed.
pub async fn remove(world: &World, id: &CampaignId) {
    begin_removal(world, id.as_str()).await;
    while world.store().remove_some(id).await.unwrap() {}
}

/// Begins once no draw is remembered any more.
async fn begin_removal(world: &World, id: &str) {
    world.pass(DAY).await;
    let fence = fence(&**world.store(), id).await;
    let begun = world.store().begin_removal(&campaign_id(id), &fence).await;
    assert_eq!(begun, Ok(true));
}

/// All campaigns that nothing has happened to for this time.
async fn closed(world: &World, keep: Duration) -> Vec<ClosedCampaign> {
    let mut closed: Vec<ClosedCampaign> = Vec::new();
    for partition in 0..world.store().info().partitions {
        let mut after = None;
        loop {
            let page = world
                .store()
                .closed_campaigns(partition, keep, after.as_ref(), 1);
            let Some(found) = page.await.unwrap().pop() else {
                break;
            };
            closed.push(found.clone());
            after = Some(found);
        }
    }
    closed
}

/// Nothing can be done with the campaign, whoever asks.
async fn is_removed(world: &World, win: &WonUnit) {
    let (store, id) = (world.store(), campaign_id(SPRING));
    let end = campaign(YAML).end;
    let removed = || StoreError::from(Refusal::Removed { end });
    assert_eq!(store.campaign(&id).await.unwrap_err(), removed());
    assert_eq!(store.version(&id, 1).await.unwrap_err(), removed());
    assert_eq!(store.stats(&id).await.unwrap_err(), removed());
    assert_eq!(store.user(&id, &user("u1")).await.unwrap_err(), removed());
    let details = store.user_details(&id, &user("u1")).await;
    assert_eq!(details.unwrap_err(), removed());
    let blocked = store.blocked_users(&id, None, 10).await;
    assert_eq!(blocked.unwrap_err(), removed());
    let found = store.find_draw(&id, &user("u1"), &request("r")).await;
    assert_eq!(found.unwrap_err(), removed());
    let paused = world.try_operate(Operation::Pause).await;
    assert_eq!(paused.unwrap_err(), removed());
    let revoke = WinOperation::Revoke { withdraw: false };
    let revoked = world.try_operate_win(win, revoke).await;
    assert_eq!(revoked.unwrap_err(), removed());
    let applied = world.try_apply(campaign(YAML), 0).await;
    assert_eq!(applied.unwrap_err(), removed());
    let drawn = world.try_draw(draw("u1")).await;
    assert_eq!(drawn.unwrap_err(), Refusal::Closed.into());
    let listed = store.campaigns(None, 10).await.unwrap();
    assert!(listed.iter().all(|view| view.campaign.id != id));
}

async fn a_closed_campaign_leaves_the_store_and_its_id_stays_taken(world: &mut World) {
    let win = busy(world).await;
    let replica = world.another_replica().await;
    replica.draw(draw("u1")).await;
    close(world).await;
    let length = world.ledger_length().await;
    begin_removal(world, SPRING).await;
    is_removed(world, &win).await;
    is_removed(&replica, &win).await;
    while world
        .store()
        .remove_some(&campaign_id(SPRING))
        .await
        .unwrap()
    {}
    assert_eq!(closed(world, Duration::ZERO).await, []);
    is_removed(world, &win).await;
    is_removed(&replica, &win).await;
    assert_eq!(codes_left(world).await, 0);
    world.set_time(campaign(YAML).end).await;
    let ended = world.refusal_of(draw("u1")).await;
    assert_eq!(ended, Refusal::Ended(campaign(YAML).end));
    drop(replica); // of an embedded store, it has the files open
    world.reopen().await;
    assert_eq!(world.refusal_of(draw("u1")).await, ended);
    assert_eq!(world.ledger_length().await, length);
}

async fn a_campaign_leaves_only_once_it_is_closed_and_as_the_fence_says(world: &mut World) {
    busy(world).await;
    let (store, id) = (world.store().clone(), campaign_id(SPRING));
    let open = fence(&*store, SPRING).await;
    assert_eq!(store.begin_removal(&id, &open).await, Ok(false));
    assert_eq!(store.remove_some(&id).await, Ok(false));
    close(world).await;
    assert_eq!(store.begin_removal(&id, &open).await, Ok(false));
    let now = fence(&*store, SPRING).await;
    world.pass(DAY - minutes(1)).await;
    let remembered = store.begin_removal(&id, &now).await;
    assert_eq!(remembered, Ok(false), "draws are remembered");
    world.pass(minutes(1)).await;
    for entries in [now.entries - 1, now.entries + 1, 0] {
        let other = RemovalFence {
            entries,
            ..now.clone()
        };
        assert_eq!(store.begin_removal(&id, &other).await, Ok(false));
    }
    if !now.fork.is_empty() {
        let other = RemovalFence {
            fork: "0".repeat(40),
            ..now.clone()
        };
        assert_eq!(store.begin_removal(&id, &other).await, Ok(false));
    }
    assert_eq!(store.remove_some(&id).await, Ok(false));
    assert_eq!(store.begin_removal(&id, &now).await, Ok(true));
    let never = campaign_id("never");
    let unknown = store.begin_removal(&never, &now).await;
    assert_eq!(unknown, Err(Refusal::CampaignNotFound.into()));
    assert_eq!(store.remove_some(&never).await, Ok(false));
}

async fn a_removal_goes_on_after_a_restart_between_any_two_steps(world: &mut World) {
    let win = busy(world).await;
    grant_many(world).await;
    close(world).await;
    begin_removal(world, SPRING).await;
    let (mut steps, id) = (1, campaign_id(SPRING));
    loop {
        world.reopen().await;
        is_removed(world, &win).await;
        let leaving = closed(world, 1000 * DAY).await;
        assert_eq!(leaving.len(), 1);
        assert!(leaving[0].is_leaving());
        if !world.store().remove_some(&id).await.unwrap() {
            break;
        }
        steps += 1;
    }
    assert!(steps * REMOVED_FIELDS_MAX > 1500, "{steps} steps");
    assert_eq!(closed(world, Duration::ZERO).await, []);
    is_removed(world, &win).await;
}

async fn a_tick_of_another_replica_finishes_a_removal(world: &mut World) {
    let win = busy(world).await;
    grant_many(world).await;
    close(world).await;
    begin_removal(world, SPRING).await;
    world
        .store()
        .remove_some(&campaign_id(SPRING))
        .await
        .unwrap();
    let replica = world.another_replica().await;
    replica.tick().await;
    assert_eq!(closed(world, Duration::ZERO).await, []);
    is_removed(world, &win).await;
}

async fn what_happens_to_a_closed_campaign_begins_its_time_anew(world: &mut World) {
    let win = busy(world).await;
    assert_eq!(closed(world, Duration::ZERO).await, []);
    close(world).await;
    let first = world.time();
    assert_eq!(closed(world, Duration::ZERO).await[0].since, first);
    world.pass(DAY).await;
    world.reopen().await;
    world.tick().await;
    assert_eq!(closed(world, DAY).await[0].since, first);
    assert_eq!(closed(world, DAY + minutes(1)).await, []);
    let reference = "parcel".into();
    let again = WinOperation::Deliver { reference };
    assert!(world.try_operate_win(&win, again).await.unwrap().replayed);
    assert_eq!(closed(world, DAY).await[0].since, first, "nothing happened");
    let revoke = WinOperation::Revoke { withdraw: false };
    world.try_operate_win(&win, revoke).await.unwrap();
    assert_eq!(closed(world, hours(1)).await, []);
    world.pass(hours(1)).await;
    assert_eq!(closed(world, hours(1)).await[0].since, first + DAY);
}

/// Revokes a win just before a tombstone is written.
struct Faster {
    store: Arc<dyn Store>,
    win: WonUnit,
}

#[async_trait]
impl Meddler for Faster {
    async fn before_removal(&self) {
        let command = WinCommand {
            campaign: campaign_id(SPRING),
            win: self.win.clone(),
            operation: WinOperation::Revoke { withdraw: false },
            author: author(&new_request()),
        };
        self.store.operate_win(command).await.unwrap();
    }
}

async fn an_act_that_is_faster_than_the_tombstone_stops_it(world: &mut World) {
    let win = busy(world).await;
    close(world).await;
    let store = world.store().clone();
    let meddler = Faster {
        store: store.clone(),
        win: win.clone(),
    };
    let between = world.store_with(meddler);
    let (fence, id) = (fence(&*store, SPRING).await, campaign_id(SPRING));
    assert_eq!(between.begin_removal(&id, &fence).await, Ok(false));
    assert_eq!(store.stats(&id).await.unwrap().entries, fence.entries + 1);
    begin_removal(world, SPRING).await;
    is_removed(world, &win).await;
}

async fn a_retry_of_a_draw_after_the_removal_is_refused_and_draws_nothing(world: &mut World) {
    busy(world).await;
    let drawn = draw("late").named("once");
    world.draw(drawn.clone()).await;
    close(world).await;
    let retried = world.draw(drawn.clone()).await;
    assert!(retried.replayed);
    let length = world.ledger_length().await;
    begin_removal(world, SPRING).await;
    assert_eq!(world.refusal_of(drawn.clone()).await, Refusal::Closed);
    while world
        .store()
        .remove_some(&campaign_id(SPRING))
        .await
        .unwrap()
    {}
    assert_eq!(world.refusal_of(drawn).await, Refusal::Closed);
    assert_eq!(world.ledger_length().await, length);
}

async fn other_campaigns_go_on_while_one_is_removed(world: &mut World) {
    busy(world).await;
    for id in ["autumn", "spring-2", "spring-3", "winter"] {
        world.begin(&format!("\n    id: {id}{YAML}")).await;
        world.draw(draw("u1").of(id)).await;
    }
    close(world).await;
    begin_removal(world, SPRING).await;
    let mut more = true;
    while more {
        more = world
            .store()
            .remove_some(&campaign_id(SPRING))
            .await
            .unwrap();
        for id in ["autumn", "spring-2", "spring-3", "winter"] {
            world.draw(draw("u1").of(id)).await;
        }
    }
    let close = OperateCommand {
        campaign: campaign_id("winter"),
        operation: Operation::Close,
        blocks: Vec::new(),
        author: author(&new_request()),
    };
    world.injector().operate(close).await.unwrap();
    assert_eq!(
        closed(world, Duration::ZERO).await[0].id,
        campaign_id("winter")
    );
}
