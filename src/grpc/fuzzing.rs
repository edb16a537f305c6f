//! What must hold for cursors and page tokens, which clients keep and send back: one that the
//! service gave is read as it was meant, and no other text goes further than a message.

use super::{
    envelopes, ledger,
    people::{read_token, token},
    request::Fields,
    schedule::Cursor,
};

/// A cursor or a page token; the first byte says which.
pub(crate) fn cursor(data: &[u8]) -> bool {
    let Some((kind, bytes)) = data.split_first() else {
        return false;
    };
    if kind % 7 < 2 {
        return ledger::fuzzing::made(kind % 7 == 0, bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match kind % 7 {
        2 => ledger::fuzzing::cursor(text),
        3 => ledger::fuzzing::token(text),
        4 => Cursor::parse(text).is_some_and(|cursor| {
            assert_eq!(Cursor::parse(&cursor.token()), Some(cursor));
            true
        }),
        5 => read_token(text).is_some_and(|user| {
            let again = user.as_ref().map(token).unwrap_or_default();
            assert_eq!(read_token(&again), Some(user));
            true
        }),
        _ => {
            let mut fields = Fields::default();
            let packet = envelopes::read_token(&mut fields, text);
            assert_eq!(packet.is_some(), fields.finish(Some(())).is_ok());
            packet.is_some()
        }
    }
}
