//! The disk is full: no file can grow, or nothing fits on the disk any more.

use std::{fs, path::Path};

use tombola::proto::{DrawRequest, GetDrawRequest};
use tonic::Status;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    book::Book,
    load::{self, Load},
};
use crate::{
    process::{Server, Start},
    support::small_disk::SmallDisk,
};

/// The size of the database, in bytes.
fn database_bytes(directory: &Path) -> u64 {
    fs::metadata(directory.join("tombola.sqlite3"))
        .unwrap()
        .len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_no_acknowledged_draw_and_reports_no_false_outcome() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    load::apply(&server).await;
    server.signal("TERM");
    server.ended();

    let full = Start {
        file_bytes_max: Some(database_bytes(data.path()) + (1 << 20)),
        ..Start::on(data.path())
    };
    let mut server = full.serve();
    let mut load = Load::start(&server, 2, 0).await;
    load.answered(24).await;
    server.says("the store is unavailable");
    // A draw that did not fit was not made, and its client learns so: no client has to guess.
    load.answered(240).await;
    server.kill();

    let server = Start::on(data.path()).serve();
    Book::default().settle(&server, load.end().await).await;
}

/// Makes a draw; each number has a user of its own.
async fn draw(server: &Server, number: u32) -> Result<(), Status> {
    let draw = DrawRequest {
        campaign_id: "flow".into(),
        user_id: format!("u-{number}"),
        request_id: format!("r-{number}"),
        ..Default::default()
    };
    server.lottery().await.draw(draw).await.map(drop)
}

/// Waits until the health of a service is this.
async fn health(server: &Server, service: &str, wanted: ServingStatus) {
    let mut client = HealthClient::new(server.connect().await);
    let service = service.into();
    let watch = client.watch(HealthCheckRequest { service }).await;
    let mut watch = watch.unwrap().into_inner();
    while watch.message().await.unwrap().unwrap().status() != wanted {}
}

/// Fills the disk and draws, again and again, until a draw does not fit and health says so. Returns
/// the draws that were made, and the one that was not. The store frees space by shortening its log,
/// so filling the disk once is not enough.
async fn fill_until_a_draw_fails(disk: &SmallDisk, server: &Server) -> (Vec<u32>, u32) {
    let mut client = HealthClient::new(server.connect().await);
    let mut made = Vec::new();
    for number in 100.. {
        disk.fill(&format!("more-{number}"));
        if draw(server, number).await.is_ok() {
            made.push(number);
            continue;
        }
        let answer = client.check(HealthCheckRequest::default()).await.unwrap();
        if answer.into_inner().status() == ServingStatus::NotServing {
            return (made, number);
        }
    }
    unreachable!("a full disk holds only a limited number of draws")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_survived_by_the_reserve_and_left_once_there_is_room() {
    let disk = SmallDisk::of_mib(128);
    let data = disk.mount().join("data");
    let start = Start {
        in_namespaces_of: Some(disk.holder()),
        ..Start::on(&data)
    };
    let mut server = start.serve();
    // The reserve is made while the server starts, so it may have said so before it served.
    if !server.log().contains("kept in reserve") {
        server.says("kept in reserve");
    }
    load::apply(&server).await;
    draw(&server, 0).await.unwrap();

    disk.fill("ballast");
    server.kill();
    let server = start.serve();
    for number in 1..100 {
        draw(&server, number).await.unwrap();
    }

    let (mut made, refused) = fill_until_a_draw_fails(&disk, &server).await;
    health(&server, "liveness", ServingStatus::Serving).await;
    disk.remove("ballast");
    health(&server, "", ServingStatus::Serving).await;
    draw(&server, refused).await.unwrap();
    server.says("kept in reserve");

    let mut lottery = server.lottery().await;
    made.extend((0..100).chain([refused]));
    for number in made {
        let request = GetDrawRequest {
            campaign_id: "flow".into(),
            user_id: format!("u-{number}"),
            request_id: format!("r-{number}"),
        };
        lottery.get_draw(request).await.unwrap();
    }
}
