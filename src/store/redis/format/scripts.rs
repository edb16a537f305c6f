//! The scripts, one for each command. The head of each Lua file describes its keys, arguments and
//! reply. Modules are parts of scripts; their heads say what they read and return.

use std::sync::LazyLock;

use super::{
    effect,
    script::{Effect, Module, Script},
};

macro_rules! text {
    ($($part:literal),+) => {
        include_str!(concat!("../lua/", $($part,)+ ".lua"))
    };
}

macro_rules! module {
    ($name:literal) => {
        Module::Always(text!("modules/", $name))
    };
    (late $name:literal) => {
        Module::Late(text!("modules/", $name))
    };
}

macro_rules! scripts {
    ($(
        $(#[$doc:meta])* $name:ident = $main:literal
        $([$($($late:ident)? $module:literal),+])? $(=> $effect:expr)?;
    )+) => { $(
        $(#[$doc])*
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| {
            let modules = [module!("clock"), module!("store"), $($(module!($($late)? $module)),+)?];
            Script::of_modules(&modules, text!($main)).named($main)
                $(.with_effect($effect))?
        });
    )+ };
}

scripts! {
    /// Draws, many at once.
    DRAW = "draw" [
        "writing", "backlog", "record", "users", "packed", "admission", late "bonus", "memory", "queues",
        late "budget", "denials", late "own", late "guarantees", "pools", "counters", "campaign", "batch"
    ] => effect::of_draws;
    /// Reads the state of a campaign that rules decide on.
    LOAD = "load";
    /// Reads definitions of campaigns for draws and `CheckLimit`.
    LAYOUTS = "layouts";
    /// Writes what a rule has decided.
    COMMIT = "commit" ["writing", "sums"];
    /// Reads units by score.
    UNITS = "units";
    /// Reads the records of many users for `CheckLimit`.
    CHECK_LIMIT = "check_limit" ["users"];
    /// Reads the records of the users that an operation changes.
    LOAD_USERS = "load_users";
    /// Reads a user's record, and the block of the user.
    USER_DETAILS = "user_details";
    /// Lists blocked users.
    BLOCKED_USERS = "blocked_users";
    /// Reads a remembered draw.
    FIND = "find" ["writing"] => |_| Effect::Repeated;
    /// Reads what steps have left for their retries.
    RECALL = "recall" ["writing"] => effect::of_recalled;
    /// Checks whether a campaign that was not found is listed, so that it must have been removed.
    LISTED = "listed";
    /// Lists campaigns.
    CAMPAIGNS = "campaigns";
    /// Lists campaigns for which the injector has something to do.
    DUE_CAMPAIGNS = "due_campaigns";
    /// Adds campaigns that are missing in the index of due campaigns.
    COMPLETE_INDEX = "complete_index" ["writing"];
    /// Counts the units that wait in the queues of a campaign.
    COUNT = "count";
    /// Reads frozen windows.
    WINDOWS = "windows";
    /// Reads entries of the ledger.
    LEDGER = "ledger";
    /// Reads the number of the last entry of the ledger.
    HEAD = "head";
    /// Reads entries of the ledger that are not settled, with the last settled one.
    UNSETTLED = "unsettled" ["writing"] => |_| Effect::Repeated;
    /// Removes settled entries from the ledger.
    TRIM = "trim" ["writing", "backlog"];
    /// Counts the entries that are not settled.
    BACKLOG = "backlog" ["backlog"];
    /// Reads or makes the salt of pseudonyms.
    SALT = "salt" ["writing"] => |_| Effect::Repeated;
    /// Removes some data of a campaign that has a tombstone.
    REMOVE = "remove" ["writing"];
    /// Forgets old requests.
    FORGET = "forget" ["writing", "record"];
    /// Creates envelopes, many at once.
    CREATE = "create" ["writing", "sums"] => effect::of_creates;
    /// Grabs, many at once.
    GRAB = "grab" ["writing", "backlog", "sums", "envelope", "grabbing"] => effect::of_grabs;
    /// Reads envelopes.
    ENVELOPES = "envelopes";
    /// Reads which users have which packets.
    GRABS = "grabs";
    /// Lists envelopes whose refund or removal is due.
    DUE_ENVELOPES = "due_envelopes";
    /// Reads the sums of envelopes.
    ENVELOPE_SUMS = "envelope_sums";
    /// Lists replicas, and announces or retires one.
    REPLICAS = "replicas";
    /// Checks whether a partition is whole and takes writes.
    PROBE = "probe" ["writing"];
    /// Records a fork.
    FORK = "fork" ["writing", "backlog"];
    /// Lets a halted partition go on.
    RECOVER = "recover" ["writing", "backlog"];
    /// Raises the format of a partition's data.
    UPGRADE = "upgrade" ["writing"];
    /// Reads or makes a partition's identity.
    IDENTIFY = "identify" ["writing"];
    /// Writes to a partition without a change, so that replicas can confirm all that came before.
    BARRIER = "barrier";
}
