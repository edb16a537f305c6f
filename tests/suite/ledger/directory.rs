//! A directory of JSON lines: each entry once, whatever was cut off.

use std::{fs, io::Write as _};

use tempfile::TempDir;
use tombola::ledger::{DirectorySink, DirectoryTarget, SinkError};

use super::{Seen, place::Place, settle_all, settled};
use crate::support::{World, envelope, on_redis::OnRedis};

fn target(directory: &TempDir) -> DirectoryTarget {
    DirectoryTarget {
        path: directory.path().join("ledger"),
        file_bytes_max: 100_000,
    }
}

/// The newest file of lines.
fn newest(target: &DirectoryTarget) -> std::path::PathBuf {
    let files = fs::read_dir(&target.path).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let is_ledger = |file: &std::path::PathBuf| file.to_str().unwrap().contains("ledger-");
    files.filter(is_ledger).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_settled_once_into_files_whatever_was_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&directory);
    let place = Place::Directory(target.clone());
    let world = World::new(OnRedis::single()).await;
    world.begin(settled::YAML).await;
    world.tick().await;
    world.create(&envelope("e1", 100, 2)).await;
    let mut seen = Seen::default();
    for round in 0..4 {
        settled::draws(&world, round).await;
        seen.look(&**world.store()).await;
        let (mut carrier, mut sink) = place.settler(world.store()).await;
        settle_all(&mut carrier, &mut *sink).await;
        drop((carrier, sink));
        // The beginning of a batch whose end was never written.
        let file = newest(&target);
        let whole = fs::read_to_string(&file).unwrap();
        let line = whole
            .lines()
            .find(|line| line.starts_with("{\"partition\""));
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(line.unwrap_or_default().as_bytes()).unwrap();
        file.write_all(b"\n{\"curs").unwrap();
    }
    let (mut carrier, mut sink) = place.settler(world.store()).await;
    assert_eq!(settle_all(&mut carrier, &mut *sink).await, 0);
    seen.assert_settled(&place.entries().await);
    assert!(seen.entries.len() > 1600);
    let first = target.path.join("ledger-00000001.jsonl");
    assert!(newest(&target) > first, "no second file was begun");
    let text = fs::read_to_string(newest(&target)).unwrap();
    assert!(
        text.lines().last().unwrap().starts_with("{\"cursor\":"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_has_one_writer_and_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&directory);
    let sink = DirectorySink::open(&target, "store").await.unwrap();
    let second = DirectorySink::open(&target, "store").await;
    assert!(matches!(second, Err(SinkError::DirectoryInUse(_))));
    drop(sink);
    let other = DirectorySink::open(&target, "other").await;
    assert!(matches!(other, Err(SinkError::OtherStore { .. })));
    DirectorySink::open(&target, "store").await.unwrap();
}
