//! Checks what `--durability strict` needs of the replicas: there are some, each keeps what it
//! confirms on disk, and the one with the most data is the one that is promoted.

use std::collections::{BTreeSet, HashSet};

use redis::aio::MultiplexedConnection;
use tokio::time::timeout;

use super::{
    cluster,
    connect::{Connections, Master},
    fault::Fault,
    findings::{CheckError, Findings, Info, setting_of, text_of},
    masters::Directory,
    pool::{Peer, has_waitaof, knows_waitaof},
    sentinel,
    timeouts::CONNECT_MAX,
    url::{Address, Topology},
};
use crate::store::Durability;

/// The settings that were found on a replica.
struct Found {
    /// None if it takes itself for a primary: an earlier primary that is cut off or not demoted
    /// yet.
    priority: Option<String>,
    has_aof: bool,
    /// Confirmations are of what it has on disk.
    has_waitaof: bool,
    /// None if it may not be read.
    fsync: Option<String>,
}

/// Checks the replicas of a master.
pub(crate) async fn inspect(
    connections: &Connections,
    master: &Master<'_>,
    findings: &mut Findings,
) -> Result<(), CheckError> {
    let mut inspection = Inspection {
        connections,
        master,
        findings,
        priorities: BTreeSet::new(),
    };
    inspection.check().await
}

/// The replicas of one master under inspection.
struct Inspection<'a> {
    connections: &'a Connections,
    master: &'a Master<'a>,
    findings: &'a mut Findings,
    priorities: BTreeSet<String>,
}

impl Inspection<'_> {
    async fn check(&mut self) -> Result<(), CheckError> {
        let directory = &self.connections.directory;
        let replicas = match &self.connections.url().topology {
            Topology::Single(_) => {
                let replicas = self.connected().await?;
                // Replicas that left are not listed any more, but still count.
                let most = self.master.node.replicas();
                let count = u32::try_from(replicas.len()).unwrap_or(u32::MAX);
                self.master.node.set_replicas(count.max(most));
                replicas
            }
            Topology::Sentinel { sentinels, master } => {
                match sentinel::survey(directory, sentinels, master).await {
                    Some(survey) => {
                        self.check_sentinels(&survey);
                        survey.replicas
                    }
                    None => Vec::new(),
                }
            }
            Topology::Cluster(_) => cluster::replicas(directory, &self.master.node.address).await?,
        };
        self.check_count();
        for replica in &replicas {
            self.check_replica(replica).await;
        }
        self.check_priorities();
        Ok(())
    }

    /// Replicas that are connected to a server that neither Sentinel nor a cluster watches.
    async fn connected(&self) -> Result<Vec<Address>, CheckError> {
        let mut cmd = redis::cmd("INFO");
        cmd.arg("replication");
        let info = text_of(&self.master.command(&cmd).await?)?;
        let replicas = info.lines().filter_map(|line| {
            let (name, fields) = line.split_once(':')?;
            name.strip_prefix("slave")?.parse::<u32>().ok()?;
            let field = |name: &str| {
                let mut fields = fields.split(',');
                fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
            };
            Some(Address {
                host: field("ip")?.to_owned(),
                port: field("port")?.parse().ok()?,
            })
        });
        Ok(replicas.collect())
    }

    fn check_count(&mut self) {
        let known = self.master.node.replicas();
        let quorum = self.connections.quorum;
        let needed = quorum.and_then(|quorum| quorum.of(known, 0));
        if known == 0 {
            self.problem(
                "it has no replica, and --durability strict waits for one: add a replica, or \
                 name --durability local, \
                 at which a failover may lose draws",
            );
        } else if let Some(needed) = needed.filter(|needed| *needed > known) {
            self.problem(&format!(
                "--ack-replicas is {needed}, but it has {known} replicas: add replicas, or lower \
                 --ack-replicas"
            ));
        }
    }

    /// Warns if a cut through the network could leave the majority of nodes on one side and the
    /// majority of sentinels on the other.
    fn check_sentinels(&mut self, survey: &sentinel::Survey) {
        let nodes = survey
            .replicas
            .iter()
            .map(|replica: &Address| &replica.host);
        let nodes: HashSet<&String> = nodes.chain([&self.master.node.address.host]).collect();
        let without: BTreeSet<_> = nodes
            .into_iter()
            .filter(|host| !survey.sentinels.contains(*host))
            .map(String::as_str)
            .collect();
        if !without.is_empty() {
            let hosts = Vec::from_iter(without).join(", ");
            self.findings.warnings.push(format!(
                "no sentinel runs beside Redis on {hosts}: a cut through the network could leave \
                 the majority of \
                 sentinels on one side and the confirmed draws on the other; run one sentinel \
                 beside each server"
            ));
        }
    }

    async fn check_replica(&mut self, replica: &Address) {
        let found = match read_settings(&self.connections.directory, replica).await {
            Ok(found) => found,
            Err(fault) => {
                self.findings.warnings.push(format!(
                    "the replica {replica} cannot be checked ({fault}); make sure that it has \
                     appendonly yes and \
                     appendfsync always"
                ));
                return;
            }
        };
        if !found.has_aof {
            self.weakens(&format!(
                "its replica {replica} has appendonly no; yes is needed: `CONFIG SET appendonly \
                 yes`, then `CONFIG REWRITE`"
            ));
            if let Some(problem) = self.findings.problems.last_mut() {
                problem.never_confirms = found.has_waitaof;
            }
        }
        match found.fsync.as_deref() {
            Some("always") => {}
            Some(other) => self.weakens(&format!(
                "its replica {replica} has appendfsync {other}; always is needed: `CONFIG SET \
                 appendfsync always`, then \
                 `CONFIG REWRITE`"
            )),
            None => self.findings.warnings.push(format!(
                "appendfsync of the replica {replica} cannot be read; make sure that it is \
                 always, or permit the URL's user \
                 to read it, `ACL SETUSER <user> +config|get`"
            )),
        }
        self.priorities.extend(found.priority);
    }

    /// Sentinel promotes the replica with the most data only among those of equal priority.
    fn check_priorities(&mut self) {
        if matches!(self.connections.url().topology, Topology::Cluster(_)) {
            return;
        }
        let is_deliberate = self
            .connections
            .quorum
            .is_some_and(|quorum| quorum.named.is_some());
        let found = Vec::from_iter(self.priorities.iter().map(String::as_str)).join(", ");
        let text = if self.priorities.len() > 1 {
            format!(
                "its replicas differ in replica-priority ({found}), so one that lacks confirmed \
                 draws may be promoted: set \
                 the same on all, `CONFIG SET replica-priority 100`, then `CONFIG REWRITE`; or \
                 name --ack-replicas"
            )
        } else if self.priorities.contains("0") {
            "no replica is ever promoted, replica-priority is 0: `CONFIG SET replica-priority \
             100`, then `CONFIG REWRITE`; \
             or name --ack-replicas"
                .to_owned()
        } else {
            return;
        };
        if is_deliberate {
            let line = format!("Redis {}: {text}", self.master.address());
            self.findings.warnings.push(line);
        } else {
            self.weakens(&text);
        }
    }

    fn problem(&mut self, text: &str) {
        self.findings.problem(self.master.address(), None, text);
    }

    /// A problem for which the primary alone still keeps what it acknowledges.
    fn weakens(&mut self, text: &str) {
        let leaves = Some(Durability::Local);
        self.findings.problem(self.master.address(), leaves, text);
    }
}

async fn read_settings(directory: &Directory, replica: &Address) -> Result<Found, Fault> {
    let url = directory.dialer.url();
    let mut connection = directory.dialer.connect(Peer::Server, replica).await?;
    match timeout(CONNECT_MAX, read(&mut connection)).await {
        Ok(found) => found.map_err(|error| Fault::connecting(&error, url)),
        Err(_) => Err(Fault::no_connection_in_time(url)),
    }
}

async fn read(connection: &mut MultiplexedConnection) -> redis::RedisResult<Found> {
    let info: String = redis::cmd("INFO").query_async(connection).await?;
    let info = Info::read(&info);
    let mut cmd = redis::cmd("CONFIG");
    let fsync = cmd.arg("GET").arg("appendfsync").query_async(connection);
    let fsync: redis::RedisResult<redis::Value> = fsync.await;
    let has_waitaof = has_waitaof(&connection.send_packed_command(&knows_waitaof()).await);
    Ok(Found {
        has_waitaof,
        priority: info.find("slave_priority").map(str::to_owned),
        has_aof: info.get("aof_enabled") == "1",
        fsync: fsync.ok().and_then(|value| setting_of(&value)),
    })
}
