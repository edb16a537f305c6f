//! Statistics: where every unit of a campaign is, and how many units of each window were released
//! and won.

use std::sync::Arc;

use crate::store::redis::{
    core::Core,
    format::{
        keys::{PoolKeys, slot},
        reply::{self, Parts, letter, unexpected},
        scripts,
    },
    step::{
        campaign::{Fields, from_json},
        decide::contended,
        layout::Layout,
        load::{Loaded, window_start},
    },
};
use crate::{
    model::{CampaignId, Moment, PoolKind, PoolNo, PrizeNo},
    store::{
        LedgerId, Result, Stats, StoreError, WindowView,
        rules::{PoolState, Window, WindowPrize},
        view::{DeckStats, WindowUnits},
    },
};

/// Counts that one script makes for windows: two for each queue of a window.
const WINDOW_COUNTS: usize = 1000;
/// How often a read begins again because the campaign has changed in between.
const ROUNDS_MAX: usize = 100;

impl Core {
    /// Where every unit is.
    pub(crate) async fn stats(&self, id: &CampaignId) -> Result<Stats> {
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
            let head = LedgerId {
                partition: layout.partition.number,
                sequence: reply::number(parts.next()?)?,
            };
            return loaded.stats((now, head), &fields, &counts);
        }
        Err(contended())
    }

    /// Frozen windows of a pool that end after `after`, read page by page.
    pub(crate) async fn windows(
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
        let first = self.first(&mut parts);
        for row in reply::list(self.explained(&layout.campaign.id, first).await?)? {
            let mut row = Parts::of(row)?;
            let start = window_start(reply::number(row.next()?)?)?;
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
                    prizes.push((prize, window_units(counted, won, to_come)?));
                }
            }
            views.push(WindowView {
                pool: pool_keys.no,
                start,
                end: window.end,
                version: window.version,
                state: window.state(),
                prizes,
            });
        }
        Ok(views)
    }
}

/// The units of one prize in a window; `to_come` of them wait and are not released yet.
fn window_units(counted: &WindowPrize, won: u64, to_come: u64) -> Result<WindowUnits> {
    let not_released = counted.recalled.checked_add(to_come);
    let released = not_released.and_then(|units| counted.placed.checked_sub(units));
    let released = released.ok_or_else(|| {
        let text = format!("{to_come} units are to come of a window with {counted:?}");
        StoreError::corrupt(text)
    })?;
    Ok(WindowUnits {
        planned: counted.planned,
        carried: counted.carried,
        injected: counted.granted,
        released,
        won,
        recalled: counted.recalled,
        returned: counted.returned,
    })
}

impl Loaded {
    /// Units that wait in each pool, without those of held prizes. All cards that were dealt are in
    /// their queues, so for a deck this is how many cards it can give.
    pub(crate) fn available(&self) -> Result<Vec<u64>> {
        let mut available = vec![0; self.state.pools.len()];
        for (keys, queue) in self.layout.iter().flat_map(|layout| layout.queues()) {
            if !queue.prize.is_some_and(|prize| self.state.is_paused(prize)) {
                available[usize::from(keys.no.0)] += self.fields.waiting(keys.no, queue)?;
            }
        }
        Ok(available)
    }

    /// Where every unit is: `counts` are the units of each queue and the due ones among them.
    fn stats(
        &self,
        (now, head): (Moment, LedgerId),
        fields: &Fields,
        counts: &[u64],
    ) -> Result<Stats> {
        let state = &self.state;
        let Some(layout) = &self.layout else {
            return Err(unexpected("campaign"));
        };
        let mut prizes = Vec::with_capacity(state.stock.len());
        for (prize, stock) in fields.stock(&layout.campaign)?.into_iter().enumerate() {
            let won = fields.counter(&format!("won:{prize}"))?;
            prizes.push(stock.stats(won));
        }
        let mut pools_agree = true;
        let mut cards_waiting = vec![0; state.pools.len()];
        for ((keys, queue), counted) in layout.queues().zip(counts.chunks(2)) {
            let pool = usize::from(keys.no.0);
            let waiting = fields.waiting(keys.no, queue)?;
            let unplaced = queue
                .prize
                .map_or(0, |prize| state.pools[pool].unplaced(prize));
            pools_agree &= waiting == counted[0] + unplaced;
            cards_waiting[pool] += waiting;
            if let Some(prize) = queue.prize {
                let stats = &mut prizes[usize::from(prize.0)];
                stats.waiting += waiting;
                stats.released += counted[1] + returned(&state.pools[pool], prize);
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
                lacking: state.deck_lacking(deck),
            }),
            _ => None,
        });
        Ok(Stats {
            now,
            head,
            entries: fields.counter("entries")?,
            prizes,
            pools_agree,
            draws: fields.draws()?,
            spent_day: fields.spent_day()?,
            users: fields.counter("users")?,
            decks: decks.collect(),
            view: fields.view(Arc::clone(&layout.campaign))?,
        })
    }
}

/// Released units that went back to stock since nobody took them.
fn returned(pool: &PoolState, prize: PrizeNo) -> u64 {
    match pool {
        PoolState::Schedule(schedule) => schedule.returned.get(&prize).copied().unwrap_or(0),
        PoolState::Deck(_) | PoolState::Personal => 0,
    }
}
