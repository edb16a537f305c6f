//! Cursors of streams, as clients get them: opaque text, bound to its store.

use sha2::{Digest as _, Sha256};

use crate::{
    chance::{hex, unhex},
    ledger::follow::{Positions, Seen},
};

/// The first byte of every cursor; another form gets another one.
const FORM: u8 = 1;
/// Bytes of the digest of the store and of the cursor itself.
const DIGEST_BYTES: usize = 8;
/// Bytes of a position: partition, number, fork.
const POSITION_BYTES: usize = 16;
/// The most partitions of a store, for the bound on a cursor's length.
const PARTITIONS_MAX: usize = 1024;

/// The cursor as clients get it.
pub(super) fn encode(positions: &Positions, store_id: &str) -> String {
    let mut bytes = vec![FORM];
    for (partition, seen) in positions {
        if seen.sequence > 0 {
            bytes.extend(partition.to_be_bytes());
            bytes.extend(seen.sequence.to_be_bytes());
            bytes.extend(seen.fork.to_be_bytes());
        }
    }
    let digest = digest(&bytes, store_id);
    bytes.extend(digest);
    hex(&bytes)
}

/// Reads a client's cursor; none if it is not one of this store.
pub(super) fn decode(text: &str, store_id: &str) -> Option<Positions> {
    let bytes = bytes(text)?;
    let (body, check) = bytes.split_last_chunk::<DIGEST_BYTES>()?;
    let (form, positions) = body.split_first()?;
    if *form != FORM || digest(body, store_id) != *check {
        return None;
    }
    let (positions, rest) = positions.as_chunks::<POSITION_BYTES>();
    let positions = rest.is_empty().then_some(positions)?.iter();
    let position = |bytes: &[u8; POSITION_BYTES]| {
        let (partition, rest) = bytes.split_first_chunk()?;
        let (sequence, fork) = rest.split_first_chunk()?;
        let seen = Seen {
            sequence: u64::from_be_bytes(*sequence),
            fork: u32::from_be_bytes(fork.try_into().ok()?),
        };
        Some((u32::from_be_bytes(*partition), seen))
    };
    positions.map(position).collect()
}

fn digest(bytes: &[u8], store_id: &str) -> [u8; DIGEST_BYTES] {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hash.update(store_id);
    let hash: [u8; 32] = hash.finalize().into();
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&hash[..DIGEST_BYTES]);
    digest
}

/// Bytes from hexadecimal digits, no more than a cursor has.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits_max = 2 * (1 + PARTITIONS_MAX * POSITION_BYTES + DIGEST_BYTES);
    (text.len() <= digits_max).then(|| unhex(text)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_in_its_store_alone() {
        let seen = |sequence, fork| Seen { sequence, fork };
        let positions = Positions::from([(0, seen(7, 0)), (15, seen(1 << 40, 0x00ab_cdef))]);
        let text = encode(&positions, "store");
        assert_eq!(decode(&text, "store"), Some(positions));
        assert_eq!(decode(&text, "other"), None);
        for end in [0, 2, text.len() - 2] {
            assert_eq!(decode(&text[..end], "store"), None);
        }
        assert_eq!(decode("zz", "store"), None);
        let empty = Positions::new();
        assert_eq!(decode(&encode(&empty, "store"), "store"), Some(empty));
    }
}
