//! New versions of campaigns and operators' acts on them, made at once or by approving a proposal.

use super::{
    decide::{operation_fingerprint, version_fingerprint},
    load::Loaded,
    proposals::KeptProposals,
};
use crate::store::{
    ApplyCommand, OperateCommand, Operated, Operation, Result,
    redis::core::Core,
    rules::{self, Subjects},
};

impl Core {
    /// Creates a campaign; none if there is one now, or if `proposals`, of which one is approved by
    /// this, have changed.
    pub(crate) async fn create(
        &self,
        command: &ApplyCommand,
        proposals: Option<KeptProposals>,
    ) -> Result<Option<Operated>> {
        let now = self.time(&command.campaign.id).await?;
        let state = rules::create(command, now, self.clock.is_test())?;
        let mut loaded = Loaded::new(state);
        loaded.proposals = proposals;
        let written = self.write(&loaded).await?;
        Ok(written.map(|ledger| Operated {
            replayed: false,
            ledger,
            users: 0,
            version: 1,
        }))
    }

    /// Makes a new version; none if the campaign or `proposals` have changed since they were read.
    pub(crate) async fn change(
        &self,
        command: &ApplyCommand,
        proposals: Option<KeptProposals>,
    ) -> Result<Option<Operated>> {
        let id = &command.campaign.id;
        let mut loaded = self.load(id, &[]).await?;
        let state = &mut loaded.state;
        let digest = rules::digest(&command.campaign);
        let author = &command.author;
        let fingerprint = version_fingerprint(command.base_version, &digest, author.proposal());
        let version = state.view.version;
        let replayed = self.replayed(id, &author.request, &fingerprint, version);
        if let Some(replayed) = replayed.await? {
            return Ok(Some(replayed));
        }
        rules::change(state, command, self.clock.is_test())?;
        let version = state.view.version;
        loaded.proposals = proposals;
        let written = self.write(&loaded).await?;
        Ok(written.map(|ledger| Operated {
            replayed: false,
            ledger,
            users: 0,
            version,
        }))
    }

    /// Does an operator's act; none if the campaign or `proposals` have changed since they were
    /// read.
    pub(crate) async fn try_operate(
        &self,
        command: &OperateCommand,
        proposals: Option<KeptProposals>,
    ) -> Result<Option<Operated>> {
        let id = &command.campaign;
        let named = rules::windows_needed(&command.operation);
        let mut loaded = self.load(id, &named).await?;
        let version = loaded.state.view.version;
        if proposals
            .as_ref()
            .is_some_and(|kept| kept.version != version)
        {
            return Ok(None);
        }
        let author = &command.author;
        let fingerprint = operation_fingerprint(&command.operation, author.proposal());
        let replayed = self.replayed(id, &author.request, &fingerprint, version);
        if let Some(replayed) = replayed.await? {
            return Ok(Some(replayed));
        }
        let subjects = match &command.operation {
            Operation::Grant { users, .. } => {
                Subjects::Records(self.load_records(&mut loaded, users).await?)
            }
            Operation::Block { users } => {
                Subjects::Users(self.users_blocked(id, users, false).await?)
            }
            Operation::Unblock { users } => {
                Subjects::Users(self.users_blocked(id, users, true).await?)
            }
            _ => Subjects::None,
        };
        let users = rules::operate(&mut loaded.state, command, &subjects)?;
        loaded.proposals = proposals;
        let written = self.write(&loaded).await?;
        Ok(written.map(|ledger| Operated {
            replayed: false,
            ledger,
            users,
            version,
        }))
    }
}
