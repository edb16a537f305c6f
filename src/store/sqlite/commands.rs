//! The commands of a campaign, except draws. Each reads the state, lets the rule decide, and writes
//! what the rule has changed.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    columns::entry,
    job::Command,
    load::{add_windows, load},
    removal::not_found,
    save::{save, save_due},
    state::CampaignState,
    step::Step,
    units,
    users::{is_blocked, record_of},
};
use crate::{
    model::{CampaignId, Moment, PoolNo, RequestId},
    store::{
        AdjustCommand, ApplyCommand, DealCommand, FillCommand, Filled, FreezeCommand, LedgerId,
        OperateCommand, Operated, Operation, Refusal, Result, Step as Outcome, StoreError, Sweep,
        Swept,
        entry::Body,
        fill::CHUNK_UNITS_MAX,
        rules::{self, Placed, Range, State, Subjects},
    },
};

impl Command for ApplyCommand {
    type Reply = Operated;

    fn run(&self, step: &mut Step<'_>) -> Result<Operated> {
        let id = &self.campaign.id;
        let Some(mut campaign) = step.find(id)? else {
            if let removed @ StoreError::Refused(Refusal::Removed { .. }) = not_found(step.db, id)?
            {
                return Err(removed);
            }
            let state = rules::create(self, step.now, step.core.test_clock)?;
            let mut campaign = CampaignState::create(step.db, &state.view)?;
            let ledger = save(step, &mut campaign, state)?;
            let operated = done(&campaign, ledger, 0);
            step.put(campaign);
            return operated;
        };
        let outcome = apply(self, step, &mut campaign);
        step.put(campaign);
        outcome
    }
}

fn apply(
    command: &ApplyCommand,
    step: &mut Step<'_>,
    campaign: &mut CampaignState,
) -> Result<Operated> {
    let replayed = replay_of(step.db, campaign, &command.author.request, |body| {
        rules::is_same_version(body, command)
    })?;
    if let Some(operated) = replayed {
        return Ok(operated);
    }
    let mut state = load(step.db, campaign, step.now, &[])?;
    rules::change(&mut state, command, step.core.test_clock)?;
    let ledger = save(step, campaign, state)?;
    done(campaign, ledger, 0)
}

impl Command for OperateCommand {
    type Reply = Operated;

    fn run(&self, step: &mut Step<'_>) -> Result<Operated> {
        step.with(&self.campaign, |step, campaign| {
            operate(self, step, campaign)
        })
    }
}

fn operate(
    command: &OperateCommand,
    step: &mut Step<'_>,
    campaign: &mut CampaignState,
) -> Result<Operated> {
    let operation = &command.operation;
    let replayed = replay_of(step.db, campaign, &command.author.request, |body| {
        rules::is_same_operation(body, command)
    })?;
    if let Some(operated) = replayed {
        return Ok(operated);
    }
    let subjects = subjects(step, campaign, operation)?;
    let asked = rules::windows_needed(operation);
    let mut state = load(step.db, campaign, step.now, &asked)?;
    let users = rules::operate(&mut state, command, &subjects)?;
    let ledger = save(step, campaign, state)?;
    done(campaign, ledger, users)
}

/// What rules must know of the users that an operation names.
fn subjects(step: &Step<'_>, campaign: &CampaignState, operation: &Operation) -> Result<Subjects> {
    let (users, blocked) = match operation {
        Operation::Grant { users, .. } => {
            let records = users.iter().map(|user| {
                let row = step.user_row(campaign.no, user)?;
                let record = row.as_deref().map(record_of).transpose()?;
                Ok((user.clone(), record))
            });
            return Ok(Subjects::Records(records.collect::<Result<_>>()?));
        }
        Operation::Block { users } => (users, false),
        Operation::Unblock { users } => (users, true),
        _ => return Ok(Subjects::None),
    };
    let mut changed = Vec::new();
    for user in users {
        if is_blocked(step.db, campaign, user)? == blocked {
            changed.push(user.clone());
        }
    }
    Ok(Subjects::Users(changed))
}

fn done(campaign: &CampaignState, ledger: Option<LedgerId>, users: u32) -> Result<Operated> {
    let unwritten = || StoreError::corrupt("an operation has no entry");
    Ok(Operated {
        replayed: false,
        ledger: ledger.ok_or_else(unwritten)?,
        users,
        version: campaign.view.version,
    })
}

/// The reply of the operation that had this request id; an error if it was another one.
pub(super) fn replay_of(
    db: &Connection,
    campaign: &CampaignState,
    request: &RequestId,
    is_same: impl FnOnce(&Body) -> bool,
) -> Result<Option<Operated>> {
    let sequence: Option<u64> = db
        .prepare_cached("SELECT sequence FROM operations WHERE campaign = ?1 AND request = ?2")?
        .query_row(params![campaign.no, request.as_str()], |row| row.get(0))
        .optional()?;
    let Some(sequence) = sequence else {
        return Ok(None);
    };
    let found = entry(db, sequence)?
        .ok_or_else(|| StoreError::corrupt(format!("ledger entry {sequence} is missing")))?;
    rules::replay(&found.body, found.id, campaign.view.version, is_same).map(Some)
}

/// Runs a rule that needs no more than a campaign and some of its windows.
fn run<T>(
    step: &mut Step<'_>,
    id: &CampaignId,
    asked: &[(PoolNo, Moment)],
    rule: impl FnOnce(&mut State) -> Result<T>,
) -> Result<T> {
    step.with(id, |step, campaign| {
        let mut state = load(step.db, campaign, step.now, asked)?;
        let outcome = rule(&mut state)?;
        save(step, campaign, state)?;
        Ok(outcome)
    })
}

impl Command for FreezeCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        run(step, &self.campaign, &[], |state| {
            rules::freeze(state, self)
        })
    }
}

impl Command for AdjustCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        let asked = [(self.pool, self.window)];
        run(step, &self.campaign, &asked, |state| {
            rules::adjust(state, self)
        })
    }
}

impl Command for FillCommand {
    type Reply = Filled;

    fn run(&self, step: &mut Step<'_>) -> Result<Filled> {
        let asked = [(self.pool, self.window)];
        run(step, &self.campaign, &asked, |state| {
            rules::fill(state, self)
        })
    }
}

impl Command for DealCommand {
    type Reply = Outcome;

    fn run(&self, step: &mut Step<'_>) -> Result<Outcome> {
        run(step, &self.campaign, &[], |state| rules::deal(state, self))
    }
}

/// Brings the moment at which the injector finds a campaign to what its state says.
pub(super) struct IndexCommand {
    pub(super) campaign: CampaignId,
}

impl Command for IndexCommand {
    type Reply = ();

    fn run(&self, step: &mut Step<'_>) -> Result<()> {
        step.with(&self.campaign, |step, campaign| {
            let state = load(step.db, campaign, step.now, &[])?;
            save_due(step.db, campaign.no, rules::due(&state))
        })
    }
}

/// A sweep of one campaign.
pub(super) struct SweepCommand {
    pub(super) campaign: CampaignId,
    pub(super) sweep: Sweep,
}

impl Command for SweepCommand {
    type Reply = Swept;

    fn run(&self, step: &mut Step<'_>) -> Result<Swept> {
        step.with(&self.campaign, |step, campaign| {
            let mut state = load(step.db, campaign, step.now, &[])?;
            let ranges = rules::search(&state, self.sweep);
            if !ranges.is_empty() {
                // What draws of this batch took is not to be found.
                campaign.flush(step.db)?;
            }
            let found = find(step.db, campaign.no, &ranges)?;
            let asked = rules::windows_of(&state, &found)?;
            add_windows(step.db, campaign.no, &mut state, &asked)?;
            let swept = rules::sweep(&mut state, self.sweep, found)?;
            save(step, campaign, state)?;
            Ok(swept)
        })
    }
}

/// The units of the ranges, in their order, as many as one step moves.
fn find(db: &Connection, campaign: i64, ranges: &[Range]) -> Result<Vec<Placed>> {
    let mut found = Vec::new();
    for range in ranges {
        let room = CHUNK_UNITS_MAX - found.len();
        if room == 0 {
            break;
        }
        found.extend(units::find(db, campaign, range, range.limit.min(room))?);
    }
    Ok(found)
}
