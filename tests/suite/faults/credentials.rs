//! Credentials are taken away from callers at work and given back: a token in the access file, and
//! the key that has signed a JSON Web Token. These callers are refused meanwhile, others notice
//! nothing, and every request has one outcome.
//!
//! `TOMBOLA_SEED` decides what is drawn, `TOMBOLA_ROUNDS` how often the credentials are taken away.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tempfile::TempDir;
use tokio::{
    task::{JoinHandle, block_in_place},
    time::{sleep, timeout},
};
use tombola::{
    proto::{
        CheckLimitRequest, DrawRequest, DrawResponse, GetCampaignRequest, GetDrawRequest,
        WatchEntriesRequest,
    },
    store::{Entry, entry::Body},
};
use tonic::Status;

use super::{
    book::Book,
    kill::setting,
    load::{self, Attempt, Heard},
    redis::{self, House, PARTITIONS, callers::Callers},
};
use crate::{
    access::{
        Calls, Gate, is_unknown,
        key_server::{ISSUER, SigningKey, claims, key_set},
    },
    ledger::{
        Database,
        kill::{assert_sums, caught_up},
    },
    process::{PATIENCE, Server},
};

/// Draws that callers of an identity make between two steps.
const DRAWS: u64 = 50;
/// The pause before something is looked at again.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a JSON Web Token is good, in seconds.
const GOOD_S: i64 = 3600;

/// An access file with the token of `taken`.
fn policy(keys: &Path) -> String {
    format!(
        r#"
roles: {{caller: [draw, check, read]}}
issuers:
  - {{name: cluster, issuer: "{ISSUER}", audience: tombola, jwks: {{file: {}}}}}
identities:
  - {{name: kept, tokens: [{{sha256: <kept>}}]}}
  - {{name: taken, tokens: [{{sha256: <taken>}}]}}
  - {{name: signed, subjects: [{{issuer: cluster, value: signed}}]}}
bindings:
  - {{identity: kept, role: caller, campaigns: ["*"], senders: ["*"]}}
  - {{identity: taken, role: caller, campaigns: ["*"], senders: ["*"]}}
  - {{identity: signed, role: caller, campaigns: ["*"], senders: ["*"]}}
"#,
        keys.display()
    )
}

/// The credentials that a server accepts.
struct Credentials {
    gate: Gate,
    policy: String,
    key: SigningKey,
    keys: PathBuf,
    _files: TempDir,
}

impl Credentials {
    /// Starts a server that accepts all of them.
    fn start(house: &House, database: &Database) -> Self {
        let files = tempfile::tempdir().unwrap();
        let keys = files.path().join("keys.json");
        let key = SigningKey::ed25519();
        fs::write(&keys, key_set(&[key.public("own")])).unwrap();
        let policy = policy(&keys);
        let settling = format!("--postgres-url {}", database.url_text());
        Self {
            gate: Gate::on(house.start().with(&settling), &policy),
            policy,
            key,
            keys,
            _files: files,
        }
    }

    fn server(&self) -> &Server {
        &self.gate.server
    }

    /// Takes them away from all but `kept`, and waits until the server has seen it.
    fn take_away(&self) {
        self.sign_by(&SigningKey::ed25519(), "another");
        let policy = self.policy.replace("<taken>", "<another>");
        self.gate.change(&policy);
    }

    /// Gives them back.
    fn give_back(&self) {
        self.sign_by(&self.key, "own");
        self.gate.change(&self.policy);
    }

    /// Changes the key of the issuer.
    fn sign_by(&self, key: &SigningKey, kid: &str) {
        let read = || {
            let log = self.server().log();
            log.matches("the keys of issuer cluster are read").count()
        };
        let (before, begun) = (read(), Instant::now());
        fs::write(&self.keys, key_set(&[key.public(kid)])).unwrap();
        while read() == before {
            assert!(begun.elapsed() < PATIENCE, "the keys are not read again");
            std::thread::sleep(PAUSE);
        }
    }
}

/// Callers of one identity, who know the outcome of their draws in the end.
struct Party {
    /// What the ids of their requests begin with.
    prefix: String,
    callers: Callers,
    /// Calls by the same token.
    calls: Calls,
}

impl Party {
    async fn start(at: &Credentials, (seed, number): (u64, u64), token: &str) -> Self {
        Self {
            prefix: format!("r-{number}-"),
            callers: Callers::start_with_token(&[at.server()], seed, number, token),
            calls: at.gate.by(token).await,
        }
    }

    /// A draw beside those of the callers.
    fn request(&self, id: &str) -> DrawRequest {
        DrawRequest {
            count: 1,
            ..redis::request("cards", "witness", &format!("{}{id}", self.prefix))
        }
    }

    async fn draw(&self, request: &DrawRequest) -> Result<DrawResponse, Status> {
        let answer = self.calls.lottery().draw(request.clone()).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Every call is refused: a new draw, one that was made, and whatever only reads.
    async fn is_refused(&self, made: &DrawRequest, new: &DrawRequest) {
        let (mut lottery, refused) = (self.calls.lottery(), "CREDENTIALS_INVALID");
        for request in [made, new] {
            is_unknown(self.draw(request).await, refused);
        }
        let (campaign_id, user_id) = (made.campaign_id.clone(), made.user_id.clone());
        let check = CheckLimitRequest {
            campaign_id: campaign_id.clone(),
            user_id: user_id.clone(),
            ..CheckLimitRequest::default()
        };
        is_unknown(lottery.check_limit(check).await, refused);
        let find = GetDrawRequest {
            campaign_id: campaign_id.clone(),
            user_id,
            request_id: made.request_id.clone(),
        };
        is_unknown(lottery.get_draw(find).await, refused);
        let campaign = GetCampaignRequest {
            campaign_id,
            ..GetCampaignRequest::default()
        };
        let mut campaigns = self.calls.campaigns();
        is_unknown(campaigns.get_campaign(campaign).await, refused);
        let watch = WatchEntriesRequest::default();
        is_unknown(self.calls.ledger().watch_entries(watch).await, refused);
    }
}

/// A stream of all draws that ends only when it is refused.
struct Stream {
    seen: Arc<AtomicU64>,
    task: JoinHandle<Status>,
}

impl Stream {
    async fn open(calls: &Calls) -> Self {
        let request = WatchEntriesRequest {
            kinds: vec!["draw".into()],
            unsettled: true,
            ..WatchEntriesRequest::default()
        };
        let stream = calls.ledger().watch_entries(request).await;
        let mut stream = stream.unwrap().into_inner();
        let seen = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            loop {
                match stream.message().await {
                    Ok(message) => {
                        let message = message.expect("it ended without a reason");
                        let entries = u64::from(message.entry.is_some());
                        own.fetch_add(entries, Ordering::SeqCst);
                    }
                    Err(status) => return status,
                }
            }
        });
        Self { seen, task }
    }

    /// Waits until it has shown a further draw.
    async fn goes_on(&self) {
        let (before, begun) = (self.seen.load(Ordering::SeqCst), Instant::now());
        while self.seen.load(Ordering::SeqCst) == before {
            assert!(!self.task.is_finished(), "it has ended");
            assert!(begun.elapsed() < PATIENCE, "it shows nothing");
            sleep(PAUSE).await;
        }
    }

    /// Waits until it is refused.
    async fn ends(self) {
        let status = timeout(PATIENCE, self.task).await;
        let status = status.expect("it goes on").unwrap();
        is_unknown::<()>(Err(status), "CREDENTIALS_INVALID");
    }
}

/// A time during which callers were refused, by the clock of the store and of this machine, in
/// microseconds.
type Away = (i64, i64);

fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Every draw with such a request id was made while the credentials were good, and some were made
/// before each time without them and after it.
fn drew_while_known(prefix: &str, ledger: &[Entry], away: &[Away]) {
    let draws = ledger.iter().filter(|entry| match &entry.body {
        Body::Draw(draw) => draw.request.as_str().starts_with(prefix),
        _ => false,
    });
    let moments: Vec<_> = draws.map(|entry| entry.at.as_micros()).collect();
    let is_in = |from: i64, until: i64| {
        let mut moments = moments.iter();
        moments.any(|moment| (from..until).contains(moment))
    };
    let mut from = 0;
    for &(begun, ended) in away {
        assert!(is_in(from, begun), "{from} to {begun}: {moments:?}");
        assert!(!is_in(begun, ended), "{begun} to {ended}: {moments:?}");
        from = ended;
    }
    assert!(is_in(from, now()), "from {from}: {moments:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_refused_while_their_credentials_are_away_and_others_notice_nothing() {
    let rounds = setting("TOMBOLA_ROUNDS").unwrap_or(1);
    let seed = setting("TOMBOLA_SEED").unwrap_or_else(rand::random);
    eprintln!("to repeat: TOMBOLA_SEED={seed} TOMBOLA_ROUNDS={rounds}");
    let (house, database) = (House::new(), Database::new().await);
    // A server of its own, which asks nobody who it is.
    let open = house.start().serve();
    load::apply_now(&open).await;
    let credentials = Credentials::start(&house, &database);
    let jwt = credentials.key.token("own", &claims("signed", GOOD_S));
    let kept = Party::start(&credentials, (seed, 0), "kept").await;
    let watching = Stream::open(&kept.calls).await;
    let others = [
        Party::start(&credentials, (seed, 1), "taken").await,
        Party::start(&credentials, (seed, 2), &jwt).await,
    ];
    let (mut witnesses, mut away) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut streams = Vec::new();
        let mut made = Vec::new();
        for party in &others {
            party.callers.go_on(DRAWS).await;
            let request = party.request(&format!("made-{round}"));
            let answer = party.draw(&request).await.unwrap();
            made.push((request, answer));
            let stream = Stream::open(&party.calls).await;
            stream.goes_on().await;
            streams.push(stream);
        }
        block_in_place(|| credentials.take_away());
        for (party, (request, _)) in others.iter().zip(&made) {
            let new = party.request(&format!("new-{round}"));
            party.is_refused(request, &new).await;
            witnesses.push(Attempt {
                request: new,
                heard: Heard::Refused,
            });
            party.callers.are_unknown().await;
        }
        let answers = || others.each_ref().map(|party| party.callers.answers());
        let (begun, before) = (now(), answers());
        for stream in streams {
            stream.ends().await;
        }
        kept.callers.go_on(DRAWS).await;
        watching.goes_on().await;
        assert_eq!(answers(), before, "no call is answered");
        away.push((begun, now()));
        block_in_place(|| credentials.give_back());
        for (party, (request, answer)) in others.iter().zip(made) {
            party.callers.are_known().await;
            let again = party.draw(&request).await.unwrap();
            let first = DrawResponse {
                replayed: true,
                ..answer.clone()
            };
            assert_eq!(again, first, "{request:?}");
            party.callers.go_on(DRAWS).await;
            let heard = Heard::Answer(Box::new(answer));
            witnesses.push(Attempt { request, heard });
        }
    }
    watching.goes_on().await;
    assert_eq!(kept.callers.faults(), 0);
    let (mut attempts, mut prefixes) = (witnesses, Vec::new());
    for Party {
        prefix, callers, ..
    } in others
    {
        attempts.extend(callers.end().await);
        prefixes.push(prefix);
    }
    attempts.extend(kept.callers.end().await);
    Book::default().settle(&open, attempts).await;
    caught_up(&house.redis, &database, PARTITIONS).await;
    assert_sums(&open, &database).await;
    let url = database.url_text();
    open.run(&["audit", "--postgres-url", &url]).well();
    let ledger = database.entries().await;
    for prefix in prefixes {
        drew_while_known(&prefix, &ledger, &away);
    }
}
