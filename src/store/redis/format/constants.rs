//! Numbers that the scripts share with this code. Each is stated once, in Rust; scripts get them as
//! Lua locals.

use std::{fmt::Write as _, sync::LazyLock};

use super::{
    asked, counts, record, results,
    version::{CAPS_FORMAT, FORMAT, FULL_ENTRIES_FORMAT},
};
use crate::{
    model::{PoolNo, limits::OPEN_GRANTS_MAX},
    store::{
        Cause, Lifecycle,
        envelope::{LOW_PACKETS, LOW_PACKETS_OF_MANY, MANY_GRABS},
        rules::LOW_CARDS,
    },
};

/// The Lua text that defines them. It comes before every script.
pub(crate) static CONSTANTS: LazyLock<String> = LazyLock::new(|| {
    let constants: [(&str, i64); 36] = [
        ("FORMAT", FORMAT.into()),
        ("FULL_ENTRIES_FORMAT", FULL_ENTRIES_FORMAT.into()),
        ("CAPS_FORMAT", CAPS_FORMAT.into()),
        ("OLDER", record::OLDER.into()),
        ("LATEST", record::LATEST.into()),
        ("BONUS", record::BONUS.into()),
        ("PLAIN", record::PLAIN.into()),
        ("EXTENDED", record::EXTENDED.into()),
        ("EXTENSION_BYTES_MAX", counts::EXTENSION_BYTES_MAX as i64),
        ("PRIZES_FIELD", counts::PRIZES_FIELD.into()),
        ("HOUR_FIELD", counts::HOUR_FIELD.into()),
        ("GRANTED_FIELD", counts::GRANTED_FIELD.into()),
        ("PROGRESS_FIELD", counts::PROGRESS_FIELD.into()),
        ("BONUS_TODAY_FIELD", counts::BONUS_TODAY_FIELD.into()),
        ("EXTENDED_COUNTS", counts::EXTENDED_COUNTS.into()),
        ("COMPACT_BYTES_MAX", record::COMPACT_BYTES_MAX as i64),
        ("A_GRANT", asked::A_GRANT.cast_signed()),
        ("FORFEITED", results::FORFEITED.into()),
        ("BLANK", results::BLANK.into()),
        ("CODED", results::CODED.into()),
        ("GUARANTEED", results::GUARANTEED.into()),
        ("GUARANTEES", PoolNo::GUARANTEES.0.into()),
        ("NOTHING_DUE", Cause::NothingDue.code().into()),
        ("WINS_LIMIT", Cause::WinsLimit.code().into()),
        ("PRIZE_CAP", Cause::PrizeCap.code().into()),
        ("BUDGET", Cause::Budget.code().into()),
        ("BLOCKED", Cause::Blocked.code().into()),
        ("CONSOLATION_ONLY", Cause::ConsolationOnly.code().into()),
        ("LOW_CARDS", LOW_CARDS.cast_signed()),
        ("LIFECYCLE_OPEN", Lifecycle::Open.code().into()),
        ("LIFECYCLE_PAUSED", Lifecycle::Paused.code().into()),
        ("LIFECYCLE_CLOSED", Lifecycle::Closed.code().into()),
        ("OPEN_GRANTS_MAX", OPEN_GRANTS_MAX as i64),
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
