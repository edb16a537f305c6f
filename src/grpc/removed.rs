//! Reads of campaigns: from the store, or from the settled ledger once their data have left it.

use std::{collections::BTreeMap, sync::Arc};

use super::{desk::Desk, status::CallError};
use crate::{
    ledger::{
        read::{EntryQuery, Kinds, LedgerReader, Position, Range, Removed, Seen},
        removed::RemovedCampaign,
    },
    model::{Campaign, CampaignId, RequestId, UserId, limits::UserRecord},
    store::{
        BlockedUser, BlockedUsers, CampaignPage, CampaignView, DrawAnswer, HoldNote, Operation,
        Refusal, Stats, StoreError, UserDetails, UserView, WindowView, entry::Body,
        last_windows::last_windows,
    },
};

/// Entries of operators' acts that are read at once.
const OPERATIONS_AT_ONCE: usize = 100;

/// The campaign's data have left the store.
pub(super) fn is_removal(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(Refusal::Removed { .. }))
}

impl Desk {
    /// A campaign as it stands, or as it stood last.
    pub(super) async fn campaign(&self, id: &CampaignId) -> Result<CampaignView, CallError> {
        match self.store().campaign(id).await {
            Err(error) if is_removal(&error) => {
                let (reader, removed) = self.removed(id, error).await?;
                let versions = reader.removed_versions(id).await?;
                let versions = removed.with_proposers(versions).into();
                Ok(CampaignView {
                    versions,
                    ..removed.stats.view
                })
            }
            view => Ok(view?),
        }
    }

    /// The definition of a version.
    pub(super) async fn version(
        &self,
        id: &CampaignId,
        version: u32,
    ) -> Result<Arc<Campaign>, CallError> {
        match self.store().version(id, version).await {
            Err(error) if is_removal(&error) => {
                let definition = self.reader_or(error)?.removed_version(id, version).await?;
                Ok(definition.ok_or(Refusal::VersionNotFound(version))?)
            }
            definition => Ok(definition?),
        }
    }

    /// Campaigns by id, after `after`, at most `limit`, those too whose data have left the store.
    /// Those that cannot be read are named.
    pub(super) async fn campaigns(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<CampaignPage, CallError> {
        // The store is read first: what leaves it meanwhile is in the ledger by then.
        let stored = self.store().readable_campaigns(after, limit).await?;
        let Some(reader) = self.ledger() else {
            return Ok(stored);
        };
        let removed = Removed::After(after.unwrap_or_default(), limit);
        let removed = reader.removed(removed).await?;
        let removed = CampaignPage::of(
            removed.into_iter().map(|gone| gone.stats.view).collect(),
            limit,
        );
        Ok(stored.beside(removed, limit))
    }

    /// Where every unit is, and the last windows; none of the windows is secret any more if the
    /// data have left the store.
    pub(super) async fn stats(
        &self,
        id: &CampaignId,
    ) -> Result<(Stats, Vec<WindowView>, bool), CallError> {
        let stored = async {
            let stats = self.store().stats(id).await?;
            let windows = last_windows(self.store(), &stats).await?;
            Ok::<_, StoreError>((stats, windows, true))
        };
        match stored.await {
            Err(error) if is_removal(&error) => {
                let (_, removed) = self.removed(id, error).await?;
                Ok((removed.stats, removed.windows, false))
            }
            stored => Ok(stored?),
        }
    }

    /// What a draw answered: one that the store remembers, or any of a campaign whose data have
    /// left it.
    pub(super) async fn find_draw(
        &self,
        id: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<DrawAnswer, CallError> {
        let error = match self.store().find_draw(id, user, request).await {
            Err(error) if is_removal(&error) => error,
            answer => return Ok(answer?),
        };
        let reader = self.reader_or(error)?;
        let entry = reader.draw(id, user, request).await?;
        let entry = entry.ok_or(Refusal::DrawNotFound)?;
        let Body::Draw(draw) = entry.body else {
            return Err(Refusal::DrawNotFound.into());
        };
        Ok(DrawAnswer {
            campaign: self.version(id, draw.version).await?,
            entry: Arc::new(draw),
            ledger: entry.id,
            at: entry.at,
            replayed: true,
            running_low: Vec::new(),
        })
    }

    /// A user's record and limits, and whether the user is blocked. Bonus draws of a campaign whose
    /// data have left the store are over.
    pub(super) async fn user_details(
        &self,
        id: &CampaignId,
        user: &UserId,
    ) -> Result<UserDetails, CallError> {
        let error = match self.store().user_details(id, user).await {
            Err(error) if is_removal(&error) => error,
            details => return Ok(details?),
        };
        let (reader, removed) = self.removed(id, error).await?;
        let view = removed.stats.view;
        let zone = &view.campaign.zone;
        let now = self.store().now().await?;
        let last_draw = EntryQuery {
            user: Some(user.clone()),
            ..entries_of(id, Kinds::Draws, 1)
        };
        let last_draw = reader.list(&last_draw).await?.rows.pop();
        let mut record = UserRecord::default();
        if let Some(entry) = last_draw
            && let Body::Draw(draw) = entry.body
        {
            record = UserRecord {
                day: Some(zone.day(entry.at)),
                free_today: draw.counts.free_today,
                paid_today: draw.counts.paid_today,
                draws: draw.counts.draws,
                bonus_used: draw.counts.bonus_used,
                wins: draw.counts.wins,
                bonus: Vec::new(),
                prizes: draw.counts.prizes,
                hour: draw.counts.hour,
                granted_today: draw.counts.granted_today,
                bonus_today: draw.counts.bonus_today,
                progress: draw.counts.progress.clone(),
            };
        }
        let blocks = last_blocks(reader, id, Some(user)).await?;
        Ok(UserDetails {
            block: blocks.into_values().flatten().next(),
            view: UserView {
                record: record.on(zone.day(now), now),
                view,
                now,
            },
        })
    }

    /// Blocked users after `after` by id, at most `limit`.
    pub(super) async fn blocked_users(
        &self,
        id: &CampaignId,
        after: Option<&UserId>,
        limit: usize,
    ) -> Result<BlockedUsers, CallError> {
        let error = match self.store().blocked_users(id, after, limit).await {
            Err(error) if is_removal(&error) => error,
            users => return Ok(users?),
        };
        let (reader, _) = self.removed(id, error).await?;
        let blocked = last_blocks(reader, id, None).await?.into_values().flatten();
        let blocked: Vec<_> = blocked.collect();
        let total = blocked.len() as u64;
        let users = blocked.into_iter();
        let users = users.filter(|blocked| after.is_none_or(|after| blocked.user > *after));
        Ok(BlockedUsers {
            users: users.take(limit).collect(),
            total,
        })
    }

    /// A campaign whose data have left the store, which refused with this error.
    async fn removed(
        &self,
        id: &CampaignId,
        error: StoreError,
    ) -> Result<(&dyn LedgerReader, RemovedCampaign), CallError> {
        let reader = self.reader_or(error.clone())?;
        let found = reader.removed(Removed::One(id)).await?.pop();
        Ok((reader, found.ok_or(error)?))
    }

    /// What reads the settled ledger; this error if nothing does.
    fn reader_or(&self, error: StoreError) -> Result<&dyn LedgerReader, CallError> {
        Ok(self.ledger().ok_or(error)?)
    }
}

/// The newest entries of a campaign.
fn entries_of(id: &CampaignId, kinds: Kinds, limit: usize) -> EntryQuery {
    EntryQuery {
        kinds,
        campaign: Some(id.clone()),
        envelope: None,
        user: None,
        request: None,
        // The campaign was admitted already.
        seen: Seen::default(),
        range: Range {
            limit,
            ..Range::default()
        },
    }
}

/// Of each user of a campaign, or of this one, who was ever blocked: the block, or none if it was
/// lifted.
async fn last_blocks(
    reader: &dyn LedgerReader,
    id: &CampaignId,
    only: Option<&UserId>,
) -> Result<BTreeMap<UserId, Option<BlockedUser>>, CallError> {
    let mut last = BTreeMap::new();
    let mut query = entries_of(id, Kinds::Operations, OPERATIONS_AT_ONCE);
    loop {
        let page = reader.list(&query).await?;
        for entry in &page.rows {
            let Body::Operated {
                operation, author, ..
            } = &entry.body
            else {
                continue;
            };
            let (users, is_block) = match operation {
                Operation::Block { users } => (users, true),
                Operation::Unblock { users } => (users, false),
                _ => continue,
            };
            let users = users
                .iter()
                .filter(|user| only.is_none_or(|only| *user == only));
            for user in users {
                let note = HoldNote {
                    at: entry.at,
                    operator: author.operator.clone(),
                    reason: author.reason.clone(),
                };
                let block = is_block.then(|| BlockedUser {
                    user: user.clone(),
                    note: Some(note),
                });
                last.entry(user.clone()).or_insert(block); // the newest comes first
            }
        }
        let is_found = only.is_some() && !last.is_empty();
        match page.rows.last() {
            Some(oldest) if page.more && !is_found => {
                query.range.after = Some(Position::of_entry(oldest));
            }
            _ => return Ok(last),
        }
    }
}
