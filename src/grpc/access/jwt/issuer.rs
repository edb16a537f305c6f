//! An issuer at work: its keys, read from a file or fetched, and the tokens that they verify.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};
use tracing::{error, info};

use super::{
    Algorithm, claims, fetch, json,
    keys::{KEY_SET_BYTES_MAX, KeySet},
    parts,
};
use crate::{
    grpc::access::{
        Denial,
        policy::{IssuerSettings, KeySource},
    },
    metrics::STATE,
    model::Moment,
};

/// How often keys are fetched at most, whatever tokens ask for.
const FETCH_PAUSE: Duration = Duration::from_secs(10);
/// How old fetched keys become: a key that its issuer withdraws stops working then.
const KEYS_AGE_MAX: Duration = Duration::from_secs(300);
/// Calls that may wait for a fetch at once.
const WAITERS_MAX: usize = 64;

/// A token that was verified.
#[derive(Debug)]
pub(in crate::grpc::access) struct Verified {
    /// Who signed it.
    pub(in crate::grpc::access) issuer: Arc<Issuer>,
    /// The value of the claim that names the identity.
    pub(in crate::grpc::access) value: String,
    /// When it ends, in seconds since the Unix epoch.
    pub(in crate::grpc::access) until_s: i64,
    /// The keys that verified it.
    keys: Arc<KeySet>,
}

impl Verified {
    /// Whether the issuer still has the keys by which it was verified.
    pub(in crate::grpc::access) fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.keys, &self.issuer.keys())
    }
}

/// An issuer.
#[derive(Debug)]
pub(in crate::grpc::access) struct Issuer {
    settings: IssuerSettings,
    keys: RwLock<Arc<KeySet>>,
    /// What the keys were read from, and when they were fetched last.
    state: Mutex<State>,
    /// One fetch at a time.
    turn: tokio::sync::Mutex<()>,
    waiters: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    tried_at: Option<Instant>,
    fetched_at: Option<Instant>,
    /// Why they could not be read the last time.
    problem: Option<String>,
}

impl Issuer {
    /// An issuer. Keys behind a URL are not known yet.
    pub(in crate::grpc::access) fn new(settings: IssuerSettings) -> Self {
        let issuer = Self {
            settings,
            keys: RwLock::default(),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            waiters: Arc::new(Semaphore::new(WAITERS_MAX)),
        };
        if let KeySource::File(file) = &issuer.settings.keys {
            issuer.take(read(file));
        }
        issuer
    }

    /// As the policy has it.
    pub(in crate::grpc::access) fn settings(&self) -> &IssuerSettings {
        &self.settings
    }

    /// Reads a file of keys again, or fetches keys that have become old.
    pub(in crate::grpc::access) async fn look(&self) {
        match &self.settings.keys {
            KeySource::File(file) => {
                self.take(read(file));
            }
            KeySource::Url { .. } => {
                let fetched_at = self.state().fetched_at;
                if fetched_at.is_none_or(|at| at.elapsed() >= KEYS_AGE_MAX) {
                    let _turn = self.turn.lock().await;
                    self.fetch().await;
                }
            }
        }
    }

    /// Fetches the keys, unless that was tried just now.
    async fn fetch(&self) {
        let KeySource::Url {
            url,
            ca_file,
            token_file,
        } = &self.settings.keys
        else {
            return;
        };
        {
            let mut state = self.state();
            if state.tried_at.is_some_and(|at| at.elapsed() < FETCH_PAUSE) {
                return;
            }
            state.tried_at = Some(Instant::now());
        }
        let fetched = fetch::fetch(url, ca_file.as_ref(), token_file.as_ref()).await;
        if self.take(fetched.map(|bytes| bytes.to_vec())) {
            self.state().fetched_at = Some(Instant::now());
        }
    }

    /// Uses new keys. Those before stay if the new ones cannot be used.
    fn take(&self, read: Result<Vec<u8>, String>) -> bool {
        let issuer = &self.settings.name;
        let bytes = match read {
            Ok(bytes) if !bytes.is_empty() && bytes == self.state().bytes => {
                self.state().problem = None;
                return true;
            }
            Ok(bytes) => bytes,
            Err(problem) => return self.failed(&problem),
        };
        match KeySet::parse(&bytes) {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                let mut state = self.state();
                (state.bytes, state.problem) = (bytes, None);
                info!(issuer, "the keys of issuer {issuer} are read");
                true
            }
            Err(problem) => self.failed(&problem),
        }
    }

    fn failed(&self, problem: &str) -> bool {
        STATE.key_sets_failed.inc();
        // A file is looked at every second, and its log line must not fill the disk.
        if self.state().problem.replace(problem.to_owned()).as_deref() != Some(problem) {
            let issuer = &self.settings.name;
            error!(
                issuer,
                problem, "the keys of issuer {issuer} cannot be read: {problem}"
            );
        }
        false
    }

    /// Verifies a token.
    pub(in crate::grpc::access) async fn verify(
        self: &Arc<Self>,
        token: &str,
        now: Moment,
    ) -> Result<Verified, Denial> {
        let parts = parts(token)?;
        let algorithm = Algorithm::of_name(&parts.header.alg).ok_or(Denial::Invalid(
            "the token is not signed with RS256, ES256 or EdDSA",
        ))?;
        let kid = parts.header.kid.as_deref();
        let kid = kid.ok_or(Denial::Invalid("the token's header has no `kid`"))?;
        let signed = parts.signed.as_bytes();
        let verify = |keys: &KeySet| keys.verifies((kid, algorithm), signed, &parts.signature);
        let mut keys = self.keys();
        let mut verified = verify(&keys);
        if verified.is_none() {
            self.refetch().await?;
            keys = self.keys();
            verified = verify(&keys);
        }
        match verified {
            Some(true) => {}
            Some(false) => return Err(Denial::Invalid("the token's signature is wrong")),
            None if self.may_lack_keys() => return Err(Denial::Unverifiable),
            None => return Err(Denial::Invalid("its issuer has no such key")),
        }
        let claims: Value = json(parts.claims)?;
        let claimed = claims::check(&claims, &self.settings, now)?;
        Ok(Verified {
            issuer: Arc::clone(self),
            value: claimed.value,
            until_s: claimed.until_s,
            keys,
        })
    }

    /// Fetches keys for a `kid` that is not known, as often as that may be. A caller that hangs up
    /// does not end the fetch: anybody can, and then there would be no other for a while.
    async fn refetch(self: &Arc<Self>) -> Result<(), Denial> {
        let waiter = Arc::clone(&self.waiters).try_acquire_owned();
        let waiter = waiter.map_err(|_| Denial::Unverifiable)?;
        let issuer = Arc::clone(self);
        let fetched = tokio::spawn(async move {
            let _waiter = waiter;
            let _turn = issuer.turn.lock().await;
            issuer.fetch().await;
        });
        fetched.await.map_err(|_| Denial::Unverifiable)
    }

    /// Whether the issuer may have keys that are not known here: they were never read, or not the
    /// last time.
    fn may_lack_keys(&self) -> bool {
        let state = self.state();
        state.bytes.is_empty() || state.problem.is_some()
    }

    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a file of keys.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let bytes = fs::metadata(file).and_then(|found| match usize::try_from(found.len()) {
        Ok(bytes) if bytes <= KEY_SET_BYTES_MAX => fs::read(file),
        _ => Err(std::io::Error::other("it has more than 1 MiB")),
    });
    bytes.map_err(|error| error.to_string())
}
