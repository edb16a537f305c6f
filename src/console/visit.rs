//! A request of someone who has signed in: who it is, what the services are called with, and the
//! pages that answer it.

use std::time::Duration;

use axum::{
    extract::FromRequestParts,
    http::{
        HeaderMap, Method, StatusCode,
        header::{REFERER, SET_COOKIE},
        request::Parts,
    },
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    Shared,
    browser::Address,
    i18n::Language,
    layout::{self, Frame, Place},
    session::Visitor,
    ui,
};
use crate::{
    grpc::local::Calls,
    proto::{
        campaign_service_client::CampaignServiceClient,
        envelope_service_client::EnvelopeServiceClient, ledger_service_client::LedgerServiceClient,
        lottery_service_client::LotteryServiceClient,
    },
};

/// The most bytes of a response of a service: a page of a long schedule, or a large campaign.
const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request of someone who has signed in.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) language: Language,
    /// Who visits: an identity of the access file, or the name that was given.
    pub(super) name: String,
    pub(super) visitor: Visitor,
    /// Until when the session lasts, since 1970.
    pub(super) until: Duration,
    /// How fast campaigns draw, for all visitors who may read their sums.
    calls: Calls,
    /// The path and query of the page, or of that with the form that was sent, for ways back.
    pub(super) address: String,
}

/// What a handler of a page gives: its contents, or why there are none.
pub(super) type Contents = Result<Markup, Status>;

impl FromRequestParts<Shared> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Shared) -> Result<Self, Response> {
        let language = Language::of(&parts.headers);
        let is_script = parts.headers.contains_key("hx-request");
        let address = match parts.method {
            Method::GET if !is_script => parts.extensions.get::<Address>().cloned(),
            _ => sender(&parts.headers),
        };
        let address = address.map_or_else(|| "/".into(), |address| address.0);
        let expelled = |is_known: bool| expelled(console, is_known, is_script, &address);
        let Some((visitor, until)) = console.sessions.of(&parts.headers) else {
            return Err(expelled(false));
        };
        let (token, name) = match &visitor {
            Visitor::Bearer(token) => match console.local.identity(token).await {
                // Not while it serves: then there is no policy any more, after a restart.
                Ok(None) if console.is_policed => return Err(layout::away(language)),
                Ok(None) => return Err(expelled(true)),
                Ok(Some(name)) => (Some(token), name.as_str().to_owned()),
                Err(_) => return Err(expelled(true)),
            },
            Visitor::Named(_) if console.is_policed => return Err(expelled(true)),
            Visitor::Named(name) => (None, name.as_str().to_owned()),
        };
        let Some(calls) = console.local.calls(token) else {
            return Err(layout::away(language));
        };
        Ok(Self {
            language,
            name,
            visitor,
            until,
            calls,
            address,
        })
    }
}

/// The page that sends a form. What a form is sent to may be no page.
fn sender(headers: &HeaderMap) -> Option<Address> {
    let (_, rest) = headers.get(REFERER)?.to_str().ok()?.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    Some(Address(format!("/{path}")))
}

/// Sends a browser to the form to sign in, without the session that it may have, and from there
/// back to the page.
fn expelled(console: &Shared, is_known: bool, is_script: bool, back: &str) -> Response {
    let ended = if is_known { "1" } else { "" };
    let back = if back == "/" { "" } else { back };
    let target = ui::address("/sign-in", &[("ended", ended), ("back", back)]);
    let target = target.as_str();
    let mut response = match is_script {
        // htmx would put the form into the page.
        true => (StatusCode::UNAUTHORIZED, [("hx-redirect", target)]).into_response(),
        false => Redirect::to(target).into_response(),
    };
    if is_known && let Ok(value) = console.sessions.end().parse() {
        response.headers_mut().append(SET_COOKIE, value);
    }
    response
}

impl Visit {
    /// The same visit, with reads that are shared with the viewers of other live pages.
    pub(super) fn live(self) -> Self {
        Self {
            calls: self.calls.live(),
            ..self
        }
    }

    /// The client of `CampaignService`.
    pub(super) fn campaigns(&self) -> CampaignServiceClient<Calls> {
        CampaignServiceClient::new(self.calls.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// The client of `LotteryService`.
    pub(super) fn lottery(&self) -> LotteryServiceClient<Calls> {
        LotteryServiceClient::new(self.calls.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// The client of `EnvelopeService`.
    pub(super) fn envelopes(&self) -> EnvelopeServiceClient<Calls> {
        EnvelopeServiceClient::new(self.calls.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// The client of `LedgerService`.
    pub(super) fn ledger(&self) -> LedgerServiceClient<Calls> {
        LedgerServiceClient::new(self.calls.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX)
    }

    /// The field `operator` of a request: an identity needs none.
    pub(super) fn operator(&self) -> String {
        match &self.visitor {
            Visitor::Bearer(_) => String::new(),
            Visitor::Named(name) => name.as_str().to_owned(),
        }
    }

    /// A page with these contents, or one that says why there are none.
    pub(super) fn page(&self, place: Place, title: &str, contents: Contents) -> Response {
        let frame = Frame {
            language: self.language,
            place,
            title,
            visit: Some(self),
        };
        match contents {
            Ok(contents) => layout::page(&frame, &contents).into_response(),
            Err(status) => {
                let contents = html! {
                    h1 { (self.language.t("error.title")) }
                    (self.trouble(&status))
                    p { a href="/" { (self.language.t("error.home")) } }
                };
                (http_status(&status), layout::page(&frame, &contents)).into_response()
            }
        }
    }

    /// Why something is not shown or not done: the reason in the visitor's language, and the
    /// service's own words.
    pub(super) fn trouble(&self, status: &Status) -> Markup {
        let lang = self.language;
        let reason = reason(status);
        let note = match reason.as_str() {
            "LEDGER_NOT_SETTLED" => Some("ledger.absent"),
            "ERASER_MISSING" => Some("forget.absent"),
            _ => None,
        };
        if let Some(note) = note {
            return ui::notice("info", &html! { (lang.t(note)) });
        }
        let text = lang.find(&format!("reason.{reason}"));
        ui::notice(
            "bad",
            &html! {
                strong { (text.unwrap_or_else(|| lang.t("error.other"))) }
                " " span lang="en" { (status.message()) }
            },
        )
    }

    /// The contents, or a notice in their place.
    pub(super) fn section(&self, contents: Contents) -> Markup {
        contents.unwrap_or_else(|status| self.trouble(&status))
    }
}

/// The reason of an error, as the API names it.
pub(super) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_default()
}

/// The status of HTTP for that of a service.
pub(super) fn http_status(status: &Status) -> StatusCode {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::FailedPrecondition | Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
