//! What a client shows with its calls: the counterpart of the headers that [`super::bearer`] reads.

use std::net::IpAddr;

use tonic::{
    Request, Status,
    codegen::http::{HeaderMap, HeaderValue, header::AUTHORIZATION},
    metadata::{Ascii, MetadataValue},
    service::Interceptor,
    transport::Uri,
};

use super::{Secret, bearer::token_of};

/// The bearer token that is sent with every call, if there is one. `Debug` does not show it.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Option<MetadataValue<Ascii>>);

impl Credentials {
    /// The token in a text, the contents of a file for instance. White space around it is no part
    /// of it.
    ///
    /// # Errors
    /// What is wrong with the text, without repeating it.
    ///
    /// ```
    /// use tombola::grpc::access::Credentials;
    /// assert!(Credentials::of("tombola_abc\n").is_ok());
    /// assert!(Credentials::of("two words").is_err());
    /// ```
    pub fn of(text: &str) -> Result<Self, &'static str> {
        let token = Secret::new(text.trim());
        if token.expose().is_empty() {
            return Err("is empty: it has a token");
        }
        let no_token = "has characters that no token has, or is too long: it is one line of ASCII";
        let value = format!("Bearer {}", token.expose());
        let mut value = HeaderValue::try_from(value).map_err(|_| no_token)?;
        value.set_sensitive(true);
        // A server would refuse any other.
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value.clone())]);
        match token_of(&headers) {
            Ok(Some(found)) if found == token.expose() => {}
            _ => return Err(no_token),
        }
        let value = MetadataValue::try_from(value.as_bytes()).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        value.map(|value| Self(Some(value))).map_err(|_| no_token)
    }

    /// Whether nobody but the server can read a token that goes to this address: over TLS, or
    /// within this machine.
    pub fn may_go_to(uri: &Uri) -> bool {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let address: Option<IpAddr> = host.parse().ok();
        uri.scheme_str() == Some("https")
            || host == "localhost"
            || address.is_some_and(|address| address.to_canonical().is_loopback())
    }
}

/// Adds the token, if there is one, to a call.
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

    #[test]
    fn a_token_is_for_tls_and_for_this_machine() {
        for (url, is_safe) in [
            ("https://prizes.example:443", true),
            ("http://127.0.0.1:50051", true),
            ("http://[::1]:50051", true),
            ("http://localhost:50051", true),
            ("http://prizes.example:50051", false),
            ("http://127.0.0.1.prizes.example:50051", false),
            ("http://10.0.0.1:50051", false),
        ] {
            assert_eq!(
                Credentials::may_go_to(&url.parse().unwrap()),
                is_safe,
                "{url}"
            );
        }
    }

    #[test]
    fn what_no_server_would_take_for_a_token_is_refused_and_never_shown() {
        for bad in [
            "",
            " \n",
            "a\nb",
            "a b",
            "a,b",
            "\u{e9}",
            &"x".repeat(9_000),
        ] {
            let error = Credentials::of(bad).unwrap_err();
            assert!(error.contains("token"), "{error}");
        }
        let credentials = Credentials::of(" tombola_abc\r\n").unwrap();
        assert!(!format!("{credentials:?}").contains("abc"));
        let request = credentials.clone().call(Request::new(())).unwrap();
        let sent = request.metadata().get("authorization").unwrap();
        assert_eq!(sent.to_str().unwrap(), "Bearer tombola_abc");
        assert!(sent.is_sensitive());
    }
}
