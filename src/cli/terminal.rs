//! The operator's terminal: asks before changes that cannot be undone.

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
