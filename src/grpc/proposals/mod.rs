//! Proposals: changes that one identity proposes and another approves.
//!
//! The store alone decides who may approve what, in the step that makes the change. A proposed
//! version is checked like one that is applied: when it is proposed, shown and approved.

mod list;
mod view;

use std::{sync::Arc, time::Duration};

use tonic::Request;
use tracing::info;

pub(super) use self::list::list_proposals;

use self::view::view;
use super::{
    access::Caller,
    apply::{self, How, NewVersion},
    desk::{CALLER_TIME_MAX, Deadline, Desk, OPERATOR_TIME_MAX, Reply, compute, see_through},
    operations::{prize_no, schedule_no},
    reads,
    request::{self, Fields},
    status::{CallError, status},
    views,
};
use crate::{
    injector::Injector,
    model::{
        Campaign, CampaignId, change,
        convert::{campaign_to_proto, unstocked_from_proto},
    },
    proto,
    store::{
        ApproveCommand, Author, Change, Executed, Lifecycle, OperateCommand, Operation, Proposal,
        ProposalId, ProposeCommand, Proposed, ProposedAct, Refusal, RejectCommand, Store,
        StoreError, WindowView, view::WindowState,
    },
};

/// How long a proposal can be approved unless the request says.
const TTL_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// For how long it can be approved at least, and at most.
const TTL_MIN: Duration = Duration::from_secs(60);
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

type Result<T> = std::result::Result<T, CallError>;
type Asked = proto::propose_change_request::Change;

/// What a proposed version would change.
#[derive(Default)]
struct Report {
    changes: Vec<proto::Change>,
    windows: Vec<proto::WindowChange>,
    plan: Option<proto::PlanSummary>,
}

impl From<apply::Outcome> for Report {
    fn from(outcome: apply::Outcome) -> Self {
        Self {
            changes: outcome.changes,
            windows: outcome.windows.listed,
            plan: Some(outcome.plan),
        }
    }
}

/// Proposes a change, after it was checked.
pub(super) async fn propose_change(
    desk: &Desk,
    request: Request<proto::ProposeChangeRequest>,
) -> Reply<proto::ProposeChangeResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let caller = Caller::of(&request)?;
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let late = match message.dry_run {
        true => Executed::No,
        false => Executed::Unknown,
    };
    let injector = desk.injector().clone();
    let work = see_through(async move {
        let mut fields = Fields::default();
        let id = fields.campaign(&message.campaign_id);
        let said = (message.operator.as_str(), message.reason.as_str());
        let author = fields.author(caller.identity(), request_id, said);
        let ttl = ttl(&mut fields, message.ttl.as_ref());
        let asked = asked(&mut fields, &message);
        let ((id, author), asked) = fields.finish(id.zip(author).zip(asked))?;
        if !author.authenticated {
            return Err(Refusal::IdentityNeeded.into());
        }
        let base_version = message.base_version;
        let store = injector.store();
        let proposed = parse(store.as_ref(), &id, asked, base_version).await?;
        let request_id = author.request.as_str().to_owned();
        // A retry is answered also when the campaign has changed since.
        let known = store.proposals(&id).await?;
        let is_retry = known.of_request(&author.request).is_some();
        let mut report = Report::default();
        if !is_retry {
            match &proposed {
                Proposed::Version(campaign) => {
                    report = dry_run(&injector, campaign, base_version, author.clone()).await?;
                }
                Proposed::Operation(operation) => {
                    check_act(store.as_ref(), &id, base_version, operation).await?;
                }
            }
        }
        let mut reply = proto::ProposeChangeResponse {
            proposal: None,
            changes: report.changes,
            window_changes: report.windows,
            plan: report.plan,
            replayed: false,
            request_id,
        };
        if message.dry_run {
            return Ok(reply);
        }
        let operator = author.operator.clone();
        let command = ProposeCommand {
            campaign: id.clone(),
            base_version,
            proposed,
            ttl,
            author,
        };
        let kept = store.propose(command).await?;
        if !kept.replayed {
            let proposal = &kept.proposal.id;
            info!(campaign = %id, %operator, %proposal, "campaign {id}: change {proposal} proposed \
                  by {operator}");
        }
        reply.replayed = kept.replayed;
        let view = view(store.as_ref(), &id, &kept.proposal).await;
        reply.proposal = Some(view.map_err(after_the_change)?);
        Ok(reply)
    });
    desk.answer(valid_id.as_ref(), deadline, late, work).await
}

fn ttl(fields: &mut Fields, given: Option<&prost_types::Duration>) -> Duration {
    let Some(given) = given else {
        return TTL_DEFAULT;
    };
    let ttl = Duration::try_from(*given).unwrap_or_default();
    if !(TTL_MIN..=TTL_MAX).contains(&ttl) {
        fields.add("ttl", "is not between 1 minute and 30 days");
    }
    ttl
}

/// What is proposed, as far as it can be checked without the campaign.
fn asked(fields: &mut Fields, message: &proto::ProposeChangeRequest) -> Option<Asked> {
    match &message.change {
        None => {
            fields.add("change", "is missing: give a campaign, a close or a recall");
        }
        Some(Asked::Campaign(campaign)) if campaign.id != message.campaign_id => {
            let message = "is another one than the campaign_id of the request";
            fields.add("campaign.id", message);
        }
        Some(Asked::Recall(recall)) => {
            fields.pool(&recall.pool_id);
            if !recall.prize_id.is_empty() {
                fields.prize(&recall.prize_id);
            }
            let path = "recall.window_start_time";
            fields.moment(path, recall.window_start_time.as_ref());
        }
        Some(Asked::Campaign(_) | Asked::Close(_)) => {}
    }
    message.change.clone()
}

async fn parse(
    store: &dyn Store,
    id: &CampaignId,
    asked: Asked,
    base_version: u32,
) -> Result<Proposed> {
    match asked {
        Asked::Campaign(campaign) => {
            let campaign = compute(move || unstocked_from_proto(&campaign)).await??;
            Ok(Proposed::Version(Arc::new(campaign)))
        }
        Asked::Close(_) => Ok(Proposed::Operation(Operation::Close)),
        Asked::Recall(recall) => {
            // Pools and prizes are numbers of the version that the proposal is for.
            let campaign = store.version(id, base_version).await?;
            let prize = Some(recall.prize_id.as_str()).filter(|prize| !prize.is_empty());
            let mut fields = Fields::default();
            let start = recall.window_start_time.as_ref();
            Ok(Proposed::Operation(Operation::Recall {
                pool: schedule_no(&campaign, &recall.pool_id)?,
                window: fields.moment("recall.window_start_time", start),
                prize: prize.map(|id| prize_no(&campaign, id)).transpose()?,
                withdraw: recall.withdraw,
            }))
        }
    }
}

async fn dry_run(
    injector: &Arc<Injector>,
    campaign: &Arc<Campaign>,
    base_version: u32,
    author: Author,
) -> Result<Report> {
    apply::refuse_unverifiable(campaign, &author)?;
    let version = NewVersion {
        campaign: Arc::clone(campaign),
        base_version,
        author,
        how: How::DryRun,
    };
    let base = apply::base(injector, &campaign.id, base_version).await?;
    let outcome = apply::bring(injector, version, base, None).await?;
    Ok(outcome.into())
}

/// Refuses a close or a recall that could not be made now, as the step that makes it would.
async fn check_act(
    store: &dyn Store,
    id: &CampaignId,
    base_version: u32,
    operation: &Operation,
) -> Result<()> {
    let view = store.campaign(id).await?;
    if matches!(view.lifecycle, Lifecycle::Closing | Lifecycle::Closed) {
        return Err(Refusal::Closed.into());
    }
    if view.version != base_version {
        let (named, current) = (base_version, view.version);
        return Err(Refusal::VersionStale { named, current }.into());
    }
    let Operation::Recall {
        pool,
        window: Some(start),
        ..
    } = *operation
    else {
        return Ok(());
    };
    // Windows do not overlap: the one that starts then is the first that ends later.
    let windows = store.windows(id, pool, start, 1).await?;
    let is_known =
        |window: &WindowView| window.start == start && !matches!(window.state, WindowState::Missed);
    match windows.iter().any(is_known) {
        true => Ok(()),
        false => Err(Refusal::WindowNotFound(start).into()),
    }
}

/// What a refusal says; any other error stays one.
fn problem(error: CallError) -> Result<String> {
    match error {
        error @ (CallError::Invalid(_) | CallError::Store(StoreError::Refused(_))) => {
            Ok(status(&error, "").message().to_owned())
        }
        error => Err(error),
    }
}

/// Makes a proposed change.
pub(super) async fn approve_proposal(
    desk: &Desk,
    request: Request<proto::ApproveProposalRequest>,
) -> Reply<proto::ApproveProposalResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let caller = Caller::of(&request)?;
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let injector = desk.injector().clone();
    let work = see_through(async move {
        let mut fields = Fields::default();
        let named = named(&mut fields, (&message.campaign_id, &message.proposal_id));
        let said = (message.operator.as_str(), message.reason.as_str());
        let author = fields.author(caller.identity(), request_id, said);
        let ((id, proposal), author) = fields.finish(named.zip(author))?;
        let store = injector.store().as_ref();
        let known = find(store, &id, &proposal).await?;
        let operator = author.operator.clone();
        let replayed = approve(&injector, &id, &known, author).await?;
        if !replayed {
            let proposer = &known.author.operator;
            info!(campaign = %id, %operator, %proposal, %proposer, "campaign {id}: change \
                  {proposal} of {proposer} approved by {operator}");
        }
        let answer = async {
            let known = find(store, &id, &proposal).await?;
            Ok(proto::ApproveProposalResponse {
                proposal: Some(view(store, &id, &known).await?),
                status: Some(reads::status_now(store, &id).await?),
                replayed,
            })
        };
        answer.await.map_err(after_the_change)
    });
    desk.answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
        .await
}

/// Approves a proposal; true if an earlier call with the same request id did.
async fn approve(
    injector: &Arc<Injector>,
    id: &CampaignId,
    known: &Proposal,
    author: Author,
) -> Result<bool> {
    let store = injector.store();
    match &known.act {
        ProposedAct::Version(_) => {
            let version = NewVersion {
                campaign: definition(store.as_ref(), id, known).await?,
                base_version: known.base_version,
                author,
                how: How::Approve(known.id.clone()),
            };
            let base = apply::base(injector, id, known.base_version).await?;
            let outcome = apply::bring(injector, version, base, None).await?;
            Ok(outcome.replayed)
        }
        ProposedAct::Operation(operation) => {
            let command = OperateCommand {
                campaign: id.clone(),
                operation: operation.clone(),
                blocks: Vec::new(),
                author,
            };
            let operated = injector
                .approve(ApproveCommand {
                    proposal: known.id.clone(),
                    change: Change::Operation(command),
                })
                .await?;
            Ok(operated.replayed)
        }
    }
}

/// Ends a proposal without its change.
pub(super) async fn reject_proposal(
    desk: &Desk,
    request: Request<proto::RejectProposalRequest>,
) -> Reply<proto::RejectProposalResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let caller = Caller::of(&request)?;
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let injector = desk.injector().clone();
    let work = see_through(async move {
        let mut fields = Fields::default();
        let named = named(&mut fields, (&message.campaign_id, &message.proposal_id));
        let said = (message.operator.as_str(), message.reason.as_str());
        let author = fields.author(caller.identity(), request_id, said);
        let ((id, proposal), author) = fields.finish(named.zip(author))?;
        let (store, operator) = (injector.store().as_ref(), author.operator.clone());
        let command = RejectCommand {
            campaign: id.clone(),
            proposal: proposal.clone(),
            author,
        };
        let reply = store.reject(command).await?;
        if !reply.replayed {
            info!(campaign = %id, %operator, %proposal, "campaign {id}: change {proposal} rejected \
                  by {operator}");
        }
        let view = view(store, &id, &reply.proposal).await;
        Ok(proto::RejectProposalResponse {
            proposal: Some(view.map_err(after_the_change)?),
            replayed: reply.replayed,
        })
    });
    desk.answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
        .await
}

/// A proposal with all that it would change now.
pub(super) async fn get_proposal(
    desk: &Desk,
    request: Request<proto::GetProposalRequest>,
) -> Reply<proto::GetProposalResponse> {
    let deadline = Deadline::of(&request, CALLER_TIME_MAX);
    let message = request.into_inner();
    let work = async {
        let mut fields = Fields::default();
        let named = named(&mut fields, (&message.campaign_id, &message.proposal_id));
        let (id, proposal) = fields.finish(named)?;
        let injector = desk.injector();
        let store = injector.store().as_ref();
        let known = find(store, &id, &proposal).await?;
        let shown = view(store, &id, &known).await?;
        let is_open = shown.state == i32::from(proto::ProposalState::Open);
        let mut reply = proto::GetProposalResponse {
            proposal: Some(shown),
            ..proto::GetProposalResponse::default()
        };
        if let ProposedAct::Operation(operation) = &known.act {
            if is_open
                && let Err(error) = check_act(store, &id, known.base_version, operation).await
            {
                reply.problem = problem(error)?;
            }
            return Ok(reply);
        }
        let campaign = definition(store, &id, &known).await?;
        reply.campaign = Some(campaign_to_proto(&campaign));
        if known.base_version > 0 {
            let before = store.version(&id, known.base_version).await?;
            let after = Arc::clone(&campaign);
            let changes = compute(move || change::differences(&before, &after)).await?;
            reply.changes = changes.into_iter().map(views::change).collect();
        }
        if is_open {
            let author = known.author.clone();
            match dry_run(injector, &campaign, known.base_version, author).await {
                Ok(report) => {
                    reply.window_changes = report.windows;
                    reply.plan = report.plan;
                }
                Err(error) => reply.problem = problem(error)?,
            }
        }
        Ok(reply)
    };
    desk.read(deadline, work).await
}

fn named(
    fields: &mut Fields,
    (campaign, proposal): (&str, &str),
) -> Option<(CampaignId, ProposalId)> {
    let campaign = fields.campaign(campaign);
    let proposal = ProposalId::parse(proposal);
    if proposal.is_none() {
        let message = "is no id of a proposal: these have 12 hexadecimal digits";
        fields.add("proposal_id", message);
    }
    campaign.zip(proposal)
}

async fn find(store: &dyn Store, id: &CampaignId, proposal: &ProposalId) -> Result<Proposal> {
    let known = store.proposals(id).await?;
    let known = known.get(proposal).cloned();
    known.ok_or_else(|| Refusal::ProposalNotFound(proposal.to_string()).into())
}

async fn definition(store: &dyn Store, id: &CampaignId, known: &Proposal) -> Result<Arc<Campaign>> {
    let definition = store.proposed_definition(id, &known.id).await?;
    // It leaves together with its proposal.
    definition.ok_or_else(|| Refusal::ProposalNotFound(known.id.to_string()).into())
}

fn after_the_change(error: CallError) -> CallError {
    match error {
        CallError::Store(error) => CallError::after_the_change(error),
        other => other,
    }
}
