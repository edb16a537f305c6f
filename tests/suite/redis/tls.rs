//! TLS connections, and clear errors if only one side uses TLS.

use std::time::Duration;

use tokio::task::block_in_place;
use tombola::store::{
    Executed,
    redis::{Connections, FaultKind, RedisUrl},
};

use super::{COUNT, assert_kind, connections, fault_of, run};
use crate::support::{
    certificates,
    redis_server::{RedisServer, until},
};

#[tokio::test]
async fn a_server_whose_ca_is_named_is_trusted() {
    let server = RedisServer::start_with_tls(certificates::of_redis(), &[("requirepass", "x")]);
    run(&connections(&server.tls_url()), COUNT, "n")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_it() {
    let server =
        RedisServer::start_with_tls(certificates::of_redis(), &[("tls-auth-clients", "yes")]);
    run(&connections(&server.tls_url_with_certificate()), COUNT, "n")
        .await
        .unwrap();
    let fault = fault_of(&server.tls_url()).await;
    assert_kind(&fault, FaultKind::Tls, &["?cert=FILE&key=FILE"]);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let server = RedisServer::start_with_tls(certificates::of_redis(), &[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("none.crt");
    for (parameters, words) in [
        (format!("ca={}", file.display()), "cannot be read"),
        (
            format!("cert={0}&key={0}", file.display()),
            "cannot be read",
        ),
    ] {
        let url = format!("{}?{parameters}", server.tls_url_of_strangers());
        let url = RedisUrl::parse(&url).unwrap();
        let error = Connections::new(&url, 1).err().unwrap().to_string();
        assert!(
            error.contains(words) && error.contains("none.crt"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_stranger_s_certificate_is_refused() {
    let server = RedisServer::start_with_tls(certificates::of_redis(), &[]);
    let fault = fault_of(&server.tls_url_of_strangers()).await;
    assert_kind(&fault, FaultKind::Tls, &["?ca=FILE", "certificate"]);
}

#[tokio::test]
async fn tls_on_one_side_only() {
    let server = RedisServer::start_with_tls(certificates::of_redis(), &[]);
    let plain_port = format!("rediss://127.0.0.1:{}", server.port());
    let fault = fault_of(&plain_port).await;
    assert_kind(&fault, FaultKind::Unreachable, &["write redis:// instead"]);
    let tls_port = server.tls_url_of_strangers().replace("rediss", "redis");
    let fault = fault_of(&tls_port).await;
    assert_kind(&fault, FaultKind::Unreachable, &["write rediss:// instead"]);
}

/// The connection ends without a farewell, which TLS reports otherwise than TCP alone does.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_server_is_killed_meanwhile_may_have_been_executed() {
    let settings = [("busy-reply-threshold", "100")];
    let mut server = RedisServer::start_with_tls(certificates::of_redis(), &settings);
    let connections = connections(&server.tls_url());
    run(&connections, COUNT, "n").await.unwrap();
    let call = tokio::spawn(async move {
        let endless = "redis.call('INCR', KEYS[1]) while true do end";
        run(&connections, endless, "n").await
    });
    block_in_place(|| {
        until("the script runs", || {
            let answer = server.try_command(&["PING"], Duration::from_secs(1));
            answer.is_ok_and(|answer| answer.starts_with("-BUSY"))
        });
        server.kill();
    });
    let fault = call.await.unwrap().unwrap_err();
    assert_kind(&fault, FaultKind::Lost, &[]);
    assert_eq!(fault.executed, Executed::Unknown);
}
