//! The master key: a file with 64 hexadecimal digits, readable only by its owner. All services of a
//! store use the same key. `tombola key generate` makes one.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::json;
use thiserror::Error;
use tracing::{info, warn};

use super::{
    client::{Client, Outcome},
    failure::Failure,
    output::say,
};
use crate::chance::{MasterKey, hex, unhex};

#[derive(Subcommand, Clone, Debug)]
pub(super) enum KeyCommand {
    /// Make a new master key in a file
    Generate(GenerateArgs),
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tombola key generate tombola-data/master.key")]
pub(super) struct GenerateArgs {
    /// The file to make, readable only by its owner; an existing file is never changed
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Why there is no master key. Nothing was changed.
#[derive(Debug, Error)]
pub(super) enum KeyError {
    /// The data exist, but their key is missing.
    #[error(
        "the master key {0} is missing, and the store's data was made with it: put the file back \
         from your backup, or copy it from another service of the same store (a new key could \
         neither go on with those campaigns nor reveal their seeds)"
    )]
    Lost(String),
    /// There is no key, and this command does not make one.
    #[error(
        "the master key {0} is missing: if the store was made already, put the file back from \
         your backup or copy it from another service of the same store; for a new store make one \
         with `tombola key generate {0}`, then run `tombola init`"
    )]
    Missing(String),
    /// The file for a new key exists already.
    #[error(
        "{0} is there already and is not changed: a store may have been made with it; name \
         another file"
    )]
    Exists(String),
    /// The file does not contain a key.
    #[error("{0} is not a master key: it must hold 64 hexadecimal digits; put the right file back")]
    Malformed(String),
    /// The file cannot be read or made.
    #[error("the master key {file} cannot be read or made: {cause}")]
    Io {
        /// The file.
        file: String,
        /// The cause.
        cause: io::Error,
    },
}

/// The name of the key's file in the data directory.
pub(super) const KEY_FILE: &str = "master.key";

/// The file of the key: the named one, or the one in the data directory.
pub(super) fn file(data: &Path, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| data.join(KEY_FILE), Path::to_owned)
}

/// Runs `tombola key`.
pub(super) fn run(client: &Client, command: KeyCommand) -> Outcome {
    let KeyCommand::Generate(GenerateArgs { file }) = command;
    let key = generate(&file).map_err(|error| Failure::refused("NO_KEY", error.to_string()))?;
    let (name, fingerprint) = (file.display().to_string(), key.fingerprint());
    if client.json {
        say(&format!(
            "{:#}",
            json!({ "file": name, "fingerprint": fingerprint })
        ));
    } else {
        say(&format!(
            "made the master key {name} with the fingerprint {fingerprint}\n\
             Back it up: without it no campaign of its store goes on and no seed can be revealed. \
             Copy it to all services of the store."
        ));
    }
    Ok(())
}

/// Makes a new key in a file that does not exist yet.
fn generate(file: &Path) -> Result<MasterKey, KeyError> {
    let name = file.display().to_string();
    let bytes = rand::random();
    match make(file, &bytes) {
        Ok(()) => Ok(MasterKey::from_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(KeyError::Exists(name)),
        Err(cause) => Err(KeyError::Io { file: name, cause }),
    }
}

/// Reads the key from a file; `None` if there is no file.
fn find(file: &Path) -> Result<Option<MasterKey>, KeyError> {
    let name = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => {
            warn_if_open(file).map_err(|cause| KeyError::Io {
                file: name.clone(),
                cause,
            })?;
            parse(&text).map(Some).ok_or(KeyError::Malformed(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) if cause.kind() == io::ErrorKind::InvalidData => Err(KeyError::Malformed(name)),
        Err(cause) => Err(KeyError::Io { file: name, cause }),
    }
}

/// Reads the key from a file that must exist.
pub(super) fn read(file: &Path) -> Result<MasterKey, KeyError> {
    find(file)?.ok_or_else(|| KeyError::Missing(file.display().to_string()))
}

/// Reads the key from a file; makes one if there is neither a key nor data.
pub(super) fn load(file: &Path, has_data: bool) -> Result<MasterKey, KeyError> {
    if let Some(key) = find(file)? {
        return Ok(key);
    }
    let name = file.display().to_string();
    if has_data {
        return Err(KeyError::Lost(name));
    }
    match generate(file) {
        Ok(key) => {
            info!(
                file = name,
                "made the master key {name}: back it up, seeds cannot be revealed without it"
            );
            Ok(key)
        }
        // Another service that starts at the same time made one first: use its key.
        Err(KeyError::Exists(_)) => read(file),
        Err(error) => Err(error),
    }
}

fn parse(text: &str) -> Option<MasterKey> {
    let bytes = unhex(text.trim())?;
    Some(MasterKey::from_bytes(bytes.try_into().ok()?))
}

/// Writes the key under a temporary name first, so that a crash leaves either a whole key or none.
/// Never overwrites an existing file.
fn make(file: &Path, bytes: &[u8; 32]) -> io::Result<()> {
    let directory = file
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut out = tempfile::Builder::new()
        .prefix("master.key.")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    writeln!(out, "{}", hex(bytes))?;
    out.as_file().sync_all()?;
    out.persist_noclobber(file)?;
    File::open(directory)?.sync_all()
}

/// A group may read it: the files of a Kubernetes Secret belong to root and to the pod's group.
fn warn_if_open(file: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & 0o037 != 0 {
        let name = file.display();
        warn!(file = %name, "the master key {name} can be read by others: run chmod 600 on it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_kept_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(KEY_FILE);
        let made = load(&file, false).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = load(&file, true).unwrap();
        assert_eq!(made.fingerprint(), read.fingerprint());

        std::fs::remove_file(&file).unwrap();
        let lost = load(&file, true).unwrap_err();
        assert!(matches!(lost, KeyError::Lost(_)), "{lost}");
        std::fs::write(&file, "not a key").unwrap();
        let malformed = load(&file, true).unwrap_err();
        assert!(matches!(malformed, KeyError::Malformed(_)), "{malformed}");
    }
}
