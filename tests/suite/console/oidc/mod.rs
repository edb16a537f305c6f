//! Signing in by OpenID Connect, at a provider that does what real ones do.

mod provider;

use std::net::TcpListener;

use serde_json::{Value, json};

use self::provider::{CLIENT, Provider, SECRET, fields_of};
use super::{Answer, Browser, browser::drive, encoded};
use crate::{
    access::{Gate, key_server::SigningKey},
    process::Start,
};

/// An access file in which the provider's `olga@example.org` may look at everything, and `nina`
/// nothing at all.
fn policy(provider: &Provider) -> String {
    let issuer = provider.issuer();
    format!(
        r#"
roles: {{all: [read, check, stop]}}
issuers: [{{name: staff, issuer: "{issuer}", audience: {CLIENT}, jwks: {{url: "{issuer}/keys"}}}}]
identities:
  - {{name: olga, subjects: [{{issuer: staff, value: olga@example.org}}]}}
  - {{name: nina, subjects: [{{issuer: staff, value: nina@example.org}}]}}
bindings: [{{identity: olga, role: all, campaigns: ['*'], senders: ['*']}}]
"#
    )
}

/// A provider, a console that people enter by it, and a browser.
struct House {
    provider: Provider,
    gate: Gate,
    browser: Browser,
    origin: String,
}

impl House {
    async fn new() -> Self {
        let provider = Provider::new().await;
        // The console's own address is a part of its options.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let origin = format!("http://{address}");
        let files = tempfile::tempdir().unwrap();
        let secret = files.path().join("secret");
        std::fs::write(&secret, SECRET).unwrap();
        let line = format!(
            "--console {address} --console-url {origin} --console-oidc-issuer {} \
             --console-oidc-client-id {CLIENT} --console-oidc-secret-file {}",
            provider.issuer(),
            secret.display()
        );
        let gate = Gate::with(&policy(&provider), &line);
        gate.server.says("console on ");
        Self {
            provider,
            gate,
            browser: Browser::at(address),
            origin,
        }
    }

    /// The browser is sent to the provider: the address.
    fn asks(&mut self, back: &str) -> String {
        let path = format!("/sign-in/oidc?back={}", encoded(back));
        let answer = self.browser.get(&path);
        assert_eq!(answer.status, 303, "{}\n{}", answer.head, answer.body);
        answer.header("location").unwrap().to_owned()
    }

    /// The browser signs in at the provider and comes back: where, within the console.
    fn comes_back(&mut self, back: &str) -> String {
        let asked = self.asks(back);
        let address = self.provider.signs_in(&asked);
        address.strip_prefix(&self.origin).unwrap().to_owned()
    }

    /// The whole flow.
    fn signs_in(&mut self) -> Answer {
        let path = self.comes_back("/");
        self.browser.get(&path)
    }

    /// The whole flow, which begins no session: the page that says why.
    #[track_caller]
    fn is_refused(&mut self, status: u16, words: &[&str]) {
        let answer = self.signs_in();
        assert_eq!(answer.status, status, "{}\n{}", answer.head, answer.body);
        for word in words {
            assert!(answer.body.contains(word), "{word}: {}", answer.body);
        }
        assert!(
            !answer.head.contains("set-cookie: tombola="),
            "{}",
            answer.head
        );
        self.browser.get("/").leads_to("/sign-in");
    }
}

/// The cookie of a session as the answer sets it.
fn session(answer: &Answer) -> &str {
    let mut cookies = answer
        .head
        .lines()
        .filter_map(|line| line.split_once("set-cookie: "));
    let session = cookies.find(|(_, cookie)| cookie.starts_with("tombola="));
    session.unwrap_or_else(|| panic!("{}", answer.head)).1
}

#[tokio::test(flavor = "multi_thread")]
async fn who_signs_in_comes_back_to_the_page_and_is_known_by_the_access_file() {
    let mut house = House::new().await;
    let page = "/system?a=1";
    let target = "/sign-in?back=%2Fsystem%3Fa%3D1";
    house.browser.get(page).leads_to(target);
    let form = house.browser.get(target).good();
    assert!(form.contains("Sign in at 127.0.0.1"), "{form}");
    assert!(
        form.contains("/sign-in/oidc?back=%2Fsystem%3Fa%3D1"),
        "{form}"
    );

    let asked = house.asks(page);
    let fields = fields_of(asked.split_once('?').unwrap().1);
    assert_eq!(
        fields["redirect_uri"],
        format!("{}/sign-in/oidc/callback", house.origin)
    );
    assert_eq!(fields["scope"], "openid email");
    for random in ["state", "nonce", "code_challenge"] {
        assert!(fields[random].len() >= 22, "{random}");
    }
    let again = fields_of(house.asks(page).split_once('?').unwrap().1);
    for random in ["state", "nonce", "code_challenge"] {
        assert_ne!(fields[random], again[random], "{random}");
    }
    let path = house.comes_back(page);
    let answer = house.browser.get(&path);
    // No redirection: browsers would not send the cookie with it.
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("refresh"), Some("0; url=/system?a=1"));
    let cookie = session(&answer).to_owned();
    let age = cookie
        .split("Max-Age=")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    assert!(
        (500..=600).contains(&age.parse::<u64>().unwrap()),
        "{cookie}"
    );
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(house.browser.get("/system?a=1").good().contains("olga"));

    house.browser.post("/sign-out", "").leads_to("/sign-in");
    house.browser.get("/").leads_to("/sign-in");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_counts_once_and_in_the_browser_that_asked() {
    let mut house = House::new().await;
    let path = house.comes_back("/");
    // Whoever is sent somebody else's answer is not signed in with it.
    let mut stranger = Browser::at(house.browser.address);
    let answer = stranger.get(&path);
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("is not valid"), "{}", answer.body);
    stranger.get("/sign-in/oidc");
    assert_eq!(stranger.get(&path).status, 403);
    stranger.get("/").leads_to("/sign-in");

    let mut copy = house.browser.clone();
    assert_eq!(house.browser.get(&path).status, 200);
    house.browser.get("/").good();
    assert_eq!(house.browser.get(&path).status, 403);
    // Even with the cookie of the sign-in: the provider gives nothing for the code.
    let answer = copy.get(&path);
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("invalid_grant"), "{}", answer.body);
    copy.get("/").leads_to("/sign-in");
    // Without a state, and with one that is empty.
    for path in [
        "/sign-in/oidc/callback?code=a",
        "/sign-in/oidc/callback?code=a&state=",
    ] {
        house.asks("/");
        assert_eq!(house.browser.get(path).status, 403, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_for_this_sign_in_is_refused() {
    let mut house = House::new().await;
    let claim = |name: &str, value: Value| [(name.to_owned(), value)].into_iter().collect();
    let hour = |hours: i64| {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        json!(i64::try_from(now).unwrap() + 3_600 * hours)
    };
    for (name, value, status, word) in [
        ("nonce", json!("another"), 403, "made for another sign-in"),
        ("nonce", Value::Null, 403, "made for another sign-in"),
        ("aud", json!("shop"), 401, "another audience"),
        ("aud", json!([CLIENT, "shop"]), 403, "another application"),
        ("azp", json!("shop"), 403, "another application"),
        (
            "iss",
            json!("https://evil.example"),
            401,
            "no issuer of the access file",
        ),
        ("sub", json!("<b>eve</b>"), 401, "&lt;b&gt;eve&lt;/b&gt;"),
        ("exp", hour(-1), 401, "Check the clocks"),
        ("iat", hour(1), 403, "Check the clocks"),
        ("nbf", hour(1), 401, "not valid yet"),
    ] {
        house.provider.ways().claims = claim(name, value);
        house.is_refused(status, &[word]);
    }
    house.provider.ways().claims.clear();
    house.provider.ways().is_forged = true;
    house.is_refused(401, &["signature is wrong"]);
    house.provider.ways().is_forged = false;
    // The verifier of another challenge: the provider notices.
    house.provider.ways().challenge = Some("another".into());
    house.is_refused(403, &["refuses the sign-in", "invalid_grant"]);
    house.provider.ways().challenge = None;
    assert_eq!(house.signs_in().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_or_is_another_one_is_named() {
    let mut house = House::new().await;
    house.provider.ways().is_broken = true;
    house.is_refused(502, &["does not answer as it should"]);
    house.provider.ways().is_broken = false;
    // An answer that says it comes from another provider (RFC 9207).
    let path = house.comes_back("/");
    let answer = house
        .browser
        .get(&format!("{path}&iss=https://evil.example"));
    assert_eq!(answer.status, 403);
    assert!(
        answer.body.contains("another identity provider"),
        "{}",
        answer.body
    );
    // A person who does not want to. The next attempt leads to the same page.
    let asked = house.asks("/system");
    let state = &fields_of(asked.split_once('?').unwrap().1)["state"];
    let path = format!("/sign-in/oidc/callback?error=access_denied&state={state}");
    let answer = house.browser.get(&path);
    assert_eq!(answer.status, 403);
    for words in ["was cancelled", "/sign-in/oidc?back=%2Fsystem"] {
        assert!(answer.body.contains(words), "{words}: {}", answer.body);
    }
    // What the error says is not repeated to whoever did not ask.
    let answer = house
        .browser
        .get("/sign-in/oidc/callback?error=call-0800-1234&state=x");
    assert!(!answer.body.contains("0800"), "{}", answer.body);

    let mut house = House::new().await;
    house.provider.ways().issuer = Some("https://evil.example".into());
    let answer = house.browser.get("/sign-in/oidc");
    assert_eq!(answer.status, 502);
    assert!(
        answer.body.contains("describes another issuer"),
        "{}",
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_with_their_token_and_with_the_identity() {
    let mut house = House::new().await;
    // Who may do nothing is known, and told what is missing.
    house.provider.ways().subject = "nina@example.org".into();
    assert_eq!(house.signs_in().status, 200);
    let page = house.browser.get("/");
    assert_eq!(page.status, 403);
    for word in ["nina", "lacks the permission read"] {
        assert!(page.body.contains(word), "{word}: {}", page.body);
    }
    house.provider.ways().subject = "olga@example.org".into();
    assert_eq!(house.signs_in().status, 200);
    house.browser.get("/").good();
    let without = policy(&house.provider).replace("value: olga@", "value: other@");
    house.gate.change(&without);
    house
        .browser
        .get("/system")
        .leads_to("/sign-in?ended=1&back=%2Fsystem");
    house.is_refused(401, &["no identity", "olga@example.org"]);
    house.gate.change(&policy(&house.provider));

    house.provider.ways().seconds = 2;
    assert_eq!(house.signs_in().status, 200);
    while house.browser.get("/").status == 200 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    house.browser.get("/").leads_to("/sign-in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlasts_keys_that_cannot_be_read() {
    let mut house = House::new().await;
    assert_eq!(house.signs_in().status, 200);
    house.browser.get("/system").good();
    let known = policy(&house.provider);
    house.gate.change(&known.replace("/keys", "/missing"));
    let words = "cannot be read right now";
    let page = house.browser.get("/system");
    assert_eq!(page.status, 503, "{}", page.body);
    assert_eq!(page.header("set-cookie"), None, "{}", page.head);
    for part in [words, r#"<a href="/system">"#] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    // htmx keeps the page.
    let own = format!("Origin: {}\r\nHX-Request: true\r\n", house.origin);
    let pause = "/campaigns/wheel/pause";
    let answer = house.browser.send("POST", pause, &own, "");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(answer.header("set-cookie"), None, "{}", answer.head);
    assert_eq!(answer.header("hx-reselect"), Some("#live-unsent"));
    for part in [words, r#"id="main""#, r#"id="live-unsent""#] {
        assert!(answer.body.contains(part), "{part}: {}", answer.body);
    }
    // Nobody knows whether a token that is typed is good.
    let claims = json!({"iss": house.provider.issuer()});
    let token = SigningKey::p256().token("k", &claims);
    let form = format!("token={token}&back=/system");
    let refused = Browser::at(house.browser.address).post("/sign-in", &form);
    assert_eq!(refused.status, 503, "{}", refused.body);
    for part in [words, r#"name="back" value="/system""#] {
        assert!(refused.body.contains(part), "{part}: {}", refused.body);
    }

    house.gate.change(&known);
    house.browser.get("/system").good();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_to_another_site() {
    let mut house = House::new().await;
    for back in [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "evil",
    ] {
        let path = house.comes_back(back);
        let answer = house.browser.get(&path);
        assert_eq!(answer.header("refresh"), Some("0; url=/"), "{back}");
    }
    // The provider is asked to send people back to one address only.
    let elsewhere = house
        .browser
        .send("GET", "/sign-in/oidc", "Host: evil.example\r\n", "");
    assert_eq!(elsewhere.status, 403);
    assert!(elsewhere.body.contains(&house.origin), "{}", elsewhere.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_though_their_page_has_too_long_an_address_for_a_cookie() {
    let mut house = House::new().await;
    let path = house.comes_back(&format!("/search?q={}", "x".repeat(4_000)));
    // Browsers drop longer ones.
    let mut cookies = house.browser.cookies.values();
    assert!(cookies.all(|cookie| cookie.len() <= 3_800));
    let answer = house.browser.get(&path);
    assert_eq!(answer.header("refresh"), Some("0; url=/"));
    house.browser.get("/").good();
}

#[tokio::test(flavor = "multi_thread")]
async fn people_sign_in_at_the_provider_in_a_browser() {
    let house = House::new().await;
    drive("oidc.mjs", &house.origin, &[]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let console = "--console 127.0.0.1:0 --console-oidc-client-id console";
    for (more, words) in [
        (
            "--console-oidc-issuer https://id.example",
            ["--console-url", ""],
        ),
        (
            "--console-oidc-issuer http://id.example --console-url https://c.example",
            ["--console-oidc-issuer", "no https:// URL"],
        ),
        (
            "--console-oidc-issuer https://id.example --console-url https://c.example",
            ["access file", "--access"],
        ),
        (
            "--console-oidc-issuer https://id.example --console-url https://c.example/x",
            ["--console-url", "no path"],
        ),
        (
            "--console-oidc-issuer https://id.example --console-url https://c.example \
             --console-oidc-secret-file /missing",
            ["--console-oidc-secret-file", "/missing"],
        ),
    ] {
        let ended = Start::on(data.path())
            .with(&format!("{console} {more}"))
            .fail();
        ended.badly(64, &words);
    }
}
