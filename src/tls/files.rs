//! Files of TLS that are read again and again.
//!
//! Contents are compared, since Kubernetes changes files by a symbolic link, so that neither times
//! nor names of files say anything. New contents are used once two reads in a row have found them:
//! a change that is under way is not taken for a broken one. Contents that cannot be used change
//! nothing; the log and the metrics say so.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::{sync::watch, time::sleep};
use tracing::{error, info};

use super::pem;
use crate::metrics::FilesInUse;

/// How often the files are read.
const POLL_PAUSE: Duration = Duration::from_secs(2);

/// How lists of revoked certificates are named among what expires.
pub(super) const REVOKED: &str = "client_crl";

/// A file, and what named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// The option, or the parameter of a URL, for messages.
    pub(crate) option: &'static str,
    /// Where it is.
    pub(crate) path: PathBuf,
}

impl File {
    /// Reads it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, TlsError> {
        fs::read(&self.path).map_err(|error| {
            self.problem(format!(
                "cannot be read: {error}; name a file that this user may read"
            ))
        })
    }

    /// The error of this file.
    pub(crate) fn problem(&self, problem: impl Into<String>) -> TlsError {
        TlsError {
            option: self.option,
            file: self.path.clone(),
            problem: problem.into(),
        }
    }
}

/// A file of TLS cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{option} {}: the file {problem}", .file.display())]
pub struct TlsError {
    /// The option that named it.
    pub option: &'static str,
    /// The file.
    pub file: PathBuf,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// What is made of the contents of files.
pub(crate) struct Loaded<T> {
    pub(crate) value: T,
    /// What expires, and when, in Unix time.
    pub(crate) expiries: Expiries,
}

/// The contents of files in their order.
pub(crate) type Contents = Vec<Vec<u8>>;

/// Makes a value of the contents of the files. The second argument says which of them have not
/// changed since they came into use.
type Load<T> = dyn Fn(&[Vec<u8>], &[bool]) -> Result<Loaded<T>, TlsError> + Send + Sync;

/// A value that is made of files, and made anew when they change.
pub(crate) struct Watched<T> {
    /// What the files are for, for the log and the metrics.
    purpose: &'static str,
    files: Vec<File>,
    load: Box<Load<T>>,
    value: RwLock<Arc<T>>,
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
    /// What the metrics say of them.
    measured: FilesInUse,
}

/// Digests of what was read. The contents themselves are not kept: a key is among them.
struct Seen {
    used: Digests,
    /// What the last read found; none if it failed.
    last: Option<Digests>,
    /// Why the files cannot be used, as the log has said.
    reported: Option<TlsError>,
    /// What in use has not expired yet, as far as the log has said.
    unexpired: Expiries,
}

impl Seen {
    /// Says once what has expired.
    fn note_expired(&mut self, now_s: i64) {
        for (certificate, expiry_s) in self.unexpired.extract_if(.., |(_, at)| *at < now_s) {
            let at = pem::moment(expiry_s);
            if certificate == REVOKED {
                error!(
                    certificate,
                    "a list of revoked certificates was to be replaced by {at}: it stays in \
                     force, and what was revoked since is not known"
                );
            } else {
                error!(
                    certificate,
                    "`{certificate}` expired at {at}, and handshakes with it fail: put new files \
                     in place, which needs no restart"
                );
            }
        }
    }
}

/// What expires, and when, in Unix time.
type Expiries = Vec<(&'static str, i64)>;

type Digests = Vec<[u8; 32]>;

impl<T: Send + Sync + 'static> Watched<T> {
    /// Reads the files, and goes on reading them until the value is dropped. It is called within a
    /// runtime.
    pub(crate) fn open(
        purpose: &'static str,
        files: Vec<File>,
        load: impl Fn(&[Vec<u8>], &[bool]) -> Result<Loaded<T>, TlsError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, TlsError> {
        let contents = read(&files)?;
        let loaded = load(&contents, &vec![false; contents.len()])?;
        let used = digests(&contents);
        let watched = Arc::new(Self {
            purpose,
            files,
            load: Box::new(load),
            value: RwLock::new(Arc::new(loaded.value)),
            measured: FilesInUse::new(purpose, &loaded.expiries),
            seen: Mutex::new(Seen {
                last: Some(used.clone()),
                used,
                reported: None,
                unexpired: loaded.expiries,
            }),
            changed: watch::Sender::new(()),
        });
        tokio::spawn(poll(Arc::downgrade(&watched)));
        Ok(watched)
    }

    /// What is in use.
    pub(crate) fn value(&self) -> Arc<T> {
        Arc::clone(&self.value.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notices changes of the value.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Reads the files, and uses what has changed.
    fn look(&self) {
        let read = read(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note_expired(pem::now_s());
        let found = read.as_ref().ok().map(|contents| digests(contents));
        if found.as_ref() == Some(&seen.used) {
            seen.last = found;
            if seen.reported.take().is_some() {
                self.measured.are_stuck(false);
                info!(
                    purpose = self.purpose,
                    "the files of TLS are those in use again"
                );
            }
            return;
        }
        let is_settled = seen.last == found;
        seen.last.clone_from(&found);
        if !is_settled {
            return;
        }
        let kept = kept(found.as_deref().unwrap_or_default(), &seen.used);
        match read.and_then(|contents| (self.load)(&contents, &kept)) {
            Ok(loaded) => {
                seen.used = found.unwrap_or_default();
                seen.reported = None;
                *self.value.write().unwrap_or_else(PoisonError::into_inner) =
                    Arc::new(loaded.value);
                self.measured.are_replaced(&loaded.expiries);
                seen.unexpired = loaded.expiries;
                self.changed.send_replace(());
                info!(purpose = self.purpose, "new files of TLS are in use");
            }
            Err(error) if seen.reported.as_ref() == Some(&error) => {}
            Err(error) => {
                self.measured.are_stuck(true);
                error!(
                    purpose = self.purpose,
                    "new files of TLS cannot be used, and the earlier ones stay in use: {error}"
                );
                seen.reported = Some(error);
            }
        }
    }
}

/// Reads the files again and again, while the value is in use.
async fn poll<T: Send + Sync + 'static>(watched: std::sync::Weak<Watched<T>>) {
    loop {
        sleep(POLL_PAUSE).await;
        let Some(watched) = watched.upgrade() else {
            return;
        };
        let looked = tokio::task::spawn_blocking(move || watched.look());
        if looked.await.is_err() {
            return; // the runtime ends
        }
    }
}

fn read(files: &[File]) -> Result<Contents, TlsError> {
    files.iter().map(File::read).collect()
}

fn digests(contents: &[Vec<u8>]) -> Digests {
    let digest = |content: &Vec<u8>| Sha256::digest(content).into();
    contents.iter().map(digest).collect()
}

/// Which of these contents are those in use.
fn kept(found: &[[u8; 32]], used: &[[u8; 32]]) -> Vec<bool> {
    let pairs = found.iter().zip(used);
    pairs.map(|(found, used)| found == used).collect()
}

impl<T> std::fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watched").field(&self.purpose).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn new_contents_are_used_after_two_reads_and_told_from_those_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let files = ["same", "new"].map(|name| File {
            option: "--files",
            path: directory.path().join(name),
        });
        for file in &files {
            fs::write(&file.path, "1").unwrap();
        }
        let watched = Watched::open("kept files", files.to_vec(), |contents, kept| {
            Ok(Loaded {
                value: (contents.concat(), kept.to_vec()),
                expiries: Vec::new(),
            })
        });
        let watched = watched.unwrap();
        assert_eq!(*watched.value(), (b"11".to_vec(), vec![false, false]));
        fs::write(&files[1].path, "2").unwrap();
        watched.look();
        assert_eq!(watched.value().0, b"11");
        watched.look();
        assert_eq!(*watched.value(), (b"12".to_vec(), vec![true, false]));
    }
}
