//! Passwords of Redis in files, which change while the service draws.

use std::fs;

use tombola::proto::lottery_service_client::LotteryServiceClient;
use tonic::Code;

use super::{PARTITIONS, assert_not_executed, callers::Callers, directory_with_key, request};
use crate::{
    faults::{book::Book, load},
    process::{Ended, Start, tombola},
    support::{
        audit,
        redis_server::{RedisServer, until},
    },
};

const DRAWS: u64 = 100;

/// Lets the user log in with these passwords and no others.
fn permit(redis: &RedisServer, passwords: &[&str]) {
    let passwords: Vec<String> = passwords.iter().map(|word| format!(">{word}")).collect();
    let mut words = vec![
        "ACL",
        "SETUSER",
        "draws",
        "on",
        "resetpass",
        "~*",
        "&*",
        "+@all",
    ];
    words.extend(passwords.iter().map(String::as_str));
    assert_eq!(redis.command(&words), "OK");
}

/// Ends the connections of the user, so that the service makes new ones.
fn end_connections(redis: &RedisServer) {
    redis.command(&["CLIENT", "KILL", "USER", "draws"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_changed_while_the_service_draws() {
    let (redis, data) = (RedisServer::start(&[]), directory_with_key());
    let file = data.path().join("password");
    let put = |password: &str| fs::write(&file, format!("{password}\n")).unwrap();
    let url = format!("redis://draws@127.0.0.1:{}", redis.port());
    let option = format!("--redis-password-file {}", file.display());
    let start = || Start::on_redis(data.path(), &url).with(&option);

    permit(&redis, &["first-secret"]);
    put("first-secret");
    let made = start().init().well();
    assert!(made.contains(&option) && !made.contains("secret"), "{made}");
    let server = start().with("--admin 127.0.0.1:0").serve();
    assert!(!server.command_line().contains("secret"));
    load::apply_now(&server).await;
    let callers = Callers::start(&[&server], rand::random(), 0);
    callers.go_on(DRAWS).await;

    // As it is done: the new one is permitted, put into the file, and the old one is taken away.
    permit(&redis, &["first-secret", "second-secret"]);
    put("second-secret");
    permit(&redis, &["second-secret"]);
    end_connections(&redis);
    callers.go_on(DRAWS).await;
    // Every connection of now has logged in with the new one.
    let users = redis.command(&["CLIENT", "LIST"]);
    assert!(users.contains("user=draws"), "{users}");

    // The other way round: until the file has the new one, nothing happens and nothing ends.
    permit(&redis, &["third-secret"]);
    end_connections(&redis);
    callers.fail(DRAWS).await;
    let mut lottery = LotteryServiceClient::new(server.connect().await);
    let refused = lottery.draw(request("flow", "u", "refused")).await;
    assert_not_executed(&refused.unwrap_err(), Code::Unavailable);
    fs::remove_file(&file).unwrap();
    callers.fail(DRAWS).await;
    put("third-secret");
    callers.go_on(DRAWS).await;

    let mut book = Book::default();
    book.settle(&server, callers.end().await).await;
    let store = super::store_at(&redis.url(), PARTITIONS).await;
    audit::check(&store, &[]).await;
    assert!(!server.log().contains("secret"), "{}", server.log());
}

#[test]
fn a_service_whose_password_file_has_none_says_so_at_once() {
    let (redis, data) = (RedisServer::start(&[]), directory_with_key());
    let file = data.path().join("password");
    let option = format!("--redis-password-file {}", file.display());
    let refused = |words: &[&str]| {
        let start = Start::on_redis(data.path(), &redis.url()).with(&option);
        start.fail().badly(1, words);
    };
    refused(&["password file", "cannot be read"]);
    fs::write(&file, "\n").unwrap();
    refused(&["password file", "first line"]);
}

/// The word that nobody must find in a list of processes.
#[test]
fn a_password_on_the_command_line_is_refused_and_one_in_a_variable_is_not() {
    let redis = RedisServer::start(&[]);
    let data = directory_with_key();
    permit(&redis, &["a-secret"]);
    let url = format!("redis://draws:a-secret@127.0.0.1:{}", redis.port());
    let init = || {
        let mut init = tombola(["init", "--data"]);
        init.arg(data.path());
        init
    };
    let ended = Ended::of(init().arg("--redis-url").arg(&url));
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    ended.badly(64, &["--redis-password-file", "TOMBOLA_REDIS_URL"]);
    let made = Ended::of(init().env("TOMBOLA_REDIS_URL", &url)).well();
    assert!(!made.contains("a-secret"), "{made}");
    until("the store is made", || {
        !redis.command(&["KEYS", "tombola*"]).is_empty()
    });
}
