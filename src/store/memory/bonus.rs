//! A caller's grant of bonus draws as one step.

use std::sync::Arc;

use super::{core::Core, draw::Remembered, ledger::What};
use crate::store::{
    Refusal, Result, Subject,
    bonus::{BonusAnswer, BonusCommand, BonusEntry},
    entry::Body,
    rules,
};

impl Core {
    pub(super) fn grant_bonus(&mut self, command: BonusCommand) -> Result<BonusAnswer> {
        let now = self.now();
        let remembered = self.remembered(&command.campaign, &command.user, &command.request);
        match remembered.map_err(|error| error.of_draw(now))? {
            None => {}
            Some(Remembered::Bonus(answer)) if rules::is_same_bonus(&answer.entry, &command) => {
                return Ok(answer);
            }
            Some(_) => return Err(Refusal::RequestIdReused.into()),
        }
        rules::admit_bonus_time(&self.campaign(&command.campaign)?.state.view, &command, now)?;
        self.admit_backlog(now)?;
        let campaign = self
            .campaigns
            .get_mut(&command.campaign)
            .ok_or(Refusal::CampaignNotFound)?;
        let definition = Arc::clone(&campaign.state.view.campaign);
        let known = campaign.users.get(&command.user);
        let known = known.map(|it| it.record.clone());
        let record = rules::grant_bonus(&definition, &command, known, now)?;
        campaign.state.view.touched = true;
        let entry = BonusEntry {
            version: campaign.state.view.version,
            user: command.user.clone(),
            request: command.request.clone(),
            draws: command.draws,
            expires: command.expires,
            counts: record.counts(),
        };
        let subject = Subject::Campaign(command.campaign);
        let what = What::Other(Box::new(Body::Bonus(entry.clone())));
        let ledger = self.ledger.append(now, subject, what);
        let user = campaign.users.entry(command.user).or_default();
        user.record = record;
        if self.ledger.is_kept() {
            user.draws.insert(command.request, ledger);
        }
        Ok(BonusAnswer {
            entry: Arc::new(entry),
            ledger,
            at: now,
            replayed: false,
            campaign: definition,
        })
    }
}
