//! Numbers that the scripts share with this code. Each is stated once, in Rust; in the text of a
//! script its name is replaced by the number.

use std::{collections::HashMap, fmt::Write as _, sync::LazyLock};

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

/// The numbers by their names.
static CONSTANTS: LazyLock<HashMap<&str, i64>> = LazyLock::new(|| {
    HashMap::from([
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
    ])
});

/// A script's text with numbers in place of their names, also in quotes. As local variables they
/// would be values that Redis attaches to a script's functions whenever it makes them. A negative
/// number is in parentheses: a minus sign before another one would begin a comment.
pub(crate) fn replace_constants(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = is_of_word(first);
        let end = rest
            .find(|char| is_of_word(char) != is_word)
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        match CONSTANTS.get(part) {
            // Writing to memory does not fail.
            Some(number @ ..0) => _ = write!(replaced, "({number})"),
            Some(number) => _ = write!(replaced, "{number}"),
            None => replaced.push_str(part),
        }
        rest = after;
    }
    replaced
}

/// Whether a character is part of a Lua name or number.
fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use std::{error::Error, fs, path::Path};

    use super::*;

    #[test]
    fn only_whole_names_are_replaced() {
        let older = record::OLDER.to_string();
        assert_eq!(replace_constants("has == OLDER"), format!("has == {older}"));
        assert_eq!(
            replace_constants("#OLDER-OLDER"),
            format!("#{older}-{older}")
        );
        let others = "OLDERS, OLDER_, _OLDER, MORE_OLDER, older, OLDER1, BOLDER é";
        assert_eq!(replace_constants(others), others);
        assert_eq!(replace_constants(""), "");
    }

    #[test]
    fn a_negative_number_is_in_parentheses() {
        assert_eq!(replace_constants("1 -FORFEITED"), "1 -(-1)");
    }

    #[test]
    fn no_script_has_the_name_of_a_constant_in_quotes() -> Result<(), Box<dyn Error>> {
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/redis/lua");
        let (mut files, mut texts) = (0, 0);
        for folder in [lua.join("modules"), lua] {
            for file in fs::read_dir(folder)? {
                let path = file?.path();
                if path.is_dir() {
                    continue;
                }
                files += 1;
                let file = fs::read_to_string(&path)?;
                let code = file.lines().flat_map(|line| line.split("--").next());
                for text in code.flat_map(|line| line.split('\'').skip(1).step_by(2)) {
                    texts += 1;
                    assert_eq!(replace_constants(text), text, "{}", path.display());
                }
            }
        }
        assert!(files > 50 && texts > 400, "{files} files, {texts} texts");
        Ok(())
    }
}
