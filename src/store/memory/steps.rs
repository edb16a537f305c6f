//! Every step but a draw: the rule decides on a copy, and what it changed is written.

use super::{
    campaign::CampaignData,
    core::{Core, missing},
    ledger::What,
};
use crate::{
    model::{CampaignId, Moment, PoolNo, RequestId, UserId},
    store::{
        ApplyCommand, LedgerId, OperateCommand, Operated, Operation, Result, StoreError, Sweep,
        Swept, WinCommand, WinOperated,
        entry::Body,
        fill::CHUNK_UNITS_MAX,
        rules::{self, KnownWin, Placed, Range, State, Subjects},
    },
};

impl Core {
    /// Runs a rule that needs no more than a campaign and some of its windows.
    pub(super) fn step<T>(
        &mut self,
        id: &CampaignId,
        asked: &[(PoolNo, Moment)],
        rule: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.load(id, asked)?;
        let outcome = rule(&mut state)?;
        self.save(id, state)?;
        Ok(outcome)
    }

    pub(super) fn apply(&mut self, command: &ApplyCommand) -> Result<Operated> {
        let id = &command.campaign.id;
        if !self.campaigns.contains_key(id) {
            if self.removed_campaigns.contains_key(id) {
                return Err(self.not_found(id).into());
            }
            let state = rules::create(command, self.now(), self.is_test())?;
            self.campaigns.insert(id.clone(), CampaignData::new(&state));
            let ledger = self.save(id, state)?;
            return self.operated(id, ledger, 0);
        }
        let is_same = |body: &Body| rules::is_same_version(body, command);
        if let Some(operated) = self.replay_of(id, &command.author.request, is_same)? {
            return Ok(operated);
        }
        let mut state = self.load(id, &[])?;
        rules::change(&mut state, command, self.is_test())?;
        let ledger = self.save(id, state)?;
        self.operated(id, ledger, 0)
    }

    pub(super) fn operate(&mut self, command: &OperateCommand) -> Result<Operated> {
        let (id, operation) = (&command.campaign, &command.operation);
        let is_same = |body: &Body| rules::is_same_operation(body, command);
        if let Some(operated) = self.replay_of(id, &command.author.request, is_same)? {
            return Ok(operated);
        }
        let subjects = self.campaign(id)?.subjects(operation);
        let mut state = self.load(id, &rules::windows_needed(operation))?;
        let users = rules::operate(&mut state, command, &subjects)?;
        let ledger = self.save(id, state)?;
        self.operated(id, ledger, users)
    }

    pub(super) fn operate_win(&mut self, command: &WinCommand) -> Result<WinOperated> {
        let (id, win) = (&command.campaign, &command.win);
        let is_same = |body: &Body| rules::is_same_win_operation(body, command);
        let replayed = self.replay_of(id, &command.author.request, is_same)?;
        let campaign = self.campaign(id)?;
        let won = campaign.won.get(usize::from(win.prize.0));
        let known = KnownWin {
            won: won.copied().unwrap_or(0),
            delivery: campaign.deliveries.get(&(win.pool, win.unit)).cloned(),
        };
        if replayed.is_some() {
            return known.replay();
        }
        let mut state = self.load(id, &[])?;
        let operated = rules::operate_win(&mut state, command, known)?;
        self.save(id, state)?;
        Ok(operated)
    }

    pub(super) fn sweep(&mut self, id: &CampaignId, sweep: Sweep) -> Result<Swept> {
        let mut state = self.load(id, &[])?;
        let campaign = self.campaign(id)?;
        let found = campaign.find(&rules::search(&state, sweep));
        let asked = rules::windows_of(&state, &found)?;
        campaign.add_windows(&mut state, &asked);
        let swept = rules::sweep(&mut state, sweep, found)?;
        self.save(id, state)?;
        Ok(swept)
    }

    fn load(&mut self, id: &CampaignId, asked: &[(PoolNo, Moment)]) -> Result<State> {
        let now = self.now();
        Ok(self.campaign(id)?.load(now, asked))
    }

    fn save(&mut self, id: &CampaignId, state: State) -> Result<Option<LedgerId>> {
        let campaign = self.campaigns.get_mut(id);
        let campaign = campaign.ok_or_else(|| StoreError::corrupt("the campaign is gone"))?;
        campaign.save(state, &mut self.ledger)
    }

    fn operated(&self, id: &CampaignId, ledger: Option<LedgerId>, users: u32) -> Result<Operated> {
        let ledger = ledger.ok_or_else(|| StoreError::corrupt("an operation has no entry"))?;
        Ok(Operated {
            replayed: false,
            ledger,
            users,
            version: self.campaign(id)?.state.view.version,
        })
    }

    /// The reply of the operation that had this request id; an error if it was another one.
    pub(super) fn replay_of(
        &self,
        id: &CampaignId,
        request: &RequestId,
        is_same: impl FnOnce(&Body) -> bool,
    ) -> Result<Option<Operated>> {
        let campaign = self.campaign(id)?;
        let Some(ledger) = campaign.operations.get(request) else {
            return Ok(None);
        };
        let record = self.ledger.get(ledger.sequence);
        let Some(What::Other(body)) = record.map(|record| &record.what) else {
            return Err(missing(ledger.sequence));
        };
        rules::replay(body, *ledger, campaign.state.view.version, is_same).map(Some)
    }
}

impl CampaignData {
    /// What rules must know of the users that an operation names.
    fn subjects(&self, operation: &Operation) -> Subjects {
        let changed = |users: &[UserId], is_blocked: bool| {
            let users = users.iter();
            let users = users.filter(|user| self.blocked.contains_key(*user) == is_blocked);
            Subjects::Users(users.cloned().collect())
        };
        match operation {
            Operation::Grant { users, .. } => {
                let record = |user: &UserId| self.users.get(user).map(|known| known.record.clone());
                let records = users.iter().map(|user| (user.clone(), record(user)));
                Subjects::Records(records.collect())
            }
            Operation::Block { users } => changed(users, false),
            Operation::Unblock { users } => changed(users, true),
            _ => Subjects::None,
        }
    }

    /// The units of the ranges, in their order, as many as one step moves.
    fn find(&self, ranges: &[Range]) -> Vec<Placed> {
        let mut found = Vec::new();
        for range in ranges {
            let room = CHUNK_UNITS_MAX - found.len();
            let queue = self.pools[usize::from(range.pool.0)].queue(range.prize);
            let units = queue.map(|queue| queue.find(range, range.limit.min(room)));
            found.extend(units.into_iter().flatten());
        }
        found
    }
}
