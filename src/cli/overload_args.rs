//! The option that says what happens to calls when there are too many.

use std::time::Duration;

use clap::Args;

use super::time::parse_span;
use crate::model::Problems;

/// The shortest and the longest wait.
const TARGET_MIN: Duration = Duration::from_millis(1);
const TARGET_MAX: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub(super) struct OverloadArgs {
    /// The wait from which on a queue is too long. If even the shortest wait of a tenth of a second
    /// is longer, calls that have waited for twice as long are refused (OVERLOADED); 0s: none is
    #[arg(
        long,
        env = "TOMBOLA_QUEUE_TARGET",
        value_name = "SPAN",
        default_value = "5ms"
    )]
    queue_target: String,
}

impl OverloadArgs {
    /// How long calls may wait; not bounded if absent.
    pub(super) fn queue_target(&self, problems: &mut Problems) -> Option<Duration> {
        read_target(&self.queue_target).unwrap_or_else(|text| {
            problems.add("--queue-target", text);
            None
        })
    }
}

fn read_target(text: &str) -> Result<Option<Duration>, String> {
    let span = parse_span(text).map_err(|error| format!("`{text}`: {error}"))?;
    match Duration::try_from(span) {
        Ok(Duration::ZERO) => Ok(None),
        Ok(target) if (TARGET_MIN..=TARGET_MAX).contains(&target) => Ok(Some(target)),
        _ => Err(format!(
            "`{text}` is out of range: 1ms to 10s, or 0s for none"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_checked() {
        assert_eq!(read_target("5ms"), Ok(Some(Duration::from_millis(5))));
        assert_eq!(read_target("10s"), Ok(Some(TARGET_MAX)));
        assert_eq!(read_target("0s"), Ok(None));
        for bad in ["", "5", "-1s", "11s", "1us", "soon"] {
            assert!(read_target(bad).is_err(), "{bad}");
        }
    }
}
