//! gRPC for Python with a token.

use std::process::Command;

use super::Gate;
use crate::process::{Ended, project};

#[test]
fn python_calls_with_a_token() {
    let gate = Gate::new(
        r#"
roles: {reader: [read, check]}
identities: [{name: audit, tokens: [{sha256: <audit>}]}]
bindings: [{identity: audit, role: reader, campaigns: ["spring-*"]}]
"#,
    );
    let mut client = Command::new(project(".venv/bin/python"));
    client.arg(project("tests/clients/client.py"));
    client.args([&gate.server.address.to_string(), "token"]);
    let said = Ended::of(client.env("TOKEN", "audit")).well();
    assert!(said.ends_with("good\n"), "{said}");
}
