//! The ledger keeps who did what: the identity, and on whose behalf it acted.

use tombola::proto::{
    GrantDrawsRequest, ListEnvelopesRequest, ListOperationsRequest, MarkDeliveredRequest,
    OperationKind, RecordedOperation,
};

use super::{ALL, Calls, Gate};
use crate::process::Start;

fn policy() -> String {
    format!(
        r#"
roles: {{everything: {ALL}}}
identities: [{{name: deploy-bot, tokens: [{{sha256: <bot>}}]}}]
bindings: [{{identity: deploy-bot, role: everything, campaigns: ["*"], senders: ["*"]}}]
"#
    )
}

async fn operations(calls: &Calls, kind: OperationKind, by: &str) -> Vec<RecordedOperation> {
    let request = ListOperationsRequest {
        kind: kind.into(),
        operator: by.into(),
        ..Default::default()
    };
    let page = calls.ledger().list_operations(request).await;
    page.unwrap().into_inner().operations
}

fn grant(operator: &str) -> GrantDrawsRequest {
    GrantDrawsRequest {
        campaign_id: "shop".into(),
        user_ids: vec!["ann".into()],
        draws: 1,
        operator: operator.into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_act_has_its_identity_and_on_whose_behalf_it_was() {
    let gate = Gate::new(&policy());
    let bot = gate.by("bot").await;
    bot.apply("shop").await.unwrap();
    for operator in ["", "olga", "deploy-bot"] {
        bot.campaigns().grant_draws(grant(operator)).await.unwrap();
    }
    let acts = operations(&bot, OperationKind::Grant, "").await;
    let said: Vec<_> = acts
        .iter()
        .map(|act| {
            (
                act.operator.as_str(),
                act.on_behalf_of.as_str(),
                act.authenticated,
            )
        })
        .collect();
    // Newest first.
    let alone = ("deploy-bot", "", true);
    assert_eq!(said, [alone, ("deploy-bot", "olga", true), alone]);
    assert_eq!(
        operations(&bot, OperationKind::Grant, "olga").await.len(),
        1
    );
    assert_eq!(
        operations(&bot, OperationKind::Grant, "deploy-bot")
            .await
            .len(),
        3
    );

    // Deliveries and envelopes have it too.
    let mut unit = String::new();
    while unit.is_empty() {
        bot.draw("shop", "ann").await.unwrap();
        let wins = bot
            .ledger()
            .list_wins(tombola::proto::ListWinsRequest::default())
            .await;
        let wins = wins.unwrap().into_inner().wins;
        unit = wins
            .first()
            .map(|win| win.unit_id.clone())
            .unwrap_or_default();
    }
    let delivered = MarkDeliveredRequest {
        campaign_id: "shop".into(),
        unit_id: unit,
        reference: "parcel".into(),
        ..Default::default()
    };
    bot.ledger().mark_delivered(delivered).await.unwrap();
    let acts = operations(&bot, OperationKind::Deliver, "").await;
    assert_eq!(
        (acts[0].operator.as_str(), acts[0].authenticated),
        ("deploy-bot", true)
    );
    bot.envelope("e1", "sender").await.unwrap();
    let events = bot
        .ledger()
        .list_envelopes(ListEnvelopesRequest::default())
        .await;
    let events = events.unwrap().into_inner().events;
    assert_eq!(events[0].operator, "deploy-bot");
}

#[tokio::test]
async fn a_retry_by_another_operator_is_the_same_act() {
    let gate = Gate::new(&policy());
    let bot = gate.by("bot").await;
    bot.apply("shop").await.unwrap();
    let request = |operator: &str| GrantDrawsRequest {
        request_id: "once".into(),
        ..grant(operator)
    };
    bot.campaigns().grant_draws(request("olga")).await.unwrap();
    let again = bot.campaigns().grant_draws(request("")).await.unwrap();
    assert!(again.into_inner().replayed);
    assert_eq!(operations(&bot, OperationKind::Grant, "").await.len(), 1);
}

#[tokio::test]
async fn without_an_access_file_the_operator_is_whom_the_request_names() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let warning = "everybody who reaches the server may do everything";
    assert!(server.log().contains(warning), "{}", server.log());
    let calls = Calls::new(&server, None).await;
    let refused = calls.apply("shop").await.unwrap_err();
    assert!(refused.message().contains("operator"), "{refused:?}");
    let sample = crate::process::project("deploy/campaigns/spring-wheel.yaml");
    let sample = sample.to_str().unwrap();
    server
        .run(&["apply", "-f", sample, "--operator", "olga"])
        .well();
    let acts = operations(&calls, OperationKind::Apply, "").await;
    let act = &acts[0];
    assert_eq!((act.operator.as_str(), act.authenticated), ("olga", false));
    // A token that nobody asks for changes nothing.
    let calls = Calls::new(&server, Some("anything")).await;
    calls.get("spring-wheel").await.unwrap();
}
