//! One request to a server of others over HTTP/1.1: no redirection, bounded in size and time. For
//! the keys of issuers and for providers of identities.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Request, Response, Uri,
    body::Bytes,
    header::{HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// How long an exchange may take.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Sends a request to its URL, which is `https`, or `http` in plaintext: callers check which of
/// them may be. `ca_file` has the authorities of the server's certificate; none: the system's.
///
/// # Errors
/// There is no answer, or it has more bytes or takes more time than it may.
pub(crate) async fn exchange(
    request: Request<Full<Bytes>>,
    ca_file: Option<&PathBuf>,
    bytes_max: usize,
) -> Result<Response<Bytes>, String> {
    let answered = timeout(TIME_MAX, connect(request, ca_file, bytes_max)).await;
    answered.unwrap_or_else(|_| Err(format!("it takes more than {} s", TIME_MAX.as_secs())))
}

async fn connect(
    mut request: Request<Full<Bytes>>,
    ca_file: Option<&PathBuf>,
    bytes_max: usize,
) -> Result<Response<Bytes>, String> {
    let uri = request.uri().clone();
    let is_tls = uri.scheme_str() == Some("https");
    let authority = uri.authority().ok_or("the URL has no host")?.as_str();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let value = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, value);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("no connection: {error}"))?;
    if !is_tls {
        return send(stream, request, bytes_max).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(tls(ca_file)?));
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("no TLS: {error}"))?;
    send(stream, request, bytes_max).await
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<Response<Bytes>, String> {
    let stream = TokioIo::new(stream);
    let shaken = hyper::client::conn::http1::handshake(stream).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, bytes_max);
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    let answered = answered.await;
    connection.abort();
    answered
}

fn tls(ca_file: Option<&PathBuf>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            for authority in authorities(file)? {
                roots
                    .add(authority)
                    .map_err(|error| unusable(file, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).map_err(|error| unusable(file, &error))?;
    let found: Result<_, _> = found.collect();
    found.map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!(
        "the authorities in {} cannot be used: {error}",
        file.display()
    )
}
