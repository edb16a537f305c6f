//! Ids: 1 to 128 characters of `A-Z a-z 0-9 . _ : @ -`.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::problem::Problem;

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// Says what is wrong with an id, or nothing.
fn flaw(id: &str) -> Option<String> {
    if id.is_empty() {
        return Some("is empty: an id has 1 to 128 characters of A-Z a-z 0-9 . _ : @ -".into());
    }
    if id.len() > ID_BYTES_MAX {
        return Some(format!(
            "is {} bytes long: an id has at most {ID_BYTES_MAX}",
            id.len()
        ));
    }
    let stranger = id
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || "._:@-".contains(*c)))?;
    Some(format!(
        "has the character {stranger:?}: an id has only A-Z a-z 0-9 . _ : @ -"
    ))
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks an id; `path` names the field in the problem.
            pub fn parse(path: &str, id: &str) -> Result<Self, Problem> {
                match flaw(id) {
                    None => Ok(Self(id.into())),
                    Some(message) => Err(Problem { path: path.into(), message }),
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let id = String::deserialize(deserializer)?;
                Self::parse(stringify!($name), &id).map_err(|problem| D::Error::custom(problem.message))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

id_types! {
    /// Names a campaign.
    CampaignId;
    /// Names an envelope.
    EnvelopeId;
    /// Names a prize of a campaign.
    PrizeId;
    /// Names a pool of a campaign.
    PoolId;
    /// Names a user of the callers' systems.
    UserId;
    /// Names a request, so that a retry of it has no second effect.
    RequestId;
    /// Names the operator of a change.
    OperatorId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_and_the_flaw_is_named() {
        assert!(UserId::parse("user_id", "a.B_c:d@e-9").is_ok());
        assert!(UserId::parse("user_id", &"x".repeat(128)).is_ok());
        for (bad, hint) in [
            ("", "empty"),
            ("a b", "' '"),
            ("a{b}", "'{'"),
            ("a\0b", "'\\0'"),
            ("ünal", "'ü'"),
        ] {
            let problem = UserId::parse("user_id", bad).unwrap_err();
            assert_eq!(problem.path, "user_id");
            assert!(problem.message.contains(hint), "{problem:?}");
        }
        let problem = UserId::parse("user_id", &"x".repeat(129)).unwrap_err();
        assert!(problem.message.contains("129 bytes"), "{problem:?}");
    }
}
