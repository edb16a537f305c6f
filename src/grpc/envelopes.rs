//! `EnvelopeService`: create, grab, read, cancel.

use std::{pin::pin, sync::Arc};

use tonic::Request;
use tracing::info;

use super::{
    access::Caller,
    desk::{CALLER_TIME_MAX, Deadline, Desk, OPERATOR_TIME_MAX, Reply, see_through},
    envelope_views,
    request::{self, Fields},
    status::CallError,
    views,
};
use crate::{
    injector::Injector,
    model::{EnvelopeId, UserId, convert::envelope_from_proto},
    proto::{self, envelope_service_server::EnvelopeService},
    store::{CancelEnvelope, EnvelopeView, Executed, GrabCommand},
};

/// What the tokens of pages of grabs begin with; the last packet of the page before follows.
const TOKEN_PREFIX: &str = "packet-";

/// The service.
pub(super) struct Envelopes {
    desk: Arc<Desk>,
}

impl Envelopes {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }
}

#[tonic::async_trait]
impl EnvelopeService for Envelopes {
    async fn create_envelope(
        &self,
        request: Request<proto::CreateEnvelopeRequest>,
    ) -> Reply<proto::CreateEnvelopeResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let identity = Caller::of(&request)?.identity().cloned();
        let message = request.into_inner();
        let durability = self.desk.store().durability();
        let injector = self.desk.injector().clone();
        let work = async {
            let (envelope, users) = envelope_from_proto(&message)?;
            see_through(async move {
                let reply = injector.create_envelope(Arc::new(envelope), users, identity);
                let reply = reply.await?;
                let envelope = envelope_message(&injector, &reply.view).await;
                Ok(proto::CreateEnvelopeResponse {
                    envelope: Some(envelope.map_err(CallError::after_the_change)?),
                    replayed: reply.replayed,
                    durability: views::durability(durability).into(),
                })
            })
            .await
        };
        self.desk
            .answer(None, deadline, Executed::Unknown, work)
            .await
    }

    /// This future may be dropped at any moment, as that of a draw.
    async fn grab_envelope(
        &self,
        request: Request<proto::GrabEnvelopeRequest>,
    ) -> Reply<proto::GrabEnvelopeResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let work = pin!(async {
            let store = self.desk.store();
            let mut fields = Fields::default();
            let envelope = fields.envelope(&message.envelope_id);
            let user = fields.take(UserId::parse("user_id", &message.user_id));
            let (envelope, user) = fields.finish(envelope.zip(user))?;
            // The store's clock decides; it must not take a packet once the caller has learned that
            // it is too late.
            let not_after = store.clock_hint_in(deadline.remaining());
            let command = GrabCommand {
                envelope,
                user,
                not_after,
            };
            let answer = self.desk.injector().grab(command).await?;
            Ok(envelope_views::grab_answer(&answer, store.durability()))
        });
        self.desk
            .answer(None, deadline, Executed::Unknown, work)
            .await
    }

    async fn get_envelope(
        &self,
        request: Request<proto::GetEnvelopeRequest>,
    ) -> Reply<proto::GetEnvelopeResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let work = async {
            let injector = self.desk.injector();
            let id = EnvelopeId::parse("envelope_id", &message.envelope_id)?;
            let view = injector.envelope(&id).await?;
            Ok(proto::GetEnvelopeResponse {
                envelope: Some(envelope_message(injector, &view).await?),
            })
        };
        self.desk.read(deadline, work).await
    }

    async fn list_grabs(
        &self,
        request: Request<proto::ListGrabsRequest>,
    ) -> Reply<proto::ListGrabsResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let work = async {
            let mut fields = Fields::default();
            let id = fields.envelope(&message.envelope_id);
            let size = fields.page_size(message.page_size);
            let after = read_token(&mut fields, &message.page_token);
            let (id, after) = fields.finish(id.zip(after))?;
            let mut grabs = self.desk.store().grabs(&id, after, size + 1).await?;
            let more = grabs.len() > size;
            grabs.truncate(size);
            let last = grabs.last().filter(|_| more);
            Ok(proto::ListGrabsResponse {
                next_page_token: last
                    .map(|grab| format!("{TOKEN_PREFIX}{}", grab.packet.number))
                    .unwrap_or_default(),
                grabs: grabs.iter().map(envelope_views::grab).collect(),
            })
        };
        self.desk.read(deadline, work).await
    }

    async fn cancel_envelope(
        &self,
        request: Request<proto::CancelEnvelopeRequest>,
    ) -> Reply<proto::CancelEnvelopeResponse> {
        let deadline = Deadline::of(&request, OPERATOR_TIME_MAX);
        let caller = Caller::of(&request)?;
        let message = request.into_inner();
        let request_id = request::request_id(&message.request_id);
        let valid_id = request_id.as_ref().ok().cloned();
        let injector = self.desk.injector().clone();
        let work = async {
            let mut fields = Fields::default();
            let id = fields.envelope(&message.envelope_id);
            let said = (message.operator.as_str(), message.reason.as_str());
            let author = fields.author(caller.identity(), request_id, said);
            let (envelope, author) = fields.finish(id.zip(author))?;
            see_through(cancel(injector, CancelEnvelope { envelope, author })).await
        };
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
            .await
    }
}

async fn cancel(
    injector: Arc<Injector>,
    command: CancelEnvelope,
) -> Result<proto::CancelEnvelopeResponse, CallError> {
    let (id, author) = (command.envelope.clone(), command.author.clone());
    let reply = injector.cancel_envelope(command).await?;
    if !reply.replayed {
        let operator = author.operator;
        info!(envelope = %id, %operator, "envelope {id}: cancelled by {operator}");
    }
    let envelope = envelope_message(&injector, &reply.view).await;
    Ok(proto::CancelEnvelopeResponse {
        envelope: Some(envelope.map_err(CallError::after_the_change)?),
        replayed: reply.replayed,
        request_id: author.request.as_str().into(),
    })
}

/// An envelope as a message: with its luckiest user and its seed once they may be revealed.
async fn envelope_message(
    injector: &Injector,
    view: &EnvelopeView,
) -> crate::store::Result<proto::Envelope> {
    let luckiest = injector.luckiest(view).await?;
    let seed = view
        .is_settled()
        .then(|| injector.envelope_seed(view).reveal());
    let test_clock = injector.store().info().test_clock;
    Ok(envelope_views::envelope(
        view,
        luckiest.as_ref(),
        seed,
        test_clock,
    ))
}

/// The packet after which a page begins.
pub(super) fn read_token(fields: &mut Fields, token: &str) -> Option<u32> {
    if token.is_empty() {
        return Some(0);
    }
    let packet = token.strip_prefix(TOKEN_PREFIX);
    let packet = packet.and_then(|number| number.parse().ok());
    if packet.is_none() {
        fields.add("page_token", "is not a token that this service gave");
    }
    packet
}
