//! `tombola proposals`, `approve` and `reject`, and the option `--propose` of other commands.

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use super::{
    change_view,
    client::{Campaigns, Change, ChangeArgs, Client, Outcome, campaign_id, get_campaign},
    failure::Failure,
    output::{Side, Table},
    plan_view,
    time::shown,
};
use crate::proto::{
    ApproveProposalRequest, ApproveProposalResponse, Campaign, GetProposalRequest,
    GetProposalResponse, ListProposalsRequest, ListProposalsResponse, Proposal, ProposalState,
    ProposeChangeRequest, ProposeChangeResponse, ProposedAct, ProposedClose, ProposedRecall,
    RejectProposalRequest, RejectProposalResponse, propose_change_request::Change as Asked,
};

/// Proposals in a page of the server.
const PAGE_SIZE: u32 = 1_000;

/// What is proposed.
pub(super) enum Proposed {
    /// A new campaign or version.
    Campaign(Box<Campaign>),
    /// The close of a campaign.
    Close(String),
    /// A recall of units of a campaign.
    Recall(String, ProposedRecall),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    Open,
    Approved,
    Rejected,
    Expired,
    Void,
}

impl State {
    fn of(self) -> ProposalState {
        match self {
            Self::Open => ProposalState::Open,
            Self::Approved => ProposalState::Approved,
            Self::Rejected => ProposalState::Rejected,
            Self::Expired => ProposalState::Expired,
            Self::Void => ProposalState::Void,
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola proposals --state open
  tombola proposals spring-wheel 5b0c1d9e22aa")]
pub(super) struct ListArgs {
    /// Only proposals of this campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: Option<String>,
    /// Show this proposal, with all that it would change
    #[arg(value_name = "PROPOSAL")]
    proposal: Option<String>,
    /// Only proposals in this state [default: all that are kept]
    #[arg(long, env = "TOMBOLA_STATE", value_enum, conflicts_with = "proposal")]
    state: Option<State>,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  tombola approve spring-wheel 5b0c1d9e22aa --reason \"checked with finance\"
  tombola reject spring-wheel 5b0c1d9e22aa --reason \"wrong hour\"")]
pub(super) struct DecideArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN", value_parser = campaign_id)]
    campaign: String,
    /// The proposal
    #[arg(value_name = "PROPOSAL")]
    proposal: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Proposes an act on the version in force.
pub(super) async fn propose_now(client: &Client, proposed: Proposed, change: Change) -> Outcome {
    let mut server = client.campaigns().await?;
    let (Proposed::Close(id) | Proposed::Recall(id, _)) = &proposed else {
        return propose(client, &mut server, (proposed, 0), change).await;
    };
    let status = get_campaign(&mut server, id, 0).await;
    let version = status.map_err(Failure::read)?.version;
    propose(client, &mut server, (proposed, version), change).await
}

/// Proposes a change of this version, and shows what it would change.
pub(super) async fn propose(
    client: &Client,
    server: &mut Campaigns,
    (proposed, base_version): (Proposed, u32),
    change: Change,
) -> Outcome {
    let (campaign_id, asked) = match proposed {
        Proposed::Campaign(campaign) => (campaign.id.clone(), Asked::Campaign(*campaign)),
        Proposed::Close(id) => (id, Asked::Close(ProposedClose {})),
        Proposed::Recall(id, recall) => (id, Asked::Recall(recall)),
    };
    let request = ProposeChangeRequest {
        campaign_id,
        change: Some(asked),
        base_version,
        ttl: None,
        dry_run: false,
        request_id: change.request_id.clone(),
        operator: change.operator,
        reason: change.reason,
    };
    let answer = server.propose_change(request).await;
    let answer = answer.map_err(|status| Failure::change(status, &change.request_id))?;
    client.show("ProposeChangeResponse", answer.get_ref(), proposed_view);
    Ok(())
}

fn proposed_view(response: &ProposeChangeResponse) -> String {
    let proposal = response.proposal.clone().unwrap_or_default();
    let mut parts = vec![headline(&proposal)];
    if response.replayed {
        parts[0].push_str(" (proposed by an earlier call)");
    }
    parts.extend(response.plan.as_ref().map(plan_view::plan));
    if !response.changes.is_empty() {
        parts.push(change_view::changes(&response.changes));
    }
    if !response.window_changes.is_empty() {
        parts.push(change_view::windows(&response.window_changes, "UTC"));
    }
    let (campaign, id) = (&proposal.campaign_id, &proposal.proposal_id);
    parts.push(format!(
        "another identity approves it: tombola approve {campaign} {id}"
    ));
    parts.retain(|part| !part.is_empty());
    format!("{}\n", parts.join("\n\n"))
}

/// Lists proposals, or shows one.
pub(super) async fn list(client: &Client, args: ListArgs) -> Outcome {
    let mut server = client.campaigns().await?;
    if let (Some(campaign_id), Some(proposal_id)) = (&args.campaign, &args.proposal) {
        let request = GetProposalRequest {
            campaign_id: campaign_id.clone(),
            proposal_id: proposal_id.clone(),
        };
        let response = server.get_proposal(request).await.map_err(Failure::read)?;
        client.show("GetProposalResponse", &response.into_inner(), full);
        return Ok(());
    }
    let mut all = ListProposalsResponse::default();
    loop {
        let request = ListProposalsRequest {
            campaign_id: args.campaign.clone().unwrap_or_default(),
            state: args.state.map_or(0, |state| state.of().into()),
            page_size: PAGE_SIZE,
            page_token: all.next_page_token,
        };
        let page = server
            .list_proposals(request)
            .await
            .map_err(Failure::read)?;
        let page = page.into_inner();
        all.proposals.extend(page.proposals);
        all.next_page_token = page.next_page_token;
        if all.next_page_token.is_empty() {
            break;
        }
    }
    client.show("ListProposalsResponse", &all, table);
    Ok(())
}

fn table(response: &ListProposalsResponse) -> String {
    if response.proposals.is_empty() {
        return "no proposals".into();
    }
    let names = [
        "campaign",
        "proposal",
        "state",
        "act",
        "base",
        "proposed by",
        "until",
        "decided by",
        "reason",
    ];
    let mut table = Table::new(names.map(|name| (name, Side::Left)));
    for proposal in &response.proposals {
        table.row([
            proposal.campaign_id.clone(),
            proposal.proposal_id.clone(),
            state(proposal.state()).into(),
            act(proposal),
            proposal.base_version.to_string(),
            proposal.operator.clone(),
            shown(proposal.expire_time.as_ref(), &TimeZone::UTC),
            proposal.decided_by.clone(),
            proposal.reason.clone(),
        ]);
    }
    table.render()
}

fn full(response: &GetProposalResponse) -> String {
    let proposal = response.proposal.clone().unwrap_or_default();
    let time = |time: &Option<_>| shown(Option::as_ref(time), &TimeZone::UTC);
    let mut lines = vec![
        headline(&proposal),
        format!(
            "proposed     {} by {}",
            time(&proposal.propose_time),
            proposal.operator
        ),
        format!("until        {}", time(&proposal.expire_time)),
    ];
    if !proposal.reason.is_empty() {
        lines.push(format!("reason       {}", proposal.reason));
    }
    if !proposal.decided_by.is_empty() {
        let (at, by) = (time(&proposal.decide_time), &proposal.decided_by);
        lines.push(format!("decided      {at} by {by}"));
        lines.push(format!("because      {}", proposal.decision_reason));
    }
    if !response.problem.is_empty() {
        lines.push(format!("would be refused now: {}", response.problem));
    }
    let mut parts = vec![lines.join("\n")];
    parts.extend(response.plan.as_ref().map(plan_view::plan));
    if !response.changes.is_empty() {
        parts.push(change_view::changes(&response.changes));
    }
    if !response.window_changes.is_empty() {
        parts.push(change_view::windows(&response.window_changes, "UTC"));
    }
    parts.retain(|part| !part.is_empty());
    format!("{}\n", parts.join("\n\n"))
}

fn headline(proposal: &Proposal) -> String {
    let (campaign, id) = (&proposal.campaign_id, &proposal.proposal_id);
    let base = match proposal.base_version {
        0 => "a new campaign".to_owned(),
        version => format!("changes version {version}"),
    };
    let (act, state) = (act(proposal), state(proposal.state()));
    format!("{campaign}: proposal {id} ({act}, {base}) is {state}")
}

fn act(proposal: &Proposal) -> String {
    let Some(recall) = &proposal.recall else {
        return match proposal.act() {
            ProposedAct::Unspecified => "-",
            ProposedAct::Apply => "apply",
            ProposedAct::Close => "close",
            ProposedAct::Recall => "recall",
        }
        .into();
    };
    let prize = match recall.prize_id.as_str() {
        "" => "all prizes",
        prize => prize,
    };
    let hour = match &recall.window_start_time {
        Some(start) => shown(Some(start), &TimeZone::UTC),
        None => "all hours".into(),
    };
    let verb = if recall.withdraw {
        "withdraw"
    } else {
        "recall"
    };
    format!("{verb} {prize} of {hour} of {}", recall.pool_id)
}

fn state(state: ProposalState) -> &'static str {
    match state {
        ProposalState::Unspecified => "-",
        ProposalState::Open => "open",
        ProposalState::Approved => "approved",
        ProposalState::Rejected => "rejected",
        ProposalState::Expired => "expired",
        ProposalState::Void => "void",
    }
}

/// Approves a proposal.
pub(super) async fn approve(client: &Client, args: DecideArgs) -> Outcome {
    let change = args.change.resolve(client);
    let request = ApproveProposalRequest {
        campaign_id: args.campaign,
        proposal_id: args.proposal,
        request_id: change.request_id.clone(),
        operator: change.operator,
        reason: change.reason,
    };
    let answer = client.campaigns().await?.approve_proposal(request).await;
    let answer = answer.map_err(|status| Failure::change(status, &change.request_id))?;
    let view = |response: &ApproveProposalResponse| {
        let proposal = headline(&response.proposal.clone().unwrap_or_default());
        let status = change_view::headline(&response.status.clone().unwrap_or_default());
        decided(&format!("{proposal}\n{status}"), response.replayed)
    };
    client.show("ApproveProposalResponse", answer.get_ref(), view);
    Ok(())
}

/// Rejects a proposal.
pub(super) async fn reject(client: &Client, args: DecideArgs) -> Outcome {
    let change = args.change.resolve(client);
    let request = RejectProposalRequest {
        campaign_id: args.campaign,
        proposal_id: args.proposal,
        request_id: change.request_id.clone(),
        operator: change.operator,
        reason: change.reason,
    };
    let answer = client.campaigns().await?.reject_proposal(request).await;
    let answer = answer.map_err(|status| Failure::change(status, &change.request_id))?;
    let view = |response: &RejectProposalResponse| {
        let proposal = headline(&response.proposal.clone().unwrap_or_default());
        decided(&proposal, response.replayed)
    };
    client.show("RejectProposalResponse", answer.get_ref(), view);
    Ok(())
}

fn decided(text: &str, replayed: bool) -> String {
    match replayed {
        true => format!("{text} (done by an earlier call)"),
        false => text.to_owned(),
    }
}
