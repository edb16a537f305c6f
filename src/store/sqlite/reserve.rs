//! The reserve: a file that takes up room, so that there is some on a full disk. The store needs
//! room to copy its log into the database and to empty it, and cannot even be opened without some.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rand::RngExt as _;
use rustix::{
    fs::{FallocateFlags, fallocate, statvfs},
    io::Errno,
};
use tracing::{info, warn};

/// The file in the store's directory.
const FILE: &str = "reserve";

/// Its size.
const BYTES: u64 = 16 << 20;

/// The disk is full if it has less room than this.
const FREE_BYTES_MIN: u64 = 4 << 20;

/// The reserve is made if the disk has more room than this.
pub(super) const FREE_BYTES_AMPLE: u64 = 4 * BYTES;

/// The reserve of a store.
#[derive(Clone)]
pub(super) struct Reserve {
    directory: PathBuf,
}

impl Reserve {
    /// The reserve in a directory, made or not.
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// Makes the reserve if there is none and the disk has ample room.
    pub(super) fn keep(&self) {
        let file = self.file();
        // A process that was killed meanwhile has left less.
        let is_whole = fs::metadata(&file).is_ok_and(|found| found.len() >= BYTES);
        if is_whole || self.free_bytes().unwrap_or(0) < FREE_BYTES_AMPLE {
            return;
        }
        match fill(&file) {
            Ok(()) => info!("{} MiB of the disk are kept in reserve", BYTES >> 20),
            Err(error) => {
                fs::remove_file(&file).ok(); // half a reserve is none
                warn!(%error, "no room can be kept in reserve for a full disk");
            }
        }
    }

    /// Gives the reserve up if the disk is full. True if that made room.
    pub(super) fn release(&self) -> bool {
        let is_full = self.is_full();
        if is_full && fs::remove_file(self.file()).is_ok() {
            warn!(
                "the disk is full: {} MiB kept in reserve are given up; make room on it",
                BYTES >> 20
            );
            return true;
        }
        false
    }

    /// Whether the disk has hardly any room.
    pub(super) fn is_full(&self) -> bool {
        self.free_bytes().is_ok_and(|bytes| bytes < FREE_BYTES_MIN)
    }

    /// Where the reserve is, if it is made.
    pub(super) fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// The room on the disk.
    pub(super) fn free_bytes(&self) -> io::Result<u64> {
        let disk = statvfs(&self.directory)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// Makes a file that really takes up its size.
fn fill(file: &Path) -> io::Result<()> {
    let mut file = File::create(file)?;
    match fallocate(&file, FallocateFlags::empty(), 0, BYTES) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => write_noise(&mut file)?,
        Err(error) => return Err(error.into()),
    }
    file.sync_all()
}

/// Fills a file with bytes that no file system makes smaller.
fn write_noise(file: &mut File) -> io::Result<()> {
    const CHUNK_BYTES: usize = 1 << 20;
    let mut chunk = vec![0; CHUNK_BYTES];
    for _ in 0..BYTES / CHUNK_BYTES as u64 {
        rand::rng().fill(&mut chunk[..]);
        file.write_all(&chunk)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_up_room_and_is_kept_while_there_is_room_besides() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = Reserve::new(directory.path());
        reserve.keep();
        let file = fs::metadata(reserve.file()).unwrap();
        let taken = std::os::unix::fs::MetadataExt::blocks(&file) * 512;
        assert!(taken >= BYTES, "{taken}");
        assert!(!reserve.release(), "the disk has room");
        assert!(reserve.file().exists());
    }

    #[test]
    fn noise_fills_a_file_where_room_cannot_be_allocated() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("noise");
        write_noise(&mut File::create(&path).unwrap()).unwrap();
        assert_eq!(fs::metadata(path).unwrap().len(), BYTES);
    }
}
