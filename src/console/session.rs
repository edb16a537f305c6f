//! Sessions: a cookie with the visitor's credential, encrypted. No service keeps anything of it, so
//! it is valid at every service of the store.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::{HeaderMap, header::COOKIE};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::oidc::Claims;
use crate::{
    grpc::access::{Secret, TokenHash},
    model::{Moment, OperatorId},
};

/// How long a session lasts at most.
const TIME_MAX: Duration = Duration::from_secs(8 * 60 * 60);
/// What the cipher binds to the text.
const PURPOSE: &[u8] = b"tombola console session 1";
/// The same for the time of the last visit.
const VISIT_PURPOSE: &[u8] = b"tombola console visit 1";
/// The cookie with the time of the last visit, and how long it is kept.
const VISIT_COOKIE: &str = "tombola-visit";
const VISIT_TIME_MAX_S: u64 = 90 * 24 * 60 * 60;
/// The same for a sign-in at a provider that is under way, and how long it may take.
const FLOW_PURPOSE: &[u8] = b"tombola console sign-in 1";
const FLOW_TIME_MAX: Duration = Duration::from_secs(10 * 60);
/// The longest cookie that every browser keeps, less name and attributes.
const COOKIE_BYTES_MAX: usize = 3_800;
/// Random bytes of a link.
const LINK_BYTES: usize = 32;

/// Who visits.
#[derive(Clone, Debug)]
pub(super) enum Visitor {
    /// Who has this token.
    Bearer(Secret),
    /// Who gives this name, at a server that knows no identities.
    Named(OperatorId),
}

/// A session, as its cookie has it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) visitor: Visitor,
    /// When it began.
    pub(super) begun: Moment,
    /// Until when it lasts, since 1970.
    pub(super) until: Duration,
}

impl Session {
    /// Whether it began at this moment or later. Sessions that began before are over. Without a
    /// moment, all are valid.
    pub(super) fn has_begun_since(&self, sessions_from: Option<Moment>) -> bool {
        sessions_from.is_none_or(|from| from <= self.begun)
    }
}

/// What a cookie holds.
#[derive(Serialize, Deserialize)]
struct Contents {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// When the session began. It may be missing in cookies of earlier versions.
    since_s: Option<u64>,
    until_s: u64,
}

/// What the cookie of the last visit holds. A visit is a session: it has the same end.
#[derive(Serialize, Deserialize)]
struct Visited {
    name: String,
    /// When the session ends.
    until_s: u64,
    /// When the visitor was last here, in this session and in the one before.
    seen_s: i64,
    last_s: Option<i64>,
}

/// What the cookie of a sign-in under way holds.
#[derive(Serialize, Deserialize)]
struct Held<T> {
    until_s: u64,
    held: T,
}

/// Makes and reads cookies.
pub(super) struct Sessions {
    key: LessSafeKey,
    cookie: &'static str,
    /// The cookie of a sign-in at a provider that is under way.
    flow_cookie: &'static str,
    attributes: String,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Sessions under a key. Over TLS their cookie never leaves it.
    pub(super) fn new(key: &[u8; 32], has_tls: bool) -> Option<Self> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key).ok()?;
        let (cookie, flow_cookie, secure) = match has_tls {
            true => ("__Host-tombola", "__Host-tombola-sign-in", "; Secure"),
            false => ("tombola", "tombola-sign-in", ""),
        };
        Some(Self {
            key: LessSafeKey::new(key),
            cookie,
            flow_cookie,
            attributes: format!("Path=/; HttpOnly; SameSite=Strict{secure}"),
        })
    }

    /// The header that begins a session; none if its credential is too long for a cookie.
    pub(super) fn begin(&self, visitor: &Visitor) -> Option<String> {
        let (token, name) = match visitor {
            Visitor::Bearer(token) => (Some(token.expose().to_owned()), None),
            Visitor::Named(name) => (None, Some(name.as_str().to_owned())),
        };
        let end = match visitor {
            Visitor::Bearer(token) => Claims::of(token).and_then(|claims| claims.end()),
            Visitor::Named(_) => None,
        };
        let now = now();
        let longest = now + TIME_MAX;
        let until = end.map_or(longest, |end| end.min(longest));
        let age_s = until.saturating_sub(now).as_secs().max(1);
        let until_s = until.as_secs();
        let contents = Contents {
            token,
            name,
            since_s: Some(now.as_secs()),
            until_s,
        };
        let sealed = self.seal(PURPOSE, serde_json::to_vec(&contents).ok()?)?;
        let is_kept = sealed.len() <= COOKIE_BYTES_MAX;
        let (name, attributes) = (self.cookie, &self.attributes);
        is_kept.then(|| format!("{name}={sealed}; Max-Age={age_s}; {attributes}"))
    }

    /// The header that ends the session of a browser.
    pub(super) fn end(&self) -> String {
        format!("{}=; Max-Age=0; {}", self.cookie, self.attributes)
    }

    /// The session of a request that has its cookie, unless it has ended.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Session> {
        let sealed = cookie(headers, self.cookie)?;
        let contents: Contents = serde_json::from_slice(&self.open(PURPOSE, sealed)?).ok()?;
        let until = Duration::from_secs(contents.until_s);
        let visitor = match (contents.token, contents.name) {
            (Some(token), _) => Visitor::Bearer(Secret::new(token)),
            (None, name) => Visitor::Named(OperatorId::parse("name", &name?).ok()?),
        };
        let earliest_s = contents.until_s.saturating_sub(TIME_MAX.as_secs());
        let since_s = contents.since_s.unwrap_or(earliest_s);
        let begun = Moment::from_micros(i64::try_from(since_s).ok()?.checked_mul(1_000_000)?);
        (now() < until).then_some(Session {
            visitor,
            begun,
            until,
        })
    }

    /// Notes that a visitor is here at a moment, in the session that ends then: when the last
    /// session was used, and the header that notes it.
    pub(super) fn visit(
        &self,
        headers: &HeaderMap,
        name: &str,
        until: Duration,
        now_s: i64,
    ) -> Option<(Option<i64>, String)> {
        let until_s = until.as_secs();
        let known = cookie(headers, VISIT_COOKIE);
        let known = known.and_then(|sealed| self.open(VISIT_PURPOSE, sealed));
        let known = known.and_then(|text| serde_json::from_slice::<Visited>(&text).ok());
        let known = known.filter(|known| known.name == name);
        let last_s = match known {
            None => None,
            Some(known) if known.until_s == until_s => known.last_s,
            Some(known) => Some(known.seen_s),
        };
        let visited = Visited {
            name: name.into(),
            until_s,
            seen_s: now_s,
            last_s,
        };
        let sealed = self.seal(VISIT_PURPOSE, serde_json::to_vec(&visited).ok()?)?;
        let attributes = &self.attributes;
        let header = format!("{VISIT_COOKIE}={sealed}; Max-Age={VISIT_TIME_MAX_S}; {attributes}");
        Some((last_s, header))
    }

    /// The header that keeps what a sign-in at a provider needs; none if that is too long for a
    /// cookie. The browser has to send it when it comes from another site.
    pub(super) fn hold<T: Serialize>(&self, held: &T) -> Option<String> {
        let until_s = (now() + FLOW_TIME_MAX).as_secs();
        let contents = serde_json::to_vec(&Held { until_s, held }).ok()?;
        let sealed = self.seal(FLOW_PURPOSE, contents)?;
        let is_kept = sealed.len() <= COOKIE_BYTES_MAX;
        is_kept.then(|| self.flow_header(&sealed, FLOW_TIME_MAX))
    }

    /// What a sign-in at a provider needs, unless it took too long.
    pub(super) fn held<T: DeserializeOwned>(&self, headers: &HeaderMap) -> Option<T> {
        let sealed = cookie(headers, self.flow_cookie)?;
        let text = self.open(FLOW_PURPOSE, sealed)?;
        let contents: Held<T> = serde_json::from_slice(&text).ok()?;
        (now() < Duration::from_secs(contents.until_s)).then_some(contents.held)
    }

    /// The header that ends a sign-in at a provider.
    pub(super) fn release(&self) -> String {
        self.flow_header("", Duration::ZERO)
    }

    fn flow_header(&self, sealed: &str, age: Duration) -> String {
        let (name, age_s) = (self.flow_cookie, age.as_secs());
        let attributes = self.attributes.replace("SameSite=Strict", "SameSite=Lax");
        format!("{name}={sealed}; Max-Age={age_s}; {attributes}")
    }

    fn seal(&self, purpose: &[u8], mut text: Vec<u8>) -> Option<String> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let unique = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .key
            .seal_in_place_append_tag(unique, Aad::from(purpose), &mut text);
        sealed.ok()?;
        Some(URL_SAFE_NO_PAD.encode([&nonce[..], &text].concat()))
    }

    fn open(&self, purpose: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, text) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(purpose), &mut text);
        opened.ok().map(|text| text.to_vec())
    }
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(COOKIE).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut cookies = texts.flat_map(|text| text.split(';'));
    cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

/// How long the session still lasts.
pub(super) fn remaining(until: Duration) -> Duration {
    until.saturating_sub(now())
}

/// The time of this machine, since 1970.
pub(super) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A link that signs in once, in this process.
pub struct Link {
    key: Secret,
    name: OperatorId,
    is_used: AtomicBool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    /// A link for an operator of this name.
    pub fn new(name: OperatorId) -> Self {
        let bytes: [u8; LINK_BYTES] = rand::random();
        Self {
            key: Secret::new(URL_SAFE_NO_PAD.encode(bytes)),
            name,
            is_used: AtomicBool::new(false),
        }
    }

    /// Its path.
    pub fn path(&self) -> String {
        format!("/sign-in/{}", self.key.expose())
    }

    /// Who it signs in, if it is this one and was never used.
    pub(super) fn redeem(&self, key: &str) -> Option<OperatorId> {
        // How long the comparison takes says nothing of the key: it compares digests.
        let is_it = TokenHash::of(key) == TokenHash::of(self.key.expose());
        let is_new = is_it && !self.is_used.swap(true, Ordering::Relaxed);
        is_new.then(|| self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        let value = HeaderValue::from_str(cookie).unwrap();
        HeaderMap::from_iter([(COOKIE, value)])
    }

    fn value(header: &str) -> &str {
        header.split(';').next().unwrap()
    }

    #[test]
    fn a_cookie_is_read_under_its_key_and_under_no_other() {
        let sessions = Sessions::new(&[7; 32], false).unwrap();
        let set = sessions
            .begin(&Visitor::Bearer(Secret::new("tombola_abc")))
            .unwrap();
        assert!(set.ends_with("Max-Age=28800; Path=/; HttpOnly; SameSite=Strict"));
        assert!(!set.contains("tombola_abc"));
        let cookies = format!("other=1; {}", value(&set));
        let session = sessions.of(&headers(&cookies)).expect("a session");
        let Visitor::Bearer(token) = session.visitor else {
            panic!("not read");
        };
        let age_s = now().as_secs() - u64::try_from(session.begun.as_seconds()).unwrap();
        assert!(age_s < 60, "{age_s}");
        assert_eq!(token.expose(), "tombola_abc");
        let other = Sessions::new(&[8; 32], false).unwrap();
        assert!(other.of(&headers(&cookies)).is_none());
        let forged = cookies.replace("tombola=", "tombola=A");
        assert!(sessions.of(&headers(&forged)).is_none());
        assert!(sessions.of(&headers("tombola=")).is_none());
    }

    #[test]
    fn a_session_ends_and_its_cookie_stays_in_tls() {
        let sessions = Sessions::new(&[7; 32], true).unwrap();
        let contents = br#"{"name":"olga","until_s":1}"#.to_vec();
        let old = sessions.seal(PURPOSE, contents).unwrap();
        assert!(
            sessions
                .of(&headers(&format!("__Host-tombola={old}")))
                .is_none()
        );
        let name = OperatorId::parse("name", "olga").unwrap();
        let set = sessions.begin(&Visitor::Named(name)).unwrap();
        assert!(
            set.starts_with("__Host-tombola=") && set.ends_with("; Secure"),
            "{set}"
        );
        assert!(sessions.of(&headers(value(&set))).is_some());
        let long = Secret::new("x".repeat(4_000));
        assert!(sessions.begin(&Visitor::Bearer(long)).is_none());
    }

    #[test]
    fn a_cookie_without_its_begin_began_as_early_as_it_can_have() {
        let sessions = Sessions::new(&[7; 32], false).unwrap();
        let until_s = now().as_secs() + 60;
        let contents = format!(r#"{{"name":"olga","until_s":{until_s}}}"#);
        let sealed = sessions.seal(PURPOSE, contents.into_bytes()).unwrap();
        let session = sessions.of(&headers(&format!("tombola={sealed}"))).unwrap();
        let age_s = until_s - u64::try_from(session.begun.as_seconds()).unwrap();
        assert_eq!(age_s, TIME_MAX.as_secs());
    }

    #[test]
    fn a_visit_is_a_session_and_knows_the_one_before() {
        let sessions = Sessions::new(&[7; 32], false).unwrap();
        let mut cookies = String::from("other=1");
        let mut visit = |name: &str, until_s, now_s| {
            let until = Duration::from_secs(until_s);
            let noted = sessions.visit(&headers(&cookies), name, until, now_s);
            let (last_s, header) = noted.unwrap();
            cookies = value(&header).to_owned();
            last_s
        };
        assert_eq!(visit("olga", 900, 100), None);
        assert_eq!(visit("olga", 900, 150), None);
        assert_eq!(visit("olga", 1_900, 1_000), Some(150));
        assert_eq!(visit("olga", 1_900, 1_700), Some(150));
        assert_eq!(visit("olga", 2_900, 2_000), Some(1_700));
        // Somebody else at the same browser.
        assert_eq!(visit("igor", 3_900, 3_000), None);
        // It is no session.
        let forged = cookies.replace(VISIT_COOKIE, "tombola");
        assert!(sessions.of(&headers(&forged)).is_none());
    }

    #[test]
    fn a_link_signs_in_once() {
        let link = Link::new(OperatorId::parse("name", "demo").unwrap());
        let key = link.path().split_off("/sign-in/".len());
        assert!(link.redeem("").is_none() && link.redeem(&key[1..]).is_none());
        assert!(link.redeem(&key).is_some());
        assert!(link.redeem(&key).is_none());
    }
}
