//! Reads the state of a campaign that rules decide on, and what some rules need besides: windows,
//! users' records, units.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    campaign::{Fields, from_json},
    layout::Layout,
    proposals::KeptProposals,
};
use crate::store::redis::{
    core::Core,
    format::{
        codec,
        keys::{IdDigest, Queue},
        record::{self, Stored},
        reply::{self, Parts, letter},
        scripts,
    },
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo, UserId, limits::UserRecord},
    store::{
        Result, StoreError, Unit,
        rules::{Changes, Placed, PoolState, Range, State, Window},
    },
};

/// A campaign as it was read from Redis.
pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) fields: Fields,
    /// None for a campaign that does not exist yet.
    pub(crate) layout: Option<Arc<Layout>>,
    pub(crate) revision: String,
    /// The stored records of users that a rule may change.
    pub(crate) records: BTreeMap<UserId, Option<(Vec<u8>, Stored)>>,
    /// The campaign's proposals, of which the step approves one.
    pub(crate) proposals: Option<KeptProposals>,
}

impl Core {
    /// Reads a campaign, with the windows that have not ended or are not done, and those that are
    /// named.
    pub(crate) async fn load(&self, id: &CampaignId, named: &[(PoolNo, Moment)]) -> Result<Loaded> {
        loop {
            let layout = match self.layouts.get(id) {
                Some(layout) => layout,
                None => self.read(id).await?.2,
            };
            let loaded = self.load_version(layout, named).await;
            let loaded = loaded.map_err(|error| error.about(format_args!("campaign {id}")))?;
            if let Some(loaded) = loaded {
                return Ok(loaded);
            }
        }
    }

    /// Reads a campaign by the version that the service knows. None if the campaign has another
    /// version by now, which the service then knows.
    async fn load_version(
        &self,
        layout: Arc<Layout>,
        named: &[(PoolNo, Moment)],
    ) -> Result<Option<Loaded>> {
        let partition = &layout.partition;
        let mut all = vec![
            partition.partition.clone(),
            layout.keys.campaign.clone(),
            layout.keys.versions.clone(),
        ];
        let schedules: Vec<_> = layout
            .pools
            .iter()
            .filter(|pool| pool.is_schedule)
            .collect();
        let mut args: Vec<Vec<u8>> = vec![
            layout.version.to_string().into(),
            schedules.len().to_string().into(),
        ];
        for pool in &schedules {
            all.extend([pool.ends.clone(), pool.windows.clone()]);
            let starts: Vec<_> = named.iter().filter(|(no, _)| *no == pool.no).collect();
            args.push(pool.no.0.to_string().into());
            args.push(starts.len().to_string().into());
            args.extend(
                starts
                    .iter()
                    .map(|(_, start)| start.as_seconds().to_string().into()),
            );
        }
        let (now, mut parts) = self.ask(partition, &scripts::LOAD, &all, args).await?;
        let (fields, definition) = self.found_fields(&layout.campaign.id, &mut parts).await?;
        if let Some(definition) = definition {
            self.learn(&fields, &definition)?;
            return Ok(None);
        }
        let mut pools: Vec<PoolState> = fields.json("pools")?;
        for pool in &schedules {
            let mut rows = Parts::of(parts.next()?)?;
            let Some(PoolState::Schedule(schedule)) = pools.get_mut(usize::from(pool.no.0)) else {
                return Err(StoreError::corrupt(format!(
                    "pool {} is no schedule",
                    pool.no.0
                )));
            };
            while let Some(start) = rows.maybe_next() {
                let window: Window = from_json(&reply::bytes(rows.next()?)?)?;
                schedule
                    .windows
                    .insert(window_start(reply::number(start)?)?, window);
            }
        }
        let state = State {
            now,
            fork: fields.number("mark")?,
            view: fields.view(Arc::clone(&layout.campaign))?,
            stock: fields.stock(&layout.campaign)?,
            pools,
            changes: Changes::default(),
        };
        state.check()?;
        Ok(Some(Loaded {
            state,
            revision: fields.text("revision")?.into(),
            fields,
            layout: Some(layout),
            records: BTreeMap::new(),
            proposals: None,
        }))
    }

    /// Adds further windows to a state that was read before.
    pub(crate) async fn load_windows(
        &self,
        loaded: &mut Loaded,
        named: &[(PoolNo, Moment)],
    ) -> Result<()> {
        let Some(layout) = &loaded.layout else {
            return Ok(());
        };
        let mut missing = BTreeMap::<PoolNo, Vec<Moment>>::new();
        for &(pool, start) in named {
            if !loaded.state.schedule(pool)?.windows.contains_key(&start) {
                missing.entry(pool).or_default().push(start);
            }
        }
        for (pool, starts) in missing {
            let mut command = redis::cmd("HMGET");
            command.arg(&layout.pools[usize::from(pool.0)].windows);
            for start in &starts {
                command.arg(start.as_seconds());
            }
            let found = reply::list(self.ask_command(&command).await?)?;
            let windows = &mut loaded.state.schedule(pool)?.windows;
            for (start, window) in starts.into_iter().zip(found) {
                windows.insert(start, from_json(&reply::bytes(window)?)?);
            }
        }
        Ok(())
    }

    /// Adds users' records to a campaign that was read before.
    pub(crate) async fn load_records(
        &self,
        loaded: &mut Loaded,
        users: &[UserId],
    ) -> Result<Vec<(UserId, Option<UserRecord>)>> {
        let Some(layout) = &loaded.layout else {
            return Ok(Vec::new());
        };
        let (mut keys, mut args) = (vec![layout.partition.partition.clone()], Vec::new());
        for user in users.iter().map(IdDigest::user) {
            keys.push(layout.keys.users(user.hash()));
            args.push(user.field);
        }
        let (_, mut parts) = self
            .ask(&layout.partition, &scripts::LOAD_USERS, &keys, args)
            .await?;
        let stored = self.first(&mut parts)?;
        let mut records = Vec::with_capacity(users.len());
        for (user, stored) in users.iter().zip(reply::list(stored)?) {
            let stored = reply::maybe_bytes(stored)?;
            let kept = stored.map(|bytes| record::decode_record(&bytes).map(|read| (bytes, read)));
            let kept = kept.transpose()?;
            let record = kept.as_ref().map(|(_, stored)| stored.record.clone());
            records.push((user.clone(), record));
            loaded.records.insert(user.clone(), kept);
        }
        Ok(records)
    }

    /// Reads the units of ranges, at most `most` in all.
    pub(crate) async fn units(
        &self,
        layout: &Layout,
        ranges: &[Range],
        most: usize,
    ) -> Result<Vec<Placed>> {
        let mut all = vec![layout.partition.partition.clone()];
        let mut args: Vec<Vec<u8>> = vec![most.to_string().into()];
        for range in ranges {
            all.push(queue(layout, range.pool, range.prize)?.key.clone());
            args.push(bound(range.from));
            args.push(bound(range.to));
            args.push(i64::from(range.descending).to_string().into());
            args.push(range.limit.to_string().into());
        }
        let (_, mut parts) = self
            .ask(&layout.partition, &scripts::UNITS, &all, args)
            .await?;
        let mut found = Vec::new();
        for range in ranges {
            let part = parts.next()?;
            if letter(&part).is_some() {
                return Err(self.lost());
            }
            let mut members = Parts::of(part)?;
            while let Some(member) = members.maybe_next() {
                let (score, unit) = codec::decode_unit(&reply::bytes(member)?)?;
                found.push(Placed {
                    pool: range.pool,
                    prize: range.prize,
                    score,
                    unit,
                });
            }
        }
        Ok(found)
    }
}

impl Loaded {
    /// A campaign that does not exist yet.
    pub(crate) fn new(state: State) -> Self {
        Self {
            state,
            fields: Fields::empty(),
            layout: None,
            revision: String::new(),
            records: BTreeMap::new(),
            proposals: None,
        }
    }

    /// The revision that was read: every step but a draw changes it.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }
}

/// The start of a window, from its field in Redis.
pub(crate) fn window_start(seconds: i64) -> Result<Moment> {
    let micros = seconds.checked_mul(1_000_000);
    micros
        .map(Moment::from_micros)
        .ok_or_else(|| StoreError::corrupt(format!("no window starts at {seconds} s")))
}

fn bound(score: i64) -> Vec<u8> {
    match score {
        i64::MIN => b"-inf".to_vec(),
        i64::MAX => b"+inf".to_vec(),
        score => score.to_string().into(),
    }
}

/// The field of a win among those that are delivered or revoked.
pub(crate) fn delivery_field(pool: PoolNo, unit: Unit) -> Vec<u8> {
    let Unit {
        window,
        fork,
        number,
    } = unit;
    format!("{}:{window}:{number}:{fork:x}", pool.0).into()
}

/// The queue of a prize in a pool.
pub(crate) fn queue(layout: &Layout, pool: PoolNo, prize: Option<PrizeNo>) -> Result<&Queue> {
    let pool_keys = layout.pools.get(usize::from(pool.0));
    pool_keys
        .and_then(|keys| keys.queue(prize))
        .ok_or_else(|| StoreError::corrupt(format!("pool {} has no queue for {prize:?}", pool.0)))
}
