//! What a store on Redis says of itself: in each partition, written by [`Found::init`], read
//! whenever a service begins. A service that begins never makes a store: a Redis that lost its data
//! looks like one that never had any.

use std::{fmt, sync::Arc, time::Duration};

use redis::Value;

use super::{open_error::OpenError, options::Options};
use crate::store::redis::{
    core::OTHER_CONNECTIONS,
    format::{
        keys::PartitionKeys,
        reply::{Parts, bytes, moment, number, text},
        scripts,
        version::{FORMAT, FORMAT_MIN, FORMAT_READ_MIN},
    },
    link::{checks::check, connect::Connections},
};
use crate::{
    model::Moment,
    store::{
        Durability, StoreError,
        clock::{Clock as _, SystemClock},
    },
};

/// The most partitions of a store.
pub const PARTITIONS_MAX: u32 = 1024;
/// The most connections to a server: Redis takes 10,000 from everybody.
const CONNECTIONS_MAX: usize = 2064;
/// Keys that a look for others' data goes through at a time.
const SCAN_COUNT: usize = 10_000;
/// Real time may lag behind the store's by this much: clocks are set back by a little now and then.
const LAG_MAX: Duration = Duration::from_secs(300);

/// What [`Found::init`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The store's id.
    pub store_id: String,
    /// It was made now; otherwise it was there already.
    pub is_new: bool,
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
    min_reader: Option<u32>,
}

impl Identity {
    /// The lowest format that a version must know to read it.
    fn min_reader(&self) -> u32 {
        self.min_reader.unwrap_or(self.format)
    }
}

/// What Redis holds under the prefix.
enum Held {
    Nothing,
    /// A store whose making was stopped in the middle.
    Unfinished(String),
    Whole(String),
}

/// Redis, checked, and what it holds.
pub struct Found {
    pub(crate) options: Options,
    pub(crate) connections: Connections,
    pub(crate) partitions: Vec<Arc<PartitionKeys>>,
    /// When each partition was last written; nothing before that is its time.
    pub(crate) lasts: Vec<Moment>,
    held: Held,
    /// Of the master keys of all partitions, which is one unless something is wrong.
    fingerprints: Vec<String>,
    /// What was found on Redis that an operator should look at; each has been logged.
    pub(crate) warnings: Vec<String>,
    /// How far the clock of Redis is behind this machine's.
    behind: Duration,
    /// The lowest format of all partitions.
    format: u32,
}

impl Found {
    /// Connects and looks at what is there; changes nothing.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn look(options: Options) -> Result<Self, OpenError> {
        // One for each lane of draws, grabs and new envelopes, and some for everything else.
        let lanes = options.partitions as usize * 6;
        let size = (lanes + OTHER_CONNECTIONS).min(CONNECTIONS_MAX);
        let mut connections = Connections::new(&options.url, size)?;
        if options.durability == Durability::Strict {
            connections = connections.confirming(options.level.ack_replicas);
        }
        let checked = check(&connections, options.durability, SystemClock.now()).await?;
        let numbers = 0..options.partitions;
        let partitions = numbers.map(|number| PartitionKeys::new(&options.prefix, number));
        let mut found = Self {
            partitions: partitions.map(Arc::new).collect(),
            connections,
            options,
            lasts: Vec::new(),
            held: Held::Nothing,
            warnings: checked.warnings,
            fingerprints: Vec::new(),
            behind: Duration::from_micros(checked.skew_micros.min(0).unsigned_abs()),
            format: FORMAT,
        };
        found.survey().await?;
        found.refuse_unexpected()?;
        Ok(found)
    }

    /// The id of the store that is there, whole or not.
    pub fn store_id(&self) -> Option<&str> {
        match &self.held {
            Held::Nothing => None,
            Held::Unfinished(id) | Held::Whole(id) => Some(id),
        }
    }

    /// The lowest format of the store's partitions.
    pub(crate) fn format(&self) -> u32 {
        self.format
    }

    /// The id of the store, which must be whole, of this master key, and of a format that this
    /// version can write.
    pub(crate) fn open(&self, fingerprint: &str) -> Result<String, OpenError> {
        let id = self.whole_id()?;
        self.refuse_other_key(fingerprint)?;
        self.refuse_older_format()?;
        Ok(id)
    }

    /// Data of an older format are upgraded first.
    pub(crate) fn refuse_older_format(&self) -> Result<(), OpenError> {
        if self.format < FORMAT_MIN {
            return Err(OpenError::OlderFormat { found: self.format });
        }
        Ok(())
    }

    /// The id of the store, which must be whole.
    pub(crate) fn whole_id(&self) -> Result<String, OpenError> {
        let id = match &self.held {
            Held::Whole(id) => id.clone(),
            Held::Unfinished(id) => return Err(OpenError::Unfinished { id: id.clone() }),
            Held::Nothing => return Err(self.no_store()),
        };
        Ok(id)
    }

    /// There is no store, so none can be opened.
    pub(crate) fn no_store(&self) -> OpenError {
        OpenError::NoStore {
            prefix: self.options.prefix.as_str().to_owned(),
        }
    }

    /// Makes a store of this master key if there is none; goes on if one was stopped in the middle.
    /// Of several that make one at once, all get the same.
    ///
    /// # Errors
    /// See [`OpenError`]. What was made until then stays, and the next try goes on from there.
    pub async fn init(&mut self, fingerprint: &str) -> Result<Made, OpenError> {
        self.refuse_other_key(fingerprint)?;
        let wanted = match &self.held {
            Held::Whole(id) => {
                return Ok(Made {
                    store_id: id.clone(),
                    is_new: false,
                });
            }
            Held::Unfinished(id) => id.clone(),
            Held::Nothing => format!("{:032x}", rand::random::<u128>()),
        };
        // If several services make it at once, the first partition decides whose id it is.
        let first = self.identify(0, &wanted, fingerprint).await?;
        let id = first.ok_or_else(|| self.unmade(0))?.store_id;
        for number in 1..self.options.partitions {
            let made = self.identify(number, &id, fingerprint).await?;
            if made.is_none_or(|made| made.store_id != id) {
                return Err(self.unmade(number));
            }
        }
        let mut whole = redis::cmd("HSET");
        whole
            .arg(&self.partitions[0].partition)
            .arg("whole")
            .arg("1");
        let first = self.partitions[0].partition.as_ref();
        let written = self.connections.command_on(first, &whole).await;
        written.map_err(|fault| OpenError::fault(self.url(), fault))?;
        self.survey().await?;
        Ok(Made {
            store_id: self.open(fingerprint)?,
            is_new: id == wanted,
        })
    }

    /// Reads what all partitions say of themselves. What contradicts itself is read twice: another
    /// service may have begun to make the store between one partition and the next.
    async fn survey(&mut self) -> Result<(), OpenError> {
        match self.survey_once().await {
            Err(OpenError::Lost { .. } | OpenError::NotOurs { .. }) => self.survey_once().await,
            done => done,
        }
    }

    async fn survey_once(&mut self) -> Result<(), OpenError> {
        let mut identities = Vec::with_capacity(self.partitions.len());
        // The first one is read first: if it says that the store is whole, all others were made
        // before, so one that is missing is lost and not yet to be made.
        for number in 0..self.options.partitions {
            identities.push(self.identify(number, "", "").await?);
        }
        let Some(any) = identities.iter().flatten().next() else {
            self.held = Held::Nothing;
            return self.refuse_foreign_keys().await;
        };
        for identity in identities.iter().flatten() {
            self.refuse_other(identity)?;
        }
        self.refuse_clock_behind(&identities)?;
        let id = any.store_id.clone();
        let is_ours = |identity: &&Identity| identity.store_id == id;
        let ours = identities.iter().flatten().filter(is_ours).count();
        let is_begun = identities[0].as_ref().filter(is_ours);
        self.held = match is_begun {
            Some(first) if !first.is_whole => Held::Unfinished(id),
            Some(_) if ours == identities.len() => Held::Whole(id),
            _ => {
                return Err(OpenError::Lost {
                    lost: identities.len() - ours,
                    partitions: self.options.partitions,
                    id,
                });
            }
        };
        let lasts = identities.iter().flatten().map(|identity| identity.last);
        self.lasts = lasts.collect();
        let formats = identities.iter().flatten().map(Identity::min_reader);
        self.format = formats.min().unwrap_or(FORMAT);
        self.fingerprints = identities
            .into_iter()
            .flatten()
            .map(|identity| identity.fingerprint)
            .collect();
        Ok(())
    }

    /// Reads a partition's identity, which is made with `make` as the store's id where there is
    /// none.
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
        let reply = reply.map_err(|fault| OpenError::fault(self.url(), fault))?;
        read_identity(reply).map_err(|error| self.unreadable(error))
    }

    fn refuse_other(&self, identity: &Identity) -> Result<(), OpenError> {
        let found = identity.min_reader();
        if found > FORMAT {
            return Err(OpenError::NewerFormat { found });
        }
        if found < FORMAT_READ_MIN {
            return Err(OpenError::Format { found });
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
        Ok(())
    }

    fn refuse_other_key(&self, fingerprint: &str) -> Result<(), OpenError> {
        if self.fingerprints.iter().any(|made| made != fingerprint) {
            return Err(OpenError::WrongKey);
        }
        Ok(())
    }

    fn refuse_unexpected(&self) -> Result<(), OpenError> {
        match &self.options.store_id {
            Some(expected) if self.store_id() != Some(&expected.id) => Err(OpenError::OtherStore {
                found: self.store_id().map(str::to_owned),
                expected: expected.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// No partition may have been written much later than it is now.
    fn refuse_clock_behind(&self, identities: &[Option<Identity>]) -> Result<(), OpenError> {
        let (mut time, mut last, mut partitions) = (None, Moment::from_micros(0), Vec::new());
        for (number, identity) in (0..).zip(identities) {
            let Some(identity) = identity else { continue };
            let now = if identity.is_test {
                identity.now
            } else {
                SystemClock.now() - self.behind
            };
            if identity.last.since(now) > LAG_MAX {
                time.get_or_insert(now);
                last = last.max(identity.last);
                partitions.push(number);
            }
        }
        match time {
            Some(now) => Err(OpenError::ClockBehind {
                now,
                last,
                partitions,
            }),
            None => Ok(()),
        }
    }

    /// Without a store, no key may begin as ours do.
    async fn refuse_foreign_keys(&self) -> Result<(), OpenError> {
        let masters = self
            .connections
            .each_master()
            .await
            .map_err(|fault| OpenError::fault(self.url(), fault))?;
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
                    .map_err(|fault| OpenError::fault(self.url(), fault))?;
                let page = read_page(reply).map_err(|error| self.unreadable(error))?;
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

    fn url(&self) -> String {
        self.options.url.to_string()
    }

    fn unreadable(&self, fault: StoreError) -> OpenError {
        OpenError::Fault {
            url: self.url(),
            fault,
            may_pass: false,
        }
    }

    fn unmade(&self, number: u32) -> OpenError {
        let key = String::from_utf8_lossy(&self.partitions[number as usize].partition);
        self.unreadable(StoreError::corrupt(format!(
            "{key} was not made part of the store; remove it if nothing was ever served from it, \
             then try again"
        )))
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found")
            .field("id", &self.store_id())
            .finish_non_exhaustive()
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
        is_whole: !matches!(parts.maybe_next(), None | Some(Value::Nil)),
        min_reader: match parts.maybe_next() {
            None | Some(Value::Nil) => None,
            Some(format) => Some(number(format)?),
        },
    }))
}

/// The cursor of a page of `SCAN`, and one of its keys.
fn read_page(reply: Value) -> Result<(String, Option<String>), StoreError> {
    let mut parts = Parts::of(reply)?;
    let cursor = text(parts.next()?)?;
    let mut keys = Parts::of(parts.next()?)?;
    let key = keys.maybe_next().map(bytes).transpose()?;
    Ok((
        cursor,
        key.map(|key| String::from_utf8_lossy(&key).into_owned()),
    ))
}
