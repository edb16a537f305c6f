//! The operator of a soak: a new plan each day, small campaigns that come and go, pauses.

use std::{convert::Infallible, future::pending, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tombola::proto::{
    ApplyCampaignRequest, CloseCampaignRequest, PauseCampaignRequest, PausePrizeRequest,
    ResumeCampaignRequest, ResumePrizeRequest,
};

use super::{
    links::Links,
    story::{self, Act, Main},
};
use crate::{
    campaigns::{self, OPERATOR},
    failure::{Failure, Outcome},
};

const REASON: &str = "a soak";
/// The prize that is held for a while each day.
const PAUSED: &str = "coupon";

/// An operator of the campaigns of a store.
pub(super) struct Operator<'a> {
    pub(super) links: &'a Links,
    pub(super) main: &'a Main,
    /// The time between two plans.
    pub(super) day: Duration,
}

impl Operator<'_> {
    /// Does what is to be done until the campaign ends, and then nothing. What is refused is noted
    /// as a fault, but for what was sent before the end and came after it: a service may take long
    /// to start.
    pub(super) async fn work(&self) -> Infallible {
        let stage = &self.links.stage;
        let mut version = 1;
        for day in 0.. {
            for (part, act) in Act::OF_A_DAY {
                let after =
                    self.day * u32::try_from(day).unwrap_or(u32::MAX) + self.day * part / 96;
                let at = self.main.start + SignedDuration::try_from(after).unwrap_or_default();
                if at >= self.main.end {
                    return pending().await;
                }
                stage.clock.sleep_until(at).await;
                match self.act(day, act, &mut version).await {
                    Ok(()) => {}
                    Err(failure)
                        if is_after_the_end(&failure, stage.clock.now(), self.main.end) =>
                    {
                        return pending().await;
                    }
                    Err(failure) => stage.fault(format!("{act} of day {day}: {failure}")),
                }
            }
        }
        pending().await
    }

    async fn act(&self, day: usize, act: Act, version: &mut u32) -> Outcome {
        let (main, links) = (&self.main.id, self.links);
        let named = format!("{main}-{day}-{act}");
        let small = |day: usize| format!("{main}-small-{day}");
        if act == Act::Plan {
            let (id, now) = (small(day), links.stage.clock.now());
            apply(links, &story::small(&id, now, self.day), 0, &id).await?;
            links.stage.set_small(id);
            if day > 0 {
                *version = apply(links, &self.main.on(day), *version, &named).await?;
            }
            return Ok(());
        }
        if act == Act::Close && day == 0 {
            return Ok(());
        }
        let done = links.call(0, async |to| {
            let (campaign_id, request_id) = (main.clone(), named.clone());
            let (operator, reason) = (OPERATOR.to_owned(), REASON.to_owned());
            let prize_id = PAUSED.to_owned();
            let to = &mut to.operators;
            match act {
                Act::Plan => Ok(()),
                Act::Close => {
                    let request = CloseCampaignRequest {
                        campaign_id: small(day - 1),
                        request_id,
                        operator,
                        reason,
                    };
                    to.close_campaign(request).await.map(drop)
                }
                Act::PausePrize => {
                    let request = PausePrizeRequest {
                        campaign_id,
                        prize_id,
                        request_id,
                        operator,
                        reason,
                    };
                    to.pause_prize(request).await.map(drop)
                }
                Act::ResumePrize => {
                    let request = ResumePrizeRequest {
                        campaign_id,
                        prize_id,
                        request_id,
                        operator,
                        reason,
                    };
                    to.resume_prize(request).await.map(drop)
                }
                Act::Pause => {
                    let request = PauseCampaignRequest {
                        campaign_id,
                        request_id,
                        operator,
                        reason,
                    };
                    to.pause_campaign(request).await.map(drop)
                }
                Act::Resume => {
                    let request = ResumeCampaignRequest {
                        campaign_id,
                        request_id,
                        operator,
                        reason,
                    };
                    to.resume_campaign(request).await.map(drop)
                }
            }
        });
        done.await.map_err(Failure::answered)
    }
}

/// Applies a definition over a version; the version that it becomes.
pub(super) async fn apply(links: &Links, yaml: &str, base: u32, request_id: &str) -> Outcome<u32> {
    let request = ApplyCampaignRequest {
        base_version: base,
        request_id: request_id.into(),
        reason: REASON.into(),
        ..campaigns::request(yaml, false)?
    };
    let applied = links.call(0, async |to| {
        to.operators.apply_campaign(request.clone()).await
    });
    let status = applied
        .await
        .map_err(Failure::answered)?
        .into_inner()
        .status;
    Ok(status.map_or(0, |status| status.version))
}

/// Whether a call failed because the campaign had ended when the service looked at it.
fn is_after_the_end(failure: &Failure, now: Timestamp, end: Timestamp) -> bool {
    // A plan that comes too late is refused as a change that is not valid.
    let is_refused = matches!(&*failure.reason, "CAMPAIGN_ENDED" | "INVALID_REQUEST");
    is_refused && now >= end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_end_explains_is_no_fault() {
        let end = Timestamp::from_second(1_000).unwrap();
        let before = end - SignedDuration::from_secs(1);
        let failed = |reason| Failure::refused(reason, "");
        for reason in ["CAMPAIGN_ENDED", "INVALID_REQUEST"] {
            assert!(is_after_the_end(&failed(reason), end, end), "{reason}");
            assert!(!is_after_the_end(&failed(reason), before, end), "{reason}");
        }
        for reason in ["UNAVAILABLE", "OVERLOADED", "VERSION_STALE"] {
            assert!(!is_after_the_end(&failed(reason), end, end), "{reason}");
        }
    }
}
