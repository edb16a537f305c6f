//! The example of a deliverer, killed again and again.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rusqlite::Connection;
use tombola::{
    grpc::access::TokenHash,
    proto::{
        DeliveryState, DrawRequest, ListWinsRequest, Win,
        ledger_service_client::LedgerServiceClient,
    },
};

use super::tool;
use crate::{
    process::{Ended, Server, Start, project, tombola},
    support::certificates,
};

/// How often the deliverer is killed.
const KILLS: usize = 50;
/// Draws before each of its lives.
const DRAWS: usize = 4;

const YAML: &str = "
id: shop
name: Shop
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2027-01-01T00:00:00+08:00
prizes: [{id: mug, name: Mug, stock: 5000}]
pools: [{id: deck, deck: {cards: {mug: 5000}}}]
";

struct Deliverer(Child);

impl Deliverer {
    fn start(server: &Server, outbox: &Path) -> Self {
        Self::start_with(server, outbox, &[])
    }

    /// The same with these variables in its environment.
    fn start_with(server: &Server, outbox: &Path, variables: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(tool(".venv/bin/python"));
        command
            .arg(project("deploy/examples/deliverer/deliverer.py"))
            .args([&server.address.to_string()])
            .arg(outbox)
            .arg("shop")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// The next lines that it says; fails if it ends before.
    fn lines(&mut self, lines: usize) -> Vec<String> {
        let said = BufReader::new(self.0.stdout.as_mut().unwrap());
        let said: Vec<_> = said.lines().take(lines).map_while(Result::ok).collect();
        assert_eq!(said.len(), lines, "the deliverer has ended");
        said
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

async fn wins(server: &Server) -> Vec<Win> {
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    let mut request = ListWinsRequest {
        campaign_id: "shop".into(),
        page_size: 1000,
        ..ListWinsRequest::default()
    };
    let mut wins = Vec::new();
    loop {
        let page = ledger
            .list_wins(request.clone())
            .await
            .unwrap()
            .into_inner();
        wins.extend(page.wins);
        if page.next_page_token.is_empty() {
            return wins;
        }
        request.page_token = page.next_page_token;
    }
}

fn state(win: &Win) -> DeliveryState {
    win.delivery.as_ref().unwrap().state()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deliverer_that_is_killed_fifty_times_delivers_each_win_once() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).at("2026-12-02T00:00:00+08:00".into());
    let server = server.serve();
    let file = data.path().join("shop.yaml");
    fs::write(&file, YAML).unwrap();
    server.run(&["apply", "-f", file.to_str().unwrap()]).well();
    let outbox = data.path().join("outbox.sqlite3");
    let mut lottery = server.lottery().await;
    for round in 0..KILLS {
        for number in 0..DRAWS {
            let request = DrawRequest {
                campaign_id: "shop".into(),
                user_id: format!("user-{number}"),
                request_id: format!("draw-{round}-{number}"),
                ..DrawRequest::default()
            };
            lottery.draw(request).await.unwrap();
        }
        // Each win gives four lines, so it is killed after each of them in turn.
        let mut deliverer = Deliverer::start(&server, &outbox);
        deliverer.lines(1 + round % 11);
        deliverer.kill();
    }
    let last = Deliverer::start(&server, &outbox);
    let wins = loop {
        let wins = wins(&server).await;
        assert_eq!(wins.len(), KILLS * DRAWS);
        if wins
            .iter()
            .all(|win| state(win) == DeliveryState::Delivered)
        {
            break wins;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    last.kill();
    let db = Connection::open(&outbox).unwrap();
    let mut statement = db
        .prepare("SELECT reference, user FROM parcels ORDER BY 1")
        .unwrap();
    let parcels = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let parcels: Vec<(String, String)> = parcels.unwrap().map(Result::unwrap).collect();
    let mut expected: Vec<(String, String)> = wins
        .into_iter()
        .map(|win| (win.delivery.unwrap().reference, win.user_id))
        .collect();
    expected.sort_unstable();
    assert_eq!(parcels, expected, "each win has one parcel");
}

/// As the overlay `production` has it: over TLS, with a token, and reflection for `admin` only.
#[test]
fn a_deliverer_calls_over_tls_and_with_a_token() {
    const TOKEN: &str = "a-token-of-the-deliverer";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let authority = certificates::make(path, "tls").pem;
    let hash = TokenHash::of(TOKEN);
    let access = format!(
        "roles: {{shop: [draw, plan, read, deliver, admin]}}\n\
         identities: [{{name: shop, tokens: [{{sha256: {hash}}}]}}]\n\
         bindings: [{{identity: shop, role: shop, campaigns: [\"*\"], senders: [\"*\"]}}]\n"
    );
    for (name, text) in [("access", &*access), ("shop", YAML), ("token", TOKEN)] {
        fs::write(path.join(name), text).unwrap();
    }
    let options = format!(
        "--tls-cert {0}/tls.crt --tls-key {0}/tls.key --access {0}/access --reflection admin",
        path.display()
    );
    let data = path.join("data");
    let start = Start::on(&data).at("2026-12-02T00:00:00+08:00".into());
    let server = start.with(&options).serve().over_tls(&authority);
    let run = |line: &str| {
        let (authority, token) = (path.join("ca.crt"), path.join("token"));
        let mut command = tombola(line.split_whitespace());
        command.current_dir(path).args(["--server", &server.url()]);
        command.arg("--tls-ca").arg(authority);
        command.arg("--token-file").arg(token);
        Ended::of(&mut command).well()
    };
    run("apply -f shop");
    run("draw shop user-1 --request-id draw-1");
    let variables = [
        ("TOMBOLA_TLS_CA", &*path.join("ca.crt")),
        ("TOMBOLA_TOKEN_FILE", &*path.join("token")),
    ];
    let mut deliverer = Deliverer::start_with(&server, &path.join("outbox"), &variables);
    let said = deliverer.lines(4);
    let words: Vec<_> = said
        .iter()
        .map_while(|line| line.split(' ').next())
        .collect();
    assert_eq!(words, ["noted", "sent", "told", "marked"]);
    deliverer.kill();
}
