//! The lists of a real server: what they have, and that new entries do not move their pages.

use std::collections::BTreeSet;

use tombola::{
    model::file,
    proto::{
        ApplyCampaignRequest, BlockUsersRequest, CancelEnvelopeRequest, CreateEnvelopeRequest,
        DrawCause, DrawRequest, EnvelopeEventKind, Funding, GrabEnvelopeRequest, GrantDrawsRequest,
        ListDrawsRequest, ListEnvelopesRequest, ListOperationsRequest, ListWinsRequest,
        OperationKind, Outcome, PauseCampaignRequest, PausePrizeRequest, RecordedDraw,
        RecordedOperation, envelope_service_client::EnvelopeServiceClient,
    },
};

use super::rig::{Lists, Rig, all_wins, units};

async fn draws(lists: &mut Lists, request: ListDrawsRequest) -> Vec<RecordedDraw> {
    let (mut draws, mut request) = (Vec::new(), request);
    loop {
        let page = lists
            .list_draws(request.clone())
            .await
            .unwrap()
            .into_inner();
        draws.extend(page.draws);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return draws;
        }
    }
}

async fn operations(lists: &mut Lists, request: ListOperationsRequest) -> Vec<RecordedOperation> {
    let page = lists.list_operations(request).await.unwrap().into_inner();
    assert!(page.next_page_token.is_empty());
    page.operations
}

async fn a_win_is_listed_right_after_its_draw(rig: Rig) {
    let callers = (0..10).map(|caller| {
        let user = format!("user-{caller}");
        let rig = &rig;
        async move {
            let (mut lists, mut won) = (rig.lists().await, Vec::new());
            for round in 0..50 {
                let drawn = rig.draw("spring", &user, 2).await;
                won.extend(units(&drawn));
                // One partition is waited for, or all of them.
                let campaign_id = if round % 2 == 0 { "spring" } else { "" };
                let request = ListWinsRequest {
                    user_id: user.clone(),
                    campaign_id: campaign_id.into(),
                    ..ListWinsRequest::default()
                };
                let wins = all_wins(&mut lists, &request).await;
                let listed: BTreeSet<_> = wins.iter().map(|win| &win.unit_id).collect();
                assert_eq!(listed, won.iter().collect(), "round {round}");
            }
        }
    });
    let mut at_once = Vec::new();
    for caller in callers {
        at_once.push(Box::pin(caller));
    }
    join(at_once).await;
}

/// Runs all of these at once.
async fn join<F: Future<Output = ()>>(mut all: Vec<std::pin::Pin<Box<F>>>) {
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        match all.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_win_is_listed_right_after_its_draw_on_an_embedded_store() {
    a_win_is_listed_right_after_its_draw(Rig::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_win_is_listed_right_after_its_draw_in_postgres() {
    a_win_is_listed_right_after_its_draw(Rig::redis().await).await;
}

async fn new_entries_do_not_move_pages(rig: Rig) {
    let mut lists = rig.lists().await;
    for user in 0..12 {
        rig.draw("spring", &format!("user-{user}"), 10).await;
        rig.draw("summer", &format!("user-{user}"), 4).await;
    }
    let whole = all_wins(&mut lists, &ListWinsRequest::default()).await;
    assert!(whole.len() > 60, "{}", whole.len());
    assert!(whole.is_sorted_by_key(|win| {
        let time = win.draw_time.unwrap();
        std::cmp::Reverse((time.seconds, time.nanos))
    }));
    let mut paged = Vec::new();
    let mut request = ListWinsRequest {
        page_size: 7,
        ..ListWinsRequest::default()
    };
    loop {
        let page = lists.list_wins(request.clone()).await.unwrap().into_inner();
        assert!(page.wins.len() <= request.page_size as usize);
        paged.extend(page.wins);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
        rig.draw("spring", "late", 20).await;
        request.page_size = 1 + request.page_size % 9;
    }
    assert_eq!(paged, whole);
    let late = ListWinsRequest {
        user_id: "late".into(),
        ..ListWinsRequest::default()
    };
    assert!(!all_wins(&mut lists, &late).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_entries_do_not_move_pages_of_an_embedded_store() {
    new_entries_do_not_move_pages(Rig::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_entries_do_not_move_pages_in_postgres() {
    new_entries_do_not_move_pages(Rig::redis().await).await;
}

async fn lists_say_what_happened(rig: Rig) {
    wins_say_what_was_won(&rig).await;
    draws_say_how_they_came_out(&rig).await;
    operations_say_who_did_what(&rig).await;
    grants_say_when_they_lapse(&rig).await;
    acts_name_the_prize_that_they_were_about(&rig).await;
    envelopes_say_where_the_money_went(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_an_embedded_store_say_what_happened() {
    lists_say_what_happened(Rig::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_postgres_say_what_happened() {
    lists_say_what_happened(Rig::postgres().await).await;
}

async fn wins_say_what_was_won(rig: &Rig) {
    let mut lists = rig.lists().await;
    let drawn = rig.draw("spring", "anna", 2).await;
    rig.draw("summer", "anna", 2).await;
    rig.draw("spring", "ben", 2).await;
    let of_anna = ListWinsRequest {
        campaign_id: "spring".into(),
        user_id: "anna".into(),
        prize_id: "coin".into(),
        ..ListWinsRequest::default()
    };
    let wins = all_wins(&mut lists, &of_anna).await;
    let [win] = &wins[..] else {
        panic!("{wins:?}");
    };
    assert_eq!(
        (win.prize_name.as_str(), win.pool_id.as_str()),
        ("Gold coin", "cards")
    );
    assert_eq!(win.attributes["grams"], "3");
    assert_eq!(win.request_id, drawn.request_id);
    assert_eq!(win.draw_time, drawn.draw_time);
    assert_eq!(vec![win.unit_id.clone()], units(&drawn));
    let delivery = win.delivery.clone().unwrap();
    assert_eq!(
        delivery.state,
        tombola::proto::DeliveryState::Pending as i32
    );
    for (start, end, expected) in [(drawn.draw_time, None, 1), (None, drawn.draw_time, 0)] {
        let bounded = ListWinsRequest {
            start_time: start,
            end_time: end,
            ..of_anna.clone()
        };
        assert_eq!(all_wins(&mut lists, &bounded).await.len(), expected);
    }
    let other = ListWinsRequest {
        prize_id: "jewel".into(),
        ..of_anna
    };
    assert_eq!(all_wins(&mut lists, &other).await, []);
}

async fn draws_say_how_they_came_out(rig: &Rig) {
    let mut lists = rig.lists().await;
    let request = DrawRequest {
        campaign_id: "spring".into(),
        user_id: "carl".into(),
        funding: Funding::Paid.into(),
        payment_ref: "order 7".into(),
        count: 2,
        ..DrawRequest::default()
    };
    rig.server
        .lottery()
        .await
        .draw(request.clone())
        .await
        .unwrap();
    let consolation = DrawRequest {
        consolation_only: true,
        request_id: "none".into(),
        funding: Funding::Free.into(),
        count: 1,
        ..request
    };
    rig.server.lottery().await.draw(consolation).await.unwrap();
    let of_carl = ListDrawsRequest {
        user_id: "carl".into(),
        ..ListDrawsRequest::default()
    };
    let all = draws(&mut lists, of_carl.clone()).await;
    assert_eq!(all.len(), 2);
    assert!(all[0].consolation_only);
    let cause = all[0].results[0].cause();
    assert_eq!(cause, DrawCause::ConsolationOnly);
    assert_eq!(all[1].payment_ref, "order 7");
    let causes: BTreeSet<_> = all[1].results.iter().map(|result| result.cause).collect();
    let expected = [DrawCause::Unspecified, DrawCause::Blank];
    assert_eq!(causes, expected.map(|cause| cause as i32).into());
    assert!(
        all[1]
            .results
            .iter()
            .all(|result| result.pool_id == "cards")
    );
    for (filtered, expected) in [
        (
            ListDrawsRequest {
                funding: Funding::Paid.into(),
                ..of_carl.clone()
            },
            1,
        ),
        (
            ListDrawsRequest {
                outcome: Outcome::Won.into(),
                ..of_carl.clone()
            },
            1,
        ),
        (
            ListDrawsRequest {
                outcome: Outcome::Consolation.into(),
                ..of_carl.clone()
            },
            2,
        ),
        (
            ListDrawsRequest {
                request_id: "none".into(),
                ..of_carl.clone()
            },
            1,
        ),
        (
            ListDrawsRequest {
                campaign_id: "summer".into(),
                ..of_carl.clone()
            },
            0,
        ),
    ] {
        assert_eq!(
            draws(&mut lists, filtered.clone()).await.len(),
            expected,
            "{filtered:?}"
        );
    }
}

async fn operations_say_who_did_what(rig: &Rig) {
    let mut lists = rig.lists().await;
    let mut campaigns = rig.server.campaigns().await;
    let block = BlockUsersRequest {
        campaign_id: "summer".into(),
        user_ids: vec!["bot-1".into(), "bot-2".into()],
        operator: "olga".into(),
        reason: "scripts".into(),
        ..BlockUsersRequest::default()
    };
    campaigns.block_users(block).await.unwrap();
    let pause = PausePrizeRequest {
        campaign_id: "summer".into(),
        prize_id: "jewel".into(),
        operator: "paul".into(),
        ..PausePrizeRequest::default()
    };
    campaigns.pause_prize(pause).await.unwrap();
    let pause = PauseCampaignRequest {
        campaign_id: "spring".into(),
        operator: "paul".into(),
        ..PauseCampaignRequest::default()
    };
    campaigns.pause_campaign(pause).await.unwrap();
    let of_summer = ListOperationsRequest {
        campaign_id: "summer".into(),
        ..ListOperationsRequest::default()
    };
    let acts = operations(&mut lists, of_summer.clone()).await;
    let kinds: Vec<_> = acts.iter().map(|act| act.kind()).collect();
    let expected = [
        OperationKind::PausePrize,
        OperationKind::Block,
        OperationKind::Apply,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(
        (acts[0].prize_id.as_str(), acts[0].operator.as_str()),
        ("jewel", "paul")
    );
    assert_eq!(
        (acts[1].user_ids.len(), acts[1].reason.as_str()),
        (2, "scripts")
    );
    assert_eq!((acts[2].version, acts[2].number), (1, 1));
    let all = ListOperationsRequest::default();
    for (filtered, expected) in [
        (
            ListOperationsRequest {
                operator: "paul".into(),
                ..all.clone()
            },
            2,
        ),
        (
            ListOperationsRequest {
                operator: "paul".into(),
                ..of_summer.clone()
            },
            1,
        ),
        (
            ListOperationsRequest {
                user_id: "bot-2".into(),
                ..all.clone()
            },
            1,
        ),
        (
            ListOperationsRequest {
                kind: OperationKind::Apply.into(),
                ..all
            },
            2,
        ),
    ] {
        assert_eq!(
            operations(&mut lists, filtered.clone()).await.len(),
            expected,
            "{filtered:?}"
        );
    }
}

async fn grants_say_when_they_lapse(rig: &Rig) {
    let mut campaigns = rig.server.campaigns().await;
    let moment = prost_types::Timestamp {
        seconds: 1_800_000_000,
        nanos: 0,
    };
    for (user, expire_time) in [("kim", None), ("lou", Some(moment))] {
        let grant = GrantDrawsRequest {
            campaign_id: "summer".into(),
            user_ids: vec![user.into()],
            draws: 1,
            expire_time,
            operator: "olga".into(),
            ..GrantDrawsRequest::default()
        };
        campaigns.grant_draws(grant).await.unwrap();
    }
    let grants = ListOperationsRequest {
        campaign_id: "summer".into(),
        kind: OperationKind::Grant.into(),
        ..ListOperationsRequest::default()
    };
    let acts = operations(&mut rig.lists().await, grants).await;
    let lapse: Vec<_> = acts.iter().map(|act| act.expire_time).collect();
    assert_eq!(lapse, [Some(moment), None]);
}

/// Prizes have other numbers in the second version, which comes before anything has happened.
async fn acts_name_the_prize_that_they_were_about(rig: &Rig) {
    let mut campaigns = rig.server.campaigns().await;
    let apply = |prizes: &str, base_version| {
        let yaml = format!(
            "
id: later
timeZone: Asia/Shanghai
startTime: 2029-01-01T00:00:00+08:00
endTime: 2030-01-01T00:00:00+08:00
prizes: [{prizes}]
pools: [{{id: cards, deck: {{size: 2, cards: {{coin: 1}}, onExhausted: RESHUFFLE}}}}]
"
        );
        ApplyCampaignRequest {
            campaign: file::parse(&yaml).unwrap().pop(),
            base_version,
            operator: "olga".into(),
            ..ApplyCampaignRequest::default()
        }
    };
    let (coin, jewel) = ("{id: coin, stock: 10}", "{id: jewel, stock: 10}");
    let first = apply(&format!("{coin}, {jewel}"), 0);
    campaigns.apply_campaign(first).await.unwrap();
    let pause = PausePrizeRequest {
        campaign_id: "later".into(),
        prize_id: "jewel".into(),
        operator: "paul".into(),
        ..PausePrizeRequest::default()
    };
    campaigns.pause_prize(pause).await.unwrap();
    let second = apply(&format!("{jewel}, {coin}"), 1);
    campaigns.apply_campaign(second).await.unwrap();
    let pauses = ListOperationsRequest {
        campaign_id: "later".into(),
        kind: OperationKind::PausePrize.into(),
        ..ListOperationsRequest::default()
    };
    let acts = operations(&mut rig.lists().await, pauses).await;
    let prizes: Vec<_> = acts.iter().map(|act| act.prize_id.as_str()).collect();
    assert_eq!(prizes, ["jewel"]);
}

async fn envelopes_say_where_the_money_went(rig: &Rig) {
    let mut lists = rig.lists().await;
    let mut envelopes = EnvelopeServiceClient::new(rig.server.connect().await);
    for id in ["e1", "e2"] {
        let create = CreateEnvelopeRequest {
            envelope_id: id.into(),
            sender_id: "sender".into(),
            total_minor: 1_000,
            currency: "EUR".into(),
            packets: 4,
            ..CreateEnvelopeRequest::default()
        };
        envelopes.create_envelope(create).await.unwrap();
        let grab = GrabEnvelopeRequest {
            envelope_id: id.into(),
            user_id: "dora".into(),
        };
        envelopes.grab_envelope(grab).await.unwrap();
    }
    let cancel = CancelEnvelopeRequest {
        envelope_id: "e1".into(),
        operator: "olga".into(),
        ..CancelEnvelopeRequest::default()
    };
    envelopes.cancel_envelope(cancel).await.unwrap();
    let list = async |lists: &mut Lists, request: ListEnvelopesRequest| {
        lists
            .list_envelopes(request)
            .await
            .unwrap()
            .into_inner()
            .events
    };
    let of_e1 = ListEnvelopesRequest {
        envelope_id: "e1".into(),
        ..ListEnvelopesRequest::default()
    };
    let events = list(&mut lists, of_e1.clone()).await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind()).collect();
    use EnvelopeEventKind::{Created, Grabbed, Refunded};
    assert_eq!(kinds, [Refunded, Grabbed, Created]);
    assert_eq!(
        events[0].amount_minor + events[1].amount_minor,
        events[2].amount_minor
    );
    assert_eq!(
        (events[0].operator.as_str(), events[1].user_id.as_str()),
        ("olga", "dora")
    );
    let all = ListEnvelopesRequest::default();
    for (filtered, expected) in [
        (all.clone(), 5),
        (
            ListEnvelopesRequest {
                kind: Grabbed.into(),
                ..all.clone()
            },
            2,
        ),
        (
            ListEnvelopesRequest {
                kind: Created.into(),
                ..all.clone()
            },
            2,
        ),
        (
            ListEnvelopesRequest {
                kind: Refunded.into(),
                ..all.clone()
            },
            1,
        ),
        (
            ListEnvelopesRequest {
                user_id: "sender".into(),
                ..all.clone()
            },
            2,
        ),
        (
            ListEnvelopesRequest {
                user_id: "dora".into(),
                kind: Refunded.into(),
                ..all
            },
            0,
        ),
    ] {
        assert_eq!(
            list(&mut lists, filtered.clone()).await.len(),
            expected,
            "{filtered:?}"
        );
    }
    let cancelled = ListOperationsRequest {
        kind: OperationKind::CancelEnvelope.into(),
        ..ListOperationsRequest::default()
    };
    let acts = operations(&mut lists, cancelled).await;
    assert_eq!(acts.len(), 1);
    assert_eq!(acts[0].envelope_id, "e1");
}
