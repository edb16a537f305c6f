//! Secrets are seen by nobody: not in logs, not in errors, not in the list of processes.

use super::{
    Gate,
    key_server::{ISSUER, KeyServer, SigningKey, claims, key_set},
};
use crate::process::{Ended, tombola};

#[tokio::test]
async fn tokens_stand_neither_in_logs_nor_in_errors_nor_in_command_lines() {
    let key = SigningKey::ed25519();
    let keys = KeyServer::new(&key_set(&[key.public("k")]));
    let good = "tombola_good-token-of-the-shop";
    let policy = format!(
        r#"
roles: {{reader: [read]}}
issuers: [{{name: cluster, issuer: "{ISSUER}", audience: tombola,
           jwks: {{url: "http://{}/"}}}}]
identities: [{{name: shop, tokens: [{{sha256: <{good}>}}],
              subjects: [{{issuer: cluster, value: shop}}]}}]
bindings: [{{identity: shop, role: reader, campaigns: ["*"], senders: ["*"]}}]
"#,
        keys.address
    );
    let gate = Gate::with(&policy, "--log trace");
    let bad = "tombola_bad-token-of-nobody";
    let jwt = key.token("k", &claims("shop", 300));
    let stranger = key.token("k", &claims("stranger", 300));
    let mut said = String::new();
    for token in [good, bad, jwt.as_str(), stranger.as_str()] {
        let status = gate.by(token).await.get("spring").await.unwrap_err();
        said += &format!("{status:?}");
        let file = gate.path("token");
        std::fs::write(&file, token).unwrap();
        let mut command = tombola(["campaign", "spring", "--server", &gate.server.url()]);
        let ended = Ended::of(command.arg("--token-file").arg(&file));
        said += &format!("{}{}", ended.stdout, ended.stderr);
    }
    // A token where a hash belongs is not repeated either.
    std::fs::write(
        gate.path("access.yaml"),
        policy.replace(&format!("<{good}>"), bad),
    )
    .unwrap();
    gate.server.says("the version before stays in force");
    said += &gate.server.log();
    said += &gate.server.command_line();
    let (_, _, metrics) = gate.server.admin().get("/metrics");
    said += &metrics;
    let signature = |token: &str| token.rsplit('.').next().unwrap_or_default().to_owned();
    for secret in [
        good,
        bad,
        "good-token",
        "bad-token",
        &signature(&jwt),
        &signature(&stranger),
    ] {
        assert!(!said.contains(secret), "{secret} is in {said}");
    }
}
