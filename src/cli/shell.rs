//! Commands as a shell reads them, ready to paste.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

/// The current command with further flags, ready to paste.
pub(super) fn this_command_with(flags: &str) -> String {
    let words: Vec<String> = std::env::args_os().map(|word| quoted_os(&word)).collect();
    format!("{} {flags}", words.join(" "))
}

/// A word of a command line, quoted for a POSIX shell. The name of a file need not be UTF-8: then
/// each byte that is no plain character is written by its number.
fn quoted_os(word: &OsStr) -> String {
    if let Some(text) = word.to_str() {
        return quoted(text);
    }
    let bytes = word.as_bytes().iter();
    let bytes = bytes.map(|byte| match char::from(*byte) {
        plain @ ' '..='~' if plain != '\'' && plain != '\\' => plain.to_string(),
        _ => format!("\\{byte:03o}"),
    });
    format!("$'{}'", bytes.collect::<String>())
}

/// A word, quoted for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_for_the_shell() {
        assert_eq!(quoted("spring-wheel.yaml"), "spring-wheel.yaml");
        assert_eq!(quoted("it's late"), r"'it'\''s late'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_word_that_is_not_utf_8_is_quoted_byte_by_byte() {
        let word = OsStr::from_bytes(b"it's \\ late\xff1.yaml");
        assert_eq!(quoted_os(word), r"$'it\047s \134 late\3771.yaml'");
        assert_eq!(quoted_os(OsStr::new("it's")), r"'it'\''s'");
    }
}
