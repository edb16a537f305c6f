//! Any number of injectors may run at once, and any may die at any moment: each window still gets
//! exactly what was planned, once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tombola::{
    chance::Nonce,
    model::{Campaign, Moment, PoolNo, PrizeNo},
    store::{
        AdjustCommand, ApplyCommand, FreezeCommand, OperateCommand, Operation, Step,
        fill::{PlannedWindow, PoolFilling},
        view::WindowState,
    },
};

use crate::support::{Answer, Meddler, World, all_of, author, campaign, draw, hours, minutes};

promises![
    eight_injectors_at_once_give_each_window_what_was_planned,
    eight_injectors_and_draws_at_once_deal_each_round_of_a_deck_once,
    an_injector_that_dies_between_chunks_is_finished_by_another,
    an_injector_that_dies_between_chunks_is_finished_by_a_draw_after_a_reopen,
    a_plan_enlarged_between_chunks_is_followed_exactly,
    a_plan_cut_between_chunks_is_followed_exactly,
    windows_with_a_gap_are_not_frozen_in_part,
    an_injector_that_is_late_to_take_back_puts_in_first,
    eight_injectors_return_what_the_end_leaves_once,
];

/// Twelve hours with `per_hour` coupons each.
pub(super) fn twelve_hours(per_hour: u32) -> String {
    format!(
        "
        endTime: 2026-11-20T12:00:00+08:00
        prizes: [{{id: coupon, stock: 1000000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {per_hour}}}}}}}]
        "
    )
}

async fn eight_injectors_at_once_give_each_window_what_was_planned(world: &mut World) {
    let campaign = world.begin(&twelve_hours(2500)).await;
    for hour in 1..=12 {
        eight_injectors(world, &campaign).await;
        world
            .set_time(campaign.start + hours(hour) - minutes(3))
            .await;
    }
    eight_injectors(world, &campaign).await;
    let windows = world.windows().await;
    assert_eq!(windows.len(), 12);
    for window in windows {
        let units = window.prizes[0].1;
        assert_eq!(window.state, WindowState::Injected, "{window:?}");
        assert_eq!((units.planned, units.injected), (2500, 2500), "{window:?}");
    }
    let coupon = world.prize("coupon").await;
    assert_eq!(coupon.waiting + coupon.won, 30_000);
}

async fn eight_injectors_and_draws_at_once_deal_each_round_of_a_deck_once(world: &mut World) {
    let campaign = world
        .begin(
            "
            prizes: [{id: coupon, stock: 100000}]
            pools: [{id: deck, deck: {size: 100, cards: {coupon: 10}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
    for _ in 0..20 {
        eight_injectors(world, &campaign).await;
    }
    let made = world.stats().await.draws;
    let rest = 100 - (made.wins + made.nothings) % 100;
    for _ in 0..rest {
        world.draw(draw("last")).await;
    }
    let made = world.stats().await.draws;
    assert_eq!(made.wins * 10, made.wins + made.nothings);
}

/// Eight injectors tick, settle and draw, all at once.
async fn eight_injectors(world: &World, campaign: &Arc<Campaign>) {
    all_of(8, |i| {
        let (world, campaign) = (world.clone(), campaign.clone());
        async move {
            let injector = world.another_injector();
            if i % 2 == 0 {
                injector.tick().await.unwrap();
            }
            for _ in 0..5 {
                world.draw(draw(&format!("u{i}"))).await;
            }
            injector.settle(&campaign.id).await.unwrap();
        }
    })
    .await;
}

async fn an_injector_that_dies_between_chunks_is_finished_by_another(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.another_injector().settle(&campaign.id).await.unwrap();
    assert_eq!(injected(world, campaign.start).await, 20_000);
    assert_eq!(in_pool(world, &campaign).await, 20_000);
}

async fn an_injector_that_dies_between_chunks_is_finished_by_a_draw_after_a_reopen(
    world: &mut World,
) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.reopen().await;
    let last = campaign.start + hours(1) - std::time::Duration::from_micros(1);
    world.set_time(last).await;
    assert_eq!(world.drained().await, 20_000);
}

async fn a_plan_enlarged_between_chunks_is_followed_exactly(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.change(&twelve_hours(25_000)).await;
    settles_at(world, &campaign, 25_000).await;
}

async fn a_plan_cut_between_chunks_is_followed_exactly(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20_000)).await;
    inject_half(world, &campaign).await;
    world.change(&twelve_hours(5_000)).await;
    settles_at(world, &campaign, 5_000).await;
}

async fn eight_injectors_return_what_the_end_leaves_once(world: &mut World) {
    let campaign = world.begin(&twelve_hours(5000)).await;
    world.tick().await;
    let won = world.drained().await as u64;
    world.set_time(campaign.end).await;
    all_of(8, |_| {
        let world = world.clone();
        async move { world.another_injector().tick().await.unwrap() }
    })
    .await;
    let coupon = world.prize("coupon").await;
    assert_eq!((coupon.waiting, coupon.left), (0, 1_000_000 - won));
}

async fn windows_with_a_gap_are_not_frozen_in_part(world: &mut World) {
    let campaign = world.begin(&twelve_hours(10)).await;
    let hour = |n: u64| PlannedWindow {
        start: campaign.start + hours(n),
        end: campaign.start + hours(n + 1),
        planned: [(PrizeNo(0), 10)].into(),
        windows_left: 12 - n,
    };
    let command = FreezeCommand {
        campaign: campaign.id.clone(),
        version: 1,
        pool: PoolNo(0),
        windows: vec![hour(0), hour(2)],
    };
    let outcome = world.store().freeze(command).await.unwrap();
    assert_eq!(outcome, Step::Stale);
    assert!(world.windows().await.is_empty());
    world.tick().await;
    assert_eq!(injected(world, campaign.start).await, 10);
}

fn coupons_and_mugs(coupons: u32, mugs: u32) -> String {
    format!(
        "
        endTime: 2026-11-20T12:00:00+08:00
        prizes: [{{id: coupon, stock: 1000}}, {{id: mug, stock: 1000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {coupons}, mug: {mugs}}}}}}}]
        "
    )
}

/// While one injector reads that mugs are recalled, another one takes them back and dies in the
/// middle of following a new plan.
struct NewPlan {
    world: World,
    is_made: AtomicBool,
    sweeps: AtomicUsize,
}

#[async_trait]
impl Meddler for NewPlan {
    async fn after_filling(&self) {
        if self.is_made.swap(true, Ordering::SeqCst) {
            return;
        }
        let campaign = campaign(&coupons_and_mugs(5, 20));
        let another = self.world.another_injector();
        another.settle(&campaign.id).await.unwrap();
        let command = ApplyCommand {
            campaign: campaign.clone(),
            base_version: 1,
            nonce: Nonce([0; 32]),
            commitment: String::new(),
            author: author("a-new-plan"),
        };
        self.world.store().apply(command).await.unwrap();
        let command = AdjustCommand {
            campaign: campaign.id.clone(),
            version: 2,
            pool: PoolNo(0),
            window: campaign.start,
            planned: vec![(PrizeNo(0), 5), (PrizeNo(1), 20)],
        };
        assert_eq!(self.world.store().adjust(command).await, Ok(Step::Done));
    }

    async fn before_sweep(&self) {
        let sweeps = self.sweeps.fetch_add(1, Ordering::SeqCst);
        assert!(sweeps < 100, "it takes back for ever");
    }
}

async fn an_injector_that_is_late_to_take_back_puts_in_first(world: &mut World) {
    let campaign = world.begin(&coupons_and_mugs(10, 10)).await;
    world.tick().await;
    let recall = OperateCommand {
        campaign: campaign.id.clone(),
        operation: Operation::Recall {
            pool: PoolNo(0),
            window: Some(campaign.start),
            prize: Some(PrizeNo(1)),
            withdraw: false,
        },
        blocks: Vec::new(),
        author: author("a-recall"),
    };
    world.store().operate(recall).await.unwrap();
    let injector = world.injector_with(NewPlan {
        world: world.clone(),
        is_made: AtomicBool::new(false),
        sweeps: AtomicUsize::new(0),
    });
    injector.settle(&campaign.id).await.unwrap();
    let left: Vec<u64> = world.windows().await[0]
        .prizes
        .iter()
        .map(|(_, units)| units.injected - units.recalled)
        .collect();
    assert_eq!(left, [5, 20]);
}

/// Never goes on after some chunks.
struct StopsBetweenChunks {
    fills: AtomicUsize,
    has_stopped: Arc<Semaphore>,
}

#[async_trait]
impl Meddler for StopsBetweenChunks {
    async fn before_fill(&self) {
        const CHUNKS: usize = 3;
        if self.fills.fetch_add(1, Ordering::SeqCst) == CHUNKS {
            self.has_stopped.add_permits(1);
            std::future::pending::<()>().await;
        }
    }
}

/// An injector that dies when some of the first window's units are in, but not all.
async fn inject_half(world: &World, campaign: &Campaign) {
    let has_stopped = Arc::new(Semaphore::new(0));
    let injector = world.injector_with(StopsBetweenChunks {
        fills: AtomicUsize::new(0),
        has_stopped: has_stopped.clone(),
    });
    let id = campaign.id.clone();
    let doomed = tokio::spawn(async move { injector.settle(&id).await });
    has_stopped.acquire().await.unwrap().forget();
    doomed.abort();
    let died = doomed.await.is_err_and(|error| error.is_cancelled());
    assert!(died, "it was done before it died: take more chunks");
    let filled = filled(world, campaign).await;
    assert!((1..20_000).contains(&filled), "{filled}");
}

/// The number of units of open fills that are in the pool.
async fn filled(world: &World, campaign: &Campaign) -> u64 {
    let filling = world.store().filling(&campaign.id).await.unwrap();
    match &filling.pools[0] {
        PoolFilling::Schedule(schedule) => schedule.open.iter().map(|fill| fill.filled).sum(),
        PoolFilling::Deck(_) | PoolFilling::Personal => panic!("a schedule"),
    }
}

/// Settles until the first window has this many units. The injector that followed the change may
/// still be at work: if it takes long, it goes on after its caller got a response.
async fn settles_at(world: &World, campaign: &Campaign, units: u32) {
    const TRIES_MAX: usize = 1000;
    let injector = world.another_injector();
    for _ in 0..TRIES_MAX {
        injector.settle(&campaign.id).await.unwrap();
        if given(world, campaign.start).await == Some(units.into()) {
            assert_eq!(in_pool(world, campaign).await, units as usize);
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!(
        "the window does not come to {units}: {:?}",
        world.windows().await
    );
}

/// The units that a window got from stock.
pub(super) async fn injected(world: &World, start: Moment) -> u64 {
    let given = given(world, start).await;
    given.expect("the window is injected")
}

/// The units that a window got from stock, if all of them are in the pool.
async fn given(world: &World, start: Moment) -> Option<u64> {
    let windows = world.windows().await;
    let window = windows.iter().find(|w| w.start == start).unwrap();
    let units = window.prizes[0].1;
    (window.state == WindowState::Injected).then(|| units.injected - units.recalled)
}

/// The number of units that draws find in the pool at the end of the first hour.
async fn in_pool(world: &World, campaign: &Campaign) -> usize {
    assert_eq!(campaign.pool_no("hours"), Some(PoolNo(0)));
    let last = campaign.start + hours(1) - std::time::Duration::from_micros(1);
    world.set_time(last).await;
    let answers = world.drain().await;
    let first_hour = |release: &Moment| *release < campaign.start + hours(1);
    let releases = answers.iter().flat_map(Answer::releases);
    releases.filter(first_hour).count()
}
