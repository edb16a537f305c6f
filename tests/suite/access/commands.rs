//! The command line: tokens from files and variables, and `tombola access`.

use super::{Gate, hashed};
use crate::process::{Ended, tombola};

const POLICY: &str = r#"
roles: {reader: [read], planner: [read, plan]}
identities:
  - {name: audit, tokens: [{sha256: <audit>}]}
  - {name: olga, tokens: [{sha256: <olga>}]}
bindings:
  - {identity: audit, role: reader, campaigns: ["spring-*"]}
  - {identity: olga, role: planner, campaigns: ["*"], senders: ["*"]}
"#;

#[test]
fn a_command_has_its_token_from_a_file_or_a_variable() {
    let gate = Gate::new(POLICY);
    let file = gate.path("token");
    std::fs::write(&file, "olga\n").unwrap();
    let sample = crate::process::project("deploy/campaigns/spring-wheel.yaml");
    let line = |words: &[&str]| {
        let mut command = tombola(words);
        command.args(["--server", &gate.server.url()]);
        command
    };
    let apply = ["apply", "-f", sample.to_str().unwrap()];
    let refused = Ended::of(&mut line(&apply));
    assert!(refused.stderr.contains("--token-file"), "{refused:#?}");
    Ended::of(line(&apply).arg("--token-file").arg(&file)).well();
    let said = Ended::of(line(&["campaigns"]).env("TOMBOLA_TOKEN", "audit")).well();
    assert!(said.contains("spring-wheel"), "{said}");
    let denied = Ended::of(line(&["pause", "spring-wheel"]).env("TOMBOLA_TOKEN", "audit"));
    for word in ["permission stop", "tombola access check"] {
        assert!(denied.stderr.contains(word), "{denied:#?}");
    }
    let said = Ended::of(line(&["operations", "--json"]).env("TOMBOLA_TOKEN_FILE", &file)).well();
    assert!(
        said.contains("\"operator\": \"olga\"") && said.contains("\"onBehalfOf\": \"\""),
        "{said}"
    );
}

#[test]
fn a_token_does_not_leave_the_machine_in_plaintext() {
    let mut command = tombola(["campaigns", "--server", "http://192.0.2.1:50051"]);
    let refused = Ended::of(command.env("TOMBOLA_TOKEN", "secret-token"));
    assert!(refused.stderr.contains("in plaintext"), "{refused:#?}");
    assert!(!refused.stderr.contains("secret-token"), "{refused:#?}");
}

#[test]
fn an_access_file_is_checked_and_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.yaml");
    std::fs::write(&file, hashed(POLICY)).unwrap();
    let check = |more: &[&str]| {
        let mut command = tombola(["access", "check"]);
        Ended::of(command.arg(&file).args(more))
    };
    let said = check(&[]).well();
    assert!(
        said.contains("olga") && said.contains("campaigns spring-*"),
        "{said}"
    );
    let ask = ["--identity", "audit", "--permission", "read", "--campaign"];
    let allowed = check(&[&ask[..], &["spring-7"]].concat()).well();
    assert!(allowed.contains("audit may"), "{allowed}");
    let refused = check(&[&ask[..], &["summer"]].concat());
    assert!(
        refused.code != Some(0) && refused.stderr.contains("audit may not"),
        "{refused:#?}"
    );
    std::fs::write(&file, "identities: []\nroles: {a: [fly]}\n").unwrap();
    let refused = check(&[]);
    for word in ["line 2, column 13", "\"fly\"", "identities"] {
        assert!(refused.stderr.contains(word), "{refused:#?}");
    }
}

#[test]
fn a_token_is_made_with_its_line() {
    let made = Ended::of(&mut tombola(["access", "token"]));
    let token = made.stdout.trim();
    assert!(
        token.starts_with("tombola_") && token.len() > 40,
        "{made:#?}"
    );
    let hash = tombola::grpc::access::TokenHash::of(token).to_string();
    assert!(
        made.stderr.contains(&format!("- sha256: {hash}")),
        "{made:#?}"
    );
    assert!(!made.stderr.contains(token));
}

#[test]
fn a_server_does_not_start_with_a_broken_access_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.yaml");
    std::fs::write(&file, "identities: [{name: a}]\n").unwrap();
    let data = directory.path().join("data");
    let line = format!("--access {}", file.display());
    let ended = crate::process::Start::on(&data).with(&line).fail();
    for word in ["--access", "line 1, column 21", "neither tokens"] {
        assert!(ended.stderr.contains(word), "{ended:#?}");
    }
}
