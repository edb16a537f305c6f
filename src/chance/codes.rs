//! Codes of prizes, encrypted: without the master key nobody can read them in a store or in a copy
//! of it.
//!
//! Codes are encrypted in blocks with ChaCha20-Poly1305 (RFC 8439). The key is HMAC-SHA-256, keyed
//! by the master key, of the list `("tombola/codes/1", campaign id, nonce of the campaign)`. The
//! associated data are the list `(prize's number, block's index)`, so a block cannot stand for
//! another one. A sealed block is its nonce (12 bytes), the encrypted codes, each after its length
//! in one byte, and the tag (16 bytes).

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce as AeadNonce, UnboundKey};

use super::seed::{MasterKey, Nonce, hex, hmac_of_list};
use crate::model::{CampaignId, PrizeNo};

/// Separates keys of codes from whatever else the master key signs.
const CODES_LABEL: &[u8] = b"tombola/codes/1";
/// Separates digests of imports from the encryption under the same key.
const IMPORT_LABEL: &[u8] = b"tombola/import/1";
/// Bytes of an import's digest.
const DIGEST_BYTES: usize = 16;

/// The codes of one prize that are encrypted together, by the prize and the block's index.
pub type Place = (PrizeNo, u64);

/// The key of one campaign's codes; a secret.
#[derive(Clone)]
pub struct CodeKey {
    bytes: [u8; 32],
    aead: LessSafeKey,
}

impl MasterKey {
    /// The key of a campaign's codes, as the [module](self) says.
    pub fn codes(&self, campaign: &CampaignId, nonce: &Nonce) -> CodeKey {
        let list = [CODES_LABEL, campaign.as_str().as_bytes(), &nonce.0];
        let bytes = hmac_of_list(self.bytes(), &list);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes);
        let key = key.expect("the key of ChaCha20 has 32 bytes (RFC 8439)");
        CodeKey {
            bytes,
            aead: LessSafeKey::new(key),
        }
    }
}

impl CodeKey {
    /// Encrypts a block of codes, each of at most 255 bytes. `nonce` must be random.
    ///
    /// ```
    /// use tombola::chance::{MasterKey, Nonce};
    /// use tombola::model::{CampaignId, PrizeNo};
    ///
    /// let id = CampaignId::parse("id", "spring").unwrap();
    /// let key = MasterKey::from_bytes([7; 32]).codes(&id, &Nonce([1; 32]));
    /// let place = (PrizeNo(0), 3);
    /// let sealed = key.seal(place, [9; 12], &["CODE-1", "CODE-2"]);
    /// assert_eq!(key.open(place, &sealed).unwrap(), ["CODE-1", "CODE-2"]);
    /// assert_eq!(key.open((PrizeNo(1), 3), &sealed), None);
    /// ```
    pub fn seal(&self, place: Place, nonce: [u8; NONCE_LEN], codes: &[impl AsRef<str>]) -> Vec<u8> {
        let mut block = Vec::new();
        for code in codes {
            let code = code.as_ref().as_bytes();
            block.push(u8::try_from(code.len()).expect("a code has at most 255 bytes"));
            block.extend_from_slice(code);
        }
        let aead_nonce = AeadNonce::assume_unique_for_key(nonce);
        let sealed = self.aead.seal_in_place_append_tag(
            aead_nonce,
            Aad::from(associated(place)),
            &mut block,
        );
        sealed.expect("a block is far shorter than 256 GiB (RFC 8439)");
        [&nonce[..], &block].concat()
    }

    /// The codes of a sealed block; none if it is not the block of this place under this key.
    pub fn open(&self, place: Place, sealed: &[u8]) -> Option<Vec<String>> {
        let (nonce, block) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let nonce = AeadNonce::assume_unique_for_key(*nonce);
        let mut block = block.to_vec();
        let opened = self
            .aead
            .open_in_place(nonce, Aad::from(associated(place)), &mut block);
        let mut rest: &[u8] = opened.ok()?;
        let mut codes = Vec::new();
        while let Some((length, after)) = rest.split_first() {
            let (code, after) = after.split_at_checked(usize::from(*length))?;
            codes.push(String::from_utf8(code.to_vec()).ok()?);
            rest = after;
        }
        Some(codes)
    }

    /// 32 hex digits by which a repeated import is recognised, and which say nothing about its
    /// codes: the first 16 bytes of HMAC-SHA-256, under this key, of the list `("tombola/import/1",
    /// prize's number, index of the first code, codes…)`.
    pub fn digest(&self, prize: PrizeNo, first: u64, codes: &[impl AsRef<str>]) -> String {
        let (prize, first) = (prize.0.to_le_bytes(), first.to_le_bytes());
        let mut list: Vec<&[u8]> = vec![IMPORT_LABEL, &prize, &first];
        list.extend(codes.iter().map(|code| code.as_ref().as_bytes()));
        hex(&hmac_of_list(&self.bytes, &list)[..DIGEST_BYTES])
    }
}

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeKey").finish_non_exhaustive()
    }
}

/// The list of the prize's number and the block's index, as the module `chance` writes lists.
fn associated((prize, block): Place) -> [u8; 26] {
    let mut bytes = [0; 26];
    bytes[..8].copy_from_slice(&2_u64.to_le_bytes());
    bytes[8..10].copy_from_slice(&prize.0.to_le_bytes());
    bytes[10..18].copy_from_slice(&8_u64.to_le_bytes());
    bytes[18..].copy_from_slice(&block.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(campaign: &str, nonce: u8) -> CodeKey {
        let id = CampaignId::parse("campaign", campaign).unwrap();
        MasterKey::from_bytes([7; 32]).codes(&id, &Nonce([nonce; 32]))
    }

    const PLACE: Place = (PrizeNo(2), 5);

    #[test]
    fn a_block_is_read_in_its_place_under_its_key_and_nowhere_else() {
        let codes = ["A", "礼-2", &"x".repeat(255)];
        let sealed = key("spring", 1).seal(PLACE, [3; 12], &codes);
        assert_eq!(key("spring", 1).open(PLACE, &sealed).unwrap(), codes);
        for (other, place) in [
            (key("spring", 1), (PrizeNo(2), 6)),
            (key("spring", 1), (PrizeNo(3), 5)),
            (key("spring", 2), PLACE),
            (key("autumn", 1), PLACE),
        ] {
            assert_eq!(other.open(place, &sealed), None);
        }
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key("spring", 1).open(PLACE, &changed), None, "{at}");
            assert_eq!(key("spring", 1).open(PLACE, &sealed[..at]), None, "{at}");
        }
    }

    #[test]
    fn a_sealed_block_and_a_digest_never_change() {
        let sealed = key("spring", 1).seal(PLACE, [3; 12], &["CODE-1", "CODE-2"]);
        // Computed by another implementation, with Python's `cryptography`.
        let golden = "03030303030303030303030305369e0de15a54152c675c5f5b2f5c07a162d99f8090c27c\
                      fe108d7f10b5";
        assert_eq!(hex(&sealed), golden);
        let digest = key("spring", 1).digest(PrizeNo(2), 64, &["CODE-1", "CODE-2"]);
        assert_eq!(digest, "f584d485693e90aa7fcffc6e77c07ed8");
    }

    #[test]
    fn another_import_has_another_digest() {
        let digest = |prize, first, codes: &[&str]| key("spring", 1).digest(prize, first, codes);
        let one = digest(PrizeNo(0), 0, &["AB", "C"]);
        for other in [
            digest(PrizeNo(1), 0, &["AB", "C"]),
            digest(PrizeNo(0), 1, &["AB", "C"]),
            digest(PrizeNo(0), 0, &["A", "BC"]),
            digest(PrizeNo(0), 0, &["C", "AB"]),
        ] {
            assert_ne!(one, other);
        }
    }
}
