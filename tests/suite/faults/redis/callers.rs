//! Callers that draw through one or more services, and retry each draw until they know its outcome.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{DrawRequest, lottery_service_client::LotteryServiceClient};
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::StatusExt as _;

use super::Lottery;
use crate::{
    faults::load::{Attempt, Heard, heard_from, request},
    process::Server,
};

/// Callers that run in parallel.
const CALLERS: u64 = 24;
/// The pause between two attempts at the same draw.
const BACK_OFF: Duration = Duration::from_millis(5);
/// The longest pause before a draw of callers with pauses.
const PAUSE_MAX: Duration = Duration::from_millis(100);
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
}

impl Callers {
    /// Starts callers that draw without pause. They send each attempt to any of these services; the
    /// seed and the round decide who draws what.
    pub fn start(servers: &[&Server], seed: u64, round: u64) -> Self {
        Self::start_with(servers, seed, round, Duration::ZERO)
    }

    /// The same, with pauses of at most [`PAUSE_MAX`] between draws: for faults that last, during
    /// which callers without pauses would take the whole processor.
    pub fn start_with_pauses(servers: &[&Server], seed: u64, round: u64) -> Self {
        Self::start_with(servers, seed, round, PAUSE_MAX)
    }

    fn start_with(servers: &[&Server], seed: u64, round: u64, pause_max: Duration) -> Self {
        let progress = Arc::new(Progress::default());
        let mut tasks = JoinSet::new();
        for number in 0..CALLERS {
            let lotteries = servers.iter().map(|server| {
                let endpoint = Endpoint::from_shared(server.url()).unwrap();
                LotteryServiceClient::new(endpoint.connect_lazy())
            });
            let caller = Caller {
                name: format!("{round}-{number}"),
                generation: round / 3,
                rng: StdRng::seed_from_u64(seed ^ (round << 32) ^ (number << 16)),
                pause_max,
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

    async fn until(&self, is_so: impl Fn(&Progress) -> bool) {
        let begun = Instant::now();
        while !is_so(&self.progress) {
            assert!(begun.elapsed() < PATIENCE, "the callers are stuck");
            sleep(Duration::from_millis(2)).await;
        }
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
    lotteries: Vec<Lottery>,
    progress: Arc<Progress>,
}

impl Caller {
    async fn draw(mut self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        while !self.progress.is_over.load(Ordering::SeqCst) {
            sleep(self.pause_max.mul_f64(self.rng.random())).await;
            let request = request(&mut self.rng, &self.name, self.generation, attempts.len());
            let heard = self.insist(&request).await;
            attempts.push(Attempt { request, heard });
        }
        attempts
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
            assert_is_clear(&status);
            let is_refusal = matches!(heard_from(&status), Heard::Refused);
            may_be_made |= !is_refusal;
            let is_final = is_refusal && !is_transient(status.code());
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
            sleep(BACK_OFF).await;
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
