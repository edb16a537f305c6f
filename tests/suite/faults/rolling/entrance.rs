//! How callers come to replicas: in plaintext as anybody, or over TLS with a token.

use std::{fs, net::SocketAddr};

use tempfile::TempDir;
use tombola::grpc::access::TokenHash;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

use crate::support::certificates;

const TOKEN: &str = "a-token-of-the-callers";

/// What a caller needs; by default nothing.
#[derive(Clone, Default)]
pub struct Entrance {
    tls: Option<ClientTlsConfig>,
    bearer: Option<MetadataValue<Ascii>>,
}

impl Entrance {
    /// The way to a replica.
    pub fn endpoint(&self, address: SocketAddr) -> Endpoint {
        match &self.tls {
            None => Endpoint::from_shared(format!("http://{address}")).unwrap(),
            Some(tls) => {
                let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
                endpoint.tls_config(tls.clone()).unwrap()
            }
        }
    }
}

impl Interceptor for Entrance {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = &self.bearer {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", bearer.clone());
        }
        Ok(request)
    }
}

/// The files of replicas that speak TLS and know their callers.
pub struct Guarded {
    files: TempDir,
    authority: String,
}

impl Guarded {
    pub fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = certificates::make(files.path(), "tls").pem;
        let hash = TokenHash::of(TOKEN);
        let access = format!(
            "roles: {{caller: [draw, check, read]}}\n\
             identities: [{{name: shop, tokens: [{{sha256: {hash}}}]}}]\n\
             bindings: [{{identity: shop, role: caller, campaigns: [\"*\"], senders: [\"*\"]}}]\n"
        );
        fs::write(files.path().join("access.yaml"), access).unwrap();
        Self { files, authority }
    }

    /// The options of a replica.
    pub fn options(&self) -> String {
        let path = self.files.path().display();
        format!("--tls-cert {path}/tls.crt --tls-key {path}/tls.key --access {path}/access.yaml")
    }

    /// What its callers need.
    pub fn entrance(&self) -> Entrance {
        let authority = Certificate::from_pem(&self.authority);
        let tls = ClientTlsConfig::new().ca_certificate(authority);
        Entrance {
            tls: Some(tls.domain_name("localhost")),
            bearer: Some(format!("Bearer {TOKEN}").parse().unwrap()),
        }
    }
}
