//! A child process of the bench, and what the operating system knows about it. It is killed when
//! its value is dropped. It is in a process group of its own: a Ctrl-C reaches only the bench,
//! which then stops its children in order.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use crate::failure::{Failure, Outcome};

/// How long a process may take until it is ready.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a process may take to end at once.
const QUIT_TIME_MAX: Duration = Duration::from_secs(10);
/// How often its log is read meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The number of log lines that a failure shows.
const LOG_LINES_SHOWN: usize = 12;
/// The unit of times in `/proc/PID/stat`: a hundredth of a second on current Linux systems.
const TICK: Duration = Duration::from_millis(10);

/// A child process whose output goes to a file.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// A command without the caller's `TOMBOLA_` variables, so that it uses only the store that the
    /// bench names.
    pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("TOMBOLA_") {
                command.env_remove(variable);
            }
        }
        command
    }

    /// Starts a command; its output goes to the file `log`.
    pub(crate) fn spawn(name: &str, command: &mut Command, log: &Path) -> io::Result<Self> {
        let file = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()?;
        Ok(Self {
            child,
            name: name.into(),
            log: log.into(),
        })
    }

    /// Waits until `found` returns a value for the log.
    pub(crate) async fn wait_for<T>(&mut self, found: impl Fn(&str) -> Option<T>) -> Outcome<T> {
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            if let Some(found) = found(&self.said()) {
                return Ok(found);
            }
            let ended = self.has_ended();
            if ended || Instant::now() > deadline {
                let how = if ended { "ended" } else { "is not ready" };
                return Err(self.failed(how));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// A failure with the last lines of the log.
    pub(crate) fn failed(&self, how: &str) -> Box<Failure> {
        let last = self.last_lines("\n  ");
        let message = format!("{} {how}. It said:\n  {last}", self.name);
        Failure::refused("PROCESS_FAILED", message)
    }

    /// The last lines of its log, with this between them.
    pub(crate) fn last_lines(&self, between: &str) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join(between)
    }

    /// The whole log.
    fn said(&self) -> String {
        fs::read(&self.log).map_or_else(
            |_| String::new(),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// Asks it to stop, and waits until it has ended.
    pub(crate) async fn stop(&mut self) -> Outcome {
        let sent = self.signal(Signal::TERM);
        let deadline = Instant::now() + START_TIME_MAX;
        while !self.has_ended() {
            if Instant::now() > deadline || sent.is_err() {
                return Err(self.failed("does not stop"));
            }
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    /// Ends it at once with SIGQUIT, by which some servers also end their children and release what
    /// would outlive them.
    pub(crate) fn quit(&mut self) {
        // Without the signal it does not end now; it is killed when it is dropped.
        drop(self.signal(Signal::QUIT));
        let deadline = Instant::now() + QUIT_TIME_MAX;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // The number of a process that has ended may be that of another one by now.
        if self.has_ended() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), signal).map_err(io::Error::from)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It ended with a failure.
    pub(crate) async fn finish(&mut self) -> Outcome {
        loop {
            match self.child.try_wait() {
                Ok(None) => sleep(LOOK_INTERVAL).await,
                Ok(Some(status)) if status.success() => return Ok(()),
                _ => return Err(self.failed("failed")),
            }
        }
    }

    /// The lines of its log that contain this word.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<String> {
        let said = self.said();
        let lines = said.lines().filter(|line| line.contains(word));
        lines.map(str::to_owned).collect()
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time so far; none if the system does not give it.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        Some(Stat::of(&self.child.id().to_string())?.own)
    }

    /// Processor time so far of it and of all its children, which have none themselves.
    pub(crate) fn cpu_with_children(&self) -> Option<Duration> {
        let pid = self.child.id();
        let this = Stat::of(&pid.to_string())?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let children = processes
            .filter_map(|process| Stat::of(process.file_name().to_str()?))
            .filter(|stat| stat.parent == pid)
            .map(|stat| stat.own);
        Some(this.own + this.ended_children + children.sum::<Duration>())
    }

    /// Resident memory in bytes; none if the system does not give it.
    pub(crate) fn memory(&self) -> Option<u64> {
        memory_of(self.child.id())
    }
}

/// Resident memory of a process in bytes; none if the system does not give it.
pub(crate) fn memory_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The number of a process's open files; none if the system does not give it.
pub(crate) fn open_files_of(pid: u32) -> Option<u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(files.count() as u64)
}

/// What the system says of a process.
struct Stat {
    parent: u32,
    /// Its processor time.
    own: Duration,
    /// That of its children that have ended.
    ended_children: Duration,
}

impl Stat {
    /// Of the process with this number; none if there is none, or the system does not say.
    fn of(pid: &str) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The process name before it is in brackets and may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |index: usize| words.get(index)?.parse::<u32>().ok();
        Some(Self {
            parent: number(1)?,
            own: TICK * (number(11)? + number(12)?),
            ended_children: TICK * (number(13)? + number(14)?),
        })
    }
}

/// The failure of a process that did not start.
pub(crate) fn not_started(name: &str, error: &io::Error) -> Box<Failure> {
    Failure::refused("NO_PROCESS", format!("cannot start {name}: {error}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The address in the line with which `serve`, or the empty server, reports that it is ready.
pub(crate) fn serving_address(said: &str) -> Option<String> {
    address_after("serving on ", said)
}

/// The address in the line with which `serve` reports its admin port.
pub(crate) fn admin_address(said: &str) -> Option<String> {
    address_after("probes and metrics on ", said)
}

fn address_after(words: &str, said: &str) -> Option<String> {
    let (_, after) = said.split_once(words)?;
    let (line, _) = after.split_once('\n')?;
    let address = line.split_whitespace().next()?;
    Some(address.trim_end_matches([':', ',']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_off_a_whole_line() {
        let line = "INFO serving on 127.0.0.1:4711: every draw is on disk";
        assert_eq!(serving_address(line), None);
        let address = serving_address(&format!("{line}\n"));
        assert_eq!(address.as_deref(), Some("127.0.0.1:4711"));
        let address = admin_address("INFO probes and metrics on 127.0.0.1:9090 address=…\n");
        assert_eq!(address.as_deref(), Some("127.0.0.1:9090"));
    }
}
