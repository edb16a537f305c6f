//! What must hold for all that says who calls and what a caller may do: policy files, headers,
//! tokens, key sets and certificates.

use std::path::Path;

use tonic::{
    Request,
    codegen::http::{HeaderMap, HeaderValue, header::AUTHORIZATION},
    service::Interceptor as _,
};

use super::{Credentials, Permission, Policy, TokenHash, bearer::token_of, jwt};
use crate::{fuzzing::fields, tls::Peer};

/// A policy file, a header, a token, claims, a key set, a hash, a certificate or a token file; the
/// first byte says which.
pub(crate) fn token(data: &[u8]) -> bool {
    let Some((kind, bytes)) = data.split_first() else {
        return false;
    };
    let text = std::str::from_utf8(bytes);
    match kind % 8 {
        0 => text.is_ok_and(policy),
        1 => headers(bytes),
        2 => text.is_ok_and(jwt::fuzzing::token),
        3 => jwt::fuzzing::claims(bytes),
        4 => jwt::fuzzing::key_set(bytes),
        5 => text.is_ok_and(hash),
        6 => certificate(bytes),
        _ => text.is_ok_and(token_file),
    }
}

/// A policy gives an identity only what a binding gives it, and never on nothing.
fn policy(text: &str) -> bool {
    let Ok(policy) = Policy::parse(text, Path::new("/etc/tombola")) else {
        return false;
    };
    let again = Policy::parse(text, Path::new("/etc/tombola")).expect("it was read before");
    assert!(policy.identities().count() > 0);
    for identity in policy.identities() {
        let other = again
            .identity(identity.name.as_str())
            .expect("the same identity");
        for permission in Permission::ALL {
            let grant = identity.grant(permission);
            assert_eq!(grant, other.grant(permission));
            let Some(grant) = grant else {
                assert!(!identity.may_on_campaign(permission, "c"));
                assert!(!identity.may_on_sender(permission, "u"));
                assert!(!identity.may_on_store(permission));
                continue;
            };
            assert!(!grant.campaigns.is_empty() || !grant.senders.is_empty());
            let on_all = grant.campaigns.are_all() && identity.may_on_campaign(permission, "c");
            assert_eq!(grant.campaigns.are_all(), on_all);
        }
    }
    true
}

/// The headers of a request, each a field. A token is found only if there is one header, whose
/// text it is but for the name of the scheme.
fn headers(bytes: &[u8]) -> bool {
    let mut headers = HeaderMap::new();
    for field in fields(bytes) {
        if let Ok(value) = HeaderValue::from_bytes(field) {
            headers.append(AUTHORIZATION, value);
        }
    }
    let Ok(Some(token)) = token_of(&headers) else {
        return false;
    };
    assert_eq!(headers.len(), 1);
    let value = headers[AUTHORIZATION].to_str().expect("visible characters");
    assert_eq!(value[..7].to_ascii_lowercase(), "bearer ");
    assert_eq!(value[7..].trim_matches(' '), token);
    assert!(!token.is_empty() && token.len() <= 8 * 1024);
    assert!(
        token
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b',')
    );
    true
}

fn hash(text: &str) -> bool {
    let Some(hash) = TokenHash::parse(text) else {
        return false;
    };
    assert_eq!(hash.to_string(), text.to_ascii_lowercase());
    assert!(!format!("{hash:?}").contains(text));
    true
}

/// A certificate, whose names are read after the handshake has verified it.
fn certificate(bytes: &[u8]) -> bool {
    let peer = Peer::of(bytes);
    assert_eq!(peer.fingerprint.len(), 64);
    if let Some(spiffe) = &peer.spiffe {
        assert!(spiffe.starts_with("spiffe://"));
        assert!(spiffe.chars().all(|c| c.is_ascii_graphic() && c != '%'));
    }
    peer.spiffe.is_some() || peer.subject.is_some()
}

/// A token file. What a client takes for a token, the server takes for the same token.
fn token_file(text: &str) -> bool {
    let Ok(mut credentials) = Credentials::of(text) else {
        return false;
    };
    let request = credentials
        .call(Request::new(()))
        .expect("it only adds a header");
    let headers = request.metadata().clone().into_headers();
    assert_eq!(
        token_of(&headers).expect("a header with a token"),
        Some(text.trim())
    );
    true
}
