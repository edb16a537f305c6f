//! Real PostgreSQL servers, each on a free port with a directory of its own; killed when they are
//! dropped.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, Row, types::ToSql};

use super::{
    certificates::{self, Authority, Wanted},
    redis_server::free_port,
    small_disk::SmallDisk,
};

/// What should happen within moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Someone else may take a port between its choice and its use.
const ATTEMPTS: usize = 20;
/// Where Debian's packages have the programs, by version.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// The superuser's password, which no message may show.
pub const PASSWORD: &str = "a-very-secret-word";
/// How services name themselves to it.
pub const APPLICATION: &str = "tombola";

/// How every cluster is made.
const INITDB: [&str; 6] = [
    "--username=postgres",
    "--pwfile=password",
    "--auth=scram-sha-256",
    "--no-sync",
    "--encoding=UTF8",
    "--no-locale",
];
/// Where a made cluster stays, to be copied by all runs of the tests.
const TEMPLATES: &str = env!("CARGO_TARGET_TMPDIR");

/// Settings of a server that speaks TLS, and checks certificates of clients.
const TLS: [&str; 4] = [
    "ssl=on",
    "ssl_cert_file=../server.crt",
    "ssl_key_file=../server.key",
    "ssl_ca_file=../ca.crt",
];

/// Settings of a server whose disk is small.
const SMALL: [&str; 3] = [
    "max_wal_size=8MB",
    "min_wal_size=2MB",
    "shared_buffers=16MB",
];
/// The size of that disk: a new cluster takes 28 MiB.
const SMALL_MIB: u32 = 80;

/// A server; its superuser is `postgres`.
pub struct Postgres {
    directory: TempDir,
    /// Where its data are; relative to the directory, unless they are on a disk of their own.
    data: PathBuf,
    port: u16,
    settings: &'static [&'static str],
    child: Child,
}

impl Postgres {
    /// Makes a cluster, starts its server and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(tempfile::tempdir().unwrap(), &[])
    }

    /// One whose data are on a small disk, which is the owner's that servers run as.
    pub fn start_on_a_small_disk() -> (Self, SmallDisk) {
        let disk = SmallDisk::owned(SMALL_MIB, unprivileged());
        let (directory, data) = (tempfile::tempdir().unwrap(), disk.path().join("data"));
        (
            Self::start_in(directory, data, &SMALL, &["--wal-segsize=1"]),
            disk,
        )
    }

    /// One that also speaks TLS, with a certificate for 127.0.0.1; see [`Self::tls_url`].
    pub fn start_with_tls() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = certificates::make(directory.path(), "server");
        authority
            .sign(&Wanted::client("postgres"))
            .write(directory.path(), "client");
        own_key(directory.path());
        Self::start_with(directory, &TLS)
    }

    /// Changes the authority that it trusts and that has signed its certificate.
    pub fn use_authority(&self, authority: &Authority) {
        let path = self.directory.path();
        fs::write(path.join("ca.crt"), &authority.pem).unwrap();
        authority.sign(&Wanted::server()).write(path, "server");
        own_key(path);
        signal(self.child.id(), "HUP");
    }

    fn start_with(directory: TempDir, settings: &'static [&'static str]) -> Self {
        Self::start_in(directory, "data".into(), settings, &[])
    }

    fn start_in(
        directory: TempDir,
        data: PathBuf,
        settings: &'static [&'static str],
        more: &[&str],
    ) -> Self {
        let path = directory.path();
        fs::write(path.join("password"), PASSWORD).unwrap();
        if let Some((user, group)) = unprivileged() {
            chown(path, Some(user), Some(group)).unwrap();
            chown(path.join("password"), Some(user), Some(group)).unwrap();
        }
        match more {
            [] => copy_cluster(path, &data),
            more => make_cluster(path, &data, more),
        }
        for _ in 0..ATTEMPTS {
            let port = free_port();
            let mut child = launch((path, &data), port, settings);
            if answers(&mut child, port) {
                return Self {
                    directory,
                    data,
                    port,
                    settings,
                    child,
                };
            }
        }
        panic!("PostgreSQL does not start:\n{}", log(path));
    }

    /// Where its files are, unless they are on a small disk.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The port that it listens at.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database, for this user with the superuser's password.
    pub fn url(&self, user: &str, database: &str) -> String {
        Self::url_at(self.port, user, database)
    }

    /// The URL of the database `postgres` for TLS, with these further parameters.
    pub fn tls_url(&self, parameters: &str) -> String {
        let port = self.port;
        format!(
            "postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres?sslmode=require{parameters}"
        )
    }

    /// The file of the authority that signed its certificate.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// The parameters that name its authority, and a certificate that the authority signed for
    /// clients.
    pub fn tls_parameters(&self) -> String {
        let file = |name| self.directory.path().join(name).display().to_string();
        let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
        format!("&sslrootcert={ca}&sslcert={cert}&sslkey={key}")
    }

    /// Asks clients over TLS for a certificate from now on.
    pub fn ask_for_certificates(&self) {
        let rules = self.directory.path().join(&self.data).join("pg_hba.conf");
        fs::write(
            rules,
            "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n",
        )
        .unwrap();
        signal(self.child.id(), "HUP");
    }

    /// The URL of a database through another port.
    pub fn url_at(port: u16, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    /// A file with the superuser's password.
    pub fn password_file(&self) -> PathBuf {
        self.directory.path().join("password")
    }

    /// Makes a database; its URL.
    pub async fn database(&self, name: &str) -> String {
        let client = self.connect("postgres").await;
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        self.url("postgres", name)
    }

    /// A connection of the superuser.
    pub async fn connect(&self, database: &str) -> Client {
        let url = self.url("postgres", database);
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Rows of a query in a database.
    pub async fn query(&self, database: &str, sql: &str) -> Vec<Row> {
        let client = self.connect(database).await;
        let rows = client.query(sql, &[] as &[&(dyn ToSql + Sync)]).await;
        rows.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// The number that a query gives.
    pub async fn number(&self, database: &str, sql: &str) -> i64 {
        self.query(database, sql).await[0].get(0)
    }

    /// The number that a query gives over this connection.
    pub async fn number_over(client: &Client, sql: &str) -> i64 {
        let row = client.query_one(sql, &[]).await;
        row.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
            .get(0)
    }

    /// From now on, commits wait for a standby that does not exist.
    pub async fn miss_a_standby(&self) {
        self.name_standbys("SET synchronous_standby_names = 'absent'")
            .await;
        // Sessions see it a moment later.
        let probe = self.connect("postgres").await;
        let sql = "SELECT pg_logical_emit_message(true, 'probe', '')";
        let probe = tokio::spawn(async move { while probe.query(sql, &[]).await.is_ok() {} });
        self.cut_off(sql).await;
        probe.await.unwrap();
    }

    /// Commits wait for no standby any more.
    pub async fn need_no_standby(&self) {
        self.name_standbys("RESET synchronous_standby_names").await;
    }

    async fn name_standbys(&self, setting: &str) {
        self.query("postgres", &format!("ALTER SYSTEM {setting}"))
            .await;
        self.query("postgres", "SELECT pg_reload_conf()").await;
    }

    /// Waits until this statement waits for a standby, and ends its session. Its transaction is
    /// committed then, but no standby has it.
    pub async fn cut_off(&self, statement: &str) {
        let pid = self.until_it_waits(statement).await;
        let sql = format!("SELECT pg_terminate_backend({pid})");
        self.query("postgres", &sql).await;
    }

    /// Waits until this statement waits for a standby; the process of its session.
    pub async fn until_it_waits(&self, statement: &str) -> i32 {
        let client = self.connect("postgres").await;
        let sql = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = $1";
        let begun = Instant::now();
        loop {
            if let Some(row) = client.query_opt(sql, &[&statement]).await.unwrap() {
                return row.get(0);
            }
            assert!(begun.elapsed() < PATIENCE, "`{statement}` does not wait");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops it at once, as a crash would.
    pub fn stop(&mut self) {
        signal(self.child.id(), "QUIT");
        self.child.wait().unwrap();
    }

    /// Kills all its processes, as a power cut would.
    pub fn kill(&mut self) {
        // The first one goes first, so that it starts no others.
        for process in self.processes() {
            try_signal(process, "KILL");
        }
        self.child.wait().unwrap();
    }

    /// Kills the process that serves the client with this name; the server then begins anew by
    /// itself, as after a crash.
    pub async fn kill_process_of(&self, client: &str) {
        let sql =
            format!("SELECT pid::bigint FROM pg_stat_activity WHERE application_name = '{client}'");
        for row in self.query("postgres", &sql).await {
            try_signal(u32::try_from(row.get::<_, i64>(0)).unwrap(), "KILL");
        }
    }

    /// Stops all its processes until [`Self::thaw`].
    pub fn freeze(&self) {
        for process in self.processes() {
            try_signal(process, "STOP");
        }
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        for process in self.processes().into_iter().rev() {
            try_signal(process, "CONT");
        }
    }

    /// The first process, and those that it has started.
    fn processes(&self) -> Vec<u32> {
        let first = self.child.id();
        let children = format!("/proc/{first}/task/{first}/children");
        let children = fs::read_to_string(children).unwrap();
        let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
        std::iter::once(first).chain(children).collect()
    }

    /// Starts it again if it has ended by itself, as its supervisor would.
    pub fn restart_if_ended(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            self.restart();
        }
    }

    /// Starts it again after a stop.
    pub fn restart(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let places = (self.directory.path(), &*self.data);
            self.child = launch(places, self.port, self.settings);
            if answers(&mut self.child, self.port) {
                return;
            }
            assert!(Instant::now() < deadline, "{}", log(self.directory.path()));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.thaw();
            signal(self.child.id(), "QUIT");
            self.child.wait().ok();
        }
        if std::thread::panicking() {
            eprintln!("-- PostgreSQL said:\n{}", log(self.directory.path()));
        }
    }
}

/// Makes a cluster in this directory.
fn make_cluster(directory: &Path, data: &Path, more: &[&str]) {
    let made = program("initdb", directory)
        .arg("--pgdata")
        .arg(data)
        .args(INITDB)
        .args(more)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// Copies the template to this directory: that costs much less than to make a cluster. The first
/// one is made, and becomes the template.
fn copy_cluster(directory: &Path, data: &Path) {
    static MAKING: Mutex<()> = Mutex::new(());
    let (template, cluster) = (template(), directory.join(data));
    let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_dir() {
        drop(making);
        return copy(template, &cluster);
    }
    make_cluster(directory, data, &[]);
    // The template is there at once or not at all. If another process was faster, its own stays.
    fs::create_dir_all(TEMPLATES).unwrap();
    let beside = tempfile::tempdir_in(TEMPLATES).unwrap();
    let copied = beside.path().join("data");
    copy(&cluster, &copied);
    // After a power cut its files must not be emptier than its name says.
    let synced = Command::new("sync").arg("-f").arg(&copied).status();
    assert!(synced.unwrap().success(), "sync -f {}", copied.display());
    if let Err(error) = fs::rename(&copied, template) {
        assert!(template.is_dir(), "{}: {error}", template.display());
    }
}

/// Where the template is. Its name depends on all that its files depend on: the version, how they
/// are made, whose they are, and the time zone, which the settings file has.
fn template() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let said = Command::new(bin().join("postgres"))
            .arg("--version")
            .output();
        let version = String::from_utf8(said.unwrap().stdout).unwrap();
        let owner = (rustix::process::geteuid().as_raw(), unprivileged());
        let zone = (std::env::var_os("TZ"), fs::read_link("/etc/localtime").ok());
        let mut hasher = DefaultHasher::new();
        (&version, INITDB, PASSWORD, owner, zone).hash(&mut hasher);
        let number = version.split_whitespace().nth(2).expect("a version");
        let name = format!("postgresql-{number}-{:016x}", hasher.finish());
        Path::new(TEMPLATES).join(name)
    })
}

/// Copies a directory with its owners and permissions.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).output();
    let copied = copied.unwrap();
    assert!(copied.status.success(), "{copied:?}");
}

/// Makes the server's key one that it accepts: its owner's alone.
fn own_key(directory: &Path) {
    let key = directory.join("server.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    if let Some((user, group)) = unprivileged() {
        chown(key, Some(user), Some(group)).unwrap();
    }
}

fn launch((directory, data): (&Path, &Path), port: u16, settings: &[&str]) -> Child {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("log"))
        .unwrap();
    program("postgres", directory)
        .arg("-D")
        .arg(data)
        .args(["-p", &port.to_string()])
        .args(["-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "unix_socket_directories="])
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// True once it takes connections; false if it ends before.
fn answers(child: &mut Child, port: u16) -> bool {
    let deadline = Instant::now() + PATIENCE;
    let bin = bin();
    while child.try_wait().unwrap().is_none() {
        let ready = Command::new(bin.join("pg_isready"))
            .args(["--quiet", "--host=127.0.0.1", &format!("--port={port}")])
            .status();
        if ready.unwrap().success() {
            return true;
        }
        assert!(Instant::now() < deadline, "it does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A program of PostgreSQL in this directory, as a user that it accepts: it refuses root.
fn program(name: &str, directory: &Path) -> Command {
    let mut command = Command::new(bin().join(name));
    command.current_dir(directory).stdin(Stdio::null());
    command.env("LC_ALL", "C");
    if let Some((user, group)) = unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

/// The directory of the newest version's programs.
fn bin() -> PathBuf {
    let versions = fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let newest = versions
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("initdb").is_file())
        .max_by_key(|bin| version_of(bin));
    newest.unwrap_or_else(|| panic!("no PostgreSQL in {PROGRAMS}: run tests/prepare"))
}

fn version_of(bin: &Path) -> Option<u32> {
    bin.parent()?.file_name()?.to_str()?.parse().ok()
}

/// The user that Debian's package makes, if this process is root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let number = |option: &str| {
        let found = Command::new("id").args([option, "postgres"]).output();
        let text = String::from_utf8(found.unwrap().stdout).unwrap();
        text.trim().parse().expect("the user postgres")
    };
    Some((number("-u"), number("-g")))
}

fn signal(pid: u32, name: &str) {
    assert!(try_signal(pid, name), "kill -{name} {pid}");
}

/// Sends a signal to a process that may be gone; whether it was there.
fn try_signal(pid: u32, name: &str) -> bool {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .stderr(Stdio::null())
        .status();
    sent.unwrap().success()
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).unwrap_or_default()
}
