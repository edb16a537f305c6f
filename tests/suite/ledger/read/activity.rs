//! What is summed and found across campaigns: draws by hour, and wins by unit.

use tombola::proto::{ErrorReason, GetActivityRequest, GetActivityResponse, ListWinsRequest};
use tonic::Code;

use super::rig::{Lists, Rig, all_wins, assert_refused, lists, units};
use crate::faults::redis::House;

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;

fn between(campaign: &str, (start_s, end_s): (i64, i64)) -> GetActivityRequest {
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    GetActivityRequest {
        campaign_id: campaign.into(),
        start_time: at(start_s),
        end_time: at(end_s),
    }
}

/// What is settled, once all of it is.
async fn activity(lists: &mut Lists, request: &GetActivityRequest) -> GetActivityResponse {
    loop {
        let answer = lists.get_activity(request.clone()).await.unwrap();
        let answer = answer.into_inner();
        if answer.complete_until.is_none() {
            return answer;
        }
    }
}

async fn draws_are_summed_by_hour_and_units_found(rig: Rig) {
    let mut lists = rig.lists().await;
    let mut won = Vec::new();
    let mut draws = 0;
    let mut now_s = 0;
    for round in 0..30 {
        for campaign in ["spring", "summer"] {
            let drawn = rig.draw(campaign, &format!("user-{round}"), 3).await;
            won.push((campaign, units(&drawn)));
            draws += 3;
            now_s = drawn.draw_time.unwrap().seconds;
        }
    }
    let mut sums = (0, 0, 0);
    for campaign in ["spring", "summer"] {
        let hours = activity(
            &mut lists,
            &between(campaign, (now_s - DAY_S, now_s + DAY_S)),
        )
        .await
        .hours;
        // An hour may end between two draws.
        assert!((1..=2).contains(&hours.len()), "{hours:?}");
        for hour in &hours {
            assert_eq!(hour.start_time.unwrap().seconds % HOUR_S, 0, "{hour:?}");
            sums.0 += hour.draws;
            sums.1 += hour.wins;
            sums.2 += hour.consolations;
        }
    }
    let wins: usize = won.iter().map(|(_, units)| units.len()).sum();
    assert!(wins > 0);
    assert_eq!(sums, (draws, wins as u64, draws - wins as u64));
    let before = between("spring", (now_s - 10 * DAY_S, now_s - DAY_S));
    assert_eq!(activity(&mut lists, &before).await.hours, []);

    for (campaign, unit) in won.iter().flat_map(|(campaign, units)| {
        let units = units.iter().take(1);
        units.map(move |unit| (*campaign, unit))
    }) {
        let everywhere = ListWinsRequest {
            unit_id: unit.clone(),
            ..ListWinsRequest::default()
        };
        let found = all_wins(&mut lists, &everywhere).await;
        assert!(found.iter().all(|win| win.unit_id == *unit), "{found:?}");
        assert!(found.iter().any(|win| win.campaign_id == campaign));
        let here = ListWinsRequest {
            campaign_id: campaign.into(),
            ..everywhere
        };
        assert_eq!(all_wins(&mut lists, &here).await.len(), 1, "{unit}");
    }
    let none = ListWinsRequest {
        unit_id: "none".into(),
        ..ListWinsRequest::default()
    };
    assert_eq!(all_wins(&mut lists, &none).await, []);

    for (request, says) in [
        (between("spring", (now_s, now_s)), "end_time"),
        (between("spring", (now_s - 101 * DAY_S, now_s)), "100 days"),
        (GetActivityRequest::default(), "campaign_id"),
    ] {
        let answer = lists.get_activity(request).await;
        let reason = ErrorReason::InvalidRequest;
        let message = assert_refused(answer, Code::InvalidArgument, reason);
        assert!(message.contains(says), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_are_summed_by_hour_and_units_found_on_an_embedded_store() {
    draws_are_summed_by_hour_and_units_found(Rig::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn draws_are_summed_by_hour_and_units_found_on_redis() {
    draws_are_summed_by_hour_and_units_found(Rig::redis().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_settled_ledger_sums_say_what_to_do() {
    let house = House::new();
    let server = house.start().serve();
    let mut lists = lists(&server).await;
    let answer = lists.get_activity(between("spring", (0, DAY_S))).await;
    let reason = ErrorReason::LedgerNotSettled;
    let message = assert_refused(answer, Code::FailedPrecondition, reason);
    assert!(message.contains("--postgres-url"), "{message}");
}
