//! Tombola hands out prizes: a user draws, the service answers what was won, and the answer is
//! right under any load, any retry and any crash.
//!
//! The house has floors, and nothing looks up: `model` < `chance` < `store` < `injector` < `grpc` <
//! `cli`.
//!
//! | floor | what it is | what it must never know |
//! |---|---|---|
//! | [`model`] | validated types: campaign, envelope, plan, limits, ids, money | I/O, clocks, randomness |
//! | [`chance`] | seeds, scatter, decks, splits: pure functions of a seed | I/O, clocks, libraries' shuffles |
//! | [`store`] | whole atomic operations on durable state | gRPC, seeds |
//! | [`injector`] | plan to windows to store, the cron, draws and grabs that need a fill | gRPC |
//! | [`grpc`] | services, the one map of statuses | SQL |
//! | [`cli`] | one file a subcommand | how a draw is made |

pub mod chance;
pub mod cli;
pub mod grpc;
pub mod injector;
pub mod model;
pub mod proto;
pub mod store;

/// A digest of the sources that this was built from, in 16 hexadecimal digits. Programs with the
/// same id have the same messages, options and behaviour.
pub const BUILD_ID: &str = env!("TOMBOLA_BUILD_ID");

/// What `--version` prints after the program's name: the version, and the build id on a line of its
/// own.
pub const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nbuild ",
    env!("TOMBOLA_BUILD_ID")
);
