//! The URL of a Redis. A password in it is never shown.

use std::{fmt, path::PathBuf};

use thiserror::Error;

use crate::{
    password::{self, PasswordError},
    tls::ClientTls,
};

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// The forms of a URL, for error messages.
const FORMS: &str = "redis://[user:password@]host[:port][/db] for one server, \
     redis+sentinel://[user:password@]host:port,host:port/master-name[/db] for Sentinel, \
     redis+cluster://[user:password@]host:port,host:port for a cluster; rediss:// instead of \
     redis:// for TLS, with ?ca=FILE if a CA of your own signed the certificate, and \
     &cert=FILE&key=FILE if the server asks for one; \
     ?sentinel=[user]:password if the sentinels ask for one; passwords are better in files";

/// A URL that does not say where Redis is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the Redis URL {0}; write {FORMS}")]
pub struct UrlError(String);

/// The URL of a Redis: its servers, and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(crate) topology: Topology,
    pub(crate) tls: bool,
    /// The authorities that are trusted instead of the system's, and the certificate to present.
    pub(crate) tls_files: ClientTls,
    pub(crate) login: Option<Login>,
    /// The login for the sentinels.
    pub(crate) sentinel_login: Option<Login>,
    pub(crate) db: u16,
}

/// A password, and its user; the default user if none is named.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    password: Password,
}

/// Where a password is.
#[derive(Clone, PartialEq, Eq)]
enum Password {
    InUrl(String),
    InFile(PathBuf),
}

/// The files of passwords that are not in a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordFiles {
    /// The servers' password.
    pub servers: Option<PathBuf>,
    /// The sentinels' password.
    pub sentinels: Option<PathBuf>,
}

impl Login {
    /// The password; one in a file is read now.
    pub(crate) fn password(&self) -> Result<String, PasswordError> {
        match &self.password {
            Password::InUrl(password) => Ok(password.clone()),
            Password::InFile(file) => password::read(file),
        }
    }

    fn is_in_url(&self) -> bool {
        matches!(self.password, Password::InUrl(_))
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.user.as_deref().unwrap_or_default())?;
        match self.password {
            Password::InUrl(_) => f.write_str(":***"),
            Password::InFile(_) => Ok(()),
        }
    }
}

/// How Redis is deployed, and the servers to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One server.
    Single(Address),
    /// Sentinels that know which server is the master.
    Sentinel {
        sentinels: Vec<Address>,
        master: String,
    },
    /// Some nodes of a cluster; they know the others.
    Cluster(Vec<Address>),
}

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl RedisUrl {
    /// Reads a URL.
    ///
    /// ```
    /// use tombola::store::redis::RedisUrl;
    /// let url = RedisUrl::parse("redis://draws:secret@redis.example/2").unwrap();
    /// assert_eq!(url.to_string(), "redis://draws:***@redis.example:6379/2");
    /// ```
    ///
    /// # Errors
    /// What is wrong with it and what to write instead, without the password.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Self::parse_with(text, PasswordFiles::default())
    }

    /// Reads a URL whose passwords may be in files: then it names at most the users.
    ///
    /// ```
    /// use tombola::store::redis::{PasswordFiles, RedisUrl};
    /// let servers = Some("/run/secrets/redis".into());
    /// let files = PasswordFiles { servers, sentinels: None };
    /// let url = RedisUrl::parse_with("redis://draws@redis.example", files).unwrap();
    /// assert_eq!(url.to_string(), "redis://draws@redis.example:6379");
    /// ```
    ///
    /// # Errors
    /// What is wrong with it and what to write instead, without the password.
    pub fn parse_with(text: &str, files: PasswordFiles) -> Result<Self, UrlError> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| wrong("has no redis:// before the host"))?;
        // The last `@`: one in the password does no harm, and nothing before it is ever shown.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let login = login(credentials, files.servers)?;
        if rest.contains('#') {
            return Err(wrong(
                "has a `#`: there is nothing to set after one; a certificate is always checked",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (tls, kind) = match scheme.strip_prefix("rediss") {
            Some(kind) => (true, kind),
            None => (false, scheme.strip_prefix("redis").unwrap_or("?")),
        };
        let (topology, db) = match kind {
            "" => parse_single(hosts, &path)?,
            "+sentinel" => parse_sentinel(hosts, &path)?,
            "+cluster" => parse_cluster(hosts, &path)?,
            _ => return Err(wrong(format!("starts with `{scheme}://`"))),
        };
        let mut url = Self {
            topology,
            tls,
            tls_files: ClientTls::default(),
            login,
            sentinel_login: None,
            db,
        };
        let sentinels = url.read_query(query)?;
        let has_sentinels = matches!(url.topology, Topology::Sentinel { .. });
        if !has_sentinels && files.sentinels.is_some() {
            return Err(wrong(
                "has no sentinels, and there is a file of their password",
            ));
        }
        url.sentinel_login = self::login(sentinels, files.sentinels)?;
        Ok(url)
    }
}

impl RedisUrl {
    /// Reads what follows the `?`: `name=value`, several with `&` between them. The result is the
    /// credentials for the sentinels.
    fn read_query<'a>(&mut self, query: &'a str) -> Result<Option<&'a str>, UrlError> {
        let (mut cert, mut key, mut sentinels) = (None, None, None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name @ ("ca" | "cert" | "key"), file)) if !file.is_empty() => {
                    if !self.tls {
                        return Err(wrong(format!("has ?{name}= without TLS")));
                    }
                    let file = Some(PathBuf::from(decode(file)?));
                    match name {
                        "ca" => self.tls_files.ca = file,
                        "cert" => cert = file,
                        _ => key = file,
                    }
                }
                Some(("sentinel", credentials)) if !credentials.is_empty() => {
                    if !matches!(self.topology, Topology::Sentinel { .. }) {
                        return Err(wrong("has ?sentinel= and names no sentinels"));
                    }
                    sentinels = Some(credentials);
                }
                _ => {
                    return Err(wrong(
                        "has something else than ?ca=FILE, ?cert=FILE, ?key=FILE or \
                         ?sentinel=user:password after its `?`",
                    ));
                }
            }
        }
        if cert.is_some() != key.is_some() {
            return Err(wrong(
                "has one of ?cert= and ?key=: a certificate needs its key",
            ));
        }
        self.tls_files.pair = cert.zip(key);
        Ok(sentinels)
    }

    /// Whether the URL itself has a password.
    pub fn has_password(&self) -> bool {
        let logins = [&self.login, &self.sentinel_login];
        logins.into_iter().flatten().any(Login::is_in_url)
    }

    /// The logins whose passwords are in files.
    pub(crate) fn logins_by_file(&self) -> impl Iterator<Item = &Login> {
        let logins = [&self.login, &self.sentinel_login];
        logins
            .into_iter()
            .flatten()
            .filter(|login| !login.is_in_url())
    }

    /// Whether it is a cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.topology, Topology::Cluster(_))
    }

    /// Whether Redis fails over to replicas by itself: Sentinel and clusters do.
    pub fn fails_over(&self) -> bool {
        match self.topology {
            Topology::Single(_) => false,
            Topology::Sentinel { .. } | Topology::Cluster(_) => true,
        }
    }
}

fn wrong(problem: impl Into<String>) -> UrlError {
    UrlError(problem.into())
}

/// The login of these credentials; with a password file they are at most a user.
fn login(credentials: Option<&str>, file: Option<PathBuf>) -> Result<Option<Login>, UrlError> {
    let Some(file) = file else {
        return credentials.map(parse_login).transpose();
    };
    let user = credentials.unwrap_or_default();
    if user.contains(':') {
        return Err(wrong(
            "has a password, and there is a file of it: leave the password and its `:` out",
        ));
    }
    Ok(Some(Login {
        user: Some(decode(user)?).filter(|user| !user.is_empty()),
        password: Password::InFile(file),
    }))
}

fn parse_login(text: &str) -> Result<Login, UrlError> {
    let (user, password) = text.split_once(':').ok_or_else(|| {
        wrong(
            "has a user without a password: write `user:password`, `:password` for the default \
             user, or the user alone if its password is in a file (--redis-password-file, \
             --sentinel-password-file)",
        )
    })?;
    if password.is_empty() {
        return Err(wrong("has an empty password"));
    }
    let user = decode(user)?;
    Ok(Login {
        user: Some(user).filter(|user| !user.is_empty()),
        password: Password::InUrl(decode(password)?),
    })
}

/// Undoes `%41`-escapes.
fn decode(text: &str) -> Result<String, UrlError> {
    let fault = || wrong("has a `%` that no two hexadecimal digits follow: `%25` stands for `%`");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(fault)?;
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| fault())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong("has escapes that are not UTF-8"))
}

fn parse_single(hosts: &str, path: &[&str]) -> Result<(Topology, u16), UrlError> {
    if hosts.contains(',') {
        return Err(wrong(
            "names several hosts after redis://, which takes one: it is redis+sentinel:// or \
             redis+cluster:// that takes several",
        ));
    }
    let db = parse_db(path)?;
    Ok((Topology::Single(parse_address(hosts, REDIS_PORT)?), db))
}

fn parse_sentinel(hosts: &str, path: &[&str]) -> Result<(Topology, u16), UrlError> {
    let (master, path) = path
        .split_first()
        .ok_or_else(|| wrong("does not say which master the sentinels are to be asked for"))?;
    let topology = Topology::Sentinel {
        sentinels: parse_addresses(hosts, SENTINEL_PORT)?,
        master: decode(master)?,
    };
    Ok((topology, parse_db(path)?))
}

fn parse_cluster(hosts: &str, path: &[&str]) -> Result<(Topology, u16), UrlError> {
    if parse_db(path)? != 0 {
        return Err(wrong("names a database: a cluster has only database 0"));
    }
    Ok((Topology::Cluster(parse_addresses(hosts, REDIS_PORT)?), 0))
}

fn parse_db(path: &[&str]) -> Result<u16, UrlError> {
    match path {
        [] => Ok(0),
        [db] => db
            .parse()
            .map_err(|_| wrong("has a database that is not a number, such as `/0`")),
        _ => Err(wrong("has too many `/` after the host")),
    }
}

fn parse_addresses(hosts: &str, port: u16) -> Result<Vec<Address>, UrlError> {
    hosts
        .split(',')
        .map(|host| parse_address(host, port))
        .collect()
}

/// What follows the colon may be a password whose `@host` was forgotten: it is not shown.
fn parse_address(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (host, port) = match text.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or("?"))),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(wrong("has no host, or a comma too many"));
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
            wrong(
                "has a port that is not a number from 1 to 65535 (an IPv6 address is put in \
                   brackets)",
            )
        })?,
    };
    Ok(Address {
        host: host.to_owned(),
        port,
    })
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let login = self.login.as_ref().map(ToString::to_string);
        let login = login.filter(|login| !login.is_empty());
        let credentials = login.map_or_else(String::new, |login| format!("{login}@"));
        let list = |hosts: &[Address]| {
            let hosts: Vec<String> = hosts.iter().map(Address::to_string).collect();
            hosts.join(",")
        };
        match &self.topology {
            Topology::Single(host) => write!(f, "{scheme}://{credentials}{host}")?,
            Topology::Sentinel { sentinels, master } => {
                let sentinels = list(sentinels);
                write!(f, "{scheme}+sentinel://{credentials}{sentinels}/{master}")?;
            }
            Topology::Cluster(nodes) => {
                write!(f, "{scheme}+cluster://{credentials}{}", list(nodes))?;
            }
        }
        if self.db != 0 {
            write!(f, "/{}", self.db)?;
        }
        let file = |name: &str, file: &PathBuf| format!("{name}={}", file.display());
        let ClientTls { ca, pair } = &self.tls_files;
        let query = [
            ca.as_ref().map(|ca| file("ca", ca)),
            pair.as_ref().map(|(cert, _)| file("cert", cert)),
            pair.as_ref().map(|(_, key)| file("key", key)),
            self.sentinel_login
                .as_ref()
                .map(ToString::to_string)
                .filter(|login| !login.is_empty())
                .map(|login| format!("sentinel={login}")),
        ];
        let query: Vec<_> = query.into_iter().flatten().collect();
        if !query.is_empty() {
            write!(f, "?{}", query.join("&"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_shown_without_its_password() {
        for (text, shown) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://localhost/", "redis://localhost:6379"),
            ("redis://localhost:7000/3", "redis://localhost:7000/3"),
            ("redis://[::1]:7000", "redis://[::1]:7000"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://:secret@h", "redis://:***@h:6379"),
            ("redis://u:secret@h", "redis://u:***@h:6379"),
            ("redis://u:se@c/re?t@h", "redis://u:***@h:6379"),
            ("rediss://u:secret@h", "rediss://u:***@h:6379"),
            (
                "rediss://h?ca=/etc/ca.pem",
                "rediss://h:6379?ca=/etc/ca.pem",
            ),
            (
                "rediss://h?key=/run/tls.key&cert=/run/tls.crt",
                "rediss://h:6379?cert=/run/tls.crt&key=/run/tls.key",
            ),
            (
                "redis+sentinel://u:secret@a,b:1/main/2",
                "redis+sentinel://u:***@a:26379,b:1/main/2",
            ),
            ("rediss+sentinel://a/main", "rediss+sentinel://a:26379/main"),
            (
                "redis+sentinel://:secret@a/main?sentinel=:other",
                "redis+sentinel://:***@a:26379/main?sentinel=:***",
            ),
            (
                "rediss+sentinel://a/main?sentinel=u:other&ca=ca.pem",
                "rediss+sentinel://a:26379/main?ca=ca.pem&sentinel=u:***",
            ),
            (
                "redis+cluster://:secret@a:1,b",
                "redis+cluster://:***@a:1,b:6379",
            ),
            ("rediss+cluster://a/0", "rediss+cluster://a:6379"),
        ] {
            let url = RedisUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("RedisUrl({shown})"));
        }
    }

    #[test]
    fn escapes_in_a_password_are_undone() {
        let url = RedisUrl::parse("redis://u%40x:a%2Fb%25@h").unwrap();
        let login = url.login.as_ref().unwrap();
        assert_eq!(login.user.as_deref(), Some("u@x"));
        assert_eq!(login.password().unwrap(), "a/b%");
        assert!(url.has_password());
    }

    #[test]
    fn passwords_may_be_in_files_and_are_read_for_each_use() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let in_file = || Some(file.path().to_owned());
        let both = || PasswordFiles {
            servers: in_file(),
            sentinels: in_file(),
        };
        let text = "redis+sentinel://u@a/main?sentinel=s";
        let url = RedisUrl::parse_with(text, both()).unwrap();
        assert_eq!(
            url.to_string(),
            "redis+sentinel://u@a:26379/main?sentinel=s"
        );
        assert!(!url.has_password());
        assert_eq!(url.logins_by_file().count(), 2);
        for password in ["one", "two"] {
            std::fs::write(file.path(), password).unwrap();
            for login in url.logins_by_file() {
                assert_eq!(login.password().unwrap(), password);
            }
        }
        let url = RedisUrl::parse_with("redis+sentinel://a/main", both()).unwrap();
        assert!(url.logins_by_file().all(|login| login.user.is_none()));

        let twice = RedisUrl::parse_with("redis+sentinel://:secret@a/main", both());
        let error = twice.unwrap_err().to_string();
        assert!(error.contains("leave the password") && !error.contains("secret"));
        let error = RedisUrl::parse_with("redis://a", both()).unwrap_err();
        assert!(error.to_string().contains("no sentinels"));
    }

    #[test]
    fn a_bad_url_is_refused_with_what_to_write() {
        for (text, expected) in [
            ("localhost:6379", "has no redis://"),
            ("", "has no redis://"),
            ("http://secret@h", "a user without a password"),
            ("http://h", "starts with `http://`"),
            ("redis+tls://h", "starts with `redis+tls://`"),
            ("unix:///run/redis.sock", "starts with `unix://`"),
            ("redis://", "has no host"),
            ("redis:///1", "has no host"),
            ("redis://secret@h", "a user without a password"),
            ("redis://u:@h", "an empty password"),
            ("redis://u:secret", "has a port that is not"),
            ("redis://u:secret/x", "is not a number, such as `/0`"),
            ("redis://h:0", "from 1 to 65535"),
            ("redis://h:70000", "from 1 to 65535"),
            ("redis://fe80::1", "brackets"),
            ("redis://h/x", "is not a number, such as `/0`"),
            ("redis://h/1/2", "too many `/`"),
            ("redis://a,b", "takes several"),
            ("redis+sentinel://a,b", "which master"),
            ("redis+sentinel://a,/main", "a comma too many"),
            ("redis+sentinel://a/main/x", "is not a number, such as `/0`"),
            ("redis+cluster://a/1", "only database 0"),
            ("redis://h?ca=x", "without TLS"),
            ("redis://h?cert=x&key=y", "without TLS"),
            ("rediss://h?cert=x", "needs its key"),
            ("rediss://h?insecure=secret", "something else than ?ca=FILE"),
            ("redis://h?sentinel=:secret", "names no sentinels"),
            (
                "redis+sentinel://a/m?sentinel=secret",
                "a user without a password",
            ),
            ("redis+sentinel://a/m?sentinel=u:", "an empty password"),
            ("rediss://h#insecure", "always checked"),
            ("redis://u:secret%2@h", "hexadecimal"),
            ("redis://u:secret%ff@h", "not UTF-8"),
        ] {
            let error = RedisUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(
                error.contains("redis+cluster://[user:password@]"),
                "{error}"
            );
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }
}
