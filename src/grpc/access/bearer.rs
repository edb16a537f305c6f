//! Bearer tokens: where a request has one, and the form of the service's own tokens.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use tonic::codegen::http::{HeaderMap, header::AUTHORIZATION};

use super::{Denial, Secret};
use crate::chance::{hex, unhex};

/// What the service's own tokens begin with, so that scanners of source code find them.
const PREFIX: &str = "tombola_";
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// The longest credential that is looked at, in bytes.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The name of the scheme, which is compared without regard to case (RFC 9110, section 11.1).
const SCHEME: &str = "bearer";

/// SHA-256 of a token: what the policy file and the memory of the service have of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = (text.len() == 64).then(|| unhex(text)).flatten()?;
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// Makes a token of 256 random bits. A hash without salt is enough for so many.
pub fn new_token() -> Secret {
    let bytes: [u8; TOKEN_BYTES] = rand::random();
    Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The token of a request, if it has one.
pub(super) fn token_of(headers: &HeaderMap) -> Result<Option<&str>, Denial> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Denial::Invalid(
            "there are several authorization headers: send one",
        ));
    }
    let value = value.to_str().map_err(|_| {
        Denial::Invalid("the authorization header has characters that no token has")
    })?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(Denial::Invalid(
            "the authorization header is not `Bearer` and a token",
        ));
    }
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    match token {
        "" => Err(Denial::Invalid("the authorization header has no token")),
        long if long.len() > TOKEN_BYTES_MAX => Err(Denial::Invalid("the token is too long")),
        token if token.bytes().all(is_token) => Ok(Some(token)),
        _ => Err(Denial::Invalid(
            "the authorization header has characters that no token has",
        )),
    }
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::HeaderValue;

    use super::*;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_token_is_found_whatever_the_case_of_its_scheme() {
        assert_eq!(token_of(&headers(&[])), Ok(None));
        for value in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(token_of(&headers(&[value.as_bytes()])), Ok(Some("abc")));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("Bearer {}", "x".repeat(TOKEN_BYTES_MAX + 1));
        for values in [
            &[b"Bearer abc".as_slice(), b"Bearer abc"][..],
            &[b"Bearer"],
            &[b"Bearer "],
            &[b""],
            &[b"abc"],
            &[b"Basic YTpi"],
            &[b"Bearer a b"],
            &[b"Bearer a,Bearer b"],
            &[b"Bearer\tabc"],
            &[b"Bearer \xc3\xa9"],
            &[long.as_bytes()],
        ] {
            assert!(token_of(&headers(values)).is_err(), "{values:?}");
        }
    }

    #[test]
    fn tokens_differ_and_only_their_hashes_are_kept() {
        let (one, other) = (new_token(), new_token());
        assert_ne!(one, other);
        let hash = TokenHash::of(one.expose());
        assert_eq!(TokenHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(format!("{hash:?}"), "TokenHash(…)");
        assert_eq!(TokenHash::parse(&"0".repeat(63)), None);
        assert_eq!(TokenHash::parse(&"g".repeat(64)), None);
    }
}
