//! Connections to a server's services, for all calls except those of the load.

use std::{sync::OnceLock, time::Duration};

use tombola::proto::{
    campaign_service_client::CampaignServiceClient, lottery_service_client::LotteryServiceClient,
};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Uri};

use crate::failure::{Failure, Outcome};

/// A client of `CampaignService`.
pub(crate) type Campaigns = CampaignServiceClient<Channel>;
/// A client of `LotteryService`.
pub(crate) type Lottery = LotteryServiceClient<Channel>;

const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the `CampaignService` at a URL.
pub(crate) async fn operators(url: &str) -> Outcome<Campaigns> {
    Ok(CampaignServiceClient::new(connect(url).await?))
}

/// Connects to the `LotteryService` at a URL.
pub(crate) async fn lottery(url: &str) -> Outcome<Lottery> {
    Ok(LotteryServiceClient::new(connect(url).await?))
}

/// TLS of all connections to a service that `--server` names with `https://`.
static TLS: OnceLock<ClientTlsConfig> = OnceLock::new();

/// Sets how services are spoken to over TLS; the first setting counts.
pub(crate) fn speak_tls(config: ClientTlsConfig) {
    TLS.get_or_init(|| config);
}

/// An endpoint of a URL, with TLS if it is `https://`.
pub(crate) fn endpoint(url: &str) -> Result<Endpoint, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?;
    match TLS.get() {
        Some(tls) if url.starts_with("https://") => endpoint.tls_config(tls.clone()),
        _ => Ok(endpoint),
    }
}

async fn connect(url: &str) -> Outcome<Channel> {
    let endpoint =
        endpoint(url).map_err(|error| Failure::usage(format!("--server {url}: {error}")))?;
    endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        .connect()
        .await
        .map_err(|error| Failure::no_server(url, &error))
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
