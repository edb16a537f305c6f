//! Every step but a draw: read the campaign, let a rule decide, write what it decided if nothing that it read has changed since;
//! else again from the start. Who reads is never in the way of who draws.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    campaign::{Fields, Layout, VersionRow, from_json, hex, to_json},
    codec,
    commit::{Commit, Kind},
    core::{Core, letter},
    keys::{self, Place, Queue, slot},
    reply::{self, Parts},
    scripts,
};
use crate::{
    model::{CampaignId, Moment, PoolNo, PrizeNo, RequestId, UserId, limits::UserRecord},
    store::{
        Executed, LedgerId, Operated, Operation, Refusal, Result, StoreError,
        entry::Body,
        rules::{Changes, Placed, PoolState, Range, State, Window},
    },
};

/// How often a step may find that someone else was faster.
const ROUNDS_MAX: usize = 500;
/// What was read this long ago is read again.
pub(super) const READ_HOLDS: Duration = Duration::from_secs(2);

/// A campaign as it was read.
pub(super) struct Loaded {
    pub(super) state: State,
    pub(super) fields: Fields,
    /// None for a campaign that is not there yet.
    pub(super) layout: Option<Arc<Layout>>,
    revision: String,
    /// Records as they are stored, of users that a rule may change.
    records: BTreeMap<UserId, Option<(Vec<u8>, u64)>>,
}

impl Core {
    /// Reads a campaign, with the windows that have not ended or are not done, and those that are named.
    pub(super) async fn load(&self, id: &CampaignId, named: &[(PoolNo, Moment)]) -> Result<Loaded> {
        loop {
            let layout = match self.layouts.get(id) {
                Some(layout) => layout,
                None => self.read(id).await?.2,
            };
            if let Some(loaded) = self.load_version(layout, named).await? {
                return Ok(loaded);
            }
        }
    }

    /// Reads a campaign of a version that is known; none where it is at another one, which then is known.
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
        let schedules: Vec<_> = layout.pools.iter().filter(|pool| !pool.is_deck).collect();
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
        let (fields, definition) = self.fields(&layout.campaign.id, &mut parts)?;
        if let Some(definition) = definition {
            self.learn(&fields, &definition)?;
            return Ok(None);
        }
        let mut pools: Vec<PoolState> = fields.json("pools")?;
        for pool in &schedules {
            let mut rows = Parts::of(parts.next()?)?;
            let Some(PoolState::Schedule(schedule)) = pools.get_mut(usize::from(pool.no.0)) else {
                return Err(StoreError::Corrupt(format!(
                    "pool {} is no schedule",
                    pool.no.0
                )));
            };
            while let Some(start) = rows.maybe_next() {
                let window: Window = from_json(&reply::bytes(rows.next()?)?)?;
                schedule
                    .windows
                    .insert(window_start(reply::number(start)?), window);
            }
        }
        let state = State {
            now,
            view: fields.view(Arc::clone(&layout.campaign))?,
            stock: fields.json("stock")?,
            pools,
            changes: Changes::default(),
        };
        Ok(Some(Loaded {
            state,
            revision: fields.text("revision")?.into(),
            fields,
            layout: Some(layout),
            records: BTreeMap::new(),
        }))
    }

    /// Reads windows besides, into a state that was read before.
    pub(super) async fn load_windows(
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

    /// Reads users' records into what was loaded.
    pub(super) async fn load_records(
        &self,
        loaded: &mut Loaded,
        users: &[UserId],
    ) -> Result<Vec<(UserId, Option<UserRecord>)>> {
        let Some(layout) = &loaded.layout else {
            return Ok(Vec::new());
        };
        let places = users.iter().map(Place::user);
        let (mut keys, mut args) = (vec![layout.partition.partition.clone()], Vec::new());
        for place in places {
            keys.push(layout.keys.users(place.bucket));
            args.push(place.field.into());
        }
        let (_, mut parts) = self
            .ask(&layout.partition, &scripts::RECORDS, &keys, args)
            .await?;
        let stored = self.first(&mut parts)?;
        let mut records = Vec::with_capacity(users.len());
        for (user, stored) in users.iter().zip(reply::list(stored)?) {
            let stored = reply::maybe_bytes(stored)?;
            let mut record = None;
            let mut kept = None;
            if let Some(bytes) = stored {
                let (read, memory) = codec::decode_record(&bytes)?;
                record = Some(read);
                kept = Some((bytes, memory));
            }
            loaded.records.insert(user.clone(), kept);
            records.push((user.clone(), record));
        }
        Ok(records)
    }

    /// Reads units of ranges, in their order.
    pub(super) async fn units(
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

    /// Reads, lets `rule` decide, and writes, until nothing has come between.
    pub(super) async fn step<T>(
        &self,
        id: &CampaignId,
        named: &[(PoolNo, Moment)],
        mut rule: impl FnMut(&mut State) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..ROUNDS_MAX {
            let mut loaded = self.load(id, named).await?;
            let value = rule(&mut loaded.state)?;
            if self.write(&loaded).await?.is_some() {
                return Ok(value);
            }
        }
        Err(contended())
    }

    /// Writes what a rule has decided: the name of the last entry, or none where something has changed since it was read.
    pub(super) async fn write(&self, loaded: &Loaded) -> Result<Option<LedgerId>> {
        let state = &loaded.state;
        let partition = self.partition(&state.view.campaign.id);
        if !loaded.has_changed() {
            return Ok(Some(LedgerId {
                partition: partition.number,
                sequence: 0,
            }));
        }
        let commit = loaded.commit(partition)?;
        let (all, args) = commit.into_parts();
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next()?;
        match letter(&answer) {
            Some(b'L') => return Err(self.lost()),
            Some(b'S') => return Ok(None),
            _ => {}
        }
        if state.changes.is_new_version
            && let Some(layout) = loaded.next_layout(partition)
        {
            self.layouts.put(Arc::new(layout));
        }
        Ok(Some(LedgerId {
            partition: partition.number,
            sequence: reply::number(answer)?,
        }))
    }

    /// The reply of the operation that had this request id; an error where it was another one. `version` is the current one.
    pub(super) async fn replayed(
        &self,
        id: &CampaignId,
        request: &RequestId,
        fingerprint: &str,
        version: u32,
    ) -> Result<Option<Operated>> {
        let partition = self.partition(id);
        let mut command = redis::cmd("HGET");
        command
            .arg(partition.campaign(id).operations)
            .arg(request.as_str());
        let found = self.ask_command(&command).await?;
        let Some(kept) = reply::maybe_bytes(found)? else {
            return Ok(None);
        };
        let malformed = || StoreError::Corrupt("a remembered operation does not read back".into());
        let kept = String::from_utf8(kept).map_err(|_| malformed())?;
        let (sequence, kept) = kept.split_once(' ').ok_or_else(malformed)?;
        let kept: Remembered = from_json(kept.as_bytes())?;
        if kept.fingerprint != fingerprint {
            return Err(Refusal::RequestIdReused.into());
        }
        Ok(Some(Operated {
            replayed: true,
            ledger: LedgerId {
                partition: partition.number,
                sequence: sequence.parse().map_err(|_| malformed())?,
            },
            users: kept.users,
            version: kept.version.unwrap_or(version),
        }))
    }
}

/// What is kept of an operation for its retries, beside its sequence number.
#[derive(Serialize, Deserialize)]
struct Remembered {
    fingerprint: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    users: u32,
    /// The version that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Tells one operation from another.
pub(super) fn operation_fingerprint(operation: &Operation) -> String {
    hex(&Sha256::digest(to_json(operation))[..12])
}

/// Tells one new version from another.
pub(super) fn version_fingerprint(base_version: u32, definition_sha256: &str) -> String {
    format!("{base_version}:{definition_sha256}")
}

fn remember(body: &Body) -> Option<Remembered> {
    match body {
        Body::Operated {
            operation, users, ..
        } => Some(Remembered {
            fingerprint: operation_fingerprint(operation),
            users: *users,
            version: None,
        }),
        Body::Applied {
            version,
            base_version,
            definition_sha256,
            ..
        } => Some(Remembered {
            fingerprint: version_fingerprint(*base_version, definition_sha256),
            users: 0,
            version: Some(*version),
        }),
        _ => None,
    }
}

/// What is told where others were always faster.
pub(super) fn contended() -> StoreError {
    StoreError::Unavailable {
        executed: Executed::No,
        detail: "too many changes of this campaign at once".into(),
    }
}

/// A window's start from its field.
pub(super) fn window_start(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn bound(score: i64) -> Vec<u8> {
    match score {
        i64::MIN => b"-inf".to_vec(),
        i64::MAX => b"+inf".to_vec(),
        score => score.to_string().into(),
    }
}

fn queue(layout: &Layout, pool: PoolNo, prize: Option<PrizeNo>) -> Result<&Queue> {
    let pool_keys = layout.pools.get(usize::from(pool.0));
    pool_keys
        .and_then(|keys| keys.queue(prize))
        .ok_or_else(|| StoreError::Corrupt(format!("pool {} has no queue for {prize:?}", pool.0)))
}

impl Loaded {
    /// A campaign that is not there yet.
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            fields: Fields::empty(),
            layout: None,
            revision: String::new(),
            records: BTreeMap::new(),
        }
    }

    /// Tells whether rules have changed anything since.
    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// A rule has changed something.
    fn has_changed(&self) -> bool {
        let state = &self.state;
        let changes = &state.changes;
        let has_windows = state.pools.iter().any(|pool| match pool {
            PoolState::Schedule(schedule) => schedule.windows.values().any(|w| w.is_changed),
            PoolState::Deck(_) => false,
        });
        let differs = |name: &str, value: Vec<u8>| {
            self.fields
                .text(name)
                .map_or(true, |text| text.as_bytes() != value)
        };
        has_windows
            || changes.is_new_version
            || !changes.entries.is_empty()
            || !changes.units_in.is_empty()
            || !changes.units_out.is_empty()
            || differs("stock", to_json(&state.stock))
            || differs("pools", to_json(&state.pools))
    }

    /// The layout of the version that this step makes.
    fn next_layout(&self, partition: &Arc<keys::PartitionKeys>) -> Option<Layout> {
        let view = &self.state.view;
        let slots = self.slots();
        self.state
            .changes
            .is_new_version
            .then(|| Layout::new(partition, Arc::clone(&view.campaign), view.version, slots))
    }

    fn slots(&self) -> keys::Slots {
        let earlier = self.layout.as_ref().filter(|_| !self.state.changes.is_anew);
        let earlier = earlier.map_or_else(Vec::new, |layout| layout.slots.clone());
        keys::slots(&self.state.view.campaign, &earlier)
    }

    /// What must be written, and under what conditions.
    fn commit(&self, partition: &Arc<keys::PartitionKeys>) -> Result<Commit> {
        let state = &self.state;
        let view = &state.view;
        let made = self.next_layout(partition);
        let layout = match (&made, &self.layout) {
            (Some(layout), _) => layout,
            (None, Some(layout)) => layout,
            (None, None) => return Err(StoreError::Corrupt("a step of no campaign".into())),
        };
        let mut commit = Commit::new(
            partition,
            &layout.keys,
            &view.campaign.id,
            &self.revision,
            state.now,
        );
        for body in &state.changes.entries {
            commit.entry(to_json(body));
        }
        let last = state.changes.entries.last();
        if let (Some(request), Some(kept)) = (&state.changes.request, last.and_then(remember)) {
            commit.request(request, to_json(&kept));
        }
        if state.changes.is_anew {
            self.clear(&mut commit);
        }
        self.write_fields(&mut commit, layout);
        self.write_windows(&mut commit, layout);
        write_units(&mut commit, layout, state)?;
        self.write_users(&mut commit, layout);
        if state.changes.is_new_version {
            let versions = commit.key(Kind::Hash, layout.keys.versions.clone());
            let definition = crate::model::convert::encode(&view.campaign);
            commit.write(
                "HSET",
                versions,
                [view.version.to_string().into(), definition],
            );
        }
        if self.layout.is_none() {
            let campaigns = commit.key(Kind::SortedSet, partition.campaigns.clone());
            commit.write(
                "ZADD",
                campaigns,
                [b"0".to_vec(), view.campaign.id.as_str().into()],
            );
        }
        Ok(commit)
    }

    /// Removes what was laid out before, of a campaign of which nothing has moved yet.
    fn clear(&self, commit: &mut Commit) {
        let Some(layout) = &self.layout else { return };
        commit.write("DEL", Commit::CAMPAIGN, []);
        for pool in &layout.pools {
            if !pool.is_deck {
                for (kind, key) in [
                    (Kind::SortedSet, &pool.ends),
                    (Kind::Hash, &pool.windows),
                    (Kind::Hash, &pool.wins),
                ] {
                    let key = commit.key(kind, key.clone());
                    commit.write("DEL", key, []);
                }
            }
            for queue in &pool.queues {
                let key = commit.key(Kind::SortedSet, queue.key.clone());
                commit.write("DEL", key, []);
            }
        }
    }

    fn write_fields(&self, commit: &mut Commit, layout: &Layout) {
        let state = &self.state;
        let view = &state.view;
        let revision: u64 = self.revision.parse().unwrap_or(0);
        let versions: Vec<_> = view.versions.iter().map(VersionRow::of).collect();
        let mut fields: Vec<(String, Vec<u8>)> = vec![
            ("revision".into(), (revision + 1).to_string().into()),
            ("version".into(), view.version.to_string().into()),
            (
                "lifecycle".into(),
                codec::lifecycle_code(view.lifecycle).to_string().into(),
            ),
            ("touched".into(), i32::from(view.touched).to_string().into()),
            ("held".into(), to_json(&view.paused_prizes.as_ref())),
            ("nonce".into(), hex(&view.nonce.0).into()),
            ("commitment".into(), view.commitment.as_bytes().into()),
            ("blocked".into(), view.blocked_users.to_string().into()),
            ("versions".into(), to_json(&versions)),
            ("slots".into(), to_json(&layout.slots)),
            ("stock".into(), to_json(&state.stock)),
            ("pools".into(), to_json(&state.pools)),
            ("gate".into(), codec::encode_gate(state)),
        ];
        for (no, pool) in (0..).map(PoolNo).zip(&state.pools) {
            if let PoolState::Schedule(schedule) = pool {
                let windows = schedule.windows.iter();
                let open: Vec<String> = windows
                    .filter(|(_, window)| window.is_open())
                    .map(|(start, _)| start.as_seconds().to_string())
                    .collect();
                fields.push((format!("open:{}", no.0), open.join(" ").into()));
            }
        }
        let flat = fields
            .into_iter()
            .flat_map(|(name, value)| [name.into(), value]);
        commit.write("HSET", Commit::CAMPAIGN, flat);
        for ((pool, prize), change) in &state.changes.waiting {
            let field = format!("waiting:{}:{}", pool.0, slot(*prize));
            commit.count(field, *change);
        }
    }

    fn write_windows(&self, commit: &mut Commit, layout: &Layout) {
        for (keys, pool) in layout.pools.iter().zip(&self.state.pools) {
            let PoolState::Schedule(schedule) = pool else {
                continue;
            };
            let changed: Vec<_> = schedule
                .windows
                .iter()
                .filter(|(_, w)| w.is_changed)
                .collect();
            if changed.is_empty() {
                continue;
            }
            let ends = commit.key(Kind::SortedSet, keys.ends.clone());
            let windows = commit.key(Kind::Hash, keys.windows.clone());
            let start = |start: &Moment| start.as_seconds().to_string().into_bytes();
            let scores = changed
                .iter()
                .flat_map(|(at, window)| [window.end.as_micros().to_string().into(), start(at)]);
            commit.write("ZADD", ends, scores);
            let values = changed
                .iter()
                .flat_map(|(at, window)| [start(at), to_json(window)]);
            commit.write("HSET", windows, values);
        }
    }

    fn write_users(&self, commit: &mut Commit, layout: &Layout) {
        let changes = &self.state.changes;
        let mut made = 0;
        for change in &changes.users {
            let place = Place::user(&change.user);
            let bucket = commit.key(Kind::Hash, layout.keys.users(place.bucket));
            let stored = self.records.get(&change.user).and_then(Option::as_ref);
            let memory = stored.map_or(0, |(_, memory)| *memory);
            match stored {
                Some((bytes, _)) => commit.expect_field(bucket, &place.field, bytes),
                None => commit.expect_absent(bucket, &place.field),
            }
            made += i64::from(stored.is_none());
            let record = codec::encode_record(&change.after, memory);
            commit.write("HSET", bucket, [place.field.to_vec(), record]);
        }
        if made > 0 {
            commit.count("users".into(), made);
        }
        for (command, users) in [("SADD", &changes.blocked), ("SREM", &changes.unblocked)] {
            if !users.is_empty() {
                let blocked = commit.key(Kind::Set, layout.keys.blocked.clone());
                let fields = users.iter().map(|user| Place::user(user).field.to_vec());
                commit.write(command, blocked, fields);
            }
        }
    }
}

fn write_units(commit: &mut Commit, layout: &Layout, state: &State) -> Result<()> {
    for (command, units) in [
        ("ZADD", &state.changes.units_in),
        ("ZREM", &state.changes.units_out),
    ] {
        let mut by_queue = BTreeMap::<(PoolNo, Option<PrizeNo>), Vec<&Placed>>::new();
        for placed in units {
            by_queue
                .entry((placed.pool, placed.prize))
                .or_default()
                .push(placed);
        }
        for ((pool, prize), units) in by_queue {
            let key = commit.key(Kind::SortedSet, queue(layout, pool, prize)?.key.clone());
            let member = |placed: &&Placed| codec::encode_unit(placed.score, placed.unit);
            if command == "ZADD" {
                let scored = units
                    .iter()
                    .flat_map(|placed| [placed.score.to_string().into_bytes(), member(placed)]);
                commit.write(command, key, scored);
            } else {
                commit.expect_units(key, units.iter().map(member));
                commit.write(command, key, units.iter().map(member));
            }
        }
    }
    Ok(())
}
