//! A directory of files as Kubernetes mounts a Secret: each file is a link into a directory that is
//! itself a link, and all change at once.

use std::{
    cell::Cell,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A mounted Secret.
pub struct Mount {
    directory: TempDir,
    version: Cell<usize>,
}

impl Mount {
    /// Mounts these files, by their names.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mount = Self {
            directory: tempfile::tempdir().unwrap(),
            version: Cell::new(0),
        };
        mount.put(files);
        for (name, _) in files {
            symlink(format!("..data/{name}"), mount.file(name)).unwrap();
        }
        mount
    }

    /// The path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Changes all files at once.
    pub fn put(&self, files: &[(&str, &str)]) {
        let version = self.version.replace(self.version.get() + 1);
        let name = format!("..version-{version}");
        let directory = self.path().join(&name);
        fs::create_dir(&directory).unwrap();
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        let new = self.path().join("..new");
        symlink(name, &new).unwrap();
        fs::rename(new, self.path().join("..data")).unwrap();
    }
}
