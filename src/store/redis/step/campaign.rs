//! A campaign as its hash in Redis has it, and what its draws go by: kept by the service for each
//! version, which the scripts check.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::store::redis::{
    core::{Core, letter},
    format::{
        codec,
        keys::{self, CampaignKeys, Key, PartitionKeys, PoolKeys, Queue, Slots, slot},
        reply::{self, Parts, unexpected},
        scripts,
    },
};
use crate::{
    chance::Nonce,
    model::{Campaign, CampaignId, Moment, OperatorId, PoolNo, convert},
    store::{
        CampaignView, Hold, Lifecycle, Refusal, Result, StoreError, rules,
        view::{DrawCounts, VersionInfo},
    },
};

/// A day's list is used up to this long before its end, as the store's clock may be ahead.
const DAYS_MARGIN: std::time::Duration = std::time::Duration::from_secs(3600);
/// The most campaigns, and the most old versions, whose definitions are kept.
const KEPT_MAX: usize = 4096;

/// What the draws of one version of a campaign go by.
pub(crate) struct Layout {
    pub(crate) partition: Arc<PartitionKeys>,
    pub(crate) keys: CampaignKeys,
    pub(crate) campaign: Arc<Campaign>,
    pub(crate) version: u32,
    pub(crate) slots: Slots,
    pub(crate) pools: Vec<PoolKeys>,
    /// For the draw script.
    pub(crate) blob: Vec<u8>,
    days: Mutex<Days>,
}

/// The days that the draw script is told of.
#[derive(Default)]
struct Days {
    from: i64,
    until: i64,
    blob: Vec<u8>,
}

impl Layout {
    pub(crate) fn new(
        partition: &Arc<PartitionKeys>,
        campaign: Arc<Campaign>,
        version: u32,
        slots: Slots,
    ) -> Self {
        let pools = partition.pools(&campaign, &slots);
        Self {
            keys: partition.campaign(&campaign.id),
            blob: codec::encode_layout(&campaign, &pools),
            partition: Arc::clone(partition),
            campaign,
            version,
            slots,
            pools,
            days: Mutex::default(),
        }
    }

    /// The days around a moment, packed for the draw script.
    pub(crate) fn days(&self, now: Moment) -> Vec<u8> {
        let mut days = self.days.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = now.as_micros();
        let margin = DAYS_MARGIN.as_micros() as i64;
        if micros < days.from + margin || micros >= days.until - margin {
            let from = now - DAYS_MARGIN * 2;
            let (blob, until) = codec::encode_days(&self.campaign, from);
            *days = Days {
                from: from.as_micros(),
                until: until.as_micros(),
                blob,
            };
        }
        days.blob.clone()
    }

    /// All queues, pool by pool.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&PoolKeys, &keys::Queue)> {
        let pools = self.pools.iter();
        pools.flat_map(|pool| pool.queues.iter().map(move |queue| (pool, queue)))
    }
}

/// Definitions that the service has read.
#[derive(Default)]
pub(crate) struct Layouts {
    current: RwLock<HashMap<CampaignId, Arc<Layout>>>,
    earlier: RwLock<HashMap<(CampaignId, u32), Arc<Campaign>>>,
}

impl Layouts {
    /// The newest version that is known of a campaign.
    pub(crate) fn get(&self, id: &CampaignId) -> Option<Arc<Layout>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.get(id).cloned()
    }

    pub(crate) fn put(&self, layout: Arc<Layout>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.len() >= KEPT_MAX {
            current.clear();
        }
        current.insert(layout.campaign.id.clone(), layout);
    }

    /// There is no such campaign any more.
    pub(crate) fn forget(&self, id: &CampaignId) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.remove(id);
    }
}

/// The fields of a campaign's hash, or of an envelope's.
pub(crate) struct Fields(BTreeMap<String, Vec<u8>>);

impl Fields {
    /// Of a campaign that is not there.
    pub(crate) fn empty() -> Self {
        Self(BTreeMap::new())
    }

    /// Of a reply of names and values in turn.
    pub(crate) fn of(value: redis::Value) -> Result<Self> {
        let mut parts = Parts::of(value)?;
        let mut fields = BTreeMap::new();
        while let Some(name) = parts.maybe_next() {
            fields.insert(reply::text(name)?, reply::bytes(parts.next()?)?);
        }
        Ok(Self(fields))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        let value = self.0.get(name).map(Vec::as_slice);
        let text = value.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.ok_or_else(|| StoreError::corrupt(format!("there is no field `{name}`")))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        from_json(self.text(name)?.as_bytes())
    }

    /// A field as it is, where it is there.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.text(name)?
            .parse()
            .map_err(|_| StoreError::corrupt(format!("the field `{name}` is no number")))
    }

    /// A counter, 0 where nothing was counted yet.
    pub(crate) fn counter(&self, name: &str) -> Result<u64> {
        if self.0.contains_key(name) {
            self.number(name)
        } else {
            Ok(0)
        }
    }

    /// Units that wait in a queue, or are granted to it and not there yet.
    pub(crate) fn waiting(&self, pool: PoolNo, queue: &Queue) -> Result<u64> {
        self.counter(&format!("waiting:{}:{}", pool.0, slot(queue.prize)))
    }

    pub(crate) fn version(&self) -> Result<u32> {
        self.number("version")
    }

    pub(crate) fn draws(&self) -> Result<DrawCounts> {
        Ok(DrawCounts {
            wins: self.counter("wins")?,
            consolations: self.counter("consolations")?,
            nothings: self.counter("nothings")?,
        })
    }

    /// The campaign as these fields have it, of a version whose definition is known.
    pub(crate) fn view(&self, campaign: Arc<Campaign>) -> Result<CampaignView> {
        let versions: Vec<VersionRow> = self.json("versions")?;
        let versions: Vec<VersionInfo> = versions
            .into_iter()
            .map(VersionRow::read)
            .collect::<Result<_>>()?;
        let held: Vec<crate::model::PrizeNo> = self.json("held")?;
        rules::check_prizes(&campaign, held.iter())?;
        // An older version writes no notes, and checks of limits do not read them.
        let noted: Vec<Hold> = match self.bytes("holds") {
            Some(noted) => from_json(noted)?,
            None => Vec::new(),
        };
        let lifecycle = Lifecycle::from_code(self.number("lifecycle")?)?;
        Ok(CampaignView {
            campaign,
            version: self.version()?,
            lifecycle,
            holds: rules::holds(lifecycle, &held, &noted, None),
            touched: self.text("touched")? == "1",
            paused_prizes: held.into(),
            versions: versions.into(),
            nonce: Nonce(read_hex(self.text("nonce")?)?),
            commitment: self.text("commitment")?.into(),
            blocked_users: self.number("blocked")?,
        })
    }
}

/// A version in the field `versions`.
#[derive(Serialize, Deserialize)]
pub(crate) struct VersionRow(u32, Moment, String, String);

impl VersionRow {
    pub(crate) fn of(info: &VersionInfo) -> Self {
        Self(
            info.version,
            info.at,
            info.operator.as_str().to_owned(),
            info.reason.clone(),
        )
    }

    fn read(self) -> Result<VersionInfo> {
        Ok(VersionInfo {
            version: self.0,
            at: self.1,
            operator: OperatorId::parse("operator", &self.2)
                .map_err(|problem| StoreError::corrupt(problem.message))?,
            reason: self.3,
        })
    }
}

/// A nonce as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn read_hex(text: &str) -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(place * 2..place * 2 + 2);
        let read = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        *byte = read.ok_or_else(|| StoreError::corrupt("a nonce does not read back"))?;
    }
    Ok(bytes)
}

/// A stored text as the value it stands for.
pub(crate) fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| StoreError::corrupt(format!("a stored text does not read back: {error}")))
}

/// A value as stored text.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    // Only maps with keys that are not text fail, and there are none.
    serde_json::to_vec(value).expect("what is stored can be written as JSON")
}

impl Core {
    /// Reads a campaign's fields, and its definition where it is not known yet.
    pub(crate) async fn read(&self, id: &CampaignId) -> Result<(Moment, Fields, Arc<Layout>)> {
        let known = self.layouts.get(id);
        let partition = self.partition(id);
        let keys = partition.campaign(id);
        let version = known.as_ref().map_or(0, |layout| layout.version);
        let all = [partition.partition.clone(), keys.campaign, keys.versions];
        let args = vec![version.to_string().into(), b"0".to_vec()];
        let (now, mut parts) = self.ask(partition, &scripts::LOAD, &all, args).await?;
        let (fields, definition) = self.found_fields(id, &mut parts).await?;
        match (definition, known) {
            (None, Some(layout)) => Ok((now, fields, layout)),
            (Some(definition), _) => {
                let layout = self.learn(&fields, &definition)?;
                Ok((now, fields, layout))
            }
            (None, None) => Err(unexpected("definition")),
        }
    }

    /// What the draws of campaigns go by.
    pub(crate) async fn read_layouts(&self, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        let mut layouts = Vec::with_capacity(ids.len());
        for id in ids {
            layouts.push(self.read(id).await.map(|(.., layout)| layout));
        }
        layouts
    }

    /// The first parts of what the load script replies: fields, and the definition where it is of
    /// another version than the known one.
    pub(crate) fn fields(
        &self,
        id: &CampaignId,
        parts: &mut Parts,
    ) -> Result<(Fields, Option<Vec<u8>>)> {
        let first = parts.next()?;
        if letter(&first).is_some() {
            self.layouts.forget(id);
            return Err(Refusal::CampaignNotFound.into());
        }
        Ok((Fields::of(first)?, reply::maybe_bytes(parts.next()?)?))
    }

    /// Keeps a definition that was read.
    pub(crate) fn learn(&self, fields: &Fields, definition: &[u8]) -> Result<Arc<Layout>> {
        let campaign = decode(definition)?;
        let slots = fields.json("slots")?;
        let partition = self.partition(&campaign.id);
        let layout = Arc::new(Layout::new(partition, campaign, fields.version()?, slots));
        self.layouts.put(Arc::clone(&layout));
        Ok(layout)
    }

    /// A version's definition.
    pub(crate) async fn definition(&self, id: &CampaignId, version: u32) -> Result<Arc<Campaign>> {
        if let Some(layout) = self
            .layouts
            .get(id)
            .filter(|layout| layout.version == version)
        {
            return Ok(Arc::clone(&layout.campaign));
        }
        let earlier = &self.layouts.earlier;
        let name = (id.clone(), version);
        let known = earlier
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
            .cloned();
        if let Some(campaign) = known {
            return Ok(campaign);
        }
        let keys: [Key; 1] = [self.partition(id).campaign(id).versions];
        let mut command = redis::cmd("HGET");
        command.arg(&keys[0]).arg(version);
        let found = reply::maybe_bytes(self.ask_command(&command).await?)?;
        let campaign = decode(&found.ok_or(Refusal::VersionNotFound(version))?)?;
        let mut earlier = earlier.write().unwrap_or_else(PoisonError::into_inner);
        if earlier.len() >= KEPT_MAX {
            earlier.clear();
        }
        earlier.insert(name, Arc::clone(&campaign));
        Ok(campaign)
    }
}

fn decode(definition: &[u8]) -> Result<Arc<Campaign>> {
    let campaign = convert::decode(definition);
    campaign
        .map(Arc::new)
        .map_err(|problems| StoreError::corrupt(problems.to_string()))
}
