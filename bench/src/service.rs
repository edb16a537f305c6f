//! Connections to a server's services, for all calls except those of the load.

use std::{fmt, time::Duration};

use tombola::{
    grpc::access::Credentials,
    proto::{
        campaign_service_client::CampaignServiceClient,
        lottery_service_client::LotteryServiceClient,
    },
};
use tonic::{service::interceptor::InterceptedService, transport::Uri};

use crate::{
    failure::{Failure, Fault, Outcome},
    link::Link,
    tls::Tls,
};

/// A connection that shows the token of its address, if there is one, with every call.
pub(crate) type TokenLink = InterceptedService<Link, Credentials>;
/// A client of `CampaignService`.
pub(crate) type Campaigns = CampaignServiceClient<TokenLink>;
/// A client of `LotteryService`.
pub(crate) type Lottery = LotteryServiceClient<TokenLink>;

const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server: its URL, and what its callers need and show.
#[derive(Clone, Default)]
pub(crate) struct Address {
    pub(crate) url: String,
    tls: Option<Tls>,
    credentials: Credentials,
}

/// Keys are not shown.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.url, f)
    }
}

impl Address {
    /// A server with TLS if the URL is `https://`.
    pub(crate) fn new(url: String, tls: Option<Tls>, credentials: Credentials) -> Self {
        Self {
            url,
            tls,
            credentials,
        }
    }

    /// A server in plaintext, without identities.
    pub(crate) fn plain(url: String) -> Self {
        Self {
            url,
            ..Self::default()
        }
    }

    /// Connects to it within a time, for calls that show the token.
    ///
    /// # Errors
    /// What went wrong, without the URL.
    pub(crate) async fn link(&self, within: Duration) -> Result<TokenLink, Fault> {
        let link = Link::connect(&self.url, self.tls.as_ref(), within).await?;
        Ok(InterceptedService::new(link, self.credentials.clone()))
    }

    /// Connects to the `CampaignService`.
    pub(crate) async fn operators(&self) -> Outcome<Campaigns> {
        Ok(CampaignServiceClient::new(self.connect().await?))
    }

    /// Connects to the `LotteryService`.
    pub(crate) async fn lottery(&self) -> Outcome<Lottery> {
        Ok(LotteryServiceClient::new(self.connect().await?))
    }

    async fn connect(&self) -> Outcome<TokenLink> {
        let link = Link::connect(&self.url, self.tls.as_ref(), CONNECT_TIMEOUT).await;
        let link = link.map_err(|fault| Failure::no_server(&self.url, &*fault))?;
        let link = link.with_time_max(CALL_TIMEOUT);
        Ok(InterceptedService::new(link, self.credentials.clone()))
    }
}

/// The URL that `--server` means. A missing scheme is added; any other mistake is explained.
pub(crate) fn server_url(server: &str) -> Result<String, String> {
    const FORM: &str = "an address is http://HOST:PORT, or https://HOST:PORT with TLS, e.g. \
                        http://127.0.0.1:50051";
    let url = match server.split_once("://") {
        None => format!("http://{server}"),
        Some(("http" | "https", _)) => server.to_owned(),
        Some(_) => return Err(FORM.into()),
    };
    match url.parse::<Uri>() {
        Ok(uri) if names_a_host(&uri) => Ok(url),
        Ok(_) => Err(FORM.into()),
        Err(error) => Err(format!("{error}; {FORM}")),
    }
}

/// Whether it has a host, and a valid port if it has one.
fn names_a_host(uri: &Uri) -> bool {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    let port_is_good = !after_host.contains(':') || uri.port_u16().is_some();
    uri.host().is_some_and(|host| !host.is_empty()) && port_is_good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_scheme_gets_one_and_a_bad_one_is_explained() {
        let url = |server| server_url(server).unwrap();
        assert_eq!(url("localhost:50051"), "http://localhost:50051");
        assert_eq!(url("http://[::1]:50051"), "http://[::1]:50051");
        assert_eq!(url("https://host:1"), "https://host:1");
        for bad in [
            "",
            "http://",
            "ftp://host:1",
            "a b",
            "host:port",
            "https://",
        ] {
            let error = server_url(bad).unwrap_err();
            assert!(error.contains("http://127.0.0.1:50051"), "{bad}: {error}");
        }
    }
}
