//! Ids. Those that operators choose are names in files, keys and commands, so they have a narrow
//! alphabet. Those that callers bring along (of users, requests and operators) belong to other
//! systems: any text without control characters.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{problem::Problem, text::visible};

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// The reason why something new cannot have an id that is valid otherwise, or nothing: browsers
/// take `.` and `..` out of an address, so the console's `/campaigns/..` is another page. Earlier
/// versions accepted such ids, so those that are stored stay valid.
pub fn flaw_of_new(id: &str) -> Option<String> {
    let is_step = matches!(id, "." | "..");
    is_step.then(|| format!("is {id:?}, which browsers take out of an address: use another id"))
}

/// The rule for an id, and how people see one.
struct Rule {
    /// What an id consists of, for messages.
    parts: &'static str,
    /// Whether an id may contain a character.
    allows: fn(char) -> bool,
}

/// The rule for ids that operators choose.
const NAME: Rule = Rule {
    parts: "1 to 128 characters of A-Z a-z 0-9 . _ : @ -",
    allows: |c| c.is_ascii_alphanumeric() || "._:@-".contains(c),
};

/// The rule for ids that callers bring along.
const FOREIGN: Rule = Rule {
    parts: "1 to 128 bytes of UTF-8 text without control characters",
    allows: |c| !c.is_control(),
};

impl Rule {
    /// The reason why a text is no id, or nothing.
    fn flaw(&self, id: &str) -> Option<String> {
        let parts = self.parts;
        if id.is_empty() {
            return Some(format!("is empty: an id has {parts}"));
        }
        if id.len() > ID_BYTES_MAX {
            let bytes = id.len();
            return Some(format!("is {bytes} bytes long: an id has {parts}"));
        }
        let stranger = id.chars().find(|c| !(self.allows)(*c))?;
        Some(format!("has the character {stranger:?}: an id has {parts}"))
    }
}

macro_rules! id_types {
    ($rule:ident, $shown:expr; $($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks an id; `path` names the field in the problem.
            pub fn parse(path: &str, id: &str) -> Result<Self, Problem> {
                match $rule.flaw(id) {
                    None => Ok(Self(id.into())),
                    Some(message) => Err(Problem { path: path.into(), message }),
                }
            }

            /// The id as text, to the byte.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// Ids are in the order of their text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
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
                let parsed = Self::parse(stringify!($name), &id);
                parsed.map_err(|problem| D::Error::custom(problem.message))
            }
        }

        /// The id as people see it in a log or a message. For data, see `as_str`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let shown: fn(&str) -> Cow<'_, str> = $shown;
                f.write_str(&shown(&self.0))
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
    NAME, |id| Cow::Borrowed(id);
    /// Names a campaign.
    CampaignId;
    /// Names an envelope.
    EnvelopeId;
    /// Names a prize of a campaign.
    PrizeId;
    /// Names a pool of a campaign.
    PoolId;
    /// Names a group of users.
    SegmentId;
    /// Names a guarantee of a campaign.
    GuaranteeId;
}

id_types! {
    FOREIGN, |id| visible(id);
    /// Names a user of the callers' systems. Ids are compared byte by byte and never normalised.
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
    fn names_have_a_narrow_alphabet_and_the_flaw_is_named() {
        assert!(CampaignId::parse("campaign_id", "a.B_c:d@e-9").is_ok());
        assert!(CampaignId::parse("campaign_id", &"x".repeat(128)).is_ok());
        for (bad, hint) in [
            ("", "empty"),
            ("a b", "' '"),
            ("a{b}", "'{'"),
            ("a/b", "'/'"),
            ("a\0b", "'\\0'"),
            ("\u{fc}nal", "'\u{fc}'"),
        ] {
            let problem = CampaignId::parse("campaign_id", bad).unwrap_err();
            assert_eq!(problem.path, "campaign_id");
            assert!(problem.message.contains(hint), "{problem:?}");
            assert!(problem.message.contains("A-Z a-z 0-9"), "{problem:?}");
        }
    }

    #[test]
    fn ids_of_callers_are_any_text_to_the_byte() {
        for id in [
            "auth0|5f7c8",
            "max+tag@example.org",
            "spiffe://example.org/ns/prod/sa/ops",
            "\u{8001}\u{677f}",
            "=1+1",
            " ",
            " a b ",
            "'\"\\",
            "\u{2028}\u{202e}\u{feff}",
            &"\u{8001}".repeat(42),
            &"x".repeat(128),
        ] {
            let user = UserId::parse("user_id", id).unwrap();
            assert_eq!(user.as_str(), id);
            assert_eq!(OperatorId::parse("operator", id).unwrap().as_str(), id);
            let json = serde_json::to_string(&user).unwrap();
            assert_eq!(serde_json::from_str::<UserId>(&json).unwrap(), user);
        }
        let parsed = |id| UserId::parse("user_id", id).unwrap();
        assert_ne!(parsed("\u{e9}"), parsed("e\u{301}"));
        assert_ne!(parsed("a"), parsed("A"));
    }

    #[test]
    fn a_bad_id_of_a_caller_is_refused_with_the_rule() {
        for (bad, hint) in [
            ("", "is empty"),
            ("a\0b", "'\\0'"),
            ("a\nb", "'\\n'"),
            ("a\tb", "'\\t'"),
            ("\u{7f}", "'\\u{7f}'"),
            ("\u{85}", "'\\u{85}'"),
            (&"x".repeat(129), "129 bytes"),
            (&"\u{8001}".repeat(43), "129 bytes"),
        ] {
            let problem = UserId::parse("user_id", bad).unwrap_err();
            assert_eq!(problem.path, "user_id");
            assert!(problem.message.contains(hint), "{problem:?}");
            let rule = "1 to 128 bytes of UTF-8 text without control characters";
            assert!(problem.message.ends_with(rule), "{problem:?}");
        }
    }

    #[test]
    fn people_see_what_has_no_form() {
        let user = UserId::parse("user_id", "a\u{202e}b").unwrap();
        assert_eq!(user.to_string(), "a\\u{202e}b");
        assert_eq!(format!("{user:?}"), "\"a\\u{202e}b\"");
    }
}
