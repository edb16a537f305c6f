//! Connections to the services that live, and calls that are repeated until one of them answers.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tombola::proto::{
    campaign_service_client::CampaignServiceClient, envelope_service_client::EnvelopeServiceClient,
    lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::stage::{Live, Stage};
use crate::service::{Campaigns, Lottery, TokenLink};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Longer than a service takes for a caller's request.
const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a call is repeated until it has failed for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a call can take: its last attempt begins before patience ends.
pub(super) const CALL_TIME_MAX: Duration = PATIENCE.saturating_add(Duration::from_secs(30));
/// The pause between two attempts, as a service asks for it when it has too many calls.
const PAUSE_MS: Range<u64> = 100..500;

/// The clients of a service.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) lottery: Lottery,
    pub(super) envelopes: EnvelopeServiceClient<TokenLink>,
    pub(super) operators: Campaigns,
}

/// A connection to each service, made when it is needed.
pub(super) struct Links {
    pub(super) stage: Arc<Stage>,
    /// Of each service the connection to the process of a generation.
    slots: Vec<Mutex<Option<(u64, Clients)>>>,
}

impl Links {
    pub(super) fn new(stage: &Arc<Stage>, services: usize) -> Self {
        Self {
            stage: Arc::clone(stage),
            slots: (0..services).map(|_| Mutex::default()).collect(),
        }
    }

    /// Makes a call until a service answers it or refuses it, or patience ends. Every attempt goes
    /// to the next service that lives; `number` says which one is first.
    pub(super) async fn call<R>(
        &self,
        number: u64,
        mut call: impl AsyncFnMut(&mut Clients) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let begun = Instant::now();
        let mut turn = number;
        loop {
            let status = match self.attempt(turn, &mut call).await {
                Err(status) if is_worth_a_retry(&status) && begun.elapsed() < PATIENCE => status,
                ended => return ended,
            };
            self.stage.retried(&status);
            // A broken connection is tried once with another service at once.
            if turn > number || is_of_the_service(&status) {
                sleep(Duration::from_millis(rand::random_range(PAUSE_MS))).await;
            }
            turn += 1;
        }
    }

    async fn attempt<R>(
        &self,
        turn: u64,
        call: &mut impl AsyncFnMut(&mut Clients) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let live = self.stage.pick(turn);
        let live = live.ok_or_else(|| Status::unavailable("no service lives"))?;
        let mut clients = self.clients(&live).await?;
        let answer = timeout(ATTEMPT_TIME_MAX, call(&mut clients)).await;
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")));
        if answer
            .as_ref()
            .is_err_and(|status| !is_of_the_service(status))
        {
            // The connection may be broken.
            *self.slots[live.index].lock().await = None;
        }
        answer
    }

    /// The connection to a service; callers who need a new one at the same time share it.
    async fn clients(&self, live: &Live) -> Result<Clients, Status> {
        let mut slot = self.slots[live.index].lock().await;
        match &*slot {
            Some((generation, clients)) if *generation == live.generation => Ok(clients.clone()),
            _ => {
                let link = live.address.link(CONNECT_TIME_MAX).await;
                let link = link.map_err(|fault| Status::unavailable(fault.to_string()))?;
                let clients = Clients {
                    lottery: LotteryServiceClient::new(link.clone()),
                    envelopes: EnvelopeServiceClient::new(link.clone()),
                    operators: CampaignServiceClient::new(link),
                };
                *slot = Some((live.generation, clients.clone()));
                Ok(clients)
            }
        }
    }
}

/// Whether a service has answered, and not the connection.
fn is_of_the_service(status: &Status) -> bool {
    status.get_error_details().error_info().is_some()
}

/// Whether the next attempt may have another answer (the retry rule).
fn is_worth_a_retry(status: &Status) -> bool {
    let details = status.get_error_details();
    let is_unknown = details.error_info().is_none_or(|info| {
        info.metadata
            .get("executed")
            .is_some_and(|how| how == "unknown")
    });
    is_unknown || matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn the_retry_rule_is_followed() {
        let answered = |code, executed: &str| {
            let metadata = HashMap::from([("executed".to_owned(), executed.to_owned())]);
            let details = ErrorDetails::with_error_info("REASON", "tombola", metadata);
            is_worth_a_retry(&Status::with_error_details(code, "", details))
        };
        assert!(answered(Code::Unavailable, "no"));
        assert!(answered(Code::DeadlineExceeded, "unknown"));
        assert!(answered(Code::Internal, "unknown"));
        assert!(!answered(Code::ResourceExhausted, "no"));
        assert!(is_worth_a_retry(&Status::unknown("broken pipe")));
    }
}
