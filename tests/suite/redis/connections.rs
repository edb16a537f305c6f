//! Connections and commands when the server goes away, hangs or forgets scripts.

use tombola::store::{
    Executed,
    redis::{Connections, FaultKind, Script},
};

use super::{COUNT, assert_kind, connections, run};
use crate::support::redis_server::RedisServer;

async fn client_id(connections: &Connections) -> i64 {
    let mut cmd = ::redis::cmd("CLIENT");
    cmd.arg("ID");
    ::redis::from_redis_value(connections.command(&cmd).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    for expected in 1..=3 {
        let sum = run(&connections, COUNT, "n").await.unwrap();
        assert_eq!(sum, ::redis::Value::Int(expected));
        assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK");
    }
}

#[tokio::test]
async fn keys_and_arguments_may_hold_any_byte() {
    let server = RedisServer::start(&[]);
    let script = Script::new(&["return KEYS[2] .. ARGV[2]"]);
    let bytes = |text: &[u8]| text.to_vec();
    let keys = [bytes(b"{t}1"), bytes(b"{t}\r\n\0")];
    let arguments = [bytes(b""), bytes(b"\xff\xfe")];
    let answer = connections(&server.url())
        .run(&script, &keys.into(), &arguments.into())
        .await;
    assert_eq!(
        answer.unwrap(),
        ::redis::Value::BulkString(bytes(b"{t}\r\n\0\xff\xfe"))
    );
}

#[tokio::test]
async fn a_connection_is_used_again_after_an_answer_and_after_a_refusal() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    let first = client_id(&connections).await;
    assert_eq!(server.command(&["RPUSH", "list", "x"]), "1");
    run(&connections, COUNT, "list").await.unwrap_err();
    assert_eq!(client_id(&connections).await, first);
}

#[tokio::test]
async fn after_a_timeout_the_outcome_is_unknown_and_the_connection_is_gone() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    let first = client_id(&connections).await;
    server.freeze();
    let fault = run(&connections, COUNT, "n").await.unwrap_err();
    assert_kind(&fault, FaultKind::TimedOut, &["SLOWLOG"]);
    assert_eq!(fault.executed, Executed::Unknown);
    // What was sent before runs late, if at all. While the server hangs, a new connection cannot
    // even be made.
    let fault = run(&connections, COUNT, "n").await.unwrap_err();
    assert_kind(&fault, FaultKind::Unreachable, &["in time"]);
    assert_eq!(fault.executed, Executed::No);
    server.thaw();
    assert_ne!(client_id(&connections).await, first);
}

#[tokio::test]
async fn after_a_crash_one_call_fails_and_the_next_one_connects_again() {
    let mut server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    // Several connections, all idle when the server is killed.
    let calls = || run(&connections, COUNT, "n");
    let (a, b, c) = tokio::join!(calls(), calls(), calls());
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    server.kill();
    server.restart();
    let fault = run(&connections, COUNT, "n").await.unwrap_err();
    assert_kind(&fault, FaultKind::Lost, &["see its log"]);
    assert_eq!(fault.executed, Executed::Unknown);
    let sum = run(&connections, COUNT, "n").await.unwrap();
    assert_eq!(
        sum,
        ::redis::Value::Int(4),
        "all that was acknowledged is there"
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_connection_along() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    let first = client_id(&connections).await;
    server.freeze();
    let soon = std::time::Duration::from_millis(50);
    let left = tokio::time::timeout(soon, run(&connections, COUNT, "n")).await;
    assert!(left.is_err());
    server.thaw();
    assert_ne!(client_id(&connections).await, first);
}

#[tokio::test]
async fn more_calls_than_connections_take_turns() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    let calls: tokio::task::JoinSet<_> = {
        let connections = std::sync::Arc::new(connections);
        (0..200)
            .map(|_| {
                let connections = connections.clone();
                async move { run(&connections, COUNT, "n").await.unwrap() }
            })
            .collect()
    };
    assert_eq!(calls.join_all().await.len(), 200);
    assert_eq!(server.command(&["GET", "n"]), "200");
    let clients = server.command(&["CLIENT", "LIST", "TYPE", "normal"]);
    assert!(clients.lines().count() <= 5, "{clients}");
}
