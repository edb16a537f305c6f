//! The tables: made and changed by `tombola migrate`, and used by no program that does not know
//! them.

use tombola::ledger::{PostgresSink, PostgresUrl, SinkError};

use super::{Database, settle_all, settler};
use crate::{
    faults::redis::House,
    process::{Ended, tombola},
    support::{
        World,
        embedded::Embedded,
        postgres::{PASSWORD, Postgres},
    },
};

fn migrate(url: &str) -> Ended {
    Ended::of(&mut tombola(["migrate", "--postgres-url", url]))
}

fn settle(house: &House, url: &str) -> Ended {
    let redis = house.redis.url();
    Ended::of(&mut tombola([
        "settle",
        "--redis-url",
        &redis,
        "--postgres-url",
        url,
        "--data",
        house.data().to_str().unwrap(),
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_are_made_once_and_no_program_uses_tables_that_it_does_not_know() {
    let database = Database::without_tables().await;
    let (url, house) = (database.url_text(), House::new());
    settle(&house, &url).badly(1, &["run `tombola migrate`"]);
    assert!(migrate(&url).well().contains("is of this version now"));
    assert!(migrate(&url).well().contains("was of this version already"));
    let client = database.server.connect(&database.name).await;
    let newer =
        "INSERT INTO tombola.schema_history VALUES (99, 'later', '2027-01-01T00:00:00Z', '1')";
    client.batch_execute(newer).await.unwrap();
    assert!(migrate(&url).well().contains("was of this version already"));
    PostgresSink::open(&database.url(), "store").await.unwrap();
    let contracted = "UPDATE tombola.meta SET value = '99' WHERE key = 'min_reader'";
    client.batch_execute(contracted).await.unwrap();
    let needed = ["knows schema 99", "knows schema 9", "newer version"];
    migrate(&url).badly(1, &needed);
    settle(&house, &url).badly(1, &needed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_takes_the_ledger_of_one_store_only() {
    let database = Database::new().await;
    let store = World::new(Embedded::new()).await;
    PostgresSink::open(&database.url(), &store.store().info().store_id)
        .await
        .unwrap();
    let house = House::new();
    settle(&house, &database.url_text()).badly(1, &["another", "of its own for each store"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_never_shown() {
    let database = Database::new().await;
    let wrong = database.url_text().replace(PASSWORD, "wrong-secret");
    let ended = migrate(&wrong);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    ended.badly(69, &["postgres:***@", "authentication failed"]);
    let missing = wrong.replace("wrong-secret@", "wrong-secret");
    let ended = migrate(&missing);
    assert!(!ended.stderr.contains("secret"), "{}", ended.stderr);
    ended.badly(64, &["--postgres-url", "postgres://[user"]);
    migrate("").badly(64, &["postgres://"]);
    Ended::of(&mut tombola(["migrate"])).badly(64, &["--postgres-url"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_always_checked() {
    let server = Postgres::start_with_tls();
    let url = |parameters: &str| PostgresUrl::parse(&server.tls_url(parameters)).unwrap();
    let stranger = PostgresSink::migrate(&url("")).await;
    let error = stranger.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let authority = format!("&sslrootcert={}", server.authority().display());
    assert!(PostgresSink::migrate(&url(&authority)).await.unwrap());
    let missing = PostgresSink::migrate(&url("&sslrootcert=/nowhere/ca.crt")).await;
    assert!(matches!(missing, Err(SinkError::TlsFile(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_asks_for_a_certificate_gets_it() {
    let server = Postgres::start_with_tls();
    server.ask_for_certificates();
    let url = |parameters: &str| PostgresUrl::parse(&server.tls_url(parameters)).unwrap();
    let authority = format!("&sslrootcert={}", server.authority().display());
    let without = PostgresSink::migrate(&url(&authority)).await;
    let error = without.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let with = PostgresSink::migrate(&url(&server.tls_parameters())).await;
    assert!(with.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_does_not_keep_what_it_commits_is_refused() {
    let database = Database::new().await;
    let client = database.server.connect(&database.name).await;
    // What the service reads instead of the server's setting, which tests share.
    let lie = "CREATE FUNCTION public.current_setting(text) RETURNS text
                   LANGUAGE sql AS $$ SELECT 'off' $$";
    client.batch_execute(lie).await.unwrap();
    let first = format!(
        "ALTER DATABASE {} SET search_path = public, pg_catalog",
        database.name
    );
    client.batch_execute(&first).await.unwrap();
    let refused = PostgresSink::open(&database.url(), "store").await;
    assert!(matches!(refused, Err(SinkError::NotDurable(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn months_are_made_ahead_and_other_months_are_found_where_they_belong() {
    let database = Database::new().await;
    let world = World::new(Embedded::new()).await;
    world.begin(super::settled::YAML).await;
    world.tick().await;
    let (mut carrier, mut sink) = settler(world.store(), &database.url()).await;
    settle_all(&mut carrier, &mut sink).await;
    let months = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'tombola.entries'::regclass";
    assert!(
        database.number(months).await >= 5,
        "four months and the default"
    );
    // A month that comes into reach is taken out of the default partition.
    let client = database.server.connect(&database.name).await;
    let far =
        "INSERT INTO tombola.entries SELECT partition, 999, '2999-05-31 23:59:59Z', kind, campaign,
                   envelope, user_id, request_id, format, body FROM tombola.entries LIMIT 1";
    client.batch_execute(far).await.unwrap();
    let waiting = "SELECT count(*) FROM tombola.entries_default WHERE sequence = 999";
    assert_eq!(database.number(waiting).await, 1);
    let made = client
        .query_one("SELECT tombola.make_month('2999-05-01Z')", &[])
        .await;
    assert!(made.unwrap().get::<_, bool>(0));
    assert_eq!(database.number(waiting).await, 0);
    let moved = "SELECT count(*) FROM tombola.entries_2999_05 WHERE sequence = 999";
    assert_eq!(database.number(moved).await, 1);
    let again = client
        .query_one("SELECT tombola.make_month('2999-05-01Z')", &[])
        .await;
    assert!(!again.unwrap().get::<_, bool>(0));
}
