//! The master key: a file of 64 hexadecimal digits, readable by its owner only. All services of one store use the same.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
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
        "the master key {0} is missing, and the store's data was made with it: put the file back from your backup, or copy \
         it from another service of the same store (a new key could neither go on with those campaigns nor reveal their seeds)"
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

/// The key's file in the directory of the data.
pub(super) const KEY_FILE: &str = "master.key";

/// Reads the key in a file; makes one where there is no data yet.
pub(super) fn load(file: &Path, has_data: bool) -> Result<MasterKey, KeyError> {
    let name = file.display().to_string();
    let fault = |cause| KeyError::Io {
        file: name.clone(),
        cause,
    };
    match std::fs::read_to_string(file) {
        Ok(text) => {
            warn_if_open(file).map_err(fault)?;
            parse(&text).ok_or(KeyError::Malformed(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_data => {
            Err(KeyError::Lost(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match make(file, &rand::random()) {
                Ok(()) => info!(
                    file = name,
                    "made the master key {name}: back it up, seeds cannot be told without it"
                ),
                // Another service that begins just now was faster: its key counts.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fault(error)),
            }
            let text = std::fs::read_to_string(file).map_err(fault)?;
            parse(&text).ok_or(KeyError::Malformed(name))
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

/// Writes the key under another name first, so that a crash leaves a whole key or none; never over one that is there.
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
    for byte in bytes {
        write!(out, "{byte:02x}")?;
    }
    writeln!(out)?;
    out.as_file().sync_all()?;
    out.persist_noclobber(file)?;
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
