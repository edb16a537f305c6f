//! Who makes a call, and what that identity may do.

use std::sync::Arc;

use tonic::Request;

use super::{
    Denial, On, Permission, Rpc, Secret,
    policed::Policed,
    policy::{CertificateName, Identity},
    table::{Scope, permission},
};
use crate::model::{OperatorId, Patterns};

/// What proves an identity.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    /// A bearer token.
    Token(Secret),
    /// The name in a verified client certificate.
    Certificate(CertificateName),
}

/// Who makes a call. It is in the extensions of every request that passed the gate.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct Caller(Option<Known>);

/// An identity, and how it is known.
#[derive(Clone, Debug)]
struct Known {
    identity: Arc<Identity>,
    credential: Credential,
    policed: Arc<Policed>,
}

/// What a list may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::grpc) struct Visible {
    /// Of campaigns; all if there are no patterns.
    pub(in crate::grpc) campaigns: Option<Patterns>,
    /// Of envelopes, by their senders; all if there are no patterns.
    pub(in crate::grpc) senders: Option<Patterns>,
}

impl Visible {
    /// Everything, also what belongs to no campaign and no envelope.
    pub(in crate::grpc) fn is_all(&self) -> bool {
        self.campaigns.is_none() && self.senders.is_none()
    }

    /// Whether no campaign is hidden.
    pub(in crate::grpc) fn has_all_campaigns(&self) -> bool {
        self.campaigns.is_none()
    }

    /// Whether a campaign may be shown.
    pub(in crate::grpc) fn has_campaign(&self, id: &str) -> bool {
        let patterns = self.campaigns.as_ref();
        patterns.is_none_or(|patterns| patterns.match_id(id))
    }

    /// Whether envelopes of a sender may be shown.
    pub(in crate::grpc) fn has_sender(&self, id: &str) -> bool {
        let patterns = self.senders.as_ref();
        patterns.is_none_or(|patterns| patterns.match_id(id))
    }
}

impl Caller {
    /// Anybody, at a server without a policy.
    pub(super) fn anybody() -> Self {
        Self(None)
    }

    pub(super) fn known(
        identity: Arc<Identity>,
        credential: Credential,
        policed: &Arc<Policed>,
    ) -> Self {
        Self(Some(Known {
            identity,
            credential,
            policed: Arc::clone(policed),
        }))
    }

    /// Who makes a request. One that did not pass the gate is made by nobody.
    pub(in crate::grpc) fn of<T>(request: &Request<T>) -> Result<Self, Denial> {
        let caller = request.extensions().get::<Self>();
        caller.cloned().ok_or(Denial::Missing)
    }

    /// The identity, if the server knows identities.
    pub(in crate::grpc) fn identity(&self) -> Option<&OperatorId> {
        self.0.as_ref().map(|known| &known.identity.name)
    }

    /// The identity with its rights, if the server knows identities.
    pub(super) fn known_identity(&self) -> Option<&Arc<Identity>> {
        self.0.as_ref().map(|known| &known.identity)
    }

    /// Whether the caller has a permission on anything at all.
    pub(super) fn may_somewhere(&self, permission: Permission) -> Result<(), Denial> {
        let Some(known) = &self.0 else { return Ok(()) };
        match known.identity.grant(permission) {
            Some(_) => Ok(()),
            None => Err(forbidden(permission, On::Anything)),
        }
    }

    /// Whether the caller has a permission on what a request is about; `sender` is that of the
    /// envelope, if it is known.
    pub(in crate::grpc) fn may(
        &self,
        permission: Permission,
        scope: Scope<'_>,
        sender: Option<&str>,
    ) -> Result<(), Denial> {
        let Some(known) = &self.0 else { return Ok(()) };
        let identity = &known.identity;
        let (is_allowed, on) = match scope {
            Scope::Campaign(id) => (
                identity.may_on_campaign(permission, id),
                On::Campaign(shown(id)),
            ),
            Scope::Sender(id) => (
                identity.may_on_sender(permission, id),
                On::Sender(shown(id)),
            ),
            Scope::Envelope(id) => {
                let is_allowed = match sender {
                    Some(sender) => identity.may_on_sender(permission, sender),
                    None => self.sees_all_senders(permission),
                };
                (is_allowed, On::Envelope(shown(id)))
            }
            Scope::Listed => (identity.grant(permission).is_some(), On::Anything),
            Scope::Store => (identity.may_on_store(permission), On::Store),
        };
        match is_allowed {
            true => Ok(()),
            false => Err(forbidden(permission, on)),
        }
    }

    /// Whether nobody's envelopes are hidden from the caller.
    pub(super) fn sees_all_senders(&self, permission: Permission) -> bool {
        let Some(known) = &self.0 else { return true };
        let grant = known.identity.grant(permission);
        grant.is_some_and(|grant| grant.senders.are_all())
    }

    /// What an RPC may show in lists.
    pub(in crate::grpc) fn visible(&self, rpc: Rpc) -> Visible {
        let Some(known) = &self.0 else {
            return Visible {
                campaigns: None,
                senders: None,
            };
        };
        let grant = known.identity.grant(permission(rpc)).cloned();
        let grant = grant.unwrap_or_default();
        let some = |patterns: Patterns| (!patterns.are_all()).then_some(patterns);
        Visible {
            campaigns: some(grant.campaigns),
            senders: some(grant.senders),
        }
    }

    /// The caller by the policy and the time of now. A stream asks this again and again: its caller
    /// may lose a permission, a binding or the credential itself.
    pub(in crate::grpc) async fn again(&self) -> Result<Self, Denial> {
        match &self.0 {
            None => Ok(self.clone()),
            Some(known) => known.policed.identify(known.credential.clone()).await,
        }
    }
}

fn forbidden(permission: Permission, on: On) -> Denial {
    Denial::Forbidden { permission, on }
}

/// An id as an error repeats it: what is no id may be long.
fn shown(id: &str) -> String {
    const CHARS_MAX: usize = 128;
    id.chars().take(CHARS_MAX).collect()
}
