//! The frame of every page: head, navigation, search, language, who visits.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

use super::{assets::address, i18n::Language, ui, visit::Visit};

/// What htmx may do: no eval, no style of its own, requests to this site only. Errors are shown in
/// place of the page, as they are without scripts.
const HTMX: &str = r#"{
    "allowEval": false, "includeIndicatorStyles": false, "attributesToSettle": ["class"],
    "allowScriptTags": false, "selfRequestsOnly": true, "historyEnabled": false,
    "timeout": 60000,
    "responseHandling": [{"code": "204", "swap": false}, {"code": "...", "swap": true}]
}"#;

/// Which part of the navigation a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Campaigns,
    Envelopes,
    System,
    Elsewhere,
}

/// What the frame of a page needs.
pub(super) struct Frame<'a> {
    pub(super) language: Language,
    pub(super) place: Place,
    pub(super) title: &'a str,
    /// The page that another language is chosen for.
    pub(super) address: &'a str,
    /// Who visits, unless nobody has signed in.
    pub(super) visit: Option<&'a Visit>,
}

/// A page.
pub(super) fn page(frame: &Frame<'_>, contents: &Markup) -> Markup {
    let lang = frame.language;
    html! {
        (DOCTYPE)
        html lang=(lang.tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=(HTMX);
                title { (frame.title) " · Tombola" }
                link rel="icon" type="image/svg+xml" href=(address("icon.svg"));
                link rel="stylesheet" href=(address("console.css"));
                script src=(address("htmx.min.js")) defer {}
                script src=(address("live.js")) defer {}
            }
            body data-unsent=(lang.t("live.unsent")) data-stale=(lang.t("live.stale")) {
                a.skip href="#main" { (lang.t("nav.skip")) }
                (header(frame))
                main #main tabindex="-1" { (contents) }
            }
        }
    }
}

fn header(frame: &Frame<'_>) -> Markup {
    let lang = frame.language;
    let links = [
        (Place::Campaigns, "/", lang.t("nav.campaigns")),
        (Place::Envelopes, "/envelopes", lang.t("nav.envelopes")),
        (Place::System, "/system", lang.t("nav.system")),
    ];
    html! {
        header.top {
            a.brand href="/" {
                img src=(address("icon.svg")) alt="" width="28" height="28";
                span { "Tombola" }
            }
            @if let Some(visit) = frame.visit {
                nav aria-label=(lang.t("nav.label")) {
                    @for (place, href, text) in links {
                        a href=(href) aria-current=[(place == frame.place).then_some("page")] {
                            (text)
                        }
                    }
                }
                form.search role="search" action="/search" {
                    label.hidden for="search" { (lang.t("nav.search")) }
                    input #search name="q" type="search" maxlength="256" autocomplete="off"
                        placeholder=(lang.t("nav.search-hint"));
                }
                (languages(lang, frame.address))
                form.who method="post" action="/sign-out" {
                    @if !visit.name.is_empty() { span.name { (visit.name) } }
                    button.quiet type="submit" { (lang.t("nav.sign-out")) }
                }
            } @else {
                (languages(lang, frame.address))
            }
        }
    }
}

/// The switch of languages. It comes back to the page.
fn languages(lang: Language, address: &str) -> Markup {
    html! {
        form.languages method="post" action="/language" aria-label=(lang.t("nav.language")) {
            input type="hidden" name="back" value=(address);
            @for language in Language::all() {
                button.quiet name="tag" value=(language.tag()) lang=(language.tag())
                    aria-pressed=(language == lang) { (language.name()) }
            }
        }
    }
}

/// Links back to where a visitor came from, and to the first page. The page itself is no way back.
pub(super) fn ways_back(lang: Language, back: &str, path: &str) -> Markup {
    let is_elsewhere = back != "/" && (back != path || back.contains('?'));
    html! {
        p {
            @if is_elsewhere { a href=(ui::own_path(back)) { (lang.t("form.back")) } " · " }
            a href="/" { (lang.t("error.home")) }
        }
    }
}

/// A page without a visitor.
fn bare(language: Language, status: StatusCode, title: &str, text: &Markup) -> Response {
    let frame = Frame {
        language,
        place: Place::Elsewhere,
        title,
        address: "/",
        visit: None,
    };
    let contents = html! { h1 { (title) } (text) };
    (status, page(&frame, &contents)).into_response()
}

/// The page while the server does not serve.
pub(super) fn away(language: Language) -> Response {
    let text = html! { p { (language.t("away.text")) } };
    let title = language.t("away.title");
    bare(language, StatusCode::SERVICE_UNAVAILABLE, title, &text)
}

/// The page while the keys that verify a session's token cannot be read, with a link to try again.
pub(super) fn unverified(language: Language, address: &str) -> Response {
    let text = html! {
        (ui::notice("warn", &html! { (language.t("away.keys")) }))
        p { a href=(ui::own_path(address)) { (language.t("away.again")) } }
    };
    let title = language.t("away.title");
    bare(language, StatusCode::SERVICE_UNAVAILABLE, title, &text)
}

/// A message that htmx puts above the contents of a page, which stay as they are. `live.js` removes
/// it before the next request, by its id.
pub(super) fn note(status: StatusCode, text: &Markup) -> Response {
    let headers = [
        ("hx-retarget", "#main"),
        ("hx-reswap", "afterbegin show:top"),
        ("hx-reselect", "#live-unsent"),
    ];
    // `live.js` shows no answer in `main` that has no `main` itself.
    let body = html! { main #main { div #live-unsent { (ui::notice("bad", text)) } } };
    (status, headers, body).into_response()
}

/// The page of a request that cannot be read: `key` is the message that says why.
pub(super) fn problem(
    language: Language,
    status: StatusCode,
    key: &'static str,
    back: &str,
) -> Response {
    let text = html! {
        (ui::notice("bad", &html! { (language.t(key)) }))
        (ways_back(language, back, ""))
    };
    bare(language, status, language.t("error.title"), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_the_editor_stay_small() {
        let lines = include_str!("assets/plan.js").lines().count();
        assert!(lines < 400, "{lines} lines");
    }

    #[test]
    fn htmx_evaluates_nothing_and_brings_no_style_of_its_own() {
        let settings: serde_json::Value = serde_json::from_str(HTMX).unwrap();
        for name in [
            "allowEval",
            "includeIndicatorStyles",
            "allowScriptTags",
            "historyEnabled",
        ] {
            assert_eq!(settings[name], false, "{name}");
        }
        assert_eq!(settings["selfRequestsOnly"], true);
    }
}
