//! What a store on Redis says of itself: in each partition, written when it is first initialised, read whenever a service begins.

use std::{sync::Arc, time::Duration};

use redis::Value;
use thiserror::Error;
use tracing::info;

use super::{
    checks::{CheckError, check},
    connect::Connections,
    keys::{KeyPrefix, PartitionKeys},
    level::LevelOptions,
    pool::SetupError,
    reply::{Parts, moment, number, text},
    scripts,
    url::RedisUrl,
};
use crate::{
    model::Moment,
    store::{
        Durability, StoreError,
        clock::{Clock, SystemClock},
    },
};

/// How the data are laid out: changed whenever keys or values are, so that no service takes one for the other.
const FORMAT: u32 = 2;
/// The most partitions of a store.
pub const PARTITIONS_MAX: u32 = 1024;
/// The most connections to a server: Redis takes 10,000 from everybody.
const CONNECTIONS_MAX: usize = 2064;
/// Keys that a look for others' data goes through at a time.
const SCAN_COUNT: usize = 10_000;
/// Real time may lag behind the store's by this much: clocks are set back by a little now and then.
const LAG_MAX: Duration = Duration::from_secs(300);

/// How a store on Redis is opened.
#[derive(Clone)]
pub struct Options {
    /// Where Redis is.
    pub url: RedisUrl,
    /// What all keys begin with.
    pub prefix: KeyPrefix,
    /// Into how many partitions the store is divided; fixed when it is first initialised.
    pub partitions: u32,
    /// What is promised of an acknowledged draw.
    pub durability: Durability,
    /// How that is kept.
    pub level: LevelOptions,
    /// A test clock instead of that of Redis.
    pub clock: Option<Arc<dyn Clock>>,
    /// How long request ids are remembered.
    pub request_memory: Duration,
    /// The store that is expected, where one is.
    pub store_id: Option<String>,
}

/// Why a store on Redis was not opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The connections cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Redis cannot be used as it is set.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// Redis cannot be reached or used.
    #[error("{}", fault_text(.url, .fault))]
    Fault {
        /// Where, without its password.
        url: String,
        /// Why.
        fault: StoreError,
    },
    /// The data are laid out in another way.
    #[error(
        "the data in Redis are of format {found}, and this tombola works with format {FORMAT}: run the version that made them, or          begin anew with another --redis-prefix"
    )]
    Format {
        /// Of the store.
        found: u32,
    },
    /// The number of partitions is another one.
    #[error(
        "the store in Redis has {found} partitions, not {given}: the number is fixed when a store is made, so start with \
         --partitions {found}"
    )]
    Partitions {
        /// Of the store.
        found: u32,
        /// What was asked for.
        given: u32,
    },
    /// The master key is not the one that the store was made with.
    #[error(
        "the master key is not the one that the store in Redis was made with: its seeds could not be told any more; use \
         the key file that all other services of this store use"
    )]
    WrongKey,
    /// The store was made on a test clock and is opened on the real one, or the other way round.
    #[error("{}", test_clock_text(*.0))]
    TestClock(bool),
    /// Some partitions are there, others are not.
    #[error(
        "the store {id} in Redis has lost {lost} of its {partitions} partitions: a node was restarted without its data; \
         restore them, then start again"
    )]
    Lost {
        /// Of the store.
        id: String,
        /// Partitions that are not there.
        lost: usize,
        /// All partitions.
        partitions: u32,
    },
    /// Another store than the one that is expected.
    #[error("{}", other_store_text(.found.as_deref(), .expected))]
    OtherStore {
        /// What is there.
        found: Option<String>,
        /// What `--store-id` says.
        expected: String,
    },
    /// The prefix is used by someone else.
    #[error(
        "there are keys in Redis that begin with `{prefix}{{`, like `{key}`, but no tombola store: they are someone else's, or \
         what was left of a store; choose another --redis-prefix, or remove them"
    )]
    NotOurs {
        /// The prefix.
        prefix: String,
        /// One of the keys.
        key: String,
    },
    /// The real time is far behind that of the last entry.
    #[error(
        "the clock of Redis shows {now}, but the data was last written at {last}: set the clock of its machine right"
    )]
    ClockBehind {
        /// The clock.
        now: Moment,
        /// The last entry.
        last: Moment,
    },
}

impl OpenError {
    /// Redis is not there, or cannot do its work now: the same may succeed later.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Fault { fault, .. } => matches!(fault, StoreError::Unavailable { .. }),
            Self::Check(CheckError::Fault(_)) => true,
            _ => false,
        }
    }
}

/// There is no request yet that could be retried.
fn fault_text(url: &str, fault: &StoreError) -> String {
    match fault {
        StoreError::Unavailable { detail, .. } => detail.clone(),
        StoreError::Corrupt(detail) => format!("the store in Redis cannot be read: {detail}"),
        other => format!("Redis at {url} cannot be used: {other}"),
    }
}

fn test_clock_text(data_is_test: bool) -> &'static str {
    if data_is_test {
        "the store in Redis was made on a TEST clock: go on with --clock-start, or choose another --redis-prefix"
    } else {
        "the store in Redis is real, a TEST clock would spoil it: choose another --redis-prefix, or leave --clock-start out"
    }
}

fn other_store_text(found: Option<&str>, expected: &str) -> String {
    match found {
        Some(found) => format!(
            "Redis holds the store {found}, but --store-id expects {expected}: check --redis-url and --redis-prefix"
        ),
        None => format!(
            "Redis holds no store, but --store-id expects {expected}: its data are lost, or --redis-url or --redis-prefix is \
             wrong; restore the data, or leave --store-id out to begin anew"
        ),
    }
}

/// What a partition says of itself.
struct Identity {
    store_id: String,
    format: u32,
    partitions: u32,
    fingerprint: String,
    is_test: bool,
    last: Moment,
    now: Moment,
    is_whole: bool,
}

/// Redis, checked, with a store that is there or can be made.
pub struct Found {
    pub(super) options: Options,
    pub(super) connections: Connections,
    pub(super) partitions: Vec<Arc<PartitionKeys>>,
    identity: Option<Identity>,
}

impl Found {
    /// Connects and looks at what is there; changes nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn look(options: Options) -> Result<Self, OpenError> {
        // One for each lane of draws and grabs, and some for everything else.
        let size = (options.partitions as usize * 4 + 32).min(CONNECTIONS_MAX);
        let mut connections = Connections::new(&options.url, size)?;
        if options.durability == Durability::Strict {
            connections = connections.confirming(options.level.ack_replicas);
        }
        check(&connections, options.durability, SystemClock.now()).await?;
        let numbers = 0..options.partitions;
        let partitions = numbers.map(|number| PartitionKeys::new(&options.prefix, number));
        let mut found = Self {
            partitions: partitions.map(Arc::new).collect(),
            connections,
            identity: None,
            options,
        };
        found.identity = found.identify(0, "", "").await?;
        if found.identity.is_none()
            && let Err(foreign) = found.refuse_foreign_keys().await
        {
            // Another service that begins just now may have made the store since.
            found.identity = found.identify(0, "", "").await?;
            if found.identity.is_none() {
                return Err(foreign);
            }
        }
        if let Some(identity) = &found.identity {
            found.refuse_other(identity)?;
        }
        let id = found
            .identity
            .as_ref()
            .map(|identity| identity.store_id.clone());
        if let Some(expected) = &found.options.store_id
            && id.as_ref() != Some(expected)
        {
            return Err(OpenError::OtherStore {
                found: id,
                expected: expected.clone(),
            });
        }
        Ok(found)
    }

    /// There is a store already.
    pub fn has_data(&self) -> bool {
        self.identity.is_some()
    }

    /// Makes the store where there is none, and reads its id.
    pub(super) async fn open(&self, fingerprint: &str) -> Result<String, OpenError> {
        let wanted = match &self.identity {
            Some(identity) => identity.store_id.clone(),
            None => format!("{:032x}", rand::random::<u128>()),
        };
        let is_whole = self
            .identity
            .as_ref()
            .is_some_and(|identity| identity.is_whole);
        // Where several services begin at once, the first partition decides whose id it is.
        let first = self.identify(0, &wanted, fingerprint).await?;
        let first = first.ok_or_else(|| self.unexpected())?;
        self.refuse_other(&first)?;
        if first.fingerprint != fingerprint {
            return Err(OpenError::WrongKey);
        }
        let id = first.store_id;
        let mut lost = 0;
        for number in 1..self.options.partitions {
            // A partition is made only while the whole store is being made.
            let make = if is_whole { "" } else { id.as_str() };
            let found = self.identify(number, make, fingerprint).await?;
            lost += usize::from(found.is_none_or(|found| found.store_id != id));
        }
        if lost > 0 {
            return Err(OpenError::Lost {
                id,
                lost,
                partitions: self.options.partitions,
            });
        }
        if !is_whole {
            let first = &self.partitions[0].partition;
            let mut command = redis::cmd("HSET");
            command.arg(first).arg("whole").arg("1");
            self.connections
                .command_on(first.as_ref(), &command)
                .await
                .map_err(|fault| self.fault(fault.into()))?;
            info!(store = %id, "made the store {id} in Redis");
        }
        Ok(id)
    }

    /// Reads a partition's identity, which is made with `make` as the store's id where there is none.
    async fn identify(
        &self,
        number: u32,
        make: &str,
        fingerprint: &str,
    ) -> Result<Option<Identity>, OpenError> {
        let keys = [self.partitions[number as usize].partition.clone()];
        let clock = self.options.clock.as_ref();
        let now = clock.map_or_else(String::new, |clock| format!("={}", clock.now().as_micros()));
        let is_test = if clock.is_some() { "1" } else { "0" };
        let args: Vec<Vec<u8>> = vec![
            now.into(),
            make.into(),
            self.options.partitions.to_string().into(),
            fingerprint.into(),
            is_test.into(),
            FORMAT.to_string().into(),
        ];
        let reply = self
            .connections
            .write(&scripts::IDENTIFY, &keys.into(), &args.into())
            .await;
        let reply = reply.map_err(|fault| self.fault(fault.into()))?;
        read_identity(reply).map_err(|error| self.fault(error))
    }

    fn refuse_other(&self, identity: &Identity) -> Result<(), OpenError> {
        if identity.format != FORMAT {
            return Err(OpenError::Format {
                found: identity.format,
            });
        }
        if identity.partitions != self.options.partitions {
            return Err(OpenError::Partitions {
                found: identity.partitions,
                given: self.options.partitions,
            });
        }
        if identity.is_test != self.options.clock.is_some() {
            return Err(OpenError::TestClock(identity.is_test));
        }
        let time = if identity.is_test {
            identity.now
        } else {
            SystemClock.now().min(identity.now)
        };
        if identity.last.since(time) > LAG_MAX {
            return Err(OpenError::ClockBehind {
                now: time,
                last: identity.last,
            });
        }
        Ok(())
    }

    /// Where there is no store, no key may begin as ours do.
    async fn refuse_foreign_keys(&self) -> Result<(), OpenError> {
        let masters = self
            .connections
            .each_master()
            .await
            .map_err(|fault| self.fault(fault.into()))?;
        for master in masters {
            let mut cursor = "0".to_owned();
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(&cursor)
                    .arg("MATCH")
                    .arg(self.options.prefix.pattern());
                scan.arg("COUNT").arg(SCAN_COUNT);
                let reply = master
                    .command(&scan)
                    .await
                    .map_err(|fault| self.fault(fault.into()))?;
                let page = read_page(reply).map_err(|error| self.fault(error))?;
                if let Some(key) = page.1 {
                    let prefix = self.options.prefix.as_str().to_owned();
                    return Err(OpenError::NotOurs { prefix, key });
                }
                cursor = page.0;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    fn fault(&self, fault: StoreError) -> OpenError {
        OpenError::Fault {
            url: self.options.url.to_string(),
            fault,
        }
    }

    fn unexpected(&self) -> OpenError {
        self.fault(StoreError::Corrupt(
            "the first partition could not be made".into(),
        ))
    }
}

fn read_identity(reply: Value) -> Result<Option<Identity>, StoreError> {
    let mut parts = Parts::of(reply)?;
    let now = moment(parts.next()?)?;
    // A list of Lua ends before its first nil, so an identity that is not there is a short one.
    let Some(store_id) = parts
        .maybe_next()
        .filter(|value| !matches!(value, Value::Nil))
    else {
        return Ok(None);
    };
    Ok(Some(Identity {
        store_id: text(store_id)?,
        // The first one had no number.
        format: match parts.next()? {
            Value::Nil => 1,
            format => number(format)?,
        },
        partitions: number(parts.next()?)?,
        fingerprint: text(parts.next()?)?,
        is_test: number::<u8>(parts.next()?)? == 1,
        last: moment(parts.next()?)?,
        now,
        is_whole: parts
            .maybe_next()
            .is_some_and(|value| !matches!(value, Value::Nil)),
    }))
}

/// The cursor of a page of `SCAN`, and one of its keys.
fn read_page(reply: Value) -> Result<(String, Option<String>), StoreError> {
    let mut parts = Parts::of(reply)?;
    let cursor = text(parts.next()?)?;
    let mut keys = Parts::of(parts.next()?)?;
    let key = keys.maybe_next().map(super::reply::bytes).transpose()?;
    Ok((
        cursor,
        key.map(|key| String::from_utf8_lossy(&key).into_owned()),
    ))
}
