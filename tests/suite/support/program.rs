//! The server programs that the tests run on.

use std::path::{Path, PathBuf};

/// A server program. Started as a Sentinel, it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The `redis-server` of the system: Redis 7.0 on Debian bookworm.
    System,
    /// Redis 8.0 of Debian trixie, unpacked by `tests/prepare-servers`.
    Redis8,
    /// Valkey 8.1 of Debian trixie, unpacked by `tests/prepare-servers`.
    Valkey8,
}

impl Program {
    pub const ALL: [Self; 3] = [Self::System, Self::Redis8, Self::Valkey8];

    /// The file to execute.
    pub fn path(self) -> PathBuf {
        match self {
            Self::System => "redis-server".into(),
            Self::Redis8 => project("tests/servers/redis-8"),
            Self::Valkey8 => project("tests/servers/valkey-8"),
        }
    }
}

/// The path of a file of the project. It works in all members of the workspace: the lock file is in
/// the root.
pub fn project(path: &str) -> PathBuf {
    let mut directories = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = directories.find(|directory| directory.join("Cargo.lock").is_file());
    root.expect("a directory with Cargo.lock").join(path)
}
