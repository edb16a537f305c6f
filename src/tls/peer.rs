//! The client at the other end of a TLS connection.

use sha2::{Digest as _, Sha256};
use x509_cert::{
    Certificate,
    der::Decode as _,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// How a SPIFFE id begins.
const SPIFFE_SCHEME: &str = "spiffe://";

/// The longest SPIFFE id, in bytes (SPIFFE-ID, section 2.3).
const SPIFFE_BYTES_MAX: usize = 2048;

/// A client whose certificate was verified in the handshake. Requests of its connection carry it as
/// an extension; requests of other connections have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The SPIFFE id: the only URI among the subject's alternative names (X509-SVID, section 2).
    pub spiffe: Option<String>,
    /// The subject as RFC 4514 writes it, such as `CN=shop,O=Example`. Absent if it is empty, and
    /// if the certificate is of a mesh but has no SPIFFE id that can be used: workloads may choose
    /// their subjects there.
    pub subject: Option<String>,
    /// The SHA-256 digest of the certificate, in lower-case hexadecimal digits.
    pub fingerprint: String,
}

impl Peer {
    /// Reads the names in a verified certificate. One that cannot be read in full has no names.
    pub(crate) fn of(certificate: &[u8]) -> Self {
        let digest = Sha256::digest(certificate);
        let fingerprint = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let parsed = Certificate::from_der(certificate).ok();
        let (spiffe, subject) = parsed.as_ref().and_then(names).unwrap_or_default();
        Self {
            spiffe,
            subject,
            fingerprint,
        }
    }
}

/// The SPIFFE id and the subject of a certificate; nothing if its names cannot be read. One with
/// several URIs has no SPIFFE id: it would not be clear who it is.
fn names(certificate: &Certificate) -> Option<(Option<String>, Option<String>)> {
    let found = certificate.tbs_certificate.get::<SubjectAltName>().ok()?;
    let names = found
        .map(|(_, SubjectAltName(names))| names)
        .unwrap_or_default();
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str()),
        _ => None,
    });
    let uris: Vec<&str> = uris.collect();
    let spiffe = match uris[..] {
        [uri] if is_spiffe_id(uri) => Some(uri.to_owned()),
        _ => None,
    };
    let is_of_mesh = uris
        .iter()
        .any(|uri| uri.to_ascii_lowercase().starts_with("spiffe:"));
    let subject = &certificate.tbs_certificate.subject;
    let may_name = !subject.is_empty() && (spiffe.is_some() || !is_of_mesh);
    Some((spiffe, may_name.then(|| subject.to_string())))
}

/// Whether this is a SPIFFE id in its one form: nothing that two spellings could share.
fn is_spiffe_id(uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(SPIFFE_SCHEME) else {
        return false;
    };
    let (domain, path) = rest.split_once('/').unwrap_or((rest, ""));
    let of_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    let of_path = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_segment = |text: &str| !matches!(text, "" | "." | "..") && text.chars().all(of_path);
    uri.len() <= SPIFFE_BYTES_MAX
        && !domain.is_empty()
        && domain.chars().all(of_domain)
        && (!rest.contains('/') || path.split('/').all(is_segment))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn peer(subject: Option<&str>, uris: &[&str]) -> Peer {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(subject) = subject {
            params.distinguished_name.push(DnType::CommonName, subject);
        }
        let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
        params.subject_alt_names = uris.iter().map(uri).collect();
        let key = KeyPair::generate().unwrap();
        Peer::of(params.self_signed(&key).unwrap().der())
    }

    #[test]
    fn a_client_is_named_by_its_certificate() {
        let shop = peer(
            Some("shop, Ltd"),
            &["spiffe://example.org/ns/shop/sa/backend"],
        );
        let id = "spiffe://example.org/ns/shop/sa/backend";
        assert_eq!(shop.spiffe.as_deref(), Some(id));
        assert_eq!(shop.subject.as_deref(), Some(r"CN=shop\, Ltd"));
        assert_eq!(shop.fingerprint.len(), 64);
        let nameless = peer(None, &[]);
        assert_eq!((nameless.spiffe, nameless.subject), (None, None));
    }

    #[test]
    fn only_a_single_uri_that_is_a_spiffe_id_names_a_client() {
        let id = "spiffe://example.org/shop";
        assert_eq!(peer(None, &[id, "https://example.org"]).spiffe, None);
        assert_eq!(peer(None, &["https://example.org"]).spiffe, None);
        for good in ["spiffe://example.org", id, "spiffe://e-x_1.org/a/B.c"] {
            assert!(is_spiffe_id(good), "{good}");
        }
        for bad in [
            "spiffe://",
            "spiffe:///shop",
            "SPIFFE://example.org/shop",
            "spiffe://Example.org/shop",
            "spiffe://example.org/",
            "spiffe://example.org/a//b",
            "spiffe://example.org/a/../b",
            "spiffe://example.org/a?b",
            "spiffe://example.org:1/a",
            "spiffe://user@example.org/a",
            "spiffe://example.org/%61",
        ] {
            assert!(!is_spiffe_id(bad), "{bad}");
        }
    }

    /// A workload that may choose its subject must not pass for somebody else by a second URI.
    #[test]
    fn a_certificate_of_a_mesh_without_a_usable_id_has_no_subject_either() {
        let id = "spiffe://example.org/shop";
        for uris in [
            &[id, "spiffe://example.org/b"][..],
            &["SPIFFE://example.org/shop"],
        ] {
            let peer = peer(Some("ops"), uris);
            assert_eq!((peer.spiffe, peer.subject), (None, None), "{uris:?}");
        }
        let subject = peer(Some("ops"), &["https://example.org"]).subject;
        assert_eq!(subject.as_deref(), Some("CN=ops"));
    }

    #[test]
    fn bytes_that_are_no_certificate_have_a_fingerprint_only() {
        let peer = Peer::of(b"no certificate");
        assert_eq!((peer.spiffe, peer.subject), (None, None));
        assert_eq!(peer.fingerprint.len(), 64);
    }
}
