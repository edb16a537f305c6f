//! New campaigns and new versions.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{
    job::Command,
    operate::{remember, replay_of},
    state::{CampaignState, DeckState, PoolStateKind, ScheduleState, Stock, add, load_view},
    step::{Step, scalar, to_json},
    units::slot,
};
use crate::{
    model::{
        Campaign, Moment, Pool, PoolKind, PoolNo, PrizeNo,
        campaign::Quantities,
        change::{self, Standing},
        convert,
    },
    store::{ApplyCommand, Lifecycle, Operated, Refusal, Result, entry::Body, fill::TotalsBase},
};

impl Command for ApplyCommand {
    type Reply = Operated;

    fn run(&self, step: &mut Step<'_>) -> Result<Operated> {
        let id = &self.campaign.id;
        if load_view(step.db, id, None)?.is_none() {
            return create(self, step);
        }
        step.with(id, |step, state| {
            let replayed = replay_of(step.db, state, &self.author.request, |body| {
                matches!(body, Body::Applied { base_version, definition_sha256, .. }
                    if *base_version == self.base_version && *definition_sha256 == digest(&self.campaign))
            })?;
            match replayed {
                Some(operated) => Ok(operated),
                None => change(self, step, state),
            }
        })
    }
}

/// SHA-256 of a definition's encoding.
fn digest(campaign: &Campaign) -> String {
    use std::fmt::Write as _;
    let hash = Sha256::digest(convert::encode(campaign));
    hash.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn create(command: &ApplyCommand, step: &mut Step<'_>) -> Result<Operated> {
    if command.base_version != 0 {
        return Err(Refusal::VersionStale {
            named: command.base_version,
            current: 0,
        }
        .into());
    }
    let campaign = &command.campaign;
    if step.now >= campaign.end {
        return Err(Refusal::Ended(campaign.end).into());
    }
    step.db
        .prepare_cached(
            "INSERT INTO campaigns (id, version, lifecycle, touched, paused_prizes, nonce, commitment,
                                    blocked_users, users, wins, consolations, nothings)
             VALUES (?1, 1, 0, 0, '[]', ?2, ?3, 0, 0, 0, 0, 0)",
        )?
        .execute(params![campaign.id.as_str(), command.nonce.0, command.commitment])?;
    let no = step.db.last_insert_rowid();
    lay_out(step, no, campaign, 1)?;
    let stock = (0..)
        .map(PrizeNo)
        .zip(campaign.prizes.iter().map(|p| p.stock));
    record(command, step, no, 1, (stock.collect(), false))
}

fn change(
    command: &ApplyCommand,
    step: &mut Step<'_>,
    state: &mut CampaignState,
) -> Result<Operated> {
    let before = Arc::clone(&state.view.campaign);
    let after = &command.campaign;
    if matches!(state.view.lifecycle, Lifecycle::Closing | Lifecycle::Closed) {
        return Err(Refusal::Closed.into());
    }
    if command.base_version != state.view.version {
        return Err(Refusal::VersionStale {
            named: command.base_version,
            current: state.view.version,
        }
        .into());
    }
    let standing = Standing {
        now: step.now,
        touched: state.view.touched,
    };
    let problems = change::check(&before, after, standing);
    if !problems.is_empty() {
        return Err(Refusal::ChangeRefused(problems).into());
    }
    if step.now >= after.end {
        return Err(Refusal::Ended(after.end).into());
    }
    let version = state.view.version + 1;
    state.flush(step.db)?;
    let mut added = Quantities::new();
    let is_anew = !state.view.touched && step.now < before.start;
    if !is_anew {
        for (prize, new) in after.numbered_prizes() {
            let old = before
                .prizes
                .get(usize::from(prize.0))
                .map_or(0, |p| p.stock);
            add(&mut added, prize, new.stock - old);
        }
        extend(step, state, after, version, &added)?;
    } else {
        clear(step, state.no)?;
        hold_by_id(step, state, &before, after)?;
        lay_out(step, state.no, after, version)?;
        added = (0..)
            .map(PrizeNo)
            .zip(after.prizes.iter().map(|p| p.stock))
            .collect();
    }
    step.db
        .prepare_cached("UPDATE campaigns SET version = ?2 WHERE no = ?1")?
        .execute(params![state.no, version])?;
    let operated = record(command, step, state.no, version, (added, is_anew))?;
    *state = CampaignState::load(step.db, &after.id)?.ok_or(Refusal::CampaignNotFound)?;
    step.changed(state);
    Ok(operated)
}

/// Keeps the version and writes its entry.
fn record(
    command: &ApplyCommand,
    step: &mut Step<'_>,
    no: i64,
    version: u32,
    (stock_added, stock_anew): (Quantities, bool),
) -> Result<Operated> {
    let author = &command.author;
    step.db
        .prepare_cached(
            "INSERT INTO versions (campaign, version, at, operator, reason, definition) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            no,
            version,
            step.now.as_micros(),
            author.operator.as_str(),
            author.reason,
            convert::encode(&command.campaign)
        ])?;
    let commitment: String = scalar(
        step.db,
        "SELECT commitment FROM campaigns WHERE no = ?1",
        [no],
    )?;
    let ledger = step.append(
        no,
        &Body::Applied {
            version,
            base_version: command.base_version,
            definition_sha256: digest(&command.campaign),
            commitment,
            stock_added,
            stock_anew,
            author: author.clone(),
        },
    )?;
    remember(step.db, no, &author.request, ledger)?;
    if version == 1 {
        let id = &command.campaign.id;
        if let Some(state) = CampaignState::load(step.db, id)? {
            step.changed(&state);
            step.put(state);
        }
    }
    Ok(Operated {
        replayed: false,
        ledger,
        users: 0,
        version,
    })
}

/// Stock, queues and pools of a campaign of which nothing exists yet.
fn lay_out(step: &mut Step<'_>, no: i64, campaign: &Campaign, version: u32) -> Result<()> {
    for (prize, definition) in campaign.numbered_prizes() {
        insert_stock(step, no, prize, definition.stock)?;
    }
    for (pool_no, pool) in campaign.numbered_pools() {
        lay_out_pool(step, no, campaign, pool_no, pool, version)?;
    }
    Ok(())
}

fn insert_stock(step: &Step<'_>, no: i64, prize: PrizeNo, given: u64) -> Result<()> {
    step.db
        .prepare_cached(
            "INSERT INTO stock (campaign, prize, given, remaining, won, withdrawn, returned) VALUES (?1, ?2, ?3, ?3, 0, 0, 0)",
        )?
        .execute(params![no, prize.0, given])?;
    Ok(())
}

fn lay_out_pool(
    step: &mut Step<'_>,
    no: i64,
    campaign: &Campaign,
    pool_no: PoolNo,
    pool: &Pool,
    version: u32,
) -> Result<()> {
    add_queues(step, no, pool_no, pool)?;
    match &pool.kind {
        PoolKind::Schedule(schedule) => {
            // A pool that comes later begins with the hour that runs.
            let horizon = campaign
                .zone
                .window_at(step.now, campaign.start, campaign.end)
                .map_or(campaign.start, |window| window.start);
            ScheduleState {
                horizon,
                totals: TotalsBase {
                    revision: version,
                    from: horizon,
                    remaining: schedule.total.clone(),
                },
                carry: Default::default(),
                filled_until: horizon,
            }
            .save(step.db, no, pool_no)
        }
        PoolKind::Deck(deck) => DeckState {
            round: 1,
            chunk: 0,
            dealt: 0,
            remaining: deck.first_round(),
            short: None,
            later_round: Vec::new(),
        }
        .save(step.db, no, pool_no),
    }
}

/// A queue for each prize that the pool may hold, and a deck's blanks.
fn add_queues(step: &Step<'_>, no: i64, pool_no: PoolNo, pool: &Pool) -> Result<()> {
    let prizes: Vec<Option<PrizeNo>> = match &pool.kind {
        PoolKind::Schedule(schedule) => {
            let layers = [&schedule.total, &schedule.per_hour]
                .into_iter()
                .chain(schedule.daily.iter().map(|daily| &daily.per_hour))
                .chain(schedule.special.iter().map(|special| &special.per_hour));
            layers
                .flat_map(|layer| layer.keys().copied().map(Some))
                .collect()
        }
        PoolKind::Deck(deck) => deck.cards.keys().copied().map(Some).chain([None]).collect(),
    };
    for prize in prizes {
        step.db
            .prepare_cached(
                "INSERT OR IGNORE INTO queues (campaign, pool, prize, waiting) VALUES (?1, ?2, ?3, 0)",
            )?
            .execute(params![no, pool_no.0, slot(prize)])?;
    }
    Ok(())
}

/// Removes what [`lay_out`] made, of a campaign of which nothing has moved yet.
fn clear(step: &Step<'_>, no: i64) -> Result<()> {
    for table in [
        "stock",
        "queues",
        "schedules",
        "decks",
        "windows",
        "window_prizes",
        "fills",
    ] {
        step.db
            .execute(&format!("DELETE FROM {table} WHERE campaign = ?1"), [no])?;
    }
    Ok(())
}

/// Prizes may have other numbers now: those that were held stay held, those that are gone do not count.
fn hold_by_id(
    step: &Step<'_>,
    state: &mut CampaignState,
    before: &Campaign,
    after: &Campaign,
) -> Result<()> {
    let held = state.view.paused_prizes.iter();
    let mut held: Vec<PrizeNo> = held
        .filter_map(|prize| after.prize_no(before.prize(*prize).id.as_str()))
        .collect();
    held.sort_unstable();
    state.view.paused_prizes = held.into();
    save_paused(step, state)
}

/// What a new version adds to a campaign that has begun.
fn extend(
    step: &mut Step<'_>,
    state: &mut CampaignState,
    after: &Campaign,
    version: u32,
    added: &Quantities,
) -> Result<()> {
    for (prize, units) in added {
        if let Some(stock) = state.stock.get_mut(usize::from(prize.0)) {
            stock.given += units;
            stock.remaining += units;
            stock.dirty = true;
            state.dirty = true;
        }
    }
    state.flush(step.db)?;
    for (prize, definition) in after.numbered_prizes().skip(state.stock.len()) {
        insert_stock(step, state.no, prize, definition.stock)?;
        state.stock.push(Stock::default());
    }
    for (pool_no, pool) in after.numbered_pools() {
        if usize::from(pool_no.0) >= state.pools.len() {
            lay_out_pool(step, state.no, after, pool_no, pool, version)?;
            continue;
        }
        add_queues(step, state.no, pool_no, pool)?;
        let before = Arc::clone(&state.view.campaign);
        if let (PoolKind::Schedule(old), PoolKind::Schedule(new)) =
            (&before.pool(pool_no).kind, &pool.kind)
            && (old.total != new.total || before.end != after.end)
        {
            share_out_anew(step, state, pool_no, (&old.total, &new.total), version)?;
        }
    }
    Ok(())
}

/// Units planned by `total` that are not yet in a window are shared out over the windows to come, those of missed windows too.
fn share_out_anew(
    step: &Step<'_>,
    state: &mut CampaignState,
    pool_no: PoolNo,
    (old, total): (&Quantities, &Quantities),
    version: u32,
) -> Result<()> {
    let no = state.no;
    let PoolStateKind::Schedule(schedule) = &mut state.pool(pool_no).kind else {
        return Ok(());
    };
    let mut remaining = Quantities::new();
    for (prize, units) in total {
        let placed: Option<u64> = step
            .db
            .prepare_cached(
                "SELECT SUM(granted - recalled) FROM window_prizes WHERE campaign = ?1 AND pool = ?2 AND prize = ?3",
            )?
            .query_row(params![no, pool_no.0, prize.0], |row| row.get(0))
            .optional()?
            .flatten();
        let left = units.saturating_sub(placed.unwrap_or(0));
        add(&mut remaining, *prize, left);
    }
    let is_total = |prize: &PrizeNo| old.contains_key(prize) || total.contains_key(prize);
    schedule.carry.units.retain(|prize, _| !is_total(prize));
    if schedule.carry.units.is_empty() {
        schedule.carry.windows = 0;
    }
    schedule.totals = TotalsBase {
        revision: version,
        from: schedule.horizon,
        remaining,
    };
    schedule.save(step.db, no, pool_no)
}

/// Sets the held prizes in the campaign's row.
pub(super) fn save_paused(step: &Step<'_>, state: &CampaignState) -> Result<()> {
    step.db
        .prepare_cached("UPDATE campaigns SET paused_prizes = ?2 WHERE no = ?1")?
        .execute(params![
            state.no,
            to_json(&state.view.paused_prizes.as_ref())
        ])?;
    Ok(())
}

/// A moment that is stored in seconds as the window of units.
pub(super) fn window_key(start: Moment) -> i64 {
    start.as_seconds()
}
