//! Fetches a key set: one GET, no redirection, bounded in size and time.

use std::{
    fs,
    path::{Path, PathBuf},
};

use http_body_util::Full;
use hyper::{
    Request, StatusCode,
    body::Bytes,
    header::{ACCEPT, AUTHORIZATION, HeaderValue},
};

use super::keys::KEY_SET_BYTES_MAX;
use crate::tls::exchange;

/// Fetches the bytes behind a URL, which the policy has checked.
pub(super) async fn fetch(
    url: &str,
    ca_file: Option<&PathBuf>,
    token_file: Option<&PathBuf>,
) -> Result<Bytes, String> {
    let mut request =
        Request::get(url).header(ACCEPT, "application/jwk-set+json, application/json");
    if let Some(file) = token_file {
        request = request.header(AUTHORIZATION, authorization(file)?);
    }
    let request = request
        .body(Full::default())
        .map_err(|error| error.to_string())?;
    let response = exchange(request, ca_file, KEY_SET_BYTES_MAX).await?;
    match response.status() {
        StatusCode::OK => Ok(response.into_body()),
        status => Err(format!("the answer is {status}")),
    }
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

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

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
