//! Certificates towards Redis and PostgreSQL that change in a Secret, or are broken there, while
//! the service draws and settles.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tempfile::TempDir;
use tombola::ledger::{PostgresSink, PostgresUrl};

use super::{metric, until};
use crate::{
    faults::{
        load::{self, Attempt, Heard},
        redis::{PARTITIONS, callers::Callers, directory_with_key, store_at},
    },
    ledger::{Database, kill::assert_sums},
    process::{Server, Start},
    support::{
        audit,
        certificates::{Authority, Signed, Wanted},
        mount::Mount,
        postgres::Postgres,
        redis_server::RedisServer,
    },
};

const DRAWS: u64 = 100;
/// What a mounted Secret has.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];

/// An authority, and what it signs for the client of a store.
struct Issued {
    authority: Authority,
    client: Signed,
}

impl Issued {
    /// By a new authority, with a certificate that ends after so many days.
    fn new(days: u64) -> Self {
        let authority = Authority::new("of-stores");
        let mut wanted = Wanted::client("postgres");
        wanted.until = std::time::SystemTime::now() + Duration::from_secs(days * 86_400);
        let client = authority.sign(&wanted);
        Self { authority, client }
    }

    fn files(&self) -> [(&'static str, &str); 3] {
        let contents = [&self.authority.pem, &self.client.cert, &self.client.key];
        std::array::from_fn(|index| (FILES[index], contents[index].as_str()))
    }

    /// The same with a key that is not the certificate's.
    fn broken(&self) -> [(&'static str, &str); 3] {
        let [ca, cert, _] = self.files();
        [ca, cert, (FILES[2], "-----BEGIN PRIVATE KEY-----\n")]
    }
}

/// What the metrics say of the files towards a store.
#[derive(Debug, PartialEq)]
struct Files {
    is_unusable: bool,
    ca_expiry: f64,
    client_expiry: f64,
}

impl Files {
    fn of(server: &Server, store: &str) -> Self {
        let value = |series: String| {
            metric(server, &series).unwrap_or_else(|| panic!("no metric: {series}"))
        };
        let expiry = |which: &str| {
            let name = "tombola_tls_certificate_expiry_timestamp_seconds";
            value(format!("{name}{{certificate=\"{store}_{which}\"}}"))
        };
        let unusable = value(format!("tombola_tls_files_unusable{{purpose=\"{store}\"}}"));
        Self {
            is_unusable: unusable == 1.0,
            ca_expiry: expiry("ca"),
            client_expiry: expiry("client"),
        }
    }
}

/// Breaks the files, and then replaces authority and certificate. Between the two the store's own
/// are changed, and afterwards all connections are new ones.
async fn rotate(
    (server, store): (&Server, &str),
    mount: &Mount,
    (old, new): (&Issued, &Issued),
    change_store: impl Fn(),
    end_connections: impl AsyncFn(),
    goes_on: impl AsyncFn(),
) {
    let before = Files::of(server, store);
    assert!(!before.is_unusable);
    mount.put(&old.broken());
    until("the files are unusable", || {
        Files::of(server, store).is_unusable
    });
    // The files of before are used, for new connections too.
    let broken = Files::of(server, store);
    assert_eq!(broken.client_expiry, before.client_expiry);
    end_connections().await;
    goes_on().await;

    mount.put(&new.files());
    until("the new files are in use", || {
        let files = Files::of(server, store);
        !files.is_unusable && files.client_expiry > before.client_expiry
    });
    change_store();
    end_connections().await;
    goes_on().await;
    assert!(!server.log().contains("PRIVATE KEY"), "{}", server.log());
}

/// Writes the certificate of a store's server, signed by this authority.
fn write_server(authority: &Authority, directory: &Path, name: &str) {
    authority.sign(&Wanted::server()).write(directory, name);
    fs::write(directory.join("ca.crt"), &authority.pem).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn authority_and_certificate_towards_redis_are_replaced_while_the_service_draws() {
    let (old, new) = (Issued::new(30), Issued::new(60));
    let directory = tempfile::tempdir().unwrap();
    write_server(&old.authority, directory.path(), "redis");
    let next: TempDir = tempfile::tempdir().unwrap();
    write_server(&new.authority, next.path(), "redis");
    let redis = RedisServer::start_with_tls(directory, &[("tls-auth-clients", "yes")]);
    let (mount, data) = (Mount::new(&old.files()), directory_with_key());
    let [ca, cert, key] = FILES.map(|name| mount.file(name).display().to_string());
    let url = redis.tls_url_of_strangers();
    let url = format!("{url}?ca={ca}&cert={cert}&key={key}");
    let start = || Start::on_redis(data.path(), &url);
    start().init().well();
    let server = start().with("--admin 127.0.0.1:0").serve();
    load::apply_now(&server).await;
    let callers = Callers::start_with_pauses(&[&server], rand::random(), 0);
    callers.go_on(DRAWS).await;

    let change_redis = || {
        let file = |name: &str| next.path().join(name).display().to_string();
        let (ca, cert, key) = (file("ca.crt"), file("redis.crt"), file("redis.key"));
        let set = [
            ["tls-ca-cert-file", &ca],
            ["tls-cert-file", &cert],
            ["tls-key-file", &key],
        ];
        let words = ["CONFIG", "SET"]
            .into_iter()
            .chain(set.into_iter().flatten());
        let words: Vec<&str> = words.collect();
        assert_eq!(redis.command(&words), "OK");
    };
    let end_connections = async || {
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    };
    let goes_on = async || callers.go_on(DRAWS).await;
    rotate(
        (&server, "redis"),
        &mount,
        (&old, &new),
        change_redis,
        end_connections,
        goes_on,
    )
    .await;
    callers.end().await;
    let store = store_at(&redis.url(), PARTITIONS).await;
    audit::check(&store, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authority_and_certificate_towards_postgresql_are_replaced_while_the_service_settles() {
    let (old, new) = (Issued::new(30), Issued::new(60));
    let postgres = Postgres::start_with_tls();
    postgres.use_authority(&old.authority);
    let own = PostgresUrl::parse(&postgres.url("postgres", "postgres")).unwrap();
    PostgresSink::migrate(&own).await.unwrap();
    let (mount, data) = (Mount::new(&old.files()), tempfile::tempdir().unwrap());
    let [ca, cert, key] = FILES.map(|name| mount.file(name).display().to_string());
    let url = postgres.tls_url(&format!("&sslrootcert={ca}&sslcert={cert}&sslkey={key}"));
    let options = format!("--postgres-url {url} --admin 127.0.0.1:0");
    let start = Start {
        clock: None,
        ..Start::on(data.path())
    };
    let server = start.with(&options).serve();
    load::apply_now(&server).await;
    let callers = Callers::start_with_pauses(&[&server], rand::random(), 0);
    callers.go_on(DRAWS).await;
    let database = Database {
        server: Arc::new(postgres),
        name: "postgres".into(),
    };

    let goes_on = async || {
        callers.go_on(DRAWS).await;
        let client = database.server.connect(&database.name).await;
        let settled = "SELECT count(*) FROM tombola.entries";
        let wanted = Postgres::number_over(&client, settled).await + DRAWS.cast_signed();
        while Postgres::number_over(&client, settled).await < wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let end_connections = async || {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                     WHERE application_name = 'tombola'";
        database.number(ended).await;
    };
    goes_on().await;
    rotate(
        (&server, "postgres"),
        &mount,
        (&old, &new),
        || database.server.use_authority(&new.authority),
        end_connections,
        goes_on,
    )
    .await;
    let attempts = callers.end().await;
    let answered = |attempt: &&Attempt| matches!(attempt.heard, Heard::Answer(_));
    let answered = attempts.iter().filter(answered).count() as i64;
    let draws = "SELECT count(*) FROM tombola.entries WHERE kind = 'draw'";
    let client = database.server.connect(&database.name).await;
    while Postgres::number_over(&client, draws).await < answered {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_sums(&server, &database).await;
}
