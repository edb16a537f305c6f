//! The files of a directory: the lock, the numbered files of lines, the salts, the contradictions.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
};

use tracing::warn;

use super::{
    DirectoryTarget,
    lines::{self, CursorLine, Header, LINES, SaltLine, line},
};
use crate::{
    chance::Salt,
    ledger::sink::{Batch, Cursor, SinkError},
    lock_file::LockFile,
};

/// The lock, which nobody else has while this process writes.
const LOCK: &str = "lock";
/// Salts of pseudonyms. Once it is destroyed, and those of the store are, the pseudonyms are final.
const SALTS: &str = "salts.jsonl";
/// Contradictions between store and directory.
const QUARANTINE: &str = "quarantine.jsonl";
/// The files of lines are `ledger-00000001.jsonl` and so on.
const LEDGER: (&str, &str) = ("ledger-", ".jsonl");

/// The files of an open directory.
pub(super) struct Files {
    path: PathBuf,
    store_id: String,
    file_bytes_max: u64,
    _lock: LockFile,
    /// The newest file, its number and its size.
    file: File,
    number: u64,
    size: u64,
    cursors: BTreeMap<u32, Cursor>,
    salts: HashMap<(u32, String), Salt>,
    /// The end of a file is not known after a failed write.
    is_broken: bool,
}

impl Files {
    /// Opens a directory, and removes what was cut off.
    pub(super) fn open(target: &DirectoryTarget, store_id: &str) -> Result<Self, SinkError> {
        let path = &target.path;
        let fault = |cause| SinkError::directory(path, cause);
        fs::create_dir_all(path).map_err(fault)?;
        let lock = take_lock(path)?;
        let salts = read_salts(path)?;
        let number = newest(path).map_err(fault)?;
        let (file, number, size, cursors) = match number {
            Some(number) => {
                let (file, size, cursors) = reopen(path, number, store_id)?;
                (file, number, size, cursors)
            }
            None => {
                let (file, size) = begin(path, 1, store_id, &BTreeMap::new()).map_err(fault)?;
                (file, 1, size, BTreeMap::new())
            }
        };
        Ok(Self {
            path: path.clone(),
            store_id: store_id.to_owned(),
            file_bytes_max: target.file_bytes_max,
            _lock: lock,
            file,
            number,
            size,
            cursors,
            salts,
            is_broken: false,
        })
    }

    pub(super) fn cursors(&self) -> &BTreeMap<u32, Cursor> {
        &self.cursors
    }

    pub(super) fn salt(&self, partition: u32, campaign: &str) -> Option<Salt> {
        let name = (partition, campaign.to_owned());
        self.salts.get(&name).copied()
    }

    /// Appends a batch, and syncs it.
    pub(super) fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Batch,
    ) -> Result<Option<Cursor>, SinkError> {
        let Some(after) = batch.cursor(before) else {
            return Ok(before.cloned());
        };
        if self.cursors.get(&batch.partition) != before {
            return Ok(None);
        }
        let written = self.try_write(batch, &after);
        self.is_broken = written.is_err();
        written.map_err(|cause| SinkError::directory(&self.path, cause))?;
        self.cursors.insert(batch.partition, after.clone());
        Ok(Some(after))
    }

    fn try_write(&mut self, batch: &Batch, after: &Cursor) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier write has failed"));
        }
        self.keep_salts(batch)?;
        if self.size >= self.file_bytes_max {
            let number = self.number + 1;
            (self.file, self.size) = begin(&self.path, number, &self.store_id, &self.cursors)?;
            self.number = number;
        }
        let lines = lines::batch(batch, after);
        let written = self.file.write_all(&lines);
        if let Err(cause) = written.and_then(|()| self.file.sync_data()) {
            // It may be in memory only, and must not be found there when the file is opened again.
            let cut = self.file.set_len(self.size);
            drop(cut.and_then(|()| self.file.sync_all()));
            return Err(cause);
        }
        self.size += lines.len() as u64;
        Ok(())
    }

    /// A salt is on disk before anything that is derived from it.
    fn keep_salts(&mut self, batch: &Batch) -> io::Result<()> {
        let mut text = Vec::new();
        for (campaign, salt) in &batch.salts {
            text.extend(line(&SaltLine::of(batch.partition, campaign, salt)));
        }
        append(&self.path.join(SALTS), &text)?;
        for (campaign, salt) in &batch.salts {
            let name = (batch.partition, campaign.clone());
            self.salts.insert(name, *salt);
        }
        Ok(())
    }

    /// Keeps a contradiction.
    pub(super) fn note(&self, line: &[u8]) -> Result<(), SinkError> {
        let noted = append(&self.path.join(QUARANTINE), line);
        noted.map_err(|cause| SinkError::directory(&self.path, cause))
    }

    /// Notes that contradictions of a partition are in the past, if there are any at all.
    pub(super) fn end_quarantine(&self, partition: u32) -> Result<(), SinkError> {
        if !self.path.join(QUARANTINE).exists() {
            return Ok(());
        }
        self.note(&line(
            &serde_json::json!({ "partition": partition, "ended": true }),
        ))
    }
}

fn take_lock(path: &Path) -> Result<LockFile, SinkError> {
    let lock = LockFile::take(&path.join(LOCK));
    let lock = lock.map_err(|cause| SinkError::directory(path, cause))?;
    lock.ok_or_else(|| SinkError::DirectoryInUse(path.to_owned()))
}

fn file_name(number: u64) -> String {
    let (start, end) = LEDGER;
    format!("{start}{number:08}{end}")
}

/// The number of the newest file, if there is one.
fn newest(path: &Path) -> io::Result<Option<u64>> {
    let mut newest = None;
    for file in fs::read_dir(path)? {
        let name = file?.file_name();
        let number = name.to_str().and_then(|name| {
            let (start, end) = LEDGER;
            name.strip_prefix(start)?.strip_suffix(end)?.parse().ok()
        });
        newest = newest.max(number);
    }
    Ok(newest)
}

/// Makes a file with its header under another name first, so that each file has its whole header.
fn begin(
    path: &Path,
    number: u64,
    store_id: &str,
    cursors: &BTreeMap<u32, Cursor>,
) -> io::Result<(File, u64)> {
    let cursors = cursors.values().map(|cursor| CursorLine::of(cursor, None));
    let header = line(&Header {
        store: store_id.to_owned(),
        lines: LINES,
        cursors: cursors.collect(),
    });
    let new = path.join("new");
    let mut file = File::create(&new)?;
    file.write_all(&header)?;
    file.sync_all()?;
    fs::rename(&new, path.join(file_name(number)))?;
    File::open(path)?.sync_all()?;
    Ok((file, header.len() as u64))
}

type Reopened = (File, u64, BTreeMap<u32, Cursor>);

/// Opens the newest file, and removes what follows the cursor of its last whole batch.
///
/// A batch that was cut off by a power failure may have its cursor, but zeros instead of some lines
/// before it: the system writes the pages of a file in any order until they are synced. No batch is
/// written after one that was not synced, so in the middle of a file that is damage.
fn reopen(path: &Path, number: u64, store_id: &str) -> Result<Reopened, SinkError> {
    let name = path.join(file_name(number));
    let fault = |cause| SinkError::directory(path, cause);
    let damaged = || SinkError::DirectoryDamaged(name.clone());
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).open(&name).map_err(fault)?;
    let mut reader = BufReader::new(&file);
    let mut text = Vec::new();
    let mut end = reader.read_until(b'\n', &mut text).map_err(fault)? as u64;
    let header: Header = serde_json::from_slice(&text).map_err(|_| damaged())?;
    if header.lines > LINES {
        return Err(damaged());
    }
    if header.store != store_id {
        return Err(SinkError::OtherStore {
            found: header.store,
            store: store_id.to_owned(),
        });
    }
    let mut cursors = BTreeMap::new();
    for found in header.cursors.iter().map(CursorLine::cursor) {
        let cursor = found.ok_or_else(damaged)?;
        cursors.insert(cursor.partition, cursor);
    }
    let (mut size, mut is_whole, mut is_cut_off) = (end, true, false);
    loop {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text).map_err(fault)? as u64;
        if bytes == 0 {
            break;
        }
        size += bytes;
        is_whole &= text.starts_with(b"{") && text.ends_with(b"}\n") && !text.contains(&0);
        if !text.starts_with(b"{\"cursor\":") {
            continue;
        }
        let found: Option<CursorLine> = serde_json::from_slice(&text).ok();
        let found = found.as_ref().and_then(CursorLine::cursor);
        match found.filter(|_| is_whole) {
            Some(_) if is_cut_off => return Err(damaged()),
            Some(cursor) => {
                cursors.insert(cursor.partition, cursor);
                end = size;
            }
            None => is_cut_off = true,
        }
        is_whole = true;
    }
    if end < size {
        let file_name = name.display();
        let bytes = size - end;
        warn!(
            bytes,
            "removing a batch from {file_name} that was cut off: it is settled again"
        );
        file.set_len(end).map_err(fault)?;
    }
    // What was written before the process was killed need not be on disk yet.
    file.sync_all().map_err(fault)?;
    Ok((file, end, cursors))
}

/// Reads the salts, and syncs them: pseudonyms are derived from them from now on. A line that was
/// cut off belongs to a batch that was not written.
fn read_salts(path: &Path) -> Result<HashMap<(u32, String), Salt>, SinkError> {
    let name = path.join(SALTS);
    let fault = |cause| SinkError::directory(path, cause);
    let text = match fs::read(&name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        Err(error) => return Err(fault(error)),
    };
    let whole = text
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let file = OpenOptions::new().write(true).open(&name).map_err(fault)?;
    if whole < text.len() {
        file.set_len(whole as u64).map_err(fault)?;
    }
    // What was written before the process was killed need not be on disk yet.
    file.sync_all().map_err(fault)?;
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(fault)?;
    let mut salts = HashMap::new();
    for line in text[..whole].split(|byte| *byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        let found: Option<SaltLine> = serde_json::from_slice(line).ok();
        let found = found.and_then(|line| Some((line.salt()?, line)));
        let (salt, line) = found.ok_or_else(|| SinkError::DirectoryDamaged(name.clone()))?;
        salts.entry((line.partition, line.campaign)).or_insert(salt);
    }
    Ok(salts)
}

/// Appends to a file, which is made if it does not exist, and syncs it.
fn append(file: &Path, text: &[u8]) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let is_new = !file.exists();
    let mut open = OpenOptions::new().create(true).append(true).open(file)?;
    open.write_all(text)?;
    open.sync_data()?;
    match file.parent().filter(|_| is_new) {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Moment, store::SettledUpTo};

    fn cursor(sequence: u64) -> Cursor {
        Cursor {
            partition: 0,
            up_to: SettledUpTo {
                fork: String::new(),
                sequence,
            },
            at: Moment::EPOCH,
            format: 1,
            digest: vec![7; 32],
            chain: None,
        }
    }

    /// A batch of one entry.
    fn batch(sequence: u64) -> Vec<u8> {
        let mut lines = format!("{{\"partition\":0,\"sequence\":{sequence}}}\n").into_bytes();
        lines.extend(line(&CursorLine::of(&cursor(sequence), None)));
        lines
    }

    /// The same with zeros instead of its entry, but with its cursor.
    fn with_a_hole(sequence: u64) -> Vec<u8> {
        let mut lines = batch(sequence);
        let entry = lines.iter().position(|byte| *byte == b'\n').unwrap();
        lines[2..entry - 1].fill(0);
        lines
    }

    /// The last entry that counts once a file with these batches is opened again.
    fn reopened(batches: &[Vec<u8>]) -> Result<u64, SinkError> {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, size) = begin(directory.path(), 1, "store", &BTreeMap::new()).unwrap();
        file.write_all(&batches.concat()).unwrap();
        let (file, end, cursors) = reopen(directory.path(), 1, "store")?;
        let last = cursors.get(&0).map_or(0, |cursor| cursor.up_to.sequence);
        assert_eq!(file.metadata().unwrap().len(), end);
        assert_eq!(end == size, last == 0, "what does not count is removed");
        Ok(last)
    }

    #[test]
    fn a_batch_counts_only_if_all_its_lines_were_written() {
        assert_eq!(reopened(&[batch(1), batch(2)]).unwrap(), 2);
        assert_eq!(reopened(&[batch(1), with_a_hole(2)]).unwrap(), 1);
        assert_eq!(reopened(&[with_a_hole(1)]).unwrap(), 0);
        let mut cut_off = batch(2);
        cut_off.pop();
        assert_eq!(reopened(&[batch(1), cut_off]).unwrap(), 1);
    }

    #[test]
    fn a_batch_before_others_was_whole_once_so_a_hole_in_it_is_damage() {
        let damaged = reopened(&[batch(1), with_a_hole(2), batch(3)]);
        assert!(matches!(damaged, Err(SinkError::DirectoryDamaged(_))));
    }
}
