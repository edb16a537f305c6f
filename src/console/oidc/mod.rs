//! Signing in by OpenID Connect: the code flow with PKCE.
//!
//! The console asks the provider for an ID token, and the session holds that token: the access file
//! knows its issuer, so it passes the same gates as any other token. What is under way is in a
//! cookie of the browser, encrypted; no service keeps anything of it.

mod flow;
mod provider;

use axum::{
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header::HOST, header::SET_COOKIE},
    response::{AppendHeaders, IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::{Status, codegen::http::Uri};

pub use self::provider::{Settings, is_safe};
pub(super) use self::{flow::Claims, provider::Provider};
use self::{
    flow::{Flow, Wrong},
    provider::Trouble,
};
use super::{
    Shared,
    i18n::Language,
    session::{self, Visitor},
    sign_in, ui, visit,
};
use crate::grpc::access::Secret;

/// The longest error code of a provider that is shown.
const CODE_CHARS_MAX: usize = 64;

#[derive(Deserialize)]
pub(super) struct Begin {
    #[serde(default)]
    back: String,
}

/// Sends the browser to the provider.
pub(super) async fn begin(
    State(console): State<Shared>,
    headers: HeaderMap,
    Query(asked): Query<Begin>,
) -> Response {
    let language = Language::of(&headers);
    let Some(provider) = &console.provider else {
        return super::pages::missing(headers).await;
    };
    let refused =
        |status, text: &Markup| sign_in::refused(&console, language, status, text, &asked.back);
    if !is_at(&headers, &provider.settings.url) {
        // The cookie of the sign-in would not be there when the browser comes back.
        let url = &provider.settings.url;
        let text = html! { (language.t("oidc.elsewhere")) " " a href=(url) { (url) } };
        return refused(StatusCode::FORBIDDEN, &text);
    }
    let (url, fresh) = match provider.begin().await {
        Ok(begun) => begun,
        Err(trouble) => {
            let (status, text) = troubled(language, &trouble);
            return refused(status, &text);
        }
    };
    let mut flow = Flow {
        fresh,
        back: ui::own_path(&asked.back).to_owned(),
        language: language.tag().to_owned(),
    };
    let held = console.sessions.hold(&flow).or_else(|| {
        // The page has too long an address for a cookie.
        flow.back = "/".into();
        console.sessions.hold(&flow)
    });
    match held {
        Some(cookie) => (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(&url)).into_response(),
        None => Redirect::to("/sign-in").into_response(),
    }
}

/// Whether the browser is where the provider will send it back to. HTTP/2 has the host elsewhere,
/// and then a name that is wrong is noticed on the way back.
fn is_at(headers: &HeaderMap, url: &str) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = url.parse::<Uri>().ok();
    let own = own.as_ref().and_then(Uri::authority);
    let pair = host.zip(own);
    pair.is_none_or(|(host, own)| own.as_str().eq_ignore_ascii_case(host))
}

/// What a provider gives back.
#[derive(Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
    iss: Option<String>,
}

/// Takes the answer of the provider, and begins a session.
pub(super) async fn callback(
    State(console): State<Shared>,
    headers: HeaderMap,
    Query(answer): Query<Answer>,
) -> Response {
    let Some(provider) = &console.provider else {
        return super::pages::missing(headers).await;
    };
    let flow: Option<Flow> = console.sessions.held(&headers);
    let chosen = flow
        .as_ref()
        .and_then(|flow| Language::of_tag(&flow.language));
    let language = chosen.unwrap_or_else(|| Language::of(&headers));
    let flow = flow.filter(|flow| flow.has_state(&answer.state));
    let back = flow.as_ref().map(|flow| flow.back.clone());
    let back = back.unwrap_or_default();
    let ended = match flow {
        None => Err((StatusCode::FORBIDDEN, html! { (language.t("oidc.state")) })),
        Some(flow) => match sign_in(&console, provider, language, answer, &flow).await {
            Ok(token) => console
                .sessions
                .begin(&Visitor::Bearer(token))
                .ok_or_else(|| {
                    let text = html! { (language.t("sign-in.long-token")) };
                    (StatusCode::FORBIDDEN, text)
                }),
            Err(refusal) => Err(refusal),
        },
    };
    let released = AppendHeaders([(SET_COOKIE, console.sessions.release())]);
    match ended {
        Ok(cookie) => {
            let begun = AppendHeaders([(SET_COOKIE, cookie)]);
            (begun, released, sign_in::onward(language, &back)).into_response()
        }
        Err((status, text)) => {
            let page = sign_in::refused(&console, language, status, &text, &back);
            (released, page).into_response()
        }
    }
}

/// Why nobody is signed in: the status of the answer, and a text.
type Refusal = (StatusCode, Markup);

/// The token of who has signed in at the provider.
async fn sign_in(
    console: &Shared,
    provider: &Provider,
    language: Language,
    answer: Answer,
    flow: &Flow,
) -> Result<Secret, Refusal> {
    let refusal = |key| Err((StatusCode::FORBIDDEN, html! { (language.t(key)) }));
    let settings = &provider.settings;
    if answer.iss.is_some_and(|issuer| issuer != settings.issuer) {
        return refusal("oidc.issuer");
    }
    match answer.error.as_str() {
        "" => {}
        "access_denied" => return refusal("oidc.cancelled"),
        error => return Err(troubled(language, &Trouble::Refused(code(error)))),
    }
    let redeemed = provider.redeem(answer.code, flow).await;
    let token = redeemed.map_err(|trouble| troubled(language, &trouble))?;
    let claims = Claims::of(&token);
    match console.local.identity(&token).await {
        Ok(Some(_)) => {}
        Ok(None) => return refusal("away.title"),
        Err(status) => return Err(denied(language, &status, claims.as_ref())),
    }
    let Some(claims) = claims else {
        return refusal("oidc.state");
    };
    let client = (settings.issuer.as_str(), settings.client_id.as_str());
    match claims.check(client, &flow.fresh.nonce, session::now()) {
        Ok(()) => Ok(token),
        Err(Wrong::Issuer) => refusal("oidc.issuer"),
        Err(Wrong::Audience) => refusal("oidc.audience"),
        Err(Wrong::Nonce) => refusal("oidc.nonce"),
        Err(Wrong::Clock) => refusal("oidc.clock"),
    }
}

/// What to tell of a provider that signs nobody in.
fn troubled(language: Language, trouble: &Trouble) -> Refusal {
    let (status, key) = match trouble {
        Trouble::Away(_) => (StatusCode::BAD_GATEWAY, "oidc.away"),
        Trouble::Refused(_) => (StatusCode::FORBIDDEN, "oidc.refused"),
    };
    let text = html! {
        strong { (language.t(key)) } " " span lang="en" { (trouble.to_string()) }
    };
    (status, text)
}

/// What to tell of a token that the service does not accept.
fn denied(language: Language, status: &Status, claims: Option<&Claims>) -> Refusal {
    let reason = visit::reason(status);
    let key = match reason.as_str() {
        "CREDENTIALS_EXPIRED" => "oidc.clock",
        "CREDENTIALS_UNVERIFIABLE" => "oidc.keys",
        _ => "oidc.stranger",
    };
    let names = claims.map(Claims::names).unwrap_or_default();
    let text = html! {
        strong { (language.t(key)) } " " span lang="en" { (status.message()) }
        @if !names.is_empty() {
            dl.pairs { @for (name, value) in names { dt { code { (name) } } dd { (value) } } }
        }
    };
    (visit::http_status(status), text)
}

/// An error code, without what is no part of one (RFC 6749, section 4.1.2.1).
fn code(text: &str) -> String {
    let is_part = |char: &char| char.is_ascii_graphic() && !matches!(char, '"' | '\\');
    text.chars().filter(is_part).take(CODE_CHARS_MAX).collect()
}
