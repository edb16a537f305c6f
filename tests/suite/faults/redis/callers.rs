//! Callers that draw through one or more services, and retry each draw until they know its outcome.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{DrawRequest, lottery_service_client::LotteryServiceClient};
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::StatusExt as _;

use crate::{
    access::{Bearer, Connection},
    faults::load::{Attempt, Heard, heard_from, request},
    process::Server,
};

/// Callers that run in parallel.
const CALLERS: u64 = 24;
/// The pause between two attempts at the same draw.
const BACK_OFF: Duration = Duration::from_millis(20);
/// The longest pause before a draw of callers with pauses.
const PAUSE_MAX: Duration = Duration::from_millis(300);
/// What should take moments fails the test only after this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The running callers.
pub struct Callers {
    tasks: JoinSet<Vec<Attempt>>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    answers: AtomicU64,
    faults: AtomicU64,
    /// The callers whose token is refused for the draw that they try to make.
    unknown: Mutex<HashSet<String>>,
}

/// How callers draw.
#[derive(Clone, Copy, Default)]
struct Manner<'a> {
    /// The longest pause before a draw.
    pause_max: Duration,
    /// Their token, if they have one.
    token: Option<&'a str>,
}

impl Callers {
    /// Starts callers that draw without pause. They send each attempt to any of these services; the
    /// seed and the round decide who draws what.
    pub fn start(servers: &[&Server], seed: u64, round: u64) -> Self {
        Self::start_with(servers, seed, round, Manner::default())
    }

    /// The same, with pauses of at most [`PAUSE_MAX`] between draws: for faults that last, during
    /// which callers without pauses would take the whole processor.
    pub fn start_with_pauses(servers: &[&Server], seed: u64, round: u64) -> Self {
        let manner = Manner {
            pause_max: PAUSE_MAX,
            ..Manner::default()
        };
        Self::start_with(servers, seed, round, manner)
    }

    /// The same with a token. While it is refused they go on with the draw that they try to make.
    pub fn start_with_token(servers: &[&Server], seed: u64, round: u64, token: &str) -> Self {
        let manner = Manner {
            pause_max: PAUSE_MAX,
            token: Some(token),
        };
        Self::start_with(servers, seed, round, manner)
    }

    fn start_with(servers: &[&Server], seed: u64, round: u64, manner: Manner<'_>) -> Self {
        let progress = Arc::new(Progress::default());
        let mut tasks = JoinSet::new();
        for number in 0..CALLERS {
            let lotteries = servers.iter().map(|server| {
                let endpoint = Endpoint::from_shared(server.url()).unwrap();
                let bearer = Bearer::of(manner.token);
                LotteryServiceClient::with_interceptor(endpoint.connect_lazy(), bearer)
            });
            let caller = Caller {
                name: format!("{round}-{number}"),
                generation: round / 3,
                rng: StdRng::seed_from_u64(seed ^ (round << 32) ^ (number << 16)),
                pause_max: manner.pause_max,
                has_token: manner.token.is_some(),
                lotteries: lotteries.collect(),
                progress: Arc::clone(&progress),
            };
            tasks.spawn(caller.draw());
        }
        Self { tasks, progress }
    }

    /// Waits until this many more draws were answered; a refusal by a limit counts too.
    pub async fn go_on(&self, draws: u64) {
        let enough = self.progress.answers.load(Ordering::SeqCst) + draws;
        self.until(|progress| progress.answers.load(Ordering::SeqCst) >= enough)
            .await;
    }

    /// Waits until this many more attempts failed.
    pub async fn fail(&self, attempts: u64) {
        let enough = self.progress.faults.load(Ordering::SeqCst) + attempts;
        self.until(|progress| progress.faults.load(Ordering::SeqCst) >= enough)
            .await;
    }

    /// Waits until the token of each caller is refused: no call that was let in is under way.
    pub async fn are_unknown(&self) {
        self.until(|progress| progress.unknown.lock().unwrap().len() == CALLERS as usize)
            .await;
    }

    /// Waits until every draw for which a token was refused is answered.
    pub async fn are_known(&self) {
        self.until(|progress| progress.unknown.lock().unwrap().is_empty())
            .await;
    }

    async fn until(&self, is_so: impl Fn(&Progress) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.progress) {
            assert!(begun.elapsed() < PATIENCE, "the callers are stuck");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// The number of draws that were answered so far.
    pub fn answers(&self) -> u64 {
        self.progress.answers.load(Ordering::SeqCst)
    }

    /// The number of failed attempts so far.
    pub fn faults(&self) -> u64 {
        self.progress.faults.load(Ordering::SeqCst)
    }

    /// Stops the callers; returns what each draw's caller heard in the end.
    pub async fn end(self) -> Vec<Attempt> {
        self.progress.is_over.store(true, Ordering::SeqCst);
        self.tasks.join_all().await.concat()
    }
}

struct Caller {
    name: String,
    generation: u64,
    rng: StdRng,
    /// The longest pause before a draw.
    pause_max: Duration,
    has_token: bool,
    lotteries: Vec<LotteryServiceClient<Connection>>,
    progress: Arc<Progress>,
}

impl Caller {
    async fn draw(mut self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        while !self.progress.is_over.load(Ordering::SeqCst) {
            self.pause().await;
            let request = request(&mut self.rng, &self.name, self.generation, attempts.len());
            let heard = self.insist(&request).await;
            self.progress.unknown.lock().unwrap().remove(&self.name);
            attempts.push(Attempt { request, heard });
        }
        attempts
    }

    /// Pauses before a draw.
    async fn pause(&mut self) {
        sleep(self.pause_max.mul_f64(self.rng.random())).await;
    }

    /// Retries until the outcome of the draw is known. A clear no is final.
    async fn insist(&mut self, request: &DrawRequest) -> Heard {
        let mut may_be_made = false;
        loop {
            let index = self.rng.random_range(0..self.lotteries.len());
            let status = match self.lotteries[index].draw(request.clone()).await {
                Ok(response) => {
                    self.progress.answers.fetch_add(1, Ordering::SeqCst);
                    return Heard::Answer(Box::new(response.into_inner()));
                }
                Err(status) => status,
            };
            let is_unknown = self.has_token && status.code() == Code::Unauthenticated;
            if is_unknown {
                let mut unknown = self.progress.unknown.lock().unwrap();
                unknown.insert(self.name.clone());
            } else {
                assert_is_clear(&status);
            }
            let is_refusal = matches!(heard_from(&status), Heard::Refused);
            may_be_made |= !is_refusal;
            let is_final = is_refusal && !is_unknown && !is_transient(status.code());
            if is_final {
                self.progress.answers.fetch_add(1, Ordering::SeqCst);
            } else {
                self.progress.faults.fetch_add(1, Ordering::SeqCst);
            }
            if is_final || self.progress.is_over.load(Ordering::SeqCst) {
                return if may_be_made {
                    Heard::Nothing
                } else {
                    Heard::Refused
                };
            }
            match is_unknown {
                true => self.pause().await,
                false => sleep(BACK_OFF).await,
            }
        }
    }
}

fn is_transient(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::DeadlineExceeded)
}

/// Asserts that an error of the service is a limit, or says that a retry is worth it.
fn assert_is_clear(status: &Status) {
    if status.get_error_details().error_info().is_some() {
        let code = status.code();
        let is_known = is_transient(code) || code == Code::ResourceExhausted;
        assert!(is_known, "{status:?}");
    }
}
