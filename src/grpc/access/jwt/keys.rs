//! Key sets (RFC 7517): the public keys of an issuer.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;

/// The most bytes of a key set.
pub(super) const KEY_SET_BYTES_MAX: usize = 1 << 20;
/// The most keys of a set that are kept.
const KEYS_MAX: usize = 1_000;
/// The bytes of a coordinate on the curve P-256.
const P256_BYTES: usize = 32;
/// What an uncompressed point begins with (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// An algorithm of signatures (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// The algorithm of a name; no others are known, `none` least of all.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A public key, which is for one algorithm.
#[derive(Debug)]
enum Key {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Key {
    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(signed, signature)
                .is_ok(),
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key)
                .verify(signed, signature)
                .is_ok(),
        }
    }
}

/// The keys of an issuer, by `kid` and algorithm.
#[derive(Debug, Default)]
pub(super) struct KeySet(HashMap<(String, Algorithm), Key>);

#[derive(Deserialize)]
struct SetFile {
    keys: Vec<serde_json::Value>,
}

/// A key of a set. Keys of other forms are passed over: sets may have keys for other purposes.
#[derive(Deserialize)]
struct KeyFile {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a key set.
    ///
    /// # Errors
    /// It is none, or has no key that can be used.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let set: SetFile = serde_json::from_slice(bytes)
            .map_err(|error| format!("it is no JSON Web Key Set: {error}"))?;
        let mut keys = HashMap::new();
        for key in set.keys.into_iter().take(KEYS_MAX) {
            let usable = serde_json::from_value(key).ok().and_then(usable);
            if let Some((kid, key)) = usable {
                keys.entry((kid, key.algorithm())).or_insert(key);
            }
        }
        if keys.is_empty() {
            return Err(
                "it has no key for RS256, ES256 or EdDSA with a `kid`: tokens are verified with \
                 these"
                    .into(),
            );
        }
        Ok(Self(keys))
    }

    /// Whether a key verifies a signature; none if the set does not have the key.
    pub(super) fn verifies(
        &self,
        (kid, algorithm): (&str, Algorithm),
        signed: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let key = self.0.get(&(kid.to_owned(), algorithm))?;
        Some(key.verifies(signed, signature))
    }

    /// Whether each of the keys verifies a signature.
    #[cfg(any(test, fuzzing))]
    pub(super) fn verify_all(&self, signed: &[u8], signature: &[u8]) -> Vec<bool> {
        let keys = self.0.values();
        keys.map(|key| key.verifies(signed, signature)).collect()
    }
}

/// The key of an entry, if tokens can be signed with it.
fn usable(file: KeyFile) -> Option<(String, Key)> {
    let decode = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
    if file
        .purpose
        .as_deref()
        .is_some_and(|purpose| purpose != "sig")
    {
        return None;
    }
    let key = match (file.kty.as_str(), file.crv.as_deref()) {
        ("RSA", _) => Key::Rsa {
            n: decode(&file.n)?,
            e: decode(&file.e)?,
        },
        ("EC", Some("P-256")) => {
            let (x, y) = (decode(&file.x)?, decode(&file.y)?);
            if x.len() != P256_BYTES || y.len() != P256_BYTES {
                return None;
            }
            Key::P256([&[UNCOMPRESSED], x.as_slice(), y.as_slice()].concat())
        }
        ("OKP", Some("Ed25519")) => Key::Ed25519(decode(&file.x)?),
        _ => return None,
    };
    let is_for = |alg: &String| Algorithm::of_name(alg) == Some(key.algorithm());
    let fits = file.alg.as_ref().is_none_or(is_for);
    file.kid.filter(|_| fits).map(|kid| (kid, key))
}
