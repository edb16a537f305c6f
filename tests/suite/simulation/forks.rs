//! Random failovers of three real Redis servers with real services. Nodes replicate late, fail
//! over, split, restart and come back; services pause, die and change sides.
//!
//! Replication is simulated: after each step the primary's keys are copied to replicas, and a
//! promoted node gets a copy that may be some steps old. So each run decides exactly what a
//! failover loses, which real replication does not allow. Servers, scripts and services are real.
//! Copies confirm nothing, so the level is `local`; `faults::failover` tests `strict`.
//!
//! `TOMBOLA_FORK_RUNS` sets the number of runs. `TOMBOLA_FORK_SEED` repeats one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use redis::{Value, aio::MultiplexedConnection};
use tombola::{
    injector::Injector,
    store::{
        DrawResult, Durability, Entry, LedgerId, StoreError,
        clock::ManualClock,
        entry::Body,
        redis::{Found, KeyPrefix, LevelOptions, Options, RedisStore, RedisUrl},
    },
};

use crate::{
    faults::kill::setting,
    support::{
        at, audit, author, campaign, draw, minutes,
        network::{Network, Proxy},
        redis_server::RedisServer,
        words::new_request,
        world::key,
    },
};

const NODES: usize = 3;
const SERVICES: usize = 3;
const STEPS: usize = 250;
/// After a fork, writes wait this long. The services' next steps come before its end in some runs,
/// and after it in others.
const FORK_PAUSE: Duration = Duration::from_millis(20);
const NOW: &str = "2026-11-20T00:00:00+08:00";
const WHEEL: &str = "
    prizes: [{id: coupon, stock: 100000}]
    consolation: {id: points}
    pools:
      - id: everyday
        deck: {size: 50, cards: {coupon: 20}, onExhausted: RESHUFFLE}
";
/// Reads all keys and values of a server.
const COPY: &str = "
    local copy = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
        copy[#copy + 1] = key
        copy[#copy + 1] = redis.call('DUMP', key)
    end
    return copy";
const PASTE: &str = "
    redis.call('FLUSHALL')
    for index = 1, #ARGV, 2 do
        redis.call('RESTORE', ARGV[index], 0, ARGV[index + 1])
    end";

/// All keys and values of a server at some time.
type Copy = Arc<Vec<Vec<u8>>>;

struct Node {
    server: RedisServer,
    connection: MultiplexedConnection,
    /// The data replicated to it; for a replica, the primary's data of an earlier step.
    data: Copy,
    is_alive: bool,
}

impl Node {
    async fn start() -> Self {
        let server = RedisServer::start(&[("enable-debug-command", "yes")]);
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self {
            server,
            connection,
            data: Copy::default(),
            is_alive: true,
        }
    }

    async fn copy(&mut self) -> Copy {
        let mut eval = redis::cmd("EVAL");
        eval.arg(COPY).arg(0);
        Arc::new(eval.query_async(&mut self.connection).await.unwrap())
    }

    /// Makes it a primary with the data that it has.
    async fn promote(&mut self) {
        let mut eval = redis::cmd("EVAL");
        eval.arg(PASTE).arg(0).arg(self.data.as_slice());
        let _: Value = eval.query_async(&mut self.connection).await.unwrap();
        self.change_replid();
    }

    /// Changes the replication id, as a promotion or a restart does.
    fn change_replid(&self) {
        assert_eq!(self.server.command(&["DEBUG", "CHANGE-REPL-ID"]), "OK");
    }
}

struct Service {
    proxy: Proxy,
    injector: Arc<Injector>,
    node: usize,
    is_alive: bool,
    /// For how many steps it is stopped.
    paused: usize,
}

/// A draw that a service has acknowledged.
struct Acknowledged {
    service: usize,
    id: LedgerId,
    request: String,
    units: Vec<String>,
}

struct World {
    rng: StdRng,
    nodes: Vec<Node>,
    services: Vec<Service>,
    primary: usize,
    /// Old primaries that still accept writes, with the step at which they become replicas.
    split: Vec<(usize, usize)>,
    acknowledged: Vec<Acknowledged>,
    /// The node on which a service noticed a loss of entries.
    noticed_on: Option<usize>,
    _network: Network,
}

#[derive(Default, Debug)]
struct Tally {
    runs: usize,
    draws: usize,
    lossy: usize,
    noticed: usize,
    unnoticed_witness_dead: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_a_living_service_has_witnessed_is_noticed_and_no_number_is_used_twice() {
    let runs = setting("TOMBOLA_FORK_RUNS").unwrap_or(20);
    let first = setting("TOMBOLA_FORK_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut tally = Tally::default();
    for seed in first..first + runs {
        eprintln!("to repeat: TOMBOLA_FORK_SEED={seed} TOMBOLA_FORK_RUNS=1");
        let mut world = World::new(seed).await;
        world.run().await;
        world.check(&mut tally).await;
    }
    println!("{tally:?}");
}

impl World {
    async fn new(seed: u64) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Node::start().await);
        }
        let network = Network::new();
        let mut services = Vec::new();
        for _ in 0..SERVICES {
            let proxy = network.proxy();
            proxy.lead_to(nodes[0].server.port());
            let injector = serve(&format!("redis://127.0.0.1:{}", proxy.port())).await;
            services.push(Service {
                proxy,
                injector,
                node: 0,
                is_alive: true,
                paused: 0,
            });
        }
        let wheel = campaign(WHEEL);
        let applied = services[0].injector.apply(wheel, 0, author("apply"));
        applied.await.unwrap();
        let data = nodes[0].copy().await;
        for node in &mut nodes {
            node.data = Arc::clone(&data);
        }
        Self {
            rng: StdRng::seed_from_u64(seed),
            nodes,
            services,
            primary: 0,
            split: Vec::new(),
            acknowledged: Vec::new(),
            noticed_on: None,
            _network: network,
        }
    }

    async fn run(&mut self) {
        for step in 0..STEPS {
            self.replicate().await;
            self.end_splits(step);
            self.disturb(step).await;
            let service = self.rng.random_range(0..SERVICES);
            self.act(service).await;
            if self.noticed_on.is_some() {
                return;
            }
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.random_bool(probability)
    }

    /// Copies the primary's current data to some replicas; the others lag behind.
    async fn replicate(&mut self) {
        let data = self.nodes[self.primary].copy().await;
        for number in 0..NODES {
            let is_replica = number != self.primary && !self.is_split(number);
            if self.nodes[number].is_alive && is_replica && self.chance(0.8) {
                self.nodes[number].data = Arc::clone(&data);
            }
        }
        self.nodes[self.primary].data = data;
    }

    fn is_split(&self, node: usize) -> bool {
        self.split.iter().any(|(split, _)| *split == node)
    }

    /// Old primaries become replicas of the new one, and services that were connected to them move
    /// there.
    fn end_splits(&mut self, step: usize) {
        let over = |(_, until): &(usize, usize)| *until <= step;
        let ended: Vec<_> = self.split.iter().copied().filter(over).collect();
        self.split.retain(|split| !over(split));
        for (node, _) in ended {
            for service in 0..SERVICES {
                if self.services[service].node == node {
                    self.follow(service);
                }
            }
        }
    }

    /// Connects the service to the primary.
    fn follow(&mut self, service: usize) {
        let service = &mut self.services[service];
        service.node = self.primary;
        service
            .proxy
            .lead_to(self.nodes[self.primary].server.port());
        service.proxy.reset();
    }

    async fn disturb(&mut self, step: usize) {
        if self.chance(0.02) {
            self.fail_over(step).await;
        } else if self.chance(0.01) {
            self.nodes[self.primary].change_replid(); // a restart with all its data
        }
        for number in 0..NODES {
            if !self.nodes[number].is_alive && self.chance(0.05) {
                self.nodes[number].is_alive = true;
            }
        }
        for number in 0..SERVICES {
            if self.chance(0.004) {
                self.services[number].paused = self.rng.random_range(5..60);
            } else if self.chance(0.001) {
                self.services[number].is_alive = false;
            }
        }
    }

    /// Promotes a replica, usually one that is in sync. The primary has died, or goes on for a
    /// while.
    async fn fail_over(&mut self, step: usize) {
        let is_candidate = |number: &usize| {
            *number != self.primary && self.nodes[*number].is_alive && !self.is_split(*number)
        };
        let candidates: Vec<_> = (0..NODES).filter(is_candidate).collect();
        if candidates.is_empty() {
            return;
        }
        if self.chance(0.7) {
            let data = self.nodes[self.primary].copy().await;
            candidates
                .iter()
                .for_each(|node| self.nodes[*node].data = Arc::clone(&data));
        }
        let old = self.primary;
        self.primary = candidates[self.rng.random_range(0..candidates.len())];
        self.nodes[self.primary].promote().await;
        if self.chance(0.5) {
            self.nodes[old].is_alive = false;
            for service in 0..SERVICES {
                if self.services[service].node == old {
                    self.follow(service);
                }
            }
        } else {
            let until = step + self.rng.random_range(1..40);
            self.split.push((old, until));
        }
    }

    /// Lets a service draw or probe, unless it is stopped.
    async fn act(&mut self, number: usize) {
        let moves = self.chance(0.1);
        let draws = self.chance(0.7);
        let service = &mut self.services[number];
        if !service.is_alive {
            return;
        }
        if service.paused > 0 {
            service.paused -= 1;
            return;
        }
        if moves && service.node != self.primary {
            self.follow(number);
        }
        if draws {
            self.draw(number).await;
        } else {
            self.probe(number).await;
        }
    }

    async fn draw(&mut self, number: usize) {
        let request = new_request();
        let user = format!("u{}", self.rng.random_range(0..20));
        let command = draw(&user);
        let command = tombola::store::DrawCommand {
            request: crate::support::request(&request),
            ..command
        };
        match self.services[number].injector.draw(command).await {
            Ok(answer) => {
                let wheel = &answer.campaign;
                let units = answer
                    .entry
                    .results
                    .iter()
                    .filter_map(|result| match result {
                        DrawResult::Won { pool, unit, .. } => {
                            Some(unit.id(wheel.pool(*pool).id.as_str()))
                        }
                        _ => None,
                    });
                self.acknowledged.push(Acknowledged {
                    service: number,
                    id: answer.ledger,
                    request,
                    units: units.collect(),
                });
            }
            Err(error) => self.hear(number, &error),
        }
    }

    async fn probe(&mut self, number: usize) {
        if let Err(error) = self.services[number].injector.store().now().await {
            self.hear(number, &error);
        }
    }

    fn hear(&mut self, service: usize, error: &StoreError) {
        match error {
            StoreError::Halted(_) => self.noticed_on = Some(self.services[service].node),
            StoreError::Unavailable { .. } => {}
            other => panic!("{other}"),
        }
    }

    async fn check(&mut self, tally: &mut Tally) {
        // Gives living services time to probe.
        for _ in 0..3 {
            for number in 0..SERVICES {
                if self.services[number].is_alive && self.noticed_on.is_none() {
                    self.follow(number);
                    self.probe(number).await;
                }
            }
        }
        let ledger = self.ledger().await;
        let mut numbers = BTreeMap::new();
        let mut units = BTreeMap::<&String, Vec<bool>>::new();
        let mut lost_by = BTreeSet::new();
        for drawn in &self.acknowledged {
            let before = numbers.insert(drawn.id, &drawn.request);
            assert_eq!(before, None, "P6: {:?} was given twice", drawn.id);
            let is_kept = ledger.get(&drawn.id) == Some(&drawn.request);
            for unit in &drawn.units {
                units.entry(unit).or_default().push(is_kept);
            }
            if !is_kept {
                lost_by.insert(drawn.service);
            }
        }
        for (unit, winners) in units {
            let kept = winners.iter().filter(|is_kept| **is_kept).count();
            assert!(kept <= 1, "P1: {unit} was won twice in one ledger");
        }
        let is_witnessed = lost_by.iter().any(|number| self.services[*number].is_alive);
        tally.runs += 1;
        tally.draws += self.acknowledged.len();
        tally.lossy += usize::from(!lost_by.is_empty());
        tally.noticed += usize::from(self.noticed_on.is_some());
        if let Some(node) = self.noticed_on {
            // This need not be the current primary.
            self.check_halt(node).await;
        } else if !lost_by.is_empty() {
            assert!(
                !is_witnessed,
                "a loss that a living service has witnessed was not noticed"
            );
            tally.unnoticed_witness_dead += 1;
        }
    }

    /// The request ids by entry, on the primary.
    async fn ledger(&mut self) -> BTreeMap<LedgerId, String> {
        self.ledger_of(self.primary).await
    }

    /// The entry for which a partition is halted is not there. It need not be a draw: services deal
    /// cards in the background.
    async fn check_halt(&self, node: usize) {
        let halt = self.nodes[node]
            .server
            .command(&["HGET", "tombola{0}:partition", "halt"]);
        let acknowledged = halt.split_whitespace().nth(1).map(str::parse::<u64>);
        let acknowledged = acknowledged.unwrap_or_else(|| panic!("no halt: {halt:?}"));
        let acknowledged = acknowledged.unwrap();
        let entries = self.entries_of(node).await;
        let is_there = entries
            .iter()
            .any(|entry| entry.id.sequence == acknowledged);
        assert!(!is_there, "halted, though nothing is lost: {halt}");
    }

    async fn entries_of(&self, node: usize) -> Vec<Entry> {
        let store = open(&self.nodes[node].server.url()).await;
        audit::ledger(&store).await
    }

    async fn ledger_of(&self, node: usize) -> BTreeMap<LedgerId, String> {
        let entries = self.entries_of(node).await;
        let draws = entries.into_iter().filter_map(|entry| match entry.body {
            Body::Draw(draw) => Some((entry.id, draw.request.to_string())),
            _ => None,
        });
        draws.collect()
    }
}

async fn serve(url: &str) -> Arc<Injector> {
    let store = open(url).await;
    Arc::new(Injector::new(Arc::new(store), key(), minutes(5)))
}

async fn open(url: &str) -> RedisStore {
    let options = Options {
        url: RedisUrl::parse(url).unwrap(),
        prefix: KeyPrefix::parse("tombola").unwrap(),
        partitions: 1,
        durability: Durability::Local,
        level: LevelOptions::default(),
        clock: Some(Arc::new(ManualClock::at(at(NOW)))),
        request_memory: Duration::from_secs(24 * 3600),
        fork_pause: FORK_PAUSE,
        store_id: None,
    };
    let mut found = Found::look(options).await.unwrap();
    found.init(&key().fingerprint()).await.unwrap();
    RedisStore::open(found, &key().fingerprint()).await.unwrap()
}
