//! Packed ids: a UUID as its 16 bytes, any other id as its text.

use super::codec::{Packer, Unpacker};
use crate::store::Result;

/// The two bytes before the 16 of a UUID: the head of a msgpack binary of that length. Other ids
/// are packed as msgpack texts, which begin differently.
const UUID: [u8; 2] = [0xc4, 16];
const HEX: [u8; 16] = *b"0123456789abcdef";
/// The indexes of the hyphens in a UUID's text.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Packs an id, a UUID (in lower case, with hyphens) as its bytes.
pub(crate) fn pack_id(packer: &mut Packer, id: &str) {
    match uuid_bytes(id) {
        Some(uuid) => {
            packer.0.extend(UUID);
            packer.0.extend(uuid);
        }
        None => {
            packer.bytes(id.as_bytes());
        }
    }
}

fn uuid_bytes(id: &str) -> Option<[u8; 16]> {
    let text = id.as_bytes();
    if text.len() != 36 || HYPHENS.iter().any(|&index| text[index] != b'-') {
        return None;
    }
    let mut digits = text
        .iter()
        .enumerate()
        .filter(|(index, _)| !HYPHENS.contains(index))
        .map(|(_, byte)| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        });
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = digits.next()?? * 16 + digits.next()??;
    }
    Some(bytes)
}

/// Reads [`pack_id`].
pub(crate) fn unpack_id(unpacker: &mut Unpacker<'_>) -> Result<String> {
    if !unpacker.take(&UUID) {
        return unpacker.text().map(str::to_owned);
    }
    let mut text = String::with_capacity(36);
    for byte in unpacker.raw(16)? {
        if HYPHENS.contains(&text.len()) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(HEX[usize::from(digit)]));
        }
    }
    Ok(text)
}
