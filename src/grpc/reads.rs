//! Calls that read campaigns.

use tonic::Request;

use super::{
    access::{Caller, Rpc, Visible},
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    live::Live,
    request::{self, Fields},
    status::CallError,
    views,
};
use crate::{
    model::{CampaignId, Moment, convert::campaign_to_proto},
    proto,
    store::{CampaignView, Result, Store},
};

/// Campaigns that are read at once if not all of them are listed.
const READ_AT_ONCE: usize = 100;

/// A campaign as it stands.
pub(super) async fn status_now(
    store: &dyn Store,
    id: &CampaignId,
) -> Result<proto::CampaignStatus> {
    let view = store.campaign(id).await?;
    let now = store.now().await?;
    Ok(views::campaign_status(&view, now, store.info().test_clock))
}

/// A campaign as it stands, with the definition of the version that is asked for.
pub(super) async fn get_campaign(
    desk: &Desk,
    request: Request<proto::GetCampaignRequest>,
) -> Reply<proto::GetCampaignResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let is_live = Live::is_on(&request);
    let message = request.into_inner();
    let work = async {
        let id = request::campaign(&message.campaign_id)?;
        let read = async {
            let view = desk.campaign(&id).await?;
            let store = desk.store();
            let now = store.now().await?;
            let status = views::campaign_status(&view, now, store.info().test_clock);
            Ok::<_, CallError>(status)
        };
        let mut status = match is_live {
            true => desk.live().campaigns.get(id.to_string(), read).await?,
            false => read.await?,
        };
        if message.version != 0 && message.version != status.version {
            let definition = desk.version(&id, message.version).await?;
            status.campaign = Some(campaign_to_proto(&definition));
            status.version = message.version;
        }
        Ok(proto::GetCampaignResponse {
            status: Some(status),
        })
    };
    desk.read(deadline, work).await
}

/// Where lists come from: the store, or what viewers of live pages share.
struct Lists<'a> {
    desk: &'a Desk,
    is_live: bool,
}

impl Lists<'_> {
    /// The store's time.
    async fn now(&self) -> std::result::Result<Moment, CallError> {
        let read = self.desk.store().now();
        match self.is_live {
            true => Ok(self.desk.live().now.get((), read).await?),
            false => Ok(read.await?),
        }
    }

    /// Campaigns by id, after `after`, at most `limit`.
    async fn read(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> std::result::Result<Vec<CampaignView>, CallError> {
        let read = self.desk.campaigns(after, limit);
        match self.is_live {
            true => {
                let key = (after.map(str::to_owned), limit);
                self.desk.live().lists.get(key, read).await
            }
            false => read.await,
        }
    }
}

/// Campaigns by id, after `after`, at most `limit`, without those in other states and those that
/// are not visible. A page and its token show neither the number nor the ids of the latter.
async fn campaigns(
    lists: &Lists<'_>,
    visible: &Visible,
    state: Option<(proto::CampaignState, Moment)>,
    after: Option<&str>,
    limit: usize,
) -> std::result::Result<Vec<CampaignView>, CallError> {
    if visible.campaigns.is_none() && state.is_none() {
        return lists.read(after, limit).await;
    }
    let mut after = after.map(str::to_owned);
    let mut found = Vec::new();
    while found.len() < limit {
        let read = lists.read(after.as_deref(), READ_AT_ONCE).await?;
        let is_end = read.len() < READ_AT_ONCE;
        after = read.last().map(|view| view.campaign.id.to_string());
        let shown = |view: &CampaignView| {
            let is_asked =
                state.is_none_or(|(state, now)| views::campaign_state(view, now) == state);
            is_asked && visible.has_campaign(view.campaign.id.as_str())
        };
        found.extend(read.into_iter().filter(shown));
        if is_end {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// A page of campaigns. Its token is the last id of the page before.
pub(super) async fn list_campaigns(
    desk: &Desk,
    request: Request<proto::ListCampaignsRequest>,
) -> Reply<proto::ListCampaignsResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let visible = Caller::of(&request)?.visible(Rpc::ListCampaigns);
    let lists = Lists {
        desk,
        is_live: Live::is_on(&request),
    };
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let size = fields.page_size(message.page_size);
        let token = message.page_token.as_str();
        if !token.is_empty() && CampaignId::parse("page_token", token).is_err() {
            fields.add("page_token", "is not a token that this service gave");
        }
        let state = proto::CampaignState::try_from(message.state);
        if state.is_err() {
            fields.add("state", "is no state of a campaign");
        }
        fields.finish(Some(()))?;
        let state = state.unwrap_or_default();
        let is_any = state == proto::CampaignState::Unspecified;
        let store = desk.store();
        let after = (!token.is_empty()).then_some(token);
        let now = lists.now().await?;
        let state = (!is_any).then_some((state, now));
        let mut views = campaigns(&lists, &visible, state, after, size + 1).await?;
        let more = views.len() > size;
        views.truncate(size);
        let last = views.last().map(|view| view.campaign.id.to_string());
        let campaigns = views.iter().map(|view| {
            let mut status = views::campaign_status(view, now, store.info().test_clock);
            status.versions.clear();
            status
        });
        Ok(proto::ListCampaignsResponse {
            campaigns: campaigns.collect(),
            next_page_token: last.filter(|_| more).unwrap_or_default(),
        })
    };
    desk.read(deadline, work).await
}
