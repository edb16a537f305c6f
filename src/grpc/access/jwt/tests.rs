use std::{path::PathBuf, sync::Arc};

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    grpc::access::policy::{IssuerSettings, KeySource},
    model::Moment,
};

const NOW_S: i64 = 1_800_000_000;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn ed25519() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn claims() -> Value {
    json!({"iss": "https://issuer", "aud": ["other", "tombola"], "sub": "shop", "exp": NOW_S + 100})
}

/// A token that is signed with the Ed25519 key.
fn signed(header: &Value, claims: &Value) -> String {
    let signed = format!(
        "{}.{}",
        base64(header.to_string()),
        base64(claims.to_string())
    );
    let signature = ed25519().sign(signed.as_bytes());
    format!("{signed}.{}", base64(signature))
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "ed"})
}

/// An issuer with an Ed25519 key and a P-256 key, both named `ed`.
fn issuer() -> (tempfile::TempDir, Arc<Issuer>) {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let p256 = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
    let point = p256.public_key().as_ref();
    let set = json!({"keys": [
        {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64(ed25519().public_key())},
        {"kty": "EC", "crv": "P-256", "kid": "ed", "x": base64(&point[1..33]),
            "y": base64(&point[33..])},
        {"kty": "oct", "kid": "secret", "k": "c2VjcmV0"},
        {"kty": "unheard of"}, 7,
    ]});
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jwks.json");
    std::fs::write(&file, set.to_string()).unwrap();
    (directory, Arc::new(Issuer::new(settings(file))))
}

fn settings(file: PathBuf) -> IssuerSettings {
    IssuerSettings {
        name: "issuer".into(),
        issuer: "https://issuer".into(),
        audience: "tombola".into(),
        claim: "sub".into(),
        keys: KeySource::File(file),
    }
}

async fn verify(token: &str) -> Result<(String, i64), Denial> {
    let (_directory, issuer) = issuer();
    let now = Moment::from_micros(NOW_S * 1_000_000);
    let verified = issuer.verify(token, now).await?;
    assert!(verified.is_current());
    Ok((verified.value.clone(), verified.until_s))
}

#[tokio::test]
async fn a_signed_token_names_its_subject_until_its_end_and_the_leeway() {
    let token = signed(&header(), &claims());
    assert!(is_jwt(&token) && issuer_of(&token).unwrap() == "https://issuer");
    assert_eq!(verify(&token).await, Ok(("shop".into(), NOW_S + 160)));
}

fn with(mut value: Value, name: &str, new: Value) -> Value {
    value[name] = new;
    value
}

#[tokio::test]
async fn claims_that_do_not_fit_are_refused() {
    for (name, value, is_fine) in [
        ("exp", json!(NOW_S - 59), true),
        ("exp", json!(NOW_S - 60), false),
        ("exp", json!((NOW_S - 59) as f64 + 0.5), true),
        ("exp", json!("4000000000"), false),
        ("exp", json!(true), false),
        ("exp", json!(null), false),
        ("exp", json!(1e300), true),
        ("exp", json!(-1e300), false),
        ("nbf", json!(NOW_S + 60), true),
        ("nbf", json!(NOW_S + 61), false),
        ("nbf", json!("0"), false),
        ("aud", json!("tombola"), true),
        ("aud", json!("Tombola"), false),
        ("aud", json!([]), false),
        ("aud", json!({"tombola": 1}), false),
        ("aud", json!(null), false),
        ("iss", json!("https://issuer/"), false),
        ("iss", json!(["https://issuer"]), false),
        ("sub", json!(""), false),
        ("sub", json!(7), false),
    ] {
        let token = signed(&header(), &with(claims(), name, value.clone()));
        let answer = verify(&token).await;
        assert_eq!(answer.is_ok(), is_fine, "{name} {value}: {answer:?}");
    }
    let expired = signed(&header(), &with(claims(), "exp", json!(NOW_S - 100)));
    assert_eq!(verify(&expired).await, Err(Denial::Expired));
}

#[test]
fn an_address_names_nobody_unless_the_issuer_has_verified_it() {
    let settings = IssuerSettings {
        claim: "email".into(),
        ..settings(PathBuf::new())
    };
    let now = Moment::from_micros(NOW_S * 1_000_000);
    for (verified, is_fine) in [
        (json!(true), true),
        (json!("true"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!(1), false),
        (json!(null), false),
    ] {
        let claims = with(claims(), "email", json!("olga@example.org"));
        let claims = with(claims, "email_verified", verified.clone());
        let found = super::claims::check(&claims, &settings, now);
        let found = found.map(|claimed| claimed.value);
        assert_eq!(found.is_ok(), is_fine, "{verified}: {found:?}");
    }
}

#[tokio::test]
async fn a_token_cannot_choose_how_it_is_verified() {
    for header in [
        json!({"alg": "none", "kid": "ed"}),
        json!({"alg": "None", "kid": "ed"}),
        json!({"alg": "HS256", "kid": "ed"}),
        json!({"alg": "HS256", "kid": "secret"}),
        json!({"alg": "ES256", "kid": "ed"}),
        json!({"alg": "RS256", "kid": "ed"}),
        json!({"alg": "eddsa", "kid": "ed"}),
        json!({"alg": "EdDSA", "kid": "other"}),
        json!({"alg": "EdDSA", "kid": ""}),
        json!({"alg": "EdDSA"}),
        json!({"alg": "EdDSA", "kid": "ed", "crit": ["b64"], "b64": false}),
        json!({"alg": ["EdDSA"], "kid": "ed"}),
        json!({"kid": "ed"}),
    ] {
        let answer = verify(&signed(&header, &claims())).await;
        assert!(
            matches!(answer, Err(Denial::Invalid(_))),
            "{header}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_was_changed_is_refused() {
    let token = signed(&header(), &claims());
    let parts: Vec<&str> = token.split('.').collect();
    let other = base64(with(claims(), "sub", json!("root")).to_string());
    for changed in [
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{token}.{}", parts[2]),
        format!("{token}="),
        format!("..{}", parts[2]),
        format!("{}.{}.{}", parts[0], parts[1], base64([0; 64])),
        "a.b.c".into(),
        "..".into(),
    ] {
        let answer = verify(&changed).await;
        assert!(
            matches!(answer, Err(Denial::Invalid(_))),
            "{changed}: {answer:?}"
        );
    }
}

#[test]
fn a_key_set_without_a_usable_key_is_refused() {
    for bad in [
        "",
        "{}",
        r#"{"keys": []}"#,
        r#"{"keys": [{"kty": "oct", "kid": "a", "k": "AA"}]}"#,
        r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AA"}]}"#,
        r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AA", "use": "enc"}]}"#,
        r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AA", "alg": "RS256"}]}"#,
        r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": "AA", "y": "AA"}]}"#,
        r#"{"keys": [{"kty": "EC", "crv": "P-384", "kid": "a", "x": "AA", "y": "AA"}]}"#,
    ] {
        assert!(keys::KeySet::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}
