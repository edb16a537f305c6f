//! Operators' acts on a campaign, other than new versions of it.

use std::sync::Arc;

use tonic::Request;
use tracing::info;

use super::{
    access::Caller,
    desk::{Deadline, Desk, OPERATOR_TIME_MAX, Reply, see_through},
    reads,
    request::{self, Fields},
    status::CallError,
    views,
};
use crate::{
    injector::Injector,
    model::{Campaign, CampaignId, Moment, OperatorId, PoolKind, PoolNo, PrizeNo, Quantities},
    proto,
    store::{Author, Executed, OperateCommand, Operated, Operation, Refusal, Store},
};

/// The most hours whose units the answer to a recall lists.
const RECALLED_WINDOWS_MAX: usize = 1_000;

/// What each request for an act says besides the act.
pub(super) struct Signed<'a> {
    /// The identity that calls, if the server knows identities.
    pub(super) identity: Option<OperatorId>,
    pub(super) campaign: &'a str,
    pub(super) request: &'a str,
    pub(super) operator: &'a str,
    pub(super) reason: &'a str,
}

/// The [`Signed`] fields of a message.
macro_rules! signed {
    ($identity:expr, $message:expr) => {
        Signed {
            identity: $identity,
            campaign: &$message.campaign_id,
            request: &$message.request_id,
            operator: &$message.operator,
            reason: &$message.reason,
        }
    };
}

/// An act that is done.
struct Done {
    injector: Arc<Injector>,
    campaign: CampaignId,
    operation: Operation,
    operated: Operated,
    /// Of a recall of all hours: when it began.
    begun: Moment,
    /// Of a recall: what had been taken back of the same hours before.
    recalled_before: Quantities,
}

/// Parses who, why and on which campaign, then lets `plan` say what is to be done under the
/// definition that is current, does it, and makes the response with `respond`.
async fn act<T, P, A, F>(
    desk: &Desk,
    deadline: Deadline,
    signed: Signed<'_>,
    (fields, plan): (Fields, P),
    respond: A,
) -> Reply<T>
where
    T: Send + 'static,
    P: FnOnce(&Campaign) -> Result<Operation, Refusal> + Send + 'static,
    A: FnOnce(Done) -> F + Send + 'static,
    F: Future<Output = Result<T, CallError>> + Send,
{
    let request_id = request::request_id(signed.request);
    let valid_id = request_id.as_ref().ok().cloned();
    let mut fields = fields;
    let campaign = fields.campaign(signed.campaign);
    let said = (signed.operator, signed.reason);
    let author = fields.author(signed.identity.as_ref(), request_id, said);
    let parsed = fields.finish(campaign.zip(author));
    let injector = desk.injector().clone();
    let work = async {
        let (campaign, author) = parsed?;
        see_through(async move {
            let done = operate(injector, campaign, author, plan).await?;
            respond(done).await
        })
        .await
    };
    desk.answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
        .await
}

async fn operate(
    injector: Arc<Injector>,
    campaign: CampaignId,
    author: Author,
    plan: impl FnOnce(&Campaign) -> Result<Operation, Refusal>,
) -> Result<Done, CallError> {
    let operation = {
        let view = injector.store().campaign(&campaign).await?;
        plan(&view.campaign)?
    };
    let operator = author.operator.clone();
    let store = injector.store().as_ref();
    let begun = match operation {
        Operation::Recall { window: None, .. } => store.now().await?,
        _ => Moment::EPOCH,
    };
    let recalled_before = recalled(store, &campaign, &operation, begun).await?;
    let operated = injector
        .operate(OperateCommand {
            campaign: campaign.clone(),
            operation: operation.clone(),
            blocks: Vec::new(),
            author,
        })
        .await?;
    if !operated.replayed {
        info!(
            %campaign,
            %operator,
            version = operated.version,
            users = operated.users,
            "campaign {campaign}: {} by {operator}",
            name(&operation),
        );
    }
    Ok(Done {
        injector,
        campaign,
        operation,
        operated,
        begun,
        recalled_before,
    })
}

fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Pause => "paused",
        Operation::Resume => "resumed",
        Operation::Close => "closed",
        Operation::PausePrize { .. } => "prize paused",
        Operation::ResumePrize { .. } => "prize resumed",
        Operation::Recall { .. } => "units recalled",
        Operation::Grant { .. } => "draws granted",
        Operation::Block { .. } => "users blocked",
        Operation::Unblock { .. } => "users unblocked",
        Operation::ImportCodes { .. } => "codes imported",
    }
}

impl Done {
    /// The campaign after the act, and whether it was done before.
    async fn status(self) -> Result<(Option<proto::CampaignStatus>, bool), CallError> {
        let status = reads::status_now(self.injector.store().as_ref(), &self.campaign).await;
        let status = status.map_err(CallError::after_the_change)?;
        Ok((Some(status), self.operated.replayed))
    }
}

pub(super) fn prize_no(campaign: &Campaign, id: &str) -> Result<PrizeNo, Refusal> {
    campaign
        .prize_no(id)
        .ok_or_else(|| Refusal::PrizeNotFound(id.into()))
}

/// The number of a pool, which must be a schedule.
pub(super) fn schedule_no(campaign: &Campaign, id: &str) -> Result<PoolNo, Refusal> {
    let no = campaign
        .pool_no(id)
        .ok_or_else(|| Refusal::PoolNotFound(id.into()))?;
    match campaign.pool(no).kind {
        PoolKind::Schedule(_) => Ok(no),
        PoolKind::Deck(_) | PoolKind::Personal(_) => Err(Refusal::NotASchedule(id.into())),
    }
}

/// The acts whose answer is the campaign's status: message in, message out, operation.
macro_rules! status_act {
    ($name:ident, $request:ident, $response:ident, |$message:ident, $fields:ident| $plan:expr) => {
        pub(super) async fn $name(
            desk: &Desk,
            request: Request<proto::$request>,
        ) -> Reply<proto::$response> {
            let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
            let identity = Caller::of(&request)?.identity().cloned();
            let $message = request.into_inner();
            #[allow(unused_mut, reason = "most acts have no fields of their own")]
            let mut $fields = Fields::default();
            let plan = $plan;
            let respond = |done: Done| async {
                let (status, replayed) = done.status().await?;
                Ok(proto::$response { status, replayed })
            };
            act(
                desk,
                deadline,
                signed!(identity, $message),
                ($fields, plan),
                respond,
            )
            .await
        }
    };
}

status_act!(
    pause,
    PauseCampaignRequest,
    PauseCampaignResponse,
    |m, fields| |_: &Campaign| Ok(Operation::Pause)
);
status_act!(
    resume,
    ResumeCampaignRequest,
    ResumeCampaignResponse,
    |m, fields| |_: &Campaign| Ok(Operation::Resume)
);
status_act!(
    close,
    CloseCampaignRequest,
    CloseCampaignResponse,
    |m, fields| |_: &Campaign| Ok(Operation::Close)
);
status_act!(
    pause_prize,
    PausePrizeRequest,
    PausePrizeResponse,
    |m, fields| {
        let prize = fields.prize(&m.prize_id);
        move |campaign: &Campaign| {
            let prize = prize_no(campaign, &prize)?;
            Ok(Operation::PausePrize { prize })
        }
    }
);
status_act!(
    resume_prize,
    ResumePrizeRequest,
    ResumePrizeResponse,
    |m, fields| {
        let prize = fields.prize(&m.prize_id);
        move |campaign: &Campaign| {
            let prize = prize_no(campaign, &prize)?;
            Ok(Operation::ResumePrize { prize })
        }
    }
);

/// The acts whose answer is a number of users.
macro_rules! users_act {
    (
        $name:ident, $request:ident, $response:ident,
        |$message:ident, $fields:ident| $operation:expr
    ) => {
        pub(super) async fn $name(
            desk: &Desk,
            request: Request<proto::$request>,
        ) -> Reply<proto::$response> {
            let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
            let identity = Caller::of(&request)?.identity().cloned();
            let $message = request.into_inner();
            let mut $fields = Fields::default();
            let operation = $operation;
            let plan = move |_: &Campaign| Ok(operation);
            let respond = |done: Done| async move {
                Ok(proto::$response {
                    users: done.operated.users,
                    replayed: done.operated.replayed,
                })
            };
            act(
                desk,
                deadline,
                signed!(identity, $message),
                ($fields, plan),
                respond,
            )
            .await
        }
    };
}

users_act!(
    grant_draws,
    GrantDrawsRequest,
    GrantDrawsResponse,
    |m, fields| {
        fields.grant_draws(m.draws);
        // No time means "with the campaign", whose end may still move; after it nobody draws
        // anyway.
        let expires = fields.moment("expire_time", m.expire_time.as_ref());
        Operation::Grant {
            users: fields.users(&m.user_ids),
            draws: m.draws,
            expires: expires.unwrap_or(Moment::FAR_FUTURE),
        }
    }
);
users_act!(
    block_users,
    BlockUsersRequest,
    BlockUsersResponse,
    |m, fields| Operation::Block {
        users: fields.users(&m.user_ids)
    }
);
users_act!(
    unblock_users,
    UnblockUsersRequest,
    UnblockUsersResponse,
    |m, fields| Operation::Unblock {
        users: fields.users(&m.user_ids)
    }
);

/// Takes units back and answers how many came back so far from the hours in question.
pub(super) async fn recall_units(
    desk: &Desk,
    request: Request<proto::RecallUnitsRequest>,
) -> Reply<proto::RecallUnitsResponse> {
    let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
    let identity = Caller::of(&request)?.identity().cloned();
    let message = request.into_inner();
    let mut fields = Fields::default();
    let pool = fields.pool(&message.pool_id);
    let prize = (!message.prize_id.is_empty()).then(|| fields.prize(&message.prize_id));
    let window = fields.moment("window_start_time", message.window_start_time.as_ref());
    let withdraw = message.withdraw;
    let plan = move |campaign: &Campaign| {
        let prize = prize.map(|id| prize_no(campaign, &id)).transpose()?;
        Ok(Operation::Recall {
            pool: schedule_no(campaign, &pool)?,
            window,
            prize,
            withdraw,
        })
    };
    let respond = |done: Done| async move {
        let store = done.injector.store();
        // An hour may have ended meanwhile: it counts in both sums or in none.
        let recalled = recalled(store.as_ref(), &done.campaign, &done.operation, done.begun).await;
        let mut recalled = recalled.map_err(CallError::after_the_change)?;
        for (prize, before) in &done.recalled_before {
            if let Some(units) = recalled.get_mut(prize) {
                *units = units.saturating_sub(*before);
            }
        }
        recalled.retain(|_, units| *units > 0);
        let view = store.campaign(&done.campaign).await;
        let view = view.map_err(CallError::after_the_change)?;
        Ok(proto::RecallUnitsResponse {
            recalled: views::quantities(&recalled, &view.campaign),
            replayed: done.operated.replayed,
        })
    };
    act(
        desk,
        deadline,
        signed!(identity, message),
        (fields, plan),
        respond,
    )
    .await
}

/// Units that were taken back so far from the hours in the scope of a recall, which are those that
/// had not ended when it began unless it names one; none of any other operation.
async fn recalled(
    store: &dyn Store,
    campaign: &CampaignId,
    operation: &Operation,
    begun: Moment,
) -> crate::store::Result<Quantities> {
    let Operation::Recall {
        pool,
        window,
        prize,
        ..
    } = *operation
    else {
        return Ok(Quantities::new());
    };
    let (after, limit) = match window {
        Some(start) => (start, 1),
        None => (begun, RECALLED_WINDOWS_MAX),
    };
    let mut recalled = Quantities::new();
    for view in store.windows(campaign, pool, after, limit).await? {
        if window.is_some_and(|start| view.start != start) {
            continue;
        }
        for (no, units) in view.prizes {
            if units.recalled > 0 && prize.is_none_or(|prize| prize == no) {
                *recalled.entry(no).or_default() += units.recalled;
            }
        }
    }
    Ok(recalled)
}
