//! Tokens of the access file: rotation, ends, and changes of the file.

use super::{Gate, IN_FORCE, is_denied, is_unknown};

/// An access file with these tokens of one identity that may read these campaigns.
fn policy(tokens: &str, campaigns: &str) -> String {
    format!(
        r#"
roles: {{reader: [read]}}
identities: [{{name: audit, tokens: [{tokens}]}}]
bindings: [{{identity: audit, role: reader, campaigns: [{campaigns}], senders: ["*"]}}]
"#
    )
}

/// Whether a token may ask for a campaign, which does not exist.
async fn may_read(gate: &Gate, token: &str) -> bool {
    let status = gate.by(token).await.get("spring").await.unwrap_err();
    match status.code() {
        tonic::Code::NotFound => true,
        tonic::Code::Unauthenticated => false,
        code => panic!("{code:?}: {status:?}"),
    }
}

#[tokio::test]
async fn tokens_are_rotated_without_a_gap() {
    let gate = Gate::new(&policy("{sha256: <old>}", "\"*\""));
    assert!(may_read(&gate, "old").await && !may_read(&gate, "new").await);
    gate.change(&policy("{sha256: <old>}, {sha256: <new>}", "\"*\""));
    assert!(may_read(&gate, "old").await && may_read(&gate, "new").await);
    gate.change(&policy("{sha256: <new>}", "\"*\""));
    assert!(!may_read(&gate, "old").await && may_read(&gate, "new").await);
}

#[tokio::test]
async fn a_token_ends_when_its_line_says() {
    let past = "{sha256: <past>, until: 2020-01-01T00:00:00Z}";
    let future = "{sha256: <future>, until: 2999-01-01T00:00:00Z}";
    let gate = Gate::new(&policy(&format!("{past}, {future}"), "\"*\""));
    assert!(may_read(&gate, "future").await);
    let answer = gate.by("past").await.get("spring").await;
    is_unknown(answer, "CREDENTIALS_EXPIRED");
}

#[tokio::test]
async fn a_binding_that_is_taken_away_counts_at_once() {
    let gate = Gate::new(&policy("{sha256: <token>}", "spring"));
    assert!(may_read(&gate, "token").await);
    gate.change(&policy("{sha256: <token>}", "summer"));
    is_denied(gate.by("token").await.get("spring").await);
}

#[tokio::test]
async fn a_broken_access_file_changes_nothing_and_is_reported() {
    let gate = Gate::new(&policy("{sha256: <token>}", "\"*\""));
    let file = gate.path("access.yaml");
    let admin = gate.server.admin();
    let is_stale = || {
        let (_, _, metrics) = admin.get("/metrics");
        metrics.contains("\ntombola_access_stale 1\n")
    };
    assert!(!is_stale());
    std::fs::write(&file, "identities: [").unwrap();
    gate.server.says("the version before stays in force");
    assert!(is_stale() && may_read(&gate, "token").await);
    std::fs::remove_file(&file).unwrap();
    gate.server.says("cannot be read");
    assert!(is_stale() && may_read(&gate, "token").await);
    gate.change(&policy("{sha256: <other>}", "\"*\""));
    assert!(!is_stale() && !may_read(&gate, "token").await && may_read(&gate, "other").await);
}

/// Kubernetes changes files by a symbolic link to another directory; the file itself never
/// changes.
#[tokio::test]
async fn a_change_by_symbolic_links_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (version, token) in [("one", "<old>"), ("two", "<new>")] {
        std::fs::create_dir(path(version)).unwrap();
        let text = super::hashed(&policy(&format!("{{sha256: {token}}}"), "\"*\""));
        std::fs::write(path(version).join("access.yaml"), text).unwrap();
    }
    std::os::unix::fs::symlink("one", path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/access.yaml", path("access.yaml")).unwrap();
    let data = path("data");
    let line = format!("--access {}", path("access.yaml").display());
    let gate = Gate {
        server: crate::process::Start::on(&data).with(&line).serve(),
        directory: tempfile::tempdir().unwrap(),
    };
    assert!(may_read(&gate, "old").await);
    std::os::unix::fs::symlink("two", path("..next")).unwrap();
    std::fs::rename(path("..next"), path("..data")).unwrap();
    gate.server.says(IN_FORCE);
    assert!(may_read(&gate, "new").await && !may_read(&gate, "old").await);
}
