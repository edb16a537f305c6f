//! The server programs that the tests run on.

use std::path::PathBuf;

/// A server program. It is a Sentinel too when it is started as one.
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
        let unpacked = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers");
        match self {
            Self::System => "redis-server".into(),
            Self::Redis8 => [unpacked, "redis-8"].iter().collect(),
            Self::Valkey8 => [unpacked, "valkey-8"].iter().collect(),
        }
    }
}
