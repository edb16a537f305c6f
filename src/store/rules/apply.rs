//! New campaigns and new versions.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::{
    chance::hex,
    model::{
        Campaign, Moment, Pool, PoolKind, PoolNo, PrizeNo, Quantities,
        change::{self, Standing},
        convert, zone,
    },
    store::{
        ApplyCommand, Hold, Lifecycle, Refusal, Result, StoreError,
        entry::{Applied, Body},
        fill::TotalsBase,
        view::VersionInfo,
    },
};

use super::{
    book::{add, less},
    hold::holds,
    propose::{refuse_unapproved, refuse_unverifiable},
    state::{DeckState, PoolState, ScheduleState, State, Stock},
};

/// SHA-256 of a definition's encoding, hexadecimal.
pub(in crate::store) fn digest(campaign: &Campaign) -> String {
    hex(&Sha256::digest(convert::encode(campaign)))
}

/// A campaign of an id that there is none of.
///
/// `test_clock` says whether the store is on a test clock.
pub(in crate::store) fn create(
    command: &ApplyCommand,
    now: Moment,
    test_clock: bool,
) -> Result<State> {
    if command.base_version != 0 {
        return Err(Refusal::VersionStale {
            named: command.base_version,
            current: 0,
        }
        .into());
    }
    let campaign = &command.campaign;
    refuse_unverifiable(campaign.approval_required, &command.author)?;
    if now >= campaign.end {
        return Err(Refusal::Ended(campaign.end).into());
    }
    let commitment = &command.commitment;
    let mut state = State::new(Arc::clone(campaign), command.nonce, commitment, now);
    state.lay_out(campaign, 1);
    // There was nothing that could be void.
    state.put_in_force(command, 1, (all_stock(campaign), false), test_clock);
    Ok(state)
}

/// A new version of a campaign.
pub(in crate::store) fn change(
    state: &mut State,
    command: &ApplyCommand,
    test_clock: bool,
) -> Result<()> {
    let before = Arc::clone(&state.view.campaign);
    let after = &command.campaign;
    refuse_change(state, command)?;
    let version = state.view.version + 1;
    let is_anew = !state.view.touched && state.now < before.start;
    let added = if is_anew {
        state.hold_by_id(&before, after);
        state.lay_out(after, version);
        all_stock(after)
    } else {
        let added = added_stock(&before, after)?;
        state.extend(after, version, &added)?;
        added
    };
    state.put_in_force(command, version, (added, is_anew), test_clock);
    Ok(())
}

fn refuse_change(state: &State, command: &ApplyCommand) -> Result<()> {
    let view = &state.view;
    if matches!(view.lifecycle, Lifecycle::Closing | Lifecycle::Closed) {
        return Err(Refusal::Closed.into());
    }
    if command.base_version != view.version {
        return Err(Refusal::VersionStale {
            named: command.base_version,
            current: view.version,
        }
        .into());
    }
    refuse_unapproved(view.campaign.approval_required, &command.author)?;
    refuse_unverifiable(command.campaign.approval_required, &command.author)?;
    let standing = Standing {
        now: state.now,
        touched: view.touched,
    };
    let problems = change::check(&view.campaign, &command.campaign, standing);
    if !problems.is_empty() {
        return Err(Refusal::ChangeRefused(problems).into());
    }
    let end = command.campaign.end;
    if state.now >= end {
        return Err(Refusal::Ended(end).into());
    }
    Ok(())
}

fn all_stock(campaign: &Campaign) -> Quantities {
    let prizes = campaign.numbered_prizes();
    prizes.map(|(no, prize)| (no, prize.stock)).collect()
}

fn added_stock(before: &Campaign, after: &Campaign) -> Result<Quantities> {
    let mut added = Quantities::new();
    for (no, prize) in after.numbered_prizes() {
        let old = before.prizes.get(usize::from(no.0));
        let old = old.map_or(0, |old| old.stock);
        // What a prize was given before it became unlimited stays.
        let more = if prize.unlimited {
            prize.stock.saturating_sub(old)
        } else {
            less(prize.stock, old)?
        };
        add(&mut added, no, more);
    }
    Ok(added)
}

impl State {
    /// Makes the laid out version the current one, with its entry.
    fn put_in_force(
        &mut self,
        command: &ApplyCommand,
        version: u32,
        (stock_added, stock_anew): (Quantities, bool),
        test_clock: bool,
    ) {
        let author = &command.author;
        let info = VersionInfo {
            version,
            at: self.now,
            operator: author.operator.clone(),
            reason: author.reason.clone(),
            proposed_by: author.approved.as_ref().map(|it| it.operator.clone()),
        };
        let versions = self.view.versions.iter().cloned();
        self.view.versions = versions.chain([info]).collect();
        self.view.version = version;
        self.view.campaign = Arc::clone(&command.campaign);
        self.changes.is_new_version = true;
        self.changes.request = Some(author.request.clone());
        let applied = Applied {
            version,
            base_version: command.base_version,
            definition_sha256: digest(&command.campaign),
            definition: hex(&convert::encode(&command.campaign)),
            nonce: self.view.nonce.to_hex(),
            commitment: self.view.commitment.to_string(),
            stock_added,
            stock_anew,
            totals: self.totals_of(version),
            time_zones: zone::database_version().into(),
            test_clock,
            author: author.clone(),
        };
        self.changes.entries.push(Body::Applied(Box::new(applied)));
    }

    /// The units planned by `total` that a version shares out, by pool.
    fn totals_of(&self, version: u32) -> Vec<(PoolNo, TotalsBase)> {
        let schedules = (0..).map(PoolNo).zip(&self.pools);
        let totals = schedules.filter_map(|(no, pool)| match pool {
            PoolState::Schedule(schedule) => Some((no, &schedule.totals)),
            PoolState::Deck(_) | PoolState::Personal => None,
        });
        totals
            .filter(|(_, totals)| totals.revision == version && !totals.remaining.is_empty())
            .map(|(no, totals)| (no, totals.clone()))
            .collect()
    }

    /// Stock and pools of a campaign that nothing has happened to.
    fn lay_out(&mut self, campaign: &Campaign, version: u32) {
        self.changes.is_anew = true;
        let prizes = campaign.prizes.iter();
        self.stock = prizes.map(|prize| Stock::of(prize.stock)).collect();
        let pools = campaign.pools.iter();
        self.pools = pools
            .map(|pool| lay_out_pool(campaign, pool, version, self.now))
            .collect();
    }

    /// Prizes may have other numbers now: those that were held stay held, those that are gone do
    /// not count.
    fn hold_by_id(&mut self, before: &Campaign, after: &Campaign) {
        let number = |prize: PrizeNo| after.prize_no(before.prize(prize).id.as_str());
        let view = &mut self.view;
        let held = view.paused_prizes.iter();
        let mut held: Vec<PrizeNo> = held.filter_map(|prize| number(*prize)).collect();
        held.sort_unstable();
        let known = view.holds.iter().filter_map(|hold| {
            let prize = match hold.prize {
                Some(prize) => Some(number(prize)?),
                None => None,
            };
            let note = hold.note.clone();
            Some(Hold { prize, note })
        });
        let known: Vec<Hold> = known.collect();
        view.holds = holds(view.lifecycle, &held, &known, None);
        view.paused_prizes = held.into();
    }

    /// What a new version adds to a campaign that has begun.
    fn extend(&mut self, after: &Campaign, version: u32, added: &Quantities) -> Result<()> {
        self.stock.resize(after.prizes.len(), Stock::default());
        for (prize, units) in added {
            let stock = self.stock_mut(*prize)?;
            stock.given += units;
            stock.remaining += units;
        }
        let before = Arc::clone(&self.view.campaign);
        for (no, pool) in after.numbered_pools() {
            if usize::from(no.0) >= self.pools.len() {
                let pool = lay_out_pool(after, pool, version, self.now);
                self.pools.push(pool);
            } else if let (PoolKind::Schedule(old), PoolKind::Schedule(new)) =
                (&before.pool(no).kind, &pool.kind)
                && (old.total != new.total || before.end != after.end)
            {
                self.share_out_anew(no, (&old.total, &new.total), version)?;
            }
        }
        Ok(())
    }

    /// Units planned by `total` that are not yet in a window are shared out over the windows to
    /// come, those of missed windows too.
    fn share_out_anew(
        &mut self,
        no: PoolNo,
        (old, total): (&Quantities, &Quantities),
        version: u32,
    ) -> Result<()> {
        let schedule = self.schedule(no)?;
        let mut remaining = Quantities::new();
        for (prize, units) in total {
            let injected = schedule.injected.get(prize).copied().unwrap_or(0);
            add(&mut remaining, *prize, units.saturating_sub(injected));
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
        Ok(())
    }

    /// The stock of a prize, to be changed.
    pub(super) fn stock_mut(&mut self, prize: PrizeNo) -> Result<&mut Stock> {
        let stock = self.stock.get_mut(usize::from(prize.0));
        stock.ok_or_else(|| StoreError::corrupt(format!("there is no prize {}", prize.0)))
    }
}

fn lay_out_pool(campaign: &Campaign, pool: &Pool, version: u32, now: Moment) -> PoolState {
    match &pool.kind {
        PoolKind::Schedule(schedule) => {
            // A pool that comes later begins with the hour that runs.
            let running = campaign.zone.window_at(now, campaign.start, campaign.end);
            let horizon = running.map_or(campaign.start, |window| window.start);
            PoolState::Schedule(ScheduleState::new(
                horizon,
                TotalsBase {
                    revision: version,
                    from: horizon,
                    remaining: schedule.total.clone(),
                },
            ))
        }
        PoolKind::Deck(deck) => PoolState::Deck(DeckState {
            round: 1,
            chunk: 0,
            dealt: 0,
            remaining: deck.first_round(),
            short: None,
        }),
        PoolKind::Personal(_) => PoolState::Personal,
    }
}
