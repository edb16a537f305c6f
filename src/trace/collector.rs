//! The collector that spans are sent to: OTLP over gRPC, in plaintext.

use std::{error::Error as _, fmt, str::FromStr, time::Duration};

use hyper::Uri;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, trace_service_client::TraceServiceClient,
};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint as Connector},
};

/// How long a connection may take, and the answer to an export.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
const EXPORT_TIME_MAX: Duration = Duration::from_secs(5);

/// The most characters of a collector's words that are logged.
const WORDS_MAX: usize = 300;

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Uri);

impl FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write a scheme, a host and a port, e.g. http://collector:4317";
        let uri: Uri = text.parse().map_err(|_| FORM)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "spans go to a collector in plaintext: write http://, and run the \
                            collector where the network is yours",
                );
            }
            _ => return Err(FORM),
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("a collector is named without user and password");
        }
        if uri.host().is_none_or(str::is_empty) || uri.port_u16().is_none_or(|port| port == 0) {
            return Err(FORM);
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(
                "OTLP over gRPC has no path: write only http://, a host and a port, which \
                        is mostly 4317",
            );
        }
        Ok(Self(uri))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        write!(f, "http://{authority}")
    }
}

/// The collector did not take spans.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) text: String,
    /// It may take them later.
    pub(super) may_pass: bool,
}

/// A collector.
pub(super) struct Collector {
    endpoint: Endpoint,
    client: Option<TraceServiceClient<Channel>>,
}

impl Collector {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            client: None,
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends spans. How many of them the collector refused, and why.
    pub(super) async fn export(
        &mut self,
        request: ExportTraceServiceRequest,
    ) -> Result<(u64, String), Fault> {
        let client = self.client.get_or_insert_with(|| connect(&self.endpoint));
        match timeout(EXPORT_TIME_MAX, client.export(request)).await {
            Ok(Ok(response)) => {
                let refused = response.into_inner().partial_success.unwrap_or_default();
                let count = u64::try_from(refused.rejected_spans).unwrap_or_default();
                Ok((count, words(&refused.error_message)))
            }
            Ok(Err(status)) => Err(Fault::of(&status)),
            Err(_) => {
                // The other end of the connection may be gone without a word.
                self.client = None;
                Err(Fault {
                    text: format!("it does not answer within {} s", EXPORT_TIME_MAX.as_secs()),
                    may_pass: true,
                })
            }
        }
    }
}

/// A client that connects with its first call, and again when it must.
fn connect(endpoint: &Endpoint) -> TraceServiceClient<Channel> {
    let connector = Connector::from(endpoint.0.clone()).connect_timeout(CONNECT_TIME_MAX);
    TraceServiceClient::new(connector.connect_lazy())
}

impl Fault {
    fn of(status: &Status) -> Self {
        let mut text = format!("{:?}: {}", status.code(), status.message());
        let mut cause = status.source();
        // Only a failure of the connection has a cause here: what a collector answers has none.
        let is_broken = cause.is_some();
        while let Some(error) = cause {
            let error_text = error.to_string();
            if !text.contains(&error_text) {
                text = format!("{text}: {error_text}");
            }
            cause = error.source();
        }
        // The codes are those that the specification of OTLP lists.
        let may_pass = is_broken
            || matches!(
                status.code(),
                Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::OutOfRange
                    | Code::Unavailable
                    | Code::DataLoss
            );
        Self {
            text: words(&text),
            may_pass,
        }
    }
}

/// What a collector says, on one line and no longer than it should be.
fn words(text: &str) -> String {
    let one_line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_scheme_a_host_and_a_port() {
        for text in [
            "http://collector:4317",
            "http://127.0.0.1:4317/",
            "http://[::1]:4317",
            "http://otel.monitoring.svc.cluster.local:14317",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text.trim_end_matches('/'));
        }
        for (text, word) in [
            ("", "e.g."),
            ("collector", "e.g."),
            ("collector:4317", "e.g."),
            ("http://", "e.g."),
            ("http://collector", "e.g."),
            ("http://collector:0", "e.g."),
            ("http://collector:port", "e.g."),
            ("http://:4317", "e.g."),
            ("grpc://collector:4317", "e.g."),
            ("http://a b:4317", "e.g."),
            ("https://collector:4317", "plaintext"),
            ("http://user:secret@collector:4317", "without user"),
            ("http://collector:4318/v1/traces", "no path"),
            ("http://collector:4317/?a=b", "no path"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains("secret"));
        }
    }

    #[test]
    fn what_a_collector_says_stays_on_one_short_line() {
        let fault = Fault::of(&Status::internal(
            "a\nb\x1b[31m".to_owned() + &"x".repeat(9_999),
        ));
        assert!(!fault.may_pass);
        assert_eq!(fault.text.chars().count(), WORDS_MAX);
        assert!(!fault.text.contains(char::is_control), "{}", fault.text);
        assert!(Fault::of(&Status::unavailable("")).may_pass);
    }
}
