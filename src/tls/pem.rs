//! What files of TLS contain: certificates, keys and lists of revoked certificates, in PEM.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::{
    RootCertStore,
    crypto::{CryptoProvider, ring::default_provider},
    pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use x509_cert::{Certificate, crl::CertificateList, der::Decode as _, time::Time};

use super::files::{File, TlsError};

/// A certificate with its chain and its key, which fit together.
pub(crate) struct Pair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// When the certificate expires, in Unix time.
    pub(crate) expiry_s: i64,
}

/// Authorities that certificates are checked against.
pub(crate) struct Authorities {
    pub(crate) roots: RootCertStore,
    /// When the first of those that are still valid expires, in Unix time.
    pub(crate) expiry_s: i64,
}

impl Pair {
    /// Reads a certificate and its key. One that has expired, or that is not valid yet, is refused
    /// unless it is in use already: then it stays in use, and other new files are used beside it.
    pub(crate) fn read(
        cert: (&File, &[u8]),
        key: (&File, &[u8]),
        is_in_use: bool,
    ) -> Result<Self, TlsError> {
        let chain = certificates(cert)?;
        let (cert, key_file) = (cert.0, key.0);
        let key = PrivateKeyDer::from_pem_slice(key.1).map_err(|error| {
            key_file.problem(format!(
                "has no private key that can be read ({error}): name one in PEM that is not \
                 encrypted"
            ))
        })?;
        fit(&chain, &key).map_err(|error| match error {
            Unfit::Key(error) => key_file.problem(format!("has a key of no use here: {error}")),
            Unfit::Pair => key_file.problem(format!(
                "is not the key of the certificate in {}: name the two that were made together",
                cert.path.display()
            )),
        })?;
        let (start_s, expiry_s) = validity(&chain[0]).map_err(|error| cert.problem(error))?;
        if !is_in_use {
            check_validity(cert, start_s, expiry_s)?;
        }
        Ok(Self {
            chain,
            key,
            expiry_s,
        })
    }
}

/// Refuses a certificate that is not valid now.
fn check_validity(cert: &File, start_s: i64, expiry_s: i64) -> Result<(), TlsError> {
    let now_s = now_s();
    if expiry_s <= now_s {
        let expired = moment(expiry_s);
        return Err(cert.problem(format!("expired at {expired}: replace it by a new one")));
    }
    if start_s > now_s {
        let text = format!(
            "is not valid before {}: wait, or check the clock of this machine",
            moment(start_s)
        );
        return Err(cert.problem(text));
    }
    Ok(())
}

impl Authorities {
    /// Reads the certificates of authorities, at least one.
    pub(crate) fn read((file, pem): (&File, &[u8])) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let (now_s, mut valid, mut last_s) = (now_s(), None::<i64>, i64::MIN);
        for authority in certificates((file, pem))? {
            let (_, expiry_s) = validity(&authority).map_err(|error| file.problem(error))?;
            roots
                .add(authority)
                .map_err(|error| file.problem(format!("has no usable authority: {error}")))?;
            last_s = last_s.max(expiry_s);
            if expiry_s > now_s {
                valid = Some(valid.map_or(expiry_s, |least| least.min(expiry_s)));
            }
        }
        Ok(Self {
            roots,
            expiry_s: valid.unwrap_or(last_s),
        })
    }
}

/// Reads lists of revoked certificates, and when the first of them is to be replaced, if they say.
pub(crate) fn revocations(
    (file, pem): (&File, &[u8]),
) -> Result<(Vec<CertificateRevocationListDer<'static>>, Option<i64>), TlsError> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    let lists = found.map_err(|error| file.problem(format!("is damaged: {error}")))?;
    if lists.is_empty() {
        return Err(file.problem("has no list of revoked certificates (X509 CRL) in PEM"));
    }
    let mut next = None::<i64>;
    for list in &lists {
        let parsed = CertificateList::from_der(list)
            .map_err(|error| file.problem(format!("is damaged: {error}")))?;
        let update = parsed.tbs_cert_list.next_update.map(seconds);
        next = [next, update].into_iter().flatten().min();
    }
    Ok((lists, next))
}

/// All certificates of a file, at least one.
fn certificates((file, pem): (&File, &[u8])) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(file.problem("has no certificate: name a file in PEM, as \"BEGIN CERTIFICATE\""))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(file.problem(format!("is damaged: {error}"))),
    }
}

/// Why a key cannot be used with a certificate.
enum Unfit {
    Key(rustls::Error),
    Pair,
}

fn fit(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>) -> Result<(), Unfit> {
    let provider: CryptoProvider = default_provider();
    let key = provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(Unfit::Key)?;
    CertifiedKey::new(chain.to_vec(), key)
        .keys_match()
        .map_err(|_| Unfit::Pair)
}

/// From when until when a certificate is valid, in Unix time.
pub(super) fn validity(certificate: &[u8]) -> Result<(i64, i64), String> {
    let parsed = Certificate::from_der(certificate)
        .map_err(|error| format!("has a damaged certificate: {error}"))?;
    let validity = parsed.tbs_certificate.validity;
    Ok((seconds(validity.not_before), seconds(validity.not_after)))
}

fn seconds(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}

pub(super) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.unwrap_or(Duration::ZERO).as_secs()).unwrap_or(i64::MAX)
}

/// A moment for people.
pub(super) fn moment(unix_s: i64) -> String {
    jiff::Timestamp::from_second(unix_s).map_or_else(|_| unix_s.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_that_has_expired_is_refused_unless_it_is_in_use() {
        let mut params = CertificateParams::default();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        let files = ["--tls-cert", "--tls-key"].map(|option| File {
            option,
            path: option.into(),
        });
        let read = |is_in_use| {
            let (cert, key) = (cert.as_bytes(), key.as_bytes());
            Pair::read((&files[0], cert), (&files[1], key), is_in_use)
        };
        let error = read(false).err().unwrap();
        assert!(error.problem.contains("expired at 2001-01-01"), "{error}");
        assert_eq!(read(true).unwrap().expiry_s, 978_307_200);
    }
}
