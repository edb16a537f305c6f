//! Any number of injectors may run at once, and any may die at any moment: each window still gets
//! exactly what was planned, once.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tombola::{
    chance::Nonce,
    model::{Campaign, Moment, PoolNo, PrizeNo},
    store::{
        AdjustCommand, ApplyCommand, Drawn, FreezeCommand, OperateCommand, Operation, Refusal,
        Step, StoreError,
        fill::{PlannedWindow, PoolFilling},
        view::WindowState,
    },
};

use crate::support::{
    Answer, Meddler, World, all_of, author, campaign, draw, hours, minutes,
    words::{SPRING, campaign_id},
};

promises![
    eight_injectors_at_once_give_each_window_what_was_planned,
    eight_injectors_and_draws_at_once_deal_each_round_of_a_deck_once,
    an_injector_that_dies_between_chunks_is_finished_by_another,
    an_injector_that_dies_between_chunks_is_finished_by_a_draw_after_a_reopen,
    a_plan_enlarged_between_chunks_is_followed_exactly,
    a_plan_cut_between_chunks_is_followed_exactly,
    windows_with_a_gap_are_not_frozen_in_part,
    what_is_in_the_pool_is_drawn_while_the_rest_is_put_in,
    draws_go_on_while_many_missed_hours_are_released,
    a_draw_waits_for_the_first_units_of_missed_hours_and_not_for_all,
    a_draw_of_older_units_at_the_turn_of_an_hour_has_the_new_hour_filled,
    a_draw_that_needs_cards_when_the_end_comes_is_refused_after_one_deal,
    an_injector_that_is_late_to_take_back_puts_in_first,
    eight_injectors_return_what_the_end_leaves_once,
];

/// Twelve hours with `per_hour` coupons each.
fn twelve_hours(per_hour: u32) -> String {
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

/// An injector that draws while only some of the units are in the pool.
struct DrawsMeanwhile {
    world: World,
    fills: Arc<AtomicUsize>,
}

#[async_trait]
impl Meddler for DrawsMeanwhile {
    async fn before_fill(&self) {
        let fills = self.fills.fetch_add(1, Ordering::SeqCst);
        if fills == 0 {
            return;
        }
        let drawn = self.world.store().draw(draw(&format!("u{fills}"))).await;
        let Ok(Drawn::Done(answer)) = drawn else {
            panic!("after {fills} fills: {drawn:?}");
        };
        assert_eq!(answer.wins(), 1);
        assert!(answer.releases()[0] <= self.world.time());
    }
}

async fn what_is_in_the_pool_is_drawn_while_the_rest_is_put_in(world: &mut World) {
    world
        .begin(
            "
            endTime: 2026-11-20T06:00:00+08:00
            consolation: {id: points}
            prizes: [{id: coupon, stock: 100000}]
            pools: [{id: hours, schedule: {perHour: {coupon: 2500}, missed: RELEASE}}]
            ",
        )
        .await;
    let campaign = campaign_id(SPRING);
    world.pass(hours(1)).await;
    let fills = Arc::new(AtomicUsize::new(0));
    let injector = world.injector_with(DrawsMeanwhile {
        world: world.clone(),
        fills: fills.clone(),
    });
    injector.settle(&campaign).await.unwrap();
    assert!(fills.load(Ordering::SeqCst) >= 5);
    world.pass(hours(1)).await;
    let drawn_before = fills.load(Ordering::SeqCst) - 1;
    assert_eq!(world.drained().await, 2 * 2500 - drawn_before);
}

fn released_late(per_hour: u32) -> String {
    format!(
        "
        endTime: 2026-11-24T00:00:00+08:00
        consolation: {{id: points}}
        prizes: [{{id: coupon, stock: 300000}}]
        pools: [{{id: hours, schedule: {{perHour: {{coupon: {per_hour}}}, missed: RELEASE}}}}]
        "
    )
}

/// Draws after each chunk once the first one is in, and checks that each draw wins the next unit in
/// order of release.
struct DrawsInOrder {
    world: World,
    fills: AtomicUsize,
    last: Mutex<Moment>,
}

#[async_trait]
impl Meddler for Arc<DrawsInOrder> {
    async fn before_fill(&self) {
        let fills = self.fills.fetch_add(1, Ordering::SeqCst);
        if fills == 0 {
            return;
        }
        let drawn = self.world.store().draw(draw(&format!("u{fills}"))).await;
        let Ok(Drawn::Done(answer)) = drawn else {
            panic!("after {fills} fills: {drawn:?}");
        };
        let [release] = answer.releases()[..] else {
            panic!("after {fills} fills: {answer:?}");
        };
        assert!(release <= self.world.time(), "early");
        let mut last = self.last.lock().unwrap();
        assert!(release >= *last, "an earlier unit comes after a later one");
        *last = release;
    }
}

/// More hours than one step freezes, some of them filled in several chunks.
async fn draws_go_on_while_many_missed_hours_are_released(world: &mut World) {
    const HOURS: u64 = 70;
    let campaign = world.begin(&released_late(600)).await;
    world.pass(hours(HOURS)).await;
    let meddler = Arc::new(DrawsInOrder {
        world: world.clone(),
        fills: AtomicUsize::new(0),
        last: Mutex::new(Moment::EPOCH),
    });
    let injector = world.injector_with(Arc::clone(&meddler));
    injector.settle(&campaign.id).await.unwrap();
    let fills = meddler.fills.load(Ordering::SeqCst);
    assert!(fills as u64 > 2 * HOURS, "{fills}");
    let last = *meddler.last.lock().unwrap();
    let rest = world.drain().await;
    let releases: Vec<Moment> = rest.iter().flat_map(Answer::releases).collect();
    assert!(releases.is_sorted() && releases[0] >= last);
    // The current hour may have units that are due by now, too.
    let missed = HOURS as usize * 600;
    let won = releases.len() + fills - 1;
    assert!((missed..=missed + 600).contains(&won), "{won}");
}

/// Lets one chunk be put in, and all others once `go_on` says so.
struct OneChunk {
    fills: AtomicUsize,
    goes_on: Semaphore,
}

#[async_trait]
impl Meddler for Arc<OneChunk> {
    async fn before_fill(&self) {
        if self.fills.fetch_add(1, Ordering::SeqCst) > 0 {
            self.goes_on.acquire().await.unwrap().forget();
        }
    }
}

async fn a_draw_waits_for_the_first_units_of_missed_hours_and_not_for_all(world: &mut World) {
    world.begin(&released_late(2500)).await;
    world.pass(hours(5)).await;
    let meddler = Arc::new(OneChunk {
        fills: AtomicUsize::new(0),
        goes_on: Semaphore::new(0),
    });
    let injector = world.injector_with(Arc::clone(&meddler));
    // A draw that waited for more would wait for ever.
    let drawn = tokio::time::timeout(minutes(1), injector.draw(draw("u")));
    let drawn = drawn
        .await
        .expect("it waits for more than one chunk")
        .unwrap();
    assert_eq!(drawn.wins(), 1);
    let waiting = world.prize("coupon").await.waiting;
    assert!(waiting >= 5 * 2500 - 1);
    meddler.goes_on.add_permits(1_000_000);
    world.tick().await;
    assert!(world.drained().await >= 5 * 2500 - 1);
}

async fn a_draw_of_older_units_at_the_turn_of_an_hour_has_the_new_hour_filled(world: &mut World) {
    let campaign = world.begin(&twelve_hours(20)).await;
    world.tick().await;
    let turn = campaign.start + hours(1);
    world.set_time(turn).await;
    let answer = world.draw(draw("u")).await;
    assert!(answer.releases()[0] < turn);
    // Only that draw causes the next hour to be filled: no injector ticks.
    while world.windows().await.len() < 2 {
        tokio::task::yield_now().await;
    }
    // During and after the fill, draws ask for no other fill.
    let id = &campaign.id;
    while world.store().filling(id).await.unwrap().due == Some(Moment::EPOCH) {
        tokio::task::yield_now().await;
    }
    let Ok(Drawn::Done(answer)) = world.store().draw(draw("u")).await else {
        panic!("it is filled");
    };
    assert!(answer.running_low.is_empty());
    assert_eq!(injected(world, turn).await, 20);
}

/// The campaign ends while its deck is dealt.
struct EndComes {
    world: World,
    end: Moment,
    deals: Arc<AtomicUsize>,
}

#[async_trait]
impl Meddler for EndComes {
    async fn before_deal(&self) {
        self.deals.fetch_add(1, Ordering::SeqCst);
        self.world.set_time(self.end).await;
    }
}

async fn a_draw_that_needs_cards_when_the_end_comes_is_refused_after_one_deal(world: &mut World) {
    let campaign = world
        .begin(
            "
            prizes: [{id: coupon, stock: 100}]
            pools: [{id: deck, deck: {cards: {coupon: 100}}}]
            ",
        )
        .await;
    let deals = Arc::new(AtomicUsize::new(0));
    let injector = world.injector_with(EndComes {
        world: world.clone(),
        end: campaign.end,
        deals: deals.clone(),
    });
    let refused = injector.draw(draw("u")).await.unwrap_err();
    assert_eq!(refused, StoreError::Refused(Refusal::Ended(campaign.end)));
    assert_eq!(deals.load(Ordering::SeqCst), 1);
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
        PoolFilling::Deck(_) => panic!("a schedule"),
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
async fn injected(world: &World, start: Moment) -> u64 {
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
