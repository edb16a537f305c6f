//! Services with TLS, identities and metrics: running ones, and those that the bench starts.

use serde_json::Value;
use tombola::grpc::access::TokenHash;

use crate::{
    SHORT, bench, command, figures,
    process::{Ended, Server},
};

/// The token `bench` and an access file that lets it do everything with campaigns of the bench.
const TOKEN: &str = "tombola_bench";
const ACCESS: &str = "{roles: {all: [draw, check, grant, read, plan, admin]}, identities: [{name: \
    bench, tokens: [{sha256: HASH}]}], bindings: [{identity: bench, role: all, campaigns: \
    ['*'], senders: ['*']}]}";

#[test]
fn a_running_server_that_knows_identities_is_shown_the_token_of_a_file_or_a_variable() {
    let data = tempfile::tempdir().unwrap();
    let (access, token) = (data.path().join("access.yaml"), data.path().join("token"));
    let hash = TokenHash::of(TOKEN).to_string();
    std::fs::write(&access, ACCESS.replace("HASH", &hash)).unwrap();
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let (store, access) = (data.path().join("store"), access.to_str().unwrap());
    let server = Server::start_with(&store, &["--access", access]);
    let directory = tempfile::tempdir().unwrap();
    let line = format!(
        "{SHORT} --scenario deck,grab --json --server {}",
        server.url
    );
    bench(directory.path(), &line).badly(1, &["CREDENTIALS_MISSING"]);
    let with_file = format!("{line} --token-file {}", token.display());
    let said = bench(directory.path(), &with_file).well();
    let figures: Value = serde_json::from_str(&said).unwrap();
    for series in figures["series"].as_array().unwrap() {
        assert_eq!(series["errors"], serde_json::json!({}), "{series:#}");
    }
    let mut with_variable = command(directory.path(), &line);
    Ended::of(with_variable.env("TOMBOLA_BENCH_TOKEN", TOKEN)).well();
    let away = format!(
        "--server http://10.255.255.1:1 --token-file {}",
        token.display()
    );
    bench(directory.path(), &away).badly(64, &["plaintext", "https://"]);
    let none = format!("--server http://127.0.0.1:1 --token-file {}", access);
    bench(directory.path(), &none).badly(64, &["--token-file", "no token has"]);
}

#[test]
fn a_service_with_all_that_production_has_takes_turns_with_one_without() {
    let directory = tempfile::tempdir().unwrap();
    let stores = "embedded,embedded-secured,redis,redis-secured";
    let line = format!("{SHORT} --scenario draw --store {stores}");
    let figures = figures(directory.path(), &line);
    for series in figures["series"].as_array().unwrap() {
        assert_eq!(series["errors"], serde_json::json!({}), "{series:#}");
    }
    let said = figures.to_string();
    for store in ["embedded-secured", "redis-secured"] {
        let ratio = format!("draw on {store} over the same without TLS, tokens and metrics");
        assert!(said.contains(&ratio), "{ratio}: {said}");
    }
    for store in figures["stores"].as_array().unwrap() {
        let is_secured = store["store"].as_str().unwrap().ends_with("-secured");
        let protections = store["protections"].as_str().unwrap();
        assert_eq!(is_secured, protections.contains("TLS"), "{store:#}");
    }
}
