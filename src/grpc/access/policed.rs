//! A policy at work: read again when its file changes, with the keys of issuers, the limiters and
//! the tokens that were verified.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use thiserror::Error;
use tokio::{task::JoinSet, time::sleep};
use tracing::{error, info};

use super::{
    Caller, Denial, TokenHash,
    caller::Credential,
    jwt::{self, Issuer, Verified},
    policy::{Identity, Policy},
    rate::Limiter,
};
use crate::{
    metrics::STATE,
    model::{OperatorId, Problems},
    store::clock::{Clock as _, SystemClock},
};

/// How often files are looked at.
const POLL_PAUSE: Duration = Duration::from_secs(1);
/// Verified tokens that are kept in memory.
const VERIFIED_MAX: usize = 10_000;

/// Why a policy file cannot be used.
#[derive(Debug, Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("the access file {0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// It is not right.
    #[error("the access file {} cannot be used: {}", .0.display(), first(.1))]
    Wrong(PathBuf, Problems),
}

fn first(problems: &Problems) -> String {
    problems.to_string().replace('\n', "; ")
}

/// A policy and what belongs to it.
#[derive(Debug)]
struct Current {
    policy: Policy,
    issuers: Vec<Arc<Issuer>>,
    limiters: HashMap<OperatorId, Arc<Limiter>>,
}

impl Current {
    /// A policy that takes over what the one before has of the same issuers and rates.
    fn new(policy: Policy, before: Option<&Self>) -> Self {
        let issuers = policy.issuers().iter().map(|settings| {
            let mut known = before.into_iter().flat_map(|before| &before.issuers);
            match known.find(|issuer| issuer.settings() == settings) {
                Some(issuer) => Arc::clone(issuer),
                None => Arc::new(Issuer::new(settings.clone())),
            }
        });
        let limiters = policy.identities().filter_map(|identity| {
            let rate = identity.rate?;
            let known = before.and_then(|before| before.limiters.get(&identity.name));
            let limiter = match known.filter(|limiter| limiter.rate() == rate) {
                Some(limiter) => Arc::clone(limiter),
                None => Arc::new(Limiter::new(rate)),
            };
            Some((identity.name.clone(), limiter))
        });
        Self {
            issuers: issuers.collect(),
            limiters: limiters.collect(),
            policy,
        }
    }
}

/// A policy at work.
#[derive(Debug)]
pub(super) struct Policed {
    file: PathBuf,
    current: RwLock<Arc<Current>>,
    /// What the file had when it was read last, whether or not it could be used.
    seen: Mutex<String>,
    verified: Mutex<HashMap<TokenHash, Arc<Verified>>>,
}

impl Policed {
    /// Reads the policy.
    pub(super) fn open(file: &Path) -> Result<Self, AccessError> {
        let text = read(file)?;
        let current = Current::new(parse(file, &text)?, None);
        Ok(Self {
            file: file.to_owned(),
            current: RwLock::new(Arc::new(current)),
            seen: Mutex::new(text),
            verified: Mutex::default(),
        })
    }

    /// Reads the files again and again.
    pub(super) async fn watch(self: &Arc<Self>) {
        let mut looks = JoinSet::new();
        loop {
            while looks.try_join_next().is_some() {}
            if looks.is_empty() {
                for issuer in self.current().issuers.clone() {
                    looks.spawn(async move { issuer.look().await });
                }
            }
            sleep(POLL_PAUSE).await;
            self.look();
        }
    }

    /// Reads the policy file, and uses what has changed.
    fn look(&self) {
        let read = read(&self.file);
        let mut seen = lock(&self.seen);
        match &read {
            Ok(text) if *text == *seen => return,
            // The file is away: that is said once.
            Err(_) if seen.is_empty() => return,
            _ => {}
        }
        *seen = read.as_ref().cloned().unwrap_or_default();
        match read.and_then(|text| parse(&self.file, &text)) {
            Ok(policy) => {
                let identities = policy.identities().count();
                let next = Current::new(policy, Some(&self.current()));
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
                STATE.access_is_stale.set(0);
                info!(identities, "the access file has changed and is in force");
            }
            Err(error) => {
                STATE.access_is_stale.set(1);
                error!(%error, "{error}: the version before stays in force");
            }
        }
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets a call of an identity through, if it does not make too many.
    pub(super) fn pass(&self, identity: &OperatorId) -> Result<(), Denial> {
        match self.current().limiters.get(identity) {
            Some(limiter) => limiter.pass().map_err(Denial::TooMany),
            None => Ok(()),
        }
    }

    /// Who has a credential.
    pub(super) async fn identify(
        self: &Arc<Self>,
        credential: Credential,
    ) -> Result<Caller, Denial> {
        let current = self.current();
        let identity = match &credential {
            Credential::Token(token) if jwt::is_jwt(token.expose()) => {
                let verified = self.verified(&current, token.expose()).await?;
                let issuer = &verified.issuer.settings().name;
                let identity = current.policy.subject(issuer, &verified.value);
                identity.cloned().ok_or(Denial::Invalid(
                    "the access file has no identity for what the token names",
                ))?
            }
            Credential::Token(token) => known_token(&current, token.expose())?,
            Credential::Certificate(name) => {
                let identity = current.policy.certificate(name);
                identity.cloned().ok_or(Denial::Invalid(
                    "the access file has no identity for the client certificate",
                ))?
            }
        };
        Ok(Caller::known(identity, credential, self))
    }

    /// The token, verified now or before.
    async fn verified(&self, current: &Current, token: &str) -> Result<Arc<Verified>, Denial> {
        let hash = TokenHash::of(token);
        let now = SystemClock.now();
        let is_current = |kept: &Arc<Verified>| {
            let mut issuers = current.issuers.iter();
            kept.is_current() && issuers.any(|known| Arc::ptr_eq(known, &kept.issuer))
        };
        let kept = lock(&self.verified).get(&hash).cloned();
        if let Some(kept) = kept.filter(is_current) {
            if now.as_seconds() < kept.until_s {
                return Ok(kept);
            }
            lock(&self.verified).remove(&hash);
            return Err(Denial::Expired);
        }
        let issuer = jwt::issuer_of(token)?;
        let mut issuers = current.issuers.iter();
        let issuer = issuers.find(|known| known.settings().issuer == issuer);
        let issuer = issuer.ok_or(Denial::Invalid(
            "no issuer of the access file has signed it",
        ))?;
        // Boxed, as it is rare: else every call's future has room for it.
        let verified = Arc::new(Box::pin(issuer.verify(token, now)).await?);
        let mut kept = lock(&self.verified);
        if kept.len() >= VERIFIED_MAX {
            kept.retain(|_, kept| kept.is_current() && now.as_seconds() < kept.until_s);
        }
        if kept.len() < VERIFIED_MAX {
            kept.insert(hash, Arc::clone(&verified));
        }
        Ok(verified)
    }
}

/// Whose token of the policy file it is.
fn known_token(current: &Current, token: &str) -> Result<Arc<Identity>, Denial> {
    let known = current.policy.token(&TokenHash::of(token));
    let known = known.ok_or(Denial::Invalid("the access file has no such token"))?;
    match known.until {
        Some(until) if until <= SystemClock.now() => Err(Denial::Expired),
        _ => Ok(Arc::clone(&known.identity)),
    }
}

fn read(file: &Path) -> Result<String, AccessError> {
    fs::read_to_string(file).map_err(|error| AccessError::Unreadable(file.into(), error))
}

fn parse(file: &Path, text: &str) -> Result<Policy, AccessError> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let parsed = Policy::parse(text, directory);
    parsed.map_err(|problems| AccessError::Wrong(file.into(), problems))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
