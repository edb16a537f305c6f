//! A small identity provider: the code flow of OpenID Connect with PKCE, as RFC 6749, RFC 7636 and
//! OpenID Connect Core ask for it. Tests can make it misbehave.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Form, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::access::key_server::{SigningKey, base64};

/// As whom it knows the console, and how the console proves it.
pub const CLIENT: &str = "console";
pub const SECRET: &str = "client secret: 1+1";

/// What a browser asked for, which a code stands for.
struct Grant {
    challenge: String,
    nonce: String,
    redirect: String,
}

/// How it behaves.
pub struct Ways {
    key: SigningKey,
    grants: HashMap<String, Grant>,
    codes: usize,
    /// Who signs in.
    pub subject: String,
    /// When its tokens end, in seconds from now.
    pub seconds: i64,
    /// Claims that replace those of a right token.
    pub claims: Map<String, Value>,
    /// Whether it signs with a key that it does not publish.
    pub is_forged: bool,
    /// The challenge that it keeps, if not that of the browser.
    pub challenge: Option<String>,
    /// The issuer that it says it is, if not itself.
    pub issuer: Option<String>,
    /// Whether the endpoint of tokens fails.
    pub is_broken: bool,
}

/// A provider.
#[derive(Clone)]
pub struct Provider {
    pub address: SocketAddr,
    ways: Arc<Mutex<Ways>>,
}

impl Provider {
    pub async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ways = Ways {
            key: SigningKey::p256(),
            grants: HashMap::new(),
            codes: 0,
            subject: "olga@example.org".into(),
            seconds: 600,
            claims: Map::new(),
            is_forged: false,
            challenge: None,
            issuer: None,
            is_broken: false,
        };
        let provider = Self {
            address: listener.local_addr().unwrap(),
            ways: Arc::new(Mutex::new(ways)),
        };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(described))
            .route("/keys", get(keys))
            .route("/authorize", get(asked))
            .route("/login", get(signed_in))
            .route("/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        provider
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn ways(&self) -> MutexGuard<'_, Ways> {
        self.ways.lock().unwrap()
    }

    /// A person signs in: where the provider sends the browser that asked with this address.
    pub fn signs_in(&self, address: &str) -> String {
        let (path, query) = address.split_once('?').unwrap();
        assert_eq!(path, format!("{}/authorize", self.issuer()));
        let asked: HashMap<String, String> = fields_of(query);
        self.grant(&asked)
    }

    fn grant(&self, asked: &HashMap<String, String>) -> String {
        let mut ways = self.ways();
        let asked = |name: &str| asked[name].clone();
        assert_eq!(asked("response_type"), "code");
        assert_eq!(asked("client_id"), CLIENT);
        assert_eq!(asked("code_challenge_method"), "S256");
        assert!(asked("scope").split(' ').any(|scope| scope == "openid"));
        ways.codes += 1;
        let code = format!("code-{}", ways.codes);
        let challenge = ways.challenge.clone();
        let grant = Grant {
            challenge: challenge.unwrap_or_else(|| asked("code_challenge")),
            nonce: asked("nonce"),
            redirect: asked("redirect_uri"),
        };
        let address = format!("{}?code={code}&state={}", grant.redirect, asked("state"));
        ways.grants.insert(code, grant);
        address
    }
}

/// A document.
struct Json(Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([("content-type", "application/json")], self.0.to_string()).into_response()
    }
}

/// The fields of a query.
pub fn fields_of(query: &str) -> HashMap<String, String> {
    let uri = format!("/?{query}").parse().unwrap();
    Query::try_from_uri(&uri).unwrap().0
}

async fn described(State(provider): State<Provider>) -> Json {
    let own = provider.issuer();
    let issuer = provider
        .ways()
        .issuer
        .clone()
        .unwrap_or_else(|| own.clone());
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{own}/authorize"),
        "token_endpoint": format!("{own}/token"),
        "jwks_uri": format!("{own}/keys"),
        "response_types_supported": ["code"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn keys(State(provider): State<Provider>) -> Json {
    let key = provider.ways().key.public("k");
    Json(json!({ "keys": [key] }))
}

/// The page of the provider: a person signs in, or does not.
async fn asked(Query(asked): Query<HashMap<String, String>>) -> Html<String> {
    let fields = asked.iter().map(|(name, value)| {
        let value = value.replace('&', "&amp;").replace('"', "&quot;");
        format!("<input type=hidden name={name} value=\"{value}\">")
    });
    let fields = fields.collect::<String>();
    let cancel = format!(
        "{}?error=access_denied&state={}",
        asked["redirect_uri"], asked["state"]
    );
    Html(format!(
        "<!doctype html><html lang=en><title>Provider</title><form action=/login>{fields}\
         <button id=login>Sign in</button></form><a id=cancel href=\"{cancel}\">Cancel</a>"
    ))
}

async fn signed_in(
    State(provider): State<Provider>,
    Query(asked): Query<HashMap<String, String>>,
) -> Redirect {
    Redirect::to(&provider.grant(&asked))
}

#[derive(Deserialize)]
struct Redeem {
    grant_type: String,
    code: String,
    redirect_uri: String,
    #[serde(default)]
    code_verifier: String,
}

/// Gives tokens for a code, once, to the client that asked for it.
async fn token(
    State(provider): State<Provider>,
    headers: HeaderMap,
    Form(form): Form<Redeem>,
) -> Response {
    let refused = |error: &str| {
        let body = Json(json!({"error": error, "error_description": "no"}));
        (StatusCode::BAD_REQUEST, body).into_response()
    };
    let mut ways = provider.ways();
    if ways.is_broken {
        return (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response();
    }
    // Both parts are form-encoded first (RFC 6749, section 2.3.1).
    let known = format!("{CLIENT}:client+secret%3A+1%2B1");
    let known = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, known);
    if headers.get("authorization").map(|it| it.as_bytes())
        != Some(format!("Basic {known}").as_bytes())
    {
        return refused("invalid_client");
    }
    let Some(grant) = ways.grants.remove(&form.code) else {
        return refused("invalid_grant");
    };
    let challenge = base64(digest(&SHA256, form.code_verifier.as_bytes()));
    if form.grant_type != "authorization_code"
        || form.redirect_uri != grant.redirect
        || challenge != grant.challenge
    {
        return refused("invalid_grant");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now_s = i64::try_from(now.as_secs()).unwrap();
    let mut claims = json!({
        "iss": provider.issuer(), "aud": CLIENT, "sub": ways.subject, "nonce": grant.nonce,
        "iat": now_s, "exp": now_s + ways.seconds,
    });
    for (name, value) in &ways.claims {
        claims[name] = value.clone();
    }
    let token = match ways.is_forged {
        true => SigningKey::p256().token("k", &claims),
        false => ways.key.token("k", &claims),
    };
    Json(json!({
        "access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": token,
    }))
    .into_response()
}
