//! The lanes of reads of users' records (see [`batch`]): many are read by one call, as draws are
//! made.

use std::sync::Arc;

use crate::store::redis::{
    batch::{self, Call},
    core::Core,
    format::{
        keys::IdDigest,
        record,
        reply::{self, Parts},
        scripts,
        words::Words,
    },
    step::{campaign::Fields, layout::Layout},
};
use crate::{
    model::{CampaignId, Moment, UserId, limits::UserRecord},
    store::{Executed, Result, StoreError, UserView},
};

/// A look at a user's record.
pub(crate) struct Look {
    campaign: CampaignId,
    user: IdDigest,
}

/// The looks at the users of a campaign in a batch.
type Group = batch::Group<Look>;

/// The lanes of looks.
pub(crate) type Looks = batch::Lanes<Look>;

impl Looks {
    /// A user's record as it stands now.
    pub(crate) async fn user(
        &self,
        core: &Core,
        campaign: &CampaignId,
        user: &UserId,
    ) -> Result<UserView> {
        let user = IdDigest::user(user);
        let look = Look {
            campaign: campaign.clone(),
            user,
        };
        let partition = core.partition(campaign).number;
        let answer = self.call(partition, user.hash(), look).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }
}

impl Call for Look {
    type Answer = UserView;
    type Subject = CampaignId;
    type Known = Arc<Layout>;

    fn subject(&self) -> &CampaignId {
        &self.campaign
    }

    fn units(&self) -> usize {
        1
    }

    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    fn known(core: &Core, id: &CampaignId) -> Option<Arc<Layout>> {
        core.layouts.get(id)
    }

    async fn read(core: &Core, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        core.read_layouts(ids).await
    }

    async fn send(core: &Core, groups: &[Group]) -> Result<(Moment, Parts)> {
        let partition = &groups[0].known.partition;
        let (mut keys, mut args) = (Words::default(), Words::default());
        keys.push(&partition.partition);
        args.write(format_args!("{}", groups.len()));
        for group in groups {
            keys.push(&group.known.keys.campaign);
            let users = group.calls().map(|look| look.user);
            let (hashes, hash_of) = group.known.keys.push_users(&mut keys, users);
            args.write(format_args!("{hashes}"));
            args.push(hash_of);
            for look in group.calls() {
                args.push(look.user.field);
            }
        }
        core.ask(partition, &scripts::CHECK_LIMIT, keys, args).await
    }

    fn answers(
        core: &Core,
        group: &Group,
        now: Moment,
        reply: redis::Value,
    ) -> Result<Option<Vec<Result<UserView>>>> {
        let id = &group.known.campaign.id;
        if let redis::Value::BulkString(_) = reply {
            let text = reply::text(reply).unwrap_or_default();
            if text == "M" {
                // It is read again, which tells why it is not there.
                core.layouts.forget(id);
                return Ok(None);
            }
            return Err(StoreError::corrupt(format!(
                "the keys of campaign {id} in Redis hold something else than tombola wrote ({}); \
                 restore them",
                text.get(1..).unwrap_or_default()
            )));
        }
        let mut parts = Parts::of(reply)?;
        let fields = Fields::of(parts.next()?)?;
        if fields.version()? != group.known.version {
            core.layouts.forget(id);
            return Ok(None);
        }
        let view = fields.view(Arc::clone(&group.known.campaign))?;
        let today = view.campaign.zone.day(now);
        let mut answers = Vec::with_capacity(group.len());
        for _ in 0..group.len() {
            let stored = reply::maybe_bytes(parts.next()?)?;
            let record = stored.map(|bytes| record::decode_record(&bytes));
            answers.push(record.transpose().map(|stored| {
                UserView {
                    view: view.clone(),
                    record: stored
                        .map_or_else(UserRecord::default, |stored| stored.record)
                        .on(today, now),
                    now,
                }
            }));
        }
        Ok(Some(answers))
    }
}
