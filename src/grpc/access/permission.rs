//! What an identity may be permitted to do.

use std::fmt;

/// A permission. Every RPC needs exactly one: see [`super::table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Draw for users, and grab packets of envelopes for them.
    Draw,
    /// Read what concerns one user's draws and wins, limits and odds, and envelopes.
    Check,
    /// Record that wins are delivered or revoked.
    Deliver,
    /// Give: bonus draws, new envelopes.
    Grant,
    /// Read the codes of prizes.
    CodesRead,
    /// Read campaigns, users, statistics and the ledger.
    Read,
    /// Create campaigns and change their plans.
    Plan,
    /// Propose what [`Self::Approve`] lets others approve.
    Propose,
    /// Approve and reject proposals of others.
    Approve,
    /// Stop, and let go on: campaigns, prizes, units, users, envelopes.
    Stop,
    /// Do what cannot be undone for a whole campaign.
    Admin,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Self; 11] = [
        Self::Draw,
        Self::Check,
        Self::Deliver,
        Self::Grant,
        Self::CodesRead,
        Self::Read,
        Self::Plan,
        Self::Propose,
        Self::Approve,
        Self::Stop,
        Self::Admin,
    ];

    /// The name in policy files and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draw => "draw",
            Self::Check => "check",
            Self::Deliver => "deliver",
            Self::Grant => "grant",
            Self::CodesRead => "codes.read",
            Self::Read => "read",
            Self::Plan => "plan",
            Self::Propose => "propose",
            Self::Approve => "approve",
            Self::Stop => "stop",
            Self::Admin => "admin",
        }
    }

    /// The permission of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
