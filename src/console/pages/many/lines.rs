//! The lines of a file of users or wins: what is done with each, and what became of it.

use std::collections::HashSet;

use tonic::Status;

use crate::{console::upload, model::UserId};

/// The most lines of a file: as many users as a call takes.
pub(super) const LINES_MAX: usize = 1_000;

/// What is done with each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Grant,
    Block,
    Unblock,
    Deliver,
    Revoke,
    Forget,
}

impl Act {
    pub(super) const ALL: [Self; 6] = [
        Self::Grant,
        Self::Block,
        Self::Unblock,
        Self::Deliver,
        Self::Revoke,
        Self::Forget,
    ];

    /// Its name in forms.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Block => "block",
            Self::Unblock => "unblock",
            Self::Deliver => "deliver",
            Self::Revoke => "revoke",
            Self::Forget => "forget",
        }
    }

    /// The key of its message.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Grant => "many.grant",
            Self::Block => "user.block",
            Self::Unblock => "user.unblock",
            Self::Deliver => "win.deliver",
            Self::Revoke => "win.revoke",
            Self::Forget => "forget.title",
        }
    }

    /// The names of the columns, which a file may begin with.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Grant => &["user", "draws"],
            Self::Block | Self::Unblock | Self::Forget => &["user"],
            Self::Deliver => &["unit", "reference"],
            Self::Revoke => &["unit", "reason"],
        }
    }

    /// Whether it acts on a campaign that is over, too.
    pub(super) fn is_for_ever(self) -> bool {
        matches!(self, Self::Deliver | Self::Revoke | Self::Forget)
    }

    /// Whether the form has a reason for all lines.
    pub(super) fn has_reason(self) -> bool {
        !matches!(self, Self::Deliver | Self::Revoke)
    }
}

/// What became of a line.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It waits for its call.
    Open,
    Done,
    /// It is wrong: the key of the message that says why. It was not sent.
    Wrong(&'static str),
    /// The service refused it.
    Refused(Status),
    /// It was not sent since a call before it failed.
    Skipped,
}

/// A line of a file.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    /// A user or a unit.
    pub(super) id: String,
    /// Draws or a reference.
    pub(super) value: String,
    pub(super) outcome: Outcome,
}

/// The lines of a file; none if there are too many.
pub(super) fn read(act: Act, text: &str) -> Option<Vec<Line>> {
    let columns = act.columns();
    let mut seen = HashSet::new();
    let mut lines: Vec<Line> = Vec::new();
    for (index, (number, line)) in upload::lines(text).enumerate() {
        let record = cells(line);
        if index == 0 && record == *columns {
            continue;
        }
        if lines.len() == LINES_MAX {
            return None;
        }
        let cell = |index| record.get(index).unwrap_or_default().to_owned();
        let (id, value) = (cell(0), cell(1));
        let outcome = match act {
            _ if record.len() != columns.len() => Outcome::Wrong("many.cells"),
            _ if !seen.insert(id.clone()) => Outcome::Wrong("many.again"),
            Act::Grant | Act::Block | Act::Unblock | Act::Forget
                if UserId::parse("user", &id).is_err() =>
            {
                Outcome::Wrong("many.no-user")
            }
            Act::Grant if value.parse::<u32>().is_err() => Outcome::Wrong("many.no-draws"),
            _ => Outcome::Open,
        };
        lines.push(Line {
            number,
            id,
            value,
            outcome,
        });
    }
    Some(lines)
}

/// The cells of a line. Ids have no line ends, so a record is a line.
fn cells(line: &str) -> csv::StringRecord {
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.has_headers(false).trim(csv::Trim::All);
    let records = reader.from_reader(line.as_bytes()).into_records();
    // Reading from memory does not fail, and a text has no wrong bytes.
    records.map_while(Result::ok).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(act: Act, text: &str) -> Vec<(usize, &'static str)> {
        let lines = read(act, text).unwrap().into_iter();
        lines
            .map(|line| match line.outcome {
                Outcome::Open => (line.number, ""),
                Outcome::Wrong(key) => (line.number, key),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn wrong_lines_are_named_and_the_others_stay() {
        let text = "\u{feff}user,draws\r\nanna, 3\r\n\r\nbob,x\n\"a,b\",1\nanna,4\nc\n,2\n";
        let expected = [
            (2, ""),
            (4, "many.no-draws"),
            (5, ""),
            (6, "many.again"),
            (7, "many.cells"),
            (8, "many.no-user"),
        ];
        assert_eq!(outcomes(Act::Grant, text), expected);
        assert_eq!(outcomes(Act::Block, "user\nuser\n"), [(2, "")]);
        assert_eq!(outcomes(Act::Deliver, "u:1,parcel 9"), [(1, "")]);
        assert_eq!(outcomes(Act::Revoke, "unit,reason\nu:1,fraud"), [(2, "")]);
        assert_eq!(outcomes(Act::Forget, "user\n,"), [(2, "many.cells")]);
        assert!(outcomes(Act::Block, "\n\n").is_empty());
    }

    #[test]
    fn a_file_is_bounded() {
        let lines = |count| (0..count).map(|no| format!("u{no}\n")).collect::<String>();
        assert_eq!(
            read(Act::Block, &lines(LINES_MAX)).unwrap().len(),
            LINES_MAX
        );
        assert!(read(Act::Block, &lines(LINES_MAX + 1)).is_none());
    }
}
