//! A service that draws, and everything that it has acknowledged.

use serde_json::Value;
use tempfile::TempDir;
use tombola::{
    proto::{DrawResponse, Outcome},
    store::Entry,
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::NotServing;

use super::{
    Lottery, PARTITIONS, assert_not_executed, directory_with_key, draws, request, store_at, whole,
};
use crate::{
    faults::load,
    process::{Ended, Server, Start, tombola},
    support::audit,
};

/// Every unit is due at once, and everyone wins as long as there are units.
const CAMPAIGNS: &str = "
id: wheel
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
prizes: [{id: mug, stock: 1000000}, {id: coin, stock: 1000000}]
pools:
  - {id: hours, schedule: {perHour: {mug: 200}, missed: RELEASE}}
  - {id: deck, deck: {size: 100, cards: {coin: 50}, onExhausted: RESHUFFLE}}
";

/// A service on a new store, with one campaign.
pub struct Witness {
    pub server: Server,
    pub lottery: Lottery,
    pub data: TempDir,
    /// Every draw that it has acknowledged, in order.
    pub drawn: Vec<DrawResponse>,
    url: String,
}

/// The entries that a halted partition has lost.
#[derive(Debug)]
pub struct Loss {
    pub partition: u32,
    /// Number of the last entry that the store still has.
    pub last_kept: u64,
    /// Number of the last entry that the service has acknowledged.
    pub last_acknowledged: u64,
}

impl Witness {
    /// Makes a store on this empty Redis, and starts a service on it.
    pub async fn start(url: &str) -> Self {
        Self::start_with(url, "").await
    }

    /// The same with further options.
    pub async fn start_with(url: &str, options: &str) -> Self {
        let data = directory_with_key();
        let start = Start::on_redis(data.path(), url);
        start.init().well();
        let server = start.with(options).serve();
        load::apply_all(&server, &load::now_and_about_noon(CAMPAIGNS)).await;
        Self {
            lottery: server.lottery().await,
            server,
            data,
            drawn: Vec::new(),
            url: url.to_owned(),
        }
    }

    /// Makes draws under these ids.
    pub async fn draw(&mut self, name: &str, count: usize) {
        for number in 0..count {
            let id = format!("{name}-{number}");
            let drawn = draws(&mut self.lottery, "wheel", &id, &id).await;
            self.drawn.push(drawn);
        }
    }

    /// Asserts that every draw is refused and that the service says so. The draw `lost-1` is lost.
    pub async fn is_halted(&mut self) {
        whole(&self.server, NotServing).await;
        let refused = self.lottery.draw(request("wheel", "late", "late")).await;
        let refused = refused.unwrap_err();
        assert_not_executed(&refused, Code::Unavailable);
        assert!(refused.message().contains("is halted"), "{refused:?}");
        assert!(refused.message().contains("tombola recover"), "{refused:?}");
        // No caller learns that a lost draw was never made: it would give the user's points back.
        let lost = self
            .lottery
            .draw(request("wheel", "lost-1", "lost-1"))
            .await;
        assert_not_executed(&lost.unwrap_err(), Code::Unavailable);
    }

    /// Runs `tombola recover` with these options.
    pub fn recover(&self, line: &str) -> Ended {
        let words = ["recover", "--redis-url", &self.url];
        Ended::of(&mut tombola(
            words.into_iter().chain(line.split_whitespace()),
        ))
    }

    /// The loss that `tombola recover` shows, if a partition is halted. It must be the partition of
    /// the campaign.
    pub fn loss(&self) -> Option<Loss> {
        let shown: Value = serde_json::from_str(&self.recover("--json").well()).unwrap();
        let halted = match shown["halted"].as_array().unwrap().as_slice() {
            [] => return None,
            [halted] => halted,
            _ => panic!("more than one partition is halted: {shown}"),
        };
        assert_eq!(halted["campaigns"], serde_json::json!(["wheel"]));
        let number = |name: &str| halted[name].as_str().unwrap().parse().unwrap();
        Some(Loss {
            partition: halted["partition"].as_u64().unwrap().try_into().unwrap(),
            last_kept: number("lastKept"),
            last_acknowledged: number("lastAcknowledged"),
        })
    }

    /// The ledger of the surviving data.
    pub async fn ledger(&self) -> Vec<Entry> {
        audit::ledger(&store_at(&self.url, PARTITIONS).await).await
    }

    /// The sums of the surviving data hold.
    pub async fn audit(&self) {
        audit::check(&store_at(&self.url, PARTITIONS).await, &[]).await;
    }

    /// The number of the ledger entry of the draw at this index.
    pub fn number(&self, index: usize) -> u64 {
        sequences(&self.drawn[index..=index])[0]
    }

    /// Units that were acknowledged more than once.
    pub fn doubled(&self) -> Vec<&str> {
        let results = self.drawn.iter().flat_map(|drawn| &drawn.results);
        let won = results.filter(|result| result.outcome() == Outcome::Won);
        let mut units: Vec<&str> = won.map(|result| result.unit_id.as_str()).collect();
        units.sort_unstable();
        let doubled = units.windows(2).filter(|pair| pair[0] == pair[1]);
        doubled.map(|pair| pair[0]).collect()
    }

    /// Asserts that no two draws have the same sequence number.
    pub fn assert_numbers_differ(&self) {
        let mut numbers = sequences(&self.drawn);
        let all = numbers.len();
        assert!(all > 0);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all, "P6: a number was used twice");
    }
}

/// The sequence numbers of these draws, which are of one campaign and thus of one partition.
fn sequences(drawn: &[DrawResponse]) -> Vec<u64> {
    let results = drawn.iter().flat_map(|drawn| &drawn.results);
    let ids = results.filter_map(|result| result.ledger_id.as_ref());
    ids.map(|id| id.sequence).collect()
}
