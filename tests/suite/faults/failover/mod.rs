//! Faults of servers and services under load. The tests count lost, doubled, denied and unknown
//! draws.
//!
//! Each fault is a test that runs one round; `TOMBOLA_FAULT_ROUNDS` sets the number of rounds:
//!
//! ```text
//! TOMBOLA_FAULT_ROUNDS=20 cargo test --locked --test suite -- faults::failover --nocapture
//! ```
//!
//! The test `report` runs all faults and prints one table. If `TOMBOLA_FAULTS_REPORT` names a file,
//! the table is written there too. `TOMBOLA_FAULT_JOBS` faults run at a time, each on its own
//! servers. Rounds are recorded in `docs/faults.jsonl`, so a run that was stopped can go on, on
//! another machine too:
//!
//! ```text
//! TOMBOLA_FAULT_ROUNDS=20 TOMBOLA_FAULTS_REPORT=docs/faults.md \
//!     cargo test --locked --test suite -- --ignored --nocapture faults::failover::report
//! ```

mod clients;
pub mod group;
mod report;
mod scenario;
mod tally;

use std::fs;

use tokio::{runtime::Handle, task::JoinSet};
use tombola::proto::DrawRequest;

use self::{
    clients::Clients,
    group::{Group, Layout},
    report::{Counts, Record, Row},
    scenario::{DRAWS, Fault, Stage},
};
use super::{
    kill::setting,
    load,
    redis::{PARTITIONS, directory_with_key, store_at},
};
use crate::{
    process::{Server, project},
    support::program::Program,
};

/// Every draw gives a prize: most from a deck, some from a schedule.
const CAMPAIGN: &str = "
id: ID
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: coupon, stock: 90000000}, {id: coin, stock: 90000000}]
pools:
  - {id: hours, schedule: {perHour: {coupon: 2000}}}
  - {id: deck, deck: {size: 1000, cards: {coin: 1000}, onExhausted: RESHUFFLE}}
";
/// So many that every shard of a cluster has some, and the shard of the first one has a third of
/// them: clients that draw from the others go on for a while when it hangs.
const CAMPAIGNS: usize = 12;

/// The durability level of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Local,
    Strict,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Strict => "strict",
        }
    }
}

/// All combinations, in the order of the table.
const ALL: [(Fault, Layout, &[Level]); 19] = {
    use Fault::*;
    use Layout::*;
    const ONE: &[Level] = &[Level::Local];
    const BOTH: &[Level] = &[Level::Strict, Level::Local];
    [
        (ServiceKilled, Single, ONE),
        (ServiceFrozen, Single, ONE),
        (PrimaryRestarted, Single, ONE),
        (PrimaryFrozen, Single, ONE),
        (MemoryFull, Single, ONE),
        (Planned, Sentinel, BOTH),
        (Killed, Sentinel, BOTH),
        (KilledLagging, Sentinel, BOTH),
        (KilledFrozen, Sentinel, BOTH),
        (CutOff, Sentinel, BOTH),
        (ServiceAsleep, Sentinel, BOTH),
        (ThereAndBack, Sentinel, BOTH),
        (Planned, Cluster, BOTH),
        (Killed, Cluster, BOTH),
        (KilledLagging, Cluster, BOTH),
        (KilledFrozen, Cluster, BOTH),
        (CutOff, Cluster, BOTH),
        (ServiceAsleep, Cluster, BOTH),
        (ThereAndBack, Cluster, BOTH),
    ]
};

/// Runs one round on new servers of this program.
async fn round(fault: Fault, layout: Layout, level: Level, program: Program) -> Counts {
    let data = directory_with_key();
    let group = Group::start(layout, program);
    let url = group.url();
    let mut stage = Stage::new(group, data.path(), level);
    let campaigns: Vec<_> = (0..CAMPAIGNS).map(|number| format!("c-{number}")).collect();
    for id in &campaigns {
        let yaml = CAMPAIGN.replace("ID", id);
        load::apply_all(&stage.servers[0], &load::now_and_about_noon(&yaml)).await;
    }
    let partition = partition_of(&stage.servers[0], &campaigns[0]).await;
    stage.group.aim_at(partition);
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("{fault:?} {layout:?} {level:?} {program:?}: TOMBOLA_SEED={seed}");
    let servers: Vec<_> = stage.servers.iter().collect();
    let clients = Clients::start(&servers, &campaigns, seed);
    let goes_on_amid = stage.run(fault, &clients).await;
    let goes_on = clients.recover(DRAWS).await;
    let learned = clients.end().await;
    let store = store_at(&url, PARTITIONS).await;
    let counts = tally::count(&learned, &stage.servers[0], &store).await;
    // Clients retry draws of halted partitions until the end, so there may be few draws of other
    // partitions during the fault.
    let is_stuck = !goes_on || (!goes_on_amid && counts.halted == 0);
    if is_stuck {
        eprintln!("draws went on during the fault: {goes_on_amid}; after it: {goes_on}");
        for server in &stage.servers {
            eprintln!("-- a service of a stalled round:\n{}", server.log());
        }
    }
    Counts {
        stuck: u64::from(is_stuck),
        ..counts
    }
}

/// The partition of a campaign.
async fn partition_of(server: &Server, campaign: &str) -> u32 {
    let request = DrawRequest {
        campaign_id: campaign.into(),
        user_id: "first".into(),
        ..Default::default()
    };
    let drawn = server.lottery().await.draw(request).await;
    let drawn = drawn.unwrap().into_inner();
    drawn.results[0].ledger_id.unwrap().partition
}

/// The programs (Redis and Valkey) take turns; each fault starts with another one.
fn program(fault: Fault, round: u64) -> Program {
    let turn = fault as usize + usize::try_from(round).unwrap();
    Program::ALL[turn % Program::ALL.len()]
}

async fn check(fault: Fault, layout: Layout, level: Level) {
    let rounds = setting("TOMBOLA_FAULT_ROUNDS").unwrap_or(1);
    let mut counts = Counts::default();
    for number in 0..rounds {
        counts += round(fault, layout, level, program(fault, number)).await;
        eprintln!("round {number}: {counts:?}");
    }
    let row = Row {
        fault,
        layout,
        level,
        rounds,
        counts,
    };
    let failures = row.failures();
    assert!(failures.is_empty(), "{}: {row:#?}", failures.join(", "));
}

/// Runs all faults and makes one table. Rounds that were recorded before are not repeated.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes hours; each fault is a test of its own"]
async fn report() {
    let rounds = setting("TOMBOLA_FAULT_ROUNDS").unwrap_or(20);
    let record = Record::new(project("docs/faults.jsonl"));
    let rows = || -> Vec<Row> {
        ALL.iter()
            .flat_map(|&(fault, layout, levels)| levels.iter().map(move |&l| (fault, layout, l)))
            .map(|(fault, layout, level)| record.row(fault, layout, level))
            .collect()
    };
    let jobs = setting("TOMBOLA_FAULT_JOBS").unwrap_or(1);
    let jobs = usize::try_from(jobs).unwrap();
    for number in 0..rounds {
        let mut running = JoinSet::new();
        for row in rows().into_iter().filter(|row| row.rounds <= number) {
            if running.len() >= jobs {
                running.join_next().await.unwrap().unwrap();
            }
            let (fault, layout, level) = (row.fault, row.layout, row.level);
            let record = record.clone();
            let runtime = Handle::current();
            running.spawn_blocking(move || {
                let program = program(fault, row.rounds);
                let counts = runtime.block_on(round(fault, layout, level, program));
                record.add(fault, layout, level, counts);
                eprintln!("round {number}: {fault:?} {layout:?} {level:?}: {counts:?}");
            });
        }
        running.join_all().await;
        println!("{}", report::table(&rows()));
    }
    let rows = rows();
    if let Ok(file) = std::env::var("TOMBOLA_FAULTS_REPORT") {
        let file = project(&file);
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, report::page(&rows, &before)).unwrap();
    }
    let failures: Vec<_> = rows.iter().map(|row| (row, row.failures())).collect();
    let failures: Vec<_> = failures.iter().filter(|(_, all)| !all.is_empty()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

macro_rules! faults {
    ($($test:ident: $fault:ident $layout:ident $level:ident;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                check(Fault::$fault, Layout::$layout, Level::$level).await;
            }
        )+
    };
}

faults! {
    one_redis_service_killed: ServiceKilled Single Local;
    one_redis_service_frozen: ServiceFrozen Single Local;
    one_redis_killed: PrimaryRestarted Single Local;
    one_redis_frozen: PrimaryFrozen Single Local;
    one_redis_full: MemoryFull Single Local;
    sentinel_strict_planned: Planned Sentinel Strict;
    sentinel_strict_killed_in_sync: Killed Sentinel Strict;
    sentinel_strict_killed_lagging: KilledLagging Sentinel Strict;
    sentinel_strict_killed_frozen: KilledFrozen Sentinel Strict;
    sentinel_strict_cut_off: CutOff Sentinel Strict;
    sentinel_strict_service_asleep: ServiceAsleep Sentinel Strict;
    sentinel_strict_there_and_back: ThereAndBack Sentinel Strict;
    sentinel_local_planned: Planned Sentinel Local;
    sentinel_local_killed_in_sync: Killed Sentinel Local;
    sentinel_local_killed_lagging: KilledLagging Sentinel Local;
    sentinel_local_killed_frozen: KilledFrozen Sentinel Local;
    sentinel_local_cut_off: CutOff Sentinel Local;
    sentinel_local_service_asleep: ServiceAsleep Sentinel Local;
    sentinel_local_there_and_back: ThereAndBack Sentinel Local;
    cluster_strict_planned: Planned Cluster Strict;
    cluster_strict_killed_in_sync: Killed Cluster Strict;
    cluster_strict_killed_lagging: KilledLagging Cluster Strict;
    cluster_strict_killed_frozen: KilledFrozen Cluster Strict;
    cluster_strict_cut_off: CutOff Cluster Strict;
    cluster_strict_service_asleep: ServiceAsleep Cluster Strict;
    cluster_strict_there_and_back: ThereAndBack Cluster Strict;
    cluster_local_planned: Planned Cluster Local;
    cluster_local_killed_in_sync: Killed Cluster Local;
    cluster_local_killed_lagging: KilledLagging Cluster Local;
    cluster_local_killed_frozen: KilledFrozen Cluster Local;
    cluster_local_cut_off: CutOff Cluster Local;
    cluster_local_service_asleep: ServiceAsleep Cluster Local;
    cluster_local_there_and_back: ThereAndBack Cluster Local;
}
