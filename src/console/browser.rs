//! What every response tells browsers, and which requests of browsers are refused.

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
            STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::Next,
    response::Response,
};
use maud::html;

use super::{
    Shared,
    i18n::Language,
    layout,
    visit::{self, sender},
};

/// No inline script or style, no eval, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// What browsers say of where a request comes from (Fetch Metadata).
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The path and query of a request, as the browser sent them. Handlers of nested routes see only a
/// part of the path.
#[derive(Clone, Debug)]
pub(super) struct Address(pub(super) String);

impl Address {
    /// The path alone.
    pub(super) fn path(&self) -> &str {
        self.0.split('?').next().unwrap_or_default()
    }

    /// The address without what was just done, which is said once.
    pub(super) fn of(text: &str) -> Self {
        let Some((path, query)) = text.split_once('?') else {
            return Self(text.into());
        };
        let kept = query.split('&').filter(|part| !part.starts_with("done="));
        match kept.collect::<Vec<_>>().join("&") {
            kept if kept.is_empty() => Self(path.into()),
            kept => Self(format!("{path}?{kept}")),
        }
    }
}

/// Refuses requests that another site makes a browser send, and adds the headers.
pub(super) async fn guard(
    State(console): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = request.uri().path_and_query();
    let address = Address::of(&address.map_or_else(|| "/".into(), ToString::to_string));
    request.extensions_mut().insert(address.clone());
    let host = host(&request);
    let refusal = if !console.is_policed && !is_unambiguous(host.as_deref()) {
        Some("problem.host")
    } else if !is_safe(request.method()) && !is_own(request.headers(), host.as_deref()) {
        Some("problem.foreign")
    } else {
        None
    };
    let language = Language::of(request.headers());
    let back = if is_safe(request.method()) && address.path() != address.0 {
        address.path().to_owned()
    } else {
        sender(request.headers()).map_or_else(|| "/".into(), |from| from.0)
    };
    let is_script = request.headers().contains_key("hx-request");
    let refused = |status, key, back: &str| match is_script {
        // What was typed is only in the page, so the page stays.
        true => visit::note(address.path(), status, &html! { (language.t(key)) }),
        false => layout::problem(language, status, key, back),
    };
    let mut response = match refusal {
        Some(key) => refused(StatusCode::FORBIDDEN, key, "/"),
        None => {
            let response = next.run(request).await;
            match unreadable(&response) {
                Some(key) => refused(response.status(), key, &back),
                None => response,
            }
        }
    };
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Not `no-referrer`: browsers would send forms with the origin `null`.
    set(REFERRER_POLICY, "same-origin");
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    if console.is_https {
        set(STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Why a request cannot be read, as the key of a message, if the response says it in plain words
/// that are no page.
fn unreadable(response: &Response) -> Option<&'static str> {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let has_target = response.headers().contains_key("hx-redirect");
    if !status.is_client_error() || is_page || has_target {
        return None;
    }
    Some(match status {
        StatusCode::NOT_FOUND => "error.missing",
        StatusCode::PAYLOAD_TOO_LARGE => "problem.large",
        StatusCode::METHOD_NOT_ALLOWED => "problem.method",
        _ => "problem.value",
    })
}

/// The host and port that the browser asked for: of the header, or in HTTP/2 of the address.
fn host(request: &Request) -> Option<String> {
    let header = request.headers().get(HOST);
    let header = header.and_then(|value| value.to_str().ok());
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    header.or(authority).map(str::to_ascii_lowercase)
}

/// Whether the host is an address or `localhost`, which no other site can name as its own. A name
/// could be that of a page that lets its name point to this machine, so that the page may read
/// what the console answers.
fn is_unambiguous(host: Option<&str>) -> bool {
    let name = host.and_then(|host| host.parse::<Uri>().ok());
    let name = name.as_ref().and_then(Uri::host).unwrap_or_default();
    let bare = name.trim_matches(['[', ']']);
    name == "localhost" || bare.parse::<std::net::IpAddr>().is_ok()
}

fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Whether a page of the console sends the request. Browsers that say where a request comes from
/// must say so, and all must name the origin.
fn is_own(headers: &HeaderMap, host: Option<&str>) -> bool {
    let site = headers.get(FETCH_SITE);
    let is_same_site = site.is_none_or(|site| site == "same-origin");
    let origin = headers.get(ORIGIN).and_then(|value| value.to_str().ok());
    let origin = origin.and_then(|origin| origin.split_once("://"));
    let origin = origin.map(|(_, host)| host.to_ascii_lowercase());
    is_same_site && origin.is_some() && origin.as_deref() == host
}

#[cfg(test)]
mod tests {
    use axum::http::header::REFERER;

    use super::*;

    #[test]
    fn a_way_back_does_not_say_again_what_was_done() {
        let from = "http://127.0.0.1:8080/campaigns/a?done=paused&curve=day";
        let headers = HeaderMap::from_iter([(REFERER, HeaderValue::from_static(from))]);
        let back = sender(&headers).map(|address| address.0);
        assert_eq!(back.as_deref(), Some("/campaigns/a?curve=day"));
    }

    #[test]
    fn only_pages_of_the_console_may_act() {
        let own = |site: Option<&'static str>, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in [(FETCH_SITE, site), (ORIGIN, origin)] {
                headers.extend(value.map(|value| (name, HeaderValue::from_static(value))));
            }
            is_own(&headers, Some("127.0.0.1:8080"))
        };
        let here = Some("http://127.0.0.1:8080");
        assert!(own(Some("same-origin"), here) && own(None, here));
        assert!(!own(Some("same-origin"), None) && !own(None, None));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!own(Some(site), here), "{site}");
        }
        for origin in ["http://127.0.0.1:8081", "null", "https://evil.example", ""] {
            assert!(!own(None, Some(origin)), "{origin}");
        }
    }

    #[test]
    fn a_host_that_others_could_name_is_not_taken_without_identities() {
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.1.2.3",
        ] {
            assert!(is_unambiguous(Some(host)), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8080",
            "localhost.evil.example",
            "",
        ] {
            assert!(!is_unambiguous(Some(host)), "{host}");
        }
        assert!(!is_unambiguous(None));
    }
}
