//! Draws while units are put into pools: what is there already is drawn, and a draw waits only for
//! what it needs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tombola::{
    injector::Injector,
    model::Moment,
    store::{DrawAnswer, Drawn, Refusal, StoreError},
};

use super::injectors::{injected, twelve_hours};
use crate::support::{
    Answer, Meddler, World, draw, hours, minutes,
    words::{SPRING, all_of, campaign_id},
};

promises![
    what_is_in_the_pool_is_drawn_while_the_rest_is_put_in,
    draws_go_on_while_many_missed_hours_are_released,
    a_draw_waits_for_the_first_units_of_missed_hours_and_not_for_all,
    a_draw_of_older_units_at_the_turn_of_an_hour_has_the_new_hour_filled,
    a_draw_that_needs_cards_when_the_end_comes_is_refused_after_one_deal,
    rounds_of_a_small_deck_are_dealt_together_for_draws_that_wait,
    draws_that_wait_go_on_though_others_take_the_cards_that_are_dealt_for_them,
];

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
        let drawn = self
            .world
            .store()
            .draw(draw(&format!("u{fills}")).into())
            .await;
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
        let drawn = self
            .world
            .store()
            .draw(draw(&format!("u{fills}")).into())
            .await;
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
    let Ok(Drawn::Done(answer)) = world.store().draw(draw("u").into()).await else {
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

/// Holds the first deal until this number of draws have been tried.
struct DealsLate {
    draws: usize,
    drawn: Arc<AtomicUsize>,
    deals: Arc<AtomicUsize>,
}

#[async_trait]
impl Meddler for DealsLate {
    async fn before_draw(&self) {
        self.drawn.fetch_add(1, Ordering::SeqCst);
    }

    async fn before_deal(&self) {
        if self.deals.fetch_add(1, Ordering::SeqCst) == 0 {
            while self.drawn.load(Ordering::SeqCst) < self.draws {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// As many users draw at once.
async fn all_draw(injector: &Arc<Injector>, users: usize) -> Vec<DrawAnswer> {
    let one = |i: usize| {
        let injector = Arc::clone(injector);
        async move { injector.draw(draw(&format!("u{i}"))).await.unwrap() }
    };
    all_of(users, one).await
}

async fn rounds_of_a_small_deck_are_dealt_together_for_draws_that_wait(world: &mut World) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 1000}]
            pools: [{id: deck, deck: {size: 5, cards: {coupon: 1}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
    let draws = 200;
    let deals = Arc::new(AtomicUsize::new(0));
    let injector = world.injector_with(DealsLate {
        draws,
        drawn: Arc::default(),
        deals: deals.clone(),
    });
    let answers = all_draw(&injector, draws).await;
    let wins = answers.iter().map(Answer::wins).sum::<usize>();
    assert_eq!(wins, draws / 5);
    let deals = deals.load(Ordering::SeqCst);
    assert!(deals < draws / 5 / 2, "{deals} deals");
}

/// From the second deal on, others take all cards before each one.
struct OthersTakeCards {
    late: DealsLate,
    world: World,
}

#[async_trait]
impl Meddler for OthersTakeCards {
    async fn before_draw(&self) {
        self.late.before_draw().await;
    }

    async fn before_deal(&self) {
        self.late.before_deal().await;
        let deals = self.late.deals.load(Ordering::SeqCst);
        if deals < 2 {
            return;
        }
        let store = self.world.store();
        for number in 0.. {
            let other = draw(&format!("other-{deals}-{number}"));
            if !matches!(store.draw(other.into()).await, Ok(Drawn::Done(_))) {
                break;
            }
        }
    }
}

async fn draws_that_wait_go_on_though_others_take_the_cards_that_are_dealt_for_them(
    world: &mut World,
) {
    world
        .begin(
            "
            prizes: [{id: coupon, stock: 100000}]
            pools: [{id: deck, deck: {size: 1, cards: {coupon: 1}, onExhausted: RESHUFFLE}}]
            ",
        )
        .await;
    // More than one step deals: it deals one card of each of 16 rounds.
    let draws = 100;
    let deals = Arc::new(AtomicUsize::new(0));
    let injector = world.injector_with(OthersTakeCards {
        late: DealsLate {
            draws,
            drawn: Arc::default(),
            deals: deals.clone(),
        },
        world: world.clone(),
    });
    for answer in all_draw(&injector, draws).await {
        assert_eq!(answer.wins(), 1);
    }
    let deals = deals.load(Ordering::SeqCst);
    assert!(deals < draws, "{deals} deals");
}
