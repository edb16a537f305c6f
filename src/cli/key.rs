//! The master key of the embedded store: a file of 64 hexadecimal digits beside the data, readable by its owner only.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use thiserror::Error;
use tracing::{info, warn};

use crate::chance::MasterKey;

/// Why there is no master key. Nothing was changed.
#[derive(Debug, Error)]
pub(super) enum KeyError {
    /// There is data, but its key is gone.
    #[error(
        "the master key {0} is missing, and the data beside it was made with it: put the file back from your backup \
         (a new key could neither go on with those campaigns nor reveal their seeds)"
    )]
    Lost(String),
    /// The file is not a key.
    #[error("{0} is not a master key: it must hold 64 hexadecimal digits; put the right file back")]
    Malformed(String),
    /// The file cannot be read or made.
    #[error("the master key {file} cannot be read or made: {cause}")]
    Io {
        /// Which file.
        file: String,
        /// Why.
        cause: io::Error,
    },
}

/// The key's file beside the data.
const KEY_FILE: &str = "master.key";

/// Whether a directory holds a key.
pub(super) fn exists(directory: &Path) -> bool {
    directory.join(KEY_FILE).exists()
}

/// Reads the key in a directory; makes one where there is no data yet.
pub(super) fn load(directory: &Path, has_data: bool) -> Result<MasterKey, KeyError> {
    let file = directory.join(KEY_FILE);
    let name = file.display().to_string();
    let fault = |cause| KeyError::Io {
        file: name.clone(),
        cause,
    };
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            warn_if_open(&file).map_err(fault)?;
            parse(&text).ok_or(KeyError::Malformed(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_data => {
            Err(KeyError::Lost(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let bytes: [u8; 32] = rand::random();
            make(directory, &file, &bytes).map_err(fault)?;
            info!(
                file = name,
                "made the master key {name}: back it up, seeds cannot be told without it"
            );
            Ok(MasterKey::from_bytes(bytes))
        }
        Err(cause) if cause.kind() == io::ErrorKind::InvalidData => Err(KeyError::Malformed(name)),
        Err(cause) => Err(fault(cause)),
    }
}

fn parse(text: &str) -> Option<MasterKey> {
    let digits = text.trim();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, place) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(place..place + 2)?, 16).ok()?;
    }
    Some(MasterKey::from_bytes(bytes))
}

/// Writes the key under another name first, so that a crash leaves a whole key or none.
fn make(directory: &Path, file: &Path, bytes: &[u8; 32]) -> io::Result<()> {
    let unfinished = directory.join("master.key.new");
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut out = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    for byte in bytes {
        write!(out, "{byte:02x}")?;
    }
    writeln!(out)?;
    out.sync_all()?;
    std::fs::rename(&unfinished, file)?;
    File::open(directory)?.sync_all()
}

fn warn_if_open(file: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & 0o077 != 0 {
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
        let made = load(directory.path(), false).unwrap();
        let file = directory.path().join("master.key");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = load(directory.path(), true).unwrap();
        assert_eq!(made.fingerprint(), read.fingerprint());

        std::fs::remove_file(&file).unwrap();
        let lost = load(directory.path(), true).unwrap_err();
        assert!(matches!(lost, KeyError::Lost(_)), "{lost}");
        std::fs::write(&file, "not a key").unwrap();
        let malformed = load(directory.path(), true).unwrap_err();
        assert!(matches!(malformed, KeyError::Malformed(_)), "{malformed}");
    }
}
