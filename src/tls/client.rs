//! The files of a TLS client: the authorities it trusts, and its own certificate.

use std::{path::PathBuf, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};

use super::{
    files::{File, Loaded, TlsError, Watched},
    pem::{Authorities, Pair},
};

/// What its options, or the parameters of its URL, are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) ca: &'static str,
    pub(crate) cert: &'static str,
    pub(crate) key: &'static str,
    /// What it connects to, for the log and the metrics.
    pub(crate) purpose: &'static str,
    /// The metrics' names of its authorities and of its certificate.
    pub(crate) expiries: [&'static str; 2],
}

/// The files of a client, of which none is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientTls {
    /// The authorities of servers, instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate, and its key.
    pub(crate) pair: Option<(PathBuf, PathBuf)>,
}

/// The contents of a client's files, checked: they can be used, and they fit together.
pub(crate) struct ClientMaterial {
    /// The authorities, in PEM.
    pub(crate) ca: Option<Vec<u8>>,
    /// The certificate and its key, in PEM.
    pub(crate) pair: Option<(Vec<u8>, Vec<u8>)>,
    authorities: Option<Authorities>,
    checked: Option<Pair>,
}

impl ClientTls {
    fn files(&self, names: Names) -> Vec<File> {
        let file = |option, path: &PathBuf| File {
            option,
            path: path.clone(),
        };
        let mut files: Vec<File> = self.ca.iter().map(|ca| file(names.ca, ca)).collect();
        if let Some((cert, key)) = &self.pair {
            files.extend([file(names.cert, cert), file(names.key, key)]);
        }
        files
    }

    /// Reads the files once.
    pub(crate) fn read(&self, names: Names) -> Result<ClientMaterial, TlsError> {
        let files = self.files(names);
        let contents: Result<Vec<_>, _> = files.iter().map(File::read).collect();
        self.material(&files, &contents?, &[])
    }

    /// Reads the files, and reads them again when they change.
    pub(crate) fn watch(self, names: Names) -> Result<Arc<Watched<ClientMaterial>>, TlsError> {
        let files = self.files(names);
        Watched::open(names.purpose, files.clone(), move |contents, kept| {
            let value = self.material(&files, contents, kept)?;
            let [ca, pair] = names.expiries;
            let authorities = value.authorities.as_ref();
            let authorities = authorities.map(|authorities| (ca, authorities.expiry_s));
            let checked = value
                .checked
                .as_ref()
                .map(|checked| (pair, checked.expiry_s));
            Ok(Loaded {
                expiries: authorities.into_iter().chain(checked).collect(),
                value,
            })
        })
    }

    fn material(
        &self,
        files: &[File],
        contents: &[Vec<u8>],
        kept: &[bool],
    ) -> Result<ClientMaterial, TlsError> {
        // The certificate comes after the authorities, if there are any.
        let is_kept = kept.get(usize::from(self.ca.is_some())) == Some(&true);
        let mut found = files.iter().zip(contents.iter().map(Vec::as_slice));
        let ca = self.ca.as_ref().and_then(|_| found.next());
        let pair = self
            .pair
            .as_ref()
            .and_then(|_| found.next().zip(found.next()));
        Ok(ClientMaterial {
            authorities: ca.map(Authorities::read).transpose()?,
            checked: pair
                .map(|(cert, key)| Pair::read(cert, key, is_kept))
                .transpose()?,
            ca: ca.map(|(_, pem)| pem.to_vec()),
            pair: pair.map(|((_, cert), (_, key))| (cert.to_vec(), key.to_vec())),
        })
    }
}

impl ClientMaterial {
    /// TLS that trusts the named authorities, or else the system's, and presents the certificate.
    pub(crate) fn config(&self) -> Result<ClientConfig, rustls::Error> {
        let roots = match &self.authorities {
            Some(authorities) => authorities.roots.clone(),
            None => systems_roots(),
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        match &self.checked {
            Some(pair) => builder.with_client_auth_cert(pair.chain.clone(), pair.key.clone_key()),
            None => Ok(builder.with_no_client_auth()),
        }
    }
}

/// The authorities that the system trusts.
fn systems_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
