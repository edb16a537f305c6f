//! A collector of traces: it notes that a service sends spans, and keeps none.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tokio::{net::TcpListener, sync::SetOnce, task::JoinHandle};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::failure::{Failure, Outcome};

/// A collector on a free port. It is gone when it is dropped.
pub(crate) struct Collector {
    url: String,
    came: Arc<SetOnce<()>>,
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
        let came = Arc::default();
        let taker = Taker(Arc::clone(&came));
        let serving = tokio::spawn(async move {
            let server = Server::builder().add_service(TraceServiceServer::new(taker));
            // If it ends, the spans that are missing are noticed.
            drop(
                server
                    .serve_with_incoming(TcpIncoming::from(listener))
                    .await,
            );
        });
        Ok(Self {
            url: format!("http://{address}"),
            came,
            serving,
        })
    }

    /// Where it takes spans.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Waits until it has taken a span.
    pub(crate) async fn first_span(&self) {
        self.came.wait().await;
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Taker(Arc<SetOnce<()>>);

#[tonic::async_trait]
impl TraceService for Taker {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let mut scopes = request
            .resource_spans
            .iter()
            .flat_map(|spans| &spans.scope_spans);
        if scopes.any(|scope| !scope.spans.is_empty()) {
            // Only the first one is noted.
            let _first = self.0.set(());
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
