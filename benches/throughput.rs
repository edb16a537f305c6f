//! Draws per second through gRPC beside an empty RPC (the health check) of the same server in the same run.
//!
//! `cargo bench --bench throughput [-- SECONDS]`: starts the server as a process of its own on a temporary directory, with a pool
//! of released units and a deck, and sends 8 connections × 128 outstanding calls, every draw with its own user and request id.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    error::Error,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tombola::proto::{
    ApplyCampaignRequest, DrawRequest, GetStatsRequest, Outcome,
    campaign_service_client::CampaignServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::transport::Channel;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

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

/// A server that ends with this value.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(data: &Path, clock_start: &str) -> Result<Self, Fault> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(env!("CARGO_BIN_EXE_tombola"))
            .args(["serve", "--log", "warn", "--clock-start", clock_start])
            .arg("--listen")
            .arg(address.to_string())
            .arg("--data")
            .arg(data)
            .stderr(Stdio::inherit())
            .spawn()?;
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

#[tokio::main]
async fn main() -> Result<(), Fault> {
    let seconds: u64 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), "2030-01-01T00:00:00Z")?;
    apply(&server).await?;
    drop(server);
    let server = Server::start(data.path(), "2030-01-01T01:30:00Z")?;
    let mut channels = Vec::new();
    for _ in 0..CONNECTIONS {
        channels.push(server.connect().await?);
    }
    let load = Arc::new(Load {
        done: AtomicU64::new(0),
        wins: AtomicU64::new(0),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    });
    let calls = [
        ("empty", Call::Empty),
        ("pool", Call::Draw("pool")),
        ("deck", Call::Draw("deck")),
        ("scattered", Call::DrawScattered("pool")),
    ];
    let mut rates = [const { Vec::new() }; 4];
    for round in 0..=ROUNDS {
        for ((name, call), rates) in calls.into_iter().zip(&mut rates) {
            let cpu = server.cpu();
            let (rate, wins) =
                measure(&channels, &load, call, Duration::from_secs(seconds)).await?;
            let cpu = (server.cpu() - cpu).as_micros() as f64 / (rate * seconds as f64);
            let warm_up = if round == 0 { "  (warm-up)" } else { "" };
            println!(
                "{name:>9}: {rate:>8.0}/s, {wins:>5.1}% won, server {cpu:>5.1} µs of CPU a call{warm_up}"
            );
            if round > 0 {
                rates.push(rate);
            }
        }
    }
    let [empty, pool, deck, scattered] = rates.map(median);
    println!("draws from a pool over empty RPCs: {:.3}", pool / empty);
    println!("draws from a deck over empty RPCs: {:.3}", deck / empty);
    println!(
        "draws of scattered users over empty RPCs: {:.3}",
        scattered / empty
    );
    check(&server).await
}

fn median(mut rates: Vec<f64>) -> f64 {
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
