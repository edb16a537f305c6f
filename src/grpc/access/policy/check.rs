//! Checks a policy file as a whole, and makes the policy of it.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;
use serde_saphyr::Spanned;
use tonic::codegen::http::Uri;

use super::{
    CertificateName, Grant, Identity, IssuerSettings, KeySource, KnownToken, Policy, Rate,
    file::{CertificateFile, IdentityFile, IssuerFile, JwksFile, PolicyFile, RateFile, Text},
};
use crate::{
    grpc::access::{Permission, TokenHash},
    model::{Moment, OperatorId, Pattern, Problems},
};

/// The claim that names the identity unless the file says so.
const CLAIM: &str = "sub";

/// Collects problems, each with its position.
#[derive(Default)]
struct Checker(Problems);

impl Checker {
    fn at<T>(&mut self, value: &Spanned<T>, message: impl Into<String>) {
        let at = &value.referenced;
        let path = format!("line {}, column {}", at.line(), at.column());
        self.0.add(path, message);
    }

    /// The text, which must not be empty.
    fn text(&mut self, text: &Text) -> String {
        if text.value.is_empty() {
            self.at(text, "is empty: write a text");
        }
        text.value.clone()
    }

    /// Adds to a map in which each key stands once.
    fn once<K: Eq + Hash, V>(&mut self, map: &mut HashMap<K, V>, key: K, (value, at): (V, &Text)) {
        match map.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(value);
            }
            Entry::Occupied(_) => self.at(at, "stands here again: keep one of them"),
        }
    }
}

/// Makes the policy of a file.
pub(super) fn policy(file: PolicyFile, directory: &Path) -> Result<Policy, Problems> {
    let mut checker = Checker::default();
    if file.identities.is_empty() {
        let message = "is empty: without an identity nobody could call";
        checker.0.add("identities", message);
    }
    let roles = roles(&mut checker, &file.roles);
    let mut policy = Policy::default();
    for issuer in &file.issuers {
        let settings = issuer_settings(&mut checker, issuer, directory);
        let known = &mut policy.issuers;
        if known.iter().any(|other| other.name == settings.name) {
            checker.at(&issuer.name, "is the name of two issuers: rename one");
        }
        if known.iter().any(|other| other.issuer == settings.issuer) {
            let message = "stands in two issuers: a token could not say which of them it is of";
            checker.at(&issuer.issuer, message);
        }
        known.push(settings);
    }
    let mut grants = grants(&mut checker, &file, &roles);
    for identity in &file.identities {
        add_identity(&mut checker, identity, &mut policy, &mut grants);
    }
    checker.0.or(policy)
}

type Roles<'a> = BTreeMap<&'a str, Vec<Permission>>;

fn roles<'a>(checker: &mut Checker, roles: &'a BTreeMap<String, Vec<Text>>) -> Roles<'a> {
    let mut named = Roles::new();
    for (name, permissions) in roles {
        if permissions.is_empty() {
            let message = "has no permission: name some, or remove the role";
            checker.0.add(format!("roles.{name}"), message);
        }
        let mut found = Vec::new();
        for permission in permissions {
            match Permission::of_name(&permission.value) {
                Some(permission) => found.push(permission),
                None => {
                    let name = &permission.value;
                    let names = Permission::names();
                    checker.at(permission, format!("{name:?} is no permission: {names}"));
                }
            }
        }
        named.insert(name, found);
    }
    named
}

type Grants<'a> = HashMap<&'a str, BTreeMap<Permission, Grant>>;

/// What the bindings give to each identity.
fn grants<'a>(checker: &mut Checker, file: &'a PolicyFile, roles: &Roles<'_>) -> Grants<'a> {
    let mut grants = Grants::new();
    for binding in &file.bindings {
        let identity = binding.identity.value.as_str();
        if !file.identities.iter().any(|it| it.name.value == identity) {
            checker.at(
                &binding.identity,
                format!("no identity is named {identity:?}"),
            );
        }
        let role = roles.get(binding.role.value.as_str());
        if role.is_none() {
            let role = &binding.role.value;
            checker.at(&binding.role, format!("no role is named {role:?}"));
        }
        if binding.campaigns.is_empty() && binding.senders.is_empty() {
            let message = "this binding names neither campaigns nor senders: name patterns, e.g. \
                           campaigns: [\"*\"]";
            checker.at(&binding.identity, message);
        }
        let campaigns = patterns(checker, &binding.campaigns);
        let senders = patterns(checker, &binding.senders);
        for permission in role.into_iter().flatten() {
            let given = grants.entry(identity).or_default();
            let grant = given.entry(*permission).or_default();
            campaigns.iter().for_each(|it| grant.campaigns.add(it));
            senders.iter().for_each(|it| grant.senders.add(it));
        }
    }
    grants
}

fn patterns(checker: &mut Checker, texts: &[Text]) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for text in texts {
        match Pattern::parse(&text.value) {
            Ok(pattern) => patterns.push(pattern),
            Err(problem) => checker.at(text, format!("the pattern {:?} {problem}", text.value)),
        }
    }
    patterns
}

fn add_identity(
    checker: &mut Checker,
    file: &IdentityFile,
    policy: &mut Policy,
    grants: &mut Grants<'_>,
) {
    let name = match OperatorId::parse("", &file.name.value) {
        Ok(name) => name,
        Err(problem) => return checker.at(&file.name, format!("the name {}", problem.message)),
    };
    if policy.identities.contains_key(&name) {
        let message = "is the name of two identities: one identity has all its credentials in one \
                       place";
        return checker.at(&file.name, message);
    }
    if file.tokens.is_empty() && file.subjects.is_empty() && file.certificates.is_empty() {
        let message = "has neither tokens nor subjects nor certificates: nobody could be it";
        checker.at(&file.name, message);
    }
    let identity = Arc::new(Identity {
        name: name.clone(),
        grants: grants.remove(file.name.value.as_str()).unwrap_or_default(),
        rate: file.rate.as_ref().and_then(|it| rate(checker, it)),
        sessions_from: file
            .sessions_from
            .as_ref()
            .and_then(|it| moment(checker, it)),
    });
    add_credentials(checker, file, policy, &identity);
    policy.identities.insert(name, identity);
}

fn add_credentials(
    checker: &mut Checker,
    file: &IdentityFile,
    policy: &mut Policy,
    identity: &Arc<Identity>,
) {
    for token in &file.tokens {
        let until = token.until.as_ref().and_then(|it| moment(checker, it));
        let known = KnownToken {
            identity: Arc::clone(identity),
            until,
        };
        match TokenHash::parse(&token.sha256.value) {
            Some(hash) => checker.once(&mut policy.tokens, hash, (known, &token.sha256)),
            // The value is not repeated: it may be a token by mistake.
            None => checker.at(
                &token.sha256,
                "is not SHA-256 in 64 hexadecimal digits: `tombola access token` prints one",
            ),
        }
    }
    for subject in &file.subjects {
        let issuer = checker.text(&subject.issuer);
        if !policy.issuers.iter().any(|known| known.name == issuer) {
            checker.at(&subject.issuer, format!("no issuer is named {issuer:?}"));
        }
        let key = (issuer, checker.text(&subject.value));
        let value = (Arc::clone(identity), &subject.value);
        checker.once(&mut policy.subjects, key, value);
    }
    for certificate in &file.certificates {
        if let Some((name, at)) = certificate_name(checker, certificate, &file.name) {
            let value = (Arc::clone(identity), at);
            checker.once(&mut policy.certificates, name, value);
        }
    }
}

fn certificate_name<'a>(
    checker: &mut Checker,
    file: &'a CertificateFile,
    identity: &'a Text,
) -> Option<(CertificateName, &'a Text)> {
    match (&file.spiffe, &file.subject) {
        (Some(id), None) => {
            if !id.value.starts_with("spiffe://") {
                checker.at(id, "is no SPIFFE id: it begins with spiffe://");
            }
            Some((CertificateName::Spiffe(id.value.clone()), id))
        }
        (None, Some(subject)) => Some((CertificateName::Subject(checker.text(subject)), subject)),
        (Some(_), Some(_)) | (None, None) => {
            let message = "has a certificate without a name, or with two: each has either spiffe \
                           or subject";
            checker.at(identity, message);
            None
        }
    }
}

fn rate(checker: &mut Checker, file: &RateFile) -> Option<Rate> {
    let mut positive = |number: &Spanned<u32>| {
        let checked = NonZeroU32::new(number.value);
        if checked.is_none() {
            checker.at(number, "is 0: leave the rate away, or write 1 or more");
        }
        checked
    };
    let per_second = positive(&file.per_second)?;
    let burst = file.burst.as_ref().map_or(Some(per_second), positive)?;
    Some(Rate { per_second, burst })
}

fn moment(checker: &mut Checker, text: &Text) -> Option<Moment> {
    let parsed: Result<Timestamp, _> = text.value.parse();
    if parsed.is_err() {
        let message = "is no moment with its offset: write one like 2027-01-31T00:00:00Z";
        checker.at(text, message);
    }
    parsed.ok().map(Moment::from_timestamp)
}

fn issuer_settings(checker: &mut Checker, file: &IssuerFile, directory: &Path) -> IssuerSettings {
    let claim = file.claim.as_ref().map(|claim| checker.text(claim));
    IssuerSettings {
        name: checker.text(&file.name),
        issuer: checker.text(&file.issuer),
        audience: checker.text(&file.audience),
        claim: claim.unwrap_or_else(|| CLAIM.into()),
        keys: key_source(checker, file, directory),
    }
}

fn key_source(checker: &mut Checker, file: &IssuerFile, directory: &Path) -> KeySource {
    let JwksFile {
        file: path,
        url,
        ca_file,
        token_file,
    } = &file.jwks;
    let at = |text: &Text| directory.join(&text.value);
    match (path, url) {
        (Some(path), None) => {
            if ca_file.is_some() || token_file.is_some() {
                checker.at(
                    path,
                    "needs neither caFile nor tokenFile: they belong to a url",
                );
            }
            KeySource::File(at(path))
        }
        (None, Some(url)) => {
            if !may_be_fetched(&url.value) {
                checker.at(
                    url,
                    "is no https:// URL: http:// is for the loopback interface only, and a URL \
                     has no user and no password",
                );
            }
            KeySource::Url {
                url: url.value.clone(),
                ca_file: ca_file.as_ref().map(at),
                token_file: token_file.as_ref().map(at),
            }
        }
        _ => {
            checker.at(&file.name, "jwks of this issuer needs either file or url");
            KeySource::File(directory.to_owned())
        }
    }
}

/// Whether keys may be fetched from a URL: over TLS, or from this machine.
fn may_be_fetched(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let Some(authority) = uri.authority() else {
        return false;
    };
    let host = authority.host().trim_matches(['[', ']']);
    let is_loopback = host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    !authority.as_str().contains('@')
        && match uri.scheme_str() {
            Some("https") => true,
            Some("http") => is_loopback,
            _ => false,
        }
}
