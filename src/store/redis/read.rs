//! Reading, each in one moment; and the two errands that belong to no campaign: the probe, and forgetting old requests.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use redis::Value;

use super::{
    campaign::{Fields, Layout, from_json},
    codec,
    core::{Core, letter},
    keys::{FORGOTTEN_KEYS, Key, PartitionKeys, Place, PoolKeys, slot},
    reply::{self, Parts, unexpected},
    scripts,
    steps::{Loaded, contended, window_start},
};
use crate::{
    model::{CampaignId, Moment, PoolKind, PoolNo, PrizeNo, RequestId, UserId},
    store::{
        DrawAnswer, Entry, Executed, LedgerId, Refusal, Result, Stats, StoreError, UserView,
        WindowView,
        entry::Body,
        rules::{PoolState, Window, WindowMark, WindowPrize},
        view::{DeckStats, PrizeStats, WindowState, WindowUnits},
    },
};

/// Buckets of old requests that are removed at a time.
const FORGET_KEYS: u32 = 512;
/// Counts that a look at windows takes at a time: two for each queue of a window.
const WINDOW_COUNTS: usize = 1000;
/// Items of the ledger that are read at a time; one may hold a whole batch of draws.
const LEDGER_ITEMS: usize = 64;
/// How often what is read may change in between.
const ROUNDS_MAX: usize = 100;

impl Core {
    /// The time of a campaign's partition.
    pub(super) async fn time(&self, id: &CampaignId) -> Result<Moment> {
        self.identify(self.partition(id)).await
    }

    /// Looks whether the partitions are there; the time of the one that is behind. Fails where none of them answers: a node that is
    /// away, or has lost its data, stops its own campaigns and no others.
    pub(super) async fn probe(&self) -> Result<Moment> {
        let mut earliest: Result<Moment> = Err(unexpected("partition"));
        for partition in &self.partitions {
            earliest = match (earliest, self.identify(partition).await) {
                (Ok(before), Ok(now)) => Ok(before.min(now)),
                (Ok(now), Err(_)) | (Err(_), Ok(now)) => Ok(now),
                (Err(_), Err(error)) => Err(error),
            };
        }
        earliest
    }

    async fn identify(&self, partition: &PartitionKeys) -> Result<Moment> {
        let sent = Instant::now();
        let keys = [partition.partition.clone()];
        let args = vec![self.clock.argument(partition.number), Vec::new()];
        let reply = self.connections.run(&scripts::IDENTIFY, &keys, &args).await;
        // It names no store, so it only reads.
        let reply = reply.map_err(|fault| StoreError::from(fault).with_executed(Executed::No))?;
        let mut parts = Parts::of(reply)?;
        let now = reply::moment(parts.next()?)?;
        self.clock.learn(partition.number, now, sent.elapsed());
        match parts.maybe_next().map(reply::maybe_bytes).transpose()? {
            Some(Some(store)) if store == self.store_id.as_bytes() => Ok(now),
            _ => Err(self.lost()),
        }
    }

    /// What follows the time in a reply, unless there is a letter.
    pub(super) fn first(&self, parts: &mut Parts) -> Result<Value> {
        let first = parts.next()?;
        match letter(&first) {
            Some(b'L') => Err(self.lost()),
            Some(b'M') => Err(Refusal::CampaignNotFound.into()),
            _ => Ok(first),
        }
    }

    /// What a remembered draw answered.
    pub(super) async fn find_draw(
        &self,
        id: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer> {
        let partition = self.partition(id);
        let place = Place::request(id, user, request);
        let mut keys = vec![partition.partition.clone(), partition.campaign(id).campaign];
        for generation in 0..super::keys::GENERATION_SLOTS {
            keys.push(partition.requests(generation, place.bucket));
            keys.push(partition.long_requests(generation));
        }
        let (now, mut parts) = self
            .ask(partition, &scripts::FIND, &keys, vec![place.field.into()])
            .await?;
        let found = reply::maybe_bytes(self.first(&mut parts)?)?.ok_or(Refusal::DrawNotFound)?;
        let remembered = codec::decode_remembered(&found)?;
        if remembered.at < now - self.request_memory {
            return Err(Refusal::DrawNotFound.into());
        }
        let campaign = self.definition(id, remembered.version).await?;
        Ok(DrawAnswer {
            ledger: LedgerId {
                partition: partition.number,
                sequence: remembered.sequence,
            },
            at: remembered.at,
            replayed: true,
            campaign,
            entry: Arc::new(remembered.into_entry(user.clone(), request.clone(), String::new())),
            running_low: Vec::new(),
        })
    }

    /// A user's record as it stands now.
    pub(super) async fn user(&self, id: &CampaignId, user: &UserId) -> Result<UserView> {
        let partition = self.partition(id);
        let place = Place::user(user);
        let campaign = partition.campaign(id);
        let keys = [
            partition.partition.clone(),
            campaign.campaign.clone(),
            campaign.users(place.bucket),
        ];
        let (now, mut parts) = self
            .ask(partition, &scripts::USER, &keys, vec![place.field.into()])
            .await?;
        let fields = Fields::of(self.first(&mut parts)?)?;
        let stored = reply::maybe_bytes(parts.next()?)?;
        let record = stored
            .map(|bytes| codec::decode_record(&bytes))
            .transpose()?;
        let definition = self.definition(id, fields.version()?).await?;
        let today = definition.zone.day(now);
        Ok(UserView {
            view: fields.view(definition)?,
            record: record
                .map(|(record, _)| record)
                .unwrap_or_default()
                .on(today, now),
            now,
        })
    }

    /// Those of these users that are blocked, or that are not.
    pub(super) async fn users_blocked(
        &self,
        id: &CampaignId,
        users: &[UserId],
        is_blocked: bool,
    ) -> Result<Vec<UserId>> {
        let mut command = redis::cmd("SMISMEMBER");
        command.arg(self.partition(id).campaign(id).blocked);
        for user in users {
            command.arg(&Place::user(user).field);
        }
        let found = reply::list(self.ask_command(&command).await?)?;
        let mut matching = Vec::new();
        for (user, found) in users.iter().zip(found) {
            if (reply::number::<u8>(found)? == 1) == is_blocked {
                matching.push(user.clone());
            }
        }
        Ok(matching)
    }

    /// Ids of a partition's campaigns, in order, after one of them.
    pub(super) async fn campaign_ids(
        &self,
        partition: u32,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<CampaignId>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let all = [keys.partition.clone(), keys.campaigns.clone()];
        let from = after.map_or_else(|| "-".to_owned(), |after| format!("({after}"));
        let args = vec![from.into_bytes(), limit.to_string().into_bytes()];
        let (_, mut parts) = self.ask(keys, &scripts::CAMPAIGNS, &all, args).await?;
        let ids = reply::list(self.first(&mut parts)?)?.into_iter();
        ids.map(|id| campaign_id(&reply::text(id)?)).collect()
    }

    /// Forgets requests that nobody reads any more, some of each partition; true where there may be more. Goes on after a failure
    /// and tells the first one.
    pub(super) async fn forget(&self) -> Result<bool> {
        let mut outcome = Ok(false);
        for partition in &self.partitions {
            let more = self.forget_some(partition).await;
            outcome = match (outcome, more) {
                (Ok(before), Ok(more)) => Ok(before || more),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        outcome
    }

    async fn forget_some(&self, partition: &PartitionKeys) -> Result<bool> {
        let (generation, cleared) = self.forget_from(partition, 0, FORGOTTEN_KEYS).await?;
        if cleared >= FORGOTTEN_KEYS {
            return Ok(false);
        }
        let (_, cleared) = self.forget_from(partition, generation, cleared).await?;
        Ok(cleared < FORGOTTEN_KEYS)
    }

    async fn forget_from(
        &self,
        partition: &PartitionKeys,
        generation: u64,
        cleared: u32,
    ) -> Result<(u64, u32)> {
        let mut keys: Vec<Key> = vec![partition.partition.clone()];
        let until = FORGOTTEN_KEYS.min(cleared + FORGET_KEYS);
        keys.extend((cleared..until).map(|number| partition.forgotten(generation + 1, number)));
        let args: Vec<Vec<u8>> = vec![
            generation.to_string().into(),
            self.request_memory.as_micros().to_string().into(),
            cleared.to_string().into(),
            FORGOTTEN_KEYS.to_string().into(),
        ];
        let (_, mut parts) = self.run(partition, &scripts::FORGET, &keys, args).await?;
        let current: u64 = reply::number(self.first(&mut parts)?)?;
        self.generations[partition.number as usize].store(current, Ordering::Relaxed);
        Ok((current, reply::number(parts.next()?)?))
    }

    /// Where every unit is.
    pub(super) async fn stats(&self, id: &CampaignId) -> Result<Stats> {
        for _ in 0..ROUNDS_MAX {
            let loaded = self.load(id, &[]).await?;
            let Some(layout) = &loaded.layout else { break };
            let mut keys = vec![
                layout.partition.partition.clone(),
                layout.keys.campaign.clone(),
            ];
            keys.extend(layout.queues().map(|(_, queue)| queue.key.clone()));
            let args = vec![loaded.revision().to_owned().into_bytes()];
            let (now, mut parts) = self
                .ask(&layout.partition, &scripts::COUNT, &keys, args)
                .await?;
            let first = self.first(&mut parts)?;
            if letter(&first).is_some() {
                continue;
            }
            let fields = Fields::of(first)?;
            let counts = reply::list(parts.next()?)?.into_iter().map(reply::number);
            let counts: Vec<u64> = counts.collect::<Result<_>>()?;
            return loaded.stats(now, &fields, &counts);
        }
        Err(contended())
    }

    /// Frozen windows of a pool that end after `after`, read some at a time.
    pub(super) async fn windows(
        &self,
        id: &CampaignId,
        pool: PoolNo,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        let (_, _, layout) = self.read(id).await?;
        let Some(keys) = layout.pools.get(usize::from(pool.0)) else {
            return Ok(Vec::new());
        };
        let page_max = (WINDOW_COUNTS / (2 * keys.queues.len() + 1)).max(1);
        let mut views: Vec<WindowView> = Vec::new();
        while views.len() < limit {
            let after = views.last().map_or(after, |last| last.end);
            let most = page_max.min(limit - views.len());
            let page = self.windows_page(&layout, keys, after, most).await?;
            let is_last = page.len() < most;
            views.extend(page);
            if is_last {
                break;
            }
        }
        Ok(views)
    }

    async fn windows_page(
        &self,
        layout: &Layout,
        pool_keys: &PoolKeys,
        after: Moment,
        limit: usize,
    ) -> Result<Vec<WindowView>> {
        let mut keys = vec![
            layout.partition.partition.clone(),
            layout.keys.campaign.clone(),
            pool_keys.ends.clone(),
            pool_keys.windows.clone(),
            pool_keys.wins.clone(),
        ];
        let mut args: Vec<Vec<u8>> = vec![
            after.as_micros().to_string().into(),
            limit.to_string().into(),
        ];
        for queue in &pool_keys.queues {
            keys.push(queue.key.clone());
            args.push(slot(queue.prize).to_string().into());
        }
        let (_, mut parts) = self
            .ask(&layout.partition, &scripts::WINDOWS, &keys, args)
            .await?;
        let mut views = Vec::new();
        for row in reply::list(self.first(&mut parts)?)? {
            let mut row = Parts::of(row)?;
            let start = window_start(reply::number(row.next()?)?);
            let window: Window = from_json(&reply::bytes(row.next()?)?)?;
            let mut counts = Parts::of(row.next()?)?;
            let mut prizes = Vec::with_capacity(window.prizes.len());
            for queue in &pool_keys.queues {
                let (won, to_come) = (
                    reply::number(counts.next()?)?,
                    reply::number(counts.next()?)?,
                );
                if let Some(prize) = queue.prize
                    && let Some(counted) = window.prizes.get(&prize)
                {
                    prizes.push((prize, window_units(counted, won, to_come)));
                }
            }
            views.push(WindowView {
                pool: pool_keys.no,
                start,
                end: window.end,
                version: window.version,
                state: window_state(&window),
                prizes,
            });
        }
        Ok(views)
    }

    /// Entries of a partition's ledger after `sequence`, read some items at a time.
    pub(super) async fn ledger(
        &self,
        partition: u32,
        sequence: u64,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let Some(keys) = self.partitions.get(partition as usize) else {
            return Ok(Vec::new());
        };
        let all = [keys.partition.clone(), keys.ledger.clone()];
        let mut entries: Vec<Entry> = Vec::new();
        while entries.len() < limit {
            let last = entries.last().map_or(sequence, |entry| entry.id.sequence);
            let most = LEDGER_ITEMS.min(limit - entries.len());
            let args: Vec<Vec<u8>> = vec![last.to_string().into(), most.to_string().into()];
            let (_, mut parts) = self.ask(keys, &scripts::LEDGER, &all, args).await?;
            let items = reply::list(self.first(&mut parts)?)?;
            let is_last = items.len() < most;
            for item in items {
                read_item(partition, item, &mut entries)?;
            }
            entries.retain(|entry| entry.id.sequence > sequence);
            if is_last {
                break;
            }
        }
        entries.truncate(limit);
        Ok(entries)
    }
}

/// Reads an item of the stream: its id tells the last of its entries.
fn read_item(partition: u32, item: Value, entries: &mut Vec<Entry>) -> Result<()> {
    let mut item = Parts::of(item)?;
    let id = reply::text(item.next()?)?;
    let last = id
        .split('-')
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    let last = last.ok_or_else(|| unexpected("sequence number"))?;
    let mut fields = Parts::of(item.next()?)?;
    let (mut campaign, mut at, mut version, mut count) = (None, None, 0, 0u64);
    let mut bodies = Vec::new();
    while let Some(name) = fields.maybe_next() {
        let value = fields.next()?;
        match reply::text(name)?.as_str() {
            "c" => campaign = Some(campaign_id(&reply::text(value)?)?),
            "t" => at = Some(reply::moment(value)?),
            "v" => version = reply::number(value)?,
            "n" => count = reply::number(value)?,
            "j" => bodies.push(from_json::<Body>(&reply::bytes(value)?)?),
            "d" => {
                let draws = codec::decode_draws(&reply::bytes(value)?, version)?;
                bodies.extend(draws.into_iter().map(Body::Draw));
            }
            other => {
                return Err(StoreError::Corrupt(format!(
                    "an item of the ledger has a field `{other}`"
                )));
            }
        }
    }
    if bodies.len() as u64 != count || count > last {
        return Err(StoreError::Corrupt(format!(
            "item {id} of the ledger has not the {count} entries it says"
        )));
    }
    let campaign = campaign.ok_or_else(|| unexpected("campaign"))?;
    let at = at.ok_or_else(|| unexpected("moment"))?;
    for (sequence, body) in (last + 1 - count..).zip(bodies) {
        let id = LedgerId {
            partition,
            sequence,
        };
        entries.push(Entry {
            id,
            at,
            campaign: campaign.clone(),
            body,
        });
    }
    Ok(())
}

fn campaign_id(id: &str) -> Result<CampaignId> {
    CampaignId::parse("campaign", id).map_err(|problem| StoreError::Corrupt(problem.message))
}

fn window_state(window: &Window) -> WindowState {
    match window.mark {
        WindowMark::Missed => WindowState::Missed,
        WindowMark::Recalled => WindowState::Recalled,
        WindowMark::Frozen if window.is_filling() => WindowState::Injecting,
        WindowMark::Frozen => WindowState::Injected,
    }
}

/// What became of one prize's units in a window, of which so many are not released yet.
fn window_units(counted: &WindowPrize, won: u64, to_come: u64) -> WindowUnits {
    WindowUnits {
        planned: counted.planned,
        carried: counted.carried,
        injected: counted.granted,
        released: counted.placed.saturating_sub(counted.recalled + to_come),
        won,
        recalled: counted.recalled,
        returned: counted.returned,
    }
}

impl Loaded {
    /// Units that wait in each pool, those of held prizes aside. All cards that were dealt are in their queues, so this is how
    /// many a deck can give.
    pub(super) fn available(&self) -> Result<Vec<u64>> {
        let mut available = vec![0; self.state.pools.len()];
        for (keys, queue) in self.layout.iter().flat_map(|layout| layout.queues()) {
            if !queue.prize.is_some_and(|prize| self.state.is_paused(prize)) {
                available[usize::from(keys.no.0)] += self.fields.waiting(keys.no, queue)?;
            }
        }
        Ok(available)
    }

    /// Where every unit is: `counts` are the units of each queue and the due ones among them.
    fn stats(&self, now: Moment, fields: &Fields, counts: &[u64]) -> Result<Stats> {
        let state = &self.state;
        let Some(layout) = &self.layout else {
            return Err(unexpected("campaign"));
        };
        let mut prizes = Vec::with_capacity(state.stock.len());
        for (prize, stock) in (0u16..).zip(&state.stock) {
            let won = fields.counter(&format!("won:{prize}"))?;
            prizes.push(PrizeStats {
                stock: stock.given,
                left: stock.remaining,
                waiting: 0,
                won,
                withdrawn: stock.withdrawn,
                returned: stock.returned,
                released: won,
            });
        }
        let mut pools_agree = true;
        let mut cards_waiting = vec![0; state.pools.len()];
        for ((keys, queue), counted) in layout.queues().zip(counts.chunks(2)) {
            let place = usize::from(keys.no.0);
            let waiting = fields.waiting(keys.no, queue)?;
            let unplaced = queue
                .prize
                .map_or(0, |prize| unplaced(&state.pools[place], prize));
            pools_agree &= waiting == counted[0] + unplaced;
            cards_waiting[place] += waiting;
            if let Some(prize) = queue.prize {
                let stats = &mut prizes[usize::from(prize.0)];
                stats.waiting += waiting;
                stats.released += counted[1] + returned(&state.pools[place], prize);
            }
        }
        let decks = state.view.campaign.numbered_pools().zip(&state.pools);
        let decks = decks.filter_map(|((no, pool), deck)| match (&pool.kind, deck) {
            (PoolKind::Deck(_), PoolState::Deck(deck)) => Some(DeckStats {
                pool: no,
                round: deck.round,
                cards_left: deck.remaining.iter().map(|kind| kind.cards).sum(),
                cards_waiting: cards_waiting[usize::from(no.0)],
                stopped: state.deck_stop(no),
            }),
            _ => None,
        });
        Ok(Stats {
            now,
            prizes,
            pools_agree,
            draws: fields.draws()?,
            users: fields.counter("users")?,
            decks: decks.collect(),
            view: fields.view(Arc::clone(&layout.campaign))?,
        })
    }
}

/// Units granted to windows and not yet in the pool.
fn unplaced(pool: &PoolState, prize: PrizeNo) -> u64 {
    let PoolState::Schedule(schedule) = pool else {
        return 0;
    };
    let windows = schedule.windows.values();
    let prizes = windows.filter_map(|window| window.prizes.get(&prize));
    prizes.map(|counted| counted.granted - counted.placed).sum()
}

/// Released units that went back to stock since nobody took them.
fn returned(pool: &PoolState, prize: PrizeNo) -> u64 {
    match pool {
        PoolState::Schedule(schedule) => schedule.returned.get(&prize).copied().unwrap_or(0),
        PoolState::Deck(_) => 0,
    }
}
