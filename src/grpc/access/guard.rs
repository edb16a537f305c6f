//! The gate of the services: a request reaches a handler only if its caller has the permission of
//! the RPC on what the request is about.

use std::{
    collections::HashMap,
    future::ready,
    pin::Pin,
    sync::{Arc, LazyLock},
};

use tonic::{Request, Response, Status};

use super::{
    Caller, Denial, Permission, Senders,
    table::{Scope, Scoped, is_proposable, permission},
};
use crate::{
    grpc::status::{CallError, status},
    model::{EnvelopeId, UserId},
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

    /// The request, if it is admitted without looking up a sender, so that it needs no future of
    /// the guard's own. Otherwise a future: the refusal, or what is decided once the sender is
    /// known.
    fn admit<T: Scoped + Send + 'static>(
        &self,
        rpc: Rpc,
        request: Request<T>,
    ) -> Result<Request<T>, Later<'_, T>> {
        let Some(id) = needs_sender(rpc, &request) else {
            return admitted(rpc, request, None)
                .map_err(|refused| -> Later<'_, T> { Box::pin(ready(Err(refused))) });
        };
        let senders = &self.senders;
        Err(Box::pin(async move {
            match senders.of(&id).await {
                Ok(sender) => admitted(rpc, request, sender.as_ref()),
                Err(error) => Err(status(&error, "")),
            }
        }))
    }
}

/// A request once it is admitted, or the status of its refusal.
type Later<'a, T> = Pin<Box<dyn Future<Output = Result<Request<T>, Status>> + Send + 'a>>;
/// The answer of a service, as its trait has it.
type Answered<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

/// The envelope of which the sender must be known, to tell whether the caller may make the request.
fn needs_sender<T: Scoped>(rpc: Rpc, request: &Request<T>) -> Option<EnvelopeId> {
    let Scope::Envelope(id) = request.get_ref().scope() else {
        return None;
    };
    let caller = Caller::of(request).ok()?;
    if caller.sees_all_senders(permission(rpc)) {
        return None;
    }
    EnvelopeId::parse("envelope_id", id).ok()
}

/// The request, if its caller may make it. `sender` is that of the envelope that it is about.
fn admitted<T: Scoped>(
    rpc: Rpc,
    request: Request<T>,
    sender: Option<&UserId>,
) -> Result<Request<T>, Status> {
    let scope = request.get_ref().scope();
    let sender = sender.map(UserId::as_str);
    let mut admitted = check(rpc, &request, scope, sender);
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

fn check<T>(
    rpc: Rpc,
    request: &Request<T>,
    scope: Scope<'_>,
    sender: Option<&str>,
) -> Result<(), CallError> {
    let caller = Caller::of(request)?;
    Ok(caller.may(permission(rpc), scope, sender)?)
}

/// Whether the caller may propose changes of what a request is about.
fn may_propose<T>(request: &Request<T>, scope: Scope<'_>) -> bool {
    Caller::of(request).is_ok_and(|caller| caller.may(Permission::Propose, scope, None).is_ok())
}
