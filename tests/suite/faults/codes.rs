//! Codes while the server or its Redis is killed: each is given once, and none is left out.

use std::{collections::BTreeMap, path::Path};

use tokio::{sync::mpsc, task::JoinSet};
use tombola::proto::{DrawRequest, DrawResponse, GetStatsRequest, Outcome};
use tonic::Code;

use super::{
    kill::setting,
    load::{apply_all, now_and_about_noon},
    redis::House,
};
use crate::process::{Server, Start, tombola};

/// Clients that draw at the same time.
const CLIENTS: u64 = 16;
/// How often the server is killed.
const ROUNDS: u64 = 5;

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

/// Draws all requests by parallel clients; those that were not answered come back.
async fn draw_all(
    server: &Server,
    requests: Vec<DrawRequest>,
    answers: &mut Answers,
    kill: Option<Kill<'_>>,
) -> Vec<DrawRequest> {
    let mut clients = JoinSet::new();
    let (answered, mut answered_so_far) = mpsc::unbounded_channel();
    for part in requests.chunks(requests.len().div_ceil(CLIENTS as usize).max(1)) {
        let (part, mut lottery) = (part.to_vec(), server.lottery().await);
        let answered = answered.clone();
        clients.spawn(async move {
            let mut done = Vec::new();
            for request in part {
                let answer = lottery.draw(request.clone()).await;
                if let Err(status) = &answer {
                    assert_ne!(status.code(), Code::Internal, "{status:?}");
                }
                if answer.is_ok() {
                    answered.send(()).ok();
                }
                done.push((request, answer.ok().map(tonic::Response::into_inner)));
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

/// Notes an answer; a request has one, however often it is sent.
fn note(answers: &mut Answers, answer: DrawResponse) {
    let same = DrawResponse {
        replayed: false,
        ..answer
    };
    let known = answers.entry(same.request_id.clone());
    let known = known.or_insert_with(|| same.clone());
    assert_eq!(*known, same);
}

/// Sends every request once more, and checks that the codes of all wins are the first ones.
async fn check(server: &Server, mut answers: Answers, size: Size) {
    let imported = ROUNDS * size.codes;
    for round in 0..ROUNDS {
        let rest = draw_all(server, size.requests(round), &mut answers, None).await;
        assert!(rest.is_empty(), "{rest:?}");
    }
    let results = answers.values().flat_map(|answer| &answer.results);
    let won = results.filter(|result| result.outcome() == Outcome::Won);
    let mut given: Vec<&str> = won.map(|result| result.code.as_str()).collect();
    given.sort_unstable();
    let wins = given.len() as u64;
    assert!(wins > 25 * size.draws, "{wins}");
    eprintln!("{wins} wins from {imported} codes");
    let expected: Vec<String> = (0..wins).map(code).collect();
    assert_eq!(given, expected, "each code once, and none left out");

    let request = GetStatsRequest {
        campaign_id: "coupons".into(),
    };
    let stats = server.campaigns().await.get_stats(request).await.unwrap();
    let stats = stats.into_inner();
    let coupons = &stats.prizes[0];
    assert!(stats.balanced, "{stats:#?}");
    assert_eq!((coupons.won, coupons.stock), (wins, imported));
    assert_eq!(coupons.codes_left, imported - wins);
    let unused = server.run(&["codes", "export", "coupons", "coupon"]).well();
    let unused: Vec<&str> = unused.lines().filter(|it| it.starts_with("CODE")).collect();
    assert_eq!(unused.len() as u64, coupons.codes_left);
    assert_eq!(unused.first().copied(), Some(code(wins).as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_is_given_once_and_none_is_left_out_through_kills() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("codes.txt");
    let clock = |round: u64| format!("2026-12-05T04:{:02}:00+08:00", round * 5);
    let store = data.path().join("store");
    let start = |round| Start::on(&store).at(clock(round)).serve();
    let import = [
        "codes",
        "import",
        "coupons",
        "coupon",
        "-f",
        file.to_str().unwrap(),
    ];

    let mut server = start(0);
    apply_all(&server, CAMPAIGN).await;
    let (mut answers, size) = (Answers::new(), Size::new());
    for round in 0..ROUNDS {
        size.write_codes(&file, round + 1);
        // Draws, an import, and a kill at the same time.
        let mut importing = tombola(import);
        importing.args(["--server", &server.url()]);
        let importing = tokio::task::spawn_blocking(move || importing.output().unwrap());
        let mut kill = || server.signal("KILL");
        let kill: Kill<'_> = (size.killed_after(round), &mut kill);
        let mut rest = draw_all(&server, size.requests(round), &mut answers, Some(kill)).await;
        importing.await.unwrap();
        server.kill();
        server = start(round + 1);
        server.run(&import).well();
        while !rest.is_empty() {
            rest = draw_all(&server, rest, &mut answers, None).await;
        }
    }
    check(&server, answers, size).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_code_is_given_once_and_none_is_left_out_through_kills_of_redis() {
    let mut house = House::new();
    let file = house.data().join("codes.txt");
    let size = Size::new();
    size.write_codes(&file, ROUNDS);
    let server = house.start().serve();
    apply_all(&server, &now_and_about_noon(CAMPAIGN)).await;
    let import = [
        "codes",
        "import",
        "coupons",
        "coupon",
        "-f",
        file.to_str().unwrap(),
    ];
    server.run(&import).well();
    let mut answers = Answers::new();
    for round in 0..ROUNDS {
        let mut kill = || house.redis.kill();
        let kill: Kill<'_> = (size.killed_after(round), &mut kill);
        let mut rest = draw_all(&server, size.requests(round), &mut answers, Some(kill)).await;
        house.redis.restart();
        while !rest.is_empty() {
            rest = draw_all(&server, rest, &mut answers, None).await;
        }
    }
    check(&server, answers, size).await;
}
