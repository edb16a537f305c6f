//! The commands over TLS, and what they say when it fails.

use super::Files;
use crate::{
    process::{Start, project},
    support::certificates::{Authority, Signed, Wanted},
};

#[test]
fn commands_work_over_tls_with_a_certificate() {
    let files = Files::new();
    let client = files.authority.sign(&Wanted::client("operator"));
    client.write(files.path(), "client");
    let server = files.serve_asking("");
    let own = "--tls-ca ca.crt --tls-cert client.crt --tls-key client.key";
    let campaign = project("deploy/campaigns/spring-wheel.yaml");
    let apply = format!("apply {} {own}", campaign.display());
    files.run(&server, &apply).well();
    files.run(&server, &format!("campaigns {own}")).well();
    files.run(&server, "campaigns --tls-ca ca.crt").badly(
        69,
        &[
            "the server asks for a certificate",
            "--tls-cert and --tls-key",
        ],
    );
    let stranger = Authority::new("other-ca").sign(&Wanted::client("operator"));
    stranger.write(files.path(), "client");
    files
        .run(&server, &format!("campaigns {own}"))
        .badly(69, &["this program's certificate", "--tls-client-ca"]);
}

#[test]
fn every_mistake_says_what_to_do() {
    let files = Files::new();
    let other = Authority::new("other-ca");
    std::fs::write(files.path().join("other.crt"), &other.pem).unwrap();
    let server = files.serve("");
    let run = |line: &str, code: i32, words: &[&str]| {
        files
            .run(&server, &format!("campaigns {line}"))
            .badly(code, words);
    };
    run("", 69, &["does not trust", "--tls-ca"]);
    run("--tls-ca other.crt", 69, &["does not trust", "--tls-ca"]);
    run(
        "--tls-ca ca.crt --tls-server-name draws.example",
        69,
        &["for another name", "--tls-server-name"],
    );
    run("--tls-ca none.crt", 64, &["--tls-ca", "cannot be read"]);
    run(
        "--tls-ca server.key",
        64,
        &["--tls-ca", "has no certificate"],
    );
    run(
        "--tls-ca ca.crt --tls-cert ca.crt",
        64,
        &["--tls-key is missing"],
    );
    let client = files.authority.sign(&Wanted::client("operator"));
    let mixed = Signed {
        key: other.sign(&Wanted::client("operator")).key,
        ..client
    };
    mixed.write(files.path(), "client");
    let own = "--tls-ca ca.crt --tls-cert client.crt --tls-key client.key";
    run(own, 64, &["--tls-key", "is not the key of the certificate"]);
    let plain = server.run(&["campaigns"]); // with http://
    plain.badly(69, &["expects TLS", "https://"]);
    let with_files = server.run(&["campaigns", "--tls-ca", "ca.crt"]);
    with_files.badly(64, &["is without TLS", "https://"]);
}

#[test]
fn tls_to_a_server_without_it_is_explained() {
    let files = Files::new();
    let data = files.data();
    let server = Start::on(&data).serve();
    files
        .run(&server, "campaigns --tls-ca ca.crt")
        .badly(69, &["without TLS", "http://"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_server_is_refused() {
    let files = Files::new();
    let expired = files.authority.sign(&Wanted::server().expired());
    let identity = tonic::transport::Identity::from_pem(&expired.cert, &expired.key);
    let tls = tonic::transport::ServerTlsConfig::new().identity(identity);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let serving = tonic::transport::Server::builder()
        .tls_config(tls)
        .unwrap()
        .add_service(health)
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    tokio::spawn(serving);
    let mut command = crate::process::tombola(["campaigns", "--tls-ca", "ca.crt"]);
    command.args(["--server", &format!("https://{address}")]);
    command.current_dir(files.path());
    let ended = tokio::task::spawn_blocking(move || crate::process::Ended::of(&mut command));
    let words = ["the server's certificate has expired", "new one"];
    ended.await.unwrap().badly(69, &words);
}

#[test]
fn a_demo_that_others_can_reach_must_be_asked_for() {
    let demo = |more: &[&str]| {
        let data = tempfile::tempdir().unwrap();
        let mut command = crate::process::tombola(["demo", "--exit", "--users", "1", "--data"]);
        let ended = crate::process::Ended::of(command.arg(data.path()).args(more));
        (ended, std::fs::read_dir(data.path()).unwrap().count())
    };
    let everywhere = ["--listen", "0.0.0.0:0"];
    let (refused, files) = demo(&everywhere);
    refused.badly(64, &["--listen 0.0.0.0", "`tombola serve`", "--insecure"]);
    assert_eq!(files, 0, "nothing was made");
    demo(&[&everywhere[..], &["--insecure"]].concat()).0.well();
    demo(&["--listen", "127.0.0.1:0"]).0.well();
}
