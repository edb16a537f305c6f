//! The ledger as files of JSON lines in a directory, for those who load it elsewhere. It answers no
//! queries. `docs/ledger.md` describes the lines.
//!
//! A batch is appended to the newest file, its last line is the partition's cursor, and the cursor
//! counts once the file is synced. A batch that was cut off has no such line, and is removed when
//! the directory is opened again. A lock file keeps a second writer out.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

mod files;
mod lines;

use self::files::Files;
use super::{Batch, Cursor, Sink, SinkError};
use crate::{chance::Salt, ledger::contradiction::Contradiction};

/// A directory and how large its files may become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryTarget {
    /// The directory; made if it does not exist.
    pub path: PathBuf,
    /// From this size on, a new file is begun.
    pub file_bytes_max: u64,
}

/// An open directory, which nobody else writes to.
pub struct DirectorySink {
    files: Arc<Mutex<Files>>,
}

impl DirectorySink {
    /// Opens a directory for this store's ledger, and removes what was cut off.
    ///
    /// # Errors
    /// It cannot be used, another process writes to it, or it has another store's ledger.
    pub async fn open(target: &DirectoryTarget, store_id: &str) -> Result<Self, SinkError> {
        let (target, store_id) = (target.clone(), store_id.to_owned());
        let opened = tokio::task::spawn_blocking(move || Files::open(&target, &store_id));
        let files = opened.await.map_err(|_| stopped(Path::new("")))??;
        Ok(Self {
            files: Arc::new(Mutex::new(files)),
        })
    }

    /// Works with the files on a thread that may wait for the disk.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Files) -> Result<T, SinkError> + Send + 'static,
    ) -> Result<T, SinkError> {
        let files = Arc::clone(&self.files);
        let worked = tokio::task::spawn_blocking(move || {
            work(&mut files.lock().unwrap_or_else(PoisonError::into_inner))
        });
        worked.await.map_err(|_| stopped(Path::new("")))?
    }
}

/// The error of work whose thread has ended.
fn stopped(path: &Path) -> SinkError {
    SinkError::directory(path, std::io::Error::other("its thread has ended"))
}

#[async_trait]
impl Sink for DirectorySink {
    /// The lock file keeps others out.
    async fn is_leader(&mut self) -> Result<bool, SinkError> {
        Ok(true)
    }

    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError> {
        self.with(|files| Ok(files.cursors().clone())).await
    }

    async fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Arc<Batch>,
    ) -> Result<Option<Cursor>, SinkError> {
        let (before, batch) = (before.cloned(), Arc::clone(batch));
        self.with(move |files| files.write(before.as_ref(), &batch))
            .await
    }

    async fn salt(&mut self, partition: u32, campaign: &str) -> Result<Option<Salt>, SinkError> {
        let campaign = campaign.to_owned();
        self.with(move |files| Ok(files.salt(partition, &campaign)))
            .await
    }

    async fn quarantine(&mut self, contradiction: &Contradiction) -> Result<(), SinkError> {
        let line = lines::quarantine(contradiction);
        self.with(move |files| files.note(&line)).await
    }

    async fn end_quarantine(&mut self, partition: u32) -> Result<(), SinkError> {
        self.with(move |files| files.end_quarantine(partition))
            .await
    }
}
