//! The gate of the services: a request reaches a handler only if its caller has the permission of
//! the RPC on what the request is about.

use std::sync::Arc;

use tonic::{Request, Status};

use super::{
    Caller, Senders,
    table::{Scope, Scoped, permission},
};
use crate::{
    grpc::status::{CallError, status},
    model::EnvelopeId,
};

include!(concat!(env!("OUT_DIR"), "/guard.rs"));

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
        let admitted = self.check(rpc, &request, request.get_ref().scope()).await;
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
