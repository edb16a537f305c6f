//! Handshakes of real clients.

use std::{fs, process::Command};

use rustls::version::{TLS12, TLS13};

use super::{Files, answer_to};
use crate::{
    process::{Ended, project},
    support::certificates::{Authority, Wanted},
};

#[tokio::test]
async fn a_client_that_knows_the_authority_is_served() {
    let files = Files::new();
    let server = files.serve("");
    files.is_served(&server, None).await.unwrap();
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_only_http_2_within() {
    let files = Files::new();
    let server = files.serve("");
    for version in [&TLS12, &TLS13] {
        let shaken = files
            .shake(server.address, &[version], None, b"h2")
            .unwrap();
        assert_eq!(shaken.conn.alpn_protocol(), Some(&b"h2"[..]));
        assert_eq!(shaken.conn.protocol_version(), Some(version.version));
    }
    let error = files.shake(server.address, &[&TLS13], None, b"http/1.1");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
}

#[test]
fn a_client_without_tls_is_answered_by_an_alert() {
    let files = Files::new();
    let server = files.serve("");
    let answer = answer_to(server.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(answer.first(), Some(&21), "{answer:?}"); // an alert (RFC 8446, section 5.1)
}

/// Asks for health with grpcio, which has a TLS of its own.
const PYTHON: &str = "
import sys, grpc
read = lambda name: open(name, 'rb').read()
own = sys.argv[2:]
credentials = grpc.ssl_channel_credentials(read('ca.crt'), *map(read, own))
with grpc.secure_channel(sys.argv[1], credentials) as channel:
    check = channel.unary_unary('/grpc.health.v1.Health/Check')
    assert check(b'', timeout=60, wait_for_ready=not own) == b'\\x08\\x01'
print('good')
";

#[test]
fn python_connects_with_a_certificate() {
    let files = Files::new();
    let client = files.authority.sign(&Wanted::client("shop"));
    client.write(files.path(), "client");
    let stranger = Authority::new("other-ca").sign(&Wanted::client("shop"));
    stranger.write(files.path(), "stranger");
    let server = files.serve_asking("");
    let python = |name: &str| {
        let mut python = Command::new(project(".venv/bin/python"));
        python.current_dir(files.path()).args(["-c", PYTHON]);
        python.arg(format!("localhost:{}", server.address.port()));
        // grpcio wants the key before the certificate.
        python.args([format!("{name}.key"), format!("{name}.crt")]);
        Ended::of(&mut python)
    };
    assert_eq!(python("client").well(), "good\n");
    python("stranger").badly(1, &["UNAVAILABLE"]);
}

#[test]
fn a_server_does_not_start_with_files_that_it_cannot_use() {
    let files = Files::new();
    let fail = |words: &[&str]| {
        let data = files.data();
        let start = crate::process::Start::on(&data).with(&files.options());
        start.fail().badly(64, words);
    };
    let good = files.authority.sign(&Wanted::server());
    let other = files.authority.sign(&Wanted::server());
    files.put(&crate::support::certificates::Signed {
        key: other.key,
        ..good.clone()
    });
    fail(&["--tls-key", "is not the key of the certificate"]);
    files.put(&files.authority.sign(&Wanted::server().expired()));
    fail(&["--tls-cert", "expired at", "replace it"]);
    files.put(&good);
    fs::write(files.path().join("server.key"), "no key").unwrap();
    fail(&["--tls-key", "has no private key"]);
    fs::write(files.path().join("server.crt"), "").unwrap();
    fail(&["--tls-cert", "has no certificate", "PEM"]);
    fs::remove_file(files.path().join("server.crt")).unwrap();
    fail(&["--tls-cert", "cannot be read"]);
}

#[test]
fn options_that_need_each_other_are_named() {
    let files = Files::new();
    let data = files.data();
    let path = files.path().display();
    for (line, words) in [
        ("--tls-cert {}/server.crt", &["--tls-key", "is missing"][..]),
        ("--tls-key {}/server.key", &["--tls-cert", "is missing"]),
        (
            "--tls-client-ca {}/ca.crt",
            &["--tls-client-ca", "--tls-cert and"],
        ),
        ("--tls-ca {}/ca.crt", &["--tls-ca", "--tls-client-ca"]),
        ("--listen 0.0.0.0:0", &["--tls-cert", "--insecure"]),
    ] {
        let line = line.replace("{}", &path.to_string());
        let mut command = crate::process::tombola(["serve", "--data"]);
        command.arg(&data).args(line.split_whitespace());
        Ended::of(&mut command).badly(64, words);
    }
}
