//! Numbers that the scripts share with this code. Each is stated once, in Rust; scripts get them as
//! Lua locals.

use std::{fmt::Write as _, sync::LazyLock};

use super::{
    record, results,
    version::{FORMAT, FULL_ENTRIES_FORMAT},
};
use crate::store::{
    Cause, Lifecycle,
    envelope::{LOW_PACKETS, LOW_PACKETS_OF_MANY, MANY_GRABS},
    rules::LOW_CARDS,
};

/// The Lua text that defines them. It comes before every script.
pub(crate) static CONSTANTS: LazyLock<String> = LazyLock::new(|| {
    let constants: [(&str, i64); 21] = [
        ("FORMAT", FORMAT.into()),
        ("FULL_ENTRIES_FORMAT", FULL_ENTRIES_FORMAT.into()),
        ("OLDER", record::OLDER.into()),
        ("LATEST", record::LATEST.into()),
        ("BONUS", record::BONUS.into()),
        ("PLAIN", record::PLAIN.into()),
        ("EXTENDED", record::EXTENDED.into()),
        ("EXTENSION_BYTES_MAX", record::EXTENSION_BYTES_MAX as i64),
        ("COMPACT_BYTES_MAX", record::COMPACT_BYTES_MAX as i64),
        ("FORFEITED", results::FORFEITED.into()),
        ("BLANK", results::BLANK.into()),
        ("NOTHING_DUE", Cause::NothingDue.code().into()),
        ("WINS_LIMIT", Cause::WinsLimit.code().into()),
        ("BLOCKED", Cause::Blocked.code().into()),
        ("CONSOLATION_ONLY", Cause::ConsolationOnly.code().into()),
        ("LOW_CARDS", LOW_CARDS.cast_signed()),
        ("LIFECYCLE_OPEN", Lifecycle::Open.code().into()),
        ("LIFECYCLE_CLOSED", Lifecycle::Closed.code().into()),
        ("MANY_GRABS", MANY_GRABS.into()),
        ("LOW_PACKETS", LOW_PACKETS.into()),
        ("LOW_PACKETS_OF_MANY", LOW_PACKETS_OF_MANY.into()),
    ];
    let mut text = String::new();
    for (name, value) in constants {
        // Writing to memory does not fail.
        let _ = writeln!(text, "local {name} = {value}");
    }
    text
});
