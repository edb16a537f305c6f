//! Credentials that are taken away and given back while their callers draw, on each store: only
//! their calls fail, without effect, and everything adds up.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};
use tombola::proto::{DrawRequest, GetStatsRequest, Outcome};
use tonic::Code;

use super::{
    ALL, Calls, Gate,
    key_server::{ISSUER, SigningKey, claims, key_set},
    reason,
};
use crate::{
    faults::{load::now_and_about_noon, redis::House},
    process::{PATIENCE, Start},
};

/// Callers of each identity.
const CALLERS: usize = 3;
/// Draws of each identity between two steps.
const DRAWS: u64 = 30;
/// The subject of a ServiceAccount, as Kubernetes writes it.
const SUBJECT: &str = "system:serviceaccount:shop:backend";
/// The identities: two by tokens of the file, two by tokens that others sign.
const IDENTITIES: [&str; 4] = ["web", "app", "robot", "backend"];

/// The access file; the identity `web` has its token in it or not.
fn policy(keys: &str, has_web: bool) -> String {
    let web = if has_web {
        "{sha256: <web>}"
    } else {
        "{sha256: <nobody>}"
    };
    format!(
        r#"
roles: {{everything: {ALL}, caller: [draw]}}
issuers: [{{name: cluster, issuer: "{ISSUER}", audience: tombola, jwks: {{file: {keys}}}}}]
identities:
  - {{name: ops, tokens: [{{sha256: <ops>}}]}}
  - {{name: web, tokens: [{web}]}}
  - {{name: app, tokens: [{{sha256: <app>}}]}}
  - {{name: robot, subjects: [{{issuer: cluster, value: robot}}]}}
  - {{name: backend, subjects: [{{issuer: cluster, value: "{SUBJECT}"}}]}}
bindings:
  - {{identity: ops, role: everything, campaigns: ["*"], senders: ["*"]}}
  - {{identity: web, role: caller, campaigns: [deck]}}
  - {{identity: app, role: caller, campaigns: [deck]}}
  - {{identity: robot, role: caller, campaigns: [deck]}}
  - {{identity: backend, role: caller, campaigns: [deck]}}
"#
    )
}

const CAMPAIGN: &str = "
id: deck
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, stock: 1000000}]
pools: [{id: deck, deck: {size: 2, cards: {mug: 1}, onExhausted: RESHUFFLE}}]
";

/// What an identity's callers have heard.
#[derive(Clone, Debug, Default)]
struct Heard {
    answers: u64,
    wins: u64,
    refusals: u64,
    /// Calls of each caller, answered or refused.
    calls: [u64; CALLERS],
}

type Book = Arc<Mutex<Heard>>;

fn lock(book: &Book) -> MutexGuard<'_, Heard> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Callers of all identities, who draw without pause.
struct Crowd {
    tasks: JoinSet<()>,
    books: BTreeMap<&'static str, Book>,
    is_over: Arc<AtomicBool>,
}

impl Crowd {
    async fn start(gate: &Gate, tokens: &BTreeMap<&'static str, String>) -> Self {
        let mut crowd = Self {
            tasks: JoinSet::new(),
            books: BTreeMap::new(),
            is_over: Arc::default(),
        };
        for (name, token) in tokens {
            let book = Book::default();
            for number in 0..CALLERS {
                let caller = Caller {
                    calls: gate.by(token).await,
                    name: format!("{name}-{number}"),
                    number,
                    book: Arc::clone(&book),
                    is_over: Arc::clone(&crowd.is_over),
                };
                crowd.tasks.spawn(caller.draw());
            }
            crowd.books.insert(name, book);
        }
        crowd
    }

    fn heard(&self, name: &str) -> Heard {
        lock(&self.books[name]).clone()
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until each caller of an identity has made some more calls. What was under way before
    /// has then come to its end.
    async fn has_called(&self, name: &str) {
        let before = self.heard(name).calls;
        self.until(name, || {
            let now = self.heard(name).calls;
            before.iter().zip(now).all(|(before, now)| now > before + 1)
        })
        .await;
    }

    /// These identities have some more answers, of each of their callers.
    async fn go_on(&self, names: &[&str]) {
        for name in names {
            let before = self.heard(name).answers;
            self.has_called(name).await;
            self.until(name, || self.heard(name).answers >= before + DRAWS)
                .await;
        }
    }

    /// This identity's calls are refused, none is answered, and the others go on.
    async fn goes_on_without(&self, taken: &str) {
        self.has_called(taken).await;
        let before = self.heard(taken).refusals;
        self.until("calls are refused", || {
            self.heard(taken).refusals >= before + DRAWS
        })
        .await;
        let answers = self.heard(taken).answers;
        let others: Vec<&str> = IDENTITIES.into_iter().filter(|it| *it != taken).collect();
        self.go_on(&others).await;
        assert_eq!(self.heard(taken).answers, answers, "{taken} drew");
    }

    async fn end(mut self) -> BTreeMap<&'static str, Heard> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let books = self.books.iter();
        books
            .map(|(name, book)| (*name, lock(book).clone()))
            .collect()
    }
}

struct Caller {
    calls: Calls,
    name: String,
    number: usize,
    book: Book,
    is_over: Arc<AtomicBool>,
}

impl Caller {
    /// Draws with a new request each time. A refusal must say that nobody knows the caller.
    async fn draw(self) {
        let mut lottery = self.calls.lottery();
        for draw in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let request = DrawRequest {
                campaign_id: "deck".into(),
                user_id: self.name.clone(),
                request_id: format!("{}-{draw}", self.name),
                ..Default::default()
            };
            let answer = lottery.draw(request).await;
            let mut heard = lock(&self.book);
            heard.calls[self.number] += 1;
            match answer {
                Ok(drawn) => {
                    let results = drawn.into_inner().results;
                    let won = results.iter().filter(|it| it.outcome() == Outcome::Won);
                    heard.wins += won.count() as u64;
                    heard.answers += 1;
                }
                Err(status) => {
                    let reason = reason(Code::Unauthenticated, &status);
                    assert!(reason.starts_with("CREDENTIALS_"), "{status:?}");
                    heard.refusals += 1;
                }
            }
        }
    }
}

/// The keys of the issuer, and who has which token.
struct Keys {
    directory: TempDir,
    robot: SigningKey,
    backend: SigningKey,
}

impl Keys {
    fn new() -> Self {
        let keys = Self {
            directory: tempfile::tempdir().unwrap(),
            robot: SigningKey::ed25519(),
            backend: SigningKey::p256(),
        };
        keys.put(true);
        keys
    }

    fn file(&self) -> String {
        self.directory
            .path()
            .join("keys.json")
            .display()
            .to_string()
    }

    fn put(&self, has_backend: bool) {
        let mut set: Vec<Value> = vec![self.robot.public("robot")];
        set.extend(has_backend.then(|| self.backend.public("backend")));
        fs::write(self.file(), key_set(&set)).unwrap();
    }

    /// Changes the set, and waits until the server has read it.
    fn change(&self, gate: &Gate, has_backend: bool) {
        const READ: &str = "the keys of issuer cluster are read";
        let read = || gate.server.log().matches(READ).count();
        let before = read();
        self.put(has_backend);
        let begun = Instant::now();
        while read() == before {
            assert!(begun.elapsed() < PATIENCE, "the keys are not read again");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn tokens(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("web", "web".into()),
            ("app", "app".into()),
            ("robot", self.robot.token("robot", &claims("robot", 3600))),
            (
                "backend",
                self.backend.token("backend", &claims(SUBJECT, 3600)),
            ),
        ])
    }
}

async fn only_its_callers_fail(start: Start<'_>) {
    let keys = Keys::new();
    let with = |has_web| policy(&keys.file(), has_web);
    let gate = Gate::on(start, &with(true));
    let ops = gate.by("ops").await;
    ops.apply_file(&now_and_about_noon(CAMPAIGN)).await.unwrap();
    let crowd = Crowd::start(&gate, &keys.tokens()).await;
    crowd.go_on(&IDENTITIES).await;

    tokio::task::block_in_place(|| gate.change(&with(false)));
    crowd.goes_on_without("web").await;
    tokio::task::block_in_place(|| gate.change(&with(true)));
    crowd.go_on(&IDENTITIES).await;
    let web = crowd.heard("web").refusals;

    tokio::task::block_in_place(|| keys.change(&gate, false));
    crowd.goes_on_without("backend").await;
    tokio::task::block_in_place(|| keys.change(&gate, true));
    crowd.go_on(&IDENTITIES).await;
    let backend = crowd.heard("backend").refusals;

    crowd.go_on(&IDENTITIES).await;
    let heard = crowd.end().await;
    for (name, refusals) in [("web", web), ("backend", backend), ("app", 0), ("robot", 0)] {
        assert_eq!(heard[name].refusals, refusals, "{name}");
    }
    let request = GetStatsRequest {
        campaign_id: "deck".into(),
    };
    let stats = ops.campaigns().get_stats(request).await.unwrap();
    let stats = stats.into_inner();
    // A draw that was refused was not made: there are no others than those that were answered.
    let sum = |of: fn(&Heard) -> u64| heard.values().map(of).sum::<u64>();
    assert_eq!(stats.draws, sum(|heard| heard.answers));
    assert_eq!(stats.prizes[0].won, sum(|heard| heard.wins));
    assert!(stats.balanced, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_taken_away_and_given_back_while_their_callers_draw() {
    let data = tempfile::tempdir().unwrap();
    let start = Start {
        clock: None,
        ..Start::on(data.path())
    };
    only_its_callers_fail(start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_taken_away_and_given_back_while_their_callers_draw_on_redis() {
    let house = House::new();
    only_its_callers_fail(house.start()).await;
}
