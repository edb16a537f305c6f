//! Redis is rolled back while a service runs: what the service notices, and how an operator lets it
//! go on.

use serde_json::Value;
use tempfile::TempDir;
use tombola::{
    proto::{DrawResponse, Outcome},
    store::{Entry, entry::Body},
};
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};

use super::{
    Lottery, PARTITIONS, assert_not_executed, directory_with_key, draws, healthy, request, store_at,
};
use crate::{
    faults::load,
    process::{Ended, Server, Start, tombola},
    support::{
        audit, network::Link, program::Program, redis_server::until, replicated::Replicated,
    },
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

/// A primary with one replica, and a service that reaches the primary through a proxy.
struct Pair {
    nodes: Replicated,
    server: Server,
    lottery: Lottery,
    data: TempDir,
    drawn: Vec<DrawResponse>,
}

impl Pair {
    async fn new() -> Self {
        let nodes = Replicated::start(Program::System, 1);
        let data = directory_with_key();
        let start = Start::on_redis(data.path(), &nodes.url());
        let made = start.init();
        assert_eq!(made.code, Some(0), "{made:?}");
        let server = start.serve();
        load::apply_all(&server, &load::now_and_about_noon(CAMPAIGNS)).await;
        let lottery = server.lottery().await;
        let mut pair = Self {
            nodes,
            server,
            lottery,
            data,
            drawn: Vec::new(),
        };
        pair.draw("before", 20).await;
        pair.nodes.wait_until_followed(0);
        pair
    }

    /// Makes draws under these ids.
    async fn draw(&mut self, name: &str, count: usize) {
        for number in 0..count {
            let id = format!("{name}-{number}");
            let drawn = draws(&mut self.lottery, "wheel", &id, &id).await;
            self.drawn.push(drawn);
        }
    }

    /// The primary dies, and its replica takes over with what it has.
    fn fail_over(&mut self) {
        self.nodes.nodes[0].server.kill();
        let replica = self.nodes.nodes[1].server.port();
        let promoted = self.nodes.nodes[1]
            .server
            .command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(promoted, "OK");
        self.nodes.nodes[0].proxy.lead_to(replica);
        self.nodes.nodes[0].proxy.reset();
    }

    /// The replica receives nothing more while the service goes on; then it takes over.
    async fn fail_over_with_loss(&mut self) {
        self.nodes.link_replicas(0, Link::Cut);
        self.draw("lost", 20).await;
        self.fail_over();
    }

    /// Asserts that every draw is refused and that the service says so.
    async fn is_halted(&mut self) {
        healthy(&self.server, NotServing).await;
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

    fn recover(&self, line: &str) -> Ended {
        let url = self.nodes.url();
        let words = ["recover", "--redis-url", url.as_str()];
        Ended::of(&mut tombola(
            words.into_iter().chain(line.split_whitespace()),
        ))
    }

    async fn ledger(&self) -> Vec<Entry> {
        audit::ledger(&store_at(&self.nodes.url(), PARTITIONS).await).await
    }

    /// The sums of the surviving data hold.
    async fn audit(&self) {
        audit::check(&store_at(&self.nodes.url(), PARTITIONS).await, &[]).await;
    }

    /// Units that were acknowledged more than once.
    fn doubled(&self) -> Vec<&str> {
        let results = self.drawn.iter().flat_map(|drawn| &drawn.results);
        let won = results.filter(|result| result.outcome() == Outcome::Won);
        let mut units: Vec<&str> = won.map(|result| result.unit_id.as_str()).collect();
        units.sort_unstable();
        let doubled = units.windows(2).filter(|pair| pair[0] == pair[1]);
        doubled.map(|pair| pair[0]).collect()
    }

    /// Asserts that no two draws have the same sequence number.
    fn assert_numbers_differ(&self) {
        let mut numbers: Vec<u64> = self
            .drawn
            .iter()
            .flat_map(|drawn| &drawn.results)
            .filter_map(|result| result.ledger_id.as_ref())
            .map(|id| id.sequence)
            .collect();
        let all = numbers.len();
        assert!(all > 0);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all, "P6: a number was used twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_nothing_is_a_fork_and_no_halt() {
    let mut pair = Pair::new().await;
    pair.fail_over();
    let forked = |entries: &[Entry]| {
        let forks = entries
            .iter()
            .filter(|e| matches!(e.body, Body::Forked { .. }));
        forks.count()
    };
    // A connection that breaks at that moment leaves the outcome of its draw open, so the draw is
    // repeated.
    while pair
        .lottery
        .draw(request("wheel", "after", "after"))
        .await
        .is_err()
    {}
    pair.draw("after", 150).await;
    assert_eq!(forked(&pair.ledger().await), PARTITIONS as usize);
    pair.assert_numbers_differ();
    assert_eq!(pair.doubled(), [""; 0]);
    pair.audit().await;
    let shown = pair.recover("");
    assert!(shown.stdout.contains("no partition is halted"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_acknowledged_draws_halts_their_partition() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.is_halted().await;
    let shown = pair.recover("--json");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let halted = shown["halted"].as_array().unwrap();
    assert_eq!(halted.len(), 1, "{shown}");
    let number = |name: &str| -> u64 { halted[0][name].as_str().unwrap().parse().unwrap() };
    assert!(
        number("lastAcknowledged") >= number("lastKept") + 20,
        "{shown}"
    );
    assert_eq!(halted[0]["campaigns"], serde_json::json!(["wheel"]));
    // A restarted service is no witness, but the halt stays.
    let another = Start::on_redis(pair.data.path(), &pair.nodes.url()).serve();
    let mut lottery = another.lottery().await;
    let refused = lottery.draw(request("wheel", "late", "late")).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_be_won_is_withdrawn_so_that_none_is_won_twice() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.is_halted().await;
    let recovered = pair.recover("--withdraw-due --yes --operator ops --reason failover");
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert!(recovered.stdout.contains("wheel"), "{recovered:?}");
    healthy(&pair.server, Serving).await;
    pair.draw("after", 150).await;
    pair.assert_numbers_differ();
    assert_eq!(pair.doubled(), [""; 0], "P1");
    let entries = pair.ledger().await;
    let recovered = entries
        .iter()
        .filter(|e| matches!(e.body, Body::Recovered { .. }));
    assert_eq!(recovered.count(), 1);
    pair.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_is_accepted_doubles_units_and_no_number() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.is_halted().await;
    let recovered = pair.recover("--accept --yes");
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    healthy(&pair.server, Serving).await;
    pair.draw("after", 100).await;
    pair.assert_numbers_differ();
    assert_ne!(
        pair.doubled(),
        [""; 0],
        "the deck's next cards are those of the lost draws"
    );
    pair.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_partition_goes_on_by_itself_once_its_data_are_restored() {
    let mut pair = Pair::new().await;
    pair.fail_over_with_loss().await;
    pair.is_halted().await;
    // The old primary comes back with all its data.
    pair.nodes.nodes[0].server.restart();
    let port = pair.nodes.nodes[0].server.port();
    pair.nodes.nodes[0].proxy.lead_to(port);
    pair.nodes.nodes[0].proxy.reset();
    until("the service reaches it", || {
        pair.recover("").stdout.contains("no partition")
    });
    healthy(&pair.server, Serving).await;
    for number in 0..20 {
        let id = format!("lost-{number}");
        let again = draws(&mut pair.lottery, "wheel", &id, &id).await;
        assert!(again.replayed, "P3: {id}");
    }
    pair.draw("after", 20).await;
    pair.assert_numbers_differ();
    assert_eq!(pair.doubled(), [""; 0]);
    pair.audit().await;
}
