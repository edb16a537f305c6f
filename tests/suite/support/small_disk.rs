//! A disk that tests can fill.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// A disk of its own size, in memory. It is removed when this is dropped.
pub struct SmallDisk {
    holder: Child,
    mount: TempDir,
    owner: Option<(u32, u32)>,
}

impl SmallDisk {
    /// Mounts it in a namespace that only the holder process, and commands run through it, can see.
    pub fn of_mib(mib: u32) -> Self {
        Self::owned(mib, None)
    }

    /// The same for a user and a group, who also see it by its [path](Self::path); none is the user
    /// of this process.
    pub fn owned(mib: u32, owner: Option<(u32, u32)>) -> Self {
        const MOUNT: &str = r#"mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@""#;
        const HOLD: [&str; 3] = ["sh", "-c", "echo mounted && exec cat"];
        let mount = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command.args(new_namespaces());
        command.args(["sh", "-c", MOUNT, "sh"]);
        if let Some((user, group)) = owner {
            command.arg(format!("size={mib}m,uid={user},gid={group},mode=0700"));
            command.arg(mount.path()).arg("setpriv");
            command.args([format!("--reuid={user}"), format!("--regid={group}")]);
            command.arg("--clear-groups");
        } else {
            command.arg(format!("size={mib}m")).arg(mount.path());
        }
        let command = command
            .args(HOLD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(holder.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "mounted\n", "a disk cannot be mounted here");
        Self {
            holder,
            mount,
            owner,
        }
    }

    /// The process in whose namespace it is mounted.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Where it is mounted in that namespace.
    pub fn mount(&self) -> &Path {
        self.mount.path()
    }

    /// Its path for processes of its owner outside that namespace.
    pub fn path(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.mount.path().strip_prefix("/").unwrap())
    }

    /// Fills it to the last byte with a file of this name.
    pub fn fill(&self, name: &str) {
        let filled = self.shell(r#"! cat /dev/zero > "$1""#, name);
        assert!(filled, "it is never full");
    }

    /// Removes a file that has filled it.
    pub fn remove(&self, name: &str) {
        assert!(self.shell(r#"rm "$1""#, name), "{name} is not there");
    }

    /// Runs a script on a file as the owner; whether it went well.
    fn shell(&self, script: &str, name: &str) -> bool {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(self.path().join(name));
        command.current_dir("/").stderr(Stdio::null());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.status().unwrap().success()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

/// Root can mount; any other user only as the root of a user namespace.
fn new_namespaces() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    }
}
