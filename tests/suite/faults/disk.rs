//! The disk is full.

use std::{fs, path::Path};

use super::{
    book::Book,
    load::{self, Load},
};
use crate::process::Start;

/// The size of the largest file, in bytes.
fn largest_file(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
    sizes.max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_no_acknowledged_draw_and_tells_no_lie() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    load::apply(&server).await;
    server.signal("TERM");
    server.ended();

    let full = Start {
        file_bytes_max: Some(largest_file(data.path()) + (1 << 20)),
        ..Start::on(data.path())
    };
    let mut server = full.serve();
    let mut load = Load::start(&server, 2, 0).await;
    load.answered(24).await;
    server.says("the store is unavailable");
    // A draw that did not fit was not made, and its client is told so: nobody is left to guess and gives up.
    load.answered(240).await;
    server.kill();

    let server = Start::on(data.path()).serve();
    Book::default().settle(&server, load.end().await).await;
}
