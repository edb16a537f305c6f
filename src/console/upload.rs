//! Forms that may have a file: read as a whole, and bounded.

use std::{collections::HashMap, convert::Infallible};

use axum::{
    extract::{FromRequest, Multipart, Request},
    http::StatusCode,
};
use tokio::sync::Semaphore;

/// The largest form with a file, in bytes.
pub(super) const UPLOAD_BYTES_MAX: usize = 4 << 20;
/// Forms with files that are read at once; others wait.
static UPLOADS: Semaphore = Semaphore::const_new(8);

/// A form with a file, or why it cannot be read.
pub(super) struct Upload(pub(super) Result<Given, Unreadable>);

/// What a form has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    fields: HashMap<String, String>,
}

/// Why a form cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It has more than [`UPLOAD_BYTES_MAX`].
    TooLarge,
    /// A file is not UTF-8 text.
    NoText,
    /// It is no form, or it broke off.
    Broken,
}

impl Given {
    /// A field; empty if it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = Infallible;

    async fn from_request(request: Request, state: &S) -> Result<Self, Infallible> {
        let Ok(form) = Multipart::from_request(request, state).await else {
            return Ok(Self(Err(Unreadable::Broken)));
        };
        let Ok(_turn) = UPLOADS.acquire().await else {
            return Ok(Self(Err(Unreadable::Broken)));
        };
        Ok(Self(read(form).await))
    }
}

async fn read(mut form: Multipart) -> Result<Given, Unreadable> {
    let mut given = Given::default();
    let why = |error: axum::extract::multipart::MultipartError| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Unreadable::TooLarge,
        _ => Unreadable::Broken,
    };
    while let Some(field) = form.next_field().await.map_err(why)? {
        let name = field.name().unwrap_or_default().to_owned();
        let bytes = field.bytes().await.map_err(why)?;
        let text = String::from_utf8(bytes.into()).map_err(|_| Unreadable::NoText)?;
        given.fields.insert(name, text);
    }
    Ok(given)
}

/// The lines of a text, each with its number from 1. Ends are LF or CR LF; a byte order mark and
/// empty lines are left out.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = (1..).zip(text.lines());
    lines.filter(|(_, line)| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers() {
        let text = "\u{feff}A\r\n\r\n B\n礼\n\n";
        let all: Vec<_> = lines(text).collect();
        assert_eq!(all, [(1, "A"), (3, " B"), (4, "礼")]);
        assert_eq!(lines("").count(), 0);
    }
}
