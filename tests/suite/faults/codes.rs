//! Codes while the server or its Redis is killed, codes are imported and wins are revoked: each
//! code is given once, and none is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tombola::proto::{
    DrawRequest, DrawResponse, GetStatsRequest, Outcome, RevokeWinRequest,
    ledger_service_client::LedgerServiceClient,
};
use tonic::{Code, transport::Endpoint};

use super::{
    kill::setting,
    load::{apply_all, now_and_about_noon},
    redis::House,
};
use crate::{
    ledger::Database,
    process::{Server, Start, tombola},
};

/// Clients that draw at the same time.
const CLIENTS: u64 = 16;
/// How often something is killed.
const ROUNDS: u64 = 5;
/// One of so many answered wins is revoked.
const REVOKED_EACH: u64 = 50;

const CAMPAIGN: &str = "
id: coupons
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
consolation: {id: points, name: Points}
prizes: [{id: coupon, codes: true}]
pools: [{id: deck, deck: {size: 50, cards: {coupon: 40}, onExhausted: RESHUFFLE}}]
";

/// The answers by request.
type Answers = BTreeMap<String, DrawResponse>;

fn code(index: u64) -> String {
    format!("CODE-{index:07}")
}

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Size {
    /// Draws of each client in a round.
    draws: u64,
    /// Codes that each round imports: more than are won.
    codes: u64,
}

impl Size {
    /// `TOMBOLA_DRAWS=700 TOMBOLA_CODES=1000000` makes more than 100,000 wins from 5 million codes.
    fn new() -> Self {
        Self {
            draws: setting("TOMBOLA_DRAWS").unwrap_or(40),
            codes: setting("TOMBOLA_CODES").unwrap_or(4_000),
        }
    }

    /// Writes the codes of the first rounds, as many as `rounds`.
    fn write_codes(self, path: &Path, rounds: u64) {
        let lines: String = (0..rounds * self.codes)
            .map(|index| code(index) + "\n")
            .collect();
        std::fs::write(path, lines).unwrap();
    }

    fn requests(self, round: u64) -> Vec<DrawRequest> {
        let all = CLIENTS * self.draws;
        let numbers = (0..all).map(|number| round * all + number);
        numbers
            .map(|number| DrawRequest {
                campaign_id: "coupons".into(),
                user_id: format!("u-{}", number % 97),
                request_id: format!("r-{number}"),
                count: 1 + (number % 4) as u32,
                ..DrawRequest::default()
            })
            .collect()
    }

    /// After how many answers the server is killed.
    fn killed_after(self, round: u64) -> usize {
        (self.draws * (5 + 9 * round) / 4) as usize
    }
}

/// What is killed, and after how many answers.
type Kill<'a> = (usize, &'a mut dyn FnMut());

/// Revokes every fiftieth win that was answered, while draws and kills go on.
struct Revoker {
    won: mpsc::UnboundedSender<String>,
    revoked: JoinHandle<BTreeSet<String>>,
}

impl Revoker {
    fn start(server: &Server) -> Self {
        let (won, mut units) = mpsc::unbounded_channel::<String>();
        let endpoint = Endpoint::from_shared(server.url()).unwrap();
        let mut ledger = LedgerServiceClient::new(endpoint.connect_lazy());
        let revoked = tokio::spawn(async move {
            let (mut wins, mut revoked) = (0, BTreeSet::new());
            while let Some(unit) = units.recv().await {
                wins += 1;
                if wins % REVOKED_EACH != 0 {
                    continue;
                }
                let request = RevokeWinRequest {
                    campaign_id: "coupons".into(),
                    unit_id: unit.clone(),
                    request_id: format!("revoke-{unit}"),
                    operator: "olga".into(),
                    ..RevokeWinRequest::default()
                };
                while let Err(status) = ledger.revoke_win(request.clone()).await {
                    assert_ne!(status.code(), Code::Internal, "{status:?}");
                    sleep(Duration::from_millis(5)).await;
                }
                revoked.insert(unit);
            }
            revoked
        });
        Self { won, revoked }
    }

    /// The units of all wins that were revoked.
    async fn end(self) -> BTreeSet<String> {
        drop(self.won);
        self.revoked.await.unwrap()
    }
}

/// The units that an answer says were won.
fn units(answer: &DrawResponse) -> impl Iterator<Item = String> {
    let results = answer.results.iter();
    let won = results.filter(|result| result.outcome() == Outcome::Won);
    won.map(|result| result.unit_id.clone())
}

/// Draws all requests by parallel clients; those that were not answered come back.
async fn draw_all(
    server: &Server,
    requests: Vec<DrawRequest>,
    answers: &mut Answers,
    kill: Option<Kill<'_>>,
    won: Option<&mpsc::UnboundedSender<String>>,
) -> Vec<DrawRequest> {
    let mut clients = JoinSet::new();
    let (answered, mut answered_so_far) = mpsc::unbounded_channel();
    for part in requests.chunks(requests.len().div_ceil(CLIENTS as usize).max(1)) {
        let (part, mut lottery) = (part.to_vec(), server.lottery().await);
        let (answered, won) = (answered.clone(), won.cloned());
        clients.spawn(async move {
            let mut done = Vec::new();
            for request in part {
                let answer = lottery.draw(request.clone()).await;
                if let Err(status) = &answer {
                    assert_ne!(status.code(), Code::Internal, "{status:?}");
                }
                let answer = answer.ok().map(tonic::Response::into_inner);
                if let Some(answer) = &answer {
                    answered.send(()).ok();
                    for unit in units(answer) {
                        won.as_ref().map(|won| won.send(unit));
                    }
                }
                done.push((request, answer));
            }
            done
        });
    }
    drop(answered);
    if let Some((count, kill)) = kill {
        for _ in 0..count {
            answered_so_far.recv().await;
        }
        kill();
    }
    let mut unanswered = Vec::new();
    for (request, answer) in clients.join_all().await.into_iter().flatten() {
        match answer {
            Some(answer) => note(answers, answer),
            None => unanswered.push(request),
        }
    }
    unanswered
}

/// Notes the first answer to a request.
fn note(answers: &mut Answers, answer: DrawResponse) {
    let earlier = answers.insert(answer.request_id.clone(), answer);
    assert_eq!(
        earlier, None,
        "a request that was answered is not sent again"
    );
}

/// Sends every request once more, and checks that the answers are the same, but for the codes of
/// revoked wins.
async fn check_replays(server: &Server, answers: &Answers, size: Size, revoked: &BTreeSet<String>) {
    let mut again = Answers::new();
    for round in 0..ROUNDS {
        let rest = draw_all(server, size.requests(round), &mut again, None, None).await;
        assert!(rest.is_empty(), "{rest:?}");
    }
    assert_eq!(again.len(), answers.len());
    for (first, again) in answers.values().zip(again.into_values()) {
        let mut expected = DrawResponse {
            replayed: true,
            ..first.clone()
        };
        for result in &mut expected.results {
            if revoked.contains(&result.unit_id) {
                result.code.clear();
            }
        }
        assert_eq!(again, expected);
    }
}

/// Checks that the codes of all wins are the first ones, and that revoked wins gave none back.
async fn check(server: &Server, answers: Answers, size: Size, revoked: BTreeSet<String>) {
    check_replays(server, &answers, size, &revoked).await;
    let imported = ROUNDS * size.codes;
    let results = answers.values().flat_map(|answer| &answer.results);
    let won = results.filter(|result| result.outcome() == Outcome::Won);
    let mut given: Vec<&str> = won.map(|result| result.code.as_str()).collect();
    given.sort_unstable();
    let (wins, revoked) = (given.len() as u64, revoked.len() as u64);
    assert!(wins > 25 * size.draws, "{wins}");
    assert_eq!(revoked, wins / REVOKED_EACH);
    eprintln!("{wins} wins from {imported} codes, {revoked} of them revoked");
    let expected: Vec<String> = (0..wins).map(code).collect();
    assert_eq!(given, expected, "each code once, and none left out");

    let request = GetStatsRequest {
        campaign_id: "coupons".into(),
    };
    let stats = server.campaigns().await.get_stats(request).await.unwrap();
    let stats = stats.into_inner();
    let coupons = &stats.prizes[0];
    assert!(stats.balanced, "{stats:#?}");
    assert_eq!((coupons.won, coupons.stock), (wins - revoked, imported));
    assert_eq!((coupons.revoked, coupons.withdrawn), (revoked, revoked));
    assert_eq!(coupons.codes_left, imported - wins);
    let unused = server.run(&["codes", "export", "coupons", "coupon"]).well();
    let unused: Vec<&str> = unused.lines().filter(|it| it.starts_with("CODE")).collect();
    assert_eq!(unused.len() as u64, coupons.codes_left);
    assert_eq!(unused.first().copied(), Some(code(wins).as_str()));
}

/// What is killed and started again.
trait Victim {
    /// Kills what it is this round's turn of.
    fn kill(&mut self, round: u64, server: &Server);
    /// Starts it again; the service stays at its address.
    fn restart(&mut self, round: u64, server: Server) -> Server;
}

/// Draws, imports, revocations and kills at the same time, round by round.
async fn survive(mut victim: impl Victim, mut server: Server, file: PathBuf) {
    let import = ["codes", "import", "coupons", "coupon", "-f"];
    let import = [import.as_slice(), &[file.to_str().unwrap()]].concat();
    let revoker = Revoker::start(&server);
    let (mut answers, size) = (Answers::new(), Size::new());
    for round in 0..ROUNDS {
        size.write_codes(&file, round + 1);
        let mut importing = tombola(&import);
        importing.args(["--server", &server.url()]);
        let importing = tokio::task::spawn_blocking(move || importing.output().unwrap());
        let mut kill = || victim.kill(round, &server);
        let kill: Kill<'_> = (size.killed_after(round), &mut kill);
        let (requests, won) = (size.requests(round), Some(&revoker.won));
        let mut rest = draw_all(&server, requests, &mut answers, Some(kill), won).await;
        importing.await.unwrap();
        server = victim.restart(round, server);
        while !rest.is_empty() {
            rest = draw_all(&server, rest, &mut answers, None, won).await;
        }
        server.run(&import).well();
    }
    let revoked = revoker.end().await;
    check(&server, answers, size, revoked).await;
}

/// A service on its embedded store.
struct Embedded(TempDir);

impl Embedded {
    fn start(&self, round: u64, listen: &str) -> Server {
        let clock = format!("2026-12-05T04:{:02}:00+08:00", round * 5);
        Start {
            listen,
            ..Start::on(&self.0.path().join("store")).at(clock)
        }
        .serve()
    }
}

impl Victim for Embedded {
    fn kill(&mut self, _: u64, server: &Server) {
        server.signal("KILL");
    }

    fn restart(&mut self, round: u64, mut server: Server) -> Server {
        server.kill();
        self.start(round + 1, &server.address.to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_is_given_once_and_none_is_left_out_through_kills() {
    let embedded = Embedded(tempfile::tempdir().unwrap());
    let file = embedded.0.path().join("codes.txt");
    let server = embedded.start(0, "127.0.0.1:0");
    apply_all(&server, CAMPAIGN).await;
    survive(embedded, server, file).await;
}

/// A Redis, of which it is the turn in even rounds, and a service, of which it is in odd ones. The
/// ledger is settled into PostgreSQL.
struct OnRedis {
    house: House,
    database: Database,
}

impl OnRedis {
    fn start(&self, listen: &str) -> Server {
        let postgres = format!("--postgres-url {}", self.database.url_text());
        Start {
            listen,
            ..self.house.start().with(&postgres)
        }
        .serve()
    }
}

impl Victim for OnRedis {
    fn kill(&mut self, round: u64, server: &Server) {
        match round % 2 {
            0 => self.house.redis.kill(),
            _ => server.signal("KILL"),
        }
    }

    fn restart(&mut self, round: u64, mut server: Server) -> Server {
        if round.is_multiple_of(2) {
            self.house.redis.restart();
            return server;
        }
        server.kill();
        self.start(&server.address.to_string())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_is_given_once_and_none_is_left_out_through_kills_of_services_and_of_redis() {
    let (house, database) = (House::new(), Database::new().await);
    let file = house.data().join("codes.txt");
    let on_redis = OnRedis { house, database };
    let server = on_redis.start("127.0.0.1:0");
    apply_all(&server, &now_and_about_noon(CAMPAIGN)).await;
    survive(on_redis, server, file).await;
}
