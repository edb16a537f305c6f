//! New files while the server runs.

use std::{
    fs,
    io::{Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::{
    task::{JoinSet, block_in_place},
    time::sleep,
};
use tombola::proto::{DrawRequest, GetStatsRequest, lottery_service_client::LotteryServiceClient};

use super::{Files, check, metric, until};
use crate::{
    faults::load,
    process::{Start, project},
    support::{
        certificates::{Signed, Wanted},
        mount::Mount,
    },
};

const EXPIRY: &str = "tombola_tls_certificate_expiry_timestamp_seconds{certificate=\"server\"}";
const UNUSABLE: &str = "tombola_tls_files_unusable{purpose=\"server\"}";

const FAILED: &str = "tombola_tls_handshakes_failed_total";

/// The pause after a call of those who go on calling while the files change.
const PAUSE: Duration = Duration::from_millis(20);

/// A certificate that expires later than the usual one, to tell them apart.
fn longer() -> Wanted<'static> {
    let mut wanted = Wanted::server();
    wanted.until += Duration::from_secs(30 * 86_400);
    wanted
}

#[test]
fn a_pair_that_cannot_be_used_changes_nothing_but_the_metrics() {
    let files = Files::new();
    let server = files.serve("");
    assert_eq!(metric(&server, UNUSABLE), Some(0.0));
    let (good, other) = (
        files.authority.sign(&longer()),
        files.authority.sign(&longer()),
    );
    let broken = Signed {
        key: other.key,
        ..good.clone()
    };
    let is_unusable = |is: f64| metric(&server, UNUSABLE) == Some(is);
    for bad in [broken, files.authority.sign(&Wanted::server().expired())] {
        let before = metric(&server, EXPIRY).unwrap();
        files.put(&bad);
        until("the metric is raised", || is_unusable(1.0));
        assert_eq!(metric(&server, EXPIRY), Some(before));
        let shaken = files.shake(server.address, rustls::ALL_VERSIONS, None, b"h2");
        shaken.unwrap();
        files.put(&good);
        until("the metric is taken back", || is_unusable(0.0));
    }
    fs::remove_file(files.path().join("server.key")).unwrap();
    until("the metric is raised", || is_unusable(1.0));
    assert!(server.log().contains("cannot be read"), "{}", server.log());
    files
        .shake(server.address, rustls::ALL_VERSIONS, None, b"h2")
        .unwrap();
}

/// The client's clock is ahead, so that the certificate expires for it while the server uses it.
#[test]
fn a_certificate_that_expires_is_replaced_without_a_restart() {
    const AHEAD: Duration = Duration::from_secs(40 * 86_400);
    let files = Files::new();
    let server = files.serve("");
    let later = || files.shake_later(AHEAD, server.address, rustls::ALL_VERSIONS, None, b"h2");
    let error = later().unwrap_err().to_string();
    assert!(error.contains("expired"), "{error}");
    files.put(&files.authority.sign(&longer()));
    until("the new one is in use", || later().is_ok());
}

/// The metric is what the alert `TombolaCertificateExpires` compares.
#[test]
fn a_certificate_that_expires_while_it_is_served_is_seen_and_said() {
    const LEFT: Duration = Duration::from_secs(8);
    let files = Files::new();
    let mut wanted = Wanted::server();
    wanted.until = SystemTime::now() + LEFT;
    files.put(&files.authority.sign(&wanted));
    let server = files.serve("");
    let shake = || files.shake(server.address, rustls::ALL_VERSIONS, None, b"h2");
    let left = || metric(&server, EXPIRY).unwrap() - unix_now();
    assert!(left() <= LEFT.as_secs_f64(), "{}", left());
    let mut kept = shake().unwrap();
    server.says("`server` expired at");
    assert!(left() < 0.0 && server.log().contains("put new files in place"));
    let refusal = shake().unwrap_err().to_string();
    assert!(refusal.contains("expired"), "{refusal}");
    // The server learns from its clients that their handshakes fail, and who is connected stays.
    server.says("TLS handshakes failed");
    assert!(metric(&server, FAILED).unwrap() > 0.0);
    kept.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .unwrap();
    assert!(kept.read(&mut [0]).unwrap() > 0);

    files.put(&files.authority.sign(&Wanted::server()));
    until("the new one is in use", || shake().is_ok());
    assert!(left() > 7.0 * 86_400.0);
}

/// Connections from before go on then, so they must still end when their certificate is revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_revoked_certificates_is_used_although_the_server_s_own_has_expired() {
    const LEFT: Duration = Duration::from_secs(8);
    let files = Files::new();
    let mut wanted = Wanted::server();
    wanted.until = SystemTime::now() + LEFT;
    files.put(&files.authority.sign(&wanted));
    let thief = files.authority.sign(&Wanted::client("thief"));
    let crl = files.path().join("revoked.crl");
    fs::write(&crl, files.authority.revoke(&[])).unwrap();
    let server = files.serve_asking(&format!("--tls-client-crl {}", crl.display()));
    let thiefs = files.connect(&server, Some(&thief)).await.unwrap();
    check(thiefs.clone()).await.unwrap();
    server.says("`server` expired at");
    fs::write(&crl, files.authority.revoke(&[&thief])).unwrap();
    server.says("its client's certificate is not accepted any more");
    assert_eq!(metric(&server, UNUSABLE), Some(0.0));
    drop(thiefs);
}

/// Calls on connections that are open go on, whoever connects anew learns why it cannot, and all is
/// well once there is a new certificate.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_of_an_open_connection_fails_while_the_certificate_expires_and_is_replaced() {
    const LEFT: Duration = Duration::from_secs(15);
    const CALLERS: usize = 4;
    let files = Files::new();
    let mut wanted = Wanted::server();
    wanted.until = SystemTime::now() + LEFT;
    files.put(&files.authority.sign(&wanted));
    let server = files.serve("").over_tls(&files.authority.pem);
    load::apply(&server).await;
    let (is_over, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let kept = files.connect(&server, None).await.unwrap();
        let (is_over, calls) = (Arc::clone(&is_over), Arc::clone(&calls));
        callers.spawn(async move {
            let mut lottery = LotteryServiceClient::new(kept);
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return number;
                }
                let request = DrawRequest {
                    campaign_id: "flow".into(),
                    user_id: format!("u-{caller}-{number}"),
                    request_id: format!("r-{caller}-{number}"),
                    ..Default::default()
                };
                lottery.draw(request).await.unwrap();
                calls.fetch_add(1, Ordering::Relaxed);
                sleep(PAUSE).await;
            }
            unreachable!("it draws without end")
        });
    }
    let go_on = || {
        let before = calls.load(Ordering::Relaxed);
        until("calls go on", || {
            calls.load(Ordering::Relaxed) >= before + 100
        });
    };
    block_in_place(|| {
        go_on();
        server.says("`server` expired at");
        go_on();
    });
    let refused = files.connect(&server, None).await.unwrap_err();
    assert!(refused.contains("xpired"), "{refused}");
    files.put(&files.authority.sign(&Wanted::server()));
    block_in_place(|| {
        let shake = || files.shake(server.address, rustls::ALL_VERSIONS, None, b"h2");
        until("the new one is in use", || shake().is_ok());
        go_on();
    });
    files.is_served(&server, None).await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let made: u64 = callers.join_all().await.into_iter().sum();
    let stats = GetStatsRequest {
        campaign_id: "flow".into(),
    };
    let stats = server.campaigns().await.get_stats(stats).await.unwrap();
    let stats = stats.into_inner();
    assert_eq!(stats.draws, made);
    assert!(stats.balanced, "{stats:?}");
}

/// The time now, in Unix time.
fn unix_now() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs_f64()
}

/// As a Secret of Kubernetes changes: the files are links into a directory that is itself a link.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_a_secret_changes() {
    const CLIENTS: usize = 4;
    const CHANGES: usize = 3;
    let files = Files::new();
    let sign = || files.authority.sign(&Wanted::server());
    let first = sign();
    let mount = Mount::new(&[("tls.crt", &first.cert), ("tls.key", &first.key)]);
    let put = || {
        let signed = sign();
        mount.put(&[("tls.crt", &signed.cert), ("tls.key", &signed.key)]);
        signed.cert
    };
    let file = |name| mount.file(name).display().to_string();
    let (data, cert, key) = (files.data(), file("tls.crt"), file("tls.key"));
    let server = Start::on(&data)
        .with(&format!(
            "--tls-cert {cert} --tls-key {key} --admin 127.0.0.1:0"
        ))
        .serve();
    let campaign = project("deploy/campaigns/spring-wheel.yaml");
    let apply = format!("apply {} --tls-ca ca.crt", campaign.display());
    files.run(&server, &apply).well();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        // One that stays connected, and one that connects for each call.
        let kept = files.connect(&server, None).await.unwrap();
        let is_over = Arc::clone(&is_over);
        clients.spawn(async move {
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                let request = DrawRequest {
                    campaign_id: "spring-wheel".into(),
                    user_id: format!("u-{client}-{calls}"),
                    request_id: format!("r-{client}-{calls}"),
                    ..Default::default()
                };
                LotteryServiceClient::new(kept.clone())
                    .draw(request)
                    .await
                    .unwrap();
                calls += 1;
                sleep(PAUSE).await;
            }
            calls
        });
    }
    for _ in 0..CHANGES {
        let written = put();
        let mut is_shown = false;
        while !is_shown {
            files.is_served(&server, None).await.unwrap();
            let shaken = files.shake(server.address, rustls::ALL_VERSIONS, None, b"h2");
            let shown = shaken.unwrap().conn.peer_certificates().unwrap()[0].to_vec();
            let pem = written.as_bytes();
            let written: rustls::pki_types::CertificateDer<'_> =
                rustls::pki_types::pem::PemObject::from_pem_slice(pem).unwrap();
            is_shown = shown == written.to_vec();
            sleep(PAUSE).await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    let calls: usize = clients.join_all().await.iter().sum();
    assert!(calls > 0);
    assert_eq!(metric(&server, UNUSABLE), Some(0.0));
    assert!(!server.log().contains("cannot be used"), "{}", server.log());
}
