//! A request of someone who has signed in: who it is, what the services are called with, and the
//! pages that answer it.

use std::sync::{Arc, OnceLock};

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
    live,
    pages::{new, plan},
    session::{Session, Visitor},
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
    pub(super) session: Session,
    /// How fast campaigns draw, for all visitors who may read their sums.
    calls: Calls,
    /// The path and query of the page, or of that with the form that was sent, for ways back.
    pub(super) address: String,
    /// The path that this request was sent to, for a form that is shown again.
    pub(super) path: String,
    /// The campaign's page that is made, once its head is.
    heading: Arc<OnceLock<Heading>>,
}

/// Which page of a campaign is shown, for its title.
#[derive(Debug)]
struct Heading {
    id: String,
    /// The name of the campaign, and that of its page.
    campaign: String,
    tab: &'static str,
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
        let path = parts.extensions.get::<Address>();
        let path = path.map_or("/", |asked| asked.path()).to_owned();
        let refused = Refused {
            language,
            is_script,
            path: &path,
            back: &address,
        };
        let Some(session) = console.sessions.of(&parts.headers) else {
            return Err(refused.expelled(console, false));
        };
        let (token, name) = match &session.visitor {
            Visitor::Bearer(token) => match console.local.identity(token).await {
                // Not while it serves: then there is no policy any more, after a restart.
                Ok(None) if console.is_policed => return Err(refused.away()),
                Ok(None) => return Err(refused.expelled(console, true)),
                Ok(Some(identity)) if session.has_begun_since(identity.sessions_from) => {
                    (Some(token), identity.name.as_str().to_owned())
                }
                // The token may be good, so the session stays.
                Err(status) if status.code() == Code::Unavailable => {
                    return Err(refused.unverified());
                }
                Ok(Some(_)) | Err(_) => return Err(refused.expelled(console, true)),
            },
            Visitor::Named(_) if console.is_policed => return Err(refused.expelled(console, true)),
            Visitor::Named(name) => (None, name.as_str().to_owned()),
        };
        let Some(calls) = console.local.calls(token) else {
            return Err(refused.away());
        };
        Ok(Self {
            language,
            name,
            session,
            calls,
            address,
            path,
            heading: Arc::default(),
        })
    }
}

/// The page that sends a form. What a form is sent to may be no page.
pub(super) fn sender(headers: &HeaderMap) -> Option<Address> {
    let (_, rest) = headers.get(REFERER)?.to_str().ok()?.split_once("://")?;
    let (_, path) = rest.split_once('/')?;
    Some(Address::of(&format!("/{path}")))
}

/// A request without a session that is valid now: what its answer depends on.
struct Refused<'a> {
    language: Language,
    /// htmx has sent it.
    is_script: bool,
    /// The path that it was sent to.
    path: &'a str,
    /// The page to go back to.
    back: &'a str,
}

impl Refused<'_> {
    /// Sends a browser to the form to sign in, without the session that it may have, and from there
    /// back to the page. A page with a campaign file or a draft stays, and says what has happened:
    /// these are nowhere else.
    fn expelled(&self, console: &Shared, is_known: bool) -> Response {
        if live::is_stream(self.path) {
            return live::ended();
        }
        let ended = if is_known { "1" } else { "" };
        let back = if self.back == "/" { "" } else { self.back };
        let target = ui::address("/sign-in", &[("ended", ended), ("back", back)]);
        let target = target.as_str();
        let status = StatusCode::UNAUTHORIZED;
        let is_only_there = new::takes_file(self.path) || plan::takes_draft(self.path);
        let mut response = match self.is_script {
            true if is_only_there => note(self.path, status, &new::ended(self.language)),
            // htmx would put the form into the page.
            true => (status, [("hx-redirect", target)]).into_response(),
            false => Redirect::to(target).into_response(),
        };
        if is_known && let Ok(value) = console.sessions.end().parse() {
            response.headers_mut().append(SET_COOKIE, value);
        }
        response
    }

    /// Says that the keys that verify the session's token cannot be read now. The session stays.
    fn unverified(&self) -> Response {
        let text = html! { (self.language.t("away.keys")) };
        match self.is_script {
            true => note(self.path, StatusCode::SERVICE_UNAVAILABLE, &text),
            false => layout::unverified(self.language, self.back),
        }
    }

    /// Says that the server does not serve now.
    fn away(&self) -> Response {
        let text = html! { (self.language.t("live.unsent")) };
        match self.is_script {
            true => note(self.path, StatusCode::SERVICE_UNAVAILABLE, &text),
            false => layout::away(self.language),
        }
    }
}

/// A message that htmx puts into the page, which stays as it is. `path` is what the request was
/// sent to.
pub(super) fn note(path: &str, status: StatusCode, text: &Markup) -> Response {
    match path == new::CHECK {
        // The answer of a check is shown below the file.
        true => (status, ui::notice("bad", text)).into_response(),
        false => layout::note(status, text),
    }
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
        match &self.session.visitor {
            Visitor::Bearer(_) => String::new(),
            Visitor::Named(name) => name.as_str().to_owned(),
        }
    }

    /// Notes which page of which campaign is made.
    pub(super) fn is_of(&self, id: &str, campaign: &str, tab: &'static str) {
        let heading = Heading {
            id: id.into(),
            campaign: campaign.into(),
            tab,
        };
        self.heading.set(heading).ok(); // a page has one head
    }

    /// The title of a page. Those of a campaign name the page first and then the campaign; if the
    /// title that is given is the campaign's id, the page is that of its tab.
    fn title(&self, given: &str) -> String {
        match self.heading.get() {
            None => given.into(),
            Some(of) if of.id == given => format!("{} · {}", of.tab, of.campaign),
            Some(of) => format!("{given} · {}", of.campaign),
        }
    }

    /// A page with these contents, or one that says why there are none.
    pub(super) fn page(&self, place: Place, title: &str, contents: Contents) -> Response {
        let frame = |title: &str, contents: &Markup| {
            let frame = Frame {
                language: self.language,
                place,
                title,
                address: &self.address,
                visit: Some(self),
            };
            layout::page(&frame, contents)
        };
        match contents {
            Ok(contents) => frame(&self.title(title), &contents).into_response(),
            Err(status) => {
                let title = self.language.t("error.title");
                let contents = html! {
                    h1 { (title) }
                    (self.trouble(&status))
                    (layout::ways_back(self.language, &self.address, &self.path))
                };
                (http_status(&status), frame(title, &contents)).into_response()
            }
        }
    }

    /// Why something is not shown or not done: the reason in the visitor's language, and the
    /// service's own words.
    pub(super) fn trouble(&self, status: &Status) -> Markup {
        let lang = self.language;
        let reason = reason(status);
        if reason == "LEDGER_NOT_SETTLED" {
            return ui::notice("info", &html! { (lang.t("ledger.absent")) });
        }
        if is_halt(status) {
            return ui::notice(
                "bad",
                &html! {
                    strong { (lang.t("halt.title")) } " " (lang.t("halt.text")) " "
                    code { "tombola recover" } " " span lang="en" { (status.message()) }
                },
            );
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

/// Whether a part of the store is halted.
fn is_halt(status: &Status) -> bool {
    let info = status.get_details_error_info();
    info.is_some_and(|info| info.metadata.contains_key("halted"))
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
