//! The policy: who there is, by which credentials they are known, and what each may do.
//!
//! A [`Policy`] is checked as a whole when it is read and never changes. A new version of the file
//! is a new policy.

mod check;
mod file;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Permission, TokenHash};
use crate::model::{Moment, OperatorId, Patterns, Problems};

/// An identity and what it may do.
#[derive(Debug)]
pub struct Identity {
    /// Its name, which the ledger keeps.
    pub name: OperatorId,
    /// By permission, on what.
    grants: BTreeMap<Permission, Grant>,
    /// How many calls it may make.
    pub rate: Option<Rate>,
    /// Sessions of the console that began before are over.
    pub sessions_from: Option<Moment>,
}

/// On what an identity has a permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// On these campaigns.
    pub campaigns: Patterns,
    /// On envelopes of these senders.
    pub senders: Patterns,
}

/// A rate of calls, at each replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls a second in the long run.
    pub per_second: NonZeroU32,
    /// Calls at once.
    pub burst: NonZeroU32,
}

/// By what a client certificate is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CertificateName {
    /// A SPIFFE id.
    Spiffe(String),
    /// A subject, as the TLS layer writes it.
    Subject(String),
}

/// Who signs tokens, and how they are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IssuerSettings {
    /// The name in the policy file.
    pub(super) name: String,
    /// The claim `iss`.
    pub(super) issuer: String,
    /// What the claim `aud` must have.
    pub(super) audience: String,
    /// The claim that names the identity.
    pub(super) claim: String,
    /// Where its keys are.
    pub(super) keys: KeySource,
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// In a file.
    File(PathBuf),
    /// Behind a URL.
    Url {
        /// Which: https, or http on the loopback interface.
        url: String,
        /// Authorities of its certificate; the system's if there are none.
        ca_file: Option<PathBuf>,
        /// A bearer token that it asks for.
        token_file: Option<PathBuf>,
    },
}

/// A token of the file.
#[derive(Debug)]
pub(super) struct KnownToken {
    pub(super) identity: Arc<Identity>,
    pub(super) until: Option<Moment>,
}

/// A policy.
#[derive(Debug, Default)]
pub struct Policy {
    identities: BTreeMap<OperatorId, Arc<Identity>>,
    tokens: HashMap<TokenHash, KnownToken>,
    /// By the name of the issuer and the value of its claim.
    subjects: HashMap<(String, String), Arc<Identity>>,
    certificates: HashMap<CertificateName, Arc<Identity>>,
    issuers: Vec<IssuerSettings>,
}

impl Policy {
    /// Reads a policy. Relative paths in it begin at `directory`.
    ///
    /// # Errors
    /// All problems of the text, each with its line.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, Problems> {
        check::policy(file::read(text)?, directory)
    }

    /// The identity of a name.
    pub fn identity(&self, name: &str) -> Option<&Arc<Identity>> {
        let name = OperatorId::parse("identity", name).ok()?;
        self.identities.get(&name)
    }

    /// All identities, by name.
    pub fn identities(&self) -> impl Iterator<Item = &Arc<Identity>> {
        self.identities.values()
    }

    /// The token of a hash.
    pub(super) fn token(&self, hash: &TokenHash) -> Option<&KnownToken> {
        self.tokens.get(hash)
    }

    /// Whom a verified token names.
    pub(super) fn subject(&self, issuer: &str, value: &str) -> Option<&Arc<Identity>> {
        self.subjects.get(&(issuer.to_owned(), value.to_owned()))
    }

    /// Whose certificate it is.
    pub(super) fn certificate(&self, name: &CertificateName) -> Option<&Arc<Identity>> {
        self.certificates.get(name)
    }

    /// Who signs tokens.
    pub(super) fn issuers(&self) -> &[IssuerSettings] {
        &self.issuers
    }
}

impl Identity {
    /// On what it has a permission; none if it has it on nothing.
    pub fn grant(&self, permission: Permission) -> Option<&Grant> {
        self.grants.get(&permission)
    }

    /// Whether it has a permission on a campaign.
    pub fn may_on_campaign(&self, permission: Permission, id: &str) -> bool {
        self.grant(permission)
            .is_some_and(|grant| grant.campaigns.match_id(id))
    }

    /// Whether it has a permission on a sender's envelopes.
    pub fn may_on_sender(&self, permission: Permission, id: &str) -> bool {
        self.grant(permission)
            .is_some_and(|grant| grant.senders.match_id(id))
    }

    /// Whether it has a permission on everything.
    pub fn may_on_store(&self, permission: Permission) -> bool {
        self.grant(permission)
            .is_some_and(|grant| grant.campaigns.are_all() && grant.senders.are_all())
    }
}

#[cfg(test)]
mod tests;
