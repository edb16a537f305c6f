//! The gate before the services: who calls, how often, and whether at all.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

use super::{
    Access, Caller, Denial, Permission, Reflection, Rpc, Secret, bearer,
    caller::Credential,
    policed::Policed,
    policy::CertificateName,
    table::{REFLECTION, is_brake, is_proposable, permission},
};
use crate::{
    grpc::{
        live::Live,
        status::{CallError, status},
    },
    tls::Peer,
};

/// The beginning of the paths of reflection, in all its versions.
const REFLECTION_PATH: &str = "/grpc.reflection.";

/// What a path needs.
#[derive(Clone, Copy)]
struct Needed {
    permission: Permission,
    /// Those who may propose come as far as the services' own gate.
    is_proposable: bool,
    /// It pauses something.
    is_brake: bool,
}

/// Puts every call before its gate.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct AccessLayer {
    access: Access,
    reflection: Reflection,
}

impl AccessLayer {
    /// The gate of a server.
    pub(in crate::grpc) fn new(access: &Access, reflection: Reflection) -> Self {
        Self {
            access: access.clone(),
            reflection,
        }
    }

    /// What a path needs; none if everybody may call it. Health is such a path, since probes and
    /// balancers have no identity, and it says only whether the server serves. Nobody implements
    /// any further path.
    fn permission(&self, path: &str) -> Option<Needed> {
        match Rpc::of_path(path) {
            Some(rpc) => Some(Needed {
                permission: permission(rpc),
                is_proposable: is_proposable(rpc),
                is_brake: is_brake(rpc),
            }),
            None if path.starts_with(REFLECTION_PATH) => (self.reflection == Reflection::Admin)
                .then_some(Needed {
                    permission: REFLECTION,
                    is_proposable: false,
                    is_brake: false,
                }),
            None => None,
        }
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = AccessService<S>;

    fn layer(&self, service: S) -> AccessService<S> {
        AccessService {
            gate: self.clone(),
            service,
        }
    }
}

/// Services behind their gate.
#[derive(Clone, Debug)]
pub(in crate::grpc) struct AccessService<S> {
    gate: AccessLayer,
    service: S,
}

impl<S, B, R> Service<Request<B>> for AccessService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(policed) = self.gate.access.0.clone() else {
            request.extensions_mut().insert(Caller::anybody());
            return Box::pin(self.service.call(request));
        };
        let needed = self.gate.permission(request.uri().path());
        let Some(needed) = needed else {
            return Box::pin(self.service.call(request));
        };
        let spare = self.service.clone();
        let mut ready = std::mem::replace(&mut self.service, spare);
        let credential = credential(&request);
        let is_live = request.extensions().get::<Live>().is_some();
        Box::pin(async move {
            match admit(&policed, needed, credential, is_live).await {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    ready.call(request).await
                }
                Err(denial) => Ok(status(&CallError::Denied(denial), "").into_http()),
            }
        })
    }
}

/// Whose credential it is, if that identity may make such a request at all.
///
/// A call counts for the identity's `rate`, with two exceptions. Reads for live pages do not: the
/// console makes them once a second, and all viewers share what they find. The brake does not for
/// those who may use it, since it must work at any time.
async fn admit(
    policed: &Arc<Policed>,
    needed: Needed,
    credential: Result<Credential, Denial>,
    is_live: bool,
) -> Result<Caller, Denial> {
    let caller = policed.identify(credential?).await?;
    let may = caller.may_somewhere(needed.permission);
    let is_free = is_live || needed.is_brake && may.is_ok();
    if let Some(identity) = caller.identity().filter(|_| !is_free) {
        policed.pass(identity)?;
    }
    let may_propose = || caller.may_somewhere(Permission::Propose).is_ok();
    match may {
        Err(denial) if !(needed.is_proposable && may_propose()) => Err(denial),
        _ => Ok(caller),
    }
}

/// The credential of a request. A token counts before the certificate of the connection, which may
/// be that of a proxy.
fn credential<B>(request: &Request<B>) -> Result<Credential, Denial> {
    if let Some(token) = bearer::token_of(request.headers())? {
        return Ok(Credential::Token(Secret::new(token)));
    }
    let peer = request.extensions().get::<Peer>().ok_or(Denial::Missing)?;
    // The authority of a mesh vouches for SPIFFE ids, and may let workloads choose their subjects.
    let spiffe = peer.spiffe.clone().map(CertificateName::Spiffe);
    let name = spiffe.or_else(|| peer.subject.clone().map(CertificateName::Subject));
    name.map(Credential::Certificate).ok_or(Denial::Invalid(
        "the client certificate has neither a SPIFFE id nor a subject",
    ))
}
