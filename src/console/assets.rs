//! Styles, scripts and the icon, which are part of the program.

use axum::{
    extract::{Path, RawQuery},
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};

/// Name, type and contents.
const ASSETS: [(&str, &str, &str); 5] = [
    (
        "console.css",
        "text/css; charset=utf-8",
        include_str!("assets/console.css"),
    ),
    (
        "htmx.min.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/htmx.min.js"),
    ),
    (
        "live.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/live.js"),
    ),
    (
        "plan.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/plan.js"),
    ),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// The address of an asset. It changes with the build, so that browsers may keep what they have.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{name}?{}", crate::BUILD_ID)
}

/// An asset. Browsers keep it at the address of this build only. While services are replaced, the
/// page of one build may ask a service of another, and would show the wrong contents for a year.
pub(super) async fn asset(Path(name): Path<String>, RawQuery(build): RawQuery) -> Response {
    let found = ASSETS.iter().find(|(known, ..)| *known == name);
    let Some((_, kind, contents)) = found else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kept = match build.as_deref() {
        Some(crate::BUILD_ID) => "public, max-age=31536000, immutable",
        _ => "no-store",
    };
    ([(CONTENT_TYPE, *kind), (CACHE_CONTROL, kept)], *contents).into_response()
}
