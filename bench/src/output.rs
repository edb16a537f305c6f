//! What the bench prints: figures on standard output, everything else on standard error.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table as Grid, presets};
use tombola::model::text::grouped;

use crate::failure::{Failure, Outcome};

/// Prints `text` and a line end. If the reader has closed the pipe, as `head` does, that is no
/// failure.
pub(crate) fn say(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::refused(
            "NO_OUTPUT",
            format!("cannot write the output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Prints a line to standard error, for people; ignores a failure to write it.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// The side on which a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Aligned columns without borders; a terminal and a pipe get the same.
pub(crate) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Side)>) -> Self {
        let (names, sides) = columns
            .into_iter()
            .map(|(name, side)| (name.to_owned(), side))
            .unzip();
        Self {
            sides,
            rows: vec![names],
        }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table as text, without a line end after the last row.
    pub(crate) fn render(&self) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).force_no_tty();
        for row in &self.rows {
            grid.add_row(row);
        }
        for (index, side) in self.sides.iter().enumerate() {
            if let Some(column) = grid.column_mut(index) {
                column.set_padding((0, 2));
                column.set_cell_alignment(match side {
                    Side::Left => CellAlignment::Left,
                    Side::Right => CellAlignment::Right,
                });
            }
        }
        let lines: Vec<String> = grid
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        lines.join("\n")
    }
}

/// `count` and the noun, in the plural unless `count` is 1.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(count))
}
