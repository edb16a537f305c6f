//! What to do about a TLS connection that fails.

use std::{error::Error, io};

use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// A failed TLS connection, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsFault {
    /// What is wrong.
    pub(super) problem: String,
    /// What to do.
    pub(super) advice: &'static str,
}

impl TlsFault {
    /// The fault of TLS among the causes of an error, if there is one.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(found) = tls_error(error) {
                return Some(explain(found));
            }
            cause = error.source();
        }
        None
    }
}

/// The error of TLS that this error is, or that it contains.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    let within = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    error
        .downcast_ref::<TlsError>()
        .or_else(|| within?.downcast_ref::<TlsError>())
}

fn explain(error: &TlsError) -> TlsFault {
    match error {
        TlsError::InvalidCertificate(error) => of_the_server(error),
        TlsError::AlertReceived(alert) => of_this_side(*alert),
        TlsError::InvalidMessage(_) => TlsFault {
            problem: "the server does not answer in TLS".into(),
            advice: NO_TLS,
        },
        TlsError::PeerIncompatible(error) => TlsFault {
            problem: format!("the server has no TLS that this program knows: {error:?}"),
            advice: "the server must speak TLS 1.2 or 1.3",
        },
        error => TlsFault {
            problem: format!("TLS failed: {error}"),
            advice: "the server's log says more",
        },
    }
}

const NO_TLS: &str = "if it is a Tombola without TLS, write http:// instead of https://";

/// Why this program does not accept the server's certificate.
fn of_the_server(error: &CertificateError) -> TlsFault {
    use CertificateError as E;
    let (problem, advice) = match error {
        E::Expired | E::ExpiredContext { .. } => (
            "the server's certificate has expired".into(),
            "give the server a new one (it reads its files again), or correct this machine's clock",
        ),
        E::NotValidYet | E::NotValidYetContext { .. } => (
            "the server's certificate is not valid yet".into(),
            "check the clocks of this machine and of the one that made the certificate",
        ),
        E::NotValidForName | E::NotValidForNameContext { .. } => (
            format!("the server's certificate is for another name ({error})"),
            "write the host in --server as the certificate has it, or name it with \
             --tls-server-name",
        ),
        E::UnknownIssuer => (
            "the server's certificate is of an authority that this program does not trust".into(),
            "name the certificate of that authority with --tls-ca",
        ),
        error => (
            format!("the server's certificate is not accepted: {error}"),
            "name the authority that signed it with --tls-ca",
        ),
    };
    TlsFault { problem, advice }
}

/// Why the server does not accept this program, by the alert that it sent.
fn of_this_side(alert: AlertDescription) -> TlsFault {
    use AlertDescription as A;
    let (problem, advice) = match alert {
        A::CertificateRequired => (
            "the server asks for a certificate".into(),
            "name one that it accepts with --tls-cert and --tls-key",
        ),
        A::UnknownCA => (
            "the server does not trust the authority of this program's certificate".into(),
            "name one of an authority in the server's --tls-client-ca",
        ),
        A::CertificateExpired => (
            "this program's certificate has expired".into(),
            "name a new one with --tls-cert and --tls-key",
        ),
        A::CertificateRevoked => (
            "this program's certificate is revoked".into(),
            "name another one with --tls-cert and --tls-key",
        ),
        A::BadCertificate | A::UnsupportedCertificate | A::CertificateUnknown => (
            "the server does not accept this program's certificate".into(),
            "it must be for clients (extended key usage clientAuth), and of an authority in the \
             server's --tls-client-ca",
        ),
        A::NoApplicationProtocol => (
            "the server speaks no HTTP/2 there".into(),
            "name the address of \"tombola serve\" with --server",
        ),
        alert => (
            format!("the server has ended the handshake: {alert:?}"),
            "the server's log says more",
        ),
    };
    TlsFault { problem, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(error: TlsError) -> String {
        let error = io::Error::other(error);
        TlsFault::of(&error).unwrap().advice.to_owned()
    }

    #[test]
    fn every_mistake_has_its_own_advice() {
        let of_server = |error| advice(TlsError::InvalidCertificate(error));
        let of_client = |alert| advice(TlsError::AlertReceived(alert));
        for (advice, words) in [
            (of_server(CertificateError::Expired), "new one"),
            (
                of_server(CertificateError::NotValidForName),
                "--tls-server-name",
            ),
            (of_server(CertificateError::UnknownIssuer), "--tls-ca"),
            (
                of_client(AlertDescription::CertificateRequired),
                "--tls-cert",
            ),
            (of_client(AlertDescription::UnknownCA), "--tls-client-ca"),
            (
                of_client(AlertDescription::CertificateRevoked),
                "another one",
            ),
        ] {
            assert!(advice.contains(words), "{advice}");
        }
    }

    #[test]
    fn an_error_without_tls_among_its_causes_is_no_fault_of_tls() {
        assert_eq!(TlsFault::of(&io::Error::other("refused")), None);
    }
}
