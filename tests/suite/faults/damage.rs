//! The database is damaged or contradicts itself. At a start and during a run, the error says what
//! is wrong and what to do, and nothing is guessed.

use std::{
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::PathBuf,
};

use rusqlite::Connection;
use tempfile::{TempDir, tempdir};
use tokio::task::JoinSet;
use tombola::proto::{DrawRequest, DrawResponse};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::load;
use crate::process::{Server, Start};

const PAGE: u64 = 4096;

/// A data directory with draws; all data are in the database file itself, none in its log.
async fn used() -> TempDir {
    let data = tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    load::apply(&server).await;
    for id in load::IDS {
        draw(&server, id, "before").await.unwrap();
    }
    server.signal("TERM");
    server.ended();
    let db = Connection::open(database(&data)).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    data
}

fn database(data: &TempDir) -> PathBuf {
    data.path().join("tombola.sqlite3")
}

async fn draw(server: &Server, campaign: &str, request: &str) -> Result<DrawResponse, Status> {
    let request = DrawRequest {
        campaign_id: campaign.into(),
        user_id: "u".into(),
        request_id: request.into(),
        ..Default::default()
    };
    let answer = server.lottery().await.draw(request).await;
    answer.map(tonic::Response::into_inner)
}

fn executed(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().unwrap().metadata["executed"].clone()
}

/// Overwrites a page; pages are counted from 1.
fn overwrite_page(data: &TempDir, page: u64) {
    let file = File::options().write(true).open(database(data)).unwrap();
    let noise = vec![0xa5; usize::try_from(PAGE).unwrap()];
    file.write_all_at(&noise, (page - 1) * PAGE).unwrap();
}

/// The first page of a table.
fn root_page(data: &TempDir, table: &str) -> u64 {
    let db = Connection::open(database(data)).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    db.query_row(sql, [table], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_not_reported_as_another_program_s() {
    let data = used().await;
    let whole = fs::read(database(&data)).unwrap();
    let words = ["tombola.sqlite3", "is damaged", "Restore it from a backup"];
    let ledger = root_page(&data, "ledger");
    for (what, spoil) in [
        (
            "cut in half",
            &(|| cut(&data, whole.len() / 2)) as &dyn Fn(),
        ),
        ("cut to a page", &|| cut(&data, 4096)),
        ("cut within its header", &|| cut(&data, 40)),
        ("a page is noise", &|| overwrite_page(&data, ledger)),
    ] {
        spoil();
        let spoiled = fs::read(database(&data)).unwrap();
        let said = Start::on(data.path()).fail().badly(1, &words);
        for lie in ["request id", "not a tombola database"] {
            assert!(!said.contains(lie), "{what}: {said}");
        }
        assert!(fs::read(database(&data)).unwrap() == spoiled, "{what}");
        fs::write(database(&data), &whole).unwrap();
        for suffix in ["-wal", "-shm"] {
            fs::remove_file(format!("{}{suffix}", database(&data).display())).ok();
        }
    }
    let server = Start::on(data.path()).serve();
    draw(&server, "flow", "after").await.unwrap();
}

fn cut(data: &TempDir, bytes: usize) {
    let file = File::options().write(true).open(database(data)).unwrap();
    file.set_len(bytes as u64).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_is_a_permanent_error_and_nothing_is_drawn() {
    let data = used().await;
    overwrite_page(&data, root_page(&data, "users"));
    let server = Start::on(data.path()).serve();
    for number in 0..3 {
        let refused = draw(&server, "flow", &format!("r-{number}"))
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Code::Internal, "{refused:?}");
        assert_eq!(executed(&refused), "no");
    }
    server.says("the database is damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_whose_numbers_contradict_each_other_stops_and_the_others_go_on() {
    let data = used().await;
    for (sql, back) in [
        (
            "UPDATE stock SET remaining = given + 1 WHERE campaign = 1",
            "UPDATE stock SET remaining = given - 10000 WHERE campaign = 1",
        ),
        (
            "UPDATE queues SET prize = 77 WHERE campaign = 1",
            "UPDATE queues SET prize = 0 WHERE campaign = 1",
        ),
        (
            "UPDATE queues SET prize = -7 WHERE campaign = 1",
            "UPDATE queues SET prize = 0 WHERE campaign = 1",
        ),
    ] {
        change(&data, sql);
        let mut server = Start::on(data.path()).serve();
        let refused = draw(&server, "flow", "r").await.unwrap_err();
        assert_eq!(refused.code(), Code::Internal, "{sql}: {refused:?}");
        assert_eq!(executed(&refused), "no", "{sql}");
        server.says("the stored data contradict themselves");
        draw(&server, "cards", "after").await.unwrap();
        server.signal("TERM");
        server.ended();
        change(&data, back);
    }
}

/// Draws of both campaigns share batches.
#[tokio::test(flavor = "multi_thread")]
async fn draws_of_a_campaign_that_has_stopped_fail_alone() {
    const USERS: usize = 50;
    let data = used().await;
    change(
        &data,
        "UPDATE stock SET remaining = given + 1 WHERE campaign = 1",
    );
    // On a slow disk those that wait would be refused as too many.
    let server = Start::on(data.path()).with("--queue-target 0s").serve();
    let lottery = server.lottery().await;
    let mut calls = JoinSet::new();
    for number in 0..USERS {
        for campaign in ["flow", "cards"] {
            let mut lottery = lottery.clone();
            let request = DrawRequest {
                campaign_id: campaign.into(),
                user_id: format!("user-{number}"),
                request_id: "r".into(),
                ..Default::default()
            };
            calls.spawn(async move {
                let answer = lottery.draw(request.clone()).await;
                (request, answer.map(tonic::Response::into_inner))
            });
        }
    }
    let (mut made, mut units) = (Vec::new(), HashSet::new());
    while let Some(call) = calls.join_next().await {
        let (request, answer) = call.unwrap();
        if request.campaign_id == "flow" {
            let refused = answer.unwrap_err();
            assert_eq!(refused.code(), Code::Internal, "{refused:?}");
            assert_eq!(executed(&refused), "no");
            continue;
        }
        let response = answer.unwrap();
        let won = &response.results[0].unit_id;
        assert!(won.is_empty() || units.insert(won.clone()), "twice: {won}");
        made.push((request, response));
    }
    assert_eq!(made.len(), USERS);
    for (request, response) in made {
        let again = lottery.clone().draw(request).await.unwrap().into_inner();
        assert!(again.replayed);
        assert_eq!(again.results, response.results);
    }
}

fn change(data: &TempDir, sql: &str) {
    let db = Connection::open(database(data)).unwrap();
    assert!(db.execute(sql, []).unwrap() > 0, "{sql}");
}
