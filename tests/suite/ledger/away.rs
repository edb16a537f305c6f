//! PostgreSQL is away: draws go on, and what they wrote is settled afterwards.

use std::sync::Arc;

use super::{
    Database,
    kill::{assert_sums, caught_up},
};
use crate::{
    faults::{
        load,
        redis::{House, PARTITIONS, callers::Callers},
    },
    support::postgres::{PASSWORD, Postgres},
};

#[tokio::test(flavor = "multi_thread")]
async fn draws_go_on_while_postgres_is_away_and_are_settled_afterwards() {
    let mut postgres = Postgres::start();
    let url = postgres.database("ledger").await;
    let url_without_password = url.replace(&format!(":{PASSWORD}"), "");
    tombola::ledger::PostgresSink::migrate(&tombola::ledger::PostgresUrl::parse(&url).unwrap())
        .await
        .unwrap();
    let house = House::new();
    let file = postgres.password_file().display().to_string();
    let start = house.start().with(&format!(
        "--postgres-url {url_without_password} --postgres-password-file {file}"
    ));
    let server = start.serve();
    load::apply_now(&server).await;
    let callers = Callers::start_with_pauses(&[&server], 5, 0);
    server.says("settling the ledger");
    callers.go_on(100).await;
    postgres.stop();
    server.says("the ledger is not settled");
    callers.go_on(200).await;
    assert_eq!(callers.faults(), 0);
    postgres.restart();
    server.says("is there again");
    callers.go_on(100).await;
    callers.end().await;
    let database = Database {
        server: Arc::new(postgres),
        name: "ledger".into(),
    };
    caught_up(&house.redis, &database, PARTITIONS).await;
    assert_sums(&server, &database).await;
}
