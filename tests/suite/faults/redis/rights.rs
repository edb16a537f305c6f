//! Users of Redis and of its sentinels who may do only what the files in `deploy/redis` permit.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tonic_health::pb::health_check_response::ServingStatus::Serving;

use crate::{
    faults::load,
    process::{Ended, Start, project, tombola},
    support::{
        program::Program,
        redis_group::{RedisCluster, RedisSentinel},
        redis_server::{RedisServer, until},
    },
};

use super::{directory_with_key, draws, request, whole, witness::Witness};

const USER: &str = "deploy/redis/user.conf";
const SENTINEL_USER: &str = "deploy/redis/sentinel-user.conf";
const PASSWORD: &str = "a-very-secret-word";
/// A command that Redis 7.0 does not know.
const NEWER: &str = "+waitaof";

/// The user's line in a file, without the word `user`.
fn line(file: &str) -> String {
    let text = fs::read_to_string(project(file)).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("user "));
    line.unwrap().replace("CHANGE-ME", PASSWORD)
}

/// The user's line in redis.conf for a program, without the word `user`.
fn rules(program: Program) -> String {
    let line = line(USER);
    let words = line.split(' ');
    let known = words.filter(|word| program != Program::System || *word != NEWER);
    known.collect::<Vec<_>>().join(" ")
}

/// A server with the user. Its settings may name a master.
fn server(program: Program, more: &[(&str, &str)]) -> RedisServer {
    let rules = rules(program);
    let settings = [&[("user", rules.as_str())], more].concat();
    RedisServer::start_as(program, &settings)
}

/// Its URL for the user.
fn url(redis: &RedisServer) -> String {
    format!("redis://tombola:{PASSWORD}@127.0.0.1:{}", redis.port())
}

/// What the user was refused since the server started. The driver names itself to the server, which
/// it need not.
fn refused(redis: &RedisServer) -> Vec<String> {
    let log = redis.command(&["ACL", "LOG", "100"]);
    let mut lines = log.lines();
    let mut refused = Vec::new();
    while lines.any(|line| line == "object") {
        refused.extend(lines.next().map(str::to_owned));
    }
    refused.retain(|object| object != "client|setinfo");
    refused
}

async fn lives_under_its_rules(program: Program) {
    let mut redis = server(program, &[]);
    let url = url(&redis);
    let mut witness = Witness::start(&url).await;
    witness.draw("kept", 20).await;
    operate(&witness);
    settle(&redis, &url, witness.data.path());
    let upgrade = ["upgrade", "--redis-url", &url, "--finish"];
    Ended::of(&mut tombola(upgrade)).well();
    assert_eq!(refused(&redis), [""; 0]);

    redis.back_up();
    witness.draw("lost", 20).await;
    assert_eq!(refused(&redis), [""; 0]);
    // Another server, so a fork; an older state, so a halt.
    redis.restart_from_backup();
    witness.server.says("halted, since Redis was rolled back");
    assert!(witness.loss().is_some());
    witness.recover("--withdraw-due --yes").well();
    whole(&witness.server, Serving).await;
    witness.draw("after", 20).await;
    witness.assert_numbers_differ();
    assert_eq!(refused(&redis), [""; 0]);

    for command in [
        &["FLUSHALL"][..],
        &["KEYS", "*"],
        &["CONFIG", "SET", "appendonly", "no"],
        &["ACL", "WHOAMI"],
        &["SHUTDOWN"],
        &["GET", "tombola{0}:partition"],
        &["HGET", "other", "field"],
    ] {
        let auth = ["AUTH", "tombola", PASSWORD];
        let answer = redis.commands(&[&auth, command]);
        assert!(answer.starts_with("-NOPERM"), "{command:?}: {answer}");
    }
}

/// What operators do, so that every kind of step and of list is used.
fn operate(witness: &Witness) {
    for line in [
        "grant wheel u-1 --draws 3",
        "block wheel u-1 u-2 --reason bots",
        "user blocked wheel",
        "unblock wheel u-1",
        "user show wheel kept-1",
        "prize pause wheel mug",
        "prize resume wheel mug",
        "pause wheel",
        "resume wheel",
        "recall wheel hours --yes",
        "schedule wheel",
        "check wheel kept-1",
        "get-draw wheel kept-1 kept-1",
        "campaigns",
        "odds wheel",
        "stats wheel",
        "envelope create e-1 --sender boss --total 8800 --currency CNY --packets 10 --allow a",
        "envelope grab e-1 a",
        "envelope show e-1",
        "envelope cancel e-1 --yes",
        "stats",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        witness.server.run(&words).well();
    }
}

/// Settles the whole ledger, which lets Redis remove it.
fn settle(redis: &RedisServer, url: &str, data: &Path) {
    let mut settle = tombola(["settle", "--redis-url", url, "--to-dir"]);
    settle.arg(data.join("ledger")).arg("--data").arg(data);
    let settle = settle.stdout(Stdio::null()).stderr(Stdio::null());
    let mut settle = settle.spawn().unwrap();
    let ledgers = redis.command(&["KEYS", "tombola{*}:ledger"]);
    assert!(!ledgers.is_empty());
    until("all is settled", || {
        let mut partitions = ledgers
            .lines()
            .map(|key| key.replace(":ledger", ":partition"));
        partitions.all(|partition| {
            let numbers = redis.command(&["HMGET", &partition, "sequence", "settled"]);
            let (last, settled) = numbers.split_once('\n').unwrap();
            settled.split(' ').next() == Some(last)
        })
    });
    settle.kill().unwrap();
    settle.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_lives_under_the_rules_of_its_user_on_redis_7() {
    lives_under_its_rules(Program::System).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_lives_under_the_rules_of_its_user_on_redis_8() {
    lives_under_its_rules(Program::Redis8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_lives_under_the_rules_of_its_user_on_valkey_8() {
    lives_under_its_rules(Program::Valkey8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_confirm_under_the_rules_of_the_user() {
    for program in Program::ALL {
        let master = server(program, &[]);
        let of = format!("127.0.0.1 {}", master.port());
        let replica = server(program, &[("replicaof", &of)]);
        until("the replica is there", || {
            let info = replica.try_command(&["INFO", "replication"], Duration::from_secs(5));
            info.is_ok_and(|info| info.contains("master_link_status:up"))
        });
        let data = directory_with_key();
        let start = Start::on_redis(data.path(), &url(&master)).with("--durability strict");
        start.init().well();
        let server = start.serve();
        load::apply_now(&server).await;
        draws(&mut server.lottery().await, "flow", "u-1", "r-1").await;
        assert_eq!(refused(&master), [""; 0], "{program:?}");
        assert_eq!(refused(&replica), [""; 0], "{program:?}");
    }
}

/// Makes the user on a server that runs.
fn permit(redis: &RedisServer, rules: &str) {
    let words: Vec<&str> = ["ACL", "SETUSER"]
        .into_iter()
        .chain(rules.split(' '))
        .collect();
    assert_eq!(redis.command(&words), "OK");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_of_a_cluster_moves_under_the_rules_of_the_user() {
    let cluster = RedisCluster::start();
    for node in &cluster.nodes {
        permit(node, &rules(Program::System));
    }
    let user = format!("redis+cluster://tombola:{PASSWORD}@");
    let url = cluster.url().replace("redis+cluster://", &user);
    let data = directory_with_key();
    let start = Start::on_redis(data.path(), &url).with("--durability local");
    start.init().well();
    let server = start.serve();
    load::apply_now(&server).await;
    let mut lottery = server.lottery().await;
    draws(&mut lottery, "flow", "u-1", "r-1").await;
    let campaigns = cluster
        .nodes
        .iter()
        .map(|node| node.command(&["KEYS", "*:campaign:flow"]));
    let key = campaigns.into_iter().find(|key| !key.is_empty()).unwrap();
    let slot = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]);
    let to = (cluster.owner(&slot) + 1) % cluster.nodes.len();
    cluster.move_slot(&slot, to);
    let again = request("flow", "u-2", "r-2");
    load::patiently(async || lottery.clone().draw(again.clone()).await)
        .await
        .unwrap();
    for node in &cluster.nodes {
        assert_eq!(refused(node), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_is_asked_under_the_rules_of_its_user() {
    let primary = server(Program::System, &[]);
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = server(Program::System, &[("replicaof", &of)]);
    let sentinel = RedisSentinel::start(&primary);
    sentinel.wait_until_replica_on("127.0.0.1");
    permit(&sentinel.server, &line(SENTINEL_USER));
    let port = sentinel.server.port();
    let url = format!(
        "redis+sentinel://tombola:{PASSWORD}@127.0.0.1:{port}/main?sentinel=tombola:{PASSWORD}"
    );
    let data = directory_with_key();
    let start = Start::on_redis(data.path(), &url);
    start.init().well();
    let server = start.serve();
    load::apply_now(&server).await;
    draws(&mut server.lottery().await, "flow", "u-1", "r-1").await;
    until("the service listens for switches", || {
        let clients = sentinel.server.command(&["CLIENT", "LIST"]);
        clients.contains("user=tombola") && clients.contains("sub=1")
    });
    for server in [&primary, &replica, &sentinel.server] {
        assert_eq!(refused(server), [""; 0]);
    }
    for command in [
        &["SENTINEL", "FAILOVER", "main"][..],
        &["SHUTDOWN"],
        &["SUBSCRIBE", "other"],
    ] {
        let auth = ["AUTH", "tombola", PASSWORD];
        let answer = sentinel.server.commands(&[&auth, command]);
        assert!(answer.starts_with("-NOPERM"), "{command:?}: {answer}");
    }
}

/// The commands that the code of the store names: all quoted words in capitals that Redis knows.
fn named_in_code(directory: PathBuf, known: &BTreeSet<String>, named: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_in_code(path, known, named);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let quoted = text.split(['"', '\'']).filter(|word| {
            let is_capital = |letter: char| letter.is_ascii_uppercase();
            !word.is_empty() && word.chars().all(is_capital)
        });
        let quoted = quoted.map(str::to_lowercase);
        named.extend(quoted.filter(|word| known.contains(word)));
    }
}

#[test]
fn the_user_may_do_what_the_code_names_and_no_more() {
    // An error of Redis, and a part of `CONFIG GET`.
    const NO_COMMANDS: [&str; 2] = ["readonly", "get"];
    let redis = RedisServer::start_as(Program::Redis8, &[]);
    let known = redis.command(&["COMMAND", "LIST"]);
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    known.retain(|command| !NO_COMMANDS.contains(&command.as_str()));
    let mut named = BTreeSet::new();
    named_in_code(project("src/store/redis"), &known, &mut named);
    let rules = rules(Program::Redis8);
    let permitted = rules.split(' ').filter_map(|word| word.strip_prefix('+'));
    let permitted = permitted.map(|word| word.split('|').next().unwrap().to_owned());
    assert_eq!(named, permitted.collect());
}
