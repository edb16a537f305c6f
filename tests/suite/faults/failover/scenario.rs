//! The faults: what happens to servers and services while clients draw.

use std::{path::Path, time::Duration};

use tokio::task::block_in_place;

use super::{Level, clients::Clients, group::Group};
use crate::{
    process::{Server, Start},
    support::{network::Link, redis_server::until},
};

/// Draws that must be acknowledged before a fault, and again after it.
pub const DRAWS: u64 = 150;
/// How long replicas lag behind if draws wait for them. If draws do not wait, lagging replicas
/// receive nothing.
const LAG: Duration = Duration::from_millis(400);
/// Draws of the first campaign that are acknowledged while replicas lag.
const DRAWS_BEHIND: u64 = 10;
/// Draws that must be acknowledged during a fault. A client whose service or shard hangs waits long
/// for each.
const DRAWS_DURING: u64 = 40;
/// The same if the only replica of a shard hangs. A third of the campaigns are in that shard, and a
/// client that draws from one of them waits until the replica goes on. The 16 clients make about 32
/// draws before all wait, and fewer than 4 once in 100,000 rounds.
const DRAWS_WHILE_BLOCKED: u64 = 4;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A service dies and is started again.
    ServiceKilled,
    /// A service hangs for a while.
    ServiceFrozen,
    /// The primary dies and is started again before a replica is promoted; a single Redis has none.
    PrimaryRestarted,
    /// The primary hangs for a while.
    PrimaryFrozen,
    /// The primary has no memory left for a while.
    MemoryFull,
    /// A planned failover.
    Planned,
    /// The primary dies while its replicas are in sync.
    Killed,
    /// The primary dies while all its replicas are behind.
    KilledLagging,
    /// The primary dies while one of its replicas hangs.
    KilledFrozen,
    /// The primary is cut off from servers and sentinels, but not from the services, while another
    /// one is promoted.
    CutOff,
    /// A planned failover from A to B, and then one back to A.
    ThereAndBack,
    /// The primary is cut off. Meanwhile a service hangs, and wakes up once another primary is at
    /// work.
    ServiceAsleep,
}

impl Fault {
    pub fn name(self) -> &'static str {
        match self {
            Self::ServiceKilled => "a service killed and started again",
            Self::ServiceFrozen => "a service stopped and woken",
            Self::PrimaryRestarted => "Redis killed and started again",
            Self::PrimaryFrozen => "Redis stopped and woken",
            Self::MemoryFull => "`maxmemory` reached",
            Self::Planned => "planned failover",
            Self::Killed => "primary killed, replicas in sync",
            Self::KilledLagging => "primary killed, replicas behind",
            Self::KilledFrozen => "primary killed, a replica frozen",
            Self::CutOff => "primary cut off, still reached by services",
            Self::ThereAndBack => "failover to B and back to A",
            Self::ServiceAsleep => "the same, a service stopped through all of it",
        }
    }
}

/// Two services on a group of servers.
pub struct Stage<'a> {
    pub group: Group,
    pub servers: [Server; 2],
    pub start: Start<'a>,
    pub level: Level,
}

impl<'a> Stage<'a> {
    /// Starts the services; their master key is in the directory.
    pub fn new(group: Group, data: &'a Path, level: Level) -> Self {
        let start = Start::on_redis(data, &group.url());
        let start = start.with(&format!("--durability {}", level.name()));
        // On a busy machine the servers may replace one of theirs before the fault begins.
        until("the store is made", || {
            group.wait_until_whole();
            let made = start.init();
            if made.code != Some(0) {
                eprintln!("{made:?}");
            }
            made.code == Some(0)
        });
        Self {
            servers: [start.serve(), start.serve()],
            group,
            start,
            level,
        }
    }

    /// Causes the fault while clients draw. Returns false if draws did not go on after it.
    pub async fn run(&mut self, fault: Fault, clients: &Clients) -> bool {
        if !clients.go_on(DRAWS).await {
            return false;
        }
        clients.fault();
        match fault {
            Fault::ServiceKilled => self.kill_service(clients).await,
            Fault::ServiceFrozen => {
                self.servers[1].signal("STOP");
                let goes_on = clients.go_on(DRAWS_DURING).await;
                self.servers[1].signal("CONT");
                goes_on
            }
            Fault::PrimaryRestarted => self.on_primary(|group, primary| {
                group.kill(primary);
                group.server(primary).restart();
            }),
            Fault::PrimaryFrozen => self.freeze_primary().await,
            Fault::MemoryFull => self.fill_memory().await,
            Fault::Planned => self.on_primary(fail_over),
            Fault::Killed => self.on_primary(kill_and_replace),
            Fault::KilledLagging => self.kill_lagging(clients).await,
            Fault::KilledFrozen => self.kill_frozen(clients).await,
            Fault::CutOff => self.cut_off(clients, None).await,
            Fault::ThereAndBack => self.on_primary(there_and_back),
            Fault::ServiceAsleep => self.cut_off(clients, Some(1)).await,
        }
    }

    /// The waits block a thread, so the clients must be able to go on on other threads.
    fn on_primary(&mut self, act: impl FnOnce(&mut Group, usize)) -> bool {
        block_in_place(|| {
            let primary = self.group.primary();
            act(&mut self.group, primary);
            self.group.wait_until_whole();
        });
        true
    }

    async fn kill_service(&mut self, clients: &Clients) -> bool {
        self.servers[1].kill();
        let goes_on = clients.go_on(DRAWS).await;
        let address = self.servers[1].address.to_string();
        let again = Start {
            listen: &address,
            more: self.start.more.clone(),
            ..Start::on_redis(self.start.data, "")
        };
        self.servers[1] = block_in_place(|| again.serve());
        goes_on
    }

    /// Longer than a service waits for a reply.
    async fn freeze_primary(&mut self) -> bool {
        let primary = block_in_place(|| self.group.primary());
        self.group.server(primary).freeze();
        tokio::time::sleep(Duration::from_secs(6)).await; // this is the fault itself
        self.group.server(primary).thaw();
        true
    }

    async fn fill_memory(&mut self) -> bool {
        let primary = block_in_place(|| self.group.primary());
        for bytes in ["1", "0"] {
            let limit = ["CONFIG", "SET", "maxmemory", bytes];
            assert_eq!(self.group.server(primary).command(&limit), "OK");
            tokio::time::sleep(Duration::from_secs(1)).await; // this is the fault itself
        }
        true
    }

    async fn kill_lagging(&mut self, clients: &Clients) -> bool {
        let primary = block_in_place(|| self.group.primary());
        let lag = match self.level {
            Level::Strict => Link::Slow(LAG),
            Level::Local => Link::Cut,
        };
        self.group.link_replicas(primary, lag);
        let goes_on = clients.go_on_in_first(DRAWS_BEHIND).await;
        block_in_place(|| {
            self.group.kill(primary);
            self.group.link_replicas(primary, Link::Up);
            self.group.wait_until_moved(primary);
            self.group.server(primary).restart();
            self.group.wait_until_whole();
        });
        goes_on
    }

    /// If there is only one replica, the frozen one is promoted once it goes on.
    async fn kill_frozen(&mut self, clients: &Clients) -> bool {
        let primary = block_in_place(|| self.group.primary());
        let replicas = self.group.replicas(primary);
        self.group.server(replicas[0]).freeze();
        let draws = if replicas.len() > 1 {
            DRAWS_DURING
        } else {
            DRAWS_WHILE_BLOCKED
        };
        let goes_on = clients.go_on(draws).await;
        block_in_place(|| {
            self.group.kill(primary);
            if replicas.len() > 1 {
                self.group.wait_until_moved(primary);
            }
            self.group.server(replicas[0]).thaw();
            self.group.wait_until_moved(primary);
            self.group.server(primary).restart();
            self.group.wait_until_whole();
        });
        goes_on
    }

    /// With a single replica, `strict` makes no draw until the old primary is back as its replica.
    async fn cut_off(&mut self, clients: &Clients, asleep: Option<usize>) -> bool {
        if let Some(service) = asleep {
            self.servers[service].signal("STOP");
        }
        let (primary, can_go_on) = block_in_place(|| {
            let primary = self.group.primary();
            let has_more = self.group.replicas(primary).len() > 1;
            self.group.cut_off(primary);
            self.group.wait_until_moved(primary);
            (primary, has_more || self.level == Level::Local)
        });
        let mut goes_on = !can_go_on || clients.go_on(DRAWS_DURING).await;
        if let Some(service) = asleep {
            // This service still has connections to the old primary, which accepts writes as long
            // as it is cut off.
            self.servers[service].signal("CONT");
            goes_on &= !can_go_on || clients.go_on(DRAWS_DURING).await;
        }
        block_in_place(|| {
            self.group.heal(primary);
            self.group.wait_until_whole();
        });
        goes_on
    }
}

fn fail_over(group: &mut Group, primary: usize) {
    group.fail_over(primary);
    group.wait_until_moved(primary);
}

fn kill_and_replace(group: &mut Group, primary: usize) {
    group.kill(primary);
    group.wait_until_moved(primary);
    group.server(primary).restart();
}

/// The third node is kept from being promoted on the way back, so that A is.
fn there_and_back(group: &mut Group, a: usize) {
    group.fail_over(a);
    let b = group.wait_until_moved(a);
    group.wait_until_whole();
    let third = group.replicas(b).into_iter().find(|&node| node != a);
    if let Some(third) = third {
        group.server(third).freeze();
        group.wait_until_out_of_sight(third);
    }
    group.fail_over(b);
    assert_eq!(group.wait_until_moved(b), a);
    if let Some(third) = third {
        group.server(third).thaw();
    }
}
