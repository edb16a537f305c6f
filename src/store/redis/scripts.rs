//! The scripts, one a command. What each takes and replies is told at the head of its file.

use std::sync::LazyLock;

use super::{
    effect,
    script::{Effect, Script},
};

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal),+ $(=> $effect:expr)?;)+) => { $(
        $(#[$doc])*
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(&[include_str!("lua/partition.lua"), $(include_str!(concat!("lua/", $file))),+])
                $(.telling($effect))?
        });
    )+ };
}

scripts! {
    /// Draws, many at once.
    DRAW = "record.lua", "packed.lua", "queues.lua", "draw.lua" => effect::of_draws;
    /// Reads a campaign as rules need it.
    LOAD = "load.lua";
    /// Writes what a rule has decided.
    COMMIT = "sums.lua", "commit.lua";
    /// Reads units by score.
    UNITS = "units.lua";
    /// Reads users' records, many at once.
    USER = "record.lua", "user.lua";
    /// Reads users' records.
    RECORDS = "records.lua";
    /// Reads a remembered draw.
    FIND = "find.lua" => |_| Effect::Repeated;
    /// Tells whether a campaign that was not found should be there.
    LISTED = "listed.lua";
    /// Lists campaigns.
    CAMPAIGNS = "campaigns.lua";
    /// Lists campaigns that something is due of.
    DUE_CAMPAIGNS = "due_campaigns.lua";
    /// Adds campaigns that are missing among those.
    COMPLETE_INDEX = "complete_index.lua";
    /// Counts what waits.
    COUNT = "count.lua";
    /// Reads frozen windows.
    WINDOWS = "windows.lua";
    /// Reads entries of the ledger.
    LEDGER = "ledger.lua";
    /// Forgets old requests.
    FORGET = "record.lua", "forget.lua";
    /// Grabs, many at once.
    GRAB = "sums.lua", "grab.lua" => effect::of_grabs;
    /// Reads envelopes.
    ENVELOPES = "envelopes.lua";
    /// Reads who has which packets.
    GRABS = "grabs.lua";
    /// Lists envelopes that something is due of.
    DUE_ENVELOPES = "due_envelopes.lua";
    /// Reads the sums of envelopes.
    ENVELOPE_SUMS = "envelope_sums.lua";
    /// Asks whether a partition is whole and takes writes.
    PROBE = "probe.lua";
    /// Records a fork.
    FORK = "fork.lua";
    /// Lets a halted partition go on.
    RECOVER = "recover.lua";
    /// Reads or makes a partition's identity.
    IDENTIFY = "identify.lua";
}

/// Writes to a partition without a change, so that replicas can confirm all that came before.
pub(super) static BARRIER: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("lua/barrier.lua")]));
