//! Commands as a shell reads them, ready to paste.

/// The current command with further flags, ready to paste.
pub(super) fn this_command_with(flags: &str) -> String {
    let words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
    format!("{} {flags}", words.join(" "))
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
}
