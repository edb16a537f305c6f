//! Who may do what: identities by tokens and certificates, and their permissions.
//!
//! Every call passes two gates. The [`gate`] learns who calls from headers and the connection,
//! bounds the rate, and refuses who has the permission of the RPC nowhere. The [`guard`] then
//! learns from the message what the call is about. It is generated for all services, so a handler
//! never sees a request that was not admitted. What each RPC needs stands in [`table`] alone; what
//! a list must not show is left out by its query, with the patterns of [`Caller::visible`].
//!
//! Without a policy file everybody may do everything.

mod bearer;
mod caller;
mod credentials;
mod denial;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(super) mod gate;
mod guard;
mod jwt;
mod permission;
mod policed;
pub mod policy;
mod rate;
mod secret;
mod senders;
pub mod table;

use std::{path::Path, sync::Arc};

pub use self::{
    bearer::{TokenHash, new_token},
    credentials::Credentials,
    guard::Rpc,
    permission::Permission,
    policed::AccessError,
    policy::{Identity, Policy},
    secret::Secret,
};
use self::{caller::Credential, policed::Policed};
pub(super) use self::{
    caller::{Caller, Visible},
    denial::{Denial, On},
    guard::Guarded,
    senders::Senders,
};

/// Who may call reflection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflection {
    /// Everybody who reaches the server.
    #[default]
    On,
    /// Nobody: it is not served.
    Off,
    /// Identities with the permission `admin`.
    Admin,
}

/// Access to a server.
#[derive(Clone, Debug, Default)]
pub struct Access(Option<Arc<Policed>>);

impl Access {
    /// Access by a policy file.
    ///
    /// # Errors
    /// The file cannot be read, or it is not right.
    pub fn open(file: &Path) -> Result<Self, AccessError> {
        Ok(Self(Some(Arc::new(Policed::open(file)?))))
    }

    /// Whether there is a policy.
    pub fn is_policed(&self) -> bool {
        self.0.is_some()
    }

    /// Whom a token names by the policy of now; nobody in particular without a policy.
    pub(super) async fn identify(&self, token: Secret) -> Result<Option<Arc<Identity>>, Denial> {
        let Some(policed) = &self.0 else {
            return Ok(None);
        };
        let caller = policed.identify(Credential::Token(token)).await?;
        Ok(caller.known_identity().cloned())
    }

    /// Reads the policy file and the keys of issuers again and again.
    pub async fn watch(&self) {
        match &self.0 {
            Some(policed) => policed.watch().await,
            None => std::future::pending().await,
        }
    }
}
