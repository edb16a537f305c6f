//! Calls of the services from within the process. They pass both gates of [`super::access`], like
//! calls over the network, but no connection.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use hyper::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::watch;
use tonic::{
    Status,
    body::Body,
    codegen::{
        BoxFuture,
        http::{Request, Response},
    },
};
use tower::Service;

pub use super::live::AGE_MAX as LIVE_AGE_MAX;
use super::{
    access::{Access, Identity, Secret},
    arrival::Arrival,
    live::Live,
    services::Services,
    status::{CallError, status},
};

/// Where a server can be called from within its process, while it serves.
#[derive(Clone, Debug, Default)]
pub struct Local(Arc<watch::Sender<Option<Inside>>>);

#[derive(Clone, Debug)]
struct Inside {
    services: Services,
    access: Access,
}

impl Local {
    /// The server serves these services.
    pub(super) fn open(&self, services: &Services, access: &Access) {
        self.0.send_replace(Some(Inside {
            services: services.clone(),
            access: access.clone(),
        }));
    }

    /// The server has stopped. Its store can be closed then.
    pub(super) fn close(&self) {
        self.0.send_replace(None);
    }

    /// Completes once the server serves.
    pub async fn opened(&self) {
        // An error would mean that the sender is gone, which is here.
        self.0.subscribe().wait_for(Option::is_some).await.ok();
    }

    fn inside(&self) -> Option<Inside> {
        self.0.borrow().clone()
    }

    /// What the clients of the services call with this token; none while the server does not serve.
    pub fn calls(&self, token: Option<&Secret>) -> Option<Calls> {
        let bearer = token.and_then(|token| {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
            let mut value = value.ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let services = self.inside()?.services;
        Some(Calls {
            services,
            bearer,
            is_live: false,
        })
    }

    /// Whom a token names by the policy of now; none without a policy, or while the server does
    /// not serve.
    ///
    /// # Errors
    /// The token proves nothing, or not any more.
    pub async fn identity(&self, token: &Secret) -> Result<Option<Arc<Identity>>, Status> {
        let Some(inside) = self.inside() else {
            return Ok(None);
        };
        let found = inside.access.identify(token.clone()).await;
        found.map_err(|denial| status(&CallError::Denied(denial), ""))
    }
}

/// Calls in the name of one credential.
#[derive(Clone, Debug)]
pub struct Calls {
    services: Services,
    bearer: Option<HeaderValue>,
    is_live: bool,
}

impl Calls {
    /// The same calls for a live page: campaigns and sums may be as old as [`LIVE_AGE_MAX`], since
    /// all viewers share their reads.
    pub fn live(self) -> Self {
        Self {
            is_live: true,
            ..self
        }
    }
}

impl Service<Request<Body>> for Calls {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        let arrival = Arrival::of(request.headers(), Instant::now(), true);
        request.extensions_mut().insert(arrival);
        if self.is_live {
            request.extensions_mut().insert(Live);
        }
        let answer = self.services.call(request);
        Box::pin(async move { Ok(answer.await) })
    }
}
