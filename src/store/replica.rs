//! The replicas: the services that share a store, as they announce themselves. Announcements are no
//! part of the ledger: they may be lost, and nothing that is won depends on them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Moment;

/// How often a replica is announced.
pub const REPLICA_INTERVAL: Duration = Duration::from_secs(10);
/// How long an announcement is listed.
pub const REPLICA_KEPT: Duration = Duration::from_secs(30);

/// A replica, as it announces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The name of its host, and its port.
    pub name: String,
    /// The version of Tombola.
    pub version: String,
    /// The build.
    pub build: String,
    /// When it was started, by the clock of its machine.
    pub started: Moment,
    /// Whether it does its work.
    pub state: ReplicaState,
    /// Why not, or where not.
    pub cause: String,
    /// How far the clock of the store's server is ahead of its machine's, in microseconds; none
    /// before the first announcement is answered.
    pub skew_micros: Option<i64>,
}

/// Whether a replica does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaState {
    /// Draws and grabs work.
    Ready,
    /// They do not work in some partitions of the store.
    Impaired,
    /// They do not work.
    NotReady,
    /// A signal has stopped it.
    Stopping,
}

/// An announcement in the list of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// A random text that no other process has.
    pub id: String,
    /// When it came, by the clock of the store's server.
    pub seen: Moment,
    /// What it says.
    pub replica: Replica,
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn texts_name_the_times_of_announcements() {
        let [each, kept] = [REPLICA_INTERVAL, REPLICA_KEPT].map(|time| time.as_secs());
        for (file, words) in [
            (
                "proto/tombola/v1/campaign_service.proto",
                format!("Each one says every {each} seconds that it is there"),
            ),
            (
                "proto/tombola/v1/campaign_service.proto",
                format!("for {kept} seconds after it was last heard of"),
            ),
            (
                "docs/operations.md",
                format!("Each service says every {each} seconds that it is there"),
            ),
            (
                "docs/operations.md",
                format!("one that dies after {kept} seconds"),
            ),
            (
                "src/console/messages/en.txt",
                format!("Each says every {each} seconds that it is there"),
            ),
            (
                "src/console/messages/en.txt",
                format!("has not been heard of for {kept} seconds"),
            ),
            (
                "src/console/messages/zh.txt",
                format!("每个实例每 {each} 秒报到一次"),
            ),
            (
                "src/console/messages/zh.txt",
                format!("超过 {kept} 秒没有报到"),
            ),
            (
                "docs/redis.md",
                format!("An entry counts for {kept} seconds"),
            ),
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = fs::read_to_string(path).unwrap();
            assert!(text.contains(&words), "{file}: {words}");
        }
    }
}
