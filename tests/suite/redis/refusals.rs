//! Every refusal by Redis has a name, says what to do, and says that nothing was executed.

use tombola::store::{
    Executed, StoreError,
    redis::{Fault, FaultKind},
};

use super::{COUNT, assert_kind, connections, fault_of, run};
use crate::support::redis_server::RedisServer;

#[track_caller]
fn assert_refused(fault: &Fault, kind: FaultKind, words: &[&str]) {
    assert_kind(fault, kind, words);
    assert_eq!(fault.executed, Executed::No, "{fault}");
}

#[tokio::test]
async fn nobody_there() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let fault = fault_of(&server.url()).await;
    assert_refused(
        &fault,
        FaultKind::Unreachable,
        &["host and port", "refused"],
    );
    let fault = fault_of("redis://no-such-host.invalid").await;
    assert_refused(&fault, FaultKind::Unreachable, &["host and port"]);
}

#[tokio::test]
async fn a_wrong_password_is_not_shown() {
    let server = RedisServer::start(&[("requirepass", "right-secret")]);
    assert!(run(&connections(&server.url()), COUNT, "n").await.is_ok());
    let port = server.port();
    for credentials in [":wrong-secret@", "", "nobody:right-secret@"] {
        let fault = fault_of(&format!("redis://{credentials}127.0.0.1:{port}")).await;
        assert_refused(&fault, FaultKind::Password, &["user:password@"]);
        assert!(!fault.text.contains("secret"), "{fault}");
    }
}

#[tokio::test]
async fn what_the_user_may_not_do() {
    let server = RedisServer::start(&[]);
    let permit = |rules: &[&str]| {
        let words = [&["ACL", "SETUSER", "draws", "on", ">x"], rules].concat();
        assert_eq!(server.command(&words), "OK");
    };
    let url = format!("redis://draws:x@127.0.0.1:{}", server.port());
    permit(&["~*", "+@all", "-eval", "-evalsha"]);
    assert_refused(
        &fault_of(&url).await,
        FaultKind::Permission,
        &["ACL SETUSER"],
    );
    // The script itself may not do it, perhaps after it wrote something.
    permit(&["+@all", "-incrby"]);
    let fault = fault_of(&url).await;
    assert_kind(&fault, FaultKind::Permission, &["ACL SETUSER"]);
    assert_eq!(fault.executed, Executed::Unknown);
    permit(&["+@all", "resetkeys", "~other:*"]);
    assert_refused(
        &fault_of(&url).await,
        FaultKind::Permission,
        &["ACL SETUSER"],
    );
}

#[tokio::test]
async fn a_database_that_is_not_there() {
    let server = RedisServer::start(&[]);
    let fault = fault_of(&format!("{}/99", server.url())).await;
    assert_refused(&fault, FaultKind::Database, &["/0"]);
}

#[tokio::test]
async fn no_memory_left() {
    let server = RedisServer::start(&[("maxmemory", "1"), ("maxmemory-policy", "noeviction")]);
    let fault = fault_of(&server.url()).await;
    assert_refused(&fault, FaultKind::Memory, &["CONFIG SET maxmemory"]);
}

#[tokio::test]
async fn too_few_replicas() {
    let server = RedisServer::start(&[("min-replicas-to-write", "1")]);
    let fault = fault_of(&server.url()).await;
    assert_refused(&fault, FaultKind::NoReplicas, &["min-replicas-to-write"]);
}

#[tokio::test]
async fn a_demoted_master_is_left_and_found_again() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    run(&connections, COUNT, "n").await.unwrap();
    assert_eq!(server.command(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let fault = run(&connections, COUNT, "n").await.unwrap_err();
    assert_refused(&fault, FaultKind::ReadOnly, &["redis+sentinel://"]);
    assert_eq!(server.command(&["REPLICAOF", "NO", "ONE"]), "OK");
    run(&connections, COUNT, "n").await.unwrap();
}

#[tokio::test]
async fn a_script_of_another_client_that_does_not_end() {
    let server = RedisServer::start(&[("lua-time-limit", "50")]);
    let connections = connections(&server.url());
    let endless = run(&connections, "while true do end", "n");
    let call = async {
        loop {
            // The first calls may come before Redis notices that the other script takes long.
            match run(&connections, COUNT, "n").await {
                Err(fault) if fault.kind == FaultKind::Busy => break fault,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let killed = async {
        let fault = call.await;
        assert_eq!(server.command(&["SCRIPT", "KILL"]), "OK");
        fault
    };
    let (endless, fault) = tokio::join!(endless, killed);
    assert_refused(&fault, FaultKind::Busy, &["SCRIPT KILL"]);
    assert_kind(&endless.unwrap_err(), FaultKind::Busy, &["SCRIPT KILL"]);
}

#[tokio::test]
async fn a_key_that_is_wrong_is_permanent_and_what_a_broken_script_did_is_unknown() {
    let server = RedisServer::start(&[]);
    let connections = connections(&server.url());
    assert_eq!(server.command(&["RPUSH", "list", "x"]), "1");
    let fault = run(&connections, COUNT, "list").await.unwrap_err();
    assert_kind(&fault, FaultKind::WrongType, &["wrong type", "key prefix"]);
    assert!(matches!(fault.into(), StoreError::Corrupt { .. }));
    let fault = run(&connections, "return nothing.at_all", "n")
        .await
        .unwrap_err();
    assert_kind(&fault, FaultKind::Script, &["user_script", "nothing"]);
    // It may have written something before it failed.
    let error: StoreError = fault.into();
    let unknown = matches!(
        error,
        StoreError::Unavailable {
            executed: Executed::Unknown,
            ..
        }
    );
    assert!(unknown, "{error:?}");
}
