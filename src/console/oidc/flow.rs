//! A sign-in that is under way, and what the ID token that ends it must say.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::grpc::access::{Secret, TokenHash};

/// How far the clocks of the provider and of this service may differ, in seconds.
const LEEWAY_S: i64 = 60;

/// What is made anew for each sign-in.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Fresh {
    /// What the provider gives back: the answer belongs to this browser.
    pub(super) state: String,
    /// What the token has to have: it was made for this sign-in.
    pub(super) nonce: String,
    /// What proves that who brings the code has asked for it (RFC 7636).
    pub(super) verifier: String,
}

/// A sign-in under way, as the browser keeps it, encrypted.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Flow {
    #[serde(flatten)]
    pub(super) fresh: Fresh,
    /// The page to go back to.
    pub(super) back: String,
    /// The visitor's language: the browser does not send that cookie with the answer.
    pub(super) language: String,
}

impl Flow {
    /// Whether an answer with this state belongs to it. How long that takes says nothing of the
    /// state: it compares digests.
    pub(super) fn has_state(&self, state: &str) -> bool {
        TokenHash::of(state) == TokenHash::of(&self.fresh.state)
    }
}

/// The claims of a token. What verifies them is [`crate::grpc::local::Local::identity`].
pub(in crate::console) struct Claims(Value);

/// Why a token, although it is verified, signs nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Issuer,
    Audience,
    Nonce,
    /// It is from the future.
    Clock,
}

impl Claims {
    /// The claims of a token; none if it is no JSON Web Token.
    pub(in crate::console) fn of(token: &Secret) -> Option<Self> {
        let part = token.expose().split('.').nth(1)?;
        let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice(&bytes).ok().map(Self)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// When the token ends, since 1970.
    pub(in crate::console) fn end(&self) -> Option<Duration> {
        let end_s = self.0.get("exp")?.as_f64()?;
        Duration::try_from_secs_f64(end_s).ok()
    }

    /// Whom it names, for the file of identities: claims and their values.
    pub(super) fn names(&self) -> Vec<(&'static str, &str)> {
        let names = ["iss", "sub", "email"];
        let names = names.map(|name| Some((name, self.text(name)?)));
        names.into_iter().flatten().collect()
    }

    /// Checks what a sign-in asks for (OpenID Connect Core 1.0, section 3.1.3.7).
    pub(super) fn check(
        &self,
        (issuer, client_id): (&str, &str),
        nonce: &str,
        now: Duration,
    ) -> Result<(), Wrong> {
        if self.text("iss") != Some(issuer) {
            return Err(Wrong::Issuer);
        }
        let is_for_us = match &self.0["aud"] {
            Value::Array(all) if all.len() > 1 => {
                let is_named = all.iter().any(|one| one.as_str() == Some(client_id));
                is_named && self.text("azp") == Some(client_id)
            }
            Value::Array(all) => all.iter().any(|one| one.as_str() == Some(client_id)),
            one => one.as_str() == Some(client_id),
        };
        if !is_for_us || self.text("azp").is_some_and(|party| party != client_id) {
            return Err(Wrong::Audience);
        }
        if self.text("nonce") != Some(nonce) {
            return Err(Wrong::Nonce);
        }
        let made_s = self.0["iat"].as_f64().unwrap_or_default();
        if made_s > now.as_secs_f64() + LEEWAY_S as f64 {
            return Err(Wrong::Clock);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_must_be_of_this_issuer_for_this_console_and_this_sign_in() {
        let good = json!({"iss": "https://id.example", "aud": "console", "nonce": "n", "iat": 100});
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            let now = Duration::from_secs(100);
            Claims(claims).check(("https://id.example", "console"), "n", now)
        };
        assert_eq!(with("sub", json!("olga")), Ok(()));
        assert_eq!(with("aud", json!(["console"])), Ok(()));
        assert_eq!(with("azp", json!("console")), Ok(()));
        assert_eq!(with("iat", json!(160)), Ok(()));
        for (name, value, wrong) in [
            ("iss", json!("https://id.example/"), Wrong::Issuer),
            ("iss", Value::Null, Wrong::Issuer),
            ("aud", json!("shop"), Wrong::Audience),
            ("aud", json!(["shop"]), Wrong::Audience),
            ("aud", json!(["console", "shop"]), Wrong::Audience),
            ("azp", json!("shop"), Wrong::Audience),
            ("nonce", json!("m"), Wrong::Nonce),
            ("nonce", Value::Null, Wrong::Nonce),
            ("iat", json!(161), Wrong::Clock),
        ] {
            assert_eq!(with(name, value.clone()), Err(wrong), "{name}: {value}");
        }
    }
}
