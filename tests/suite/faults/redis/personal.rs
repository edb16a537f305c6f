//! Ten-pulls by few users from a personal pool, through two services, while a service or Redis is
//! killed. The audit makes every draw again from the seed, and counts every unit.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{
    DrawRequest, DrawResponse, GetStatsRequest, lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::health_check_response::ServingStatus::Serving;

use super::{House, whole};
use crate::{
    faults::load::{apply_all, now_and_about_noon},
    process::{Ended, Server, Start, tombola},
    support::patiently,
};

/// Clients that draw at the same time, for fewer users.
const CLIENTS: u64 = 12;
const USERS: u64 = 4;
/// Requests of each client in a round.
const PULLS: u64 = 40;
/// How often something is killed.
const ROUNDS: u64 = 6;
/// Pins, of which there are fewer than users draw.
const PINS: u64 = 400;

const CAMPAIGN: &str = "
id: wishes
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
prizes:
  - {id: hero, unlimited: true}
  - {id: star, unlimited: true}
  - {id: pin, stock: 400}
  - {id: mug, unlimited: true}
pools:
  - id: wish
    personal:
      odds: {hero: 1%, star: 2%, pin: 30%}
      fallback: mug
      guarantees:
        - id: five-stars
          prizes: [hero, star]
          within: 30
          ramp: [{from: 20, add: 6%}]
          among: [hero]
";

fn requests(round: u64, client: u64) -> Vec<DrawRequest> {
    let numbers = (0..PULLS).map(|number| (round * CLIENTS + client) * PULLS + number);
    numbers
        .map(|number| DrawRequest {
            campaign_id: "wishes".into(),
            user_id: format!("u-{}", number % USERS),
            request_id: format!("r-{number}"),
            count: [10, 10, 1, 10, 3][number as usize % 5],
            ..DrawRequest::default()
        })
        .collect()
}

/// Clients that retry each request until it is answered.
struct Clients {
    tasks: JoinSet<Vec<DrawResponse>>,
    answered: Arc<AtomicU64>,
}

impl Clients {
    fn start(servers: &[Server], round: u64) -> Self {
        let (mut tasks, answered) = (JoinSet::new(), Arc::<AtomicU64>::default());
        for client in 0..CLIENTS {
            let lotteries = servers.iter().map(|server| {
                let endpoint = Endpoint::from_shared(server.url()).unwrap();
                LotteryServiceClient::new(endpoint.connect_lazy())
            });
            let mut lotteries: Vec<_> = lotteries.collect();
            let answered = Arc::clone(&answered);
            tasks.spawn(async move {
                let mut answers = Vec::new();
                for (number, request) in requests(round, client).into_iter().enumerate() {
                    let mut at = number + client as usize;
                    let answer = loop {
                        at += 1;
                        let index = at % lotteries.len();
                        match lotteries[index].draw(request.clone()).await {
                            Ok(answer) => break answer.into_inner(),
                            Err(status) => assert_ne!(status.code(), Code::Internal, "{status:?}"),
                        }
                        sleep(Duration::from_millis(5)).await;
                    };
                    answered.fetch_add(1, Ordering::SeqCst);
                    answers.push(answer);
                }
                answers
            });
        }
        Self { tasks, answered }
    }

    /// Waits until so many requests are answered.
    async fn until(&self, count: u64) {
        while self.answered.load(Ordering::SeqCst) < count {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_users_draws_follow_from_the_seed_through_kills_of_services_and_of_redis() {
    let mut house = House::new();
    let mut servers = [house.start().serve(), house.start().serve()];
    apply_all(&servers[0], &now_and_about_noon(CAMPAIGN)).await;
    let mut answers = BTreeMap::<String, DrawResponse>::new();
    for round in 0..ROUNDS {
        let clients = Clients::start(&servers, round);
        clients.until(30 + 50 * round).await;
        if round % 2 == 0 {
            house.redis.kill();
            house.redis.restart();
        } else {
            let killed = &mut servers[round as usize / 2 % 2];
            killed.kill();
            let listen = killed.address.to_string();
            *killed = Start {
                listen: &listen,
                ..house.start()
            }
            .serve();
        }
        for answer in clients.tasks.join_all().await.into_iter().flatten() {
            answers.insert(answer.request_id.clone(), answer);
        }
    }
    assert_eq!(answers.len() as u64, ROUNDS * CLIENTS * PULLS);
    // A retry through any of the services is answered as before.
    let lottery = servers[1].lottery().await;
    for request in requests(0, 0).into_iter().chain(requests(ROUNDS - 1, 3)) {
        let again = patiently(|| {
            let (mut lottery, request) = (lottery.clone(), request.clone());
            async move { lottery.draw(request).await }
        });
        let again = again.await.into_inner();
        let first = &answers[&again.request_id];
        assert!(again.replayed);
        assert_eq!(
            (&again.results, again.draw_time),
            (&first.results, first.draw_time)
        );
    }
    let request = GetStatsRequest {
        campaign_id: "wishes".into(),
    };
    let campaigns = servers[0].campaigns().await;
    let stats = patiently(|| {
        let (mut campaigns, request) = (campaigns.clone(), request.clone());
        async move { campaigns.get_stats(request).await }
    });
    let stats = stats.await.into_inner();
    assert!(stats.balanced, "{stats:#?}");
    let of = |id: &str| {
        stats
            .prizes
            .iter()
            .find(|prize| prize.prize_id == id)
            .unwrap()
    };
    assert_eq!((of("pin").won, of("pin").stock), (PINS, PINS));
    assert!(of("mug").won > 0 && of("star").won > 0 && of("hero").won > 0);
    house.audit().await;
}

/// The service has drawn from the campaign that is lost, so it knows that one's seed.
#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_is_made_again_after_a_rollback_draws_from_its_own_seed() {
    let mut house = House::new();
    let server = house.start().serve();
    let campaign = now_and_about_noon(CAMPAIGN);
    house.redis.back_up();
    apply_all(&server, &campaign).await;
    draw_all(&server, 0).await;
    roll_back(&mut house, &server).await;
    apply_all(&server, &campaign).await;
    draw_all(&server, 1).await;
    house.audit().await;
}

/// The campaign is kept, but not the salt, which is made with the first draw.
#[tokio::test(flavor = "multi_thread")]
async fn draws_follow_from_the_salt_that_is_made_again_after_a_rollback() {
    let mut house = House::new();
    let server = house.start().serve();
    apply_all(&server, &now_and_about_noon(CAMPAIGN)).await;
    house.redis.back_up();
    draw_all(&server, 0).await;
    roll_back(&mut house, &server).await;
    draw_all(&server, 1).await;
    house.audit().await;
}

/// Makes the requests of one client in a round.
async fn draw_all(server: &Server, round: u64) {
    let lottery = server.lottery().await;
    for request in requests(round, 0) {
        let drawn = patiently(|| {
            let (mut lottery, request) = (lottery.clone(), request.clone());
            async move { lottery.draw(request).await }
        });
        drawn.await;
    }
}

/// Redis loses what was written since the backup, and an operator accepts that.
async fn roll_back(house: &mut House, server: &Server) {
    house.redis.restart_from_backup();
    server.says("halted, since Redis was rolled back");
    let url = house.redis.url();
    let recover = ["recover", "--redis-url", &url, "--accept", "--yes"];
    Ended::of(&mut tombola(recover)).well();
    whole(server, Serving).await;
}
