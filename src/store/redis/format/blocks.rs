//! Members of `blocks`, the sorted set of the notes of blocked users, all with score 0. A member is
//! the user's id, a zero byte, the user's field in `blocked` (12 bytes), and the note as JSON. No
//! id has a zero byte, so members are in the order of ids.
//!
//! `blocked` says who is blocked. `blocks` only explains it: a version of tombola that does not
//! know it leaves members of users whom it unblocks.

use super::keys::IdDigest;
use crate::{
    model::UserId,
    store::{BlockedUser, HoldNote, Result, StoreError},
};

/// Bytes of a user's field.
const FIELD_BYTES: usize = 12;

/// The member of a user.
pub(crate) fn encode(user: &UserId, note: &HoldNote) -> Vec<u8> {
    let mut member = user.as_str().as_bytes().to_vec();
    member.push(0);
    member.extend(IdDigest::user(user).field);
    // A note is text and numbers, which can all be written as JSON.
    member.extend(serde_json::to_vec(note).expect("a note can be written as JSON"));
    member
}

/// The bounds that all members of a user lie between, for commands by lexicographical range.
pub(crate) fn range_of(user: &UserId) -> [Vec<u8>; 2] {
    [0, 1].map(|end| bound(user, end))
}

/// The lower bound of the members of all users after `after`.
pub(crate) fn from(after: Option<&UserId>) -> Vec<u8> {
    after.map_or_else(|| b"-".to_vec(), |after| bound(after, 1))
}

/// After every member of smaller ids; with `end` 1 also after those of this id, since no id has a
/// control character.
fn bound(user: &UserId, end: u8) -> Vec<u8> {
    [b"(", user.as_str().as_bytes(), &[end]].concat()
}

/// Reads a member.
pub(crate) fn decode(member: &[u8]) -> Result<BlockedUser> {
    let malformed = || StoreError::corrupt("the note of a blocked user does not read back");
    let zero = member.iter().position(|byte| *byte == 0);
    let (user, rest) = member.split_at(zero.ok_or_else(malformed)?);
    let user = std::str::from_utf8(user).map_err(|_| malformed())?;
    let note = rest.get(1 + FIELD_BYTES..).ok_or_else(malformed)?;
    Ok(BlockedUser {
        user: UserId::parse("user", user).map_err(|_| malformed())?,
        note: Some(serde_json::from_slice(note).map_err(|_| malformed())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Moment, OperatorId};

    fn user(id: &str) -> UserId {
        UserId::parse("user", id).unwrap()
    }

    fn note() -> HoldNote {
        HoldNote {
            at: Moment::from_micros(7),
            operator: OperatorId::parse("operator", "anna").unwrap(),
            reason: "scripts".into(),
        }
    }

    #[test]
    fn a_member_reads_back_and_one_that_is_cut_off_does_not() {
        let member = encode(&user("u 1"), &note());
        let read = decode(&member).unwrap();
        assert_eq!((read.user, read.note), (user("u 1"), Some(note())));
        for length in 0..member.len() {
            assert!(decode(&member[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn members_are_in_the_order_of_ids_and_within_the_bounds_of_their_user() {
        let ids = [" ", "a", "a b", "a!", "ab", "b", "\u{e9}"];
        let members = ids.map(|id| encode(&user(id), &note()));
        assert!(members.is_sorted());
        for (index, id) in ids.iter().enumerate() {
            let [low, high] = range_of(&user(id)).map(|bound| bound[1..].to_vec());
            for (other, member) in members.iter().enumerate() {
                let is_within = low < *member && *member < high;
                assert_eq!(is_within, other == index, "{id:?} {:?}", ids[other]);
            }
        }
    }
}
