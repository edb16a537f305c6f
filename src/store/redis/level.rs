//! Whether the durability level holds while the service runs.
//!
//! Operators may change settings of a Redis in use. If the level no longer holds, then within
//! seconds draws are refused; or, with the option for it, their answers state the level that is
//! left.

use std::time::Duration;

use tokio::{sync::watch, time::Instant};
use tracing::{error, info, warn};

use super::link::{
    findings::{Findings, Problem, name_of},
    timeouts::ANSWER_MAX,
};
use crate::store::{Durability, Executed, Result, StoreError};

/// How long a call of Redis may be under way.
const UNDER_WAY_MAX: Duration = ANSWER_MAX.saturating_mul(2);

/// What to do while Redis keeps less than the level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWeakerLevel {
    /// Draws are refused.
    #[default]
    Refuse,
    /// Answers state the level that is left. If none is left, draws are refused.
    State,
}

/// The options of a level, besides its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelOptions {
    /// How many replicas confirm a write at [`Durability::Strict`], if an operator sets it.
    pub ack_replicas: Option<u32>,
    /// What to do while Redis keeps less than the level.
    pub on_weaker: OnWeakerLevel,
}

/// The level of a store.
pub(super) struct Level {
    promised: Durability,
    on_weaker: OnWeakerLevel,
    standing: watch::Sender<Standing>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Standing {
    problems: Vec<Problem>,
    warnings: Vec<String>,
    /// When a lower level was found last, and which. Writes of that time may not have waited for
    /// replicas.
    weaker: Option<(Instant, Durability)>,
}

impl Level {
    /// A level that is assumed to hold until findings are noted.
    pub(super) fn new(promised: Durability, on_weaker: OnWeakerLevel) -> Self {
        Self {
            promised,
            on_weaker,
            standing: watch::Sender::default(),
        }
    }

    /// The same after these warnings were logged at the start: they are not logged again.
    pub(super) fn having_logged(self, warnings: Vec<String>) -> Self {
        self.standing
            .send_modify(|standing| standing.warnings = warnings);
        self
    }

    /// The level that was promised when the store was opened.
    pub(super) fn promised(&self) -> Durability {
        self.promised
    }

    /// The level that answers state. It rises late, once no answer is under way of a write that has
    /// not waited for replicas.
    pub(super) fn stated(&self) -> Durability {
        let standing = self.standing.borrow();
        let left = self.left(&standing.problems);
        match standing.weaker {
            Some((at, weaker)) if at.elapsed() < UNDER_WAY_MAX => left.min(weaker),
            _ => left,
        }
    }

    /// Whether writes wait for replicas: not while answers state a lower level because a replica
    /// never confirms.
    pub(super) fn awaits_replicas(&self) -> bool {
        let standing = self.standing.borrow();
        let waits_in_vain = standing.problems.iter().any(|found| found.never_confirms);
        self.on_weaker == OnWeakerLevel::Refuse || !waits_in_vain
    }

    /// The level that these problems leave.
    fn left(&self, problems: &[Problem]) -> Durability {
        let leaves = problems.iter().filter_map(|found| found.leaves);
        leaves.fold(self.promised, Durability::min)
    }

    /// Refuses draws while the level does not hold and no lower one may be stated.
    pub(super) fn admit(&self) -> Result<()> {
        let standing = self.standing.borrow();
        let may_state =
            |found: &Problem| self.on_weaker == OnWeakerLevel::State && found.leaves.is_some();
        if standing.problems.iter().all(may_state) {
            return Ok(());
        }
        let texts = standing.problems.iter().map(|found| found.text.as_str());
        Err(StoreError::Unavailable {
            executed: Executed::No,
            detail: format!(
                "Redis does not keep draws as --durability {} promises, so none is made: {}",
                name_of(self.promised),
                Vec::from_iter(texts).join("; ")
            ),
        })
    }

    /// Notes the findings of a check, and logs each change once.
    pub(super) fn note(&self, findings: Findings, had_replicas: bool) {
        let Findings {
            mut problems,
            warnings,
            silent,
            ..
        } = findings;
        let before = self.standing.borrow().clone();
        let was_looked_at =
            |of: &Problem| !silent.contains(&of.master) && (had_replicas || !of.is_of_replicas);
        let kept = before.problems.iter().filter(|of| !was_looked_at(of));
        problems.extend(kept.cloned());
        let is_known = |text: &String| before.problems.iter().any(|found| found.text == *text);
        for found in problems.iter().filter(|found| !is_known(&found.text)) {
            error!(promised = name_of(self.promised), "{}", found.text);
        }
        if problems.is_empty() && !before.problems.is_empty() {
            let level = name_of(self.promised);
            info!("Redis keeps draws as --durability {level} promises again");
        }
        for warning in warnings
            .iter()
            .filter(|text| !before.warnings.contains(text))
        {
            warn!("{warning}");
        }
        let warnings = if had_replicas {
            warnings
        } else {
            before.warnings
        };
        let left = self.left(&before.problems);
        let is_weaker = self.on_weaker == OnWeakerLevel::State && left < self.promised;
        let weaker = is_weaker.then(|| (Instant::now(), left));
        self.standing.send_replace(Standing {
            problems,
            warnings,
            weaker: weaker.or(before.weaker),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(on_weaker: OnWeakerLevel, leaves: &[Option<Durability>]) -> Level {
        let level = Level::new(Durability::Strict, on_weaker);
        let mut findings = Findings::default();
        for leaves in leaves {
            findings.problem("redis:6379", *leaves, "appendfsync is everysec");
        }
        level.note(findings, true);
        level
    }

    #[test]
    fn a_level_that_holds_is_stated() {
        let level = level(OnWeakerLevel::Refuse, &[]);
        assert_eq!(level.stated(), Durability::Strict);
        assert_eq!(level.admit(), Ok(()));
    }

    #[test]
    fn a_weaker_level_is_refused_with_what_to_set() {
        let error = level(OnWeakerLevel::Refuse, &[Some(Durability::Fast)]).admit();
        let Err(StoreError::Unavailable { executed, detail }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(executed, Executed::No);
        assert!(detail.contains("appendfsync is everysec"), "{detail}");
        assert!(detail.contains("--durability strict"), "{detail}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_level_is_stated_again_once_no_write_is_under_way_that_waited_for_less() {
        let level = level(OnWeakerLevel::State, &[Some(Durability::Local)]);
        assert!(level.awaits_replicas(), "they keep less and confirm");
        let mut findings = Findings::default();
        findings.problem("redis:6379", Some(Durability::Local), "appendonly is no");
        findings.problems[0].never_confirms = true;
        level.note(findings, true);
        assert!(!level.awaits_replicas());
        level.note(Findings::default(), true);
        assert!(level.awaits_replicas());
        assert_eq!(level.stated(), Durability::Local);
        tokio::time::advance(UNDER_WAY_MAX).await;
        assert_eq!(level.stated(), Durability::Strict);
    }

    #[test]
    fn what_was_found_on_a_server_stands_while_it_does_not_answer() {
        let level = level(OnWeakerLevel::Refuse, &[Some(Durability::Fast)]);
        let silent = |server: &str| {
            let mut findings = Findings::default();
            findings.silent.push(server.into());
            findings
        };
        level.note(silent("redis:6379"), true);
        assert!(level.admit().is_err());
        level.note(silent("redis:6380"), true);
        assert_eq!(level.admit(), Ok(()));
    }

    #[test]
    fn a_weaker_level_is_stated_if_so_asked_for_but_none_is_not() {
        let (fast, local) = (Some(Durability::Fast), Some(Durability::Local));
        let stated = level(OnWeakerLevel::State, &[local, fast]);
        assert_eq!(stated.admit(), Ok(()));
        assert_eq!(stated.stated(), Durability::Fast);
        assert!(level(OnWeakerLevel::State, &[local, None]).admit().is_err());
    }
}
