//! JSON Web Tokens that others have signed, with keys from a file or behind a URL.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::Code;

use super::{
    Gate, hashed, is_denied, is_unknown,
    key_server::{ISSUER, KeyServer, SigningKey, base64, claims, key_set},
    reason,
};
use crate::process::{PATIENCE, Start};

/// An access file in which the issuer's tokens for `shop` may read everything.
fn policy(jwks: &str) -> String {
    format!(
        r#"
roles: {{reader: [read]}}
issuers: [{{name: cluster, issuer: "{ISSUER}", audience: tombola, jwks: {{{jwks}}}}}]
identities: [{{name: shop, subjects: [{{issuer: cluster, value: shop}}]}}]
bindings: [{{identity: shop, role: reader, campaigns: ["*"], senders: ["*"]}}]
"#
    )
}

fn behind(server: &KeyServer) -> String {
    policy(&format!("url: \"http://{}/keys\"", server.address))
}

/// Whether a token is accepted; else why not.
async fn try_token(gate: &Gate, token: &str) -> Result<(), String> {
    let status = gate.by(token).await.get("spring").await.unwrap_err();
    match status.code() {
        Code::NotFound => Ok(()),
        Code::Unavailable => Err(reason(Code::Unavailable, &status)),
        _ => Err(reason(Code::Unauthenticated, &status)),
    }
}

fn refused(reason: &str) -> Result<(), String> {
    Err(format!("CREDENTIALS_{reason}"))
}

#[tokio::test]
async fn tokens_of_all_three_algorithms_are_accepted() {
    let keys = [SigningKey::rsa(), SigningKey::p256(), SigningKey::ed25519()];
    let set: Vec<Value> = (0..)
        .zip(&keys)
        .map(|(i, key)| key.public(&format!("k{i}")))
        .collect();
    let server = KeyServer::new(&key_set(&set));
    let gate = Gate::new(&behind(&server));
    for (number, key) in keys.iter().enumerate() {
        let token = key.token(&format!("k{number}"), &claims("shop", 300));
        assert_eq!(try_token(&gate, &token).await, Ok(()));
        // With the kid of another key, whose algorithm is another one.
        let token = key.token(&format!("k{}", (number + 1) % 3), &claims("shop", 300));
        assert_eq!(try_token(&gate, &token).await, refused("INVALID"));
    }
    assert!(server.heads().starts_with("GET /keys HTTP/1.1\n"));
}

/// A pod that calls with the token of its ServiceAccount, and one of another namespace.
#[tokio::test]
async fn a_service_account_of_kubernetes_is_known_by_its_subject() {
    let key = SigningKey::rsa();
    let server = KeyServer::new(&key_set(&[key.public("k")]));
    let subject = "value: \"system:serviceaccount:shop:backend\"";
    let gate = Gate::new(&behind(&server).replace("value: shop", subject));
    for (namespace, wanted) in [("shop", Ok(())), ("other", refused("INVALID"))] {
        let mut claims = claims(&format!("system:serviceaccount:{namespace}:backend"), 300);
        // As Kubernetes signs them: several audiences, and claims of its own.
        claims["aud"] = json!(["tombola", "https://kubernetes.default.svc"]);
        claims["kubernetes.io"] = json!({"namespace": namespace, "serviceaccount": {
            "name": "backend", "uid": "3b2a1f2c-0000-4000-8000-000000000000"}});
        let token = key.token("k", &claims);
        assert_eq!(try_token(&gate, &token).await, wanted, "{namespace}");
    }
}

#[tokio::test]
async fn what_a_token_must_say_is_checked() {
    let key = SigningKey::ed25519();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, key_set(&[key.public("k")])).unwrap();
    let gate = Gate::new(&policy(&format!("file: {}", file.display())));
    let with = |name: &str, value: Value| {
        let mut changed = claims("shop", 300);
        changed[name] = value;
        key.token("k", &changed)
    };
    assert_eq!(
        try_token(&gate, &key.token("k", &claims("shop", 300))).await,
        Ok(())
    );
    // Within the leeway of 60 s, and beyond it.
    assert_eq!(
        try_token(&gate, &key.token("k", &claims("shop", -30))).await,
        Ok(())
    );
    let expired = key.token("k", &claims("shop", -90));
    assert_eq!(try_token(&gate, &expired).await, refused("EXPIRED"));
    for bad in [
        with("aud", json!("other")),
        with("iss", json!("https://other.example")),
        with("sub", json!("stranger")),
        with("exp", Value::Null),
        SigningKey::ed25519().token("k", &claims("shop", 300)),
    ] {
        assert_eq!(try_token(&gate, &bad).await, refused("INVALID"));
    }
    let body = base64(claims("shop", 300).to_string());
    for header in [
        r#"{"alg":"none","kid":"k"}"#,
        r#"{"alg":"HS256","kid":"k"}"#,
    ] {
        for signature in ["", "AAAA"] {
            let token = format!("{}.{body}.{signature}", base64(header));
            assert_eq!(try_token(&gate, &token).await, refused("INVALID"));
        }
    }
}

#[tokio::test]
async fn keys_are_rotated_and_a_key_that_is_gone_verifies_nothing_any_more() {
    let (old, new) = (SigningKey::p256(), SigningKey::p256());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let set = |keys: &[Value]| {
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, key_set(keys)).unwrap();
        !before.is_empty()
    };
    set(&[old.public("old")]);
    let gate = Gate::new(&policy(&format!("file: {}", file.display())));
    let read = || {
        gate.server
            .log()
            .matches("the keys of issuer cluster are read")
            .count()
    };
    let old_token = old.token("old", &claims("shop", 300));
    let new_token = new.token("new", &claims("shop", 300));
    assert_eq!(try_token(&gate, &old_token).await, Ok(()));
    assert_eq!(try_token(&gate, &new_token).await, refused("INVALID"));
    let is_replaced_by = async |keys: &[Value]| {
        let before = read();
        assert!(set(keys));
        while read() == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    for (keys, old_is_fine, new_is_fine) in [
        (vec![old.public("old"), new.public("new")], true, true),
        (vec![new.public("new")], false, true),
    ] {
        is_replaced_by(&keys).await;
        assert_eq!(try_token(&gate, &old_token).await.is_ok(), old_is_fine);
        assert_eq!(try_token(&gate, &new_token).await.is_ok(), new_is_fine);
    }
    // A broken set takes no key away. Whether there are others, nobody knows.
    let failed = || {
        let log = gate.server.log();
        log.matches("the keys of issuer cluster cannot be read")
            .count()
    };
    let before = failed();
    std::fs::write(&file, "{").unwrap();
    while failed() == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(try_token(&gate, &new_token).await, Ok(()));
    let next = SigningKey::p256();
    let next_token = next.token("next", &claims("shop", 300));
    for unknown in [&old_token, &next_token] {
        assert_eq!(try_token(&gate, unknown).await, refused("UNVERIFIABLE"));
    }
    // Nothing that is said of a key that is known depends on the others.
    let forged = next.token("new", &claims("shop", 300));
    assert_eq!(try_token(&gate, &forged).await, refused("INVALID"));
    is_replaced_by(&[new.public("new"), next.public("next")]).await;
    assert_eq!(try_token(&gate, &next_token).await, Ok(()));
    assert_eq!(try_token(&gate, &old_token).await, refused("INVALID"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_unknown_keys_fetches_them_once() {
    let key = SigningKey::ed25519();
    let server = KeyServer::new(&key_set(&[key.public("k")]));
    let gate = Gate::new(&behind(&server));
    let good = key.token("k", &claims("shop", 300));
    assert_eq!(try_token(&gate, &good).await, Ok(()));
    let asked = server.asked();
    let mut storm = tokio::task::JoinSet::new();
    for number in 0..100 {
        let calls = gate
            .by(&key.token(&format!("x{number}"), &claims("shop", 300)))
            .await;
        storm.spawn(async move { calls.get("spring").await });
    }
    while let Some(answer) = storm.join_next().await {
        let code = answer.unwrap().unwrap_err().code();
        assert!(
            matches!(code, Code::Unauthenticated | Code::Unavailable),
            "{code:?}"
        );
    }
    // Fetches are ten seconds apart, whatever tokens ask for.
    assert!(server.asked() <= asked + 3, "{} {asked}", server.asked());
    assert_eq!(try_token(&gate, &good).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_does_not_end_the_fetch_of_keys() {
    let (old, new) = (SigningKey::ed25519(), SigningKey::ed25519());
    let server = KeyServer::new(&key_set(&[old.public("old")]));
    let gate = Gate::new(&behind(&server));
    let old_token = old.token("old", &claims("shop", 300));
    assert_eq!(try_token(&gate, &old_token).await, Ok(()));
    server.has(&key_set(&[new.public("new")]));
    server.hold(true);
    let asked = server.asked();
    let new_token = new.token("new", &claims("shop", 300));
    let calls = gate.by(&new_token).await;
    while server.asked() == asked {
        let call = calls.get("spring");
        timeout(Duration::from_millis(50), call).await.ok();
    }
    server.hold(false);
    let are_read = || gate.server.log().matches("issuer cluster are read").count() > 1;
    let reading = async {
        while !are_read() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, reading).await.expect("no keys are read");
    assert_eq!(try_token(&gate, &old_token).await, refused("INVALID"));
    assert_eq!(try_token(&gate, &new_token).await, Ok(()));
}

#[tokio::test]
async fn an_issuer_that_cannot_be_reached_is_no_fault_of_the_token() {
    let key = SigningKey::ed25519();
    let server = KeyServer::new("");
    for response in [
        "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "no HTTP at all",
    ] {
        server.answers(response);
        let gate = Gate::new(&behind(&server));
        let token = key.token("k", &claims("shop", 300));
        assert_eq!(try_token(&gate, &token).await, refused("UNVERIFIABLE"));
        gate.server
            .says("the keys of issuer cluster cannot be read");
        let (_, _, metrics) = gate.server.admin().get("/metrics");
        assert!(!metrics.contains("key_sets_failed_total 0"), "{metrics}");
    }
}

#[tokio::test]
async fn the_key_server_may_ask_for_a_token_of_its_own() {
    let key = SigningKey::ed25519();
    let server = KeyServer::new(&key_set(&[key.public("k")]));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("token"), "abc\n").unwrap();
    let file = directory.path().join("access.yaml");
    let keys = format!("url: \"http://{}/\", tokenFile: token", server.address);
    std::fs::write(&file, hashed(&policy(&keys))).unwrap();
    let data = directory.path().join("data");
    let line = format!("--access {}", file.display());
    let gate = Gate {
        server: Start::on(&data).with(&line).serve(),
        directory: tempfile::tempdir().unwrap(),
    };
    let token = key.token("k", &claims("shop", 300));
    assert_eq!(try_token(&gate, &token).await, Ok(()));
    let heads = server.heads();
    assert!(heads.contains("authorization: Bearer abc"), "{heads}");
}

/// A subject counts only with the issuer that the access file names with it.
#[tokio::test]
async fn a_verified_token_has_the_rights_of_its_identity_alone() {
    let key = SigningKey::ed25519();
    let server = KeyServer::new(&key_set(&[key.public("k")]));
    let gate = Gate::new(&behind(&server));
    let token = key.token("k", &claims("shop", 300));
    is_denied(gate.by(&token).await.draw("spring", "u").await);
    gate.change(&behind(&server).replace("value: shop", "value: other"));
    let answer = gate.by(&token).await.get("spring").await;
    is_unknown(answer, "CREDENTIALS_INVALID");
}
