//! TLS connections, and clear errors if only one side uses TLS.

use tombola::store::redis::FaultKind;

use super::{COUNT, assert_kind, connections, fault_of, run};
use crate::support::redis_server::RedisServer;

#[tokio::test]
async fn a_server_whose_ca_is_named_is_trusted() {
    let server = RedisServer::start_with_tls(&[("requirepass", "x")]);
    run(&connections(&server.tls_url()), COUNT, "n")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stranger_s_certificate_is_refused() {
    let server = RedisServer::start_with_tls(&[]);
    let fault = fault_of(&server.tls_url_of_strangers()).await;
    assert_kind(&fault, FaultKind::Tls, &["?ca=FILE", "certificate"]);
}

#[tokio::test]
async fn tls_on_one_side_only() {
    let server = RedisServer::start_with_tls(&[]);
    let plain_port = format!("rediss://127.0.0.1:{}", server.port());
    let fault = fault_of(&plain_port).await;
    assert_kind(&fault, FaultKind::Unreachable, &["write redis:// instead"]);
    let tls_port = server.tls_url_of_strangers().replace("rediss", "redis");
    let fault = fault_of(&tls_port).await;
    assert_kind(&fault, FaultKind::Unreachable, &["write rediss:// instead"]);
}
