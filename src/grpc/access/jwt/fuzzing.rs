//! What must hold for tokens that anybody may send, for claims and for key sets.

use serde_json::Value;

use super::{
    Algorithm, claims, is_jwt, issuer_of,
    keys::{KEY_SET_BYTES_MAX, KeySet},
    parts,
};
use crate::{
    grpc::access::policy::{IssuerSettings, KeySource},
    model::Moment,
};

const NOW_S: i64 = 1_800_000_000;

/// A token, not verified. Its parts are those of the text, and what is signed is all before the
/// signature.
pub(in crate::grpc::access) fn token(text: &str) -> bool {
    let issuer = issuer_of(text);
    let Ok(parts) = parts(text) else {
        assert!(issuer.is_err());
        return false;
    };
    assert!(is_jwt(text));
    let (signed, signature) = text.rsplit_once('.').expect("three parts");
    assert_eq!(parts.signed, signed);
    assert!(signed.ends_with(parts.claims));
    assert!(parts.signature.len() <= signature.len());
    let algorithm = Algorithm::of_name(&parts.header.alg);
    let kid = parts.header.kid.as_deref();
    if let (Some(algorithm), Some(kid)) = (algorithm, kid) {
        let set = KeySet::default();
        let verified = set.verifies((kid, algorithm), signed.as_bytes(), &parts.signature);
        assert_eq!(verified, None, "a set without keys verifies nothing");
    }
    issuer.is_ok()
}

/// The claims of a verified token. Whom they name is named by them, for us, and now.
pub(in crate::grpc::access) fn claims(bytes: &[u8]) -> bool {
    let Ok(claims) = serde_json::from_slice::<Value>(bytes) else {
        return false;
    };
    let settings = IssuerSettings {
        name: "issuer".into(),
        issuer: "https://issuer".into(),
        audience: "tombola".into(),
        claim: "sub".into(),
        keys: KeySource::File("/keys".into()),
    };
    let now = Moment::from_micros(NOW_S * 1_000_000);
    let Ok(claimed) = claims::check(&claims, &settings, now) else {
        return false;
    };
    assert!(!claimed.value.is_empty());
    assert_eq!(claims["sub"], claimed.value);
    assert_eq!(claims["iss"], "https://issuer");
    let audiences = match &claims["aud"] {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    assert!(audiences.contains(&"tombola".into()));
    assert!(claims["exp"].as_f64().expect("an end") + 60.0 > NOW_S as f64);
    assert!(claimed.until_s >= NOW_S);
    let begins = claims
        .get("nbf")
        .map(|from| from.as_f64().expect("a number"));
    assert!(begins.is_none_or(|from| from - 60.0 <= NOW_S as f64));
    true
}

/// A key set. What is accepted has a key, and no key verifies any bytes.
pub(in crate::grpc::access) fn key_set(bytes: &[u8]) -> bool {
    if bytes.len() > KEY_SET_BYTES_MAX {
        return false;
    }
    let Ok(set) = KeySet::parse(bytes) else {
        return false;
    };
    let verified = set.verify_all(b"signed", &[7; 64]);
    assert!(!verified.is_empty());
    assert!(verified.iter().all(|verified| !verified));
    true
}
