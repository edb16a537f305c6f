//! The shape of a policy file: YAML, in which every key is known.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::{DuplicateKeyPolicy, Options, Spanned, budget, options};

use crate::model::Problems;

/// The most that a policy file may have, in bytes: what a Secret of Kubernetes holds.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A text and its position.
pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyFile {
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Vec<Text>>,
    #[serde(default)]
    pub(super) issuers: Vec<IssuerFile>,
    pub(super) identities: Vec<IdentityFile>,
    #[serde(default)]
    pub(super) bindings: Vec<BindingFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IssuerFile {
    pub(super) name: Text,
    pub(super) issuer: Text,
    pub(super) audience: Text,
    pub(super) claim: Option<Text>,
    pub(super) jwks: JwksFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct JwksFile {
    pub(super) file: Option<Text>,
    pub(super) url: Option<Text>,
    pub(super) ca_file: Option<Text>,
    pub(super) token_file: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct IdentityFile {
    pub(super) name: Text,
    #[serde(default)]
    pub(super) tokens: Vec<TokenFile>,
    #[serde(default)]
    pub(super) subjects: Vec<SubjectFile>,
    #[serde(default)]
    pub(super) certificates: Vec<CertificateFile>,
    pub(super) rate: Option<RateFile>,
    pub(super) sessions_from: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenFile {
    pub(super) sha256: Text,
    pub(super) until: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectFile {
    pub(super) issuer: Text,
    pub(super) value: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CertificateFile {
    pub(super) spiffe: Option<Text>,
    pub(super) subject: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RateFile {
    pub(super) per_second: Spanned<u32>,
    pub(super) burst: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BindingFile {
    pub(super) identity: Text,
    pub(super) role: Text,
    #[serde(default)]
    pub(super) campaigns: Vec<Text>,
    #[serde(default)]
    pub(super) senders: Vec<Text>,
}

/// Reads the file; its first problem, with its position.
pub(super) fn read(text: &str) -> Result<PolicyFile, Problems> {
    let mut problems = Problems::default();
    if text.len() > FILE_BYTES_MAX {
        problems.add("file", "has more than 1 MiB: a policy has at most so much");
        return Err(problems);
    }
    serde_saphyr::from_str_with_options(text, limits()).map_err(|error| {
        let error = error.without_snippet();
        let position = error.location();
        let path = position.map_or_else(
            || "file".to_owned(),
            |at| format!("line {}, column {}", at.line(), at.column()),
        );
        let message = error.to_string();
        let ending = position.map(|at| format!(" at line {}, column {}", at.line(), at.column()));
        let message = ending
            .and_then(|ending| message.strip_suffix(&ending).map(str::to_owned))
            .unwrap_or(message);
        problems.add(path, message);
        problems
    })
}

/// What a file may cost.
fn limits() -> Options {
    options! {
        budget: budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_documents: 1,
            max_aliases: 1000,
            max_anchors: 1000,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}
