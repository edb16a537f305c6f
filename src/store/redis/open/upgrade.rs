//! Upgrades the format of a store's data, once no service runs any more that reads only an older
//! one.
//!
//! A partition's `min_reader` is the lowest format that a version must know to read it. Every
//! script compares it with its own format, so a service that is too old does nothing. Services note
//! their format with their probes, and the upgrade is refused while an older one is alive.

use super::{identity::Found, open_error::OpenError};
use crate::store::redis::{
    RedisStore,
    format::{
        reply::{self, letter},
        scripts,
        version::FORMAT,
    },
};
use crate::{model::Moment, store::Result};

/// A store on Redis, opened to upgrade its format.
pub struct Upgrade {
    store: RedisStore,
    store_id: String,
    format: u32,
}

/// A service that reads only an older format has probed within the last minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderService {
    /// The format that it reads.
    pub format: u32,
    /// When it probed.
    pub probed_at: Moment,
}

impl Upgrade {
    /// The format that this version reads and writes.
    pub const FORMAT: u32 = FORMAT;

    /// Opens the store that was found; it needs no master key.
    ///
    /// # Errors
    /// There is no store.
    pub fn open(found: Found) -> std::result::Result<Self, OpenError> {
        let (store_id, format) = (found.whole_id()?, found.format());
        Ok(Self {
            store: RedisStore::of(found, store_id.clone(), false),
            store_id,
            format,
        })
    }

    /// The id of the store.
    pub fn store_id(&self) -> &str {
        &self.store_id
    }

    /// The format of its data when it was opened.
    pub fn format(&self) -> u32 {
        self.format
    }

    /// An older service that is alive, if there is any.
    ///
    /// # Errors
    /// Redis cannot be read.
    pub async fn older_service(&self) -> Result<Option<OlderService>> {
        self.run("0").await
    }

    /// Raises the format in every partition, unless an older service is alive: that one is the
    /// result, and no format is raised. If it is cut off in the middle, begin it again.
    ///
    /// # Errors
    /// Redis cannot be read or written.
    pub async fn finish(&self) -> Result<Option<OlderService>> {
        match self.run("0").await? {
            None => self.run("1").await,
            older => Ok(older),
        }
    }

    async fn run(&self, mode: &str) -> Result<Option<OlderService>> {
        let core = &self.store.core;
        for partition in &core.partitions {
            let keys = [partition.partition.clone()];
            let (_, mut parts) = core.run(partition, &scripts::UPGRADE, keys, [mode]).await?;
            if let Some(first) = parts.maybe_next()
                && letter(&first) == Some(b'O')
            {
                return Ok(Some(OlderService {
                    format: reply::number(parts.next()?)?,
                    probed_at: reply::moment(parts.next()?)?,
                }));
            }
        }
        Ok(None)
    }
}
