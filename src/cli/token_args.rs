//! The bearer token of a command. It comes from a file or from a variable, never from an option:
//! options of a process can be read by everybody on its machine.

use std::{fs, net::IpAddr, path::PathBuf};

use clap::Args;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::Uri,
};

use super::{client::Outcome, failure::Failure};
use crate::grpc::access::Secret;

/// The variable that has a token.
const VARIABLE: &str = "TOMBOLA_TOKEN";

/// Where the token is.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TokenArgs {
    /// A file with the bearer token of this command; the variable TOMBOLA_TOKEN may have the token
    /// instead
    #[arg(
        long,
        global = true,
        env = "TOMBOLA_TOKEN_FILE",
        help_heading = "Server and answer",
        value_name = "FILE"
    )]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Whether there is a token.
    pub(super) fn is_given(&self) -> bool {
        self.token_file.is_some() || variable().is_some()
    }

    /// What a command shows to the server at `uri`.
    pub(super) fn credentials(&self, uri: &Uri, is_insecure: bool) -> Outcome<Credentials> {
        let Some(token) = self.read()? else {
            return Ok(Credentials(None));
        };
        if uri.scheme_str() != Some("https") && !is_insecure && !is_loopback(uri) {
            return Err(Failure::usage(format!(
                "the token would go to {uri} in plaintext, where others could read it: write \
                 https://HOST:PORT; if the network protects it (a mesh, a tunnel), say --insecure"
            )));
        }
        let header = format!("Bearer {}", token.expose());
        let mut header = MetadataValue::<Ascii>::try_from(header).map_err(|_| {
            Failure::usage("the token has characters that no token has: it is one line of ASCII")
        })?;
        header.set_sensitive(true);
        Ok(Credentials(Some(header)))
    }

    fn read(&self) -> Outcome<Option<Secret>> {
        let (name, text) = match &self.token_file {
            Some(file) => {
                let name = format!("--token-file {}", file.display());
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
                (name, text)
            }
            None => match variable() {
                Some(text) => (VARIABLE.to_owned(), text),
                None => return Ok(None),
            },
        };
        match text.trim() {
            "" => Err(Failure::usage(format!("{name} is empty: it has a token"))),
            token => Ok(Some(Secret::new(token))),
        }
    }
}

fn variable() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Whether an address is on this machine.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback())
}

/// Adds the token, if there is one, to every call.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials(Option<MetadataValue<Ascii>>);

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(header) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", header.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(token: &str) -> (tempfile::NamedTempFile, TokenArgs) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), token).unwrap();
        let token_file = Some(file.path().to_owned());
        (file, TokenArgs { token_file })
    }

    #[test]
    fn a_token_goes_over_tls_or_stays_on_this_machine_unless_that_is_asked_for() {
        let (_file, args) = args("tombola_abc\n");
        for (url, is_insecure, goes) in [
            ("https://prizes.example:443", false, true),
            ("http://127.0.0.1:50051", false, true),
            ("http://[::1]:50051", false, true),
            ("http://localhost:50051", false, true),
            ("http://prizes.example:50051", false, false),
            ("http://127.0.0.1.prizes.example:50051", false, false),
            ("http://10.0.0.1:50051", false, false),
            ("http://10.0.0.1:50051", true, true),
        ] {
            let credentials = args.credentials(&url.parse().unwrap(), is_insecure);
            assert_eq!(credentials.is_ok(), goes, "{url}");
            let shown = format!("{credentials:?}");
            assert!(!shown.contains("abc"), "{shown}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let url: Uri = "http://127.0.0.1:1".parse().unwrap();
        for bad in ["", " \n", "a\nb"] {
            let (_file, args) = args(bad);
            assert!(args.credentials(&url, false).is_err(), "{bad:?}");
        }
    }
}
