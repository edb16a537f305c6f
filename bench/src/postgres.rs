//! The PostgreSQL into which a service settles its ledger: a server that the bench starts, with
//! PostgreSQL's own settings, so that each batch is on disk before it counts as settled.

use std::{
    fs, io,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    failure::{Failure, Outcome},
    process::Process,
    redis_server::{PORT_ATTEMPTS, directory, free_port},
};

/// Where Debian's packages have the programs, by version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// What the log says once connections are accepted.
const READY: &str = "ready to accept connections";

/// A PostgreSQL server.
pub(crate) struct Postgres {
    /// The URL of its database, with the superuser's password.
    pub(crate) url: String,
    pub(crate) version: String,
    // The process ends before its directory is removed.
    process: Process,
    directory: TempDir,
}

/// A user's and a group's number.
type Owner = (u32, u32);

impl Postgres {
    /// Starts a server with its data in a directory below `parent`, and makes the tables of the
    /// ledger with the server program.
    pub(crate) async fn start(parent: &Path, program: &Path) -> Outcome<Self> {
        let directory = directory(parent)?;
        let path = directory.path();
        let password = format!("{:032x}", rand::random::<u128>());
        let owner = owner()?;
        fs::write(path.join("password"), &password).map_err(|error| failed("initdb", error))?;
        if let Some((user, group)) = owner {
            for file in [path.to_owned(), path.join("password")] {
                chown(file, Some(user), Some(group)).map_err(|error| failed("initdb", error))?;
            }
        }
        let mut initdb = command("initdb", path, owner);
        initdb
            .args(["--pgdata=data", "--username=postgres", "--pwfile=password"])
            .args(["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]);
        output("initdb", &mut initdb)?;
        let version = output(
            "postgres",
            command("postgres", path, owner).arg("--version"),
        )?;
        let (process, port) = Self::launch(path, owner).await?;
        let url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");
        let mut migrate = Process::command(program);
        // Not as an argument: the list of processes shows arguments.
        migrate.arg("migrate").env("TOMBOLA_POSTGRES_URL", &url);
        let server = Self {
            url,
            version: version.trim().into(),
            process,
            directory,
        };
        output("\"tombola migrate\"", &mut migrate)?;
        Ok(server)
    }

    async fn launch(path: &Path, owner: Option<Owner>) -> Outcome<(Process, u16)> {
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port()?;
            let mut server = command("postgres", path, owner);
            server
                .args(["-D", "data", "-p", &port.to_string()])
                .args(["-c", "listen_addresses=127.0.0.1"])
                .args(["-c", "unix_socket_directories="]);
            let mut process = Process::spawn("postgres", &mut server, &path.join("log"))
                .map_err(|error| failed("postgres", error))?;
            let is_ready = |said: &str| said.contains(READY).then_some(());
            match process.wait_for(is_ready).await {
                Ok(()) => return Ok((process, port)),
                Err(failure) if failure.message.contains("in use") => {}
                Err(failure) => return Err(failure),
            }
        }
        let message = format!("postgres found no free port in {PORT_ATTEMPTS} tries");
        Err(Failure::refused("PROCESS_FAILED", message))
    }

    /// The bytes of all files of its databases.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_below(&self.directory.path().join("data/base"))
    }

    /// The processor time of all its processes so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.process.cpu_with_children()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // If its first process is killed, a segment of shared memory stays in the system, and the
        // others may still write to the directory while it is removed.
        self.process.quit();
    }
}

/// The bytes of all files in a directory, which may change meanwhile.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Runs a program to its end; what it printed.
fn output(name: &str, command: &mut Command) -> Outcome<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| failed(name, error))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&stderr);
    let message = format!("{name} ended with {status}: {}", said.trim());
    Err(Failure::refused("PROCESS_FAILED", message))
}

/// A program of PostgreSQL that works in this directory.
fn command(name: &str, path: &Path, owner: Option<Owner>) -> Command {
    let mut command = Process::command(program(name));
    command.current_dir(path).env("LC_ALL", "C");
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command
}

/// The program of the newest package, or the one on the path.
fn program(name: &str) -> PathBuf {
    let packages = fs::read_dir(PACKAGES).into_iter().flatten().flatten();
    let version = |package: &Path| -> Option<u32> { package.file_name()?.to_str()?.parse().ok() };
    packages
        .map(|package| package.path())
        .filter(|package| package.join("bin").join(name).is_file())
        .max_by_key(|package| version(package))
        .map_or_else(|| name.into(), |package| package.join("bin").join(name))
}

/// The user that the package made, if the bench runs as root, for whom PostgreSQL does not start.
fn owner() -> Outcome<Option<Owner>> {
    let number = |arguments: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    if number(&["-u"]) != Some(0) {
        return Ok(None);
    }
    match (number(&["-u", "postgres"]), number(&["-g", "postgres"])) {
        (Some(user), Some(group)) => Ok(Some((user, group))),
        _ => Err(absent("there is no user postgres")),
    }
}

fn failed(name: &str, error: io::Error) -> Box<Failure> {
    match error.kind() {
        io::ErrorKind::NotFound => absent(&format!("there is no {name} to start")),
        _ => Failure::refused("PROCESS_FAILED", format!("cannot start {name}: {error}")),
    }
}

fn absent(what: &str) -> Box<Failure> {
    let message = format!(
        "{what}: install PostgreSQL 14 or later (Debian, Ubuntu: apt install postgresql; macOS: \
         brew install postgresql), or leave out --store redis-settled"
    );
    Failure::refused("NO_POSTGRES", message)
}
