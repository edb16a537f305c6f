//! The rate of calls of an identity.

use tonic::Code;
use tonic_types::StatusExt as _;

use super::{Gate, reason};

#[tokio::test]
async fn an_identity_that_calls_too_often_is_told_when_to_come_back() {
    let gate = Gate::new(
        r#"
roles: {reader: [read]}
identities:
  - {name: busy, tokens: [{sha256: <busy>}], rate: {perSecond: 1, burst: 3}}
  - {name: calm, tokens: [{sha256: <calm>}]}
bindings:
  - {identity: busy, role: reader, campaigns: ["*"]}
  - {identity: calm, role: reader, campaigns: ["*"]}
"#,
    );
    let (busy, calm) = (gate.by("busy").await, gate.by("calm").await);
    let mut refused = None;
    for _ in 0..100 {
        let status = busy.get("spring").await.unwrap_err();
        if status.code() == Code::ResourceExhausted {
            refused = Some(status);
            break;
        }
    }
    let status = refused.expect("a hundred calls take less than a hundred seconds");
    assert_eq!(reason(Code::ResourceExhausted, &status), "RATE_LIMITED");
    let retry = status
        .get_details_retry_info()
        .unwrap()
        .retry_delay
        .unwrap();
    assert!(!retry.is_zero() && retry.as_secs() <= 1, "{retry:?}");
    for _ in 0..20 {
        assert_eq!(calm.get("spring").await.unwrap_err().code(), Code::NotFound);
    }
}
