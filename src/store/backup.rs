//! A copy of everything that a store has.

use std::path::Path;

use tempfile::TempPath;

use crate::model::Moment;

/// A copy as of one moment, in a file that is removed with this value.
#[derive(Debug)]
pub struct Backup {
    pub(super) file: TempPath,
    /// The size of the file.
    pub bytes: u64,
    /// The number of the last entry of the ledger in it; 0 if there is none.
    pub head: u64,
    /// When that entry was written.
    pub at: Moment,
}

impl Backup {
    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.file
    }
}
