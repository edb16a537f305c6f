//! The lanes of `CheckLimit` calls (see [`batch`]): one run of `check_limit.lua` answers
//! many of them.

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
    lane,
    step::{campaign::Fields, layout::Layout},
};
use crate::{
    model::{CampaignId, Moment, UserId, limits::UserRecord},
    store::{Executed, Result, StoreError, UserView},
};

/// A `CheckLimit` call that waits for its reply.
pub(crate) struct LimitCheck {
    campaign: CampaignId,
    user: IdDigest,
}

/// The calls of one campaign in a batch.
type Group = batch::Group<LimitCheck>;

/// The lanes of `CheckLimit` calls.
pub(crate) type LimitChecks = lane::Lanes<LimitCheck>;

impl LimitChecks {
    /// Reads a user's record and the state of the campaign.
    pub(crate) async fn user(
        &self,
        core: &Core,
        campaign: &CampaignId,
        user: &UserId,
    ) -> Result<UserView> {
        let user = IdDigest::user(user);
        let check = LimitCheck {
            campaign: campaign.clone(),
            user,
        };
        let partition = core.partition(campaign).number;
        let answer = self.call(partition, user.hash(), check).await;
        answer.map_err(|error| error.with_executed(Executed::No))
    }
}

impl Call for LimitCheck {
    type Answer = UserView;
    type Subject = CampaignId;
    type Known = Arc<Layout>;
    const SCRIPT: &'static str = "check_limit";

    fn subject(&self) -> &CampaignId {
        &self.campaign
    }

    fn units(&self) -> usize {
        1
    }

    fn is_late(&self, _now: Moment) -> bool {
        false
    }

    fn known(&self, core: &Core) -> Option<Arc<Layout>> {
        core.layouts.get(self.subject())
    }

    async fn read(core: &Core, ids: &[CampaignId]) -> Vec<Result<Arc<Layout>>> {
        core.read_layouts(ids).await
    }

    async fn send(core: &Core, groups: &mut [Group]) -> Result<(Moment, Parts)> {
        let partition = &groups[0].known.partition;
        let (mut keys, mut args) = (Words::default(), Words::default());
        keys.push(&partition.partition);
        args.write(format_args!("{}", groups.len()));
        for group in groups.iter() {
            keys.push(&group.known.keys.campaign);
            let users = group.calls().map(|check| check.user);
            let (hashes, hash_of) = group.known.keys.push_users(&mut keys, users);
            args.write(format_args!("{hashes}"));
            args.push(hash_of);
            for check in group.calls() {
                args.push(check.user.field);
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
                // The group is read again, which shows why the campaign is not there.
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
