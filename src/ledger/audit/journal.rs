//! Notes for later, read again in parts: so many that memory may not hold them all.

use std::{
    io::{self, BufRead as _, BufReader, BufWriter, Read, Seek as _, SeekFrom},
    marker::PhantomData,
};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::SpooledTempFile;

/// Parts that are read one after the other.
const PARTS: usize = 128;
/// Bytes of a part that stay in memory. What is more goes to a file in the system's directory for
/// temporary files, which has no name and is gone with the process.
const PART_BYTES_MAX: usize = 128 << 10;
/// The most bytes of a note.
const NOTE_BYTES_MAX: usize = 256;

/// Notes, each under a key. Those of a key are in the same part, in the order in which they came.
#[derive(Debug)]
pub(super) struct Journal<T> {
    parts: Vec<BufWriter<SpooledTempFile>>,
    failed: Option<io::Error>,
    notes: PhantomData<fn(T) -> T>,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        let file = |_| BufWriter::new(SpooledTempFile::new(PART_BYTES_MAX));
        Self {
            parts: (0..PARTS).map(file).collect(),
            failed: None,
            notes: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Adds a note. Keys are digests, so that all parts become about as long. After an error
    /// nothing more is kept, and [`Self::check`] says it.
    pub(super) fn add(&mut self, key: u64, note: &T) {
        let part = &mut self.parts[(key % PARTS as u64) as usize];
        if self.failed.is_none()
            && let Err(error) = postcard::to_io(note, part)
        {
            self.failed = Some(io::Error::other(error));
        }
    }

    /// Whether all notes were kept.
    ///
    /// # Errors
    /// A file could not be written: the disk may be full.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// All parts.
    ///
    /// # Errors
    /// A file could not be written.
    pub(super) fn into_parts(mut self) -> io::Result<impl Iterator<Item = io::Result<Part<T>>>> {
        self.check()?;
        Ok(self.parts.into_iter().map(Part::open))
    }
}

/// A part that is read.
#[derive(Debug)]
pub(super) struct Part<T> {
    file: BufReader<SpooledTempFile>,
    notes: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Part<T> {
    fn open(written: BufWriter<SpooledTempFile>) -> io::Result<Self> {
        let mut file = written.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self {
            file: BufReader::new(file),
            notes: PhantomData,
        })
    }
}

impl<T: DeserializeOwned> Iterator for Part<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<io::Result<T>> {
        match self.file.fill_buf() {
            Ok([]) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let mut scratch = [0; NOTE_BYTES_MAX];
        let file: &mut dyn Read = &mut self.file;
        let read = postcard::from_io((file, &mut scratch)).map(|(note, _)| note);
        Some(read.map_err(io::Error::other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_a_key_come_back_in_order_whether_or_not_memory_holds_them() {
        for notes in [10, 30_000] {
            let mut journal = Journal::<(u64, u64)>::default();
            for number in 0..notes {
                for key in 0..3 {
                    journal.add(key, &(key, u64::MAX - number));
                }
            }
            let mut found = Vec::new();
            for part in journal.into_parts().unwrap() {
                let notes: Vec<_> = part.unwrap().map(Result::unwrap).collect();
                found.extend(notes);
            }
            let of = |key| (0..notes).map(move |number| (key, u64::MAX - number));
            assert!(found.into_iter().eq((0..3).flat_map(of)));
        }
    }
}
