//! The console: pages for operators in a browser.
//!
//! Pages call the services of [`crate::grpc`] within the process, with the credential of their
//! visitor, through the same gates as calls over the network. Nothing here reads a store or decides
//! who may do what: what a page offers, a service may refuse. Without `--console` nothing of this
//! runs.
//!
//! Pages work without scripts. Scripts add to them: htmx, which acts without loading a page again,
//! `live.js`, which keeps numbers fresh, and `plan.js`, which selects cells of the plan editor.

mod assets;
mod browser;
mod charts;
mod compute;
mod i18n;
mod layout;
mod live;
pub mod oidc;
mod pages;
mod server;
mod session;
mod sign_in;
mod ui;
mod upload;
mod visit;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{get, post},
};

use self::{i18n::Language, live::Feeds, session::Sessions, upload::UPLOAD_BYTES_MAX};
pub use self::{server::serve, session::Link};
use crate::{
    grpc::{local::Local, readiness::Readiness},
    proto::Alert,
    store::Durability,
    tls::ServerTls,
};

/// An alert in English, without its campaign.
pub(crate) fn alert_in_english(alert: &Alert) -> String {
    pages::alerts::text(Language::ENGLISH, alert)
}

/// What an acknowledged draw survives, in English.
pub(crate) fn durability_in_english(durability: Durability) -> &'static str {
    pages::system::keeps(Language::ENGLISH, durability)
}

/// The largest form, in bytes.
const FORM_BYTES_MAX: usize = 16 * 1024;
/// The largest form with the draft of a plan.
const DRAFT_BYTES_MAX: usize = 1024 * 1024;
/// The largest form with a campaign file. A file has at most 1 MiB, but in a form a byte of it can
/// take three, and the end of a line six.
const FILE_FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a console is made of.
#[derive(Debug)]
pub struct Settings {
    /// Where the services are called.
    pub local: Local,
    /// Whether the server knows identities. If it does not, everybody may do everything.
    pub is_policed: bool,
    /// The key of sessions, the same at all services of a store.
    pub key: [u8; 32],
    /// Whether the service does its work.
    pub readiness: Readiness,
    /// What the service does not say over its API.
    pub about: About,
    /// TLS, if browsers must speak it.
    pub tls: Option<Arc<ServerTls>>,
    /// Browsers come over TLS that ends before this server.
    pub is_behind_tls: bool,
    /// A link that signs in once.
    pub link: Option<Link>,
    /// The provider where people sign in, if there is one.
    pub oidc: Option<oidc::Settings>,
}

/// What the page of the system says of a service and its store.
#[derive(Clone, Debug)]
pub struct About {
    /// The store's id.
    pub store_id: String,
    /// Where it is.
    pub store: StoreKind,
    /// What an acknowledged draw survives.
    pub durability: Durability,
    /// How long before an hour its units are put in.
    pub lead: Duration,
}

/// Where a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In a directory of the service.
    Embedded,
    /// On one Redis server.
    Redis,
    /// On Redis whose master Sentinel knows.
    Sentinel,
    /// In a Redis cluster.
    Cluster,
}

/// What all requests share.
struct Console {
    local: Local,
    is_policed: bool,
    readiness: Readiness,
    about: About,
    has_tls: bool,
    /// Browsers come over TLS, which ends here or before this server.
    is_https: bool,
    sessions: Sessions,
    feeds: Feeds,
    link: Option<Link>,
    provider: Option<oidc::Provider>,
}

type Shared = Arc<Console>;

/// All addresses of the console.
fn routes(console: Shared) -> Router {
    use pages::lists::{Acts, Draws, Winners, Wins};
    use pages::{
        acts, alerts, campaign, change, codes, envelopes, export, forget, many, new, odds,
        overview, people, plan, proposals, records, schedule, search, system,
    };
    let uploads = DefaultBodyLimit::max(UPLOAD_BYTES_MAX);
    let drafts = DefaultBodyLimit::max(DRAFT_BYTES_MAX);
    let files = DefaultBodyLimit::max(FILE_FORM_BYTES_MAX);
    let campaigns = Router::new()
        .route("/", get(campaign::page))
        .route("/schedule", get(schedule::page))
        .route("/plan", get(plan::page).post(plan::submit).layer(drafts))
        .route("/edit", get(new::edit))
        .route("/odds", get(odds::page))
        .route("/history", get(records::page::<Acts>))
        .route("/draws", get(records::page::<Draws>))
        .route("/wins", get(records::page::<Wins>))
        .route("/history.csv", get(export::file::<Acts>))
        .route("/draws.csv", get(export::file::<Draws>))
        .route("/wins.csv", get(export::file::<Wins>))
        .route("/winners.csv", get(export::file::<Winners>))
        .route("/users", get(people::page))
        .route("/pause", post(acts::pause))
        .route("/resume", post(acts::resume))
        .route("/prizes/{prize}/pause", post(acts::pause_prize))
        .route("/prizes/{prize}/resume", post(acts::resume_prize))
        .route("/prizes/{prize}/stock", post(acts::raise_stock))
        .route("/change", get(change::page).post(change::check))
        .route("/change/apply", post(change::apply))
        .route("/close", post(change::close))
        .route("/recall", post(change::recall))
        .route("/many", get(many::page).post(many::submit).layer(uploads))
        .route("/codes", get(codes::page))
        .route("/codes/{prize}", post(codes::import).layer(uploads))
        .route("/proposals/{proposal}", get(proposals::page))
        .route("/proposals/{proposal}/approve", post(proposals::approve))
        .route("/proposals/{proposal}/reject", post(proposals::reject))
        .route("/users/grant", post(acts::grant))
        .route("/users/block", post(acts::block))
        .route("/users/unblock", post(acts::unblock))
        .route("/wins/deliver", post(acts::deliver))
        .route("/wins/revoke", post(acts::revoke));
    Router::new()
        .route("/", get(overview::page))
        .route("/alerts", get(alerts::page))
        .route("/search", get(search::page))
        .route("/new", get(new::page).post(new::submit).layer(files))
        .route(new::CHECK, post(new::check).layer(files))
        .route("/envelopes", get(envelopes::list))
        .route("/envelopes.csv", get(export::envelopes))
        .route("/envelopes/{envelope}", get(envelopes::page))
        .route("/envelopes/{envelope}/cancel", post(acts::cancel_envelope))
        .route("/history", get(records::everywhere))
        .route("/users/find", get(people::find))
        .route("/users/forget", get(forget::page).post(forget::submit))
        .route("/system", get(system::page))
        .route("/live/overview", get(live::overview))
        .route("/live/campaigns/{campaign}", get(live::campaign))
        .nest("/campaigns/{campaign}", campaigns)
        .route("/sign-in", get(sign_in::form).post(sign_in::submit))
        .route("/sign-in/{key}", get(sign_in::link))
        .route("/sign-in/oidc", get(oidc::begin))
        .route("/sign-in/oidc/callback", get(oidc::callback))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/language", post(sign_in::language))
        .fallback(pages::missing)
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .route("/assets/{name}", get(assets::asset))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&console),
            browser::guard,
        ))
        .with_state(console)
}
