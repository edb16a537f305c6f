//! Passwords in files. A file is read for each connection, so a new password needs no restart.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// A file of a password cannot be used.
#[derive(Debug, Error)]
pub enum PasswordError {
    /// It cannot be read.
    #[error("the password file {} cannot be read: {cause}", .file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It has no password.
    #[error("the password file {} is empty: write the password into its first line", .0.display())]
    Empty(PathBuf),
}

/// The password that is the first line of a file.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub(crate) fn read(file: &Path) -> Result<String, PasswordError> {
    let text = std::fs::read_to_string(file).map_err(|cause| PasswordError::Unreadable {
        file: file.into(),
        cause,
    })?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(PasswordError::Empty(file.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_first_line_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(read(file.path()), Err(PasswordError::Empty(_))));
        for text in ["secret\n", "secret", "secret\r\nnot this\n"] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(read(file.path()).unwrap(), "secret");
        }
        std::fs::write(file.path(), "\nsecret").unwrap();
        assert!(matches!(read(file.path()), Err(PasswordError::Empty(_))));
        let path = file.path().to_owned();
        drop(file);
        let error = read(&path).unwrap_err();
        assert!(matches!(error, PasswordError::Unreadable { .. }));
    }
}
