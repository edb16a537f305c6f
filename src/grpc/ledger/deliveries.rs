//! `MarkDelivered` and `RevokeWin`.

use tonic::Request;

use super::{Ledger, codes, views};
use crate::{
    grpc::{
        access::Caller,
        desk::{CALLER_TIME_MAX, Deadline, OPERATOR_TIME_MAX, Reply},
        removed::is_removal,
        request::{self, Fields, ParsedRequestId},
        status::CallError,
    },
    ledger::read::{Delivery, DeliveryState, LedgerReader, SettledWin},
    model::{Campaign, CampaignId, OperatorId, Problems},
    proto,
    store::{self, Author, Executed, Refusal, StoreError, Unit, WinCommand, WinOperation, WonUnit},
};

/// The longest reference of a delivery.
const REFERENCE_BYTES_MAX: usize = 256;
/// The longest id of a unit: that of a pool, a window, a number and a fork.
const UNIT_BYTES_MAX: usize = 200;

/// What is asked about a win.
pub(super) struct Asked {
    campaign: CampaignId,
    unit: String,
    operation: WinOperation,
    author: Author,
}

impl Asked {
    /// The win was delivered just so.
    fn is_done(&self, delivery: &Delivery) -> bool {
        match &self.operation {
            WinOperation::Deliver { reference } => {
                delivery.state == DeliveryState::Delivered && delivery.reference == *reference
            }
            WinOperation::Revoke { .. } => false,
        }
    }
}

fn asked(
    mut fields: Fields,
    request: ParsedRequestId,
    (campaign, unit): (&str, &str),
    (identity, said): (Option<&OperatorId>, (&str, &str)),
    operation: WinOperation,
) -> Result<Asked, Problems> {
    let campaign = fields.campaign(campaign);
    if unit.is_empty() {
        fields.add("unit_id", "is empty: name the unit that was won");
    }
    fields.text("unit_id", unit, UNIT_BYTES_MAX);
    let author = fields.author(identity, request, said);
    let (campaign, author) = fields.finish(campaign.zip(author))?;
    Ok(Asked {
        campaign,
        unit: unit.to_owned(),
        operation,
        author,
    })
}

fn delivered(
    message: &proto::MarkDeliveredRequest,
    request: ParsedRequestId,
    identity: Option<&OperatorId>,
) -> Result<Asked, Problems> {
    let mut fields = Fields::default();
    let reference = message.reference.clone();
    if reference.is_empty() {
        fields.add(
            "reference",
            "is empty: name the delivery, as the system that made it does",
        );
    }
    fields.text("reference", &reference, REFERENCE_BYTES_MAX);
    let of = (message.campaign_id.as_str(), message.unit_id.as_str());
    let operation = WinOperation::Deliver { reference };
    let by = (identity, (message.operator.as_str(), ""));
    asked(fields, request, of, by, operation)
}

fn revoked(
    message: &proto::RevokeWinRequest,
    request: ParsedRequestId,
    identity: Option<&OperatorId>,
) -> Result<Asked, Problems> {
    let of = (message.campaign_id.as_str(), message.unit_id.as_str());
    let by = (
        identity,
        (message.operator.as_str(), message.reason.as_str()),
    );
    let withdraw = message.withdraw;
    let operation = WinOperation::Revoke { withdraw };
    asked(Fields::default(), request, of, by, operation)
}

impl Ledger {
    pub(super) async fn mark_delivered(
        &self,
        request: Request<proto::MarkDeliveredRequest>,
    ) -> Reply<proto::MarkDeliveredResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let request_id = request::request_id(&message.request_id);
        let valid_id = request_id.as_ref().ok().cloned();
        let work = Box::pin(async {
            let win = self
                .operate_win(delivered(&message, request_id, caller.identity())?)
                .await?;
            Ok(proto::MarkDeliveredResponse { win: Some(win) })
        });
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
            .await
    }

    pub(super) async fn revoke_win(
        &self,
        request: Request<proto::RevokeWinRequest>,
    ) -> Reply<proto::RevokeWinResponse> {
        let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let request_id = request::request_id(&message.request_id);
        let valid_id = request_id.as_ref().ok().cloned();
        let work = Box::pin(async {
            let win = self
                .operate_win(revoked(&message, request_id, caller.identity())?)
                .await?;
            Ok(proto::RevokeWinResponse { win: Some(win) })
        });
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
            .await
    }

    async fn operate_win(&self, asked: Asked) -> Result<proto::Win, CallError> {
        let reader = self.reader()?;
        let mut settled = self.settled_win(reader, &asked).await?;
        let id = &asked.campaign;
        let store = self.desk.store();
        let definitions = &self.definitions;
        let campaign = definitions.version(store, reader, id, settled.win.version);
        let campaign = campaign.await?;
        // Read before the change: an error afterwards could not say that nothing happened.
        let mut message = win_message(reader, &settled, campaign.as_deref()).await?;
        let win = match self.won_unit(&asked, &settled).await {
            // A deliverer that was killed may ask again at any time.
            Err(CallError::Store(error))
                if is_removal(&error) && asked.is_done(&settled.delivery) =>
            {
                return Ok(message);
            }
            win => win?,
        };
        let operated = store
            .operate_win(WinCommand {
                campaign: asked.campaign,
                win,
                operation: asked.operation,
                author: asked.author,
            })
            .await?;
        settled.delivery = Delivery {
            state: match operated.delivery.state {
                store::DeliveryState::Delivered => DeliveryState::Delivered,
                store::DeliveryState::Revoked => DeliveryState::Revoked,
            },
            reference: operated.delivery.reference,
            at: Some(operated.delivery.at),
        };
        message.delivery = Some(views::delivery(&settled));
        Ok(message)
    }

    /// The win, which may be on its way to the sink.
    async fn settled_win(
        &self,
        reader: &dyn LedgerReader,
        asked: &Asked,
    ) -> Result<SettledWin, CallError> {
        if let Some(win) = reader.win(&asked.campaign, &asked.unit).await? {
            return Ok(win);
        }
        let store = self.desk.store();
        store.campaign(&asked.campaign).await?;
        let campaign = Some(asked.campaign.as_str());
        let behind = self.wait_until_settled(campaign).await?;
        let found = reader.win(&asked.campaign, &asked.unit).await?;
        found.ok_or_else(|| match behind {
            // Whoever is told that there is no such win gives it up for good.
            Some(_) => CallError::LedgerBehind,
            None => Refusal::WinNotFound(asked.unit.clone()).into(),
        })
    }

    /// The win as the store names it.
    async fn won_unit(&self, asked: &Asked, settled: &SettledWin) -> Result<WonUnit, CallError> {
        let view = self.desk.store().campaign(&asked.campaign).await?;
        let win = &settled.win;
        let pool = view.campaign.named_pool(&win.pool);
        let unit = pool.zip(Unit::from_id(&win.unit, &win.pool));
        let (Some((pool, unit)), Some(prize)) = (unit, view.campaign.prize_no(&win.prize)) else {
            return Err(StoreError::corrupt(format!(
                "the settled win {} of campaign {} is of a pool or a prize that it does not have",
                win.unit, asked.campaign
            ))
            .into());
        };
        Ok(WonUnit {
            user: crate::model::UserId::parse("user_id", &win.user)?,
            prize,
            pool,
            unit,
        })
    }
}

/// A win with the index of its code.
async fn win_message(
    reader: &dyn LedgerReader,
    settled: &SettledWin,
    campaign: Option<&Campaign>,
) -> Result<proto::Win, CallError> {
    let mut messages = [views::win(settled, campaign)];
    if codes::has_code(&settled.win, campaign) {
        codes::add(reader, &mut messages, &[(0, &settled.win)]).await?;
    }
    let [message] = messages;
    Ok(message)
}
