//! What is found on a Redis that is looked at: its answers, problems and warnings.

use std::collections::HashMap;

use redis::Value;
use thiserror::Error;

use super::fault::Fault;
use crate::store::{Durability, redis::memory::Use};

/// Why a store is not opened on this Redis. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CheckError {
    /// Redis cannot be asked.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Redis is not set up for the durability level.
    #[error("{}", problems_text(.0))]
    Unfit(Vec<String>),
}

fn problems_text(problems: &[String]) -> String {
    let mut text = "Redis is not set up to keep draws:".to_owned();
    for problem in problems {
        text.push_str("\n  - ");
        text.push_str(problem);
    }
    text
}

/// The findings on a Redis that is fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How far the clock of Redis is ahead of the service's, in microseconds; negative if it is
    /// behind. The largest difference of all masters.
    pub skew_micros: i64,
    /// Warnings for operators; all have been logged.
    pub warnings: Vec<String>,
}

/// A reason why a level does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The server that takes writes on which, or on whose replicas, it was found.
    pub(crate) master: String,
    /// What is wrong, on which server, and what to set.
    pub(crate) text: String,
    /// The level that still holds, if any does.
    pub(crate) leaves: Option<Durability>,
    /// It was found on a replica, so it stands until replicas are checked again.
    pub(crate) is_of_replicas: bool,
    /// Writes that wait for this replica wait in vain.
    pub(crate) never_confirms: bool,
}

/// All that was found on the masters and their replicas.
#[derive(Default)]
pub(crate) struct Findings {
    pub(super) skew_micros: i64,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
    /// Of the master that has the least left.
    pub(crate) memory: Option<Use>,
    /// The masters that did not answer: nothing is known of them.
    pub(crate) silent: Vec<String>,
}

impl Findings {
    /// Adds a problem of a master.
    pub(crate) fn problem(&mut self, master: &str, leaves: Option<Durability>, text: &str) {
        self.problems.push(Problem {
            master: master.to_owned(),
            text: format!("{master}: {text}"),
            leaves,
            is_of_replicas: false,
            never_confirms: false,
        });
    }

    /// The result for the caller: an error if there are problems. Logs the warnings.
    pub(super) fn conclude(self) -> Result<Checked, CheckError> {
        if !self.problems.is_empty() {
            let problems = self.problems.into_iter();
            return Err(CheckError::Unfit(
                problems.map(|found| found.text).collect(),
            ));
        }
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Checked {
            skew_micros: self.skew_micros,
            warnings: self.warnings,
        })
    }
}

/// The name of a level in `--durability`.
pub(crate) fn name_of(durability: Durability) -> &'static str {
    match durability {
        Durability::Volatile => "volatile",
        Durability::Embedded => "embedded",
        Durability::Fast => "fast",
        Durability::Local => "local",
        Durability::Strict => "strict",
    }
}

/// The lines of an `INFO`.
pub(crate) struct Info(HashMap<String, String>);

impl Info {
    pub(crate) fn read(text: &str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(
            fields
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect(),
        )
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or("unknown")
    }

    /// The value of a field; none if there is no such field.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

pub(crate) fn text_of(value: &Value) -> Result<String, Fault> {
    redis::from_redis_value_ref(value).map_err(|_| Fault::protocol("INFO is not a text"))
}

/// The value in a reply to `CONFIG GET appendfsync`; none if the server does not have the setting.
pub(crate) fn setting_of(value: &Value) -> Option<String> {
    let mut settings: HashMap<String, String> = redis::from_redis_value_ref(value).ok()?;
    settings.remove("appendfsync")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_info_is_read_line_by_line() {
        let info = Info::read("# Server\r\nredis_version:7.0.15\r\nexecutable:/a:b\r\n\r\n");
        assert_eq!(info.get("redis_version"), "7.0.15");
        assert_eq!(info.get("executable"), "/a:b");
        assert_eq!(info.get("role"), "unknown");
    }

    #[test]
    fn all_problems_are_reported() {
        let error = CheckError::Unfit(vec!["a:1: one".into(), "b:2: two".into()]);
        assert_eq!(
            error.to_string(),
            "Redis is not set up to keep draws:\n  - a:1: one\n  - b:2: two"
        );
    }
}
