//! Writes what a rule has decided, in one call of `commit.lua`, on condition that what the rule
//! read has not changed.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    campaign::{VersionRow, to_json},
    commit::{Commit, Kind},
    decide::remember,
    layout::Layout,
    load::{Loaded, delivery_field, queue},
};
use crate::store::redis::{
    core::Core,
    format::{
        blocks, codec, gate,
        keys::{self, IdDigest, USER_HASHES, group_of, slot},
        record,
        reply::{self, letter},
        scripts, version,
    },
    gone::{left_over, units_gone},
};
use crate::{
    model::{Moment, PoolNo, PrizeNo, UserId},
    store::{
        LedgerId, Refusal, Result, StoreError,
        rules::{self, Changes, Placed, PoolState, State},
    },
};

impl Core {
    /// Writes what a rule has decided. The result is the id of the last entry, or none if something
    /// has changed since it was read.
    pub(crate) async fn write(&self, loaded: &Loaded) -> Result<Option<LedgerId>> {
        let state = &loaded.state;
        let partition = self.partition(&state.view.campaign.id);
        if !loaded.has_changed() {
            return Ok(Some(LedgerId {
                partition: partition.number,
                sequence: 0,
            }));
        }
        let commit = loaded.commit(partition)?;
        let (all, args) = commit.into_parts(self.read_holds());
        let (_, mut parts) = self.run(partition, &scripts::COMMIT, &all, args).await?;
        let answer = parts.next().map_err(StoreError::after_write)?;
        match letter(&answer) {
            Some(b'S') => return Ok(None),
            Some(b'G') => {
                let what = format!("campaign {}", state.view.campaign.id);
                return Err(left_over(&what, &reply::bytes(parts.next()?)?));
            }
            Some(b'U') => return Err(units_gone(&reply::bytes(parts.next()?)?)),
            Some(b'O') => return Err(Refusal::UpgradeNeeded.into()),
            _ => {}
        }
        if state.changes.is_new_version
            && let Some(layout) = loaded.next_layout(partition)
        {
            self.layouts.put(Arc::new(layout));
        }
        Ok(Some(LedgerId {
            partition: partition.number,
            sequence: reply::number(answer).map_err(StoreError::after_write)?,
        }))
    }
}

impl Loaded {
    /// Whether a rule has changed something.
    fn has_changed(&self) -> bool {
        let state = &self.state;
        let changes = &state.changes;
        let has_windows = state.pools.iter().any(|pool| match pool {
            PoolState::Schedule(schedule) => schedule.windows.values().any(|w| w.is_changed),
            PoolState::Deck(_) | PoolState::Personal => false,
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

    /// The call that writes everything, with its conditions.
    fn commit(&self, partition: &Arc<keys::PartitionKeys>) -> Result<Commit> {
        let state = &self.state;
        let view = &state.view;
        let made = self.next_layout(partition);
        let layout = match (&made, &self.layout) {
            (Some(layout), _) => layout,
            (None, Some(layout)) => layout,
            (None, None) => return Err(StoreError::corrupt("a step of no campaign")),
        };
        let mut commit = Commit::new(
            partition,
            &layout.keys,
            &view.campaign.id,
            &self.revision,
            state.now,
            self.layout.as_ref().map(|_| state.fork),
        );
        for body in &state.changes.entries {
            commit.entry(to_json(body));
        }
        let last = state.changes.entries.last();
        if let (Some(request), Some(kept)) = (&state.changes.request, last.and_then(remember)) {
            commit.request(request, &to_json(&kept));
        }
        if state.changes.is_anew {
            self.clear(&mut commit);
        }
        self.write_fields(&mut commit, layout)?;
        self.write_windows(&mut commit, layout);
        write_units(&mut commit, layout, state)?;
        if !state.changes.is_anew {
            expect_counts(&mut commit, layout, state)?;
        }
        self.write_users(&mut commit, layout);
        write_blocks(&mut commit, layout, &state.changes);
        write_delivery(&mut commit, layout, &state.changes);
        write_codes(&mut commit, layout, &state.changes);
        if state.changes.is_new_version {
            commit.expect_format(version::needed_by(&view.campaign));
            let versions = commit.key(Kind::Hash, layout.keys.versions.clone());
            let definition = crate::model::convert::encode(&view.campaign);
            commit.write(
                "HSET",
                versions,
                [view.version.to_string().into(), definition],
            );
        }
        if let Some(proposals) = &self.proposals {
            proposals.write(&mut commit, partition, &view.campaign.id);
        }
        write_due(&mut commit, partition, state);
        if self.layout.is_none() {
            expect_nothing_left(&mut commit, layout);
            let campaigns = commit.key(Kind::SortedSet, partition.campaigns.clone());
            commit.write(
                "ZADD",
                campaigns,
                [b"0".to_vec(), view.campaign.id.as_str().into()],
            );
            commit.expect_unlisted(campaigns, view.campaign.id.as_str().as_bytes());
            let removed = commit.key(Kind::Hash, partition.removed_campaigns.clone());
            let digest = IdDigest::campaign(&view.campaign.id);
            commit.expect_absent(removed, &digest.field);
        }
        Ok(commit)
    }

    /// Deletes the fields, windows and units of a campaign that begins again (`is_anew`).
    fn clear(&self, commit: &mut Commit) {
        let Some(layout) = &self.layout else { return };
        commit.write("DEL", Commit::CAMPAIGN, []);
        for pool in &layout.pools {
            if pool.is_schedule {
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

    fn write_fields(&self, commit: &mut Commit, layout: &Layout) -> Result<()> {
        let state = &self.state;
        let view = &state.view;
        let versions: Vec<_> = view.versions.iter().map(VersionRow::of).collect();
        let taken = self.taken()?;
        let mut fields: Vec<(String, Vec<u8>)> = vec![
            ("revision".into(), next_revision(&self.revision)?.into()),
            ("version".into(), view.version.to_string().into()),
            ("lifecycle".into(), view.lifecycle.code().to_string().into()),
            ("touched".into(), i32::from(view.touched).to_string().into()),
            ("held".into(), to_json(&view.paused_prizes.as_ref())),
            ("holds".into(), to_json(&view.holds.as_ref())),
            ("nonce".into(), view.nonce.to_hex().into()),
            ("commitment".into(), view.commitment.as_bytes().into()),
            ("blocked".into(), view.blocked_users.to_string().into()),
            ("versions".into(), to_json(&versions)),
            ("slots".into(), to_json(&layout.slots)),
            ("stock".into(), to_json(&state.stock)),
            ("pools".into(), to_json(&state.pools)),
            ("gate".into(), gate::encode_gate(state, &taken)),
        ];
        if taken.iter().any(|units| *units > 0) {
            fields.push(("taken".into(), to_json(&taken)));
        }
        for prize in gate::stocked_for_draws(&view.campaign) {
            // Draws go on meanwhile.
            let index = usize::from(prize.0);
            let most = taken[index].saturating_add(state.stock[index].remaining);
            commit.expect_most(Commit::CAMPAIGN, &format!("taken:{}", prize.0), most);
        }
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
            commit.count(waiting_field(*pool, *prize), *change);
        }
        Ok(())
    }

    /// By prize the units that draws have taken off stock, as they are counted in what was read.
    fn taken(&self) -> Result<Vec<u64>> {
        let prizes = 0..self.state.stock.len();
        if self.state.changes.is_anew {
            return Ok(vec![0; prizes.len()]);
        }
        prizes
            .map(|prize| self.fields.counter(&format!("taken:{prize}")))
            .collect()
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
            let digest = IdDigest::user(&change.user);
            let hash = commit.key(Kind::Hash, layout.keys.users(digest.hash()));
            let stored = self.records.get(&change.user).and_then(Option::as_ref);
            match stored {
                Some((bytes, _)) => commit.expect_field(hash, &digest.field, bytes),
                None => commit.expect_absent(hash, &digest.field),
            }
            made += i64::from(stored.is_none());
            // A retry of the latest draw answers with the counts of that time. The record's counts
            // change, so the draw moves to a field of its own, which keeps them.
            let latest = stored.and_then(|(_, stored)| stored.latest.as_ref());
            let has_older = latest.is_some() || stored.is_some_and(|(_, stored)| stored.has_older);
            let record = record::encode_record(&change.after, has_older);
            commit.write("HSET", hash, [digest.field.to_vec(), record]);
            if let Some(latest) = latest {
                let mut draw = latest.packed.clone();
                if draw.len() > record::COMPACT_BYTES_MAX {
                    let long = commit.key(Kind::Hash, layout.keys.long.clone());
                    commit.write("HSET", long, [latest.request.to_vec(), draw]);
                    draw = Vec::new();
                }
                let bucket = commit.key(Kind::Hash, layout.keys.older(digest.bucket));
                commit.write("HSET", bucket, [latest.request.to_vec(), draw]);
            }
        }
        if made > 0 {
            commit.count("users".into(), made);
        }
    }
}

/// Blocks and unblocks users.
fn write_blocks(commit: &mut Commit, layout: &Layout, changes: &Changes) {
    if changes.blocked.is_empty() && changes.unblocked.is_empty() {
        return;
    }
    let blocked = commit.key(Kind::Set, layout.keys.blocked.clone());
    let blocks = commit.key(Kind::SortedSet, layout.keys.blocks.clone());
    let field = |user: &UserId| IdDigest::user(user).field.to_vec();
    let newly = changes.blocked.iter().map(|(user, _)| user);
    // Also for users who are blocked now: a version without notes may have left one when it
    // unblocked the user.
    for user in newly.clone().chain(&changes.unblocked) {
        commit.write("ZREMRANGEBYLEX", blocks, blocks::range_of(user));
    }
    if !changes.unblocked.is_empty() {
        commit.write("SREM", blocked, changes.unblocked.iter().map(field));
    }
    if !changes.blocked.is_empty() {
        commit.write("SADD", blocked, newly.map(field));
        let scored = changes.blocked.iter();
        let scored = scored.flat_map(|(user, note)| [b"0".to_vec(), blocks::encode(user, note)]);
        commit.write("ZADD", blocks, scored);
    }
}

/// Writes what became of a win.
fn write_delivery(commit: &mut Commit, layout: &Layout, changes: &Changes) {
    if let Some((pool, unit, delivery)) = &changes.delivery {
        let key = commit.key(Kind::Hash, layout.keys.deliveries.clone());
        commit.write(
            "HSET",
            key,
            [delivery_field(*pool, *unit), to_json(delivery)],
        );
    }
}

/// Writes new blocks of codes.
fn write_codes(commit: &mut Commit, layout: &Layout, changes: &Changes) {
    let Some((prize, blocks)) = &changes.codes else {
        return;
    };
    for group in blocks.chunk_by(|one, next| group_of(one.index) == group_of(next.index)) {
        let key = layout.keys.codes(*prize, group_of(group[0].index));
        let key = commit.key(Kind::Hash, key);
        let fields = group
            .iter()
            .flat_map(|block| [block.index.to_string().into(), block.bytes.clone()]);
        commit.write("HSET", key, fields);
    }
}

/// The revision after a step. A campaign that does not exist yet has an empty one.
pub(crate) fn next_revision(revision: &str) -> Result<String> {
    if revision.is_empty() {
        return Ok("1".into());
    }
    let next = revision
        .parse::<u64>()
        .ok()
        .and_then(|now| now.checked_add(1));
    next.map(|next| next.to_string())
        .ok_or_else(|| StoreError::corrupt("the field `revision` is no number"))
}

/// No key of a new campaign may exist: an id is used once.
fn expect_nothing_left(commit: &mut Commit, layout: &Layout) {
    let keys = &layout.keys;
    let mut all = vec![
        (Kind::Hash, keys.versions.clone()),
        (Kind::Hash, keys.operations.clone()),
        (Kind::Hash, keys.deliveries.clone()),
        (Kind::Set, keys.blocked.clone()),
        (Kind::SortedSet, keys.blocks.clone()),
        (Kind::Hash, keys.long.clone()),
    ];
    all.extend((0..USER_HASHES).map(|hash| (Kind::Hash, keys.users(hash))));
    for pool in &layout.pools {
        all.extend([
            (Kind::SortedSet, pool.ends.clone()),
            (Kind::Hash, pool.windows.clone()),
            (Kind::Hash, pool.wins.clone()),
        ]);
        let queues = pool.queues.iter();
        all.extend(queues.map(|queue| (Kind::SortedSet, queue.key.clone())));
    }
    for (kind, key) in all {
        let key = commit.key(kind, key);
        commit.expect_gone(key);
    }
}

/// Each queue that the step changes must contain as many units as are counted. So units that
/// someone removed are noticed before more are added. (Draws notice a queue that is missing as a
/// whole.)
fn expect_counts(commit: &mut Commit, layout: &Layout, state: &State) -> Result<()> {
    let mut moved = BTreeMap::<(PoolNo, Option<PrizeNo>), i64>::new();
    for placed in &state.changes.units_in {
        *moved.entry((placed.pool, placed.prize)).or_default() += 1;
    }
    for placed in &state.changes.units_out {
        *moved.entry((placed.pool, placed.prize)).or_default() -= 1;
    }
    for ((pool, prize), moved) in moved {
        let key = commit.key(Kind::SortedSet, queue(layout, pool, prize)?.key.clone());
        let unplaced = prize.map_or(0, |prize| state.pools[usize::from(pool.0)].unplaced(prize));
        let unplaced = i64::try_from(unplaced).unwrap_or(i64::MAX);
        let change = state.changes.waiting.get(&(pool, prize)).copied();
        // Before this step: what is counted, and what lies in the queue.
        let others = moved + unplaced - change.unwrap_or(0);
        commit.expect_count(key, waiting_field(pool, prize), others);
    }
    Ok(())
}

/// The counter of units that wait in a queue, including those that are assigned to it and not put
/// in yet.
fn waiting_field(pool: PoolNo, prize: Option<PrizeNo>) -> String {
    format!("waiting:{}:{}", pool.0, slot(prize))
}

/// Writes when the injector has to do something for the campaign next; of a closed one, that
/// something has happened to it now.
pub(crate) fn write_due(commit: &mut Commit, partition: &keys::PartitionKeys, state: &State) {
    let key = commit.key(Kind::SortedSet, partition.due_campaigns.clone());
    let id = state.view.campaign.id.as_str().as_bytes().to_vec();
    match rules::due(state) {
        Some(due) => commit.write("ZADD", key, [due.as_micros().to_string().into(), id]),
        None => {
            commit.write("ZREM", key, [id.clone()]);
            let closed = commit.key(Kind::SortedSet, partition.closed_campaigns.clone());
            commit.write(
                "ZADD",
                closed,
                [state.now.as_micros().to_string().into(), id],
            );
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
