//! `LotteryService`: what callers use.

use std::{pin::pin, sync::Arc};

use tonic::Request;

use super::{
    codes,
    desk::{CALLER_TIME_MAX, Deadline, Desk, Reply, compute},
    odds::{self, LongRun},
    request,
    status::{CallError, verdict},
    views,
};
use crate::{
    proto::{self, lottery_service_server::LotteryService},
    store::{Executed, Refusal, StoreError},
};

/// The service.
pub(super) struct Lottery {
    desk: Arc<Desk>,
    long_run: Arc<LongRun>,
}

impl Lottery {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self {
            desk,
            long_run: Arc::default(),
        }
    }
}

#[tonic::async_trait]
impl LotteryService for Lottery {
    /// This future may be dropped at any moment, when its caller hangs up, and nothing is left half
    /// done. The store queues each command as a whole or not at all, and carries out what it has
    /// queued. Units that were filled in for a draw which is not made are there for the next draw.
    /// So a draw needs no task of its own.
    async fn draw(&self, request: Request<proto::DrawRequest>) -> Reply<proto::DrawResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let (_, extensions, message) = request.into_parts();
        let request_id = request::request_id(&message.request_id);
        let valid_id = request_id.as_ref().ok().cloned();
        // The store's clock decides; it must not begin the draw once the caller has learned that it
        // is too late.
        let not_after = self.desk.store().clock_hint_in(deadline.remaining());
        let command = request::draw(message, request_id, not_after);
        let work = pin!(async {
            let answer = self.desk.injector().draw(command?).await?;
            let codes = codes::of(&self.desk, &extensions, &answer).await;
            let codes = codes.map_err(CallError::after_the_change)?;
            Ok(views::draw(&answer, self.desk.store().durability(), codes))
        });
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
            .await
    }

    async fn get_draw(
        &self,
        request: Request<proto::GetDrawRequest>,
    ) -> Reply<proto::GetDrawResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let (_, extensions, message) = request.into_parts();
        let valid_id = request::request_id(&message.request_id).ok();
        let valid_id = valid_id.filter(|_| !message.request_id.is_empty());
        let work = pin!(async {
            let (campaign, user, request) = request::find_draw(&message)?;
            let mut answer = self.desk.find_draw(&campaign, &user, &request).await?;
            answer.replayed = true;
            let codes = codes::of(&self.desk, &extensions, &answer).await?;
            let draw = views::draw(&answer, self.desk.store().durability(), codes);
            Ok(proto::GetDrawResponse { draw: Some(draw) })
        });
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::No, work)
            .await
    }

    async fn check_limit(
        &self,
        request: Request<proto::CheckLimitRequest>,
    ) -> Reply<proto::CheckLimitResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let work = pin!(async {
            let (campaign, user, segments) = request::check_limit(&message)?;
            let store = self.desk.store();
            let (admitted, limits) = match store.user(&campaign, &user).await {
                // Nobody has limits any more.
                Err(StoreError::Refused(Refusal::Removed { end })) => {
                    let refused = Refusal::of_removed(end, store.now().await?);
                    (Err(refused.into()), None)
                }
                user => {
                    let user = user?;
                    let quotas = user.quotas_in(&segments);
                    let limits = views::limits(&quotas, &user.view.campaign);
                    (user.admits_free_draw(&segments), Some(limits))
                }
            };
            let reason = match admitted {
                Ok(()) => proto::ErrorReason::Unspecified,
                Err(refused) => verdict(&CallError::from(refused)).1,
            };
            Ok(proto::CheckLimitResponse {
                allowed: reason == proto::ErrorReason::Unspecified,
                reason: reason.into(),
                limits,
            })
        });
        self.desk.read(deadline, work).await
    }

    /// As safe to drop as a draw.
    async fn grant_bonus(
        &self,
        request: Request<proto::GrantBonusRequest>,
    ) -> Reply<proto::GrantBonusResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let request_id = request::request_id(&message.request_id);
        let valid_id = request_id.as_ref().ok().cloned();
        let work = pin!(async {
            let store = self.desk.store();
            let not_after = store.clock_hint_in(deadline.remaining());
            let command = request::grant_bonus(&message, request_id, not_after)?;
            let answer = store.grant_bonus(command).await?;
            Ok(views::bonus(&answer, store.durability()))
        });
        self.desk
            .answer(valid_id.as_ref(), deadline, Executed::Unknown, work)
            .await
    }

    async fn get_odds(
        &self,
        request: Request<proto::GetOddsRequest>,
    ) -> Reply<proto::GetOddsResponse> {
        let deadline = Deadline::of(&request, CALLER_TIME_MAX);
        let message = request.into_inner();
        let work = pin!(async {
            let store = self.desk.store();
            let id = request::campaign(&message.campaign_id)?;
            // Read before the view: once a campaign has ended, nobody can move its end any more.
            let now = match store.time_of(&id).await {
                Err(StoreError::Halted(_) | StoreError::Corrupt { .. }) => None,
                now => Some(now?),
            };
            let view = self.desk.campaign(&id).await?;
            let definition = match message.version {
                0 => view.campaign.clone(),
                version => self.desk.version(&id, version).await?,
            };
            // Without the time, only a campaign that was closed is known to have ended.
            let seed = view
                .has_ended(now.unwrap_or(view.campaign.start))
                .then(|| self.desk.injector().seed(&view));
            let long_run = Arc::clone(&self.long_run);
            let version = message.version;
            compute(move || odds::published(&long_run, &view, version, &definition, seed.as_ref()))
                .await
        });
        self.desk.read(deadline, work).await
    }
}
