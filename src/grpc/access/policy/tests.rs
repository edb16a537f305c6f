use super::*;

const HASH: &str = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";

fn parse(text: &str) -> Result<Policy, Problems> {
    Policy::parse(text, Path::new("/etc/tombola"))
}

fn good() -> String {
    format!(
        r#"
roles:
  backend: [draw, check]
  auditor: [read]
issuers:
  - name: cluster
    issuer: https://kubernetes.default.svc
    audience: tombola
    jwks: {{url: https://kubernetes.default.svc/openid/v1/jwks, caFile: ca.crt, tokenFile: /t}}
identities:
  - name: shop
    tokens:
      - sha256: {HASH}
        until: 2027-01-31T00:00:00Z
    rate: {{perSecond: 100}}
    sessionsFrom: 2026-11-25T12:00:00Z
  - name: audit
    subjects: [{{issuer: cluster, value: "system:serviceaccount:audit:reader"}}]
    certificates: [{{spiffe: "spiffe://example.org/audit"}}, {{subject: CN=audit}}]
bindings:
  - {{identity: shop, role: backend, campaigns: ["spring-*"], senders: ["shop-1"]}}
  - {{identity: shop, role: auditor, campaigns: [spring-7]}}
  - {{identity: audit, role: auditor, campaigns: ["*"], senders: ["*"]}}
"#
    )
}

#[test]
fn a_policy_says_who_may_do_what() {
    let policy = parse(&good()).unwrap();
    let shop = policy.identity("shop").unwrap();
    assert!(shop.may_on_campaign(Permission::Draw, "spring-7"));
    assert!(!shop.may_on_campaign(Permission::Draw, "summer"));
    assert!(!shop.may_on_campaign(Permission::Admin, "spring-7"));
    assert!(shop.may_on_campaign(Permission::Read, "spring-7"));
    assert!(!shop.may_on_campaign(Permission::Read, "spring-8"));
    assert!(shop.may_on_sender(Permission::Draw, "shop-1"));
    assert!(!shop.may_on_sender(Permission::Draw, "shop-2"));
    assert!(!shop.may_on_store(Permission::Draw));
    assert_eq!(shop.rate.map(|rate| rate.burst.get()), Some(100));
    let audit = policy.identity("audit").unwrap();
    assert!(audit.may_on_store(Permission::Read));
    let noon = Moment::from_timestamp("2026-11-25T12:00:00Z".parse().unwrap());
    assert_eq!(shop.sessions_from, Some(noon));
    assert_eq!(audit.sessions_from, None);
    assert!(policy.identity("nobody").is_none());
    let token = policy.token(&TokenHash::parse(HASH).unwrap()).unwrap();
    assert_eq!(token.identity.name.as_str(), "shop");
    assert!(token.until.is_some());
    let value = "system:serviceaccount:audit:reader";
    assert!(policy.subject("cluster", value).is_some());
    assert!(policy.subject("other", value).is_none());
    let spiffe = CertificateName::Spiffe("spiffe://example.org/audit".into());
    assert!(policy.certificate(&spiffe).is_some());
    let KeySource::Url {
        ca_file,
        token_file,
        ..
    } = &policy.issuers()[0].keys
    else {
        panic!("{policy:?}");
    };
    assert_eq!(ca_file.as_deref(), Some(Path::new("/etc/tombola/ca.crt")));
    assert_eq!(token_file.as_deref(), Some(Path::new("/t")));
}

#[test]
fn every_mistake_is_found_with_its_position() {
    for (from, to, position, hint) in [
        (
            "[draw, check]",
            "[drow, check]",
            "line 3, column 13",
            "draw, check, deliver",
        ),
        ("[draw, check]", "[]", "roles.backend", "no permission"),
        (
            "role: backend",
            "role: backent",
            "line 21, column 28",
            "\"backent\"",
        ),
        (
            "identity: shop, role: backend",
            "identity: shap, role: backend",
            "line 21, column 16",
            "\"shap\"",
        ),
        (
            "campaigns: [spring-7]",
            "campaigns: []",
            "line 22, column 16",
            "neither campaigns nor senders",
        ),
        (
            "\"spring-*\"",
            "\"*-spring\"",
            "line 21, column 49",
            "before its end",
        ),
        (HASH, "tombola_secret", "line 13, column 17", "not SHA-256"),
        (
            "2027-01-31T00:00:00Z",
            "tomorrow",
            "line 14, column 16",
            "no moment",
        ),
        (
            "perSecond: 100",
            "perSecond: 0",
            "line 15, column 23",
            "is 0",
        ),
        (
            "perSecond: 100",
            "perSecond: many",
            "line 15, column 23",
            "",
        ),
        (
            "2026-11-25T12:00:00Z",
            "now",
            "line 16, column 19",
            "no moment",
        ),
        (
            "issuer: cluster, value",
            "issuer: closter, value",
            "line 18, column 25",
            "\"closter\"",
        ),
        (
            "name: audit\n",
            "name: shop\n",
            "line 17, column 11",
            "two identities",
        ),
        (
            "spiffe: \"spiffe://",
            "spiffe: \"https://",
            "line 19, column 29",
            "spiffe://",
        ),
        (
            "{subject: CN=audit}",
            "{}",
            "line 17, column 11",
            "either spiffe or subject",
        ),
        (
            "url: https://",
            "url: http://",
            "line 9, column 17",
            "https://",
        ),
        (
            "url: https://kube",
            "url: https://a:b@kube",
            "line 9, column 17",
            "no password",
        ),
        (
            "url: https://kubernetes.default.svc/openid/v1/jwks, ",
            "",
            "line 6, column 11",
            "file or url",
        ),
        ("bindings:", "binding:", "line 20, column 1", "binding"),
        ("roles:", "roles: {}\nroles:", "line 3, column 1", "roles"),
        (
            "    audience: tombola\n",
            "",
            "line 8, column 5",
            "audience",
        ),
        (
            "- name: shop\n",
            "- name: \"\"\n",
            "line 11, column 11",
            "is empty",
        ),
    ] {
        let text = good();
        assert!(text.contains(from), "{from}");
        let problems = parse(&text.replacen(from, to, 1)).unwrap_err();
        let all = problems.to_string();
        let found = problems
            .0
            .iter()
            .any(|problem| problem.path.starts_with(position) && problem.message.contains(hint));
        assert!(found, "{from} -> {to}: {all}");
        assert!(!all.contains("tombola_secret"), "{all}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = good()
        .replace("drow", "")
        .replace("[draw, check]", "[drow, chock]");
    let text = text.replace("role: auditor", "role: aditor");
    assert_eq!(parse(&text).unwrap_err().0.len(), 4);
}

#[test]
fn a_policy_for_nobody_and_one_that_unfolds_are_refused() {
    for bad in [
        "",
        "identities: []",
        "- a",
        "identities: &a [*a]",
        "a: b\n---\nc: d",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}
