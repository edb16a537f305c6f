//! A form of an act as it was sent. If the act is refused, the page says why above the same form
//! with what was typed.

use axum::{
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use tonic::Status;

use crate::console::{
    layout,
    layout::Place,
    ui,
    visit::{Visit, http_status, reason},
};

/// A field that people fill in: its name, and that of its message.
type Shown = (&'static str, &'static str);

/// A form that was sent.
pub(super) struct Sent<'a> {
    fields: Vec<(&'a str, &'a str)>,
    shown: &'a [Shown],
    /// What has to be typed, if anything.
    name: Option<&'a str>,
}

impl<'a> Sent<'a> {
    /// A form with these fields, of which people fill in those that are shown. `name` has to be
    /// typed.
    pub(super) fn of(
        fields: impl Iterator<Item = (&'a str, &'a str)>,
        shown: &'a [Shown],
        name: Option<&'a str>,
    ) -> Self {
        Self {
            fields: fields.collect(),
            shown,
            name,
        }
    }

    /// The page that says why the service refuses the act.
    pub(super) fn refused(&self, visit: &Visit, status: &Status) -> Response {
        // The same form would be refused for ever.
        let is_of_no_use = ["VERSION_STALE", "REQUEST_ID_REUSED"].contains(&&*reason(status));
        let form = html! { @if !is_of_no_use { (self.form(visit)) } };
        page(visit, http_status(status), &visit.trouble(status), &form)
    }

    /// The page that says what is wrong with a field.
    pub(super) fn wrong(&self, visit: &Visit, text: &str) -> Response {
        let why = ui::notice("bad", &html! { (text) });
        page(visit, StatusCode::BAD_REQUEST, &why, &self.form(visit))
    }

    /// Asks whether the name was typed as it is, blanks around it aside; if not, gives the page
    /// that says so.
    pub(super) fn mistyped(&self, visit: &Visit) -> Option<Response> {
        let mut fields = self.fields.iter();
        let typed = fields.find(|(name, _)| *name == "typed");
        let typed = typed.map_or("", |(_, value)| value.trim());
        let is_right = self.name.is_none_or(|name| name.trim() == typed);
        (!is_right).then(|| self.wrong(visit, visit.language.t("form.not-typed")))
    }

    fn form(&self, visit: &Visit) -> Markup {
        let lang = visit.language;
        let shown = |name: &str| self.shown.iter().find(|(known, _)| *known == name);
        let fields = self.fields.iter().filter(|(name, _)| *name != "typed");
        html! {
            form.line method="post" action=(visit.path) {
                @for (name, value) in fields {
                    @match shown(name) {
                        None => input type="hidden" name=(name) value=(value);,
                        Some((_, key)) => label {
                            (lang.find(key).unwrap_or(key))
                            input name=(name) value=(value) maxlength="1024" autocomplete="off";
                        },
                    }
                }
                @if let Some(name) = self.name {
                    label { (lang.with("form.type-id", name))
                        input name="typed" required maxlength="256" autocomplete="off";
                    }
                }
                button type="submit" { (lang.t("form.again")) }
            }
        }
    }
}

fn page(visit: &Visit, status: StatusCode, why: &Markup, form: &Markup) -> Response {
    let title = visit.language.t("error.title");
    let contents = html! {
        h1 { (title) }
        (why)
        (form)
        (layout::ways_back(visit.language, &visit.address, &visit.path))
    };
    let page = visit.page(Place::Elsewhere, title, Ok(contents));
    (status, page).into_response()
}
