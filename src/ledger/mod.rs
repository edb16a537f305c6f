//! The ledger's way out of the store: entries are *settled*, that is written to a sink in order,
//! each exactly once, and then given up by the store.
//!
//! [`settle`] takes one batch of a partition from the store to the sink, if [`continuity`] finds
//! that it follows what is settled; [`settler`] does so for all partitions until it is stopped, and
//! waits while the sink is away. [`mod@entry`] is the one place that makes and reads the bytes of a
//! stored entry; [`wins`] makes the rows beside them, [`deliveries`] changes these, and
//! [`activity`] sums the draws of each hour; [`sink`] has the places where entries go; [`read`]
//! reads what is settled, and [`follow`] follows it. [`removal`] lets closed campaigns leave the
//! store, of which [`mod@removed`] keeps a row. [`audit`] recomputes the promises from entries, and
//! [`mod@chain`] is their digest; [`forget`] erases what names a user, and [`mod@lost`] finds what
//! the store has lost. Nothing here knows gRPC or seeds, and draws never wait for it.

pub mod activity;
pub mod audit;
pub mod chain;
mod continuity;
pub mod contradiction;
pub mod deliveries;
pub mod entry;
pub mod follow;
pub mod forget;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub mod lost;
pub mod memory;
mod people;
pub mod read;
pub mod removal;
pub mod removed;
mod said;
pub mod settle;
pub mod settler;
pub mod sink;
pub mod wins;

pub use settler::Settler;
pub use sink::{
    DirectorySink, DirectoryTarget, PostgresSink, PostgresUrl, Sink, SinkError, SqliteSink, Target,
};
