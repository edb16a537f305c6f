//! `GetOdds` reveals the seed of a campaign once no draw can follow, and not before.

use std::{future::pending, sync::Arc};

use async_trait::async_trait;
use tokio::net::TcpListener;
use tombola::{
    grpc::{
        local::Local,
        server::{Settings, serve},
    },
    injector::Injector,
    model::Moment,
    proto::{GetOddsRequest, lottery_service_client::LotteryServiceClient},
};

use crate::support::{
    Meddler, World, campaign, draw, embedded::Embedded, on_redis::OnRedis, words::SPRING,
};

const YAML: &str = "
    prizes: [{id: coupon, stock: 1000}]
    pools: [{id: deck, deck: {size: 10, cards: {coupon: 5}, onExhausted: RESHUFFLE}}]
";
/// The length of a seed in hexadecimal.
const SEED_CHARS: usize = 64;

/// The same campaign with a later end.
fn longer() -> String {
    format!("{YAML}\n    endTime: 2026-12-30T00:00:00+08:00")
}

/// The seed that a service with this injector reveals; empty if it reveals none.
async fn seed(injector: Arc<Injector>) -> String {
    let local = Local::default();
    let settings = Settings {
        local: local.clone(),
        ..Settings::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let asked = async {
        local.opened().await;
        let mut lottery = LotteryServiceClient::new(local.calls(None).unwrap());
        let request = GetOddsRequest {
            campaign_id: SPRING.into(),
            ..GetOddsRequest::default()
        };
        lottery.get_odds(request).await.unwrap().into_inner().seed
    };
    tokio::select! {
        ended = serve(listener, injector, None, settings, pending::<()>()) => panic!("{ended:?}"),
        seed = asked => seed,
    }
}

/// Moves the end just after the campaign is read; then the old end passes.
struct Mover {
    world: World,
    end: Moment,
}

#[async_trait]
impl Meddler for Mover {
    async fn after_campaign(&self) {
        self.world.change(&longer()).await;
        self.world.set_time(self.end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_seed_is_revealed_if_the_end_is_moved_meanwhile() {
    let world = World::new(Embedded::new()).await;
    let end = world.begin(YAML).await.end;
    let mover = Mover {
        world: world.clone(),
        end,
    };
    assert_eq!(seed(world.injector_with(mover)).await, "");
    assert_eq!(world.time(), end);
    world.draw(draw("user-1")).await;
    world.set_time(campaign(&longer()).end).await;
    let revealed = seed(world.injector().clone()).await;
    assert_eq!(revealed.len(), SEED_CHARS);
}

/// A partition that was written while the clock was ahead stays ahead of the others.
#[tokio::test(flavor = "multi_thread")]
async fn no_seed_is_revealed_by_the_time_of_another_partition() {
    let world = World::new(OnRedis::single()).await;
    let spring = world.begin(YAML).await;
    let store = world.store();
    let is_elsewhere = |id: &String| store.partition_of(id) != store.partition_of(SPRING);
    let mut ids = (0..).map(|number| format!("other-{number}"));
    let other = ids.find(is_elsewhere).unwrap();
    let times = "startTime: 2027-01-01T00:00:00+08:00\n    endTime: 2027-02-01T00:00:00+08:00";
    let other = campaign(&format!("\n    id: {other}\n    {times}{YAML}"));
    world.set_time(spring.end).await;
    world.try_apply(other, 0).await.unwrap();
    world.set_time(spring.start).await;

    assert!(store.now().await.unwrap() >= spring.end);
    assert!(store.time_of(&spring.id).await.unwrap() < spring.end);
    assert_eq!(seed(world.injector().clone()).await, "");
    world.set_time(spring.end).await;
    let revealed = seed(world.injector().clone()).await;
    assert_eq!(revealed.len(), SEED_CHARS);
}
