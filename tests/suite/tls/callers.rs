//! Certificates of callers.

use std::{
    fs,
    io::{self, Read as _, Write as _},
};

use rustls::version::TLS13;

use super::{Files, Shaken, check, until};
use crate::{
    console,
    support::certificates::{Authority, Signed, Wanted},
};

#[tokio::test]
async fn a_caller_must_have_a_certificate_of_the_authority() {
    let files = Files::new();
    let server = files.serve_asking("");
    let shop = files.authority.sign(&Wanted::client("shop"));
    files.is_served(&server, Some(&shop)).await.unwrap();
    assert!(files.is_served(&server, None).await.is_err());
    let stranger = Authority::new("test-ca").sign(&Wanted::client("shop"));
    let expired = files.authority.sign(&Wanted::client("shop").expired());
    for (own, word) in [
        (None, "CertificateRequired"),
        (Some(&stranger), "alert"),
        (Some(&expired), "CertificateExpired"),
    ] {
        let refusal = files.refusal(&server, own);
        assert!(refusal.contains(word), "{refusal}");
    }
    // One that is for servers names no client.
    let of_a_server = files.authority.sign(&Wanted::server());
    assert!(files.is_served(&server, Some(&of_a_server)).await.is_err());
}

#[tokio::test]
async fn a_caller_may_do_without_a_certificate_if_it_is_optional() {
    let files = Files::new();
    let server = files.serve_asking("--tls-client-auth optional");
    files.is_served(&server, None).await.unwrap();
    let shop = files.authority.sign(&Wanted::client("shop"));
    files.is_served(&server, Some(&shop)).await.unwrap();
    let stranger = Authority::new("test-ca").sign(&Wanted::client("shop"));
    assert!(files.is_served(&server, Some(&stranger)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_its_connections_and_no_others() {
    let files = Files::new();
    let shop = files.authority.sign(&Wanted::client("shop"));
    let thief = files.authority.sign(&Wanted::client("thief"));
    let crl = files.path().join("revoked.crl");
    fs::write(&crl, files.authority.revoke(&[])).unwrap();
    let server = files.serve_asking(&format!("--tls-client-crl {}", crl.display()));
    let shops = files.connect(&server, Some(&shop)).await.unwrap();
    check(shops.clone()).await.unwrap();
    let mut thiefs = files
        .shake(server.address, &[&TLS13], Some(&thief), b"h2")
        .unwrap();
    files.is_served(&server, Some(&thief)).await.unwrap();
    thiefs
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    fs::write(&crl, files.authority.revoke(&[&thief])).unwrap();
    // It is closed: the read ends.
    let mut rest = Vec::new();
    let read = thiefs.read_to_end(&mut rest);
    assert!(read.is_ok() || !matches!(read, Err(error) if is_timeout(&error)));
    let refusal = files.refusal(&server, Some(&thief));
    assert!(refusal.contains("CertificateRevoked"), "{refusal}");
    check(shops).await.unwrap();
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Asks the console for the head of a page, over a connection that stays open.
fn ask(stream: &mut Shaken) -> io::Result<()> {
    stream.write_all(b"HEAD /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    Ok(())
}

/// Both connections are asked again and again: the console also ends one that asks for nothing.
#[test]
fn a_revoked_certificate_ends_its_connections_to_the_console_and_no_others() {
    let files = Files::new();
    let olga = files.authority.sign(&Wanted::client("olga"));
    let thief = files.authority.sign(&Wanted::client("thief"));
    let crl = files.path().join("revoked.crl");
    fs::write(&crl, files.authority.revoke(&[])).unwrap();
    let server = files.serve_asking(&format!(
        "--console 127.0.0.1:0 --tls-client-crl {}",
        crl.display()
    ));
    let address = console::address(&server);
    let shake = |own: &Signed| {
        let shaken = files.shake(address, &[&TLS13], Some(own), b"http/1.1");
        shaken.unwrap()
    };
    let (mut olgas, mut thiefs) = (shake(&olga), shake(&thief));
    ask(&mut thiefs).unwrap();
    fs::write(&crl, files.authority.revoke(&[&thief])).unwrap();
    until("the connection is closed", || {
        ask(&mut olgas).unwrap();
        let answered = ask(&mut thiefs);
        assert!(!answered.as_ref().is_err_and(is_timeout), "{answered:?}");
        answered.is_err()
    });
    ask(&mut olgas).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_takes_the_place_of_the_first() {
    let files = Files::new();
    let server = files.serve_asking("");
    let before = files.authority.sign(&Wanted::client("shop"));
    files.is_served(&server, Some(&before)).await.unwrap();
    let next = Authority::new("next-ca");
    let after = next.sign(&Wanted::client("shop"));
    assert!(files.is_served(&server, Some(&after)).await.is_err());
    let both = format!("{}{}", files.authority.pem, next.pem);
    let ca = files.path().join("ca.crt");
    fs::write(&ca, both).unwrap();
    server.says("new files of TLS are in use");
    files.is_served(&server, Some(&before)).await.unwrap();
    files.is_served(&server, Some(&after)).await.unwrap();
    let kept = files.connect(&server, Some(&after)).await.unwrap();
    fs::write(&ca, &next.pem).unwrap();
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        until("the first authority is gone", || {
            runtime
                .block_on(files.is_served(&server, Some(&before)))
                .is_err()
        });
    });
    check(kept).await.unwrap();
}
