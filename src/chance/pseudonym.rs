//! Pseudonyms: what stands for people in the ledger's canonical bytes.
//!
//! Each is derived in three steps, so that the middle key proves one id and no other, and so that
//! nobody can prove any once the salt is destroyed.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::seed::{MasterKey, finish_list, hex, hmac_of_list, keyed};

/// Separates keys of pseudonyms from whatever else the master key signs.
const PSEUDONYM_LABEL: &[u8] = b"tombola/pseudonym/1";

/// 32 random bytes made for one campaign, or for all other entries of a partition. Once they are
/// destroyed, the pseudonyms derived from them are final.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 32]);

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salt").finish_non_exhaustive()
    }
}

/// What a pseudonym stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A user's id.
    User,
    /// A request id.
    Request,
    /// A reference of a payment.
    Payment,
    /// An operator's id.
    Operator,
    /// Text that a person wrote.
    Text,
}

impl Kind {
    /// The name in the derivation.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Request => "request",
            Self::Payment => "payment",
            Self::Operator => "operator",
            Self::Text => "text",
        }
    }
}

/// The key of one campaign's pseudonyms; a secret. It is kept as an HMAC that has begun with it.
#[derive(Clone)]
pub struct Pseudonyms(Hmac<Sha256>);

impl MasterKey {
    /// The key of a campaign's pseudonyms: HMAC-SHA-256, keyed by the master key, of the list
    /// `("tombola/pseudonym/1", campaign id, salt)`, encoded as the [module](super) says. The id is
    /// empty for entries of envelopes and of the partition itself.
    pub fn pseudonyms(&self, campaign: &str, salt: &Salt) -> Pseudonyms {
        let list = [PSEUDONYM_LABEL, campaign.as_bytes(), &salt.0];
        Pseudonyms(keyed(&hmac_of_list(self.bytes(), &list)))
    }
}

impl Pseudonyms {
    /// The key of one id: HMAC-SHA-256 of the list `(kind, id)`. Who gets it can check this id's
    /// pseudonym and derive no other.
    pub fn key_of(&self, kind: Kind, id: &str) -> [u8; 32] {
        finish_list(self.0.clone(), &[kind.name().as_bytes(), id.as_bytes()])
    }

    /// The pseudonym of an id, 64 lower-case hex digits.
    pub fn of(&self, kind: Kind, id: &str) -> String {
        pseudonym(&self.key_of(kind, id), id)
    }
}

impl fmt::Debug for Pseudonyms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pseudonyms").finish_non_exhaustive()
    }
}

/// The pseudonym of an id under the key of this id: HMAC-SHA-256 (RFC 2104) of the id's bytes, as
/// 64 lower-case hex digits.
///
/// ```
/// use tombola::chance::{Kind, MasterKey, Salt, pseudonym};
/// let of_campaign = MasterKey::from_bytes([7; 32]).pseudonyms("spring", &Salt([1; 32]));
/// let key = of_campaign.key_of(Kind::User, "user-1");
/// assert_eq!(pseudonym(&key, "user-1"), of_campaign.of(Kind::User, "user-1"));
/// assert_ne!(pseudonym(&key, "user-2"), of_campaign.of(Kind::User, "user-2"));
/// ```
pub fn pseudonym(key_of_id: &[u8; 32], id: &str) -> String {
    let mut mac = keyed(key_of_id);
    mac.update(id.as_bytes());
    hex(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_never_change() {
        let of_campaign = MasterKey::from_bytes([7; 32]).pseudonyms("spring", &Salt([1; 32]));
        for (kind, golden) in [
            (
                Kind::User,
                "bb72acf28ac9eaaabdf0702ee317bd5b0692a8360bc93db71cb6d4c671dc6805",
            ),
            (
                Kind::Request,
                "3859bb7a0ef2eee75aae5f058f4b5c1df813aa87bf7d0a66b2a83c1321a99a27",
            ),
        ] {
            assert_eq!(of_campaign.of(kind, "a"), golden);
        }
        let of_other = MasterKey::from_bytes([7; 32]).pseudonyms("spring", &Salt([2; 32]));
        assert_ne!(
            of_other.of(Kind::User, "a"),
            of_campaign.of(Kind::User, "a")
        );
    }
}
