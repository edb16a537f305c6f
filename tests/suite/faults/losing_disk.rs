//! The disk loses what it could not sync.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    book::Book,
    load::{self, Load},
};
use crate::process::{Server, Start};

/// Compiles the library that makes a disk lose what it could not sync.
fn library(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/faults/losing_disk.c");
    let library = directory.join("losing_disk.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(&source)
        .args(["-ldl", "-lpthread"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    library
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_loses_what_it_could_not_sync_loses_no_acknowledged_draw() {
    let site = tempfile::tempdir().unwrap();
    let data = site.path().join("data");
    let fails = site.path().join("fails");
    let mut command = Start::on(&data).command();
    command
        .env("LD_PRELOAD", library(site.path()))
        .env("LOSING_DISK_FAILS", &fails);

    let mut server = Server::started_by(command);
    load::apply(&server).await;
    let mut load = Load::start(&server, 3, 0).await;
    load.answered(100).await;
    fs::write(&fails, "").unwrap();
    // The log is copied once it has grown by 8 MiB, in passes beside the draws.
    let (code, log) = server.ended();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("the disk failed to keep"), "{log}");
    assert!(log.contains("the disk has lost"), "{log}");

    let mut server = Start::on(&data).serve();
    let mut book = Book::default();
    book.settle(&server, load.end().await).await;
    server.signal("TERM");
    server.ended();
    // Now all of it comes from the database.
    let server = Start::on(&data).serve();
    book.read_all_again(&server).await;
}
