//! A file of codes: one in each line. It may be large, so it is read line by line, and more than
//! once: all lines are checked before the first code is sent.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use super::{
    client::Outcome,
    failure::Failure,
    input::{shown, why_unreadable},
};
use crate::model::{Problems, code, text::grouped};

/// Wrong lines that an error names.
const SHOWN_MAX: usize = 20;
/// A line that is longer is not read as a whole.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A file whose lines were all checked.
pub(super) struct CodeFile {
    path: PathBuf,
    /// How many codes it has.
    pub(super) codes: u64,
}

impl CodeFile {
    /// Reads and checks all lines.
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        let mut lines = Lines::open(path)?;
        let mut problems = Problems::default();
        let mut codes = 0_u64;
        while let Some(line) = lines.next_line()? {
            codes += 1;
            let checked = line.and_then(|line| code::check(&line));
            if let Err(problem) = checked
                && problems.0.len() < SHOWN_MAX
            {
                problems.add(format!("line {}", grouped(codes)), problem);
            }
        }
        if codes == 0 {
            problems.add("line 1", "is missing: write one code in each line");
        }
        let path = path.to_owned();
        let named = shown(&path);
        problems
            .or(Self { path, codes })
            .map_err(|problems| Failure::problems(&named, problems))
    }

    /// The name of the file in messages.
    pub(super) fn shown(&self) -> String {
        shown(&self.path)
    }

    /// The codes after the first `skip`.
    pub(super) fn codes_after(&self, skip: u64) -> Outcome<Codes> {
        let mut lines = Lines::open(&self.path)?;
        for _ in 0..skip {
            lines.next_line()?;
        }
        Ok(Codes {
            lines,
            named: self.shown(),
            left: self.codes.saturating_sub(skip),
            held: None,
        })
    }
}

/// The codes of a file, in parts.
pub(super) struct Codes {
    lines: Lines,
    named: String,
    /// Lines that were checked and are not read again yet.
    left: u64,
    /// A code that did not fit into the part before.
    held: Option<String>,
}

impl Codes {
    /// The next codes: at most `codes_max`, of at most `bytes_max` together; empty at the end.
    pub(super) fn next_part(&mut self, codes_max: usize, bytes_max: usize) -> Outcome<Vec<String>> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < codes_max {
            let code = match self.held.take() {
                Some(code) => code,
                None if self.left == 0 => break,
                None => {
                    self.left -= 1;
                    let line = self.lines.next_line()?;
                    line.and_then(Result::ok).ok_or_else(|| self.changed())?
                }
            };
            bytes += code.len();
            if bytes > bytes_max && !part.is_empty() {
                self.held = Some(code);
                break;
            }
            part.push(code);
        }
        Ok(part)
    }

    fn changed(&self) -> Box<Failure> {
        let text = format!("{} was changed while it was imported", self.named);
        Failure::refused("FILE_UNREADABLE", text)
    }
}

/// The lines of a file, without their ends: LF or CR LF.
struct Lines {
    reader: BufReader<File>,
    path: PathBuf,
    is_first: bool,
}

impl Lines {
    fn open(path: &Path) -> Outcome<Self> {
        let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        // What is read of a pipe is gone. Reading tells why a directory is no file.
        if !found.is_file() && !found.is_dir() {
            let text = format!(
                "cannot read {}: it is a pipe or a device, and codes are read more than once: \
                 write them into a file first",
                shown(path)
            );
            return Err(Failure::refused("FILE_UNREADABLE", text));
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        Ok(Self {
            reader: BufReader::new(file),
            path: path.to_owned(),
            is_first: true,
        })
    }

    /// The next line, or what is wrong with it; none at the end.
    fn next_line(&mut self) -> Outcome<Option<Result<String, String>>> {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let read = self.reader.fill_buf();
            let read = read.map_err(|error| unreadable(&self.path, &error))?;
            if read.is_empty() {
                if line.is_empty() && !is_too_long {
                    return Ok(None);
                }
                break;
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = &read[..end.unwrap_or(read.len())];
            is_too_long |= line.len() + part.len() > LINE_BYTES_MAX;
            if !is_too_long {
                line.extend_from_slice(part);
            }
            let used = end.map_or(read.len(), |end| end + 1);
            self.reader.consume(used);
            if end.is_some() {
                break;
            }
        }
        let is_first = std::mem::replace(&mut self.is_first, false);
        if is_too_long {
            return Ok(Some(Err(format!(
                "is longer than {LINE_BYTES_MAX} bytes: write one code in each line"
            ))));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        Ok(Some(match std::str::from_utf8(line) {
            Ok(line) => {
                let mark = if is_first { '\u{feff}' } else { '\0' }; // a byte order mark
                Ok(line.strip_prefix(mark).unwrap_or(line).to_owned())
            }
            Err(_) => Err("is not UTF-8 text: save the file as UTF-8".into()),
        }))
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Box<Failure> {
    let (file, why) = (shown(path), why_unreadable(error));
    Failure::refused("FILE_UNREADABLE", format!("cannot read {file}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> PathBuf {
        let name = format!("tombola-codes-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn lines_end_with_lf_or_cr_lf_and_the_last_one_may_end_with_the_file() {
        let path = file("good", "\u{feff}A\r\nB b\n礼".as_bytes());
        let good = CodeFile::open(&path).unwrap();
        assert_eq!(good.codes, 3);
        let mut codes = good.codes_after(0).unwrap();
        assert_eq!(codes.next_part(10, 1_000).unwrap(), ["A", "B b", "礼"]);
        assert!(codes.next_part(10, 1_000).unwrap().is_empty());
        let mut codes = good.codes_after(1).unwrap();
        assert_eq!(codes.next_part(1, 1_000).unwrap(), ["B b"]);
        assert_eq!(codes.next_part(1, 1_000).unwrap(), ["礼"]);
        // A code is never cut, and a part has at least one.
        let mut codes = good.codes_after(0).unwrap();
        assert_eq!(codes.next_part(10, 3).unwrap(), ["A"]);
        assert_eq!(codes.next_part(10, 1).unwrap(), ["B b"]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_was_not_checked_is_not_sent_and_what_is_gone_is_noticed() {
        let path = file("changed", b"A\nB\n");
        let checked = CodeFile::open(&path).unwrap();
        std::fs::write(&path, b"A\nB\nC\n").unwrap();
        let mut codes = checked.codes_after(0).unwrap();
        assert_eq!(codes.next_part(10, 1_000).unwrap(), ["A", "B"]);
        assert!(codes.next_part(10, 1_000).unwrap().is_empty());
        std::fs::write(&path, b"A\n").unwrap();
        for skip in [0, 1] {
            let mut codes = checked.codes_after(skip).unwrap();
            let failure = codes.next_part(10, 1_000).unwrap_err();
            assert!(failure.message.contains("was changed"), "{failure}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_wrong_line_is_named() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let bytes = [b"A\n\n\xff\n B\n", long.as_bytes(), b"\nC\n"].concat();
        let path = file("bad", &bytes);
        let Err(failure) = CodeFile::open(&path) else {
            panic!("the file has wrong lines");
        };
        let lines: Vec<&str> = failure.violations.0.iter().map(|it| &*it.path).collect();
        assert_eq!(lines, ["line 2", "line 3", "line 4", "line 5"]);
        std::fs::write(&path, b"").unwrap();
        let Err(failure) = CodeFile::open(&path) else {
            panic!("the file is empty");
        };
        assert_eq!(failure.violations.0[0].path, "line 1");
        std::fs::remove_file(path).unwrap();
    }
}
