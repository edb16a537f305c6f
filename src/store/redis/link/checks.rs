//! Checks that Redis has the settings that a store needs, before anything is stored there. All
//! findings of all masters are reported at once.

use std::time::Instant;

use super::{
    connect::{Connections, Master},
    fault::Fault,
    fault_kind::FaultKind,
    findings::{CheckError, Checked, Findings, Info, name_of, setting_of, text_of},
    replicas,
    url::Topology,
};
use crate::{
    model::Moment,
    store::{Durability, redis::memory::Use},
};

/// The oldest version of Redis that has all commands which the scripts need.
const VERSION_MIN: (u32, u32) = (6, 2);
/// A larger difference of the clocks is a warning: releases follow the clock of Redis, while plans
/// follow the service's.
const SKEW_MICROS_MAX: i64 = 1_000_000;

/// Checks every master, and for [`Durability::Strict`] every replica. `service_now` is the
/// service's clock at the moment of the call.
///
/// # Errors
/// [`CheckError::Unfit`] with everything that is to be changed, and how.
pub async fn check(
    connections: &Connections,
    durability: Durability,
    service_now: Moment,
) -> Result<Checked, CheckError> {
    match examine(connections, durability, service_now).await {
        Ok(findings) => findings.conclude(),
        // A server that is named in the URL does not become a master by itself.
        Err(CheckError::Fault(fault))
            if fault.kind == FaultKind::ReadOnly && !connections.url().fails_over() =>
        {
            Err(CheckError::Unfit(vec![fault.text]))
        }
        Err(error) => Err(error),
    }
}

async fn examine(
    connections: &Connections,
    durability: Durability,
    service_now: Moment,
) -> Result<Findings, CheckError> {
    let begun = Instant::now();
    let mut findings = Findings::default();
    for master in connections.each_master().await? {
        let local_now = || service_now + begun.elapsed();
        let skew = skew_micros(&master, local_now).await?;
        if skew.abs() > findings.skew_micros.abs() {
            findings.skew_micros = skew;
        }
        let mut inspection = Inspection {
            master: &master,
            findings: &mut findings,
        };
        inspection.check_clock(skew);
        inspection.check_scripts().await?;
        let in_cluster = matches!(connections.url().topology, Topology::Cluster(_));
        let info = inspection.info().await?;
        if let Some(info) = &info {
            inspection.check_server(info, in_cluster);
        }
        inspection.check_level(info.as_ref(), durability).await?;
        if in_cluster {
            inspection.check_cluster().await?;
        }
    }
    if durability == Durability::Strict {
        for master in connections.each_master().await? {
            replicas::inspect(connections, &master, &mut findings).await?;
        }
    } else if connections.url().fails_over() {
        findings.warnings.push(format!(
            "--durability {}: a failover may lose draws that were acknowledged; only --durability \
             strict does not",
            name_of(durability)
        ));
    }
    Ok(findings)
}

/// Checks what can change while the service runs: the settings that the level needs.
pub(crate) async fn recheck(
    connections: &Connections,
    durability: Durability,
    with_replicas: bool,
) -> Result<Findings, CheckError> {
    let (mut findings, mut answered, mut fault) = (Findings::default(), false, None);
    for master in connections.each_master().await? {
        let known = findings.problems.len();
        let looked = recheck_one(
            connections,
            &master,
            (durability, with_replicas),
            &mut findings,
        );
        match looked.await {
            Ok(()) => answered = true,
            // It says nothing of the others.
            Err(error) => {
                findings.problems.truncate(known);
                findings.silent.push(master.address().to_owned());
                fault = Some(error);
            }
        }
    }
    match fault {
        Some(error) if !answered => Err(error),
        _ => Ok(findings),
    }
}

async fn recheck_one(
    connections: &Connections,
    master: &Master<'_>,
    (durability, with_replicas): (Durability, bool),
    findings: &mut Findings,
) -> Result<(), CheckError> {
    let mut inspection = Inspection { master, findings };
    let info = inspection.info().await?;
    inspection.check_level(info.as_ref(), durability).await?;
    if with_replicas && durability == Durability::Strict {
        let of_master = findings.problems.len();
        replicas::inspect(connections, master, findings).await?;
        for found in &mut findings.problems[of_master..] {
            found.is_of_replicas = true;
        }
    }
    Ok(())
}

/// One master under inspection.
struct Inspection<'a> {
    master: &'a Master<'a>,
    findings: &'a mut Findings,
}

impl Inspection<'_> {
    fn problem(&mut self, text: impl AsRef<str>) {
        self.weakens(None, text);
    }

    /// A problem that leaves a lower level.
    fn weakens(&mut self, leaves: Option<Durability>, text: impl AsRef<str>) {
        let master = self.master.address();
        self.findings.problem(master, leaves, text.as_ref());
    }

    fn warn(&mut self, text: impl AsRef<str>) {
        let line = format!("Redis {}: {}", self.master.address(), text.as_ref());
        self.findings.warnings.push(line);
    }

    fn check_clock(&mut self, skew_micros: i64) {
        if skew_micros.abs() <= SKEW_MICROS_MAX {
            return;
        }
        let seconds = skew_micros.unsigned_abs().div_ceil(1_000_000);
        let side = if skew_micros > 0 {
            "ahead of"
        } else {
            "behind"
        };
        self.warn(format!(
            "its clock is about {seconds} s {side} this machine's, and releases follow it: run NTP \
             on both"
        ));
    }

    async fn check_scripts(&mut self) -> Result<(), CheckError> {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg("return 1").arg(0);
        match self.master.command(&cmd).await {
            Ok(_) => Ok(()),
            Err(fault) if fault.kind == FaultKind::Permission => {
                self.problem(
                    "the URL's user may not run scripts: permit it all that it needs, \
                     `ACL SETUSER <user> ~* +@all -@admin -@dangerous +info +config|get`",
                );
                Ok(())
            }
            Err(fault) => Err(fault.into()),
        }
    }

    async fn info(&mut self) -> Result<Option<Info>, CheckError> {
        match self.master.command(&redis::cmd("INFO")).await {
            Ok(value) => Ok(Some(Info::read(&text_of(&value)?))),
            Err(fault) if fault.kind == FaultKind::Permission => {
                self.problem(
                    "the URL's user may not read the settings: permit it, `ACL SETUSER <user> \
                              +info`",
                );
                Ok(None)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    fn check_server(&mut self, info: &Info, in_cluster: bool) {
        let (major, minor) = VERSION_MIN;
        let version = info.get("redis_version");
        if version_of(version).is_none_or(|version| version < VERSION_MIN) {
            self.problem(format!(
                "its version is {version}, {major}.{minor} or later is needed: upgrade it"
            ));
        }
        if info.get("role") == "slave" {
            let (host, port) = (info.get("master_host"), info.get("master_port"));
            self.problem(format!(
                "it is a replica of {host}:{port}: name that one in the URL, or use \
                 redis+sentinel://"
            ));
        }
        if info.get("cluster_enabled") == "1" && !in_cluster {
            self.problem("it belongs to a cluster: write redis+cluster:// into the URL");
        }
    }

    /// Checks the settings that the level needs.
    async fn check_level(
        &mut self,
        info: Option<&Info>,
        durability: Durability,
    ) -> Result<(), CheckError> {
        if let Some(info) = info {
            self.check_memory(info);
            self.check_append_only_file(info);
        }
        self.check_fsync(durability).await
    }

    fn check_memory(&mut self, info: &Info) {
        let bytes = |name| info.get(name).parse::<u64>().ok();
        let max = bytes("maxmemory").filter(|max| *max > 0);
        if let (Some(used), Some(max)) = (
            bytes("used_memory"),
            max.or_else(|| bytes("total_system_memory")),
        ) {
            let found = Use { used, max };
            self.findings.memory = Some(found.scarcer(self.findings.memory));
        }
        let policy = info.get("maxmemory_policy");
        if policy != "noeviction" {
            self.problem(format!(
                "maxmemory-policy is {policy}, which forgets draws when memory is short; \
                 noeviction is needed: `CONFIG SET maxmemory-policy noeviction`, then `CONFIG \
                 REWRITE`"
            ));
        }
    }

    fn check_append_only_file(&mut self, info: &Info) {
        if info.get("aof_enabled") != "1" {
            self.problem(
                "appendonly is no, so that a restart forgets draws; yes is needed: `CONFIG SET \
                 appendonly yes`, then `CONFIG REWRITE`",
            );
        } else if info.get("aof_last_write_status") == "err" {
            self.problem(
                "its last write to the append-only file failed: make room on its disk or repair it",
            );
        }
    }

    async fn check_fsync(&mut self, durability: Durability) -> Result<(), CheckError> {
        let mut cmd = redis::cmd("CONFIG");
        cmd.arg("GET").arg("appendfsync");
        let policy = match self.master.command(&cmd).await {
            Ok(value) => setting_of(&value),
            // Managed services do not offer the command.
            Err(fault) if matches!(fault.kind, FaultKind::Permission | FaultKind::Other) => None,
            Err(fault) => return Err(fault.into()),
        };
        let Some(policy) = policy else {
            self.cannot_read_fsync(durability);
            return Ok(());
        };
        match durability {
            Durability::Local | Durability::Strict if policy != "always" => self.weakens(
                Some(Durability::Fast).filter(|_| policy == "everysec"),
                format!(
                    "appendfsync is {policy}; for --durability {}, always is needed: `CONFIG SET \
                     appendfsync always`, then `CONFIG REWRITE`; or take --durability fast",
                    name_of(durability)
                ),
            ),
            Durability::Fast if policy == "no" => self.problem(
                "appendfsync is no, so that a crash forgets any number of draws; everysec is \
                 needed: `CONFIG SET appendfsync everysec`, then `CONFIG REWRITE`",
            ),
            Durability::Fast
            | Durability::Local
            | Durability::Strict
            | Durability::Embedded
            | Durability::Volatile => {}
        }
        Ok(())
    }

    fn cannot_read_fsync(&mut self, durability: Durability) {
        if durability >= Durability::Local {
            self.problem(format!(
                "appendfsync cannot be read, and --durability {} needs it to be always: permit the \
                 URL's user to read it, `ACL SETUSER <user> +config|get`; or take --durability \
                 fast",
                name_of(durability)
            ));
        } else {
            self.warn(
                "appendfsync cannot be read; make sure that it is everysec or always, or permit \
                 the URL's user to read it, `ACL SETUSER <user> +config|get`",
            );
        }
    }

    async fn check_cluster(&mut self) -> Result<(), CheckError> {
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("INFO");
        let info = Info::read(&text_of(&self.master.command(&cmd).await?)?);
        let state = info.get("cluster_state");
        if state != "ok" {
            let slots = info.get("cluster_slots_ok");
            self.problem(format!(
                "cluster_state is {state}, {slots} of 16384 slots are served; ok is needed: see \
                 `CLUSTER NODES` for what is missing"
            ));
        }
        Ok(())
    }
}

/// How many microseconds this master's clock is ahead of the service's.
async fn skew_micros(
    master: &Master<'_>,
    local_now: impl Fn() -> Moment,
) -> Result<i64, CheckError> {
    // The first command may have to make the connection.
    master.command(&redis::cmd("PING")).await?;
    let sent = local_now();
    let there = master.command(&redis::cmd("TIME")).await?;
    let middle = (sent.as_micros() + local_now().as_micros()) / 2;
    let (seconds, micros): (i64, i64) =
        redis::from_redis_value(there).map_err(|_| Fault::protocol("TIME is not a time"))?;
    Ok(seconds * 1_000_000 + micros - middle)
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version_of("6.10.1") > Some(VERSION_MIN));
        assert!(version_of("6.0.16") < Some(VERSION_MIN));
        assert_eq!(version_of("unknown"), None);
    }
}
