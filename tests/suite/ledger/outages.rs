//! PostgreSQL is full, hangs, is killed, or its answers to COMMIT are lost, under a service that
//! draws: draws go on, the metrics show how far the ledger is behind, and afterwards each entry is
//! settled once.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::block_in_place, time::timeout};
use tombola::ledger::{PostgresSink, PostgresUrl};

use super::{
    Database,
    cut::{When, port_while},
    kill::{assert_sums, caught_up},
};
use crate::{
    faults::{
        book::Book,
        load::{self, Attempt},
        redis::{House, PARTITIONS, callers::Callers},
    },
    process::{Server, project},
    support::{
        postgres::{APPLICATION, Postgres},
        redis_server::until,
    },
};

/// The age of the oldest entry that waits. The alert compares it too.
const AGE: &str = "tombola_ledger_unsettled_age_seconds";
const WAITING: &str = "tombola_ledger_unsettled_entries";
const SETTLED: &str = "tombola_ledger_settled_entries_total";
const SINK_UP: &str = "tombola_ledger_sink_up";
/// An entry that waits for this long waits because PostgreSQL is away.
const AWAY_S: f64 = 3.0;
/// Draws that go on meanwhile.
const DRAWS: u64 = 100;
/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A service that settles into a PostgreSQL of its own, and its callers.
struct Rig {
    house: House,
    database: Database,
    server: Server,
    callers: Callers,
    /// What callers before these have heard.
    heard: Vec<Attempt>,
}

impl Rig {
    async fn new(postgres: Postgres) -> Self {
        let port = postgres.port();
        Self::through(postgres, port).await
    }

    /// The service reaches the server through this port.
    async fn through(postgres: Postgres, port: u16) -> Self {
        let own = PostgresUrl::parse(&postgres.database("ledger").await).unwrap();
        assert!(PostgresSink::migrate(&own).await.unwrap());
        let house = House::new();
        let url = Postgres::url_at(port, "postgres", "ledger");
        let options = format!("--postgres-url {url} --admin 127.0.0.1:0");
        let server = house.start().with(&options).serve();
        load::apply_now(&server).await;
        let callers = Callers::start_with_pauses(&[&server], rand::random(), 0);
        callers.go_on(DRAWS).await;
        let database = Database {
            server: Arc::new(postgres),
            name: "ledger".into(),
        };
        Self {
            house,
            database,
            server,
            callers,
            heard: Vec::new(),
        }
    }

    /// Waits for a line of the log that takes long, while nobody calls. Other callers go on.
    async fn says_late(mut self, word: &str) -> Self {
        assert_eq!(self.callers.faults(), 0);
        self.heard.extend(self.callers.end().await);
        block_in_place(|| self.server.says(word));
        self.callers = Callers::start_with_pauses(&[&self.server], rand::random(), 1);
        self
    }

    fn postgres(&mut self) -> &mut Postgres {
        Arc::get_mut(&mut self.database.server).expect("nobody else has it")
    }

    fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.server.admin().get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    fn until_metric(&self, name: &str, is_so: impl Fn(f64) -> bool) {
        block_in_place(|| until(name, || is_so(self.metric(name))));
    }

    /// Draws go on while nothing is settled, and the metrics say so.
    async fn draws_go_on(&self) {
        self.until_metric(AGE, |age| age > AWAY_S);
        assert!(self.metric(WAITING) > 0.0);
        let alerts = fs::read_to_string(project("deploy/compose/alerts.yaml")).unwrap();
        assert!(alerts.contains(&format!("expr: max by (job, namespace) ({AGE}) > ")));
        self.callers.go_on(DRAWS).await;
        assert_eq!(self.callers.faults(), 0);
        self.server.admin().says("/readyz", 200);
    }

    /// Waits until entries are settled that were not before.
    fn settles_on(&self) {
        let before = self.metric(SETTLED);
        self.until_metric(SETTLED, |settled| settled > before);
    }

    /// Everything is settled in the end, each entry once.
    async fn adds_up(self) {
        self.settles_on();
        self.callers.go_on(DRAWS).await;
        assert_eq!(self.callers.faults(), 0);
        let attempts = [self.heard, self.callers.end().await].concat();
        Book::default().settle(&self.server, attempts).await;
        caught_up(&self.house.redis, &self.database, PARTITIONS).await;
        assert_sums(&self.server, &self.database).await;
        let url = self.database.url_text();
        self.server.run(&["audit", "--postgres-url", &url]).well();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_while_the_disk_of_postgres_is_full() {
    let (postgres, disk) = Postgres::start_on_a_small_disk();
    let mut rig = Rig::new(postgres).await;
    disk.fill("ballast");
    rig.server.says("the ledger is not settled");
    rig.draws_go_on().await;
    rig.until_metric(SINK_UP, |is_up| is_up == 0.0);
    // It is said that it cannot write, and not each time anew that it can be reached.
    let log = rig.server.log();
    assert!(log.contains("No space left on device"), "{log}");
    assert!(!log.contains("is there again"), "{log}");

    disk.remove("ballast");
    block_in_place(|| rig.postgres().restart_if_ended()); // it ends if its log does not fit
    rig.server.says("is there again");
    rig.until_metric(SINK_UP, |is_up| is_up == 1.0);
    rig.adds_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_while_postgres_hangs() {
    let mut rig = Rig::new(Postgres::start()).await;
    // Once it goes on at once, once after the service has given up its statement, which the server
    // may still carry out then.
    for gives_up in [false, true] {
        rig.postgres().freeze();
        rig.draws_go_on().await;
        if gives_up {
            rig = rig.says_late("did not answer within").await;
            rig.callers.go_on(DRAWS).await;
        }
        rig.postgres().thaw();
        rig.settles_on();
    }
    rig.server.says("is there again");
    rig.adds_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_while_postgres_is_killed_again_and_again() {
    let mut rig = Rig::new(Postgres::start()).await;
    for round in 0..4 {
        if round % 2 == 0 {
            rig.postgres().kill();
            rig.callers.go_on(DRAWS).await;
            block_in_place(|| rig.postgres().restart());
        } else {
            rig.postgres().kill_process_of(APPLICATION).await;
            rig.callers.go_on(DRAWS).await;
        }
        rig.settles_on();
    }
    rig.adds_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_while_commits_are_cut() {
    const CUTS: usize = 4;
    for when in [When::Before, When::After] {
        let (postgres, is_cut) = (Postgres::start(), Arc::new(AtomicBool::new(true)));
        let (port, cut) = port_while(is_cut.clone(), "COMMIT", when, postgres.port()).await;
        let rig = Rig::through(postgres, port).await;
        for _ in 0..CUTS {
            timeout(PATIENCE, cut.notified()).await.unwrap();
        }
        rig.callers.go_on(DRAWS).await;
        is_cut.store(false, Ordering::SeqCst);
        rig.adds_up().await;
    }
}
