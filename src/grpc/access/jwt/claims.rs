//! The claims of a token, once its signature is verified.

use serde_json::Value;

use crate::{
    grpc::access::{Denial, policy::IssuerSettings},
    model::Moment,
};

/// How far the clocks of the issuer and of this service may differ, in seconds.
const LEEWAY_S: f64 = 60.0;
/// The latest moment that a double holds to the second; later ones are cut.
const SECONDS_MAX: f64 = 9e15;

/// Whom the claims name, and until when.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    /// The value of the claim that names the identity.
    pub(super) value: String,
    /// When the token ends, with the leeway, in seconds since the Unix epoch.
    pub(super) until_s: i64,
}

/// Checks the claims.
pub(super) fn check(
    claims: &Value,
    settings: &IssuerSettings,
    now: Moment,
) -> Result<Claimed, Denial> {
    let now_s = now.as_micros() as f64 / 1e6;
    if claims["iss"].as_str() != Some(&settings.issuer) {
        return Err(Denial::Invalid(
            "no issuer of the access file has signed it",
        ));
    }
    let audience = Some(settings.audience.as_str());
    let is_for_us = match &claims["aud"] {
        Value::Array(all) => all.iter().any(|one| one.as_str() == audience),
        one => one.as_str() == audience,
    };
    if !is_for_us {
        return Err(Denial::Invalid("the token is for another audience"));
    }
    let until_s = seconds(claims, "exp")?.ok_or(Denial::Invalid("the token has no end (`exp`)"))?;
    if until_s + LEEWAY_S <= now_s {
        return Err(Denial::Expired);
    }
    if seconds(claims, "nbf")?.is_some_and(|from_s| from_s - LEEWAY_S > now_s) {
        return Err(Denial::Invalid("the token is not valid yet (`nbf`)"));
    }
    let value = claims[&settings.claim].as_str().unwrap_or_default();
    if value.is_empty() {
        return Err(Denial::Invalid(
            "the token lacks the claim that names the identity",
        ));
    }
    if settings.claim == "email" && !is_email_verified(claims) {
        return Err(Denial::Invalid(
            "the issuer of the token has not verified its `email` (`email_verified`)",
        ));
    }
    Ok(Claimed {
        value: value.into(),
        until_s: (until_s + LEEWAY_S).min(SECONDS_MAX) as i64,
    })
}

/// Whether the issuer says that the address is that of the subject: otherwise it may be any that
/// the subject has typed (OpenID Connect Core 1.0, section 5.7). Some issuers say it as a text.
fn is_email_verified(claims: &Value) -> bool {
    match &claims["email_verified"] {
        Value::Bool(is_verified) => *is_verified,
        Value::String(text) => text == "true",
        _ => false,
    }
}

/// A claim that is a number of seconds since the Unix epoch (RFC 7519, NumericDate).
fn seconds(claims: &Value, name: &str) -> Result<Option<f64>, Denial> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(_) => Err(Denial::Invalid("a time in the token is no number")),
    }
}
