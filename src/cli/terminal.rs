//! The operator's terminal: asks before changes that cannot be undone, and quotes commands to
//! paste.

use std::io::{IsTerminal as _, Write as _};

use super::{client::Outcome, failure::Failure};

/// Asks for a confirmation; fails if there is no terminal to ask on.
pub(super) fn confirm(question: &str, yes: bool) -> Outcome {
    if yes {
        return Ok(());
    }
    let reason = "CONFIRMATION_NEEDED";
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let message = format!("{question} There is no terminal to ask on: add --yes");
        return Err(Failure::refused(reason, message));
    }
    let mut stderr = std::io::stderr().lock();
    drop(write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush()));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::refused(
            reason,
            "not confirmed: nothing was changed",
        )),
    }
}

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
