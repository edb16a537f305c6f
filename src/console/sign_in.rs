//! Signing in and out, and the choice of a language.

use axum::{
    Form,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::SET_COOKIE},
    response::{AppendHeaders, IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use tonic::Code;

use super::{
    Shared,
    browser::FETCH_SITE,
    i18n::{self, Language},
    layout::{self, Frame, Place},
    session::Visitor,
    ui,
};
use crate::{grpc::access::Secret, model::OperatorId};

#[derive(Deserialize)]
pub(super) struct Asked {
    /// The session has ended.
    ended: Option<String>,
    /// The page to go back to.
    #[serde(default)]
    back: String,
    /// A page of the console leads here, from a link of another site.
    onward: Option<String>,
}

/// The form to sign in. Browsers do not send the session's cookie when somebody follows a link of
/// another site, such as one in a mail. That visitor may have a session, so a page of the console
/// asks once more.
pub(super) async fn form(
    State(console): State<Shared>,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Response {
    let lang = Language::of(&headers);
    let site = headers.get(FETCH_SITE);
    let is_foreign = site.is_some_and(|site| site != "same-origin" && site != "none");
    if asked.onward.is_some() && console.sessions.of(&headers).is_some() {
        return Redirect::to(ui::own_path(&asked.back)).into_response();
    }
    if is_foreign && asked.onward.is_none() && asked.ended.is_none() {
        let query = [("back", asked.back.as_str()), ("onward", "1")];
        return onward(lang, &ui::address("/sign-in", &query));
    }
    let message = asked.ended.map(|_| lang.t("sign-in.ended"));
    let message = message.map(|text| ui::notice("warn", &html! { (text) }));
    page(&console, lang, message.as_ref(), &asked.back).into_response()
}

/// A page that goes on to another one. Browsers do not send the cookie of the session with a
/// redirection that another site began, but they do when a page of the console goes on.
pub(super) fn onward(language: Language, target: &str) -> Response {
    let title = language.t("sign-in.title");
    let frame = Frame {
        language,
        place: Place::Elsewhere,
        title,
        address: target,
        visit: None,
    };
    let contents = html! {
        h1 { (title) }
        p { a href=(target) { (language.t("oidc.onward")) } }
    };
    let refresh = [("refresh", format!("0; url={target}"))];
    (refresh, layout::page(&frame, &contents)).into_response()
}

/// The form to sign in, after somebody was not signed in. It still leads back to the page.
pub(super) fn refused(
    console: &Shared,
    lang: Language,
    status: StatusCode,
    text: &Markup,
    back: &str,
) -> Response {
    let message = ui::notice("warn", text);
    (status, page(console, lang, Some(&message), back)).into_response()
}

fn page(console: &Shared, lang: Language, message: Option<&Markup>, back: &str) -> Markup {
    let title = lang.t("sign-in.title");
    let address = ui::address("/sign-in", &[("back", back)]);
    let frame = Frame {
        language: lang,
        place: Place::Elsewhere,
        title,
        address: &address,
        visit: None,
    };
    let contents = html! {
        div.sign-in.card {
            h1 { (title) }
            @if let Some(message) = message { (message) }
            @if let Some(provider) = &console.provider {
                p { a.button.primary href=(ui::address("/sign-in/oidc", &[("back", back)])) {
                    (lang.with("oidc.submit", &provider.host()))
                } }
                h2 { (lang.t("oidc.or")) }
            }
            form method="post" action="/sign-in" {
                input type="hidden" name="back" value=(back);
                @if console.is_policed {
                    label for="token" { (lang.t("sign-in.token")) }
                    input #token name="token" type="password" autocomplete="off" required
                        autofocus[console.provider.is_none()] aria-describedby="hint";
                    p #hint .hint { (lang.t("sign-in.token-hint")) }
                } @else {
                    label for="name" { (lang.t("sign-in.name")) }
                    input #name name="name" autocomplete="username" required maxlength="128"
                        autofocus aria-describedby="hint";
                    p #hint .hint { (lang.t("sign-in.name-hint")) }
                }
                button.primary type="submit" { (lang.t("sign-in.submit")) }
            }
        }
    };
    layout::page(&frame, &contents)
}

#[derive(Deserialize)]
pub(super) struct Credential {
    #[serde(default)]
    token: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    back: String,
}

/// Begins a session with a token, or with a name at a server that knows no identities.
pub(super) async fn submit(
    State(console): State<Shared>,
    headers: HeaderMap,
    Form(given): Form<Credential>,
) -> Response {
    let lang = Language::of(&headers);
    let refused = |status, key| {
        let text = html! { (lang.t(key)) };
        refused(&console, lang, status, &text, &given.back)
    };
    let forbidden = |key| refused(StatusCode::FORBIDDEN, key);
    let visitor = if console.is_policed {
        let token = Secret::new(given.token.trim());
        match console.local.identity(&token).await {
            Ok(Some(_)) => Visitor::Bearer(token),
            Ok(None) => return layout::away(lang),
            // The token may be good.
            Err(status) if status.code() == Code::Unavailable => {
                return refused(StatusCode::SERVICE_UNAVAILABLE, "away.keys");
            }
            Err(_) => return forbidden("sign-in.bad-token"),
        }
    } else {
        match OperatorId::parse("name", given.name.trim()) {
            Ok(name) => Visitor::Named(name),
            Err(_) => return forbidden("sign-in.bad-name"),
        }
    };
    begin(&console, &visitor, &given.back).unwrap_or_else(|| forbidden("sign-in.long-token"))
}

fn begin(console: &Shared, visitor: &Visitor, back: &str) -> Option<Response> {
    let cookie = console.sessions.begin(visitor)?;
    let target = Redirect::to(ui::own_path(back));
    Some((AppendHeaders([(SET_COOKIE, cookie)]), target).into_response())
}

/// Begins a session by the link that the program printed.
pub(super) async fn link(
    State(console): State<Shared>,
    headers: HeaderMap,
    Path(key): Path<String>,
) -> Response {
    let lang = Language::of(&headers);
    let name = console.link.as_ref().and_then(|link| link.redeem(&key));
    let begun = name.and_then(|name| begin(&console, &Visitor::Named(name), "/"));
    begun.unwrap_or_else(|| {
        let text = html! { (lang.t("sign-in.bad-link")) };
        refused(&console, lang, StatusCode::FORBIDDEN, &text, "")
    })
}

/// Ends the session of the browser.
pub(super) async fn sign_out(State(console): State<Shared>) -> Response {
    let cookie = [(SET_COOKIE, console.sessions.end())];
    (AppendHeaders(cookie), Redirect::to("/sign-in")).into_response()
}

#[derive(Deserialize)]
pub(super) struct Choice {
    tag: String,
    #[serde(default)]
    back: String,
}

/// Chooses a language, and goes back to the page.
pub(super) async fn language(Form(choice): Form<Choice>) -> Response {
    let back = ui::own_path(&choice.back);
    let Some(language) = Language::of_tag(&choice.tag) else {
        return Redirect::to(back).into_response();
    };
    let (name, tag) = (i18n::COOKIE, language.tag());
    let cookie = format!("{name}={tag}; Path=/; Max-Age=31536000; SameSite=Strict; HttpOnly");
    (AppendHeaders([(SET_COOKIE, cookie)]), Redirect::to(back)).into_response()
}
