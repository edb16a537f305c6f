//! Files that keep a second process out of a directory.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
};

/// A file that nobody else has locked while this value lives.
#[derive(Debug)]
pub(crate) struct LockFile(File);

impl LockFile {
    /// Locks a file, which is made if it is missing. None if somebody else has locked it.
    ///
    /// # Errors
    /// It cannot be made, opened or locked.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }
}

impl Drop for LockFile {
    /// Unlocks the file, since closing it may not be enough. When this process starts another
    /// program, that program has a copy of the open file for a moment, and the copy keeps the lock.
    fn drop(&mut self) {
        drop(self.0.unlock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once_and_free_afterwards_although_a_copy_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = LockFile::take(&path).unwrap().unwrap();
        assert!(LockFile::take(&path).unwrap().is_none());
        let copy = lock.0.try_clone().unwrap();
        drop(lock);
        assert!(LockFile::take(&path).unwrap().is_some());
        drop(copy);
    }
}
