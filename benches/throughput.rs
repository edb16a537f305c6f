//! Draws per second through gRPC beside an empty RPC (the health check) of the same server in the same run.
//!
//! `cargo bench --bench throughput [-- SECONDS [STORE ...]]`: for each store (`embedded`, `redis` with every write on disk before
//! the answer, `redis-memory` with none on disk; the first two by default) starts the server as a process of its own, on a temporary
//! directory and where it needs one on a Redis of its own, with a pool of released units and a deck, and sends 8 connections × 128
//! outstanding calls, every draw with its own user and request id. The stores take turns, so that all have the same machine.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    error::Error,
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tombola::proto::{
    ApplyCampaignRequest, DrawRequest, GetStatsRequest, Outcome,
    campaign_service_client::CampaignServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::transport::Channel;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[path = "../tests/suite/support/redis_server.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "the tests use all of it, and it is theirs"
)]
mod redis_server;
use redis_server::RedisServer;

const CONNECTIONS: usize = 8;
const OUTSTANDING: usize = 128;
const ROUNDS: usize = 3;

type Fault = Box<dyn Error + Send + Sync>;

/// Two campaigns: an hour of a million units that passed unfilled and is released at once, and a deck in which every card wins.
const CAMPAIGNS: &str = "
id: pool
timeZone: UTC
startTime: 2030-01-01T00:00:00Z
endTime: 2030-01-03T00:00:00Z
consolation: {id: points}
prizes: [{id: coupon, stock: 9000000}]
pools: [{id: hours, schedule: {special: [{from: 2030-01-01T00:00, to: 2030-01-01T01:00, perHour: {coupon: 3000000}}], missed: RELEASE}}]
---
id: deck
timeZone: UTC
startTime: 2030-01-01T00:00:00Z
endTime: 2030-01-03T00:00:00Z
prizes: [{id: card, stock: 9000000000}]
pools: [{id: cards, deck: {size: 100000, cards: {card: 60000}, onExhausted: RESHUFFLE}}]
";

/// Where a server's data are.
struct House {
    name: String,
    data: TempDir,
    redis: Option<RedisServer>,
}

impl House {
    fn new(name: &str) -> Result<Self, Fault> {
        let redis = match name {
            "embedded" => None,
            "redis" | "redis-memory" => Some(RedisServer::start(&[])),
            _ => return Err(format!("no store is called {name}").into()),
        };
        let (name, data) = (name.to_owned(), tempfile::tempdir()?);
        Ok(Self { name, data, redis })
    }

    /// Time that Redis has spent on scripts.
    fn script_micros(&self) -> u64 {
        let Some(redis) = &self.redis else { return 0 };
        let stats = redis.command(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
        let fields = line.unwrap_or_default().split(',');
        let micros = fields
            .filter_map(|field| field.strip_prefix("usec="))
            .next();
        micros.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// A server that ends with this value.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(house: &House, clock_start: &str) -> Result<Self, Fault> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombola"));
        command
            .args(["serve", "--log", "warn", "--clock-start", clock_start])
            .arg("--listen")
            .arg(address.to_string())
            .arg("--data")
            .arg(house.data.path());
        if let Some(redis) = &house.redis {
            command.args(["--redis-url", &redis.url()]);
        }
        let child = command.stderr(Stdio::inherit()).spawn()?;
        Ok(Self { child, address })
    }

    async fn connect(&self) -> Result<Channel, Fault> {
        let endpoint = Channel::from_shared(format!("http://{}", self.address))?;
        for _ in 0..200 {
            if let Ok(channel) = endpoint.connect().await {
                return Ok(channel);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the server does not answer".into())
    }

    /// CPU time of the server's process so far.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let ticks: u64 = stat
            .unwrap_or_default()
            .rsplit(')')
            .next()
            .map(|rest| rest.split_whitespace().skip(11).take(2))
            .into_iter()
            .flatten()
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[derive(Clone, Copy)]
enum Call {
    Empty,
    /// From this campaign, by users whose ids follow each other.
    Draw(&'static str),
    /// By users whose ids are scattered over all there are, so that no two lie on one page of the store.
    DrawScattered(&'static str),
}

struct Load {
    done: AtomicU64,
    wins: AtomicU64,
    next: AtomicU64,
    stop: AtomicBool,
}

/// A server under load, and what was measured of it, by call.
struct Subject {
    house: House,
    server: Server,
    channels: Vec<Channel>,
    rates: [Vec<f64>; 4],
    script_micros: [f64; 4],
}

const CALLS: [(&str, Call); 4] = [
    ("empty", Call::Empty),
    ("pool", Call::Draw("pool")),
    ("deck", Call::Draw("deck")),
    ("scattered", Call::DrawScattered("pool")),
];

impl Subject {
    async fn prepare(name: &str) -> Result<Self, Fault> {
        let house = House::new(name)?;
        let server = Server::start(&house, "2030-01-01T00:00:00Z")?;
        apply(&server).await?;
        drop(server);
        let server = Server::start(&house, "2030-01-01T01:30:00Z")?;
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            channels.push(server.connect().await?);
        }
        if let (Some(redis), "redis-memory") = (&house.redis, name) {
            // The service refuses a Redis that keeps nothing, so it is told only now.
            redis.command(&["CONFIG", "SET", "appendonly", "no"]);
        }
        Ok(Self {
            house,
            server,
            channels,
            rates: [const { Vec::new() }; 4],
            script_micros: [0.0; 4],
        })
    }

    /// One round of one call.
    async fn measure(
        &mut self,
        call: usize,
        load: &Arc<Load>,
        seconds: u64,
        is_warm_up: bool,
    ) -> Result<(), Fault> {
        let (name, kind) = CALLS[call];
        let (cpu, script) = (self.server.cpu(), self.house.script_micros());
        let (rate, wins) =
            measure(&self.channels, load, kind, Duration::from_secs(seconds)).await?;
        let calls = load.done.load(Ordering::SeqCst) as f64;
        let cpu = (self.server.cpu() - cpu).as_micros() as f64 / calls;
        let script = (self.house.script_micros() - script) as f64 / calls;
        let warm_up = if is_warm_up { "  (warm-up)" } else { "" };
        println!(
            "{:>12} {name:>9}: {rate:>8.0}/s, {wins:>5.1}% won, {cpu:>5.1} µs of the server's CPU and {script:>4.1} µs of \
             Redis's time a call{warm_up}",
            self.house.name
        );
        if !is_warm_up {
            self.rates[call].push(rate);
            self.script_micros[call] = script;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let seconds: u64 = words
        .first()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let named: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let stores = if named.is_empty() {
        vec!["embedded", "redis"]
    } else {
        named
    };
    let mut subjects = Vec::new();
    for store in stores {
        subjects.push(Subject::prepare(store).await?);
    }
    let load = Arc::new(Load {
        done: AtomicU64::new(0),
        wins: AtomicU64::new(0),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    for round in 0..=ROUNDS {
        for call in 0..CALLS.len() {
            for subject in &mut subjects {
                subject.measure(call, &load, seconds, round == 0).await?;
            }
        }
    }
    for subject in &subjects {
        let [empty, draws @ ..] = subject.rates.each_ref().map(|rates| median(rates));
        for ((name, _), draws) in CALLS[1..].iter().zip(draws) {
            println!(
                "{:>12} {name:>9} over empty: {:.3}",
                subject.house.name,
                draws / empty
            );
        }
        check(&subject.server).await?;
    }
    Ok(())
}

fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn apply(server: &Server) -> Result<(), Fault> {
    let mut operators = CampaignServiceClient::new(server.connect().await?);
    for campaign in tombola::model::file::parse(CAMPAIGNS)? {
        operators
            .apply_campaign(ApplyCampaignRequest {
                campaign: Some(campaign),
                operator: "bench".into(),
                ..ApplyCampaignRequest::default()
            })
            .await?;
    }
    Ok(())
}

async fn check(server: &Server) -> Result<(), Fault> {
    let mut operators = CampaignServiceClient::new(server.connect().await?);
    for campaign in ["pool", "deck"] {
        let request = GetStatsRequest {
            campaign_id: campaign.into(),
        };
        let stats = operators.get_stats(request).await?.into_inner();
        println!(
            "{campaign}: {} draws, {} wins, balanced: {}",
            stats.draws, stats.wins, stats.balanced
        );
        assert!(stats.balanced);
    }
    Ok(())
}

async fn measure(
    channels: &[Channel],
    load: &Arc<Load>,
    call: Call,
    time: Duration,
) -> Result<(f64, f64), Fault> {
    load.done.store(0, Ordering::SeqCst);
    load.wins.store(0, Ordering::SeqCst);
    load.stop.store(false, Ordering::SeqCst);
    let begun = Instant::now();
    let workers: Vec<_> = channels
        .iter()
        .flat_map(|channel| (0..OUTSTANDING).map(move |_| channel.clone()))
        .map(|channel| tokio::spawn(work(channel, Arc::clone(load), call)))
        .collect();
    tokio::time::sleep(time).await;
    load.stop.store(true, Ordering::SeqCst);
    let done = load.done.load(Ordering::SeqCst);
    let elapsed = begun.elapsed();
    for worker in workers {
        worker.await??;
    }
    let wins = load.wins.load(Ordering::SeqCst) as f64 / done as f64 * 100.0;
    Ok((done as f64 / elapsed.as_secs_f64(), wins))
}

/// Spreads numbers over all ids, as real users' ids are (the finaliser of SplitMix64).
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

async fn work(channel: Channel, load: Arc<Load>, call: Call) -> Result<(), Fault> {
    let mut health = HealthClient::new(channel.clone());
    let mut lottery = LotteryServiceClient::new(channel);
    while !load.stop.load(Ordering::Relaxed) {
        match call {
            Call::Empty => {
                let service = String::new();
                health.check(HealthCheckRequest { service }).await?;
            }
            Call::Draw(campaign) | Call::DrawScattered(campaign) => {
                let number = load.next.fetch_add(1, Ordering::Relaxed);
                let (user_id, request_id) = match call {
                    Call::DrawScattered(_) => {
                        let id = scramble(number);
                        (format!("{id:016x}"), format!("request-{id:016x}"))
                    }
                    _ => (format!("user-{number:08}"), format!("request-{number:08}")),
                };
                let request = DrawRequest {
                    campaign_id: campaign.into(),
                    user_id,
                    request_id,
                    ..DrawRequest::default()
                };
                let answer = lottery.draw(request).await?.into_inner();
                if answer.results[0].outcome() == Outcome::Won {
                    load.wins.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        load.done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
