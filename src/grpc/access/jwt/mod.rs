//! JSON Web Tokens (RFC 7519) that others have signed: parsed, verified, and their keys.
//!
//! A token is verified with ring. There are three algorithms, and the key decides which of them it
//! is for, so a token cannot choose another one. Whatever a token says before its signature is
//! verified serves only to find the key.

mod claims;
mod fetch;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
mod issuer;
mod keys;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, de::DeserializeOwned};

pub(super) use self::issuer::{Issuer, Verified};
use self::keys::Algorithm;
use super::Denial;

/// The parts of a token, not verified.
struct Parts<'a> {
    header: Header,
    /// The bytes that are signed.
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

/// The header of a token.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<serde_json::Value>,
}

/// Whether a bearer token has the form of a JSON Web Token.
pub(super) fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The claim `iss`, not verified: it only says whose keys to try.
pub(super) fn issuer_of(token: &str) -> Result<String, Denial> {
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
    }
    let claims: Claims = json(parts(token)?.claims)?;
    Ok(claims.iss)
}

fn parts(token: &str) -> Result<Parts<'_>, Denial> {
    let mut split = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) =
        (split.next(), split.next(), split.next(), split.next())
    else {
        return Err(MALFORMED);
    };
    let signed = token.get(..header.len() + 1 + claims.len());
    let header: Header = json(header)?;
    if header.crit.is_some() {
        return Err(Denial::Invalid(
            "the token's header has `crit`, which is not supported",
        ));
    }
    Ok(Parts {
        header,
        signed: signed.ok_or(MALFORMED)?,
        claims,
        signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| MALFORMED)?,
    })
}

fn json<T: DeserializeOwned>(part: &str) -> Result<T, Denial> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED)?;
    serde_json::from_slice(&bytes).map_err(|_| MALFORMED)
}

const MALFORMED: Denial = Denial::Invalid("the token is no JSON Web Token that can be read");

#[cfg(test)]
mod tests;
