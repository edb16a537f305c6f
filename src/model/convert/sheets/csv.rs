//! Lines of CSV (RFC 4180).

/// What spreadsheets take for the beginning of a formula, those of East Asia in full width too.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// A line with its end. Cells may contain ids and texts of other people: those that a spreadsheet
/// would take for formulas get an apostrophe in front, which makes them text.
pub(crate) fn line<C: Into<String>>(cells: impl IntoIterator<Item = C>) -> String {
    let cells = cells.into_iter().map(|cell| harmless(cell.into()));
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail, and every line has a cell.
    let _ = writer.write_record(cells);
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// In some languages a semicolon ends a cell, so that a formula may begin behind it.
fn harmless(cell: String) -> String {
    let parts = cell.split_inclusive(';');
    let parts = parts.map(|part| match part.starts_with(FORMULA) {
        true => format!("'{part}"),
        false => part.to_owned(),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_if_they_must_be() {
        assert_eq!(line(["a", "b c", "", "优惠券"]), "a,b c,,优惠券\n");
        assert_eq!(
            line(["a,b", "say \"x\"", "x\ny"]),
            "\"a,b\",\"say \"\"x\"\"\",\"x\ny\"\n"
        );
    }

    #[test]
    fn no_cell_is_a_formula() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"] {
            let line = line([formula, "end"]);
            assert!(line.starts_with('\''), "{line}");
        }
        assert!(line(["\r=1", "end"]).starts_with("\"'\r"));
        assert_eq!(line(["＝1", "a;=1;b"]), "'＝1,a;'=1;b\n");
        assert_eq!(line(["a=1", "user@host"]), "a=1,user@host\n");
    }
}
