//! Which service a call goes to, by its path, and through which gate.

use std::{collections::HashMap, convert::Infallible, fmt, future, sync::Arc};

use tonic::{
    Status,
    body::Body,
    codegen::{
        BoxFuture,
        http::{Request, Response},
    },
    server::NamedService,
};
use tower::Service;

use super::{
    access::gate::Gate,
    status::{CallError, status},
    unread::legible,
};

/// A service's answer: always a response, whose headers or trailers have the status.
type Answering = BoxFuture<Response<Body>, Infallible>;

/// All services of a server. Clones share them.
#[derive(Clone)]
pub(super) struct Services(Arc<Shared>);

struct Shared {
    by_name: HashMap<&'static str, Arc<Entry>>,
    gate: Option<Gate>,
    /// What calls get that name no service.
    unknown: fn() -> Status,
}

struct Entry {
    call: Box<dyn Fn(Request<Body>) -> Answering + Send + Sync>,
    /// The largest request.
    bytes_max: usize,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.by_name.keys()).finish()
    }
}

/// Services while they are put together.
pub(super) struct Builder(Shared);

impl Builder {
    /// No services yet. Calls of others get the status of `unknown`.
    pub(super) fn new(gate: Option<Gate>, unknown: fn() -> Status) -> Self {
        Self(Shared {
            by_name: HashMap::new(),
            gate,
            unknown,
        })
    }

    /// Adds a service that takes requests of up to this size.
    pub(super) fn add<S>(mut self, service: S, bytes_max: usize) -> Self
    where
        S: NamedService + Clone + Send + Sync + 'static,
        S: Service<Request<Body>, Response = Response<Body>, Future = Answering>,
    {
        let entry = Entry {
            call: Box::new(move |request| service.clone().call(request)),
            bytes_max,
        };
        let before = self.0.by_name.insert(S::NAME, Arc::new(entry));
        assert!(before.is_none(), "two services have the name {}", S::NAME);
        self
    }

    /// The services.
    pub(super) fn build(self) -> Services {
        Services(Arc::new(self.0))
    }
}

impl Shared {
    /// The service that a path like `/tombola.v1.LotteryService/Draw` names.
    fn find(&self, path: &str) -> Option<&Arc<Entry>> {
        let (name, _) = path.strip_prefix('/')?.split_once('/')?;
        self.by_name.get(name)
    }
}

impl Services {
    /// Calls the service that a request's path names, if its caller may. The future is small,
    /// since there is one for each call: what is large in it is in boxes.
    pub(super) fn call(
        &self,
        mut request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send + use<> {
        let (answering, bytes_max): (Answering, _) = match self.0.find(request.uri().path()) {
            None => {
                let answer = (self.0.unknown)().into_http();
                (Box::pin(future::ready(Ok(answer))), None)
            }
            Some(service) => {
                let gate = self.0.gate.as_ref();
                let answering = match gate.and_then(|gate| gate.admit(&mut request)) {
                    None => (service.call)(request),
                    Some(caller) => {
                        let service = Arc::clone(service);
                        Box::pin(async move {
                            match caller.await {
                                Ok(caller) => {
                                    request.extensions_mut().insert(caller);
                                    (service.call)(request).await
                                }
                                Err(denial) => {
                                    Ok(status(&CallError::Denied(denial), "").into_http())
                                }
                            }
                        })
                    }
                };
                (answering, Some(service.bytes_max))
            }
        };
        async move {
            let Ok(answer) = answering.await;
            legible(answer, bytes_max)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use tonic::Code;

    use super::*;

    const BYTES_MAX: usize = 64 * 1024;

    /// A service that refuses every call with a status.
    #[derive(Clone)]
    struct Refusing(fn() -> Status);

    impl NamedService for Refusing {
        const NAME: &'static str = "test.Service";
    }

    impl Service<Request<Body>> for Refusing {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Answering;

        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _request: Request<Body>) -> Answering {
            Box::pin(future::ready(Ok((self.0)().into_http())))
        }
    }

    fn services(refusal: fn() -> Status) -> Services {
        Builder::new(None, || Status::unimplemented(""))
            .add(Refusing(refusal), BYTES_MAX)
            .build()
    }

    async fn status_of(services: &Services, path: &str) -> Status {
        let request = Request::builder().uri(path).body(Body::empty());
        let answer = services.call(request.unwrap()).await;
        Status::from_header_map(answer.headers()).unwrap()
    }

    #[tokio::test]
    async fn a_call_goes_to_the_service_that_its_path_names() {
        let services = services(|| Status::aborted("it was here"));
        for path in [
            "/test.Service/Method",
            "/test.Service/",
            "/test.Service/a/b",
        ] {
            assert_eq!(status_of(&services, path).await.message(), "it was here");
        }
        for path in [
            "/test.Service",
            "/",
            "/test/Service/Method",
            "/a/test.Service/Method",
        ] {
            let status = status_of(&services, path).await;
            assert_eq!(status.code(), Code::Unimplemented, "{path}");
            assert!(status.message().contains("no such method"), "{status:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_could_not_be_read_learns_the_bound_of_its_service() {
        let services = services(|| Status::out_of_range("found 70000 bytes"));
        let status = status_of(&services, "/test.Service/Method").await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("64 KiB"), "{status:?}");
    }
}
