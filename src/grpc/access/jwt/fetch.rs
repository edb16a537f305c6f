//! Fetches a key set over HTTP/1.1: one GET, no redirection, bounded in size and time.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Request, StatusCode, Uri,
    body::Bytes,
    header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue},
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

use super::keys::KEY_SET_BYTES_MAX;

/// How long a fetch may take.
const FETCH_TIME_MAX: Duration = Duration::from_secs(5);

/// Fetches the bytes behind a URL, which the policy has checked.
pub(super) async fn fetch(
    url: &str,
    ca_file: Option<&PathBuf>,
    token_file: Option<&PathBuf>,
) -> Result<Bytes, String> {
    let fetched = timeout(FETCH_TIME_MAX, get(url, ca_file, token_file)).await;
    fetched.unwrap_or_else(|_| Err(format!("it takes more than {} s", FETCH_TIME_MAX.as_secs())))
}

async fn get(
    url: &str,
    ca_file: Option<&PathBuf>,
    token_file: Option<&PathBuf>,
) -> Result<Bytes, String> {
    let uri: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
    let is_tls = uri.scheme_str() == Some("https");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let mut request = Request::get(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(
            HOST,
            uri.authority().map_or("", |authority| authority.as_str()),
        )
        .header(ACCEPT, "application/jwk-set+json, application/json");
    if let Some(file) = token_file {
        request = request.header(AUTHORIZATION, authorization(file)?);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("no connection: {error}"))?;
    if !is_tls {
        return ask(stream, request).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(tls(ca_file)?));
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("no TLS: {error}"))?;
    ask(stream, request).await
}

/// The header with the token of a file.
fn authorization(file: &Path) -> Result<HeaderValue, String> {
    let token = fs::read_to_string(file)
        .map_err(|error| format!("the file {} cannot be read: {error}", file.display()))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| format!("the file {} has no token", file.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<Bytes, String> {
    let stream = TokioIo::new(stream);
    let shaken = hyper::client::conn::http1::handshake(stream).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| error.to_string())?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer is {}", response.status()));
        }
        let body = Limited::new(response.into_body(), KEY_SET_BYTES_MAX);
        let body = body.collect().await.map_err(|error| error.to_string())?;
        Ok(body.to_bytes())
    };
    let answered = answered.await;
    connection.abort();
    answered
}

fn tls(ca_file: Option<&PathBuf>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let problem = |error: &dyn std::fmt::Display| {
                format!(
                    "the authorities in {} cannot be used: {error}",
                    file.display()
                )
            };
            let found = CertificateDer::pem_file_iter(file).map_err(|error| problem(&error))?;
            for authority in found {
                let authority = authority.map_err(|error| problem(&error))?;
                roots.add(authority).map_err(|error| problem(&error))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    };
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A server over TLS with this response, and the file with its certificate.
    async fn server(directory: &Path, response: &'static str) -> (String, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = directory.join("ca.crt");
        fs::write(&file, made.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                assert!(head[..read].starts_with(b"GET /keys HTTP/1.1"));
                stream.write_all(response.as_bytes()).await.unwrap();
                stream.shutdown().await.ok();
            }
        });
        (format!("https://localhost:{port}/keys"), file)
    }

    #[tokio::test]
    async fn keys_are_fetched_over_tls_from_whom_the_authorities_certify() {
        let directory = tempfile::tempdir().unwrap();
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nkeys";
        let (url, ca) = server(directory.path(), response).await;
        assert_eq!(fetch(&url, Some(&ca), None).await.unwrap(), "keys");
        let error = fetch(&url, None, None).await.unwrap_err();
        assert!(error.contains("no TLS"), "{error}");
        let other = url.replace("localhost", "127.0.0.1");
        let error = fetch(&other, Some(&ca), None).await.unwrap_err();
        assert!(error.contains("no TLS"), "{error}");
        let missing = directory.path().join("missing");
        let error = fetch(&url, Some(&missing), None).await.unwrap_err();
        assert!(error.contains("missing"), "{error}");
        let error = fetch(&url, Some(&ca), Some(&missing)).await.unwrap_err();
        assert!(error.contains("cannot be read"), "{error}");
    }

    #[tokio::test]
    async fn a_response_that_is_too_large_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\nkeys";
        let (url, ca) = server(directory.path(), response).await;
        assert!(fetch(&url, Some(&ca), None).await.is_err());
    }
}
