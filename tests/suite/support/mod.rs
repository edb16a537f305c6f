//! The test environment: a world to test in, helpers to write tests, and the audit.

pub mod answers;
pub mod audit;
pub mod between;
pub mod capped_wins;
pub mod certificates;
pub mod embedded;
pub mod entry_order;
pub mod envelope_audit;
pub mod envelopes;
pub mod foreign_ids;
pub mod in_memory;
pub mod mount;
pub mod network;
pub mod on_redis;
pub mod patience;
pub mod plain_replicas;
pub mod postgres;
pub mod program;
pub mod redis_group;
pub mod redis_server;
pub mod replicated;
pub mod replicated_cluster;
pub mod sentinels;
pub mod small_disk;
pub mod storm;
pub mod words;
pub mod world;

pub use answers::Answer;
pub use between::Meddler;
pub use envelopes::{EnvelopeWords, Outcome, envelope, envelope_id};
pub use patience::patiently;
pub use storm::Storm;
pub use words::{
    DrawWords, all_of, at, author, bonus, campaign, campaign_id, draw, hours, minutes, request,
    seconds, segments, user, users,
};
pub use world::World;
