//! Streams show what their reader may see, and end when the reader may not see it any more.

use tombola::proto::{
    BackupRequest, BackupResponse, ImportCodesRequest, WatchEntriesRequest, WatchEntriesResponse,
    admin_service_client::AdminServiceClient,
};
use tonic::{Code, Status, Streaming};

use super::{
    ALL, Calls, Gate, is_denied,
    key_server::{ISSUER, SigningKey, claims, key_set},
    reason,
};

async fn watch(calls: &Calls, campaign: &str) -> Streaming<WatchEntriesResponse> {
    let request = WatchEntriesRequest {
        campaign_id: campaign.into(),
        unsettled: true,
        ..Default::default()
    };
    let answer = calls.ledger().watch_entries(request).await;
    answer.unwrap().into_inner()
}

/// Why a stream ends.
async fn end<T>(stream: &mut Streaming<T>) -> Status {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a reason"),
            Err(status) => return status,
        }
    }
}

fn policy(more_of_shop: &str, campaigns: &str) -> String {
    format!(
        r#"
roles: {{everything: {ALL}}}
identities:
  - {{name: owner, tokens: [{{sha256: <owner>}}]}}
  - {{name: shop, tokens: [{{sha256: <kept>}}{more_of_shop}]}}
bindings:
  - {{identity: owner, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: shop, role: everything, campaigns: [{campaigns}], senders: [mine]}}
"#
    )
}

#[tokio::test]
async fn a_stream_passes_over_what_is_not_the_reader_s() {
    let gate = Gate::new(&policy("", "mine"));
    let owner = gate.by("owner").await;
    for id in ["other", "mine"] {
        owner.apply(id).await.unwrap();
        owner.draw(id, "ann").await.unwrap();
        owner.envelope(&format!("envelope-{id}"), id).await.unwrap();
        owner.grab(&format!("envelope-{id}"), "ann").await.unwrap();
    }
    let mut stream = watch(&gate.by("kept").await, "").await;
    let mut kinds = Vec::new();
    while kinds.len() < 5 {
        let message = stream.message().await.unwrap().unwrap();
        if let Some(entry) = message.entry {
            let about = format!("{}{}", entry.campaign_id, entry.envelope_id);
            assert!(about == "mine" || about == "envelope-mine", "{entry:?}");
            kinds.push(entry.kind);
        }
    }
    kinds.sort();
    assert_eq!(
        kinds,
        ["applied", "dealt", "draw", "envelope_created", "grab"]
    );
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_streams_and_no_others() {
    let gate = Gate::new(&policy(", {sha256: <revoked>}", "mine"));
    gate.by("owner").await.apply("mine").await.unwrap();
    let mut revoked = watch(&gate.by("revoked").await, "mine").await;
    let mut kept = watch(&gate.by("kept").await, "mine").await;
    gate.change(&policy("", "mine"));
    let status = end(&mut revoked).await;
    assert_eq!(
        reason(Code::Unauthenticated, &status),
        "CREDENTIALS_INVALID"
    );
    assert!(kept.message().await.unwrap().is_some());
}

/// A store whose backup does not fit into what client and server read ahead.
async fn fill(owner: &Calls) {
    const CODES: u64 = 10_000;
    let campaign = "
id: coupons
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
prizes: [{id: coupon, codes: true}]
pools: [{id: deck, deck: {size: 2, cards: {coupon: 1}, onExhausted: RESHUFFLE}}]
";
    owner.apply_file(campaign).await.unwrap();
    for first in (0..12).map(|call| call * CODES) {
        let request = ImportCodesRequest {
            campaign_id: "coupons".into(),
            prize_id: "coupon".into(),
            first,
            codes: (first..first + CODES)
                .map(|code| format!("{code:090}"))
                .collect(),
            ..ImportCodesRequest::default()
        };
        owner.campaigns().import_codes(request).await.unwrap();
    }
}

async fn backup(calls: &Calls) -> Streaming<BackupResponse> {
    let mut client = AdminServiceClient::new(calls.connection());
    client.backup(BackupRequest {}).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_backup() {
    let policy = |more: &str| {
        format!(
            r#"
roles: {{everything: {ALL}}}
identities: [{{name: owner, tokens: [{{sha256: <kept>}}{more}]}}]
bindings: [{{identity: owner, role: everything, campaigns: ["*"], senders: ["*"]}}]
"#
        )
    };
    let gate = Gate::new(&policy(", {sha256: <revoked>}"));
    let owner = gate.by("kept").await;
    fill(&owner).await;
    let mut revoked = backup(&gate.by("revoked").await).await;
    assert!(revoked.message().await.unwrap().is_some());
    gate.change(&policy(""));
    // One backup is made at a time, so the next one begins once this one has ended.
    let mut next = backup(&owner).await;
    assert!(next.message().await.unwrap().is_some());
    let status = end(&mut revoked).await;
    assert_eq!(
        reason(Code::Unauthenticated, &status),
        "CREDENTIALS_INVALID"
    );
}

#[tokio::test]
async fn a_binding_that_is_taken_away_ends_the_streams() {
    let gate = Gate::new(&policy("", "mine"));
    gate.by("owner").await.apply("mine").await.unwrap();
    let mut stream = watch(&gate.by("kept").await, "mine").await;
    gate.change(&policy("", "other"));
    let status = end(&mut stream).await;
    is_denied::<()>(Err(status));
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let key = SigningKey::ed25519();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, key_set(&[key.public("k")])).unwrap();
    let gate = Gate::new(&format!(
        r#"
roles: {{reader: [read]}}
issuers:
  - {{name: cluster, issuer: "{ISSUER}", audience: tombola, jwks: {{file: {}}}}}
identities: [{{name: shop, subjects: [{{issuer: cluster, value: shop}}]}}]
bindings: [{{identity: shop, role: reader, campaigns: ["*"], senders: ["*"]}}]
"#,
        file.display()
    ));
    // The leeway of 60 s has all but passed.
    let token = key.token("k", &claims("shop", -57));
    let mut stream = watch(&gate.by(&token).await, "").await;
    let status = end(&mut stream).await;
    assert_eq!(
        reason(Code::Unauthenticated, &status),
        "CREDENTIALS_EXPIRED"
    );
}
