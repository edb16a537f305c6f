//! What must hold for cursors of streams and tokens of lists.

use super::{
    cursor,
    token::{Binding, Token},
};
use crate::{
    ledger::{
        follow::{Positions, Seen},
        read::Position,
    },
    model::{Moment, convert::moment_to_proto},
    proto,
    store::LedgerId,
};

const STORE: &str = "4ab1a1a2-52dc-4e1d-b45d-0d9a4a8a3d11";

fn binding(user: &str) -> Binding {
    let filters = proto::ListDrawsRequest {
        user_id: user.into(),
        ..proto::ListDrawsRequest::default()
    };
    Binding::new(STORE, "draws", &filters)
}

/// A text that may be a cursor.
pub(in crate::grpc) fn cursor(text: &str) -> bool {
    let Some(positions) = cursor::decode(text, STORE) else {
        return false;
    };
    assert_eq!(
        cursor::decode(&cursor::encode(&positions, STORE), STORE),
        Some(known(positions))
    );
    true
}

/// Positions from the first entry on: a cursor does not name the others.
fn known(mut positions: Positions) -> Positions {
    positions.retain(|_, seen| seen.sequence > 0);
    positions
}

/// A text that may be the token of a list.
pub(in crate::grpc) fn token(text: &str) -> bool {
    let Ok(token) = Token::decode(text, binding("u")) else {
        return false;
    };
    assert_eq!(
        Token::decode(&token.encode(binding("u")), binding("u")),
        Ok(token)
    );
    // It is shown in the answer.
    let _ = token.complete_until.map(moment_to_proto);
    true
}

/// A cursor or a token with the contents of some bytes, which ends with the bytes of one character
/// that is changed: its index and its difference.
pub(in crate::grpc) fn made(is_cursor: bool, bytes: &[u8]) -> bool {
    let Some((bytes, change)) = bytes.split_last_chunk() else {
        return false;
    };
    let (numbers, _) = bytes.as_chunks::<16>();
    if is_cursor {
        let positions = numbers.iter().map(position).collect();
        let text = cursor::encode(&positions, STORE);
        assert_eq!(cursor::decode(&text, STORE), Some(known(positions)));
        assert_eq!(cursor::decode(&text, "another store"), None);
        assert_eq!(cursor::decode(&changed(&text, *change), STORE), None);
        return true;
    }
    let [first, second, ..] = numbers else {
        return false;
    };
    let (partition, seen) = position(first);
    let (until, other) = position(second);
    let token = Token {
        after: Position {
            at: Moment::from_micros(other.sequence.cast_signed()),
            id: LedgerId {
                partition,
                sequence: seen.sequence,
            },
            index: (other.fork % 100) as u16,
        },
        complete_until: (until % 2 == 0).then(|| Moment::from_micros(until.into())),
    };
    let text = token.encode(binding("u"));
    assert_eq!(Token::decode(&text, binding("u")), Ok(token));
    assert!(Token::decode(&text, binding("v")).is_err());
    assert!(Token::decode(&changed(&text, *change), binding("u")).is_err());
    true
}

fn position(bytes: &[u8; 16]) -> (u32, Seen) {
    let number = |range: std::ops::Range<usize>| {
        let bytes = bytes[range].iter();
        bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let seen = Seen {
        sequence: number(4..12),
        fork: number(12..16) as u32,
    };
    (number(0..4) as u32, seen)
}

/// The text with another digit at an index.
fn changed(text: &str, [index, by]: [u8; 2]) -> String {
    let index = usize::from(index) % text.len();
    let digits = text.char_indices().map(|(at, digit)| {
        let value = digit.to_digit(16).expect("hexadecimal digits");
        let by = if at == index {
            1 + u32::from(by) % 15
        } else {
            0
        };
        char::from_digit((value + by) % 16, 16).expect("a digit")
    });
    digits.collect()
}
