//! What a script did, by its reply. It decides whether replicas must confirm the call: a write and
//! a repeated answer need a confirmation, a refusal does not.
//!
//! A reply that cannot be read is confirmed as a repeated answer is: whatever the script did, what
//! is written and confirmed after it covers that. Nothing counts as a write that may not be one,
//! since replicas would then confirm only what the connection has written earlier.

use redis::Value;

use super::{codec::Unpacker, script::Effect};

/// The effect of a batch of draws.
pub(crate) fn of_draws(reply: &Value) -> Effect {
    of_groups(reply, |group| match group {
        Value::Array(group) => match group.first() {
            Some(Value::BulkString(replies)) => of_replies(replies),
            _ => Effect::Unread,
        },
        // The whole group was not done: campaign missing, another version or another day, damage.
        Value::BulkString(letter) if matches!(letter.first(), Some(b'M' | b'V' | b'Y' | b'X')) => {
            Effect::Nothing
        }
        _ => Effect::Unread,
    })
}

/// The effect of a batch of grabs.
pub(crate) fn of_grabs(reply: &Value) -> Effect {
    of_groups(reply, |group| match group {
        Value::BulkString(replies) => match replies.first() {
            Some(b'M' | b'V' | b'X') => Effect::Nothing,
            Some(b'0' | b'1') => of_packets(&replies[1..]),
            _ => Effect::Unread,
        },
        _ => Effect::Unread,
    })
}

/// The effect of a batch of new envelopes.
pub(crate) fn of_creates(reply: &Value) -> Effect {
    of_groups(reply, |group| match group {
        Value::BulkString(reply) if matches!(reply.first(), Some(b'S' | b'G' | b'X')) => {
            Effect::Nothing
        }
        _ => Effect::Wrote,
    })
}

/// The effect of reading what steps have left for their retries.
pub(crate) fn of_recalled(reply: &Value) -> Effect {
    of_groups(reply, |value| match value {
        Value::Nil => Effect::Nothing,
        _ => Effect::Repeated,
    })
}

/// The strongest effect of all groups, which follow the time.
fn of_groups(reply: &Value, of_group: impl Fn(&Value) -> Effect) -> Effect {
    let Value::Array(parts) = reply else {
        return Effect::Unread;
    };
    // The whole script was refused (see `lua/modules/store.lua`).
    if let Some(Value::BulkString(letter)) = parts.get(1)
        && matches!(letter.as_slice(), b"L" | b"H" | b"K" | b"W" | b"N")
    {
        return Effect::Nothing;
    }
    let mut strongest = Effect::Nothing;
    for group in parts.iter().skip(1) {
        match of_group(group) {
            Effect::Wrote => return Effect::Wrote,
            Effect::Unread => strongest = Effect::Unread,
            Effect::Repeated if strongest == Effect::Nothing => strongest = Effect::Repeated,
            Effect::Repeated | Effect::Nothing => {}
        }
    }
    strongest
}

fn of_replies(replies: &[u8]) -> Effect {
    let mut replies = Unpacker::new(replies);
    let mut effect = Effect::Nothing;
    while !replies.is_done() {
        match replies.letter() {
            None => return Effect::Wrote,
            Some(b'R') => effect = Effect::Repeated,
            Some(_) => {}
        }
        if replies.detail().is_err() {
            return Effect::Unread;
        }
    }
    effect
}

fn of_packets(replies: &[u8]) -> Effect {
    let mut replies = Unpacker::new(replies);
    let mut effect = Effect::Nothing;
    while !replies.is_done() {
        match replies.raw(1) {
            Ok(b"A") => {
                if replies.detail().is_err() {
                    return Effect::Unread;
                }
                effect = Effect::Repeated;
            }
            Ok(b"G" | b"W") => return Effect::Wrote,
            Ok(b"P" | b"N" | b"S" | b"T" | b"E" | b"B" | b"F" | b"Y") => {}
            _ => return Effect::Unread,
        }
    }
    effect
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: &[u8]) -> Value {
        Value::BulkString(bytes.to_vec())
    }

    #[test]
    fn refused_grabs_need_no_confirmation() {
        let reply = |groups: &[&[u8]]| {
            let groups = groups.iter().map(|group| bytes(group));
            Value::Array([bytes(b"1")].into_iter().chain(groups).collect())
        };
        assert_eq!(of_grabs(&reply(&[b"0NET", b"M"])), Effect::Nothing);
        assert_eq!(of_grabs(&reply(&[b"0N", b"1G"])), Effect::Wrote);
        assert_eq!(of_grabs(&reply(&[b"0BX"])), Effect::Unread);
        assert_eq!(of_grabs(&reply(&[b"0B", b"Xkey"])), Effect::Nothing);
        // A repeated answer is confirmed whatever is beside it.
        let had: &[u8] = b"0A\0\x01xB";
        assert_eq!(of_grabs(&reply(&[had, b"Xkey"])), Effect::Repeated);
        assert_eq!(of_grabs(&reply(&[had, b"?"])), Effect::Unread);
        assert_eq!(of_grabs(&reply(&[had, b"0G"])), Effect::Wrote);
        assert_eq!(of_grabs(&reply(&[b"0W"])), Effect::Wrote);
        assert_eq!(of_draws(&reply(&[b"Xkey"])), Effect::Nothing);
        assert_eq!(of_draws(&reply(&[b"?"])), Effect::Unread);
        assert_eq!(of_grabs(&reply(&[b"W", b"2000"])), Effect::Nothing);
        assert_eq!(of_draws(&reply(&[b"K"])), Effect::Nothing);
        assert_eq!(of_creates(&reply(&[b"S", b"Gkey"])), Effect::Nothing);
        assert_eq!(of_creates(&reply(&[b"S", b"70001"])), Effect::Wrote);
    }

    #[test]
    fn what_is_recalled_needs_a_confirmation_if_there_is_something() {
        let reply = |values: &[Option<&[u8]>]| {
            let values = values.iter().map(|value| value.map_or(Value::Nil, bytes));
            Value::Array([bytes(b"1")].into_iter().chain(values).collect())
        };
        assert_eq!(of_recalled(&reply(&[None, None])), Effect::Nothing);
        assert_eq!(of_recalled(&reply(&[None, Some(b"70")])), Effect::Repeated);
        assert_eq!(
            of_recalled(&reply(&[Some(b"H"), Some(b"x")])),
            Effect::Nothing
        );
    }
}
