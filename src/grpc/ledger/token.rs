//! Tokens of pages. A token is bound to its store, its list and its filters: for others it is
//! refused, instead of giving a page that fits nothing.

use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::{
    chance::{hex, unhex},
    ledger::read::Position,
    model::Moment,
    store::LedgerId,
};

/// The first byte of every token; another form gets another one.
const FORM: u8 = 1;
/// Bytes of the digest of what a token belongs to, and of the digest of the token itself.
const DIGEST_BYTES: usize = 8;
/// Stands for a list that is complete.
const COMPLETE: i64 = -1;

/// What a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding([u8; DIGEST_BYTES]);

impl Binding {
    /// To a list of this store with these filters: a request without its page.
    pub(super) fn new(store_id: &str, list: &str, filters: &impl Message) -> Self {
        Self(digest(&[
            store_id.as_bytes(),
            list.as_bytes(),
            &filters.encode_to_vec(),
        ]))
    }
}

/// From where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The last element that was looked at.
    pub(super) after: Position,
    /// The moment until which the list is complete, if it is not complete as a whole.
    pub(super) complete_until: Option<Moment>,
}

impl Token {
    /// The token as clients get it.
    pub(super) fn encode(&self, binding: Binding) -> String {
        let Position { at, id, index } = self.after;
        let until = self.complete_until.map_or(COMPLETE, Moment::as_micros);
        let mut bytes = vec![FORM];
        bytes.extend(binding.0);
        bytes.extend(at.as_micros().to_be_bytes());
        bytes.extend(id.partition.to_be_bytes());
        bytes.extend(id.sequence.to_be_bytes());
        bytes.extend(index.to_be_bytes());
        bytes.extend(until.to_be_bytes());
        let check = digest(&[&bytes]);
        bytes.extend(check);
        hex(&bytes)
    }

    /// Reads a client's token; what is wrong with it if it is not one of this list.
    pub(super) fn decode(text: &str, binding: Binding) -> Result<Self, &'static str> {
        const FOREIGN: &str = "is not a token that this service gave: begin without one";
        let (token, of) = parse(text).ok_or(FOREIGN)?;
        if of != binding {
            return Err(
                "belongs to another list, or to other filters: keep the filters of the first page, \
                 or begin without a token",
            );
        }
        Ok(token)
    }
}

fn parse(text: &str) -> Option<(Token, Binding)> {
    let bytes = bytes(text)?;
    let (body, check) = bytes.split_last_chunk::<DIGEST_BYTES>()?;
    if digest(&[body]) != *check {
        return None;
    }
    let (form, rest) = body.split_first()?;
    let (binding, rest) = rest.split_first_chunk()?;
    let (at, rest) = rest.split_first_chunk()?;
    let (partition, rest) = rest.split_first_chunk()?;
    let (sequence, rest) = rest.split_first_chunk()?;
    let (index, rest) = rest.split_first_chunk()?;
    let (until, rest) = rest.split_first_chunk()?;
    if *form != FORM || !rest.is_empty() {
        return None;
    }
    let id = LedgerId {
        partition: u32::from_be_bytes(*partition),
        sequence: u64::from_be_bytes(*sequence),
    };
    let after = Position {
        at: Moment::from_micros(i64::from_be_bytes(*at)),
        id,
        index: u16::from_be_bytes(*index),
    };
    let until = i64::from_be_bytes(*until);
    let complete_until = (until != COMPLETE).then(|| Moment::from_micros(until));
    let token = Token {
        after,
        complete_until,
    };
    Some((token, Binding(*binding)))
}

/// Bytes from hexadecimal digits, no more than a token has.
fn bytes(text: &str) -> Option<Vec<u8>> {
    const DIGITS_MAX: usize = 256;
    (text.len() <= DIGITS_MAX).then(|| unhex(text)).flatten()
}

/// The first bytes of SHA-256 over parts and their lengths.
fn digest(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&sha.finalize()[..DIGEST_BYTES]);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ListWinsRequest;

    fn binding(user: &str) -> Binding {
        let filters = ListWinsRequest {
            user_id: user.into(),
            ..ListWinsRequest::default()
        };
        Binding::new("store", "wins", &filters)
    }

    fn token(complete_until: Option<Moment>) -> Token {
        Token {
            after: Position {
                at: Moment::from_micros(1_795_960_801_000_001),
                id: LedgerId {
                    partition: 7,
                    sequence: 1 << 40,
                },
                index: 99,
            },
            complete_until,
        }
    }

    #[test]
    fn a_token_reads_back_for_the_same_filters_only() {
        for until in [None, Some(Moment::EPOCH), Some(Moment::from_micros(5))] {
            let text = token(until).encode(binding("u1"));
            assert_eq!(Token::decode(&text, binding("u1")), Ok(token(until)));
            let error = Token::decode(&text, binding("u2")).unwrap_err();
            assert!(error.contains("other filters"), "{error}");
        }
    }

    #[test]
    fn no_other_text_is_a_token() {
        let good = token(None).encode(binding("u"));
        let mut bad = vec![
            "x".to_owned(),
            "00".into(),
            "packet-7".into(),
            "é".into(),
            "+f".repeat(51),
            good[2..].into(),
            good.clone() + "00",
            "ab".repeat(100_000),
        ];
        for index in 0..good.len() {
            let mut changed = good.clone().into_bytes();
            changed[index] = if changed[index] == b'0' { b'1' } else { b'0' };
            bad.push(String::from_utf8(changed).unwrap());
        }
        for text in bad {
            let error = Token::decode(&text, binding("u")).unwrap_err();
            assert!(error.contains("not a token"), "{text}: {error}");
        }
    }
}
