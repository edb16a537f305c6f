//! Why a request is not admitted.

use std::{fmt, time::Duration};

use super::Permission;

/// Why a request is not admitted. No text of it says whether a campaign or an envelope exists, or
/// repeats anything of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The request has no credential.
    Missing,
    /// Its credential proves nothing, for this reason.
    Invalid(&'static str),
    /// Its credential was valid until some time ago.
    Expired,
    /// The keys with which the credential is verified cannot be fetched now.
    Unverifiable,
    /// The identity lacks a permission on something.
    Forbidden {
        /// Which permission.
        permission: Permission,
        /// On what: a word, and an id as the request names it.
        on: On,
    },
    /// The identity may only propose such a change.
    ApprovalNeeded,
    /// The identity makes more calls than it may; the next one after this time.
    TooMany(Duration),
}

/// On what an identity lacks a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// A campaign.
    Campaign(String),
    /// A sender's envelopes.
    Sender(String),
    /// An envelope.
    Envelope(String),
    /// The whole store.
    Store,
    /// Anything at all.
    Anything,
}

impl On {
    /// The name and the id for programs; none if there is no id.
    pub fn named(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Campaign(id) => Some(("campaign", id)),
            Self::Sender(id) => Some(("sender", id)),
            Self::Envelope(id) => Some(("envelope", id)),
            Self::Store | Self::Anything => None,
        }
    }
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Campaign(id) => write!(f, "campaign {id:?}"),
            Self::Sender(id) => write!(f, "envelopes of sender {id:?}"),
            Self::Envelope(id) => write!(f, "envelope {id:?}"),
            Self::Store => f.write_str("all campaigns and all senders"),
            Self::Anything => f.write_str("any campaign or sender"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str(
                "the call has no credential: send `authorization: Bearer TOKEN`, or a client \
                 certificate",
            ),
            Self::Invalid(reason) => write!(f, "the credential is not accepted: {reason}"),
            Self::Expired => f.write_str("the credential has expired: get a new one"),
            Self::Unverifiable => f.write_str(
                "the keys of the token's issuer cannot be fetched now: retry; the server's log \
                 says why",
            ),
            Self::Forbidden { permission, on } => write!(
                f,
                "the identity of this call lacks the permission {permission} on {on}: whoever \
                 keeps the access file can bind a role with it"
            ),
            Self::ApprovalNeeded => f.write_str(
                "the identity of this call may propose such a change, not make it: propose it with \
                 ProposeChange, then another identity approves it",
            ),
            Self::TooMany(_) => f.write_str(
                "the identity of this call makes more calls than the access file allows: slow down",
            ),
        }
    }
}
