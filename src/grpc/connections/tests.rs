//! What requests know of the client at the other end, and that the documents name the bounds of
//! connections.

use std::{
    convert::Infallible,
    fs,
    path::Path,
    task::{Context, Poll},
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType,
};
use tokio::{net::TcpListener, sync::oneshot};
use tonic::{
    Code, Status,
    body::Body,
    client::Grpc,
    codegen::{BoxFuture, http::Response},
    server::NamedService,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tower::Service;

use super::{
    super::{server, services},
    requests::Sender,
    *,
};
use crate::tls::{self, ClientAuth, ClientFiles, File, ServerFiles};

const SHOP: &str = "spiffe://example.org/ns/shop/sa/backend";

/// An authority, and files of a server.
struct Files {
    directory: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let files = Self {
            directory: tempfile::tempdir().unwrap(),
            authority: CertifiedIssuer::self_signed(params, key).unwrap(),
        };
        let (cert, key) = files.sign(SanType::DnsName("localhost".try_into().unwrap()));
        let path = files.directory.path();
        fs::write(path.join("tls.crt"), cert).unwrap();
        fs::write(path.join("tls.key"), key).unwrap();
        fs::write(path.join("ca.crt"), files.authority.pem()).unwrap();
        files
    }

    fn sign(&self, name: SanType) -> (String, String) {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "shop");
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.authority).unwrap().pem();
        (cert, key.serialize_pem())
    }

    fn tls(&self) -> Arc<ServerTls> {
        let file = |path: &Path, name| File {
            option: "--tls",
            path: path.join(name),
        };
        let path = self.directory.path();
        let files = ServerFiles {
            cert: file(path, "tls.crt"),
            key: file(path, "tls.key"),
            clients: Some(ClientFiles {
                ca: file(path, "ca.crt"),
                crl: None,
                auth: ClientAuth::Optional,
            }),
        };
        Arc::new(ServerTls::open(files, Duration::from_secs(60)).unwrap())
    }
}

/// Refuses every call with the client's name as the message.
#[derive(Clone)]
struct Name;

impl NamedService for Name {
    const NAME: &'static str = "tombola.v1.LotteryService";
}

impl Service<Request<Body>> for Name {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<tls::Peer>();
        let named = peer.map_or_else(|| "nobody".to_owned(), |peer| format!("{peer:?}"));
        let status = Status::new(Code::Aborted, named);
        Box::pin(std::future::ready(Ok(status.into_http())))
    }
}

#[tokio::test]
async fn requests_carry_the_name_in_the_client_s_certificate() {
    let files = Files::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let services = services::Builder::new(None, || Status::unimplemented("")).add(Name, 1024);
    let (stop, stopped) = oneshot::channel::<()>();
    let bounds = Bounds::of(&Settings::default());
    let serving = serve(
        listener,
        (services.build(), None),
        (Some(files.tls()), None),
        bounds,
        async {
            drop(stopped.await);
        },
    );
    let asking = async {
        let ask = async |own: Option<Identity>| {
            let trusted = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(files.authority.pem()))
                .domain_name("localhost");
            let config = match own {
                Some(own) => trusted.identity(own),
                None => trusted,
            };
            let endpoint = Endpoint::from_shared(url.clone()).unwrap();
            let channel = endpoint
                .tls_config(config)
                .unwrap()
                .connect()
                .await
                .unwrap();
            message(channel).await
        };
        assert_eq!(ask(None).await, "nobody");
        let (cert, key) = files.sign(SanType::URI(SHOP.try_into().unwrap()));
        let named = ask(Some(Identity::from_pem(cert, key))).await;
        assert!(named.contains(SHOP) && named.contains("CN=shop"), "{named}");
        drop(stop);
    };
    tokio::join!(serving, asking);
}

/// The message with which a call is refused.
async fn message(channel: Channel) -> String {
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let path = "/tombola.v1.LotteryService/Draw".parse().unwrap();
    let refused = client.unary(tonic::Request::new(()), path, codec).await;
    refused.unwrap_err().message().to_owned()
}

#[test]
fn the_page_of_limits_has_the_bounds_of_connections_and_requests() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/limits.md");
    let page = fs::read_to_string(page).unwrap();
    let (kib, mib) = (|bytes: usize| bytes >> 10, |bytes: usize| bytes >> 20);
    let grouped = |number: usize| format!("{},{:03}", number / 1000, number % 1000);
    let (of_callers, of_all) = (Sender::Caller.bytes_max(), Sender::Operator.bytes_max());
    let rows = [
        format!(
            "| request from callers / from operators / to `EnvelopeService` | {} KiB / {} MiB / {} \
             MiB |",
            kib(server::CALLER_BYTES_MAX),
            mib(server::OPERATOR_BYTES_MAX),
            mib(server::SENDER_BYTES_MAX)
        ),
        format!(
            "| request headers | {} KiB |",
            kib(answers::HEADER_BYTES_MAX)
        ),
        format!(
            "| request of health and reflection | {} KiB |",
            kib(server::OTHER_BYTES_MAX)
        ),
        format!(
            "| contents of requests over {} KiB, until they are answered | {} MiB on a connection, \
             {} MiB in all, of which {} MiB are for operators |",
            kib(peer::CALL_BYTES),
            mib(peer::TAKEN_BYTES_MAX),
            mib(of_all),
            mib(of_all - of_callers)
        ),
        format!(
            "with the arrival of its request | {} s / {} s,",
            Sender::Operator.time_max().as_secs(),
            Sender::Caller.time_max().as_secs()
        ),
        format!(
            "| calls of health and reflection at once | {} on a connection. Each connection may \
             have one call that lasts, such as `Watch`; further ones share {} places.",
            peer::OTHER_CALLS_MAX,
            grouped(peer::LASTING_CALLS_MAX)
        ),
        format!(
            "| streams on a connection | {}; {} of them at once",
            grouped(STREAMS_PER_CONNECTION_MAX as usize),
            peer::LARGE_CALLS_MAX
        ),
        format!(
            "| time until a client speaks HTTP/2 | {} s |",
            progress::SPEAK_TIME_MAX.as_secs()
        ),
        format!(
            "| time in which a client reads nothing | {} s |",
            progress::UNREAD_TIME_MAX.as_secs()
        ),
        format!(
            "| unsent responses | {} MiB on a connection, {} MiB in all, with {} KiB for each open \
             call |",
            mib(peer::UNSENT_BYTES_MAX),
            mib(peer::HELD_BYTES_MAX),
            kib(peer::CALL_BYTES)
        ),
    ];
    for row in rows {
        assert!(page.contains(&row), "docs/limits.md has no {row:?}");
    }
}
