//! Forms that the console itself cannot use: nothing was done, and the page says why.

use axum::{
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};

use crate::console::{
    layout::Place,
    ui,
    upload::{Given, Unreadable, Upload},
    visit::Visit,
};

/// The page that says what is wrong, with the way back.
pub(super) fn refused(visit: &Visit, place: Place, why: &Markup, back: &str) -> Response {
    let lang = visit.language;
    let contents = html! {
        h1 { (lang.t("error.title")) }
        (ui::notice("bad", why))
        p { a href=(back) { (lang.t("form.back")) } }
    };
    let page = visit.page(place, lang.t("error.title"), Ok(contents));
    (StatusCode::BAD_REQUEST, page).into_response()
}

/// The contents of a form with a file, or the page that says why it cannot be read.
pub(super) fn given(visit: &Visit, upload: Upload, back: &str) -> Result<Given, Box<Response>> {
    upload.0.map_err(|why| {
        let text = match why {
            Unreadable::TooLarge => visit.language.t("upload.too-large"),
            Unreadable::NoText => visit.language.t("upload.no-text"),
            Unreadable::Broken => visit.language.t("upload.broken"),
        };
        Box::new(refused(visit, Place::Campaigns, &html! { (text) }, back))
    })
}
