//! Where PostgreSQL is, as one URL. A password is never shown.

use std::{
    fmt,
    path::PathBuf,
    str::FromStr as _,
    sync::{Arc, OnceLock},
};

use thiserror::Error;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::{
    password::{self, PasswordError},
    tls::{ClientMaterial, ClientTls, Names, TlsError, Watched},
};

/// What a URL can look like, for whoever wrote another one.
const FORM: &str = "postgres://[user[:password]@]host[:port]/database, followed by \
     ?sslmode=disable, prefer or require (the default is prefer; a certificate is always checked, \
     so verify-full is the same as require), sslrootcert=FILE if a CA of your own signed the \
     certificate, and sslcert=FILE&sslkey=FILE if the server asks for one";
const PORT: u16 = 5432;

/// The parameters of the URL that name files.
const NAMES: Names = Names {
    ca: "sslrootcert=",
    cert: "sslcert=",
    key: "sslkey=",
    purpose: "postgres",
    expiries: ["postgres_ca", "postgres_client"],
};

/// A URL that does not say where PostgreSQL is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the PostgreSQL URL {0}; write {FORM}")]
pub struct UrlError(&'static str);

/// Where PostgreSQL is, and how to log in.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    files: ClientTls,
    /// What the files contain, from the first connection on; shared by all copies of the URL.
    watched: Arc<OnceLock<Arc<Watched<ClientMaterial>>>>,
    password_file: Option<PathBuf>,
}

impl PostgresUrl {
    /// Reads a URL.
    ///
    /// ```
    /// use tombola::ledger::PostgresUrl;
    /// let url = PostgresUrl::parse("postgres://settler:secret@db.example/ledger").unwrap();
    /// assert_eq!(url.to_string(), "postgres://settler:***@db.example:5432/ledger");
    /// ```
    ///
    /// # Errors
    /// What is wrong with it and what to write instead, without the password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(UrlError("does not start with postgres://"));
        }
        let Taken { text, files } = take_files(text)?;
        // The driver's message may quote a part of the password.
        let config = Config::from_str(&text).map_err(|_| {
            UrlError(
                "cannot be read: it has an unknown parameter or a wrong value, or a character of \
                 the password that must be written as %XX",
            )
        })?;
        if config.get_hosts().is_empty() {
            return Err(UrlError("has no host"));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(UrlError("names no database"));
        }
        if files != ClientTls::default() && config.get_ssl_mode() == SslMode::Disable {
            return Err(UrlError("names files of TLS with sslmode=disable"));
        }
        Ok(Self {
            config,
            files,
            watched: Arc::default(),
            password_file: None,
        })
    }

    /// The same with the password in a file, which is read for each connection.
    #[must_use]
    pub fn with_password_file(self, file: Option<PathBuf>) -> Self {
        Self {
            password_file: file,
            ..self
        }
    }

    /// Whether the URL itself has a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// What the driver connects with.
    pub(super) fn config(&self) -> Result<Config, PasswordError> {
        let mut config = self.config.clone();
        if let Some(file) = &self.password_file {
            config.password(password::read(file)?);
        }
        Ok(config)
    }

    /// The contents of the files of TLS. They are read at the first connection, and again when
    /// they change.
    pub(super) fn tls(&self) -> Result<Arc<ClientMaterial>, TlsError> {
        if self.files == ClientTls::default() {
            return self.files.read(NAMES).map(Arc::new);
        }
        if let Some(watched) = self.watched.get() {
            return Ok(watched.value());
        }
        let opened = self.files.clone().watch(NAMES)?;
        Ok(self.watched.get_or_init(|| opened).value())
    }
}

/// A URL without the parameters that the driver does not know.
struct Taken {
    text: String,
    files: ClientTls,
}

/// Takes the files of TLS out of the parameters. Whoever names them wants TLS, so it is required
/// unless the URL says otherwise.
fn take_files(text: &str) -> Result<Taken, UrlError> {
    let Some((head, query)) = text.rsplit_once('?') else {
        return Ok(Taken {
            text: text.to_owned(),
            files: ClientTls::default(),
        });
    };
    let (mut kept, mut ca, mut cert, mut key) = (Vec::new(), None, None, None);
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslrootcert" | "sslcert" | "sslkey", "")) => {
                return Err(UrlError("has an empty sslrootcert, sslcert or sslkey"));
            }
            Some(("sslrootcert", file)) => ca = Some(PathBuf::from(file)),
            Some(("sslcert", file)) => cert = Some(PathBuf::from(file)),
            Some(("sslkey", file)) => key = Some(PathBuf::from(file)),
            Some(("sslmode", "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(parameter),
        }
    }
    if cert.is_some() != key.is_some() {
        return Err(UrlError(
            "has one of sslcert and sslkey: a certificate needs its key",
        ));
    }
    let pair = cert.zip(key);
    let has_mode = kept
        .iter()
        .any(|parameter| parameter.starts_with("sslmode="));
    if (ca.is_some() || pair.is_some()) && !has_mode {
        kept.push("sslmode=require");
    }
    let text = match kept.is_empty() {
        true => head.to_owned(),
        false => format!("{head}?{}", kept.join("&")),
    };
    Ok(Taken {
        text,
        files: ClientTls { ca, pair },
    })
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
        f.write_str("postgres://")?;
        let has_password = self.has_password() || self.password_file.is_some();
        if let Some(user) = config.get_user() {
            let password = if has_password { ":***" } else { "" };
            write!(f, "{user}{password}@")?;
        }
        let ports = config.get_ports();
        for (index, host) in config.get_hosts().iter().enumerate() {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
            let comma = if index == 0 { "" } else { "," };
            match host {
                Host::Tcp(host) => write!(f, "{comma}{host}:{port}")?,
                #[cfg(unix)]
                Host::Unix(path) => write!(f, "{comma}{}:{port}", path.display())?,
            }
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://h/db", "postgres://h:5432/db"),
            ("postgresql://h:7000/db", "postgres://h:7000/db"),
            ("postgres://u@h/db", "postgres://u@h:5432/db"),
            ("postgres://u:secret@h/db", "postgres://u:***@h:5432/db"),
            ("postgres://u:se?cr=&et@h/db", "postgres://u:***@h:5432/db"),
            (
                "postgres://u:se%40cret@a:1,b:2/db?sslmode=require",
                "postgres://u:***@a:1,b:2/db",
            ),
            (
                "postgres://u:secret@h/db?sslrootcert=/etc/ca.pem&sslmode=require",
                "postgres://u:***@h:5432/db",
            ),
        ] {
            let url = PostgresUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("PostgresUrl({shown})"));
        }
    }

    #[test]
    fn files_are_taken_out_of_the_parameters_and_mean_tls() {
        let read = |parameters| PostgresUrl::parse(&format!("postgres://h/db?{parameters}"));
        let url = read("sslrootcert=/ca.pem&sslcert=/a.crt&sslkey=/a.key").unwrap();
        assert_eq!(url.files.ca, Some("/ca.pem".into()));
        assert_eq!(url.files.pair, Some(("/a.crt".into(), "/a.key".into())));
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
        let url = read("sslmode=prefer&sslrootcert=/ca.pem").unwrap();
        assert_eq!(url.config.get_ssl_mode(), SslMode::Prefer);
        let url = read("sslmode=verify-full").unwrap();
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn an_error_says_what_to_write_and_nothing_of_the_password() {
        for (text, problem) in [
            ("h/db", "does not start with"),
            ("redis://u:secret@h", "does not start with"),
            ("postgres:///db", "has no host"),
            ("postgres://u:secret@h", "names no database"),
            (
                "postgres://u:secret@h/db?sslmode=verify-ca",
                "cannot be read",
            ),
            ("postgres://u:secret@h/db?sslcert=/a.crt", "needs its key"),
            (
                "postgres://u:secret@h/db?sslrootcert=",
                "an empty sslrootcert",
            ),
            (
                "postgres://u:secret@h/db?sslmode=disable&sslrootcert=/ca",
                "sslmode=disable",
            ),
        ] {
            let error = PostgresUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("postgres://[user"), "{error}");
            assert!(!error.contains("secr"), "{text}: {error}");
        }
    }

    #[test]
    fn the_password_of_its_file_is_used_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = PostgresUrl::parse("postgres://u@h/db").unwrap();
        assert!(!url.has_password());
        let url = url.with_password_file(Some(file.path().into()));
        assert!(url.config().is_err());
        for password in ["secret", "another"] {
            std::fs::write(file.path(), password).unwrap();
            let config = url.config().unwrap();
            assert_eq!(config.get_password(), Some(password.as_bytes()));
        }
        assert_eq!(url.to_string(), "postgres://u:***@h:5432/db");
    }
}
