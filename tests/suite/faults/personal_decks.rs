//! Many users draw ten at a time from decks of their own, while the service or its Redis is killed
//! and clients retry. Each user gets exactly the cards of a round.
//!
//! `TOMBOLA_USERS=10000` makes it as many users as the promise names.

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
    DrawRequest, DrawResponse, GetStatsRequest, GetStatsResponse, Outcome,
    lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, transport::Endpoint};

use super::{
    kill::setting,
    load::{apply_all, now_and_about_noon},
    redis::House,
};
use crate::{
    process::{Server, Start},
    support::patiently,
};

const USERS: u64 = 1_000;
/// Clients that draw at the same time.
const CLIENTS: u64 = 32;
/// How often something is killed.
const KILLS: u64 = 6;
/// Ten-pulls of each user: as many as a round has.
const PULLS: u64 = 2;
const HEROES: u64 = 1;
const MUGS: u64 = 6;

fn campaign(users: u64) -> String {
    let (heroes, mugs) = (users * HEROES, users * MUGS);
    format!(
        "
id: alone
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes:
  - {{id: hero, stock: {heroes}, grand: true}}
  - {{id: mug, stock: {mugs}}}
pools:
  - {{id: own, personal: {{deck: {{size: 20, cards: {{hero: {HEROES}, mug: {MUGS}}}}}}}}}
"
    )
}

/// The number of users.
fn users() -> u64 {
    setting("TOMBOLA_USERS").unwrap_or(USERS)
}

fn request(number: u64) -> DrawRequest {
    DrawRequest {
        campaign_id: "alone".into(),
        user_id: format!("u-{}", number / PULLS),
        request_id: format!("r-{number}"),
        count: 10,
        ..DrawRequest::default()
    }
}

/// Clients that retry each request until it is answered.
struct Clients {
    tasks: JoinSet<Vec<DrawResponse>>,
    answered: Arc<AtomicU64>,
}

impl Clients {
    /// Both ten-pulls of a user are made by different clients at about the same time.
    fn start(server: &Server) -> Self {
        let (mut tasks, answered) = (JoinSet::new(), Arc::<AtomicU64>::default());
        let next = Arc::<AtomicU64>::default();
        let endpoint = Endpoint::from_shared(server.url()).unwrap();
        for _ in 0..CLIENTS {
            let mut lottery = LotteryServiceClient::new(endpoint.connect_lazy());
            let (next, answered) = (Arc::clone(&next), Arc::clone(&answered));
            tasks.spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= PULLS * users() {
                        return answers;
                    }
                    let answer = loop {
                        match lottery.draw(request(number)).await {
                            Ok(answer) => break answer.into_inner(),
                            Err(status) => assert_ne!(status.code(), Code::Internal, "{status:?}"),
                        }
                        sleep(Duration::from_millis(5)).await;
                    };
                    answered.fetch_add(1, Ordering::SeqCst);
                    answers.push(answer);
                }
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

    /// Kills something again and again while the clients draw; their answers.
    async fn through(self, mut kill: impl FnMut(u64)) -> Vec<DrawResponse> {
        for number in 0..KILLS {
            self.until(PULLS * users() * (number + 1) / (KILLS + 1))
                .await;
            kill(number);
        }
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// Each user has the cards of a round, each unit was won once, and all stock is won.
async fn check(server: &Server, answers: Vec<DrawResponse>) {
    let of_user = |answer: &DrawResponse| {
        let number: u64 = answer.request_id[2..].parse().unwrap();
        number / PULLS
    };
    let mut found = BTreeMap::<u64, [u64; 3]>::new();
    let mut units = BTreeMap::new();
    for answer in &answers {
        let counts = found.entry(of_user(answer)).or_default();
        for result in &answer.results {
            let kind = match result.prize_id.as_str() {
                "hero" => 0,
                "mug" => 1,
                _ => 2,
            };
            counts[kind] += 1;
            if result.outcome() == Outcome::Won {
                let earlier = units.insert(&result.unit_id, &answer.request_id);
                assert_eq!(earlier, None, "{} was won twice", result.unit_id);
            }
        }
    }
    assert_eq!(found.len() as u64, users());
    let blanks = 20 - HEROES - MUGS;
    for (user, counts) in found {
        assert_eq!(counts, [HEROES, MUGS, blanks], "user {user}");
    }
    let stats = stats(server).await;
    assert!(stats.balanced, "{stats:#?}");
    for (prize, each) in stats.prizes.iter().zip([HEROES, MUGS]) {
        assert_eq!((prize.won, prize.stock), (each * users(), each * users()));
    }
    assert_eq!(stats.draws, 20 * users());
}

async fn stats(server: &Server) -> GetStatsResponse {
    let campaigns = server.campaigns().await;
    let request = GetStatsRequest {
        campaign_id: "alone".into(),
    };
    let stats = patiently(|| {
        let (mut campaigns, request) = (campaigns.clone(), request.clone());
        async move { campaigns.get_stats(request).await }
    });
    stats.await.into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_user_gets_the_cards_of_a_round_through_kills() {
    let data = tempfile::tempdir().unwrap();
    let now = "2026-12-05T04:00:00+08:00";
    let start = |listen: &str| {
        Start {
            listen,
            ..Start::on(data.path()).at(now.to_owned())
        }
        .serve()
    };
    let mut server = start("127.0.0.1:0");
    apply_all(&server, &campaign(users())).await;
    let clients = Clients::start(&server);
    let listen = server.address.to_string();
    let answers = clients.through(|_| {
        server.kill();
        server = start(&listen);
    });
    let answers = answers.await;
    check(&server, answers).await;
    // With the seed that the end reveals, the audit makes every draw again.
    server.run(&["close", "alone", "--yes"]).well();
    let directory = data.path().to_str().unwrap();
    let said = server.run(&["audit", "--data", directory]).well();
    println!("{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_user_gets_the_cards_of_a_round_through_kills_of_services_and_of_redis() {
    let mut house = House::new();
    let mut server = house.start().serve();
    apply_all(&server, &now_and_about_noon(&campaign(users()))).await;
    let clients = Clients::start(&server);
    let listen = server.address.to_string();
    let answers = clients.through(|number| {
        if number % 2 == 0 {
            house.redis.kill();
            house.redis.restart();
        } else {
            server.kill();
            server = Start {
                listen: &listen,
                ..house.start()
            }
            .serve();
        }
    });
    let answers = answers.await;
    check(&server, answers).await;
    house.audit().await;
}
