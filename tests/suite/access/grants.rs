//! Bonus draws that a caller grants: by permission, each request once, and as many as a day allows.

use std::time::Duration;

use tombola::proto::{ApplyCampaignRequest, GrantBonusRequest, GrantBonusResponse};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Calls, Gate, is_denied, reason};

const POLICY: &str = r#"
roles: {shop: [draw, check], inviter: [grant], planner: [plan]}
identities:
  - {name: shop, tokens: [{sha256: <shop>}]}
  - {name: inviter, tokens: [{sha256: <inviter>}]}
  - {name: planner, tokens: [{sha256: <planner>}]}
bindings:
  - {identity: shop, role: shop, campaigns: ["*"]}
  - {identity: inviter, role: inviter, campaigns: ["spring"]}
  - {identity: planner, role: planner, campaigns: ["*"]}
"#;

/// Everyone has one draw a day, and may be granted three.
const CAMPAIGN: &str = "
id: spring
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
limits: {drawsPerDay: 1, grantedPerDay: 3}
prizes: [{id: mug, stock: 1000}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}]
";

async fn grant(
    calls: &Calls,
    campaign: &str,
    request: &str,
    draws: u32,
) -> Result<GrantBonusResponse, Status> {
    let request = GrantBonusRequest {
        campaign_id: campaign.into(),
        user_id: "u".into(),
        request_id: request.into(),
        draws,
        expire_time: None,
    };
    let granted = calls.lottery().grant_bonus(request).await;
    granted.map(tonic::Response::into_inner)
}

/// The draws that were granted on the day, and those that may be.
fn granted_today(response: &GrantBonusResponse) -> (u64, Option<u64>) {
    let limits = response.limits.as_ref().unwrap();
    let quota = limits.granted_today.as_ref().unwrap();
    (quota.used, quota.remaining)
}

#[tokio::test]
async fn an_inviter_grants_what_a_day_allows_and_each_request_once() {
    let gate = Gate::new(POLICY);
    let apply = ApplyCampaignRequest {
        campaign: tombola::model::file::parse(CAMPAIGN).unwrap().pop(),
        ..ApplyCampaignRequest::default()
    };
    let planner = gate.by("planner").await;
    planner.campaigns().apply_campaign(apply).await.unwrap();
    let (shop, inviter) = (gate.by("shop").await, gate.by("inviter").await);
    let status = is_denied(grant(&shop, "spring", "friend-1", 2).await);
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.metadata["permission"], "grant");
    is_denied(grant(&inviter, "autumn", "friend-1", 2).await);

    let first = grant(&inviter, "spring", "friend-1", 2).await.unwrap();
    assert_eq!(
        (first.replayed, granted_today(&first)),
        (false, (2, Some(1)))
    );
    let again = grant(&inviter, "spring", "friend-1", 2).await.unwrap();
    let replayed = GrantBonusResponse {
        replayed: true,
        ..first
    };
    assert_eq!(again, replayed);
    let status = grant(&inviter, "spring", "friend-1", 1).await.unwrap_err();
    assert_eq!(reason(Code::InvalidArgument, &status), "REQUEST_ID_REUSED");

    for (draws, said) in [
        (2, "2 asked, 1 left: they come back with the new day"),
        (4, "4 asked, 1 left"),
    ] {
        let status = grant(&inviter, "spring", "friend-2", draws).await;
        let status = status.unwrap_err();
        assert_eq!(reason(Code::ResourceExhausted, &status), "GRANTED_PER_DAY");
        assert!(status.message().ends_with(said), "{status:?}");
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.metadata["request_id"], "friend-2");
        let retry = status.get_details_retry_info();
        let delay = retry.and_then(|retry| retry.retry_delay);
        // The server has begun at ten past noon. No day allows four.
        assert_eq!(delay.is_some(), draws == 2, "{delay:?}");
        let until_midnight = Duration::from_secs((11 * 60 + 50) * 60);
        assert!(delay.is_none_or(|delay| !delay.is_zero() && delay <= until_midnight));
    }
    // A refused request is not remembered.
    let rest = grant(&inviter, "spring", "friend-2", 1).await.unwrap();
    assert_eq!((rest.replayed, granted_today(&rest)), (false, (3, Some(0))));
    for _ in 0..4 {
        shop.draw("spring", "u").await.unwrap();
    }
    let status = shop.draw("spring", "u").await.unwrap_err();
    assert_eq!(reason(Code::ResourceExhausted, &status), "DRAWS_PER_DAY");
}
