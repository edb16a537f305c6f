//! The token that the load shows to a running server.

use std::{fs, path::PathBuf};

use clap::Args;
use tombola::grpc::access::Credentials;
use tonic::transport::Uri;

use crate::failure::{Failure, Outcome};

/// The variable that has a token.
const VARIABLE: &str = "TOMBOLA_BENCH_TOKEN";

#[derive(Args, Clone, Debug)]
pub(crate) struct TokenArgs {
    /// A file with the bearer token for --server; the variable TOMBOLA_BENCH_TOKEN may have the
    /// token instead
    #[arg(
        long,
        env = "TOMBOLA_BENCH_TOKEN_FILE",
        value_name = "FILE",
        requires = "server"
    )]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// What the load shows to the server at a URL.
    pub(crate) fn credentials(&self, url: &str) -> Outcome<Credentials> {
        let Some(credentials) = self.read()? else {
            return Ok(Credentials::default());
        };
        let uri: Result<Uri, _> = url.parse();
        if uri.is_ok_and(|uri| Credentials::may_go_to(&uri)) {
            return Ok(credentials);
        }
        Err(Failure::usage(format!(
            "the token would go to {url} in plaintext, where others could read it: write \
             https://HOST:PORT"
        )))
    }

    fn read(&self) -> Outcome<Option<Credentials>> {
        let (name, text) = match &self.token_file {
            Some(file) => {
                let name = format!("--token-file {}", file.display());
                let text = fs::read_to_string(file)
                    .map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
                (name, text)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (VARIABLE.to_owned(), text),
                Err(_) => return Ok(None),
            },
        };
        let credentials = Credentials::of(&text);
        credentials
            .map(Some)
            .map_err(|problem| Failure::usage(format!("{name} {problem}")))
    }
}
