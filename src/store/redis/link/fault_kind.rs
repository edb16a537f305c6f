//! The kinds of faults of Redis: how the driver's errors are sorted, what follows from each kind,
//! and what an operator can do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::url::{RedisUrl, Topology};

/// What is wrong with Redis or the connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No connection can be made.
    Unreachable,
    /// The connection broke.
    Lost,
    /// No answer came in time.
    TimedOut,
    /// All connections are in use.
    NoConnectionFree,
    /// User or password are wrong or missing.
    Password,
    /// The user may not do this.
    Permission,
    /// There is no such database.
    Database,
    /// One side speaks TLS, the other does not, or the certificate is not trusted.
    Tls,
    /// Sentinel knows no such master, or it is down.
    NoMaster,
    /// The URL's kind is not that of the server: a cluster or none.
    WrongTopology,
    /// Redis cannot write to its disk.
    Disk,
    /// Redis has reached its `maxmemory`.
    Memory,
    /// Redis is still reading its data.
    Loading,
    /// A replica, or a master that was demoted.
    ReadOnly,
    /// Another server became the master while the command ran.
    MasterChanged,
    /// Too few replicas confirmed a write in time.
    Unconfirmed,
    /// Too few replicas are connected for Redis to take writes.
    NoReplicas,
    /// A part of the cluster, or the master of a replica, is down.
    ClusterDown,
    /// A script or function, ours or not, runs for too long.
    Busy,
    /// The server does not know the script.
    UnknownScript,
    /// The keys of one command are not in one slot of the cluster.
    CrossSlot,
    /// A key has another type than the one that we wrote.
    WrongType,
    /// A script of ours failed.
    Script,
    /// An answer that is not in the protocol of Redis.
    Protocol,
    /// Any other error of Redis.
    Other,
}

/// What follows from a fault for the caller of a command.
#[derive(PartialEq, Eq)]
enum Consequence {
    SpoilsConnection,
    NothingDone,
    MasterInDoubt,
}

impl FaultKind {
    /// The kind of a driver's error.
    pub(crate) fn of(error: &RedisError, url: &RedisUrl) -> Self {
        sort(error, url)
    }

    /// The next command is better sent over another connection.
    pub(crate) fn spoils_connection(self) -> bool {
        self.consequences().contains(&Consequence::SpoilsConnection)
    }

    /// The command, or the script, has written nothing. Redis reports such a fault before it runs a
    /// command, or a script's first write: our scripts check the type of each key before they
    /// write, and write the one key first that they do not check.
    pub(crate) fn is_refusal(self) -> bool {
        self.consequences().contains(&Consequence::NothingDone)
    }

    /// Another server may be the master by now.
    pub(crate) fn doubts_master(self) -> bool {
        self.consequences().contains(&Consequence::MasterInDoubt)
    }

    fn consequences(self) -> &'static [Consequence] {
        use Consequence::{MasterInDoubt, NothingDone, SpoilsConnection};
        match self {
            Self::Unreachable
            | Self::NoMaster
            | Self::WrongTopology
            | Self::Loading
            | Self::ReadOnly
            | Self::ClusterDown => &[SpoilsConnection, NothingDone, MasterInDoubt],
            Self::Lost | Self::TimedOut | Self::MasterChanged | Self::Unconfirmed => {
                &[SpoilsConnection, MasterInDoubt]
            }
            Self::Password | Self::Tls => &[SpoilsConnection, NothingDone],
            Self::Protocol => &[SpoilsConnection],
            Self::NoConnectionFree
            | Self::Permission
            | Self::Database
            | Self::Disk
            | Self::Memory
            | Self::NoReplicas
            | Self::Busy
            | Self::UnknownScript
            | Self::CrossSlot
            | Self::WrongType => &[NothingDone],
            Self::Script | Self::Other => &[],
        }
    }

    /// What is wrong and what to do, without the text that Redis sent.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "cannot be reached: check that it runs, the URL's host and port, and what lies \
                 between"
            }
            Self::Lost => {
                "broke the connection: it may have been stopped or have crashed, see its log"
            }
            Self::TimedOut => {
                "did not answer in time: it may hang, its disk may be slow, or the network may \
                 drop packets; see `SLOWLOG GET` and its log"
            }
            Self::NoConnectionFree => {
                "is slow: all connections to it have been in use for too long; see `SLOWLOG GET` \
                 and `LATENCY DOCTOR`"
            }
            Self::Password => {
                "refuses the user or password: write the right ones into the URL, user:password@ \
                 (or :password@ for the default user), or the password into the file of \
                 --redis-password-file; those of sentinels follow as ?sentinel=user:password"
            }
            Self::Permission => {
                "does not permit this to the URL's user: permit it, `ACL SETUSER <user> ~* +@all \
                 -@admin -@dangerous +info +config|get`"
            }
            Self::Database => {
                "has no such database: name another one at the URL's end, `/0` is always there"
            }
            Self::Tls => {
                "and the URL do not agree on TLS: rediss:// if the server speaks TLS, redis:// if \
                 it does not; name the CA that signed its certificate with ?ca=FILE, write the \
                 host as the certificate has it, and name a certificate that the server accepts \
                 with ?cert=FILE&key=FILE if it asks for one"
            }
            Self::NoMaster => {
                "is not known to the sentinels as a master that is up: check the master's name in \
                 the URL (`SENTINEL MASTERS` lists them), or wait for the failover"
            }
            Self::WrongTopology => {
                "is of another kind than the URL says: redis+cluster:// for a cluster, redis:// \
                 for a server that is in none"
            }
            Self::Disk => {
                "cannot write to its disk: make room there or repair it, then see `INFO \
                 persistence`"
            }
            Self::Memory => {
                "has reached its memory limit: raise it with `CONFIG SET maxmemory <bytes>`; \
                 nothing was evicted, nothing is lost"
            }
            Self::Loading => "is still loading its data after a start: wait until it is done",
            Self::ReadOnly => "is a replica: name its master in the URL, or use redis+sentinel://",
            Self::MasterChanged => {
                "has another master now: what was under way at the old one may be lost"
            }
            Self::Unconfirmed => {
                "wrote, but too few replicas confirmed it in time: check that they run and keep \
                 up, see `INFO replication`"
            }
            Self::NoReplicas => {
                "takes no writes while too few replicas are connected (--durability strict, \
                 min-replicas-to-write): bring them back"
            }
            Self::ClusterDown => {
                "is down in part: see `CLUSTER INFO` and `CLUSTER NODES`, bring the missing nodes \
                 back or wait for the failover"
            }
            Self::Busy => {
                "is busy with a script or function that runs for too long: see `SCRIPT KILL` and \
                 `FUNCTION KILL`"
            }
            Self::UnknownScript => "does not know the script that it was given a moment ago",
            Self::CrossSlot => {
                "was sent keys that do not lie together: a fault of this program, report it"
            }
            Self::WrongType => {
                "holds a wrong type under a key of ours: someone else writes to it, give tombola a \
                 database or key prefix of its own"
            }
            Self::Script => "failed in a script of ours",
            Self::Protocol => {
                "gives answers that are none: check that the URL leads to a Redis server"
            }
            Self::Other => "refuses the command",
        }
    }
}

fn sort(error: &RedisError, url: &RedisUrl) -> FaultKind {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::AuthenticationFailed => FaultKind::Password,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => FaultKind::Protocol,
        ErrorKind::Server(ServerErrorKind::ResponseError) if text.contains("switch database") => {
            FaultKind::Database
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            sort_reply(error.code().unwrap_or_default(), &text, url)
        }
        ErrorKind::Io | ErrorKind::Client => sort_io(error, &text, url),
        _ => FaultKind::Other,
    }
}

/// The driver gives the reason of such an error only in its text.
fn sort_io(error: &RedisError, text: &str, url: &RedisUrl) -> FaultKind {
    let words_of_tls = ["certificate", "corrupt message", "fatal alert", "tls"];
    if url.tls && words_of_tls.iter().any(|word| text.contains(word)) {
        FaultKind::Tls
    } else if text.contains("cluster support disabled") {
        FaultKind::WrongTopology
    } else if text.contains("AuthenticationFailed") || text.contains("NOAUTH") {
        FaultKind::Password
    } else if error.is_timeout() || text.contains("timed out") {
        FaultKind::TimedOut
    } else if ["refused", "lookup", "unreachable"]
        .iter()
        .any(|word| text.contains(word))
    {
        FaultKind::Unreachable
    } else {
        FaultKind::Lost
    }
}

/// Sorts by the reply's code. Redis before 7.0 wraps the error of a script's command into an `ERR`
/// that names the script's line.
fn sort_reply(code: &str, text: &str, url: &RedisUrl) -> FaultKind {
    let from_script = text.contains("user_script");
    let inner = if code == "ERR" && from_script {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        words.map(by_code).find(Option::is_some).flatten()
    } else {
        by_code(code)
    };
    match inner {
        Some(FaultKind::WrongTopology) if matches!(url.topology, Topology::Cluster(_)) => {
            FaultKind::ClusterDown
        }
        Some(kind) => kind,
        None if text.contains("can't run this command") => FaultKind::Permission,
        None if text.contains("cluster support disabled") => FaultKind::WrongTopology,
        None if text.contains("Script killed by user") => FaultKind::Busy,
        None if from_script => FaultKind::Script,
        None => FaultKind::Other,
    }
}

fn by_code(code: &str) -> Option<FaultKind> {
    Some(match code {
        "WRONGPASS" | "NOAUTH" => FaultKind::Password,
        "NOPERM" => FaultKind::Permission,
        "MISCONF" => FaultKind::Disk,
        "OOM" => FaultKind::Memory,
        "LOADING" => FaultKind::Loading,
        "READONLY" => FaultKind::ReadOnly,
        "NOREPLICAS" => FaultKind::NoReplicas,
        "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" => FaultKind::ClusterDown,
        "MOVED" | "ASK" => FaultKind::WrongTopology,
        "CROSSSLOT" => FaultKind::CrossSlot,
        "BUSY" => FaultKind::Busy,
        "NOSCRIPT" => FaultKind::UnknownScript,
        "WRONGTYPE" => FaultKind::WrongType,
        _ => return None,
    })
}
