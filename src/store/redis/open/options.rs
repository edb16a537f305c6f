//! How a store on Redis is opened.

use std::{sync::Arc, time::Duration};

use crate::store::{
    Durability,
    clock::Clock,
    redis::{format::keys::KeyPrefix, level::LevelOptions, link::url::RedisUrl},
};

/// How a store on Redis is opened.
#[derive(Clone)]
pub struct Options {
    /// The URL of Redis.
    pub url: RedisUrl,
    /// What all keys begin with.
    pub prefix: KeyPrefix,
    /// Into how many partitions the store is divided; fixed when it is made.
    pub partitions: u32,
    /// The durability level that is promised.
    pub durability: Durability,
    /// The options of that level.
    pub level: LevelOptions,
    /// A test clock instead of that of Redis.
    pub clock: Option<Arc<dyn Clock>>,
    /// How long request ids are remembered.
    pub request_memory: Duration,
    /// How long a fork waits before it takes writes, so that all running services can send their
    /// witnesses: two seconds, except in tests.
    pub fork_pause: Duration,
    /// The store that is expected, if any.
    pub store_id: Option<Expected>,
}

/// The store that Redis should hold, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its id.
    pub id: String,
    /// For messages: an option or a file.
    pub source: String,
}
