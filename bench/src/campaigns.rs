//! The campaigns that are drawn from, made through the operators' service as any operator would,
//! and what became of their units.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tombola::{
    model::file,
    proto::{self, ApplyCampaignRequest, CloseCampaignRequest, GetStatsRequest, GetStatsResponse},
};
use tonic::Code;

use crate::{
    failure::{Failure, Outcome},
    scenario::Scenario,
    service::Campaigns,
};

/// How long the injection of the units to draw may take.
const INJECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// The most that is injected into one hour of one prize.
pub(crate) const UNITS_MAX: u64 = 10_000_000;
/// Draws of a user and day in the campaign whose limits are put to the test.
pub(crate) const QUOTA: u32 = 3;
/// What the ledger of a service names as their operator.
const OPERATOR: &str = "bench";

/// The hour from midnight on passes unfilled on the test clock, so that all its units are released
/// at once: the service that makes the campaign runs too early to inject any.
pub(crate) const BEFORE: &str = "2029-12-31T22:00:00Z";
/// Within the next hour.
pub(crate) const AFTER: &str = "2030-01-01T01:30:00Z";

/// The bench's campaigns of one service.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    run: String,
    /// All units of its schedule are released; without it, draws take from a deck.
    schedule: Option<String>,
    ids: Vec<String>,
}

/// Where the units of a campaign are at the end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sums {
    pub(crate) store: String,
    pub(crate) campaign: String,
    pub(crate) draws: u64,
    pub(crate) wins: u64,
    /// P2, and as many won units as draws that won.
    pub(crate) balanced: bool,
}

impl Made {
    /// With ids that no one else has.
    pub(crate) fn new() -> Self {
        Self {
            run: format!("bench-{:08x}", rand::random::<u32>()),
            schedule: None,
            ids: Vec::new(),
        }
    }

    /// Those that a scenario draws from.
    pub(crate) fn of(&self, scenario: Scenario) -> Vec<String> {
        let count = match scenario {
            Scenario::Empty => return vec![self.run.clone()],
            // What the ids of its envelopes begin with.
            Scenario::Grab | Scenario::GrabStorm | Scenario::SmallEnvelopes => {
                return vec![format!("{}-{}", self.run, scenario.name())];
            }
            Scenario::Check => return vec![format!("{}-limits", self.run)],
            Scenario::HotCampaign => 16,
            Scenario::ManyCampaigns => 64,
            _ => 1,
        };
        match &self.schedule {
            Some(id) if scenario.draws_from_the_schedule() => vec![id.clone()],
            _ => (0..count)
                .map(|n| format!("{}-deck-{n}", self.run))
                .collect(),
        }
    }

    /// Makes the campaign whose units all lie in one hour, before that hour on a test clock.
    pub(crate) async fn make_schedule(&mut self, server: &mut Campaigns, units: u64) -> Outcome {
        let id = format!("{}-hours", self.run);
        let stock = units * 3;
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '2030-01-01T00:00:00Z', endTime: '2030-01-03T00:00:00Z', \
             consolation: {{id: points}}, prizes: [{{id: coupon, stock: {stock}}}], pools: [{{id: hours, schedule: {{special: \
             [{{from: 2030-01-01T00:00, to: 2030-01-01T01:00, perHour: {{coupon: {units}}}}}], missed: RELEASE}}}}]}}"
        );
        self.ids.push(id.clone());
        self.schedule = Some(id);
        apply(server, &yaml).await
    }

    /// Makes the decks of the scenarios.
    pub(crate) async fn make_decks(
        &mut self,
        server: &mut Campaigns,
        scenarios: &[Scenario],
        now: Timestamp,
    ) -> Outcome {
        let (start, end) = (
            now - SignedDuration::from_hours(24),
            now + SignedDuration::from_hours(720),
        );
        let wanted: Vec<String> = scenarios
            .iter()
            .filter(|scenario| !scenario.grabs())
            .flat_map(|scenario| self.of(*scenario))
            .collect();
        for id in wanted {
            if self.ids.contains(&id) || id == self.run {
                continue;
            }
            let limits = if id.ends_with("-limits") {
                "limits: {drawsPerDay: 1000, paidDrawsPerDay: 1000, drawsPerUser: 100000, winsPerUser: 100000}, "
            } else {
                ""
            };
            let yaml = format!(
                "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', {limits}prizes: [{{id: card, stock: \
                 9000000000}}], pools: [{{id: cards, deck: {{size: 100000, cards: {{card: 60000}}, onExhausted: RESHUFFLE}}}}]}}"
            );
            self.ids.push(id);
            apply(server, &yaml).await?;
        }
        Ok(())
    }

    /// Makes the campaign whose limits and retries are put to the test: [`QUOTA`] draws a user and
    /// day.
    pub(crate) async fn make_tried(&mut self, server: &mut Campaigns, now: Timestamp) -> Outcome {
        let id = self.tried();
        let (start, end) = (
            now - SignedDuration::from_hours(24),
            now + SignedDuration::from_hours(720),
        );
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', limits: {{drawsPerDay: {QUOTA}}}, prizes: [{{id: \
             card, stock: 9000000}}], pools: [{{id: cards, deck: {{size: 1000, cards: {{card: 1000}}, onExhausted: RESHUFFLE}}}}]}}"
        );
        self.ids.push(id);
        apply(server, &yaml).await
    }

    /// Its id.
    pub(crate) fn tried(&self) -> String {
        format!("{}-tried", self.run)
    }

    /// Makes a campaign with `units` in the hour that runs, which are injected at once.
    pub(crate) async fn make_injected(
        &mut self,
        server: &mut Campaigns,
        units: u64,
        now: Timestamp,
    ) -> Outcome {
        let id = format!("{}-injected-{}", self.run, self.ids.len());
        let end = now + SignedDuration::from_hours(2);
        // Only what is under way is injected while this runs; the next hour's units would come five
        // minutes before it.
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '{now}', endTime: '{end}', prizes: [{{id: coupon, stock: {}}}], pools: \
             [{{id: hours, schedule: {{perHour: {{coupon: {units}}}}}}}]}}",
            units * 4
        );
        self.ids.push(id);
        apply(server, &yaml).await
    }

    /// Waits until all units of the schedule wait to be drawn.
    pub(crate) async fn wait_until_injected(&self, server: &mut Campaigns, units: u64) -> Outcome {
        let Some(id) = &self.schedule else {
            return Ok(());
        };
        let wait = async {
            loop {
                let stats = stats(server, id).await?;
                // Units count as waiting from the moment at which they are taken off stock: the
                // hour's state tells when all can be drawn.
                let mut windows = stats.windows.iter().map(proto::Window::state);
                if windows.any(|state| state == proto::WindowState::Injected) {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(INJECTION_TIME_MAX, wait).await;
        waited.unwrap_or_else(|_| {
            let message =
                format!("{units} units were not injected in time: take fewer with --units");
            Err(Failure::refused("NOT_INJECTED", message))
        })
    }

    /// P2 of every campaign.
    pub(crate) async fn sums(&self, server: &mut Campaigns, store: &str) -> Outcome<Vec<Sums>> {
        let mut all = Vec::new();
        for id in &self.ids {
            let stats = stats(server, id).await?;
            let won: u64 = stats.prizes.iter().map(|prize| prize.won).sum();
            all.push(Sums {
                store: store.into(),
                campaign: id.clone(),
                draws: stats.draws,
                wins: stats.wins,
                balanced: stats.balanced && won == stats.wins,
            });
        }
        let envelopes = stats(server, "").await?;
        for sums in &envelopes.envelopes {
            all.push(Sums {
                store: store.into(),
                campaign: format!("envelopes in {}", sums.currency),
                // What grabs gave is money, not units.
                draws: 0,
                wins: 0,
                balanced: sums.balanced,
            });
        }
        Ok(all)
    }

    /// Closes them, so that a service that goes on does nothing for them any more.
    pub(crate) async fn close(&mut self, server: &mut Campaigns) -> Outcome {
        for id in std::mem::take(&mut self.ids) {
            let request = CloseCampaignRequest {
                campaign_id: id,
                operator: OPERATOR.into(),
                reason: "the end of a bench".into(),
                ..CloseCampaignRequest::default()
            };
            match server.close_campaign(request).await {
                // The bench was stopped before it was made.
                Err(status) if status.code() == Code::NotFound => {}
                closed => drop(closed.map_err(Failure::answered)?),
            }
        }
        Ok(())
    }
}

async fn apply(server: &mut Campaigns, yaml: &str) -> Outcome {
    server
        .apply_campaign(request(yaml, false)?)
        .await
        .map(drop)
        .map_err(Failure::answered)
}

/// What time it is for a service.
pub(crate) async fn now(server: &mut Campaigns) -> Outcome<Timestamp> {
    // Nothing is made of it: the answer tells the time. It ends late enough for most test clocks.
    let start = whole_second(Timestamp::now());
    let end = start + SignedDuration::from_hours(4 * 365 * 24);
    let yaml = format!(
        "{{id: bench-clock, timeZone: UTC, startTime: '{start}', endTime: '{end}', prizes: [{{id: card, stock: 100}}], pools: \
         [{{id: cards, deck: {{size: 10, cards: {{card: 1}}}}}}]}}"
    );
    let answer = server.apply_campaign(request(&yaml, true)?).await;
    let status = answer.map_err(Failure::answered)?.into_inner().status;
    let time = status.and_then(|status| status.read_time);
    let now = time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    Ok(whole_second(now.unwrap_or_else(Timestamp::now)))
}

/// The second that a moment is in: campaigns begin and end with whole ones.
fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

fn request(yaml: &str, dry_run: bool) -> Outcome<ApplyCampaignRequest> {
    let campaign: Option<proto::Campaign> = file::parse(yaml)
        .ok()
        .and_then(|mut campaigns| campaigns.pop());
    let bad = || {
        Failure::refused(
            "BUG",
            format!("the bench wrote a campaign that is none: {yaml}"),
        )
    };
    Ok(ApplyCampaignRequest {
        campaign: Some(campaign.ok_or_else(bad)?),
        operator: OPERATOR.into(),
        reason: "a bench".into(),
        dry_run,
        ..ApplyCampaignRequest::default()
    })
}

async fn stats(server: &mut Campaigns, id: &str) -> Outcome<GetStatsResponse> {
    let request = GetStatsRequest {
        campaign_id: id.into(),
    };
    let answer = server.get_stats(request).await;
    Ok(answer.map_err(Failure::answered)?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_without_a_schedule_draw_from_decks() {
        let mut made = Made::new();
        assert!(made.of(Scenario::Draw)[0].ends_with("-deck-0"));
        made.schedule = Some("hours".into());
        assert_eq!(made.of(Scenario::Draw), ["hours"]);
        assert_eq!(made.of(Scenario::ManyCampaigns).len(), 64);
        assert!(made.of(Scenario::Deck)[0].ends_with("-deck-0"));
    }
}
