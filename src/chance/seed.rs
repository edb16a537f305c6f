//! Seeds: derived from a master key, a nonce and an id; their commitment is public from the start,
//! the seed after the end.
//!
//! Keys and seeds are secrets: nothing here prints them but [`Seed::reveal`], whose name says so.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::stream::Stream;
use crate::model::{CampaignId, EnvelopeId};

/// Separates the fingerprint from whatever else the master key will ever sign.
const FINGERPRINT_LABEL: &[u8] = b"tombola/fingerprint/1";
/// Separates seeds of campaigns from other seeds.
const CAMPAIGN_LABEL: &[u8] = b"tombola/campaign/1";
/// Separates seeds of envelopes from other seeds.
const ENVELOPE_LABEL: &[u8] = b"tombola/envelope/1";
/// Separates the seeds of a store's forks from the streams of the seed itself.
const FORK_LABEL: &[u8] = b"tombola/fork/1";

/// Separates the key of the console's sessions from seeds.
const CONSOLE_LABEL: &[u8] = b"tombola/console/1";

/// The secret from which every seed is derived, 32 bytes. Who has it knows every draw to come.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// The key of these bytes, which should come from a good source of randomness.
    ///
    /// ```
    /// use tombola::chance::{MasterKey, Nonce};
    /// use tombola::model::CampaignId;
    ///
    /// let key = MasterKey::from_bytes([7; 32]);
    /// let id = CampaignId::parse("id", "spring-wheel").unwrap();
    /// let seed = key.campaign_seed(&id, &Nonce([1; 32]));
    /// assert_ne!(seed.reveal(), key.campaign_seed(&id, &Nonce([2; 32])).reveal());
    /// ```
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 16 lower-case hex digits that distinguish keys and say nothing about them, so that a lost or
    /// changed key is noticed.
    ///
    /// The first 8 bytes of HMAC-SHA-256 (RFC 2104), keyed by the master key, of the list
    /// `("tombola/fingerprint/1")`, encoded as the [module](super) says.
    ///
    /// ```
    /// use tombola::chance::MasterKey;
    /// assert_eq!(MasterKey::from_bytes([0; 32]).fingerprint(), "c5413386d4057f9e");
    /// ```
    pub fn fingerprint(&self) -> String {
        hex(&hmac_of_list(&self.0, &[FINGERPRINT_LABEL])[..8])
    }

    /// The key under which the console encrypts its sessions, the same at every service of a store:
    /// HMAC-SHA-256, keyed by the master key, of the list `("tombola/console/1")`, encoded as the
    /// [module](super) says.
    pub fn console_key(&self) -> [u8; 32] {
        hmac_of_list(&self.0, &[CONSOLE_LABEL])
    }

    /// The seed of a campaign: HMAC-SHA-256, keyed by the master key, of the list
    /// `("tombola/campaign/1", id, nonce)`, encoded as the [module](super) says.
    ///
    /// The nonce makes it a new seed even if an id would be used again with the same key.
    pub fn campaign_seed(&self, id: &CampaignId, nonce: &Nonce) -> Seed {
        let list = [CAMPAIGN_LABEL, id.as_str().as_bytes(), &nonce.0];
        Seed(hmac_of_list(&self.0, &list))
    }

    /// The seed of an envelope: as [`Self::campaign_seed`], of the list `("tombola/envelope/1", id,
    /// nonce)`.
    pub fn envelope_seed(&self, id: &EnvelopeId, nonce: &Nonce) -> Seed {
        let list = [ENVELOPE_LABEL, id.as_str().as_bytes(), &nonce.0];
        Seed(hmac_of_list(&self.0, &list))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").finish_non_exhaustive()
    }
}

/// 32 random bytes made for one campaign or envelope, kept in the store; not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; 32]);

impl Nonce {
    /// As 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }

    /// From what [`Self::to_hex`] gives; none if it is something else.
    ///
    /// ```
    /// use tombola::chance::Nonce;
    /// let nonce = Nonce([0x1f; 32]);
    /// assert_eq!(Nonce::from_hex(&nonce.to_hex()), Some(nonce));
    /// assert_eq!(Nonce::from_hex("1f"), None);
    /// ```
    pub fn from_hex(text: &str) -> Option<Self> {
        unhex(text)?.try_into().ok().map(Self)
    }
}

/// All the chance of one campaign or envelope, 32 bytes; secret until it has ended.
#[derive(Clone)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed of these bytes, for instance a revealed one.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The SHA-256 (FIPS 180-4) of the seed's 32 bytes as 64 lower-case hex digits: published
    /// before the first draw, it binds the operator to the seed without revealing it.
    ///
    /// ```
    /// use tombola::chance::Seed;
    /// let seed = Seed::from_bytes([0; 32]);
    /// let commitment = "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925";
    /// assert_eq!(seed.commitment(), commitment);
    /// ```
    pub fn commitment(&self) -> String {
        hex(&Sha256::digest(self.0))
    }

    /// The seed itself as 64 lower-case hex digits: only for those who may know every draw.
    pub fn reveal(&self) -> String {
        hex(&self.0)
    }

    /// The seed of what is injected or dealt while the store is in the fork with this mark. It is
    /// the seed itself before the first fork (mark 0), else HMAC-SHA-256, keyed by the seed, of the
    /// list `("tombola/fork/1", mark)`, encoded as the [module](super) says.
    ///
    /// A store that loses its last entries in a failover may freeze the same window, or deal the
    /// same chunk, a second time. Under another fork it gets other moments and other cards.
    ///
    /// ```
    /// use tombola::chance::Seed;
    /// let seed = Seed::from_bytes([0; 32]);
    /// assert_eq!(seed.of_fork(0).reveal(), seed.reveal());
    /// assert_ne!(seed.of_fork(1).reveal(), seed.of_fork(2).reveal());
    /// ```
    #[must_use]
    pub fn of_fork(&self, mark: u32) -> Self {
        match mark {
            0 => self.clone(),
            mark => Self(hmac_of_list(&self.0, &[FORK_LABEL, &mark.to_le_bytes()])),
        }
    }

    /// The stream of numbers that this label names: the keystream of ChaCha20, keyed by
    /// HMAC-SHA-256 of the label, itself keyed by the seed. The label is encoded as the
    /// [module](super) says.
    ///
    /// Streams of different labels are independent of each other for anyone who does not have the
    /// seed.
    ///
    /// ```
    /// use tombola::chance::Seed;
    /// let seed = Seed::from_bytes([0; 32]);
    /// let first = seed.stream(&[b"ab", b"c"]).next_u64();
    /// assert_eq!(first, seed.stream(&[b"ab", b"c"]).next_u64());
    /// assert_ne!(first, seed.stream(&[b"a", b"bc"]).next_u64());
    /// ```
    pub fn stream(&self, label: &[&[u8]]) -> Stream {
        Stream::of_key(&hmac_of_list(&self.0, label))
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").finish_non_exhaustive()
    }
}

/// HMAC-SHA-256 of a list of byte strings, each after its length, so that different lists are
/// different messages.
pub(super) fn hmac_of_list(key: &[u8; 32], list: &[&[u8]]) -> [u8; 32] {
    finish_list(keyed(key), list)
}

/// HMAC-SHA-256 under a key, before any message.
pub(super) fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length (RFC 2104)")
}

/// [`hmac_of_list`] under the key of a begun HMAC.
pub(super) fn finish_list(mut mac: Hmac<Sha256>, list: &[&[u8]]) -> [u8; 32] {
    for part in list {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Lower-case hex digits, two for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// The bytes of hex digits, two for each byte; none if the text is something else.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let starts = (0..digits.len()).step_by(2);
    starts
        .map(|start| u8::from_str_radix(&text[start..start + 2], 16).ok())
        .collect()
}
