//! Lists of proposals.

use tonic::Request;

use super::{Result, view::view};
use crate::{
    grpc::{
        access::{Caller, Rpc},
        desk::{CALLER_TIME_MAX, Deadline, Desk, Reply},
        request::Fields,
    },
    model::{CampaignId, Moment},
    proto,
    store::{Proposal, ProposalId, Store},
};

/// Campaigns whose proposals are read at once.
const READ_AT_ONCE: usize = 100;

/// The last proposal of a page: its campaign, when it was proposed, and its id. The next page
/// begins behind it, even if it was removed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    campaign: CampaignId,
    at: Moment,
    id: ProposalId,
}

impl Place {
    fn of(campaign: &CampaignId, proposal: &Proposal) -> Self {
        Self {
            campaign: campaign.clone(),
            at: proposal.at,
            id: proposal.id.clone(),
        }
    }

    /// Reads a page token; none if the service gave no such token.
    fn parse(token: &str) -> Option<Self> {
        let mut parts = token.splitn(3, '/');
        let campaign = CampaignId::parse("page_token", parts.next()?).ok()?;
        let at = Moment::from_micros(parts.next()?.parse().ok()?);
        let id = ProposalId::parse(parts.next()?)?;
        Some(Self { campaign, at, id })
    }

    /// As a page token.
    fn token(&self) -> String {
        format!("{}/{}/{}", self.campaign, self.at.as_micros(), self.id)
    }
}

/// A page of proposals.
pub(in crate::grpc) async fn list_proposals(
    desk: &Desk,
    request: Request<proto::ListProposalsRequest>,
) -> Reply<proto::ListProposalsResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let visible = Caller::of(&request)?.visible(Rpc::ListProposals);
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let size = fields.page_size(message.page_size);
        let is_all = message.campaign_id.is_empty();
        let one = (!is_all).then(|| fields.campaign(&message.campaign_id));
        let one = one.flatten();
        let place = Place::parse(&message.page_token);
        let is_ours = place.as_ref().is_some_and(|place| {
            let is_of = |id: &CampaignId| place.campaign == *id;
            is_all || one.as_ref().is_none_or(is_of)
        });
        if !is_ours && !message.page_token.is_empty() {
            fields.add("page_token", "is not a token that this service gave");
        }
        let state = proto::ProposalState::try_from(message.state);
        if state.is_err() {
            fields.add("state", "is no state of a proposal");
        }
        fields.finish(Some(()))?;
        let state = state
            .ok()
            .filter(|it| *it != proto::ProposalState::Unspecified);
        let mut after = place.as_ref().map(|place| place.campaign.clone());
        let mut campaigns: Vec<_> = one.or_else(|| after.clone()).into_iter().collect();
        let mut found = Vec::new();
        loop {
            for id in campaigns.drain(..) {
                if visible.has_campaign(id.as_str()) {
                    let place = place.as_ref().filter(|place| place.campaign == id);
                    let mut of_campaign = proposals_of(desk.store(), &id, place).await?;
                    of_campaign.retain(|(_, it)| state.is_none_or(|state| it.state() == state));
                    found.extend(of_campaign);
                }
            }
            if found.len() > size || !is_all {
                break;
            }
            let store = desk.store();
            campaigns = (store.campaigns_with_proposals(after.as_ref(), READ_AT_ONCE)).await?;
            match campaigns.last() {
                Some(last) => after = Some(last.clone()),
                None => break,
            }
        }
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more);
        Ok(proto::ListProposalsResponse {
            next_page_token: last.map_or_else(String::new, |(place, _)| place.token()),
            proposals: found.into_iter().map(|(_, view)| view).collect(),
        })
    };
    desk.read(deadline, work).await
}

/// The proposals of a campaign behind a place, or all; the oldest first.
async fn proposals_of(
    store: &dyn Store,
    id: &CampaignId,
    after: Option<&Place>,
) -> Result<Vec<(Place, proto::Proposal)>> {
    let mut list = store.proposals(id).await?.0;
    list.retain(|it| after.is_none_or(|after| (it.at, &it.id) > (after.at, &after.id)));
    list.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
    let mut views = Vec::new();
    for proposal in &list {
        views.push((Place::of(id, proposal), view(store, id, proposal).await?));
    }
    Ok(views)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_given_and_no_other_text_is() {
        let place = Place {
            campaign: CampaignId::parse("campaign", "spring").unwrap(),
            at: Moment::from_micros(1_700_000_000_000_001),
            id: ProposalId::parse("00ff00ff00ff").unwrap(),
        };
        assert_eq!(Place::parse(&place.token()), Some(place));
        for text in [
            "",
            "spring",
            "spring/00ff00ff00ff",
            "spring/1/00ff",
            "spring/x/00ff00ff00ff",
            "spring/1/00ff00ff00ff/1",
        ] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
