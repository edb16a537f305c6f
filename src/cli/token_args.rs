//! The bearer token of a command. It comes from a file or from a variable, never from an option:
//! options of a process can be read by everybody on its machine.

use std::{fs, path::PathBuf};

use clap::Args;
use tonic::transport::Uri;

use super::{client::Outcome, failure::Failure};
use crate::grpc::access::Credentials;

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
        let Some(credentials) = self.read()? else {
            return Ok(Credentials::default());
        };
        if !is_insecure && !Credentials::may_go_to(uri) {
            return Err(Failure::usage(format!(
                "the token would go to {uri} in plaintext, where others could read it: write \
                 https://HOST:PORT; if the network protects it (a mesh, a tunnel), say --insecure"
            )));
        }
        Ok(credentials)
    }

    fn read(&self) -> Outcome<Option<Credentials>> {
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
        let credentials = Credentials::of(&text);
        credentials
            .map(Some)
            .map_err(|problem| Failure::usage(format!("{name} {problem}")))
    }
}

fn variable() -> Option<String> {
    std::env::var(VARIABLE).ok()
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
            ("http://10.0.0.1:50051", false, false),
            ("http://10.0.0.1:50051", true, true),
        ] {
            let credentials = args.credentials(&url.parse().unwrap(), is_insecure);
            assert_eq!(credentials.is_ok(), goes, "{url}");
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let url: Uri = "http://127.0.0.1:1".parse().unwrap();
        for bad in ["", " \n", "a\nb"] {
            let (_file, args) = args(bad);
            let failure = args.credentials(&url, false).unwrap_err();
            assert!(
                failure.to_string().contains("--token-file"),
                "{bad:?}: {failure}"
            );
        }
    }
}
