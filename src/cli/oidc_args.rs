//! The options of the server that say where people sign in at the console.

use std::{fs, path::PathBuf};

use clap::Args;
use tonic::transport::Uri;

use crate::{
    console::oidc::{Settings, is_safe},
    grpc::access::Secret,
    model::Problems,
};

/// The variable that has the client's secret.
const VARIABLE: &str = "TOMBOLA_CONSOLE_OIDC_SECRET";

/// What a URL lacks that is none of these.
const PLAIN: &str = "is no https:// URL: http:// is for the loopback interface only, and a URL has \
                     neither a query nor a fragment";

fn is_plain(uri: &Uri) -> bool {
    is_safe(uri) && uri.query().is_none()
}

/// Where people sign in at the console.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sign-in at the console by OpenID Connect")]
pub(super) struct OidcArgs {
    /// The identity provider: the URL that its tokens have as `iss`, and that the access file has
    /// as an issuer
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_OIDC_ISSUER",
        value_name = "URL",
        requires_all = ["console", "console_oidc_client_id", "console_url"]
    )]
    console_oidc_issuer: Option<String>,
    /// As whom the provider knows the console; the access file has it as the issuer's `audience`
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_OIDC_CLIENT_ID",
        value_name = "ID",
        requires = "console_oidc_issuer"
    )]
    console_oidc_client_id: Option<String>,
    /// A file with the client's secret; the variable TOMBOLA_CONSOLE_OIDC_SECRET may have the
    /// secret instead. None for a public client
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_OIDC_SECRET_FILE",
        value_name = "FILE",
        requires = "console_oidc_issuer"
    )]
    console_oidc_secret_file: Option<PathBuf>,
    /// Where browsers reach the console, such as `https://console.example`, where a proxy may speak
    /// TLS for it. A provider sends people back to URL/sign-in/oidc/callback
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_URL",
        value_name = "URL",
        requires = "console"
    )]
    console_url: Option<String>,
    /// A file with authorities of the provider's certificate; the system's unless named
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_OIDC_CA",
        value_name = "FILE",
        requires = "console_oidc_issuer"
    )]
    console_oidc_ca: Option<PathBuf>,
    /// What to ask the provider for besides `openid`, such as a claim that names the identity
    #[arg(
        long,
        env = "TOMBOLA_CONSOLE_OIDC_SCOPES",
        value_name = "SCOPE,...",
        value_delimiter = ',',
        default_value = "email",
        requires = "console_oidc_issuer"
    )]
    console_oidc_scopes: Vec<String>,
}

impl OidcArgs {
    /// What the options say, if they name a provider.
    pub(super) fn settings(&self, is_policed: bool, problems: &mut Problems) -> Option<Settings> {
        let issuer = self.console_oidc_issuer.clone()?;
        if !is_policed {
            let text = "whoever signs in must be in an access file: name one with --access";
            problems.add("--console-oidc-issuer", text);
        }
        if issuer.contains('#') || !issuer.parse().is_ok_and(|uri| is_plain(&uri)) {
            problems.add("--console-oidc-issuer", format!("`{issuer}` {PLAIN}"));
        }
        Some(Settings {
            issuer,
            client_id: self.console_oidc_client_id.clone().unwrap_or_default(),
            secret: self.secret(problems),
            url: self.url().unwrap_or_default(),
            ca_file: self.console_oidc_ca.clone(),
            scopes: self.console_oidc_scopes.clone(),
        })
    }

    /// Checks where browsers reach the console, and says whether they come over TLS.
    pub(super) fn is_https(&self, problems: &mut Problems) -> bool {
        let Some(url) = self.url() else { return false };
        let has_no_path = |uri: &Uri| is_plain(uri) && uri.path() == "/";
        if url.contains('#') || !url.parse().is_ok_and(|uri| has_no_path(&uri)) {
            let text = format!("`{url}` {PLAIN}; the console's has no path either");
            problems.add("--console-url", text);
        }
        url.starts_with("https:")
    }

    fn url(&self) -> Option<String> {
        let url = self.console_url.as_deref()?;
        Some(url.strip_suffix('/').unwrap_or(url).to_owned())
    }

    fn secret(&self, problems: &mut Problems) -> Option<Secret> {
        let (name, text) = match &self.console_oidc_secret_file {
            Some(file) => {
                let name = "--console-oidc-secret-file";
                match fs::read_to_string(file) {
                    Ok(text) => (name, text),
                    Err(error) => {
                        let file = file.display();
                        problems.add(name, format!("{file} cannot be read: {error}"));
                        return None;
                    }
                }
            }
            None => (VARIABLE, std::env::var(VARIABLE).ok()?),
        };
        let text = text.trim();
        if text.is_empty() {
            problems.add(name, "has no secret");
        }
        Some(Secret::new(text))
    }
}
