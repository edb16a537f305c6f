//! A finished run of a program.

use std::process::{Command, Output};

/// The result of a run.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ended {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// Asserts that it succeeded; returns what it printed.
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }

    /// Asserts that it ended with this code and printed all of these words to standard error, in
    /// upper or lower case; returns that text.
    #[track_caller]
    pub fn badly(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        let printed = self.stderr.to_lowercase();
        for word in words {
            assert!(
                printed.contains(&word.to_lowercase()),
                "no `{word}` in {self:#?}"
            );
        }
        self.stderr
    }
}
