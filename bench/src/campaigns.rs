//! The campaigns that the bench draws from, and the sums of their units. They are created through
//! `CampaignService`, as an operator would create them.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tokio::time::sleep;
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

/// How long the injection of all units may take.
const INJECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// How long the ledger of a round may take until it is settled.
const SETTLING_TIME_MAX: Duration = Duration::from_secs(600);
/// How often it is asked for.
const SETTLING_PAUSE: Duration = Duration::from_millis(20);
/// The largest number of units of one prize in an hour.
pub(crate) const UNITS_MAX: u64 = 10_000_000;
/// Draws per user and day in the campaign that tests limits.
pub(crate) const QUOTA: u32 = 3;
/// The mark in ids of campaigns that are created for an injection.
const INJECTED: &str = "-injected-";
/// The operator that the ledger names.
pub(crate) const OPERATOR: &str = "bench";

/// On the test clock, the hour that starts at midnight passes unfilled, so that all its units are
/// released at once: the service that creates the campaign runs too early to inject any.
pub(crate) const BEFORE: &str = "2029-12-31T22:00:00Z";
/// A moment within the next hour.
pub(crate) const AFTER: &str = "2030-01-01T01:30:00Z";

/// The campaigns that the bench created on one service.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    run: String,
    /// If set, draws take from the schedule, whose units are all released; otherwise from a deck.
    schedule: Option<String>,
    ids: Vec<String>,
}

/// The sums of a campaign's units at the end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sums {
    pub(crate) store: String,
    pub(crate) campaign: String,
    pub(crate) draws: u64,
    pub(crate) wins: u64,
    /// Whether P2 holds, and whether as many units are won as draws have won.
    pub(crate) balanced: bool,
}

impl Sums {
    /// Those of a campaign.
    pub(crate) fn of(store: &str, campaign: &str, stats: &GetStatsResponse) -> Self {
        let won: u64 = stats.prizes.iter().map(|prize| prize.won).sum();
        Self {
            store: store.into(),
            campaign: campaign.into(),
            draws: stats.draws,
            wins: stats.wins,
            balanced: stats.balanced && won == stats.wins,
        }
    }

    /// Those of all envelopes, by currency.
    pub(crate) fn of_envelopes(store: &str, stats: &GetStatsResponse) -> Vec<Self> {
        let sums = stats.envelopes.iter().map(|sums| Self {
            store: store.into(),
            campaign: format!("envelopes in {}", sums.currency),
            // Grabs give money, not units.
            draws: 0,
            wins: 0,
            balanced: sums.balanced,
        });
        sums.collect()
    }
}

impl Made {
    /// Chooses ids that nobody else has.
    pub(crate) fn new() -> Self {
        Self {
            run: format!("bench-{:08x}", rand::random::<u32>()),
            schedule: None,
            ids: Vec::new(),
        }
    }

    /// The campaigns that a scenario draws from.
    pub(crate) fn of(&self, scenario: Scenario) -> Vec<String> {
        let count = match scenario {
            Scenario::Empty => return vec![self.run.clone()],
            // The prefix of its envelope ids.
            Scenario::Grab | Scenario::GrabStorm | Scenario::SmallEnvelopes => {
                return vec![format!("{}-{}", self.run, scenario.name())];
            }
            Scenario::Check => return vec![format!("{}-limits", self.run)],
            Scenario::Capped => return vec![format!("{}-capped", self.run)],
            Scenario::Personal | Scenario::PersonalAgain => {
                return vec![format!("{}-personal", self.run)];
            }
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

    /// Creates the campaign whose units all lie in one hour; the test clock is before that hour.
    pub(crate) async fn make_schedule(&mut self, server: &mut Campaigns, units: u64) -> Outcome {
        let id = format!("{}-hours", self.run);
        let stock = units * 3;
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '2030-01-01T00:00:00Z', endTime: \
             '2030-01-03T00:00:00Z', consolation: {{id: points}}, prizes: [{{id: coupon, stock: \
             {stock}}}], pools: [{{id: hours, schedule: {{special: [{{from: 2030-01-01T00:00, to: \
             2030-01-01T01:00, perHour: {{coupon: {units}}}}}], missed: RELEASE}}}}]}}"
        );
        self.ids.push(id.clone());
        self.schedule = Some(id);
        apply(server, &yaml).await
    }

    /// Creates the decks of the scenarios.
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
                "limits: {drawsPerDay: 1000, paidDrawsPerDay: 1000, drawsPerUser: 100000, \
                 winsPerUser: 100000}, "
            } else {
                ""
            };
            let prize = match () {
                () if id.ends_with("-personal") => "unlimited: true",
                () if id.ends_with("-capped") => {
                    "stock: 9000000000, perUser: {perDay: 100000, total: 1000000}"
                }
                () => "stock: 9000000000",
            };
            let pool = if id.ends_with("-personal") {
                "personal: {odds: {card: 60%}, guarantees: [{id: card, prizes: [card], within: 5}]}"
            } else {
                "deck: {size: 100000, cards: {card: 60000}, onExhausted: RESHUFFLE}"
            };
            let yaml = format!(
                "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', \
                 {limits}prizes: [{{id: card, {prize}}}], pools: [{{id: cards, {pool}}}]}}"
            );
            self.ids.push(id);
            apply(server, &yaml).await?;
        }
        Ok(())
    }

    /// Creates the campaign that tests limits and retries: [`QUOTA`] draws per user and day.
    pub(crate) async fn make_tried(&mut self, server: &mut Campaigns, now: Timestamp) -> Outcome {
        let id = self.tried();
        let (start, end) = (
            now - SignedDuration::from_hours(24),
            now + SignedDuration::from_hours(720),
        );
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '{start}', endTime: '{end}', limits: \
             {{drawsPerDay: {QUOTA}}}, prizes: [{{id: card, stock: 9000000}}], pools: [{{id: \
             cards, deck: {{size: 1000, cards: {{card: 1000}}, onExhausted: RESHUFFLE}}}}]}}"
        );
        self.ids.push(id);
        apply(server, &yaml).await
    }

    /// The id of the campaign that tests limits and retries.
    pub(crate) fn tried(&self) -> String {
        format!("{}-tried", self.run)
    }

    /// Creates a campaign with `units` in the current hour, which are injected at once.
    pub(crate) async fn make_injected(
        &mut self,
        server: &mut Campaigns,
        units: u64,
        now: Timestamp,
    ) -> Outcome {
        let id = format!("{}{INJECTED}{}", self.run, self.ids.len());
        let end = now + SignedDuration::from_hours(2);
        // Only the current hour is injected during the measurement; the next hour's units come five
        // minutes before it begins.
        let yaml = format!(
            "{{id: {id}, timeZone: UTC, startTime: '{now}', endTime: '{end}', prizes: [{{id: \
             coupon, stock: {}}}], pools: [{{id: hours, schedule: {{perHour: {{coupon: \
             {units}}}}}}}]}}",
            units * 4
        );
        self.ids.push(id);
        apply(server, &yaml).await
    }

    /// Waits until all units of the schedule can be drawn.
    pub(crate) async fn wait_until_injected(&self, server: &mut Campaigns, units: u64) -> Outcome {
        let Some(id) = &self.schedule else {
            return Ok(());
        };
        let wait = async {
            loop {
                let stats = stats(server, id).await?;
                // Units count as waiting once they are taken off stock. The state of the hour says
                // when all of them can be drawn.
                let mut windows = stats.windows.iter().map(proto::Window::state);
                if windows.any(|state| state == proto::WindowState::Injected) {
                    return Ok(());
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(INJECTION_TIME_MAX, wait).await;
        waited.unwrap_or_else(|_| {
            let message =
                format!("{units} units were not injected in time: take fewer with --units");
            Err(Failure::refused("NOT_INJECTED", message))
        })
    }

    /// Whether draws have taken all units of the schedule.
    pub(crate) async fn is_used_up(&self, server: &mut Campaigns) -> Outcome<bool> {
        let Some(id) = &self.schedule else {
            return Ok(false);
        };
        let stats = stats(server, id).await?;
        Ok(stats.prizes.iter().all(|prize| prize.waiting == 0))
    }

    /// Checks P2 for every campaign.
    pub(crate) async fn sums(&self, server: &mut Campaigns, store: &str) -> Outcome<Vec<Sums>> {
        let mut all = Vec::new();
        for id in &self.ids {
            let stats = match stats(server, id).await {
                // An injection ends with the round, maybe before its campaign is created.
                Err(failure) if failure.reason == "CAMPAIGN_NOT_FOUND" && is_injected(id) => {
                    continue;
                }
                stats => stats?,
            };
            all.push(Sums::of(store, id, &stats));
        }
        let envelopes = stats(server, "").await?;
        all.extend(Sums::of_envelopes(store, &envelopes));
        Ok(all)
    }

    /// Closes the campaigns, so that the service does no more work for them. One that cannot be
    /// closed does not keep the others open.
    pub(crate) async fn close(&mut self, server: &mut Campaigns) -> Outcome {
        let mut all = Ok(());
        for id in std::mem::take(&mut self.ids) {
            let request = CloseCampaignRequest {
                campaign_id: id,
                operator: OPERATOR.into(),
                reason: "the end of a bench".into(),
                ..CloseCampaignRequest::default()
            };
            match server.close_campaign(request).await {
                // The bench was stopped before it created the campaign.
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => all = Err(Failure::answered(status)),
                Ok(_) => {}
            }
        }
        all
    }
}

fn is_injected(id: &str) -> bool {
    id.contains(INJECTED)
}

async fn apply(server: &mut Campaigns, yaml: &str) -> Outcome {
    server
        .apply_campaign(request(yaml, false)?)
        .await
        .map(drop)
        .map_err(Failure::answered)
}

/// The service's current time.
pub(crate) async fn now(server: &mut Campaigns) -> Outcome<Timestamp> {
    // A dry run creates nothing, but its response has the time. The end lies late enough for most
    // test clocks.
    let start = whole_second(Timestamp::now());
    let end = start + SignedDuration::from_hours(4 * 365 * 24);
    let yaml = format!(
        "{{id: bench-clock, timeZone: UTC, startTime: '{start}', endTime: '{end}', prizes: [{{id: \
         card, stock: 100}}], pools: [{{id: cards, deck: {{size: 10, cards: {{card: 1}}}}}}]}}"
    );
    let answer = server.apply_campaign(request(&yaml, true)?).await;
    let status = answer.map_err(Failure::answered)?.into_inner().status;
    let time = status.and_then(|status| status.read_time);
    let now = time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    Ok(whole_second(now.unwrap_or_else(Timestamp::now)))
}

/// Rounds down to a whole second, as campaigns begin and end on whole seconds.
pub(crate) fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// The request that applies a new campaign.
pub(crate) fn request(yaml: &str, dry_run: bool) -> Outcome<ApplyCampaignRequest> {
    let campaign: Option<proto::Campaign> = file::parse(yaml)
        .ok()
        .and_then(|mut campaigns| campaigns.pop());
    let bad = || {
        Failure::refused(
            "BUG",
            format!("the bench wrote an invalid campaign: {yaml}"),
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

/// Waits until no entry of any campaign waits to be settled.
pub(crate) async fn wait_until_settled(server: &mut Campaigns) -> Outcome {
    let deadline = Instant::now() + SETTLING_TIME_MAX;
    loop {
        let ledger = stats(server, "").await?.ledger.unwrap_or_default();
        if ledger.settled && ledger.unsettled_entries == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            let message = format!("{} entries are not settled", ledger.unsettled_entries);
            return Err(Failure::refused("NOT_SETTLED", message));
        }
        sleep(SETTLING_PAUSE).await;
    }
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
