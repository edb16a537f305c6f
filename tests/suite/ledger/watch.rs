//! Deliveries and streams of a real server.

use tombola::proto::{
    DeliveryState, DrawRequest, ListOperationsRequest, MarkDeliveredRequest, OperationKind,
    RevokeWinRequest, WatchEntriesRequest, WatchEntriesResponse, Win,
    ledger_service_client::LedgerServiceClient,
};
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use crate::process::{Server, Start};

pub const YAML: &str = "
id: shop
name: Shop
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, name: Mug, stock: 500}, {id: pin, name: Pin, stock: 500}]
pools: [{id: deck, deck: {cards: {mug: 250, pin: 250}}}]
";

pub type Ledger = LedgerServiceClient<Channel>;

pub async fn shop(data: &std::path::Path) -> (Server, Ledger) {
    let server = Start::on(data).at("2026-12-02T00:00:00+08:00".into());
    let server = server.serve();
    let file = data.join("shop.yaml");
    std::fs::write(&file, YAML).unwrap();
    server.run(&["apply", "-f", file.to_str().unwrap()]).well();
    let ledger = LedgerServiceClient::new(server.connect().await);
    (server, ledger)
}

/// The units that a user wins with one draw.
pub async fn draw(server: &Server, request: &str, count: u32) -> Vec<String> {
    let request = DrawRequest {
        campaign_id: "shop".into(),
        user_id: "ann".into(),
        request_id: request.into(),
        count,
        ..DrawRequest::default()
    };
    let mut lottery = server.lottery().await;
    let drawn = lottery.draw(request).await.unwrap().into_inner();
    drawn
        .results
        .into_iter()
        .map(|result| result.unit_id)
        .collect()
}

pub fn delivered(unit: &str, reference: &str, request: &str) -> MarkDeliveredRequest {
    MarkDeliveredRequest {
        campaign_id: "shop".into(),
        unit_id: unit.into(),
        reference: reference.into(),
        request_id: request.into(),
        operator: "post".into(),
    }
}

pub fn revoked(unit: &str) -> RevokeWinRequest {
    RevokeWinRequest {
        campaign_id: "shop".into(),
        unit_id: unit.into(),
        reason: "returned".into(),
        operator: "ops".into(),
        ..RevokeWinRequest::default()
    }
}

/// The state of a win and its reference.
fn state(win: Option<Win>) -> (DeliveryState, String) {
    let delivery = win.unwrap().delivery.unwrap();
    (delivery.state(), delivery.reference)
}

pub fn is_refused(refused: &Status, code: Code, reason: &str) {
    let details = refused.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!((refused.code(), info.reason.as_str()), (code, reason));
    assert_eq!(info.metadata["executed"], "no");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_win_is_delivered_and_revoked_by_its_unit() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut ledger) = shop(data.path()).await;
    let units = draw(&server, "r1", 2).await;
    let marked = ledger.mark_delivered(delivered(&units[0], "parcel-1", "m1"));
    let marked = marked.await.unwrap().into_inner().win;
    assert_eq!(state(marked), (DeliveryState::Delivered, "parcel-1".into()));
    for request in ["m1", "m2"] {
        let again = ledger.mark_delivered(delivered(&units[0], "parcel-1", request));
        let again = again.await.unwrap().into_inner().win;
        assert_eq!(state(again), (DeliveryState::Delivered, "parcel-1".into()));
    }
    let other = ledger.mark_delivered(delivered(&units[0], "parcel-2", ""));
    let other = other.await.unwrap_err();
    is_refused(&other, Code::FailedPrecondition, "WIN_DELIVERED");
    assert!(other.message().contains("parcel-1"), "{other:?}");
    let reused = ledger.mark_delivered(delivered(&units[1], "parcel-1", "m1"));
    is_refused(
        &reused.await.unwrap_err(),
        Code::InvalidArgument,
        "REQUEST_ID_REUSED",
    );
    let revoked_win = ledger.revoke_win(revoked(&units[0])).await.unwrap();
    let revoked_win = revoked_win.into_inner().win;
    assert_eq!(
        state(revoked_win),
        (DeliveryState::Revoked, "parcel-1".into())
    );
    let late = ledger.mark_delivered(delivered(&units[0], "parcel-1", ""));
    is_refused(
        &late.await.unwrap_err(),
        Code::FailedPrecondition,
        "WIN_REVOKED",
    );
    let none = loop {
        let none = ledger.revoke_win(revoked("deck:1:4999")).await.unwrap_err();
        // On a busy machine settling may be behind.
        if none.code() != Code::Unavailable {
            break none;
        }
    };
    is_refused(&none, Code::NotFound, "WIN_NOT_FOUND");
    let empty = ledger
        .mark_delivered(delivered("", "", ""))
        .await
        .unwrap_err();
    is_refused(&empty, Code::InvalidArgument, "INVALID_REQUEST");
    server
        .run(&[
            "win",
            "deliver",
            "shop",
            &units[1],
            "--reference",
            "parcel-3",
        ])
        .well();
    let said = server.run(&["win", "revoke", "shop", &units[1]]).well();
    assert!(said.contains("revoked"), "{said}");
    lists_say_who_delivered_and_revoked(&server, &mut ledger, &units).await;
}

async fn lists_say_who_delivered_and_revoked(
    server: &Server,
    ledger: &mut Ledger,
    units: &[String],
) {
    let mut list = async |kind: OperationKind| {
        let request = ListOperationsRequest {
            user_id: "ann".into(),
            kind: kind.into(),
            ..ListOperationsRequest::default()
        };
        let page = ledger.list_operations(request).await.unwrap();
        page.into_inner().operations
    };
    let deliveries = list(OperationKind::Deliver).await;
    let references: Vec<_> = deliveries
        .iter()
        .map(|act| act.reference.as_str())
        .collect();
    assert_eq!(references, ["parcel-3", "parcel-1"]);
    let acts = list(OperationKind::Unspecified).await;
    assert_eq!(acts.len(), 2, "{acts:#?}");
    for act in &acts {
        assert_eq!(act.kind(), OperationKind::Revoke);
    }
    let (first, delivery) = (&acts[1], &deliveries[1]);
    assert_eq!(
        (first.operator.as_str(), first.reason.as_str()),
        ("ops", "returned")
    );
    assert_eq!(
        (delivery.operator.as_str(), delivery.request_id.as_str()),
        ("post", "m1")
    );
    for act in [first, delivery] {
        assert_eq!(act.unit_id, units[0]);
        assert_eq!(
            (act.pool_id.as_str(), &act.user_ids[..]),
            ("deck", &["ann".to_owned()][..])
        );
        assert!(["mug", "pin"].contains(&act.prize_id.as_str()));
    }
    let said = server.run(&["operations", "--kind", "deliver"]).well();
    assert!(said.contains("as parcel-1"), "{said}");
    let history = server.run(&["user", "history", "ann"]).well();
    for word in ["as parcel-3", "revoke ", "draw"] {
        assert!(history.contains(word), "{word}: {history}");
    }
}

pub fn all(cursor: &str) -> WatchEntriesRequest {
    WatchEntriesRequest {
        cursor: cursor.into(),
        ..WatchEntriesRequest::default()
    }
}

/// The next entries.
pub async fn take(
    stream: &mut Streaming<WatchEntriesResponse>,
    count: usize,
) -> Vec<WatchEntriesResponse> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let response = stream.message().await.unwrap().unwrap();
        if response.entry.is_some() {
            taken.push(response);
        }
    }
    taken
}

fn kind(response: &WatchEntriesResponse) -> &str {
    &response.entry.as_ref().unwrap().kind
}

pub fn sequence(response: &WatchEntriesResponse) -> u64 {
    let entry = response.entry.as_ref().unwrap();
    entry.ledger_id.as_ref().unwrap().sequence
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_names_the_delivery_of_a_win_that_is_revoked() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut ledger) = shop(data.path()).await;
    let units = draw(&server, "r1", 2).await;
    let marked = ledger.mark_delivered(delivered(&units[0], "parcel-1", ""));
    marked.await.unwrap();
    for unit in &units {
        ledger.revoke_win(revoked(unit)).await.unwrap();
    }
    let request = WatchEntriesRequest {
        kinds: vec!["revoked".into()],
        ..all("")
    };
    let mut stream = ledger.watch_entries(request).await.unwrap().into_inner();
    let taken = take(&mut stream, 2).await.into_iter();
    let states = taken.map(|response| state(response.entry.unwrap().wins.pop()));
    let states: Vec<_> = states.collect();
    let is_revoked = |reference: &str| (DeliveryState::Revoked, reference.to_owned());
    assert_eq!(states, ["parcel-1", ""].map(is_revoked));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_from_any_cursor_and_filters() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut ledger) = shop(data.path()).await;
    let mut units = Vec::new();
    for number in 0..20 {
        units.extend(draw(&server, &format!("r{number}"), 1).await);
    }
    ledger
        .mark_delivered(delivered(&units[0], "parcel-1", ""))
        .await
        .unwrap();
    let mut stream = ledger.watch_entries(all("")).await.unwrap().into_inner();
    let mut whole = take(&mut stream, 1).await;
    while kind(whole.last().unwrap()) != "delivered" {
        whole.extend(take(&mut stream, 1).await);
    }
    let delivery = whole.last().unwrap().entry.clone().unwrap();
    let act = delivery.operation.unwrap();
    assert_eq!(
        (act.operator.as_str(), act.reference.as_str()),
        ("post", "parcel-1")
    );
    assert_eq!(
        (act.kind(), &act.unit_id),
        (OperationKind::Deliver, &units[0])
    );
    let numbers: Vec<u64> = whole.iter().map(sequence).collect();
    assert_eq!(numbers, (1..=whole.len() as u64).collect::<Vec<_>>());
    for at in [0, 7, 20] {
        let again = ledger.watch_entries(all(&whole[at].cursor)).await.unwrap();
        let next = take(&mut again.into_inner(), 1).await.remove(0);
        assert_eq!(next, whole[at + 1]);
    }
    let of_pins = WatchEntriesRequest {
        campaign_id: "shop".into(),
        prize_id: "pin".into(),
        kinds: vec!["draw".into()],
        ..all("")
    };
    let pins = whole.iter().flat_map(|response| &response.entry);
    let pins: Vec<_> = pins.filter(|entry| entry.kind == "draw").collect();
    let pins: Vec<_> = pins.iter().flat_map(|entry| &entry.wins).collect();
    let pins = pins.iter().filter(|win| win.prize_id == "pin").count();
    let mut stream = ledger.watch_entries(of_pins).await.unwrap().into_inner();
    for response in take(&mut stream, pins).await {
        let entry = response.entry.unwrap();
        assert_eq!((entry.kind.as_str(), entry.wins.len()), ("draw", 1));
        assert_eq!(entry.wins[0].prize_name, "Pin");
    }
    // What is added comes to a stream that is open, and to one that began at the end.
    let from_end = WatchEntriesRequest {
        from_end: true,
        ..all("")
    };
    let mut late = ledger.watch_entries(from_end).await.unwrap().into_inner();
    draw(&server, "last", 1).await;
    let last = take(&mut late, 1).await.remove(0).entry.unwrap();
    assert_eq!(last.draw.unwrap().request_id, "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_from_the_end_gives_its_cursor_before_any_entry() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut ledger) = shop(data.path()).await;
    let draws = |cursor: &str, from_end: bool| WatchEntriesRequest {
        kinds: vec!["draw".into()],
        from_end,
        ..all(cursor)
    };
    draw(&server, "before", 1).await;
    // Waits until the draw is settled, so that the end is after it.
    let whole = ledger.watch_entries(draws("", false)).await.unwrap();
    take(&mut whole.into_inner(), 1).await;
    let stream = ledger.watch_entries(draws("", true)).await.unwrap();
    let mut stream = stream.into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(first.entry, None);
    assert!(!first.cursor.is_empty());
    drop(stream);
    draw(&server, "between", 1).await;
    let again = ledger.watch_entries(draws(&first.cursor, true)).await;
    let next = take(&mut again.unwrap().into_inner(), 1).await.remove(0);
    let next = next.entry.unwrap().draw.unwrap();
    assert_eq!(next.request_id, "between");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_store_is_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_server, mut ledger) = shop(one.path()).await;
    let mut stream = ledger.watch_entries(all("")).await.unwrap().into_inner();
    let cursor = take(&mut stream, 1).await.remove(0).cursor;
    let (_other, mut ledger) = shop(other.path()).await;
    for cursor in [cursor.as_str(), "xyz", "00"] {
        let refused = ledger.watch_entries(all(cursor)).await.unwrap_err();
        is_refused(&refused, Code::InvalidArgument, "INVALID_REQUEST");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_a_reason_when_the_server_stops() {
    let data = tempfile::tempdir().unwrap();
    let (server, mut ledger) = shop(data.path()).await;
    let mut stream = ledger.watch_entries(all("")).await.unwrap().into_inner();
    take(&mut stream, 1).await;
    server.signal("TERM");
    let ended = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a reason"),
            Err(ended) => break ended,
        }
    };
    is_refused(&ended, Code::Unavailable, "WATCH_ENDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_in_number() {
    let data = tempfile::tempdir().unwrap();
    let (_server, mut ledger) = shop(data.path()).await;
    let mut open = Vec::new();
    let refused = loop {
        match ledger.watch_entries(all("")).await {
            Ok(stream) => open.push(stream),
            Err(refused) => break refused,
        }
    };
    assert_eq!(open.len(), 64);
    is_refused(&refused, Code::Unavailable, "OVERLOADED");
}
