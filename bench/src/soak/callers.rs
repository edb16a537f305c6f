//! The load of a soak: users of a fixed population who draw, grab, and now and then repeat a
//! request that was answered.

use std::{rc::Rc, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tombola::proto::{DrawRequest, Outcome};
use tonic::Status;

use super::{
    links::{CALL_TIME_MAX, Links},
    stage::Stage,
};
use crate::{
    envelopes::Envelopes,
    failure::{Fault, reason},
    load::{Caller, Target},
    record::Answer,
    scenario::{Ids, scramble},
};

/// Refusals that the story has.
const REFUSALS: [&str; 5] = [
    "DRAWS_PER_DAY",
    "DRAWS_PER_USER",
    "CAMPAIGN_PAUSED",
    "CAMPAIGN_ENDED",
    "CAMPAIGN_CLOSED",
];
/// Users and requests have ids of other numbers.
const FIRST_REQUEST: u64 = 1 << 40;
/// One draw in so many is kept, to be asked for again.
const KEPT: u64 = 8;

/// The load on one store.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) stage: Arc<Stage>,
    /// How many services there are.
    pub(super) services: usize,
    pub(super) users: u64,
    /// The campaign that most draws are made in; also the prefix of envelopes.
    pub(super) campaign: String,
    /// How old a draw may be that is asked for again.
    pub(super) replay_age_max: SignedDuration,
}

/// A caller of the services of a store.
#[derive(Clone)]
pub(super) struct SoakCaller {
    links: Rc<Links>,
    load: Rc<Load>,
}

impl Target for Load {
    type Caller = SoakCaller;

    async fn connect(&self) -> Result<SoakCaller, Fault> {
        Ok(SoakCaller {
            links: Rc::new(Links::new(&self.stage, self.services)),
            load: Rc::new(self.clone()),
        })
    }
}

impl Caller for SoakCaller {
    const ANSWER_TIME_MAX: Duration = CALL_TIME_MAX;

    async fn call(&mut self, number: u64) -> Answer {
        match number % 32 {
            0 => self.grab(number).await,
            1 => self.again(number).await,
            2 | 3 => self.draw(self.load.stage.small(), number).await,
            _ => self.draw(self.load.campaign.clone(), number).await,
        }
    }
}

impl SoakCaller {
    async fn draw(&self, campaign_id: String, number: u64) -> Answer {
        let request = DrawRequest {
            campaign_id,
            user_id: self.user(number),
            request_id: Ids::Uuid.of(FIRST_REQUEST + number),
            ..DrawRequest::default()
        };
        let drawn = self.links.call(number, async |clients| {
            clients.lottery.draw(request.clone()).await
        });
        match drawn.await {
            Ok(response) => {
                let response = response.get_ref();
                self.load
                    .stage
                    .drawn(&request, response, number.is_multiple_of(KEPT));
                let mut results = response.results.iter();
                match results.any(|result| result.outcome() == Outcome::Won) {
                    true => Answer::Won,
                    false => Answer::Done,
                }
            }
            Err(status) => self.failed(&status, "a draw"),
        }
    }

    /// Repeats a draw that was answered.
    async fn again(&self, number: u64) -> Answer {
        let Some(answered) = self.load.stage.answered(self.load.replay_age_max) else {
            return self.draw(self.load.campaign.clone(), number).await;
        };
        let again = self.links.call(number, async |clients| {
            clients.lottery.draw(answered.request.clone()).await
        });
        match again.await {
            Ok(response) => {
                self.load.stage.replayed(&answered, response.get_ref());
                Answer::Done
            }
            Err(status) => {
                let text = format!("{:?} was refused later: {status}", answered.request);
                self.load.stage.fault(text);
                Answer::Failed(reason(&status))
            }
        }
    }

    async fn grab(&self, number: u64) -> Answer {
        let user = self.user(number);
        let grabbed = self.links.call(number, async |clients| {
            let (prefix, index) = (&self.load.campaign, number / 32);
            Envelopes::SMALL
                .try_grab(&mut clients.envelopes, prefix, user.clone(), index)
                .await
        });
        match grabbed.await {
            Ok(true) => Answer::Won,
            Ok(false) => Answer::Done,
            Err(status) => self.failed(&status, "a grab"),
        }
    }

    fn user(&self, number: u64) -> String {
        Ids::Uuid.of(scramble(number) % self.load.users)
    }

    fn failed(&self, status: &Status, call: &str) -> Answer {
        let reason = reason(status);
        if !REFUSALS.contains(&reason.as_str()) {
            let stage = &self.load.stage;
            stage.fault(format!("{call} failed at {}: {status}", stage.clock.now()));
        }
        Answer::Failed(reason)
    }
}
