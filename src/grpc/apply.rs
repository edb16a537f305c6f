//! `ApplyCampaign` and `SetPlan`: new versions of a campaign, and what they would change.
//!
//! The store alone decides whether a version comes into force, in the step that writes it; here the
//! version is only validated and shown. A dry run asks the same questions of the state that it
//! reads. What an answer shows of "before" is the version that the request names, so that a retry
//! gets the same answer.

use std::sync::Arc;

use tonic::Request;
use tracing::info;

use super::{
    access::Caller,
    changes::{self, WindowChanges},
    desk::{Deadline, Desk, OPERATOR_TIME_MAX, Reply, compute, see_through},
    operations::schedule_no,
    reads,
    request::{self, Fields},
    status::CallError,
    stock, views,
};
use crate::{
    injector::Injector,
    model::{
        Campaign, CampaignId, Moment, PoolNo,
        change::{self, Standing},
        convert::{campaign_to_proto, moment_to_proto, unstocked_from_proto, with_schedule},
        summary::plan_summary,
    },
    proto,
    store::{
        ApproveCommand, Author, CampaignView, Change, Executed, Filling, Lifecycle, ProposalId,
        Refusal, StoreError,
    },
};

/// The most hours of a plan that an answer lists.
const PLAN_HOURS_MAX: usize = 1_000;

/// A version that is to come into force.
pub(super) struct NewVersion {
    pub(super) campaign: Arc<Campaign>,
    pub(super) base_version: u32,
    pub(super) author: Author,
    pub(super) how: How,
}

/// What is done with a new version.
pub(super) enum How {
    /// It is checked and shown.
    DryRun,
    /// It comes into force.
    Apply,
    /// It comes into force, as this proposal says.
    Approve(ProposalId),
}

impl How {
    fn of(dry_run: bool) -> Self {
        match dry_run {
            true => Self::DryRun,
            false => Self::Apply,
        }
    }
}

/// What it changes.
pub(super) struct Base {
    view: CampaignView,
    /// The definition of the version that it names.
    definition: Arc<Campaign>,
    filling: Filling,
    now: Moment,
}

impl Base {
    /// Something has happened to it, or may have.
    fn has_begun(&self) -> bool {
        self.view.touched || self.now >= self.view.campaign.start
    }

    fn standing(&self) -> Standing {
        Standing {
            now: self.now,
            touched: self.view.touched,
        }
    }
}

/// A version that came into force, or would.
pub(super) struct Outcome {
    pub(super) status: proto::CampaignStatus,
    pub(super) plan: proto::PlanSummary,
    pub(super) changes: Vec<proto::Change>,
    pub(super) windows: WindowChanges,
    pub(super) replayed: bool,
    pub(super) request_id: String,
}

/// Creates a campaign or a new version of one.
pub(super) async fn apply_campaign(
    desk: &Desk,
    request: Request<proto::ApplyCampaignRequest>,
) -> Reply<proto::ApplyCampaignResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let caller = Caller::of(&request)?;
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let late = lateness(message.dry_run);
    let injector = desk.injector().clone();
    let work = see_through(async move {
        let version = compute(move || {
            let mut fields = Fields::default();
            let said = (message.operator.as_str(), message.reason.as_str());
            let author = fields.author(caller.identity(), request_id, said);
            let campaign = match &message.campaign {
                Some(campaign) => unstocked_from_proto(campaign)
                    .map_err(|p| fields.extend(p))
                    .ok(),
                None => {
                    fields.add("campaign", "is missing: give the whole definition");
                    None
                }
            };
            let (author, campaign) = fields.finish(author.zip(campaign))?;
            refuse_unverifiable(&campaign, &author)?;
            Ok::<_, CallError>(NewVersion {
                campaign: Arc::new(campaign),
                base_version: message.base_version,
                author,
                how: How::of(message.dry_run),
            })
        })
        .await??;
        let base = base(&injector, &version.campaign.id, version.base_version).await?;
        let outcome = bring(&injector, version, base, None).await?;
        Ok(proto::ApplyCampaignResponse {
            status: Some(outcome.status),
            plan: Some(outcome.plan),
            changes: outcome.changes,
            window_changes: outcome.windows.listed,
            replayed: outcome.replayed,
            request_id: outcome.request_id,
        })
    });
    desk.answer(valid_id.as_ref(), deadline, late, work).await
}

/// Replaces the schedule of one pool.
pub(super) async fn set_plan(
    desk: &Desk,
    request: Request<proto::SetPlanRequest>,
) -> Reply<proto::SetPlanResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let caller = Caller::of(&request)?;
    let message = request.into_inner();
    let request_id = request::request_id(&message.request_id);
    let valid_id = request_id.as_ref().ok().cloned();
    let late = lateness(message.dry_run);
    let injector = desk.injector().clone();
    let work = see_through(async move {
        let mut fields = Fields::default();
        let campaign = fields.campaign(&message.campaign_id);
        let pool = fields.pool(&message.pool_id);
        if message.base_version == 0 {
            fields.add("base_version", "is missing: name the version this changes");
        }
        if message.schedule.is_none() {
            fields.add("schedule", "is missing: give the whole new schedule");
        }
        let said = (message.operator.as_str(), message.reason.as_str());
        let author = fields.author(caller.identity(), request_id, said);
        let ((campaign, author), schedule) =
            fields.finish(campaign.zip(author).zip(message.schedule))?;
        let base = base(&injector, &campaign, message.base_version).await?;
        let base = base.ok_or(Refusal::CampaignNotFound)?;
        let pool = schedule_no(&base.definition, &pool)?;
        let definition = base.definition.clone();
        let of_schedule = {
            let schedule = schedule.clone();
            move |error| within_schedule(error, pool, &schedule, &definition)
        };
        let definition = base.definition.clone();
        let changed = compute(move || with_schedule(&definition, pool, &schedule)).await?;
        let changed = changed.map_err(|problems| of_schedule(problems.into()))?;
        let version = NewVersion {
            campaign: Arc::new(changed),
            base_version: message.base_version,
            author,
            how: How::of(message.dry_run),
        };
        let outcome = bring(&injector, version, Some(base), Some(pool)).await;
        let outcome = outcome.map_err(of_schedule)?;
        Ok(proto::SetPlanResponse {
            status: Some(outcome.status),
            window_changes: outcome.windows.listed,
            window_changes_omitted: outcome.windows.omitted,
            plan: Some(outcome.plan),
            replayed: outcome.replayed,
            request_id: outcome.request_id,
        })
    });
    desk.answer(valid_id.as_ref(), deadline, late, work).await
}

/// Approvals can only be required where identities are known.
pub(super) fn refuse_unverifiable(campaign: &Campaign, author: &Author) -> Result<(), Refusal> {
    match campaign.approval_required && !author.authenticated {
        true => Err(Refusal::IdentityNeeded),
        false => Ok(()),
    }
}

/// What may be said when the answer comes too late: a dry run has no effect.
fn lateness(dry_run: bool) -> Executed {
    if dry_run {
        Executed::No
    } else {
        Executed::Unknown
    }
}

/// The problems of a campaign with another schedule, as problems of that schedule, which is all
/// that the request has of it.
fn within_schedule(
    error: CallError,
    pool: PoolNo,
    schedule: &proto::Schedule,
    campaign: &Campaign,
) -> CallError {
    let CallError::Invalid(mut problems) = error else {
        return error;
    };
    let schedule_path = format!("pools[{}].schedule", pool.0);
    for problem in &mut problems.0 {
        if let Some(rest) = problem.path.strip_prefix(&schedule_path) {
            problem.path = format!("schedule{rest}");
        }
        for (no, prize) in campaign.numbered_prizes() {
            if problem.path == format!("prizes[{}].stock", no.0) {
                problem.path = layer_of(schedule, prize.id.as_str());
            }
        }
    }
    CallError::Invalid(problems)
}

/// The path of the layer that plans a prize, of several the one for most hours.
fn layer_of(schedule: &proto::Schedule, prize: &str) -> String {
    let daily = schedule.daily.iter().map(|daily| &daily.per_hour);
    let special = schedule.special.iter().map(|special| &special.per_hour);
    let layers = [("total".to_owned(), &schedule.total)]
        .into_iter()
        .chain([("perHour".to_owned(), &schedule.per_hour)])
        .chain(
            (0..)
                .zip(daily)
                .map(|(i, it)| (format!("daily[{i}].perHour"), it)),
        )
        .chain(
            (0..)
                .zip(special)
                .map(|(i, it)| (format!("special[{i}].perHour"), it)),
        );
    let mut planning = layers.filter(|(_, layer)| layer.contains_key(prize));
    match planning.next() {
        Some((path, _)) => format!("schedule.{path}.{prize}"),
        None => "schedule".into(),
    }
}

/// The campaign as it stands, with the definition of the version that is to be changed, or the
/// current one if there is no such version; none if there is no campaign.
pub(super) async fn base(
    injector: &Arc<Injector>,
    id: &CampaignId,
    base_version: u32,
) -> Result<Option<Base>, CallError> {
    let store = injector.store();
    let filling = match store.filling(id).await {
        Ok(filling) => filling,
        Err(error) if request::is_no_campaign(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let view = filling.view.clone();
    let definition = match base_version {
        version if (1..view.version).contains(&version) => store.version(id, version).await?,
        _ => view.campaign.clone(),
    };
    Ok(Some(Base {
        view,
        definition,
        filling,
        now: store.now().await?,
    }))
}

/// Brings a version into force, or says what that would do; `pool` asks for all hours of this pool
/// instead of the injected ones of all pools.
pub(super) async fn bring(
    injector: &Arc<Injector>,
    version: NewVersion,
    base: Option<Base>,
    pool: Option<PoolNo>,
) -> Result<Outcome, CallError> {
    let request_id = version.author.request.as_str().to_owned();
    let campaign = version.campaign.clone();
    let known = base.as_ref().map(|base| &*base.view.campaign);
    change::check_new_ids(known, &campaign).or(())?;
    let now = match &base {
        Some(base) => base.now,
        None => injector.store().now().await?,
    };
    let begun = begun(injector, &campaign, base.as_ref()).await?;
    check_stock(&version, base.as_ref(), begun.as_ref(), now).await?;
    let (status, replayed) = if matches!(version.how, How::DryRun) {
        (would_be(injector, &version, base.as_ref()).await?, false)
    } else {
        put_in_force(injector, version).await?
    };
    let (plan, changes, windows) = compute(move || {
        let needed = stock::needed(&campaign, begun.as_deref(), now);
        let from = stock::running_hour(&campaign, now);
        let dealt = stock::dealt(begun.as_deref());
        let summary = plan_summary(&campaign, &needed, &dealt, from, PLAN_HOURS_MAX);
        let plan = views::plan(&summary, &campaign);
        let Some(base) = base else {
            return (plan, Vec::new(), WindowChanges::default());
        };
        let before = &base.definition;
        let windows = match pool {
            Some(pool) => changes::of_pool(before, &campaign, pool, &base.filling, base.now),
            None => changes::of_injected(before, &campaign, &base.filling),
        };
        let differences = change::differences(before, &campaign);
        let changes = differences.into_iter().map(views::change).collect();
        (plan, changes, windows)
    })
    .await
    .map_err(|_| CallError::Broken(Executed::Unknown))?;
    Ok(Outcome {
        status,
        plan,
        changes,
        windows,
        replayed,
        request_id,
    })
}

/// What the campaign has used so far, if it has begun.
async fn begun(
    injector: &Injector,
    campaign: &Campaign,
    base: Option<&Base>,
) -> Result<Option<Arc<stock::Begun>>, CallError> {
    let Some(base) = base.filter(|base| base.has_begun()) else {
        return Ok(None);
    };
    let store = injector.store().as_ref();
    let begun = stock::Begun::read(store, campaign, &base.filling).await?;
    Ok(Some(Arc::new(begun)))
}

/// Refuses a version whose stock is short. What the store refuses anyway, or answers again, is left
/// to it.
async fn check_stock(
    version: &NewVersion,
    base: Option<&Base>,
    begun: Option<&Arc<stock::Begun>>,
    now: Moment,
) -> Result<(), CallError> {
    let campaign = &version.campaign;
    let Some(base) = base else {
        return match version.base_version {
            0 if now < campaign.end => stock::check(campaign, None, now).await,
            _ => Ok(()),
        };
    };
    let (view, standing) = (&base.view, base.standing());
    let is_closed = matches!(view.lifecycle, Lifecycle::Closing | Lifecycle::Closed);
    if is_closed
        || version.base_version != view.version
        || base.now >= campaign.end
        || !change::check(&view.campaign, campaign, standing).is_empty()
    {
        return Ok(());
    }
    stock::check(campaign, begun, now).await
}

async fn put_in_force(
    injector: &Arc<Injector>,
    version: NewVersion,
) -> Result<(proto::CampaignStatus, bool), CallError> {
    let NewVersion {
        campaign,
        base_version,
        author,
        how,
    } = version;
    let (id, operator) = (campaign.id.clone(), author.operator.clone());
    let applied = match how {
        How::Approve(proposal) => {
            let change = Change::Version(injector.new_version(campaign, base_version, author));
            injector
                .approve(ApproveCommand { proposal, change })
                .await?
        }
        How::Apply | How::DryRun => injector.apply(campaign, base_version, author).await?,
    };
    if !applied.replayed {
        info!(
            campaign = %id,
            %operator,
            version = applied.version,
            "campaign {id}: version {} applied by {operator}",
            applied.version,
        );
    }
    let status = reads::status_now(injector.store().as_ref(), &id).await;
    let status = status.map_err(CallError::after_the_change)?;
    Ok((status, applied.replayed))
}

/// The campaign as it would stand, or why the store would refuse it.
async fn would_be(
    injector: &Arc<Injector>,
    version: &NewVersion,
    base: Option<&Base>,
) -> Result<proto::CampaignStatus, CallError> {
    let test_clock = injector.store().info().test_clock;
    let named = version.base_version;
    let stale = |current| Err(Refusal::VersionStale { named, current }.into());
    let Some(base) = base else {
        let now = injector.store().now().await?;
        let end = version.campaign.end;
        return match named {
            0 if now < end => Ok(would_be_new(version, now, test_clock)),
            0 => Err(Refusal::Ended(end).into()),
            _ => stale(0),
        };
    };
    if matches!(base.view.lifecycle, Lifecycle::Closing | Lifecycle::Closed) {
        return Err(Refusal::Closed.into());
    }
    if named != base.view.version {
        return stale(base.view.version);
    }
    let problems = change::check(&base.view.campaign, &version.campaign, base.standing());
    if !problems.is_empty() {
        return Err(StoreError::from(Refusal::ChangeRefused(problems)).into());
    }
    if base.now >= version.campaign.end {
        return Err(Refusal::Ended(version.campaign.end).into());
    }
    let view = CampaignView {
        campaign: version.campaign.clone(),
        version: base.view.version + 1,
        ..base.view.clone()
    };
    let mut status = views::campaign_status(&view, base.now, test_clock);
    status.versions.push(would_be_version(version, base.now));
    Ok(status)
}

/// A campaign that does not exist yet has no nonce, and so no seed to commit to.
fn would_be_new(version: &NewVersion, now: Moment, test_clock: bool) -> proto::CampaignStatus {
    let campaign = &version.campaign;
    let state = if now < campaign.start {
        proto::CampaignState::Scheduled
    } else {
        proto::CampaignState::Running
    };
    proto::CampaignStatus {
        campaign: Some(campaign_to_proto(campaign)),
        version: 1,
        state: state.into(),
        versions: vec![would_be_version(version, now)],
        test_clock,
        read_time: Some(moment_to_proto(now)),
        ..proto::CampaignStatus::default()
    }
}

fn would_be_version(version: &NewVersion, now: Moment) -> proto::CampaignVersion {
    proto::CampaignVersion {
        version: version.base_version + 1,
        apply_time: Some(moment_to_proto(now)),
        operator: version.author.operator.as_str().into(),
        reason: version.author.reason.clone(),
        proposed_by: String::new(),
    }
}
