//! Reads of users for operators: one user in full, and who is blocked.

use std::sync::Arc;

use crate::store::redis::{
    core::Core,
    format::{
        blocks,
        keys::IdDigest,
        record,
        reply::{self, Parts},
        scripts,
    },
};
use crate::{
    model::{CampaignId, UserId, limits::UserRecord},
    store::{BlockedUser, BlockedUsers, Result, UserDetails, UserView},
};

impl Core {
    /// A user's record, and the user's block if there is one.
    pub(crate) async fn user_details(&self, id: &CampaignId, user: &UserId) -> Result<UserDetails> {
        let (_, fields, layout) = self.read(id).await?;
        let view = fields.view(Arc::clone(&layout.campaign))?;
        let (digest, campaign) = (IdDigest::user(user), &layout.keys);
        let keys = [
            layout.partition.partition.clone(),
            campaign.users(digest.hash()),
            campaign.blocked.clone(),
            campaign.blocks.clone(),
        ];
        let [low, high] = blocks::range_of(user);
        let args = vec![digest.field.to_vec(), low, high];
        let (now, mut parts) = self
            .ask(&layout.partition, &scripts::USER_DETAILS, &keys, args)
            .await?;
        let stored = reply::maybe_bytes(parts.next()?)?;
        let stored = stored.map(|bytes| record::decode_record(&bytes));
        let record = stored
            .transpose()?
            .map_or_else(UserRecord::default, |stored| stored.record);
        let is_blocked = reply::number::<u8>(parts.next()?)? == 1;
        let noted = reply::maybe_bytes(parts.next()?)?;
        let noted = noted.map(|member| blocks::decode(&member)).transpose()?;
        let block = is_blocked.then(|| {
            noted.unwrap_or_else(|| BlockedUser {
                user: user.clone(),
                note: None,
            })
        });
        let record = record.on(view.campaign.zone.day(now), now);
        Ok(UserDetails {
            view: UserView { view, record, now },
            block,
        })
    }

    /// Blocked users in the order of their ids, after `after`. Only users with a note are listed.
    pub(crate) async fn blocked_users(
        &self,
        id: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers> {
        let partition = self.partition(id);
        let campaign = partition.campaign(id);
        let keys = [
            partition.partition.clone(),
            campaign.campaign,
            campaign.blocked,
            campaign.blocks,
        ];
        let args = vec![blocks::from(after), limit.to_string().into_bytes()];
        let (_, mut parts) = self
            .ask(partition, &scripts::BLOCKED_USERS, &keys, args)
            .await?;
        let first = self.first(&mut parts);
        let total = reply::number(self.explained(id, first).await?)?;
        let mut members = Parts::of(parts.next()?)?;
        let mut users = Vec::new();
        while let Some(member) = members.maybe_next() {
            users.push(blocks::decode(&reply::bytes(member)?)?);
        }
        Ok(BlockedUsers { users, total })
    }
}
