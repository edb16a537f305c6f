//! The option of the console.

use clap::Args;
use tokio::{net::TcpListener, task::JoinSet};
use tracing::{error, info};

use super::{
    exposure::{self, Exposed, Guards},
    listen::{BindError, Listen},
    oidc_args::OidcArgs,
};
use crate::console::{self, Settings};

#[derive(Args, Clone, Debug)]
pub(super) struct ConsoleArgs {
    /// The address of the console, pages for operators in a browser. None unless named. It speaks
    /// TLS if the server does
    #[arg(long, env = "TOMBOLA_CONSOLE", value_name = "HOST:PORT")]
    console: Option<Listen>,
    #[command(flatten)]
    pub(super) oidc: OidcArgs,
}

impl ConsoleArgs {
    /// Binds the console's port, if one is named.
    pub(super) async fn bind(&self) -> Result<Option<TcpListener>, BindError> {
        match &self.console {
            Some(address) => address.bind("--console").await.map(Some),
            None => Ok(None),
        }
    }
}

/// Refuses a console that other machines reach without TLS or identities, unless that is asked for.
pub(super) fn check(
    listener: Option<&TcpListener>,
    guards: Guards,
    is_insecure: bool,
) -> Result<(), Exposed> {
    listener.map_or(Ok(()), |listener| {
        exposure::check("--console", listener, guards, is_insecure)
    })
}

/// Serves the console until the value is dropped.
pub(super) fn serve(listener: TcpListener, settings: Settings) -> JoinSet<()> {
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    if let Ok(address) = listener.local_addr() {
        info!(%address, "console on {scheme}://{address}/");
    }
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        if let Err(error) = console::serve(listener, settings).await {
            error!(%error, "nothing answers on the console's port");
        }
    });
    serving
}
