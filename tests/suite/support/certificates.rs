//! Authorities, and certificates that they sign.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(86_400);

/// An authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, in PEM.
    pub pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Signed {
    pub cert: String,
    pub key: String,
    pub serial: u64,
}

/// What a certificate says.
pub struct Wanted<'a> {
    pub name: &'a str,
    /// Hosts that it is for; one without is for a client.
    pub hosts: &'a [&'a str],
    pub uri: Option<&'a str>,
    pub from: SystemTime,
    pub until: SystemTime,
}

impl<'a> Wanted<'a> {
    /// A certificate of a server on this machine.
    pub fn server() -> Self {
        Self {
            name: "server",
            hosts: &["localhost", "127.0.0.1"],
            uri: None,
            from: SystemTime::now() - DAY,
            until: SystemTime::now() + 30 * DAY,
        }
    }

    /// A certificate of a client.
    pub fn client(name: &'a str) -> Self {
        Self {
            name,
            hosts: &[],
            ..Self::server()
        }
    }

    /// The same, expired yesterday.
    pub fn expired(self) -> Self {
        Self {
            from: SystemTime::now() - 3 * DAY,
            until: SystemTime::now() - DAY,
            ..self
        }
    }
}

impl Authority {
    /// A new one with a key of its own.
    pub fn new(name: &str) -> Self {
        let mut params = params_of(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Signs a certificate.
    pub fn sign(&self, wanted: &Wanted) -> Signed {
        let mut params = params_of(wanted.name);
        let host = |host: &&str| match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*host).try_into().unwrap()),
        };
        params.subject_alt_names = wanted.hosts.iter().map(host).collect();
        let uri = wanted.uri.map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uri);
        params.extended_key_usages = vec![if wanted.hosts.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        params.not_before = date_time_ymd(1970, 1, 1) + since_1970(wanted.from);
        params.not_after = date_time_ymd(1970, 1, 1) + since_1970(wanted.until);
        let serial = rand::random::<u64>() >> 1;
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        Signed {
            cert: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    /// The list of these certificates as revoked, in PEM.
    pub fn revoke(&self, signed: &[&Signed]) -> String {
        let now = date_time_ymd(1970, 1, 1) + since_1970(SystemTime::now());
        let revoked = |signed: &&Signed| RevokedCertParams {
            serial_number: SerialNumber::from(signed.serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: now + DAY,
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: signed.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Signed {
    /// Writes `NAME.crt` and `NAME.key` into a directory; their paths.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let cert = directory.join(format!("{name}.crt"));
        let key = directory.join(format!("{name}.key"));
        fs::write(&cert, &self.cert).unwrap();
        fs::write(&key, &self.key).unwrap();
        (cert, key)
    }
}

/// Makes `ca.crt`, and `NAME.crt` with `NAME.key` for a server on this machine.
pub fn make(directory: &Path, name: &str) -> Authority {
    let authority = Authority::new("test-ca");
    fs::write(directory.join("ca.crt"), &authority.pem).unwrap();
    authority.sign(&Wanted::server()).write(directory, name);
    authority
}

/// A directory with what a Redis needs for TLS, and `client.crt` with `client.key` for its clients.
pub fn of_redis() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let authority = make(directory.path(), "redis");
    let client = authority.sign(&Wanted::client("tombola"));
    client.write(directory.path(), "client");
    directory
}

fn params_of(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

fn since_1970(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap()
}
