//! A collector: the receiver of OTLP that the project of OpenTelemetry generates, which takes,
//! refuses or hangs as a test wants it.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value},
    trace::v1::{Span, status::StatusCode},
};
use tokio::{
    net::TcpListener,
    runtime::Runtime,
    sync::{Notify, watch},
    time::timeout,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status, transport::Server};

use crate::process::PATIENCE;

/// What a collector does with spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    Take,
    /// Takes all but this number of each request.
    TakeAllBut(i64),
    Refuse(Code),
    /// Never answers.
    Hang,
}

/// A span that a collector has taken.
#[derive(Clone, Debug)]
pub struct Exported {
    pub span: Span,
    pub resource: BTreeMap<String, String>,
}

impl Exported {
    pub fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    pub fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// The id of the span above; empty if there is none.
    pub fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    /// Trace and span of each link.
    pub fn links(&self) -> Vec<(String, String)> {
        let links = self.span.links.iter();
        links
            .map(|link| (hex(&link.trace_id), hex(&link.span_id)))
            .collect()
    }

    /// The attributes, as texts.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        texts(&self.span.attributes)
    }

    /// An attribute; empty if there is none.
    pub fn attribute(&self, key: &str) -> String {
        self.attributes().remove(key).unwrap_or_default()
    }

    /// Whether it ended with an error.
    pub fn is_error(&self) -> bool {
        let status = self.span.status.clone().unwrap_or_default();
        status.code() == StatusCode::Error
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.clone().unwrap_or_default().value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let pairs = attributes.iter();
    pairs.map(|pair| (pair.key.clone(), text(pair))).collect()
}

struct Shared {
    conduct: watch::Sender<Conduct>,
    requests: watch::Sender<usize>,
    exported: Mutex<Vec<Exported>>,
    arrived: Notify,
}

#[tonic::async_trait]
impl TraceService for Shared {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        // Whoever waits for a request may change the conduct for the next one.
        let conduct = *self.conduct.borrow();
        self.requests.send_modify(|requests| *requests += 1);
        let mut partial_success = None;
        match conduct {
            Conduct::Take => {}
            Conduct::TakeAllBut(rejected_spans) => {
                let error_message = "some are\nnot wanted".into();
                partial_success = Some(ExportTracePartialSuccess {
                    rejected_spans,
                    error_message,
                });
            }
            Conduct::Refuse(code) => return Err(Status::new(code, "as a test wants it")),
            Conduct::Hang => std::future::pending().await,
        }
        for spans in request.into_inner().resource_spans {
            let resource = texts(&spans.resource.unwrap_or_default().attributes);
            let found = spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let found = found.map(|span| Exported {
                span,
                resource: resource.clone(),
            });
            let mut exported = self.exported.lock().unwrap_or_else(PoisonError::into_inner);
            exported.extend(found);
        }
        self.arrived.notify_waiters();
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success,
        }))
    }
}

/// A collector on a free port. It is gone when it is dropped.
pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Its own, so that its connections end with it.
    runtime: Option<Runtime>,
}

impl Collector {
    /// One that takes all spans.
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    /// One at this address.
    pub async fn start_at(address: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.spawn(TcpListener::bind(address));
        let listener = listener.await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            conduct: watch::Sender::new(Conduct::Take),
            requests: watch::Sender::new(0),
            exported: Mutex::default(),
            arrived: Notify::new(),
        });
        let service = TraceServiceServer::from_arc(Arc::clone(&shared));
        let serving = Server::builder().add_service(service);
        let serving = serving.serve_with_incoming(TcpListenerStream::new(listener));
        runtime.spawn(async move { serving.await.unwrap() });
        Self {
            address,
            shared,
            runtime: Some(runtime),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The arguments of a server that traces to it.
    pub fn arguments(&self) -> String {
        format!("--otlp-endpoint http://{}", self.address)
    }

    pub fn conducts(&self, conduct: Conduct) {
        self.shared.conduct.send_replace(conduct);
    }

    /// Waits until so many requests came.
    pub async fn asked(&self, times: usize) {
        let mut requests = self.shared.requests.subscribe();
        let asked = requests.wait_for(|requests| *requests >= times);
        timeout(PATIENCE, asked).await.unwrap().unwrap();
    }

    /// How many requests came.
    pub fn requests(&self) -> usize {
        *self.shared.requests.borrow()
    }

    /// What it has taken so far.
    pub fn exported(&self) -> Vec<Exported> {
        let exported = &self.shared.exported;
        exported
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until it has taken what is wanted.
    pub async fn until<T>(&self, wanted: impl Fn(&[Exported]) -> Option<T>) -> T {
        let found = async {
            loop {
                let arrived = self.shared.arrived.notified();
                if let Some(found) = wanted(&self.exported()) {
                    return found;
                }
                arrived.await;
            }
        };
        let found = timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("not among {:#?}", self.exported()))
    }

    /// Waits for spans of this name in this trace.
    pub async fn spans(&self, trace: &str, name: &str, count: usize) -> Vec<Exported> {
        self.until(|exported| {
            let of = exported.iter();
            let of = of.filter(|it| it.trace() == trace && it.span.name == name);
            let of: Vec<_> = of.cloned().collect();
            (of.len() >= count).then_some(of)
        })
        .await
    }

    /// Waits for the only span of this name in this trace.
    pub async fn span(&self, trace: &str, name: &str) -> Exported {
        let mut spans = self.spans(trace, name, 1).await;
        assert_eq!(spans.len(), 1, "{spans:#?}");
        spans.remove(0)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
