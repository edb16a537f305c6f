//! Real Redis servers, each on a free port and in a directory of its own. They are killed when they
//! are dropped.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::program::{Program, project};

/// A test fails if something that should take moments takes longer than this. It is a bound for
/// hangs, not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);
/// Locales that `tests/prepare` makes; a server's scripts compare texts by their rules.
const LOCALES: &str = "tests/clients/locale";
/// Another process may take a port between its choice and its use.
const ATTEMPTS: usize = 20;

/// What a program is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Data,
    Sentinel,
}

/// A server that has every write on disk (AOF, always) unless its settings say otherwise.
pub struct RedisServer {
    program: Program,
    role: Role,
    directory: TempDir,
    port: u16,
    tls_port: Option<u16>,
    pub(super) password: Option<String>,
    child: Child,
}

impl RedisServer {
    /// Starts a server with these settings of redis.conf, and waits until it answers.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_as(Program::System, settings)
    }

    /// Starts a server of this program.
    pub fn start_as(program: Program, settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory, program, Role::Data, settings, false)
    }

    /// Starts this program as a Sentinel, which keeps what it learns in its settings file.
    pub fn start_sentinel(program: Program, settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory, program, Role::Sentinel, settings, false)
    }

    /// Starts a server that also accepts TLS, with the files in a directory: `ca.crt`, `redis.crt`
    /// and `redis.key`; see [`Self::tls_url`].
    pub fn start_with_tls(directory: TempDir, settings: &[(&str, &str)]) -> Self {
        Self::start_in(directory, Program::System, Role::Data, settings, true)
    }

    fn start_in(
        directory: TempDir,
        program: Program,
        role: Role,
        settings: &[(&str, &str)],
        tls: bool,
    ) -> Self {
        let password = settings.iter().find(|(name, _)| *name == "requirepass");
        let password = password.map(|&(_, password)| password.to_owned());
        for _ in 0..ATTEMPTS {
            let (port, tls_port) = (free_port(), tls.then(free_port));
            write_settings(directory.path(), role, port, tls_port, settings);
            if let Some(child) = launch(program, role, directory.path(), port) {
                let server = Self {
                    program,
                    role,
                    directory,
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
            "{program:?} found no free port, or does not start:\n{}",
            log(directory.path())
        );
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The URL, with the password if there is one.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.credentials(), self.port)
    }

    /// The URL for TLS, with the CA that signed the certificate.
    pub fn tls_url(&self) -> String {
        let ca = self.directory.path().join("ca.crt");
        format!("{}?ca={}", self.tls_url_of_strangers(), ca.display())
    }

    /// The URL for TLS, with the CA and a certificate that it signed for clients.
    pub fn tls_url_with_certificate(&self) -> String {
        let file = |name| self.directory.path().join(name);
        let (cert, key) = (file("client.crt"), file("client.key"));
        format!(
            "{}&cert={}&key={}",
            self.tls_url(),
            cert.display(),
            key.display()
        )
    }

    /// The URL for TLS, for a client that does not know the CA.
    pub fn tls_url_of_strangers(&self) -> String {
        let port = self.tls_port.expect("started without TLS");
        format!("rediss://{}127.0.0.1:{port}", self.credentials())
    }

    pub(super) fn credentials(&self) -> String {
        self.password
            .as_ref()
            .map_or(String::new(), |password| format!(":{password}@"))
    }

    /// The port without TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after a kill: same directory, same port, and the settings that it wrote
    /// itself, such as its master.
    pub fn restart(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = launch(self.program, self.role, self.directory.path(), self.port);
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

    /// Kills it and starts it again so that it takes half a minute to load its data, unless
    /// [`Self::load_at_once`] is called.
    pub fn restart_slowly(&mut self) {
        const COMMANDS: u32 = 100_000;
        const MICROS_EACH: u32 = 200; // it answers after every 1024 commands
        let fill = "for i = 1, ARGV[1] do redis.call('SET', KEYS[1], i) end";
        let count = COMMANDS.to_string();
        self.command(&["EVAL", fill, "1", "{slow}filler", &count]);
        self.kill();
        self.add_setting(&format!("key-load-delay {MICROS_EACH}"));
        let child = launch(self.program, self.role, self.directory.path(), self.port);
        self.child = child.expect("its port is free");
        until("it loads its data", || self.is_loading());
    }

    /// Whether it has not yet loaded its data.
    pub fn is_loading(&self) -> bool {
        let pong = self.try_command(&["PING"], PATIENCE);
        pong.is_ok_and(|pong| pong.starts_with("-LOADING"))
    }

    /// Lets a server that loads its data do so without delay.
    pub fn load_at_once(&self) {
        let set = ["CONFIG", "SET", "key-load-delay", "0"];
        assert_eq!(self.command(&set), "OK");
        self.wait_until_ready();
    }

    /// Kills it and starts it again without its data. A cluster's node keeps its identity.
    pub fn restart_empty(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::rename(path("appendonlydir"), path("lost")).unwrap();
        self.restart();
    }

    /// Kills it and starts it again with the data that [`Self::restart_empty`] removed.
    pub fn restart_restored(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::remove_dir_all(path("appendonlydir")).unwrap();
        fs::rename(path("lost"), path("appendonlydir")).unwrap();
        self.restart();
    }

    /// Copies its append-only files, as a backup of its disk does.
    pub fn back_up(&self) {
        self.freeze();
        let backup = self.directory.path().join("backup");
        fs::create_dir(&backup).unwrap();
        for file in fs::read_dir(self.directory.path().join("appendonlydir")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), backup.join(file.file_name())).unwrap();
        }
        self.thaw();
    }

    /// Kills it and starts it again with the files that [`Self::back_up`] copied.
    pub fn restart_from_backup(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::remove_dir_all(path("appendonlydir")).unwrap();
        fs::rename(path("backup"), path("appendonlydir")).unwrap();
        self.restart();
    }

    /// Saves its data as a snapshot, and keeps that as a backup.
    pub fn back_up_as_snapshot(&self) {
        assert_eq!(self.command(&["SAVE"]), "OK");
        let path = |name| self.directory.path().join(name);
        fs::rename(path("dump.rdb"), path("backup.rdb")).unwrap();
    }

    /// Kills it and starts it again with the snapshot that [`Self::back_up_as_snapshot`] kept: it
    /// is loaded without append-only files, and then they are switched on.
    pub fn restart_from_snapshot(&mut self) {
        self.kill();
        let path = |name| self.directory.path().join(name);
        fs::remove_dir_all(path("appendonlydir")).unwrap();
        fs::rename(path("backup.rdb"), path("dump.rdb")).unwrap();
        self.add_setting("appendonly no");
        self.restart();
        self.add_setting("appendonly yes");
        assert_eq!(self.command(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    }

    /// Adds a line to the settings file, for the next start.
    fn add_setting(&self, line: &str) {
        let path = self.directory.path().join("redis.conf");
        let mut settings = fs::read_to_string(&path).unwrap();
        settings.push_str(&format!("{line}\n"));
        fs::write(&path, settings).unwrap();
    }

    /// The number of keys, and a digest of all of them. It needs the setting
    /// `enable-debug-command`.
    pub fn digest(&self) -> (String, String) {
        let digest = self.command(&["DEBUG", "DIGEST"]);
        assert!(!digest.starts_with('-'), "{digest}");
        (self.command(&["DBSIZE"]), digest)
    }

    /// Stops the process, so that it hangs as on a paused machine.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen process go on.
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

    /// Runs a command over a new connection; returns the reply as lines. An error begins with `-`.
    pub fn command(&self, words: &[&str]) -> String {
        let answer = self.try_command(words, PATIENCE);
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs commands over one connection. All but the last must reply `OK`; returns the last reply.
    pub fn commands(&self, commands: &[&[&str]]) -> String {
        let answer = ask(self.port, commands, PATIENCE);
        answer.unwrap_or_else(|error| panic!("{commands:?}: {error}"))
    }

    /// Runs one command on a server that may be gone, or may hang for longer than this.
    pub fn try_command(&self, words: &[&str], patience: Duration) -> io::Result<String> {
        let mut commands = vec![words];
        let auth = self.password.as_ref().map(|password| ["AUTH", password]);
        if let Some(auth) = &auth {
            commands.insert(0, auth);
        }
        ask(self.port, &commands, patience)
    }

    /// The same for any server on this port, such as a proxy.
    pub fn ask_port(port: u16, words: &[&str], patience: Duration) -> io::Result<String> {
        ask(port, &[words], patience)
    }

    fn wait_until_ready(&self) {
        until("the server answers", || {
            let pong = self.try_command(&["PING"], PATIENCE);
            pong.is_ok_and(|pong| !pong.starts_with("-LOADING"))
        });
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            let (program, port) = (self.program, self.port);
            eprintln!(
                "-- {program:?} on {port} said:\n{}",
                log(self.directory.path())
            );
        }
    }
}
/// Waits until a condition becomes true by itself.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(look_pause(waited));
    }
}

/// The pause before the next look at what was awaited for this long. What comes at once is seen at
/// once, and looks at what takes long cost little.
pub fn look_pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(5), Duration::from_millis(100))
}

/// Begins something that may fail on a busy machine, again and again until the condition is true.
#[track_caller]
pub fn until_begun(what: &str, attempt_max: Duration, begin: impl Fn(), is_so: impl Fn() -> bool) {
    until(what, || {
        begin();
        let end = Instant::now() + attempt_max;
        while !is_so() && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        is_so()
    });
}

/// A port below those that the system uses for outgoing connections (from 32,768 on Linux), and
/// that no other test has had. So nobody takes it while its server is dead. A cluster's node also
/// uses the port 10,000 above.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    for _ in 0..10_000 {
        let port = rand::random_range(10_000..22_000);
        let is_new = GIVEN.lock().unwrap().insert(port);
        if is_new && is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
    panic!("no free port below 22,000");
}

/// Writes the settings file; the caller's settings come last.
fn write_settings(
    directory: &Path,
    role: Role,
    port: u16,
    tls_port: Option<u16>,
    settings: &[(&str, &str)],
) {
    let mut lines = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nlogfile redis.log\n",
        directory.display()
    );
    if role == Role::Data {
        lines.push_str(
            "appendonly yes\nappendfsync always\nsave \"\"\nrepl-diskless-sync-delay 0\n",
        );
    }
    if let Some(port) = tls_port {
        lines.push_str(&format!(
            "tls-port {port}\ntls-cert-file redis.crt\ntls-key-file redis.key\ntls-ca-cert-file \
             ca.crt\ntls-auth-clients optional\n"
        ));
    }
    for (name, value) in settings {
        lines.push_str(&format!("{name} {value}\n"));
    }
    fs::write(directory.join("redis.conf"), lines).unwrap();
}

/// Starts a server with its settings file. `None` if it ends before it listens, as when another
/// process took the port.
fn launch(program: Program, role: Role, directory: &Path, port: u16) -> Option<Child> {
    let mut command = Command::new(program.path());
    command.arg(directory.join("redis.conf"));
    if role == Role::Sentinel {
        command.arg("--sentinel");
    }
    let mut child = command
        .env("LC_ALL", "en_US.UTF-8")
        .env("LOCPATH", project(LOCALES))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("no {program:?} ({error}): run tests/prepare"));
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

/// The reply to the last of these commands; all commands before it must succeed.
fn ask(port: u16, commands: &[&[&str]], patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(patience))?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut answer = "OK".to_owned();
    for words in commands {
        assert_eq!(answer, "OK");
        send(&mut stream, words)?;
        answer = receive(&mut answers)?;
    }
    Ok(answer)
}

fn send(stream: &mut TcpStream, words: &[&str]) -> io::Result<()> {
    let mut packed = format!("*{}\r\n", words.len());
    for word in words {
        packed.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(packed.as_bytes())
}

/// A reply as text: lists as lines.
fn receive(answers: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let line = line.trim_end();
    let Some(kind) = line.chars().next() else {
        return Ok("-the connection was closed".to_owned());
    };
    let rest = &line[1..];
    Ok(match kind {
        '$' if rest == "-1" => String::new(),
        '$' => {
            let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
            answers.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        '*' => {
            let items = (0..rest.parse::<i64>().unwrap()).map(|_| receive(answers));
            items.collect::<io::Result<Vec<_>>>()?.join("\n")
        }
        '-' => line.to_owned(),
        _ => rest.to_owned(),
    })
}
