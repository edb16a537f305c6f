//! The example of a deliverer, killed again and again.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use rusqlite::Connection;
use tombola::proto::{
    DeliveryState, DrawRequest, ListWinsRequest, Win, ledger_service_client::LedgerServiceClient,
};

use super::tool;
use crate::process::{Server, Start, project};

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
        let mut command = Command::new(tool(".venv/bin/python"));
        command
            .arg(project("deploy/examples/deliverer/deliverer.py"))
            .args([&server.address.to_string()])
            .arg(outbox)
            .arg("shop")
            .stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Lets it say this many lines; fails if it ends before.
    fn lines(&mut self, lines: usize) {
        let said = BufReader::new(self.0.stdout.as_mut().unwrap());
        let said = said.lines().take(lines).filter(Result::is_ok).count();
        assert_eq!(said, lines, "the deliverer has ended");
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
    std::fs::write(&file, YAML).unwrap();
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
