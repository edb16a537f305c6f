//! Tombola hands out prizes: a user draws, the service answers what was won, and the answer is
//! right under any load, any retry and any crash.
//!
//! The modules are layers, and each may use only those before it: `model` < `chance` < `store` <
//! `injector`, `ledger` < `grpc`, `simulation` < `admin`, `console` < `cli`. Any may report to
//! `metrics` and `trace` and use `tls`, `password`, `cache` and `ending`, which use no layer.
//!
//! | layer | contents | must not know |
//! |---|---|---|
//! | [`model`] | validated types: campaign, envelope, plan, limits, ids, money | I/O, clocks, randomness |
//! | [`chance`] | seeds, scatter, decks, splits: pure functions of a seed | I/O, clocks, libraries' shuffles |
//! | [`store`] | atomic operations on durable state | gRPC, seeds |
//! | [`injector`] | fills pools from plans: windows, cron, draws and grabs that need a fill | gRPC |
//! | [`ledger`] | settles entries into PostgreSQL, each exactly once | gRPC, seeds |
//! | [`grpc`] | services, and the only map from errors to statuses | SQL |
//! | [`simulation`] | plays a campaign through before its first draw | gRPC, SQL |
//! | [`admin`] | probes and metrics over HTTP | stores |
//! | [`console`] | pages for operators | stores, ledgers |
//! | [`cli`] | a file for each subcommand | how a draw is made |
//! | [`tls`] | certificates and handshakes | what callers may do |
//! | [`password`] | passwords in files | whose they are |
//! | [`metrics`] | what the service counts and measures | the layers |
//! | [`trace`] | spans of calls and batches, and their export | the layers |

pub mod admin;
mod cache;
pub mod chance;
pub mod cli;
pub mod console;
mod ending;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod grpc;
pub mod injector;
pub mod ledger;
mod lock_file;
pub mod metrics;
pub mod model;
pub mod password;
pub mod proto;
pub mod simulation;
pub mod store;
pub mod tls;
pub mod trace;

/// A digest of the sources of this build, in 16 hexadecimal digits. Programs with the
/// same id have the same messages, options and behaviour.
pub const BUILD_ID: &str = env!("TOMBOLA_BUILD_ID");

/// What `--version` prints after the program's name: the version, and the build id on a line of its
/// own.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbuild ",
    env!("TOMBOLA_BUILD_ID")
);
