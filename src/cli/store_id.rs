//! The file in which a service on Redis keeps the id of its store, next to the master key. A Redis
//! that lost its data looks like a new one; the file shows that there was a store.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::store::redis::{Expected, KeyPrefix};

/// The file for one store.
pub(super) struct StoreIdFile(PathBuf);

impl StoreIdFile {
    /// The file in this directory for the store with this prefix.
    pub(super) fn new(directory: &Path, prefix: &KeyPrefix) -> Self {
        Self(directory.join(format!("{}.store-id", prefix.as_str())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The expected store: from the option, else from the file.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(super) fn expected(&self, option: Option<&str>) -> io::Result<Option<Expected>> {
        if let Some(id) = option {
            return Ok(Some(Expected {
                id: id.to_owned(),
                source: "--store-id".into(),
            }));
        }
        match std::fs::read_to_string(&self.0) {
            Ok(text) => Ok(Some(Expected {
                id: text.trim().to_owned(),
                source: self.0.display().to_string(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the id. After a crash the file is either the old one or the new one.
    ///
    /// # Errors
    /// If the directory cannot be written to.
    pub(super) fn keep(&self, id: &str) -> io::Result<()> {
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == id) {
            return Ok(());
        }
        let directory = self.0.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let mut out = tempfile::Builder::new()
            .prefix("store-id.")
            .tempfile_in(directory)?;
        writeln!(out, "{id}")?;
        out.as_file().sync_all()?;
        out.persist(&self.0)?;
        std::fs::File::open(directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_remembered_by_its_prefix_and_an_option_counts_first() {
        let directory = tempfile::tempdir().unwrap();
        let file = |prefix: &str| {
            StoreIdFile::new(
                &directory.path().join("made"),
                &KeyPrefix::parse(prefix).unwrap(),
            )
        };
        assert_eq!(file("a").expected(None).unwrap(), None);
        for id in ["0123", "4567"] {
            file("a").keep(id).unwrap();
            let expected = file("a").expected(None).unwrap().unwrap();
            assert_eq!(expected.id, id);
            assert!(expected.source.ends_with("a.store-id"), "{expected:?}");
        }
        assert_eq!(file("a").expected(Some("89")).unwrap().unwrap().id, "89");
        assert_eq!(file("b").expected(None).unwrap(), None);
    }
}
