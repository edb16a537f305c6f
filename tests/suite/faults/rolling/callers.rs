//! Callers that balance over all replicas, as a gRPC client with the policy `round_robin` does over
//! a headless Service, and follow the retry rule of the documents.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{
    DrawRequest, DrawResponse, GetDrawRequest, lottery_service_client::LotteryServiceClient,
};
use tonic::{Code, Request, Status, service::interceptor::InterceptedService, transport::Channel};
use tonic_types::StatusExt as _;

use super::{entrance::Entrance, ring::Endpoints};
use crate::faults::load::{Attempt, Heard, heard_from, request};

type Lottery = LotteryServiceClient<InterceptedService<Channel, Entrance>>;

/// Callers that run in parallel.
const CALLERS: u64 = 24;
/// Draws of a caller before it goes on with other users, who have not reached their limits.
const DRAWS_BY_USERS: usize = 50;
/// The longest pause of a caller between two draws, in milliseconds. Without pauses, callers and
/// debug builds of three replicas would take the whole processor. All together make some 90 calls a
/// second, and so about 40 to a replica between its signal and its end.
const THINK_MAX: u64 = 500;
/// How long a caller waits for one call, and for a connection.
const CALL_MAX: Duration = Duration::from_secs(5);
/// The pause before a call is repeated: from this, twice as long each time, to that.
const BACK_OFF: Duration = Duration::from_millis(10);
const BACK_OFF_MAX: Duration = Duration::from_millis(200);
/// A draw is not made later than this after its first call.
const EXPIRY: SignedDuration = SignedDuration::from_secs(30);
/// A call that is still repeated after this long has failed for good.
const PATIENCE: Duration = Duration::from_secs(60);
/// Limits are answers. Any other refusal is a call that failed for good.
const LIMITS: [&str; 3] = ["DRAWS_PER_DAY", "PAID_DRAWS_PER_DAY", "DRAWS_PER_USER"];

/// The running callers.
pub struct Callers {
    tasks: JoinSet<Vec<Attempt>>,
    shared: Arc<Shared>,
}

struct Shared {
    endpoints: Endpoints,
    /// How long a caller goes without looking the name up.
    lookup_pause: Duration,
    /// How far the clock of the store is ahead of this machine's.
    ahead: SignedDuration,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    is_over: bool,
    answers: u64,
    /// Calls that were repeated, by what was heard of the attempt before.
    repeated: BTreeMap<String, u64>,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Callers {
    /// Starts the callers, who look the name up again after this pause; the seed decides who draws
    /// what.
    pub fn start(endpoints: Endpoints, seed: u64, lookup_pause: Duration) -> Self {
        Self::start_at(endpoints, seed, lookup_pause, SignedDuration::ZERO)
    }

    /// The same if the clock of the store is ahead of this machine's.
    pub fn start_at(
        endpoints: Endpoints,
        seed: u64,
        lookup_pause: Duration,
        ahead: SignedDuration,
    ) -> Self {
        let shared = Arc::new(Shared {
            endpoints,
            lookup_pause,
            ahead,
            progress: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for number in 0..CALLERS {
            let caller = Caller {
                number,
                rng: StdRng::seed_from_u64(seed ^ (number << 16)),
                connections: Vec::new(),
                next: number as usize,
                looked_up: None,
                shared: Arc::clone(&shared),
            };
            tasks.spawn(caller.draw());
        }
        Self { tasks, shared }
    }

    /// Waits until this many more calls were answered; a refusal by a limit counts too.
    pub async fn go_on(&self, draws: u64) {
        let enough = self.answers() + draws;
        let begun = Instant::now();
        while self.answers() < enough {
            assert!(
                begun.elapsed() < PATIENCE,
                "the callers are stuck: {:?}",
                self.repeated()
            );
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Calls that were answered.
    pub fn answers(&self) -> u64 {
        self.shared.progress().answers
    }

    /// Calls that were repeated, by what was heard of the attempt before.
    pub fn repeated(&self) -> BTreeMap<String, u64> {
        self.shared.progress().repeated.clone()
    }

    /// Stops the callers once each knows the outcome of its last draw; what they heard.
    pub async fn end(self) -> Vec<Attempt> {
        self.shared.progress().is_over = true;
        self.tasks.join_all().await.concat()
    }
}

struct Caller {
    number: u64,
    rng: StdRng,
    /// The open connections, one to each replica that was ready.
    connections: Vec<(SocketAddr, Lottery)>,
    next: usize,
    looked_up: Option<Instant>,
    shared: Arc<Shared>,
}

impl Caller {
    async fn draw(mut self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        while !self.shared.progress().is_over {
            let (number, name) = (attempts.len(), self.number.to_string());
            let users = (number / DRAWS_BY_USERS) as u64;
            let mut request = request(&mut self.rng, &name, users, number);
            let expire = Timestamp::now() + self.shared.ahead + EXPIRY;
            request.expire_time = Some(prost_types::Timestamp {
                seconds: expire.as_second(),
                nanos: expire.subsec_nanosecond(),
            });
            let heard = self.insist(&request).await;
            self.shared.progress().answers += 1;
            let think = self.rng.random_range(0..=THINK_MAX);
            sleep(Duration::from_millis(think)).await;
            attempts.push(Attempt { request, heard });
        }
        attempts
    }

    /// The retry rule: the same request is sent until its outcome is known.
    async fn insist(&mut self, request: &DrawRequest) -> Heard {
        let (mut is_unsure, mut pause) = (false, BACK_OFF);
        let begun = Instant::now();
        loop {
            let (address, lottery) = self.connection().await;
            let status = match call(lottery, request).await {
                Ok(response) => {
                    self.ask_again(request, &response).await;
                    return Heard::Answer(Box::new(response));
                }
                Err(status) => status,
            };
            let reason = reason_of(&status);
            let is_refused = matches!(heard_from(&status), Heard::Refused);
            let is_transient = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
            if is_refused && !is_transient {
                assert!(
                    LIMITS.contains(&reason.as_str()),
                    "failed for good: {status:?}"
                );
                return match is_unsure {
                    true => self.find_out(request).await,
                    false => Heard::Refused,
                };
            }
            is_unsure |= !is_refused;
            assert!(
                begun.elapsed() < PATIENCE,
                "failed for good: {request:?} {status:?}"
            );
            if status.get_details_error_info().is_none() {
                self.lose(address);
            }
            *self.shared.progress().repeated.entry(reason).or_default() += 1;
            sleep(pause).await;
            pause = (2 * pause).min(BACK_OFF_MAX);
        }
    }

    /// The end of the rule: an earlier attempt may still make the draw until the request expires.
    async fn find_out(&mut self, request: &DrawRequest) -> Heard {
        let expire = request.expire_time.unwrap();
        let now = || (Timestamp::now() + self.shared.ahead).as_second();
        while now() <= expire.seconds + 1 {
            sleep(BACK_OFF_MAX).await;
        }
        let begun = Instant::now();
        loop {
            let names = GetDrawRequest {
                campaign_id: request.campaign_id.clone(),
                user_id: request.user_id.clone(),
                request_id: request.request_id.clone(),
            };
            let (address, mut lottery) = self.connection().await;
            match lottery.get_draw(names).await {
                Ok(found) => return Heard::Answer(Box::new(found.into_inner().draw.unwrap())),
                Err(status) if reason_of(&status) == "DRAW_NOT_FOUND" => return Heard::Refused,
                Err(status) => {
                    assert!(begun.elapsed() < PATIENCE, "failed for good: {status:?}");
                    self.lose(address);
                }
            }
            sleep(BACK_OFF).await;
        }
    }

    /// Now and then sends an answered request again, to another replica: it has the same outcome,
    /// and is not answered for the first time again.
    async fn ask_again(&mut self, request: &DrawRequest, first: &DrawResponse) {
        if self.rng.random_bool(0.9) {
            return;
        }
        let (_, lottery) = self.connection().await;
        if let Ok(again) = call(lottery, request).await {
            let first = DrawResponse {
                replayed: true,
                ..first.clone()
            };
            assert_eq!(again, first, "two answers: {request:?}");
        }
    }

    /// The next connection in turn. The name is looked up from time to time, and when a connection
    /// was lost.
    async fn connection(&mut self) -> (SocketAddr, Lottery) {
        loop {
            let pause = self.shared.lookup_pause;
            if self.looked_up.is_none_or(|at| at.elapsed() >= pause) {
                self.look_up().await;
            }
            self.next += 1;
            let index = self.next % self.connections.len().max(1);
            if let Some((address, lottery)) = self.connections.get(index) {
                return (*address, lottery.clone());
            }
            sleep(BACK_OFF).await;
            self.looked_up = None;
        }
    }

    /// Connects to the replicas that are ready, and leaves those that are not any more.
    async fn look_up(&mut self) {
        let found = self.shared.endpoints.all();
        self.connections.retain(|(own, _)| found.contains(own));
        for address in found {
            if self.connections.iter().any(|(own, _)| *own == address) {
                continue;
            }
            let entrance = &self.shared.endpoints.entrance;
            let endpoint = entrance.endpoint(address).connect_timeout(CALL_MAX);
            if let Ok(channel) = endpoint.connect().await {
                let lottery = LotteryServiceClient::with_interceptor(channel, entrance.clone());
                self.connections.push((address, lottery));
            }
        }
        self.looked_up = Some(Instant::now());
    }

    /// A connection has failed.
    fn lose(&mut self, address: SocketAddr) {
        self.connections.retain(|(own, _)| *own != address);
        self.looked_up = None;
    }
}

async fn call(mut lottery: Lottery, request: &DrawRequest) -> Result<DrawResponse, Status> {
    let mut request = Request::new(request.clone());
    request.set_timeout(CALL_MAX);
    lottery.draw(request).await.map(tonic::Response::into_inner)
}

/// The service's own reason, or the code of an error that is not its own.
fn reason_of(status: &Status) -> String {
    match status.get_details_error_info() {
        Some(info) => info.reason,
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}
