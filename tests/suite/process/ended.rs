//! One run of a program from its start to its end.

use std::process::{Command, Output};

/// How a run ended.
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

    /// It ended well; what it printed.
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self.stdout
    }

    /// It ended with this code and told all of these words on standard error, in whatever case.
    #[track_caller]
    pub fn badly(self, code: i32, words: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        let told = self.stderr.to_lowercase();
        for word in words {
            assert!(
                told.contains(&word.to_lowercase()),
                "no `{word}` in {self:#?}"
            );
        }
        self.stderr
    }
}
