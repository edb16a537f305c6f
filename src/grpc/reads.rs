//! Calls that read campaigns.

use tonic::Request;

use super::{
    access::{Caller, Rpc, Visible},
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
    live::Live,
    request::{self, Fields},
    status::{self, CallError},
    views,
};
use crate::{
    model::{CampaignId, Moment, convert::campaign_to_proto},
    proto,
    store::{CampaignPage, CampaignView, Result, Store, Unread},
};

/// Campaigns that are read at once if not all of them are listed.
const READ_AT_ONCE: usize = 100;
/// The longest text that campaigns are found by: that of a name.
const TEXT_BYTES_MAX: usize = 256;

/// A campaign as it stands.
pub(super) async fn status_now(
    store: &dyn Store,
    id: &CampaignId,
) -> Result<proto::CampaignStatus> {
    let view = store.campaign(id).await?;
    let now = store.read_time().await?;
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
            let now = store.read_time().await?;
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
        let read = self.desk.store().read_time();
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
    ) -> std::result::Result<CampaignPage, CallError> {
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

/// Which campaigns a list has.
struct Wanted {
    visible: Visible,
    /// In this state at this moment.
    state: Option<(proto::CampaignState, Moment)>,
    /// With this text in the id or the name, in lower case; empty: all.
    text: String,
}

impl Wanted {
    fn is_all(&self) -> bool {
        self.visible.campaigns.is_none() && self.state.is_none() && self.text.is_empty()
    }

    fn has(&self, view: &CampaignView) -> bool {
        let campaign = &view.campaign;
        let has_text = |part: &str| part.to_lowercase().contains(&self.text);
        let is_in = |(state, now)| views::campaign_state(view, now) == state;
        self.state.is_none_or(is_in)
            && (self.text.is_empty() || has_text(campaign.id.as_str()) || has_text(&campaign.name))
            && self.visible.has_campaign(campaign.id.as_str())
    }
}

/// Campaigns by id, after `after`, at most `limit`, without those that are not wanted. A page and
/// its token show neither the number nor the ids of those that are not visible.
async fn campaigns(
    lists: &Lists<'_>,
    wanted: &Wanted,
    after: Option<&str>,
    limit: usize,
) -> std::result::Result<(Vec<CampaignView>, Vec<Unread>), CallError> {
    let at_once = if wanted.is_all() { limit } else { READ_AT_ONCE };
    let mut after = after.map(str::to_owned);
    let (mut found, mut unread) = (Vec::new(), Vec::<Unread>::new());
    loop {
        let read = lists.read(after.as_deref(), at_once).await?;
        found.extend(read.views.into_iter().filter(|view| wanted.has(view)));
        for left_out in read.unread {
            let is_new = |known: &Unread| {
                (known.partition, &known.campaign) != (left_out.partition, &left_out.campaign)
            };
            let id = left_out.campaign.as_ref();
            let is_visible = id.is_none_or(|id| wanted.visible.has_campaign(id.as_str()));
            if is_visible && unread.iter().all(is_new) {
                unread.push(left_out);
            }
        }
        after = read.next.map(|id| id.to_string());
        if after.is_none() || found.len() >= limit {
            found.truncate(limit);
            return Ok((found, unread));
        }
    }
}

fn unread_campaigns(unread: Unread) -> proto::UnreadCampaigns {
    let why = status::status(&unread.error.into(), "");
    proto::UnreadCampaigns {
        partition: unread.partition,
        campaign_id: unread
            .campaign
            .map_or_else(String::new, |id| id.to_string()),
        message: why.message().into(),
    }
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
        if message.text.len() > TEXT_BYTES_MAX {
            fields.add("text", format!("has more than {TEXT_BYTES_MAX} bytes"));
        }
        fields.finish(Some(()))?;
        let state = state.unwrap_or_default();
        let is_any = state == proto::CampaignState::Unspecified;
        let store = desk.store();
        let after = (!token.is_empty()).then_some(token);
        let now = lists.now().await?;
        let wanted = Wanted {
            visible,
            state: (!is_any).then_some((state, now)),
            text: message.text.to_lowercase(),
        };
        let (mut views, unread) = campaigns(&lists, &wanted, after, size + 1).await?;
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
            halted: views::halted(store.troubles()),
            unread: unread.into_iter().map(unread_campaigns).collect(),
        })
    };
    desk.read(deadline, work).await
}
