//! What lists answer when they cannot be read as a whole, and to hostile clients.

use tombola::proto::{
    ErrorReason, ListDrawsRequest, ListEnvelopesRequest, ListOperationsRequest, ListWinsRequest,
    MarkDeliveredRequest,
};
use tonic::Code;

use super::rig::{Rig, all_wins, assert_refused, lists, units};
use crate::{faults::redis::House, support::postgres::Postgres};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_ledger_is_settled_nowhere_says_what_to_do() {
    let house = House::new();
    let server = house.start().serve();
    let answer = lists(&server)
        .await
        .list_wins(ListWinsRequest::default())
        .await;
    let reason = ErrorReason::LedgerNotSettled;
    let message = assert_refused(answer, Code::FailedPrecondition, reason);
    assert!(message.contains("--postgres-url"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_unavailable_until_it_is_back() {
    let mut postgres = Postgres::start();
    let url = postgres.database("ledger").await;
    let parsed = tombola::ledger::PostgresUrl::parse(&url).unwrap();
    tombola::ledger::PostgresSink::migrate(&parsed)
        .await
        .unwrap();
    let data = tempfile::tempdir().unwrap();
    let start = crate::process::Start::on(data.path()).with(&format!("--postgres-url {url}"));
    let server = start.serve();
    server.says("settling the ledger");
    let mut lists = lists(&server).await;
    let request = ListDrawsRequest::default();
    lists.list_draws(request.clone()).await.unwrap();
    postgres.stop();
    let answer = lists.list_draws(request.clone()).await;
    let message = assert_refused(answer, Code::Unavailable, ErrorReason::LedgerUnavailable);
    assert!(!message.contains("127.0.0.1"), "{message}");
    postgres.restart();
    lists.list_draws(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_says_how_far_it_goes_while_settling_is_behind() {
    let rig = Rig::postgres().await;
    let mut lists = rig.lists().await;
    let before = rig.draw("spring", "anna", 20).await;
    let request = ListWinsRequest {
        page_size: 3,
        ..ListWinsRequest::default()
    };
    let whole = all_wins(&mut lists, &request).await;
    assert_eq!(whole.len(), units(&before).len());
    // The settler waits for this lock.
    let database = rig.database.as_ref().unwrap();
    let holder = database.server.connect(&database.name).await;
    let lock = "BEGIN; SELECT * FROM tombola.cursors FOR UPDATE";
    holder.batch_execute(lock).await.unwrap();
    let during = rig.draw("spring", "anna", 20).await;
    let page = lists.list_wins(request.clone()).await.unwrap().into_inner();
    let until = page.complete_until.unwrap();
    let time = |time: prost_types::Timestamp| (time.seconds, time.nanos);
    assert!(time(until) >= time(before.draw_time.unwrap()));
    assert!(time(until) <= time(during.draw_time.unwrap()));
    assert_eq!(page.wins, whole[..3]);
    let next = ListWinsRequest {
        page_token: page.next_page_token,
        ..request.clone()
    };
    let page = lists.list_wins(next).await.unwrap().into_inner();
    assert_eq!(
        page.complete_until,
        Some(until),
        "the second page says the same"
    );
    for line in ["wins", "user history anna"] {
        let words: Vec<&str> = line.split(' ').chain(["--json"]).collect();
        let said = rig.server.run(&words).well();
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(said["completeUntil"].is_string(), "{line}: {said:#}");
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    let whole = all_wins(&mut lists, &request).await;
    assert_eq!(whole.len(), units(&before).len() + units(&during).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_that_there_is_no_win_while_settling_is_behind() {
    let rig = Rig::postgres().await;
    let mut lists = rig.lists().await;
    let before = rig.draw("spring", "anna", 20).await;
    let whole = all_wins(&mut lists, &ListWinsRequest::default()).await;
    assert_eq!(whole.len(), units(&before).len());
    // The settler waits for this lock.
    let database = rig.database.as_ref().unwrap();
    let holder = database.server.connect(&database.name).await;
    let lock = "BEGIN; SELECT * FROM tombola.cursors FOR UPDATE";
    holder.batch_execute(lock).await.unwrap();
    let during = rig.draw("spring", "anna", 20).await;
    let request = MarkDeliveredRequest {
        campaign_id: "spring".into(),
        unit_id: units(&during).remove(0),
        reference: "parcel-1".into(),
        operator: "post".into(),
        ..MarkDeliveredRequest::default()
    };
    let answer = lists.mark_delivered(request.clone()).await;
    let message = assert_refused(answer, Code::Unavailable, ErrorReason::LedgerUnavailable);
    assert!(message.contains("behind"), "{message}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    while let Err(status) = lists.mark_delivered(request.clone()).await {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_are_refused_with_every_problem() {
    let rig = Rig::embedded().await;
    let mut lists = rig.lists().await;
    rig.draw("spring", "anna", 20).await;
    let request = ListWinsRequest {
        page_size: 2,
        ..ListWinsRequest::default()
    };
    let page = lists.list_wins(request.clone()).await.unwrap().into_inner();
    let token = page.next_page_token;
    assert!(!token.is_empty());
    let invalid =
        |answer| assert_refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    for text in [
        "x",
        "00",
        "packet-1",
        &token[1..],
        &token.replace('0', "1"),
        &"a".repeat(9_000),
    ] {
        let bad = ListWinsRequest {
            page_token: text.into(),
            ..request.clone()
        };
        let message = invalid(lists.list_wins(bad).await);
        assert!(message.contains("not a token"), "{message}");
    }
    let other_filters = ListWinsRequest {
        user_id: "anna".into(),
        page_token: token.clone(),
        ..request.clone()
    };
    let message = invalid(lists.list_wins(other_filters).await);
    assert!(message.contains("other filters"), "{message}");
    let other_list = ListDrawsRequest {
        page_token: token.clone(),
        ..ListDrawsRequest::default()
    };
    let answer = lists.list_draws(other_list).await;
    let message = assert_refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    assert!(message.contains("another list"), "{message}");
    let other_store = Rig::embedded().await;
    let foreign = ListWinsRequest {
        page_token: token,
        ..request
    };
    invalid(other_store.lists().await.list_wins(foreign).await);
    for (bad, word) in [
        (
            ListWinsRequest {
                page_size: 1_001,
                ..Default::default()
            },
            "at most 1000",
        ),
        (
            ListWinsRequest {
                page_size: u32::MAX,
                ..Default::default()
            },
            "at most 1000",
        ),
        (
            ListWinsRequest {
                campaign_id: "a b".into(),
                ..Default::default()
            },
            "campaign_id",
        ),
        (
            ListWinsRequest {
                user_id: "a\nb".into(),
                ..Default::default()
            },
            "user_id",
        ),
        (
            ListWinsRequest {
                prize_id: "coin".into(),
                ..Default::default()
            },
            "name the campaign",
        ),
        (
            ListWinsRequest {
                start_time: Some(prost_types::Timestamp {
                    seconds: 9,
                    nanos: 0,
                }),
                end_time: Some(prost_types::Timestamp {
                    seconds: 9,
                    nanos: 0,
                }),
                ..Default::default()
            },
            "not after start_time",
        ),
        (
            ListWinsRequest {
                end_time: Some(prost_types::Timestamp {
                    seconds: -1,
                    nanos: 0,
                }),
                ..Default::default()
            },
            "is not a time",
        ),
    ] {
        let message = invalid(lists.list_wins(bad).await);
        assert!(message.contains(word), "{message}");
    }
    let bad = ListEnvelopesRequest {
        kind: 99,
        ..ListEnvelopesRequest::default()
    };
    let answer = lists.list_envelopes(bad).await;
    assert_refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
    let bad = ListOperationsRequest {
        operator: "\0".into(),
        ..ListOperationsRequest::default()
    };
    let answer = lists.list_operations(bad).await;
    assert_refused(answer, Code::InvalidArgument, ErrorReason::InvalidRequest);
}
