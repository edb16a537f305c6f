//! A collector of traces: it counts the spans that a service sends, and keeps none.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::failure::{Failure, Outcome};

/// A collector on a free port. It is gone when it is dropped.
pub(crate) struct Collector {
    url: String,
    spans: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Collector {
    /// Starts one.
    pub(crate) async fn start() -> Outcome<Self> {
        let failed = |error: std::io::Error| {
            let message = format!("a collector of traces cannot be started: {error}");
            Failure::refused("NO_COLLECTOR", message)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let spans = Arc::default();
        let counter = Counter(Arc::clone(&spans));
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(TraceServiceServer::new(counter));
            // If it ends, the spans that are missing are noticed.
            drop(
                server
                    .serve_with_incoming(TcpIncoming::from(listener))
                    .await,
            );
        });
        Ok(Self {
            url: format!("http://{address}"),
            spans,
            serving,
        })
    }

    /// Where it takes spans.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How many spans it has taken.
    pub(crate) fn spans(&self) -> usize {
        self.spans.load(Ordering::Relaxed)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Counter(Arc<AtomicUsize>);

#[tonic::async_trait]
impl TraceService for Counter {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let scopes = request
            .resource_spans
            .iter()
            .flat_map(|spans| &spans.scope_spans);
        let spans = scopes.map(|scope| scope.spans.len()).sum();
        self.0.fetch_add(spans, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
