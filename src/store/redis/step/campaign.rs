//! The hash of a campaign in Redis: its fields and the definitions of its versions.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::layout::Layout;
use crate::store::redis::{
    core::Core,
    format::{
        keys::{IdDigest, Key, Queue, slot},
        reply::{self, Parts, letter, unexpected},
        scripts,
    },
};
use crate::{
    chance::Nonce,
    model::{
        Campaign, CampaignId, Moment, OperatorId, PoolNo, budget::SpentDay, convert, zone::Day,
    },
    store::{
        CampaignView, Hold, Lifecycle, Refusal, Result, StoreError,
        rules::{self, Stock},
        view::{DrawCounts, VersionInfo},
    },
};

/// The fields of a campaign's hash, or of an envelope's.
pub(crate) struct Fields(BTreeMap<String, Vec<u8>>);

impl Fields {
    /// The fields of a campaign that does not exist yet.
    pub(crate) fn empty() -> Self {
        Self(BTreeMap::new())
    }

    /// Reads a reply of names and values in turn.
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

    /// The bytes of a field, if it exists.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.text(name)?
            .parse()
            .map_err(|_| StoreError::corrupt(format!("the field `{name}` is no number")))
    }

    /// A counter; 0 if nothing was counted yet.
    pub(crate) fn counter(&self, name: &str) -> Result<u64> {
        if self.0.contains_key(name) {
            self.number(name)
        } else {
            Ok(0)
        }
    }

    /// The stock of each prize. Draws only count forfeited cards, and units that personal pools
    /// take off stock, in fields of their own; this adds both to the stock. The field `taken` says
    /// how many of the latter it has already.
    pub(crate) fn stock(&self, campaign: &Campaign) -> Result<Vec<Stock>> {
        let mut stock: Vec<Stock> = self.json("stock")?;
        let taken: Vec<u64> = match self.bytes("taken") {
            Some(taken) => from_json(taken)?,
            None => Vec::new(),
        };
        for (prize, stock) in stock.iter_mut().enumerate() {
            let counted = self.counter(&format!("taken:{prize}"))?;
            let before = taken.get(prize).copied().unwrap_or(0);
            let new = counted.checked_sub(before).ok_or_else(|| {
                let text = format!("of prize {prize} {counted} units are taken, not {before}");
                StoreError::corrupt(text)
            })?;
            if new > 0 {
                let definition = campaign.prizes.get(prize);
                stock.take_own(new, definition.is_some_and(|prize| prize.unlimited))?;
            }
            let counted = self.counter(&format!("forfeited:{prize}"))?;
            let new = counted.checked_sub(stock.forfeited).ok_or_else(|| {
                let text = format!("of prize {prize} {counted} cards are forfeited: {stock:?}");
                StoreError::corrupt(text)
            })?;
            stock.put_back_forfeited(new)?;
        }
        Ok(stock)
    }

    /// Units that wait in a queue, including those that are assigned to it and not put in yet.
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

    /// What was won under a budget.
    pub(crate) fn spent_day(&self) -> Result<SpentDay> {
        if self.bytes("spent:day").is_none() {
            return Ok(SpentDay::default());
        }
        Ok(SpentDay {
            day: Day(self.number("spent:day")?),
            amount: self.number("spent:today")?,
        })
    }

    /// The campaign that these fields describe, with the definition of its version.
    pub(crate) fn view(&self, campaign: Arc<Campaign>) -> Result<CampaignView> {
        let versions: Vec<VersionRow> = self.json("versions")?;
        let versions: Vec<VersionInfo> = versions
            .into_iter()
            .map(VersionRow::read)
            .collect::<Result<_>>()?;
        let held: Vec<crate::model::PrizeNo> = self.json("held")?;
        rules::check_prizes(&campaign, held.iter())?;
        // An older version does not write the field, and `check_limit.lua` does not read it.
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
            nonce: Nonce::from_hex(self.text("nonce")?)
                .ok_or_else(|| StoreError::corrupt("a nonce does not read back"))?,
            commitment: self.text("commitment")?.into(),
            blocked_users: self.number("blocked")?,
        })
    }
}

/// A version in the field `versions`. The last element is missing if nobody had proposed it.
#[derive(Serialize, Deserialize)]
pub(crate) struct VersionRow(
    u32,
    Moment,
    String,
    String,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<String>,
);

impl VersionRow {
    pub(crate) fn of(info: &VersionInfo) -> Self {
        Self(
            info.version,
            info.at,
            info.operator.as_str().to_owned(),
            info.reason.clone(),
            info.proposed_by.as_ref().map(|by| by.as_str().to_owned()),
        )
    }

    fn read(self) -> Result<VersionInfo> {
        let operator = |id: &str| {
            let parsed = OperatorId::parse("operator", id);
            parsed.map_err(|problem| StoreError::corrupt(problem.message))
        };
        Ok(VersionInfo {
            version: self.0,
            at: self.1,
            operator: operator(&self.2)?,
            reason: self.3,
            proposed_by: self.4.as_deref().map(operator).transpose()?,
        })
    }
}

/// Reads a value from its stored JSON.
pub(crate) fn from_json<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| StoreError::corrupt(format!("a stored text does not read back: {error}")))
}

/// A value as JSON, to be stored.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    // Only maps with keys that are not text fail, and no stored value has one.
    serde_json::to_vec(value).expect("what is stored can be written as JSON")
}

impl Core {
    /// Reads a campaign's fields, and its definition if the service does not know it yet.
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

    /// Reads the layouts of campaigns of one partition, at least one of them. All that do not exist
    /// cost one call together: a client that makes ids up must not hold up the draws of others.
    pub(crate) async fn read_layouts(&self, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        let mut found = match self.look_up(ids).await {
            Ok(found) => found,
            Err(error) => return ids.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut layouts = Vec::with_capacity(ids.len());
        for id in ids {
            layouts.push(match found.next() {
                Ok(part) => self.read_layout(id, part).await,
                Err(error) => Err(error),
            });
        }
        layouts
    }

    /// What the partition has of campaigns: a part for each.
    async fn look_up(&self, ids: &[CampaignId]) -> Result<Parts> {
        let partition = self.partition(&ids[0]);
        let mut all = vec![
            partition.partition.clone(),
            partition.campaigns.clone(),
            partition.removed_campaigns.clone(),
        ];
        let mut args: Vec<Vec<u8>> = Vec::new();
        for id in ids {
            let keys = partition.campaign(id);
            all.extend([keys.campaign, keys.versions]);
            let digest = IdDigest::campaign(id);
            args.extend([id.as_str().into(), digest.field.to_vec()]);
        }
        let (_, parts) = self.ask(partition, &scripts::LAYOUTS, &all, args).await?;
        Ok(parts)
    }

    /// The layout in a campaign's part of a reply; an error if there is no such campaign.
    async fn read_layout(&self, id: &CampaignId, part: redis::Value) -> Result<Arc<Layout>> {
        match letter(&part) {
            Some(b'M') => Err(Refusal::CampaignNotFound.into()),
            Some(_) => self.read(id).await.map(|(.., layout)| layout),
            None if matches!(part, redis::Value::Array(_)) => {
                let mut parts = Parts::of(part)?;
                let fields = Fields::of(parts.next()?)?;
                self.learn(&fields, &reply::bytes(parts.next()?)?)
            }
            None => Err(Refusal::Removed {
                end: reply::moment(part)?,
            }
            .into()),
        }
    }

    /// The first parts of the load script's reply: the fields, and the definition if its version is
    /// not the one that the service knows.
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

    /// Keeps a definition that was read as the newest one.
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
        if let Some(campaign) = self.layouts.earlier(id, version) {
            return Ok(campaign);
        }
        let keys: [Key; 1] = [self.partition(id).campaign(id).versions];
        let mut command = redis::cmd("HGET");
        command.arg(&keys[0]).arg(version);
        let found = reply::maybe_bytes(self.ask_command(&command).await?)?;
        let campaign = decode(&found.ok_or(Refusal::VersionNotFound(version))?)?;
        self.layouts.put_earlier(Arc::clone(&campaign), version);
        Ok(campaign)
    }
}

pub(crate) fn decode(definition: &[u8]) -> Result<Arc<Campaign>> {
    let campaign = convert::decode(definition);
    campaign
        .map(Arc::new)
        .map_err(|problems| StoreError::corrupt(problems.to_string()))
}
