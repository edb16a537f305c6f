//! Texts of codes are for callers with `codes.read`, and in no log.

use tombola::proto::{
    ApplyCampaignRequest, DrawRequest, DrawResponse, GetDrawRequest, ImportCodesRequest,
    ListCodesRequest, Outcome, RevokeWinRequest,
};

use super::{Gate, is_denied};

const POLICY: &str = r#"
roles:
  seller: [draw, check]
  shower: [draw, check, codes.read]
  planner: [plan]
  deliverer: [deliver, check]
identities:
  - {name: seller, tokens: [{sha256: <seller>}]}
  - {name: shower, tokens: [{sha256: <shower>}]}
  - {name: planner, tokens: [{sha256: <planner>}]}
bindings:
  - {identity: seller, role: seller, campaigns: ["*"]}
  - {identity: shower, role: shower, campaigns: ["coupons"]}
  - {identity: shower, role: seller, campaigns: ["*"]}
  - {identity: planner, role: planner, campaigns: ["*"]}
  - {identity: planner, role: deliverer, campaigns: ["*"]}
"#;

const CAMPAIGNS: &str = "
id: coupons
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{id: coupon, codes: true}]
pools: [{id: deck, deck: {size: 10, cards: {coupon: 10}, onExhausted: RESHUFFLE}}]
";

fn codes(response: &DrawResponse) -> Vec<&str> {
    let results = response.results.iter();
    results.map(|result| result.code.as_str()).collect()
}

#[tokio::test]
async fn texts_of_codes_are_for_those_who_may_read_them() {
    let gate = Gate::new(POLICY);
    let planner = gate.by("planner").await;
    for id in ["coupons", "others"] {
        let yaml = CAMPAIGNS.replace("id: coupons", &format!("id: {id}"));
        let apply = ApplyCampaignRequest {
            campaign: tombola::model::file::parse(&yaml).unwrap().pop(),
            ..ApplyCampaignRequest::default()
        };
        planner.campaigns().apply_campaign(apply).await.unwrap();
        let import = ImportCodesRequest {
            campaign_id: id.into(),
            prize_id: "coupon".into(),
            codes: (0..50).map(|index| format!("SECRET-{index}")).collect(),
            ..ImportCodesRequest::default()
        };
        let imported = planner.campaigns().import_codes(import).await.unwrap();
        assert_eq!(imported.into_inner().codes, 50);
    }
    let (seller, shower) = (gate.by("seller").await, gate.by("shower").await);
    let draw = |campaign: &str, request: &str| DrawRequest {
        campaign_id: campaign.into(),
        user_id: "u".into(),
        request_id: request.into(),
        count: 2,
        ..DrawRequest::default()
    };
    let hidden = seller.lottery().draw(draw("coupons", "r1")).await.unwrap();
    let hidden = hidden.into_inner();
    assert_eq!(codes(&hidden), ["", ""]);
    assert!(hidden.results.iter().all(|it| it.outcome() == Outcome::Won));
    let shown = shower.lottery().draw(draw("coupons", "r1")).await.unwrap();
    let shown = shown.into_inner();
    assert!(shown.replayed);
    assert_eq!(codes(&shown), ["SECRET-0", "SECRET-1"]);
    let own = shower.lottery().draw(draw("coupons", "r2")).await.unwrap();
    assert_eq!(codes(own.get_ref()), ["SECRET-2", "SECRET-3"]);
    let elsewhere = shower.lottery().draw(draw("others", "r3")).await.unwrap();
    assert_eq!(codes(elsewhere.get_ref()), ["", ""]);

    let find = GetDrawRequest {
        campaign_id: "coupons".into(),
        user_id: "u".into(),
        request_id: "r1".into(),
    };
    for (calls, expected) in [(&seller, ["", ""]), (&shower, ["SECRET-0", "SECRET-1"])] {
        let found = calls.lottery().get_draw(find.clone()).await.unwrap();
        assert_eq!(codes(found.get_ref().draw.as_ref().unwrap()), expected);
    }
    let revoke = RevokeWinRequest {
        campaign_id: "coupons".into(),
        unit_id: shown.results[0].unit_id.clone(),
        reason: "a test".into(),
        ..RevokeWinRequest::default()
    };
    planner.ledger().revoke_win(revoke).await.unwrap();
    let found = shower.lottery().get_draw(find).await.unwrap();
    let found = found.into_inner().draw.unwrap();
    assert_eq!(codes(&found), ["", "SECRET-1"]);

    let list = |campaign: &str| ListCodesRequest {
        campaign_id: campaign.into(),
        prize_id: "coupon".into(),
        ..ListCodesRequest::default()
    };
    let page = shower.campaigns().list_codes(list("coupons")).await;
    let page = page.unwrap().into_inner();
    assert_eq!((page.codes[0].index, page.codes.len()), (4, 46));
    is_denied(shower.campaigns().list_codes(list("others")).await);
    is_denied(planner.campaigns().list_codes(list("coupons")).await);
    is_denied(
        seller
            .campaigns()
            .import_codes(ImportCodesRequest::default())
            .await,
    );
    assert!(
        !gate.server.log().contains("SECRET"),
        "{}",
        gate.server.log()
    );
}
