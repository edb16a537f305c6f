//! The gate before the services: who calls, how often, and whether at all.

use std::{future::Future, sync::Arc};

use tonic::codegen::http::Request;

use super::{
    Access, Caller, Denial, Permission, Reflection, Rpc, Secret, bearer,
    caller::Credential,
    policed::Policed,
    policy::CertificateName,
    table::{REFLECTION, is_brake, is_proposable, permission},
};
use crate::{grpc::live::Live, tls::Peer};

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

/// The gate of a server.
#[derive(Debug)]
pub(in crate::grpc) struct Gate {
    access: Access,
    reflection: Reflection,
}

impl Gate {
    /// A gate for those whom `access` lets through.
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

    /// Learns who calls, if the path needs a permission: the future has the caller, which must be
    /// put into the request's extensions, or says why the call is refused. None: everybody may
    /// call; if there are no identities at all, the request has its caller by then.
    pub(in crate::grpc) fn admit<B>(
        &self,
        request: &mut Request<B>,
    ) -> Option<impl Future<Output = Result<Caller, Denial>> + Send + use<B>> {
        let Some(policed) = &self.access.0 else {
            request.extensions_mut().insert(Caller::anybody());
            return None;
        };
        let needed = self.permission(request.uri().path())?;
        let policed = Arc::clone(policed);
        let credential = credential(request);
        let is_live = request.extensions().get::<Live>().is_some();
        Some(async move { admit(&policed, needed, credential, is_live).await })
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
