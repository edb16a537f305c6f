//! Standard output. A reader may close it: `tombola schedule … | head` ends quietly.

use std::{
    io::{self, Write as _},
    sync::atomic::{AtomicU8, Ordering},
};

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, Width, presets,
};

pub(super) use crate::model::text::counted;
use crate::model::text::visible;

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
const FAILED: u8 = 2;
/// The least width of a column of words, including its padding, on a narrow terminal.
const WORDS_WIDTH_MIN: u16 = 10;

static STATE: AtomicU8 = AtomicU8::new(OPEN);

/// Prints `text` and a line end. Once the reader has closed the pipe, output is dropped. The
/// command still runs to its end, so that a closed pipe never leaves a change half made.
pub(super) fn say(text: &str) {
    if STATE.load(Ordering::Relaxed) != OPEN {
        return;
    }
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(if text.ends_with('\n') { b"" } else { b"\n" }))
        .and_then(|()| stdout.flush());
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            STATE.store(CLOSED, Ordering::Relaxed);
        }
        Err(error) => {
            STATE.store(FAILED, Ordering::Relaxed);
            note(&format!("error: cannot write the output: {error}"));
        }
    }
}

/// Whether someone still reads the output.
pub(super) fn is_open() -> bool {
    STATE.load(Ordering::Relaxed) == OPEN
}

/// Prints a line to standard error, for people; ignores a failure to write it.
pub(super) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Whether some output could not be written, for another reason than a closed pipe.
pub(super) fn failed() -> bool {
    STATE.load(Ordering::Relaxed) == FAILED
}

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Aligned columns without borders.
pub(super) struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column names.
    pub(super) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Side)>) -> Self {
        let (names, sides) = columns
            .into_iter()
            .map(|(name, side)| (name.to_owned(), side))
            .unzip();
        Self {
            sides,
            rows: vec![names],
        }
    }

    /// Adds a row with one cell per column. Cells may contain ids and texts of other people:
    /// control characters are escaped, so that no cell changes its neighbours or the terminal.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        let shown = cells.map(|cell| visible(&cell).into_owned());
        self.rows.push(shown.collect());
    }

    /// Whether it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table without those of these columns that are empty in every row.
    pub(super) fn without_empty(mut self, columns: &[&str]) -> Self {
        let is_empty = |index: usize| self.rows[1..].iter().all(|row| row[index].is_empty());
        let kept: Vec<bool> = (0..self.sides.len())
            .map(|index| !columns.contains(&self.rows[0][index].as_str()) || !is_empty(index))
            .collect();
        keep(&mut self.sides, &kept);
        for row in &mut self.rows {
            keep(row, &kept);
        }
        self
    }

    /// The table as text, without a line end after the last row. If it is printed on a terminal, it
    /// keeps within the terminal's width.
    pub(super) fn render(&self) -> String {
        self.within(Grid::new().width())
    }

    /// Wraps words if a row is wider than `width` columns. Numbers are never wrapped: if they alone
    /// are wider, so is the table.
    fn within(&self, width: Option<u16>) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).force_no_tty();
        if let Some(width) = width {
            grid.set_content_arrangement(ContentArrangement::Dynamic);
            grid.set_width(width);
        }
        for row in &self.rows {
            grid.add_row(row);
        }
        for (index, side) in self.sides.iter().enumerate() {
            if let Some(column) = grid.column_mut(index) {
                column.set_padding((0, 2));
                match side {
                    Side::Right => {
                        column.set_constraint(ColumnConstraint::ContentWidth);
                    }
                    Side::Left if width.is_some() => {
                        let least = Width::Fixed(WORDS_WIDTH_MIN);
                        column.set_constraint(ColumnConstraint::LowerBoundary(least));
                    }
                    Side::Left => {}
                }
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

/// Keeps the cells of these columns.
fn keep<T>(cells: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    cells.retain(|_| kept.next().copied().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_empty_column_that_it_may_leave_out() {
        let table = |code: &str| {
            let columns = ["unit", "code", "note"].map(|name| (name, Side::Left));
            let mut table = Table::new(columns);
            table.row(["u-1".into(), String::new(), String::new()]);
            table.row(["u-2".into(), code.into(), String::new()]);
            table.without_empty(&["code"]).render()
        };
        assert_eq!(table(""), "unit  note\nu-1\nu-2");
        assert_eq!(table("7"), "unit  code  note\nu-1\nu-2   7");
    }

    #[test]
    fn a_table_has_aligned_columns_and_no_border() {
        let mut table = Table::new([("prize", Side::Left), ("stock", Side::Right)]);
        assert!(table.is_empty());
        table.row(["car".into(), "1".into()]);
        table.row(["优惠券".into(), "300,000".into()]);
        assert_eq!(
            table.render(),
            "prize     stock\ncar           1\n优惠券  300,000"
        );
    }

    #[test]
    fn a_table_keeps_within_the_terminal_and_its_numbers_whole() {
        let mut table = Table::new([
            ("prize", Side::Left),
            ("stock", Side::Right),
            ("name", Side::Left),
        ]);
        table.row([
            "coupon".into(),
            "1,300,000".into(),
            "A phone coupon of a hundred units for the shop in town".into(),
        ]);
        assert_eq!(table.within(None).lines().count(), 2);
        let narrow = table.within(Some(50));
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 50),
            "{narrow}"
        );
        assert!(narrow.contains("1,300,000"), "{narrow}");
        assert!(narrow.lines().count() > 2, "{narrow}");
    }

    #[test]
    fn no_cell_breaks_out_of_its_row() {
        let mut table = Table::new([("user", Side::Left), ("won", Side::Right)]);
        table.row(["a\nb\u{202e}\u{1b}[31m ".into(), "1".into()]);
        let shown = r"a\nb\u{202e}\u{1b}[31m\u{20}";
        let rendered = table.render();
        let line = rendered.lines().nth(1);
        assert_eq!(line, Some(format!("{shown}    1").as_str()), "{rendered}");
    }
}
