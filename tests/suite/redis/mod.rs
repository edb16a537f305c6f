//! Connections to Redis: the checks at the start, the names of faults, and the life of connections.

mod calls;
mod checks;
mod cluster;
mod connections;
mod envelopes;
mod extremes;
mod failover;
mod level;
mod memory;
mod refusals;
mod rigs;
mod strict;
mod stuck;
mod tls;

use tombola::store::redis::{Connections, Fault, FaultKind, RedisUrl, Script};

use crate::support::redis_server::RedisServer;

fn connections(url: &str) -> Connections {
    Connections::new(&RedisUrl::parse(url).unwrap(), 4).unwrap()
}

/// Runs this text as a script with one key.
async fn run(connections: &Connections, text: &str, key: &str) -> Result<::redis::Value, Fault> {
    let script = Script::new(&[text]);
    connections.run(&script, &[key].into(), &["1"].into()).await
}

#[tokio::test]
async fn the_servers_of_these_tests_compare_texts_by_the_rules_of_a_language() {
    let server = RedisServer::start(&[]);
    // In byte order the comparison would have the other result.
    let found = server.command(&["EVAL", "return tostring('a' < 'B')", "0"]);
    assert_eq!(found, "true", "no locale: run tests/prepare");
}

const COUNT: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

/// The fault of a write.
async fn fault_of(url: &str) -> Fault {
    run(&connections(url), COUNT, "n").await.unwrap_err()
}

#[track_caller]
fn assert_kind(fault: &Fault, kind: FaultKind, words: &[&str]) {
    assert_eq!(fault.kind, kind, "{fault}");
    for word in words {
        assert!(fault.text.contains(word), "no `{word}` in: {fault}");
    }
}
