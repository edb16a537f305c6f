//! The provider: what it publishes of itself, and the exchange of a code for an ID token.

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use http_body_util::Full;
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret,
    CsrfToken, EmptyExtraTokenFields, EndpointNotSet, EndpointSet, ExtraTokenFields, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError,
    RevocationErrorResponseType, Scope, StandardErrorResponse, StandardRevocableToken,
    StandardTokenIntrospectionResponse, StandardTokenResponse, TokenUrl,
    basic::{BasicErrorResponse, BasicErrorResponseType, BasicTokenType},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{Instant, timeout},
};
use tonic::codegen::http::{Request, Uri};

use super::flow::{Flow, Fresh};
use crate::{
    grpc::access::{Credentials, Secret},
    tls::exchange,
};

/// How long what a provider publishes is used, and how long a failure to read it.
const KNOWN_TIME: Duration = Duration::from_secs(5 * 60);
const FAILED_TIME: Duration = Duration::from_secs(2);
/// Codes that are exchanged at once. Anybody may begin to sign in.
const EXCHANGES_MAX: usize = 8;
/// How long a code waits for its turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(5);
/// The most bytes of an answer of a provider.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// How people sign in at a provider.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The provider, as its tokens name it in `iss`.
    pub issuer: String,
    /// As whom the provider knows the console, and for whom its tokens are.
    pub client_id: String,
    /// What the console proves that with; none: nothing but the code's verifier.
    pub secret: Option<Secret>,
    /// Where browsers reach the console: `https://console.example`, without a path.
    pub url: String,
    /// Authorities of the provider's certificate; the system's if there are none.
    pub ca_file: Option<PathBuf>,
    /// What the console asks for besides `openid`.
    pub scopes: Vec<String>,
}

/// Why a provider cannot sign somebody in.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// It does not answer, or not as a provider.
    #[error("{0}")]
    Away(String),
    /// It refuses, with an error code of OAuth 2.0.
    #[error("{0}")]
    Refused(String),
}

/// No answer.
#[derive(Debug, Error)]
#[error("{0}")]
struct NoAnswer(String);

/// What a provider publishes (OpenID Connect Discovery 1.0, section 3).
#[derive(Clone, Debug, Deserialize)]
struct Published {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The fields of an answer with tokens that OpenID Connect adds.
#[derive(Deserialize, Serialize)]
struct IdToken {
    id_token: Option<String>,
}

impl fmt::Debug for IdToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdToken").finish_non_exhaustive()
    }
}

impl ExtraTokenFields for IdToken {}

/// The client of a provider whose endpoints are known.
type Known = Client<
    BasicErrorResponse,
    StandardTokenResponse<IdToken, BasicTokenType>,
    StandardTokenIntrospectionResponse<EmptyExtraTokenFields, BasicTokenType>,
    StandardRevocableToken,
    StandardErrorResponse<RevocationErrorResponseType>,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

/// What was read, or why not, and when.
type Read = (Instant, Result<Arc<Known>, String>);

/// A provider.
#[derive(Debug)]
pub(in crate::console) struct Provider {
    pub(super) settings: Settings,
    read: Mutex<Option<Read>>,
    exchanges: Semaphore,
}

impl Provider {
    pub(in crate::console) fn new(settings: Settings) -> Self {
        Self {
            settings,
            read: Mutex::default(),
            exchanges: Semaphore::new(EXCHANGES_MAX),
        }
    }

    /// The name of its host, for people.
    pub(in crate::console) fn host(&self) -> String {
        let uri = self.settings.issuer.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host);
        host.unwrap_or(&self.settings.issuer).to_owned()
    }

    /// Where a browser goes to sign in, and what the console needs when it comes back.
    pub(super) async fn begin(&self) -> Result<(String, Fresh), Trouble> {
        let client = self.known().await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = CsrfToken::new_random().into_secret();
        let scopes = self.settings.scopes.iter();
        let (url, state) = client
            .authorize_url(CsrfToken::new_random)
            .add_scope(Scope::new("openid".into()))
            .add_scopes(scopes.map(|scope| Scope::new(scope.clone())))
            .add_extra_param("nonce", &nonce)
            .set_pkce_challenge(challenge)
            .url();
        let fresh = Fresh {
            state: state.into_secret(),
            nonce,
            verifier: verifier.into_secret(),
        };
        Ok((url.into(), fresh))
    }

    /// The ID token for a code.
    pub(super) async fn redeem(&self, code: String, flow: &Flow) -> Result<Secret, Trouble> {
        let client = self.known().await?;
        let Ok(Ok(_turn)) = timeout(TURN_TIME_MAX, self.exchanges.acquire()).await else {
            return Err(Trouble::Away("too many people sign in at once".into()));
        };
        let http = self.http();
        let verifier = PkceCodeVerifier::new(flow.fresh.verifier.clone());
        let response = client
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(verifier)
            .request_async(&http)
            .await;
        match response {
            Ok(response) => {
                let token = response.extra_fields().id_token.as_ref();
                let none = || Trouble::Away("its answer has no `id_token`".into());
                token.map(Secret::new).ok_or_else(none)
            }
            Err(RequestTokenError::ServerResponse(response)) => {
                Err(Trouble::Refused(code_of(response.error())))
            }
            Err(RequestTokenError::Request(NoAnswer(problem))) => Err(Trouble::Away(problem)),
            Err(RequestTokenError::Parse(problem, _)) => Err(Trouble::Away(format!(
                "its answer cannot be read: {problem}"
            ))),
            Err(RequestTokenError::Other(problem)) => Err(Trouble::Away(problem)),
        }
    }

    /// The client with the endpoints that the provider publishes. One caller reads them at a time.
    async fn known(&self) -> Result<Arc<Known>, Trouble> {
        let mut read = self.read.lock().await;
        let is_fresh = |(at, client): &Read| {
            let time = if client.is_ok() {
                KNOWN_TIME
            } else {
                FAILED_TIME
            };
            at.elapsed() < time
        };
        if !read.as_ref().is_some_and(is_fresh) {
            let published = self.published().await;
            let client = published.and_then(|published| self.client(published).map(Arc::new));
            if let Err(problem) = &client {
                let issuer = &self.settings.issuer;
                tracing::warn!(
                    issuer,
                    problem,
                    "the provider {issuer} signs nobody in: {problem}"
                );
            }
            *read = Some((Instant::now(), client));
        }
        let known = read.as_ref().map(|(_, client)| client.clone());
        known.unwrap_or(Err(String::new())).map_err(Trouble::Away)
    }

    fn http(&self) -> Http {
        Http {
            ca_file: self.settings.ca_file.clone(),
        }
    }

    async fn published(&self) -> Result<Published, String> {
        let issuer = &self.settings.issuer;
        let url = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let request = Request::get(&url).body(Vec::new());
        let request = request.map_err(|error| error.to_string())?;
        let response = self
            .http()
            .call(request)
            .await
            .map_err(|error| error.to_string())?;
        if response.status() != 200 {
            return Err(format!("{url} answers {}", response.status()));
        }
        let published: Published = serde_json::from_slice(response.body())
            .map_err(|error| format!("{url} has no description of a provider: {error}"))?;
        if published.issuer != *issuer {
            return Err(format!(
                "{url} describes another issuer, {:?}: write it so in --console-oidc-issuer",
                published.issuer
            ));
        }
        Ok(published)
    }

    fn client(&self, published: Published) -> Result<Known, String> {
        for endpoint in [&published.authorization_endpoint, &published.token_endpoint] {
            let uri = endpoint.parse::<Uri>();
            if !uri.is_ok_and(|uri| is_safe(&uri)) {
                return Err(format!("its endpoint {endpoint:?} is no https:// URL"));
            }
        }
        let wrong = |error: &dyn fmt::Display| error.to_string();
        let settings = &self.settings;
        let authorize = AuthUrl::new(published.authorization_endpoint);
        let token = TokenUrl::new(published.token_endpoint);
        let redirect = RedirectUrl::new(settings.redirect());
        let methods = published.token_endpoint_auth_methods_supported;
        let is_basic = methods.is_none_or(|methods| {
            let has = |name: &str| methods.iter().any(|method| method == name);
            has("client_secret_basic") || !has("client_secret_post")
        });
        let mut client = Client::new(ClientId::new(settings.client_id.clone()))
            .set_auth_uri(authorize.map_err(|error| wrong(&error))?)
            .set_token_uri(token.map_err(|error| wrong(&error))?)
            .set_redirect_uri(redirect.map_err(|error| wrong(&error))?)
            .set_auth_type(if is_basic {
                AuthType::BasicAuth
            } else {
                AuthType::RequestBody
            });
        if let Some(secret) = &settings.secret {
            client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        }
        Ok(client)
    }
}

/// Sends requests to a provider.
struct Http {
    ca_file: Option<PathBuf>,
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = NoAnswer;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NoAnswer>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        let request = request.map(|body| Full::new(body.into()));
        Box::pin(async move {
            let response = exchange(request, self.ca_file.as_ref(), ANSWER_BYTES_MAX).await;
            response
                .map(|response| response.map(Vec::from))
                .map_err(NoAnswer)
        })
    }
}

impl Settings {
    /// Where the provider sends people back to.
    pub fn redirect(&self) -> String {
        format!("{}/sign-in/oidc/callback", self.url)
    }
}

/// Whether a secret may go to a URL: over TLS, or within this machine.
pub fn is_safe(uri: &Uri) -> bool {
    matches!(uri.scheme_str(), Some("http" | "https")) && Credentials::may_go_to(uri)
}

/// An error code, without what is no part of one (RFC 6749, section 5.2).
fn code_of(error: &BasicErrorResponseType) -> String {
    super::code(error.as_ref())
}
