//! The gate of the services: a request reaches a handler only if its caller has the permission of
//! the RPC on what the request is about.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use tonic::{Request, Status};

use super::{
    Caller, Denial, Permission, Senders,
    table::{Scope, Scoped, is_proposable, permission},
};
use crate::{
    grpc::status::{CallError, status},
    model::EnvelopeId,
};

include!(concat!(env!("OUT_DIR"), "/guard.rs"));

static BY_PATH: LazyLock<HashMap<&'static str, Rpc>> =
    LazyLock::new(|| Rpc::ALL.map(|rpc| (rpc.path(), rpc)).into());

impl Rpc {
    /// The method that a request's path names, if it is one of `tombola.v1`.
    pub fn of_path(path: &str) -> Option<Self> {
        BY_PATH.get(path).copied()
    }
}

/// A service behind the gate. `build.rs` generates the traits of all services for it.
pub(in crate::grpc) struct Guarded<S> {
    service: S,
    senders: Arc<Senders>,
}

impl<S> Guarded<S> {
    /// Puts a service behind the gate.
    pub(in crate::grpc) fn new(service: S, senders: &Arc<Senders>) -> Self {
        Self {
            service,
            senders: Arc::clone(senders),
        }
    }

    /// The request, if its caller may make it.
    async fn admit<T: Scoped>(&self, rpc: Rpc, request: Request<T>) -> Result<Request<T>, Status> {
        let scope = request.get_ref().scope();
        let mut admitted = self.check(rpc, &request, scope).await;
        if admitted.is_err() && is_proposable(rpc) && may_propose(&request, scope) {
            admitted = match request.get_ref().is_dry_run() {
                true => Ok(()),
                false => Err(Denial::ApprovalNeeded.into()),
            };
        }
        match admitted {
            Ok(()) => Ok(request),
            Err(error) => Err(status(&error, "")),
        }
    }

    async fn check<T>(
        &self,
        rpc: Rpc,
        request: &Request<T>,
        scope: Scope<'_>,
    ) -> Result<(), CallError> {
        let caller = Caller::of(request)?;
        let permission = permission(rpc);
        let sender = match scope {
            Scope::Envelope(id) if !caller.sees_all_senders(permission) => {
                match EnvelopeId::parse("envelope_id", id) {
                    Ok(id) => self.senders.of(&id).await?,
                    Err(_) => None,
                }
            }
            _ => None,
        };
        let sender = sender.as_ref().map(|sender| sender.as_str());
        Ok(caller.may(permission, scope, sender)?)
    }
}

/// Whether the caller may propose changes of what a request is about.
fn may_propose<T>(request: &Request<T>, scope: Scope<'_>) -> bool {
    Caller::of(request).is_ok_and(|caller| caller.may(Permission::Propose, scope, None).is_ok())
}
