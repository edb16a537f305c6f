//! Lists show what their reader may see, and nothing tells of the rest: neither counts nor pages
//! nor tokens.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tombola::proto::{
    CancelEnvelopeRequest, ForgetUserRequest, GetEnvelopeRequest, GetStatsRequest,
    ListCampaignsRequest, ListDrawsRequest, ListEnvelopesRequest, ListOperationsRequest,
    ListWinsRequest,
};
use tonic::Code;

use super::{ALL, Calls, Gate, is_denied};
use crate::process::{PATIENCE, Start};

/// The pause before something is looked at again.
const PAUSE: Duration = Duration::from_millis(20);
/// A moment by which envelopes that were cancelled at the usual one have left the store.
const LATER: &str = "2027-01-14T12:10:00+08:00";

/// The owner of everything, and one who sees `mine-…` alone.
fn policy() -> String {
    format!(
        r#"
roles: {{everything: {ALL}}}
identities:
  - {{name: owner, tokens: [{{sha256: <owner>}}]}}
  - {{name: shop, tokens: [{{sha256: <shop>}}]}}
  - {{name: sender, tokens: [{{sha256: <sender>}}]}}
bindings:
  - {{identity: owner, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: shop, role: everything, campaigns: ["mine-*", exact]}}
  - {{identity: sender, role: everything, senders: ["mine-*"]}}
"#
    )
}

/// A server with campaigns, draws and envelopes of several owners, one after the other.
async fn mixed() -> (Gate, Calls) {
    let gate = Gate::new(&policy());
    let owner = gate.by("owner").await;
    let campaigns = [
        "exact", "exactly", "a", "mine-1", "mind", "mine-2", "z", "Mine-3",
    ];
    for campaign in campaigns {
        owner.apply(campaign).await.unwrap();
        for _ in 0..4 {
            owner.draw(campaign, "ann").await.unwrap();
        }
    }
    for (envelope, sender) in [("e1", "mine-s"), ("e2", "other"), ("e3", "mine-s")] {
        owner.envelope(envelope, sender).await.unwrap();
        owner.grab(envelope, "ann").await.unwrap();
    }
    (gate, owner)
}

async fn cancel(calls: &Calls, envelope: &str) {
    let request = CancelEnvelopeRequest {
        envelope_id: envelope.into(),
        ..Default::default()
    };
    calls.envelopes().cancel_envelope(request).await.unwrap();
}

/// Waits until an envelope has left the store.
async fn leaves(calls: &Calls, envelope: &str) {
    let begun = Instant::now();
    loop {
        let request = GetEnvelopeRequest {
            envelope_id: envelope.into(),
        };
        match calls.envelopes().get_envelope(request).await {
            Err(status) if status.code() == Code::NotFound => return,
            answer => assert!(begun.elapsed() < PATIENCE, "{answer:?}"),
        }
        sleep(PAUSE).await;
    }
}

async fn campaigns(calls: &Calls, size: u32) -> Vec<String> {
    let mut ids = Vec::new();
    let mut token = String::new();
    loop {
        let request = ListCampaignsRequest {
            page_size: size,
            page_token: token,
            ..Default::default()
        };
        let page = calls
            .campaigns()
            .list_campaigns(request)
            .await
            .unwrap()
            .into_inner();
        let found = page.campaigns.into_iter();
        ids.extend(found.map(|status| status.campaign.unwrap().id));
        token = page.next_page_token;
        if token.is_empty() {
            return ids;
        }
        // A token is the last id that was shown, and only if there is more to show.
        assert_eq!(Some(&token), ids.last());
    }
}

#[tokio::test]
async fn campaigns_of_others_are_not_listed() {
    let (gate, owner) = mixed().await;
    assert_eq!(campaigns(&owner, 3).await.len(), 8);
    let shop = gate.by("shop").await;
    for size in [1, 2, 3, 100] {
        assert_eq!(campaigns(&shop, size).await, ["exact", "mine-1", "mine-2"]);
    }
    assert!(campaigns(&gate.by("sender").await, 1).await.is_empty());
}

#[tokio::test]
async fn wins_and_draws_of_others_are_not_listed() {
    let (gate, owner) = mixed().await;
    let (shop, sender) = (gate.by("shop").await, gate.by("sender").await);
    for (calls, draws_wanted) in [(&owner, 32), (&shop, 12), (&sender, 0)] {
        for size in [1, 5, 1000] {
            let (mut draws, mut wins) = (0, 0);
            let mut token = String::new();
            loop {
                let request = ListDrawsRequest {
                    user_id: "ann".into(),
                    page_size: size,
                    page_token: token,
                    ..Default::default()
                };
                let page = calls
                    .ledger()
                    .list_draws(request)
                    .await
                    .unwrap()
                    .into_inner();
                draws += page.draws.len();
                token = page.next_page_token;
                // A page is empty only at the end: hidden entries take no room in it.
                if token.is_empty() {
                    break;
                }
                assert_eq!(page.draws.len(), size as usize);
            }
            loop {
                let request = ListWinsRequest {
                    page_size: size,
                    page_token: token,
                    ..Default::default()
                };
                let page = calls
                    .ledger()
                    .list_wins(request)
                    .await
                    .unwrap()
                    .into_inner();
                wins += page.wins.len();
                token = page.next_page_token;
                if token.is_empty() {
                    break;
                }
                assert_eq!(page.wins.len(), size as usize);
            }
            assert_eq!((draws, wins), (draws_wanted, draws_wanted / 2));
        }
    }
    let named = ListDrawsRequest {
        campaign_id: "exactly".into(),
        ..Default::default()
    };
    is_denied(shop.ledger().list_draws(named).await);
}

#[tokio::test]
async fn envelopes_are_listed_by_their_senders() {
    let (gate, owner) = mixed().await;
    let (shop, sender) = (gate.by("shop").await, gate.by("sender").await);
    for (calls, wanted) in [(&owner, 6), (&shop, 0), (&sender, 4)] {
        let request = ListEnvelopesRequest::default();
        let page = calls
            .ledger()
            .list_envelopes(request)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(page.events.len(), wanted, "{page:?}");
        assert!(page.next_page_token.is_empty());
    }
    let of = |id: &str| ListEnvelopesRequest {
        envelope_id: id.into(),
        ..Default::default()
    };
    sender.ledger().list_envelopes(of("e1")).await.unwrap();
    is_denied(sender.ledger().list_envelopes(of("e2")).await);
    is_denied(sender.ledger().list_envelopes(of("never")).await);
    sender.grab("e3", "bob").await.unwrap();
    is_denied(sender.grab("e2", "bob").await);
}

/// Only a pseudonym of 64 hex digits is left of an erased sender. It is nobody's id, whatever the
/// patterns of an identity are.
#[tokio::test]
async fn envelopes_of_erased_senders_are_for_those_who_see_all_senders() {
    let digits = "0123456789abcdef".chars();
    let patterns: Vec<_> = digits.map(|digit| format!("\"{digit}*\"")).collect();
    let patterns = patterns.join(", ");
    let policy = format!(
        r#"
roles: {{everything: {ALL}}}
identities:
  - {{name: owner, tokens: [{{sha256: <owner>}}]}}
  - {{name: sender, tokens: [{{sha256: <sender>}}]}}
bindings:
  - {{identity: owner, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: sender, role: everything, senders: [{patterns}]}}
"#
    );
    let data = tempfile::tempdir().unwrap();
    let gate = Gate::on(Start::on(data.path()), &policy);
    let owner = gate.by("owner").await;
    // In this order: once the second one is settled, the first one is too.
    for (envelope, sender) in [("kept", "agent"), ("erased", "user-1")] {
        owner.envelope(envelope, sender).await.unwrap();
        cancel(&owner, envelope).await;
    }
    let erase = ForgetUserRequest {
        user_id: "user-1".into(),
        ..Default::default()
    };
    let begun = Instant::now();
    loop {
        let erased = owner.ledger().forget_user(erase.clone()).await.unwrap();
        if erased.into_inner().envelopes > 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the envelope is not settled");
        sleep(PAUSE).await;
    }
    drop(gate);

    let gate = Gate::on(Start::on(data.path()).at(LATER.into()), &policy);
    let (owner, sender) = (gate.by("owner").await, gate.by("sender").await);
    let of = |id: &str| ListEnvelopesRequest {
        envelope_id: id.into(),
        ..Default::default()
    };
    for envelope in ["kept", "erased"] {
        leaves(&owner, envelope).await;
        let listed = owner.ledger().list_envelopes(of(envelope)).await.unwrap();
        assert!(!listed.into_inner().events.is_empty());
    }
    let listed = sender.ledger().list_envelopes(of("kept")).await.unwrap();
    assert!(!listed.into_inner().events.is_empty());
    is_denied(sender.ledger().list_envelopes(of("erased")).await);
}

#[tokio::test]
async fn acts_are_listed_of_own_campaigns_and_own_envelopes() {
    let (gate, owner) = mixed().await;
    for envelope in ["e1", "e2"] {
        cancel(&owner, envelope).await;
    }
    let (shop, sender) = (gate.by("shop").await, gate.by("sender").await);
    for (calls, wanted) in [(&owner, 10), (&shop, 3), (&sender, 1)] {
        let request = ListOperationsRequest::default();
        let page = calls
            .ledger()
            .list_operations(request)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(page.operations.len(), wanted, "{page:?}");
    }
}

#[tokio::test]
async fn sums_over_everything_are_for_those_who_see_everything() {
    let (gate, owner) = mixed().await;
    let all = GetStatsRequest::default();
    owner.campaigns().get_stats(all.clone()).await.unwrap();
    for token in ["shop", "sender"] {
        is_denied(
            gate.by(token)
                .await
                .campaigns()
                .get_stats(all.clone())
                .await,
        );
    }
    let own = GetStatsRequest {
        campaign_id: "mine-1".into(),
    };
    let shop = gate.by("shop").await;
    shop.campaigns().get_stats(own).await.unwrap();
}
