//! Problems of an input, collected so that all are reported at once.

use std::fmt;

/// One thing that is wrong with an input, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a path in the JSON mapping, e.g. `pools[1].schedule.perHour.coupon`, or a request's
    /// field.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// All problems of one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Notes a problem.
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem {
            path: path.into(),
            message: message.into(),
        });
    }

    /// Nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` if nothing is wrong, else the problems.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", problem.path, problem.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
