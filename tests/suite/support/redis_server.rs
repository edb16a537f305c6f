//! Real Redis servers, each on a free port with a directory of its own; killed when they are dropped.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// What should happen within moments fails the test only after this long: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// Locales that `tests/prepare` makes: by their rules a server's scripts compare texts.
const LOCALES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/locale");
/// Someone else may take a port between its choice and its use.
pub(super) const ATTEMPTS: usize = 20;

/// A server that holds every write (AOF, always) unless its settings say otherwise.
pub struct RedisServer {
    directory: TempDir,
    settings: Vec<(String, String)>,
    port: u16,
    tls_port: Option<u16>,
    pub(super) password: Option<String>,
    child: Child,
}

impl RedisServer {
    /// Starts one with these settings of redis.conf, and waits until it answers.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), settings, false)
    }

    /// One that also speaks TLS, with a certificate for 127.0.0.1 and localhost; see [`Self::tls_url`].
    pub fn start_with_tls(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        make_certificates(directory.path());
        Self::start_in(directory, settings, true)
    }

    fn start_in(directory: TempDir, settings: &[(&str, &str)], tls: bool) -> Self {
        let settings: Vec<_> = settings
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let password = settings
            .iter()
            .find(|(name, _)| name == "requirepass")
            .map(|(_, password)| password.clone());
        for _ in 0..ATTEMPTS {
            let (port, tls_port) = (free_port(), tls.then(free_port));
            if let Some(child) = spawn(directory.path(), port, tls_port, &settings) {
                let server = Self {
                    directory,
                    settings,
                    port,
                    tls_port,
                    password,
                    child,
                };
                server.wait_until_ready();
                return server;
            }
        }
        panic!(
            "redis-server found no free port, or does not start:\n{}",
            log(directory.path())
        );
    }

    /// Its URL, with the password where it has one.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.credentials(), self.port)
    }

    /// Its URL for TLS, with the CA that signed its certificate.
    pub fn tls_url(&self) -> String {
        let ca = self.directory.path().join("ca.crt");
        format!("{}?ca={}", self.tls_url_of_strangers(), ca.display())
    }

    /// Its URL for TLS, for someone who does not know its CA.
    pub fn tls_url_of_strangers(&self) -> String {
        let port = self.tls_port.expect("started without TLS");
        format!("rediss://{}127.0.0.1:{port}", self.credentials())
    }

    pub(super) fn credentials(&self) -> String {
        self.password
            .as_ref()
            .map_or(String::new(), |password| format!(":{password}@"))
    }

    /// Its port without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after a kill: same directory, same port.
    pub fn restart(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = spawn(
                self.directory.path(),
                self.port,
                self.tls_port,
                &self.settings,
            );
            if let Some(child) = child {
                self.child = child;
                return self.wait_until_ready();
            }
            assert!(
                Instant::now() < deadline,
                "it does not start:\n{}",
                log(self.directory.path())
            );
        }
    }

    /// Kills it and starts it again without its data. A cluster's node keeps its place.
    pub fn restart_empty(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::rename(path("appendonlydir"), path("lost")).unwrap();
        self.restart();
    }

    /// Kills it and starts it again with the data that [`Self::restart_empty`] took away.
    pub fn restart_restored(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::remove_dir_all(path("appendonlydir")).unwrap();
        fs::rename(path("lost"), path("appendonlydir")).unwrap();
        self.restart();
    }

    /// How many keys it holds, and a digest of all of them. It needs the setting `enable-debug-command`.
    pub fn digest(&self) -> (String, String) {
        let digest = self.command(&["DEBUG", "DIGEST"]);
        assert!(!digest.starts_with('-'), "{digest}");
        (self.command(&["DBSIZE"]), digest)
    }

    /// It hangs, as a machine that is paused does.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// It goes on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {pid}")])
            .status();
        assert!(sent.unwrap().success(), "kill -{name} {pid}");
    }

    /// A command over a connection of its own; what it answers, as lines. An error begins with `-`.
    pub fn command(&self, words: &[&str]) -> String {
        command_at(self.port, self.password.as_deref(), words)
    }

    fn wait_until_ready(&self) {
        until("redis-server answers", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
                && !self.command(&["PING"]).starts_with("-LOADING")
        });
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            eprintln!("-- redis-server said:\n{}", log(self.directory.path()));
        }
    }
}

/// A command to the server at a port, see [`RedisServer::command`].
pub(super) fn command_at(port: u16, password: Option<&str>, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    if let Some(password) = password {
        send(&mut stream, &["AUTH", password]);
        assert_eq!(receive(&mut answers), "OK");
    }
    send(&mut stream, words);
    receive(&mut answers)
}

/// Waits for something that comes to be by itself.
#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A cluster's node also takes the port 10,000 above.
pub(super) fn free_port() -> u16 {
    for _ in 0..1000 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(bus) = port.checked_add(10_000)
            && TcpListener::bind(("127.0.0.1", bus)).is_ok()
        {
            return port;
        }
    }
    panic!("no free port below 55,536");
}

fn spawn(
    directory: &Path,
    port: u16,
    tls_port: Option<u16>,
    settings: &[(String, String)],
) -> Option<Child> {
    let mut lines = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nlogfile redis.log\nappendonly yes\nappendfsync always\nsave \"\"\nrepl-diskless-sync-delay 0\n",
        directory.display()
    );
    if let Some(port) = tls_port {
        lines.push_str(&format!(
            "tls-port {port}\ntls-cert-file redis.crt\ntls-key-file redis.key\ntls-ca-cert-file ca.crt\ntls-auth-clients no\n"
        ));
    }
    launch(directory, port, lines, settings, &[])
}

/// Starts a server on a file of settings. `None` where it ends before it listens, as when another process took the port.
pub(super) fn launch(
    directory: &Path,
    port: u16,
    mut lines: String,
    settings: &[(String, String)],
    flags: &[&str],
) -> Option<Child> {
    for (name, value) in settings {
        lines.push_str(&format!("{name} {value}\n"));
    }
    let file = directory.join("redis.conf");
    fs::write(&file, lines).unwrap();
    let mut child = Command::new("redis-server")
        .arg(&file)
        .args(flags)
        .env("LC_ALL", "en_US.UTF-8")
        .env("LOCPATH", LOCALES)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("no redis-server ({error}): run tests/prepare"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            // Another process may be the one that listens.
            thread::sleep(Duration::from_millis(20));
            return child.try_wait().unwrap().is_none().then_some(child);
        }
        assert!(
            Instant::now() < deadline,
            "it does not listen:\n{}",
            log(directory)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("redis.log")).unwrap_or_default()
}

fn send(stream: &mut TcpStream, words: &[&str]) {
    let mut packed = format!("*{}\r\n", words.len());
    for word in words {
        packed.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(packed.as_bytes()).unwrap();
}

/// A reply as text: lists line by line.
fn receive(answers: &mut impl BufRead) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    let line = line.trim_end();
    let Some(kind) = line.chars().next() else {
        return "-the connection was closed".to_owned();
    };
    let rest = &line[1..];
    match kind {
        '$' if rest == "-1" => String::new(),
        '$' => {
            let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
            answers.read_exact(&mut bytes).unwrap();
            bytes.truncate(bytes.len() - 2);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        '*' => {
            let items = (0..rest.parse::<i64>().unwrap()).map(|_| receive(answers));
            items.collect::<Vec<_>>().join("\n")
        }
        '-' => line.to_owned(),
        _ => rest.to_owned(),
    }
}

/// `ca.crt`, and `redis.crt` with its key, made by the openssl that Redis's packages bring.
fn make_certificates(directory: &Path) {
    const SCRIPT: &str = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test-ca \
            -keyout ca.key -out ca.crt &&
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
            -keyout redis.key -out redis.csr &&
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > extensions &&
        openssl x509 -req -in redis.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out redis.crt";
    let made = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "openssl, see tests/prepare: {said}");
}
