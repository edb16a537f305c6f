//! Wins and draws are listed with the numbers of codes and the segments of users, and never with
//! the text of a code.

use tombola::proto::{
    DrawRequest, ImportCodesRequest, ListDrawsRequest, ListWinsRequest, MarkDeliveredRequest, Win,
};

use super::rig::{Rig, all_wins};
use crate::faults::load::apply_all;

/// Each draw wins: a ticket, or a pin, which has no code.
const CAMPAIGN: &str = "
id: tickets
timeZone: Asia/Shanghai
startTime: 2026-11-01T00:00:00+08:00
endTime: 2030-01-01T00:00:00+08:00
limits: {drawsPerDay: 10}
segmentLimits: [{segment: member, limits: {drawsPerDay: 100}}]
prizes:
  - {id: ticket, codes: true}
  - {id: pin, stock: 1000}
pools:
  - {id: cards, deck: {size: 2, cards: {ticket: 1, pin: 1}, onExhausted: RESHUFFLE}}
";

async fn import(rig: &Rig) {
    let import = ImportCodesRequest {
        campaign_id: "tickets".into(),
        prize_id: "ticket".into(),
        codes: (0..50).map(|number| format!("SECRET-{number}")).collect(),
        operator: "olga".into(),
        ..ImportCodesRequest::default()
    };
    let mut campaigns = rig.server.campaigns().await;
    campaigns.import_codes(import).await.unwrap();
}

/// Ann, a member, draws twenty times in two calls, and wins the first ten codes.
async fn draw(rig: &Rig) {
    for _ in 0..2 {
        let request = DrawRequest {
            campaign_id: "tickets".into(),
            user_id: "ann".into(),
            count: 10,
            segments: vec!["member".into()],
            ..DrawRequest::default()
        };
        rig.server.lottery().await.draw(request).await.unwrap();
    }
}

async fn lists_have_codes_by_number_and_segments(rig: Rig) {
    apply_all(&rig.server, CAMPAIGN).await;
    import(&rig).await;
    draw(&rig).await;
    let mut lists = rig.lists().await;
    let wins = all_wins(&mut lists, &ListWinsRequest::default()).await;
    let (tickets, pins): (Vec<Win>, Vec<Win>) =
        wins.into_iter().partition(|win| win.prize_id == "ticket");
    let codes = |wins: &[Win]| -> Vec<_> { wins.iter().map(|win| win.code_index).collect() };
    let newest_first: Vec<_> = (0..10).rev().map(Some).collect();
    assert_eq!(codes(&tickets), newest_first);
    assert_eq!(codes(&pins), [None; 10]);

    let draws = lists.list_draws(ListDrawsRequest::default()).await.unwrap();
    let draws = draws.into_inner().draws;
    assert_eq!(draws.len(), 2);
    for draw in &draws {
        assert_eq!(draw.segments, ["member"]);
    }
    let delivery = MarkDeliveredRequest {
        campaign_id: "tickets".into(),
        unit_id: tickets[3].unit_id.clone(),
        reference: "parcel 1".into(),
        operator: "olga".into(),
        ..MarkDeliveredRequest::default()
    };
    let delivered = lists.mark_delivered(delivery).await.unwrap().into_inner();
    let delivered = delivered.win.unwrap();
    assert_eq!(delivered.code_index, Some(6));
    assert!(!format!("{tickets:?}{draws:?}{delivered:?}").contains("SECRET"));
    commands_show_them_if_there_are_any(&rig);
}

fn commands_show_them_if_there_are_any(rig: &Rig) {
    let said = |words: &[&str]| rig.server.run(words).well();
    let head = |said: &str| said.lines().next().unwrap_or_default().to_owned();
    let of_tickets = said(&["wins", "--campaign", "tickets", "--prize", "ticket"]);
    assert!(head(&of_tickets).ends_with("code"), "{of_tickets}");
    assert!(
        of_tickets.lines().any(|line| line.ends_with("  9")),
        "{of_tickets}"
    );
    let of_pins = said(&["wins", "--campaign", "tickets", "--prize", "pin"]);
    assert!(!head(&of_pins).contains("code"), "{of_pins}");
    let csv = said(&[
        "wins",
        "--prize",
        "pin",
        "--campaign",
        "tickets",
        "--format",
        "csv",
    ]);
    assert!(head(&csv).ends_with(",code"), "{csv}");
    let json = said(&["wins", "--campaign", "tickets", "--json"]);
    assert!(json.contains("\"codeIndex\": \"9\""), "{json}");
    let public = said(&["wins", "--campaign", "tickets", "--public", "--json"]);
    assert!(!public.contains("codeIndex"), "{public}");
    let draws = said(&["draws", "--campaign", "tickets"]);
    assert!(
        draws.contains("segments") && draws.contains("member"),
        "{draws}"
    );
    assert!(draws.contains("0 1 2 3 4"), "{draws}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_an_embedded_store_have_codes_by_number_and_segments() {
    lists_have_codes_by_number_and_segments(Rig::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_postgres_have_codes_by_number_and_segments() {
    lists_have_codes_by_number_and_segments(Rig::postgres().await).await;
}
