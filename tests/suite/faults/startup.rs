//! The server is started on data or with options with which it cannot serve: it ends at once,
//! changes nothing and says what to do.

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::process::{Ended, Start, tombola};

/// A data directory that a server has used.
fn used() -> TempDir {
    let data = tempdir().unwrap();
    let mut server = Start::on(data.path()).serve();
    server.signal("TERM");
    server.ended();
    data
}

fn database(data: &TempDir) -> std::path::PathBuf {
    data.path().join("tombola.sqlite3")
}

fn key(data: &TempDir) -> std::path::PathBuf {
    data.path().join("master.key")
}

/// Asserts that the server can serve again, so that nothing was changed.
fn serves(data: &TempDir) {
    drop(Start::on(data.path()).serve());
}

#[test]
fn a_port_in_use_is_reported() {
    let data = tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let start = Start {
        listen: &address,
        ..Start::on(data.path())
    };
    start
        .fail()
        .badly(1, &[&address, "another program", "--listen"]);
}

#[test]
fn data_in_use_by_another_process_is_reported() {
    let data = tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let directory = data.path().to_str().unwrap();
    Start::on(data.path())
        .fail()
        .badly(1, &[directory, "in use", "--data"]);
    server.run(&["campaigns"]).well();
    drop(server);
    serves(&data); // a killed process holds no lock
}

#[test]
fn a_newer_schema_is_refused_if_it_says_that_a_newer_reader_is_needed() {
    let data = used();
    let set = |version: u32, min_reader: u32| {
        let db = Connection::open(database(&data)).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        let update = "UPDATE meta SET value = ?1 WHERE key = 'min_reader'";
        assert_eq!(db.execute(update, [min_reader.to_string()]).unwrap(), 1);
    };
    let db = Connection::open(database(&data)).unwrap();
    let ours: u32 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    drop(db);
    set(ours + 2, ours + 1);
    let words = [
        &format!("schema version {}", ours + 1),
        "newer tombola",
        "--data",
    ];
    Start::on(data.path()).fail().badly(1, &words);
    // What would be misread is neither audited nor erased.
    let directory = data.path().to_str().unwrap();
    let audit = ["audit", "--without-service", "--data", directory];
    let forget = ["user", "forget", "u", "--yes", "--data", directory];
    for command in [&audit[..], &forget] {
        Ended::of(&mut tombola(command)).badly(1, &["later version"]);
    }
    // A newer version has only added things that this version does not need.
    set(ours + 2, ours);
    serves(&data);
    Ended::of(&mut tombola(audit)).well();
}

#[test]
fn a_lost_master_key_is_reported_and_no_new_one_is_made() {
    let data = used();
    let kept = fs::read(key(&data)).unwrap();
    fs::remove_file(key(&data)).unwrap();
    Start::on(data.path())
        .fail()
        .badly(1, &["master.key", "missing", "backup"]);
    assert!(!key(&data).exists());
    fs::write(key(&data), kept).unwrap();
    serves(&data);
}

#[test]
fn a_wrong_master_key_is_reported() {
    let (data, other) = (used(), used());
    let kept = fs::read(key(&data)).unwrap();
    fs::copy(key(&other), key(&data)).unwrap();
    Start::on(data.path())
        .fail()
        .badly(1, &["master key", "not the one", "put the right key back"]);
    fs::write(key(&data), "no key").unwrap();
    Start::on(data.path())
        .fail()
        .badly(1, &["master.key", "64 hexadecimal digits"]);
    fs::write(key(&data), kept).unwrap();
    serves(&data);
}

#[test]
fn a_file_that_is_no_database_is_reported_and_left_alone() {
    let data = used();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(format!("{}{suffix}", database(&data).display())).ok();
    }
    let text = "dear diary\n".repeat(1000);
    fs::write(database(&data), &text).unwrap();
    Start::on(data.path()).fail().badly(
        1,
        &[
            "tombola.sqlite3",
            "not a tombola database",
            "--data",
            "restore it from a backup",
        ],
    );
    assert_eq!(fs::read_to_string(database(&data)).unwrap(), text);
}

#[test]
fn another_program_s_database_is_reported_and_left_alone() {
    let data = used();
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(format!("{}{suffix}", database(&data).display())).ok();
    }
    let db = Connection::open(database(&data)).unwrap();
    db.execute_batch("CREATE TABLE diary (line TEXT)").unwrap();
    drop(db);
    let before = fs::read(database(&data)).unwrap();
    Start::on(data.path())
        .fail()
        .badly(1, &["not a tombola database", "--data"]);
    let after = fs::read(database(&data)).unwrap();
    assert!(after == before, "the file was changed");
}

#[test]
fn a_test_clock_and_the_real_one_do_not_mix() {
    let data = used();
    let real = Start {
        clock: None,
        ..Start::on(data.path())
    };
    real.fail().badly(1, &["test clock", "--clock-start"]);
    let data = tempdir().unwrap();
    let real = Start {
        clock: None,
        ..Start::on(data.path())
    };
    drop(real.serve());
    Start::on(data.path())
        .fail()
        .badly(1, &["real", "--clock-start"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_reported() {
    let data = tempdir().unwrap();
    let file = data.path().join("file");
    fs::write(&file, "").unwrap();
    let inside = file.join("data");
    let words = [inside.to_str().unwrap(), "--data"];
    Start::on(&inside).fail().badly(1, &words);
}

/// Permissions do not restrict root, so root starts the server as another user.
#[test]
fn a_directory_that_cannot_be_written_is_reported() {
    let home = tempdir().unwrap();
    let data = home.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o555)).unwrap();
    let start = Start::on(&data);
    let mut command = start.command();
    if fs::write(data.join("probe"), "").is_ok() {
        fs::remove_file(data.join("probe")).unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        command = as_another_user(&command, home.path());
    }
    let words = [data.to_str().unwrap(), "--data", "permission"];
    Ended::of(&mut command).badly(1, &words);
}

/// The same command as user `nobody`, with a copy of the program in a directory that this user can
/// read.
fn as_another_user(command: &Command, directory: &Path) -> Command {
    let binary = directory.join("tombola");
    fs::copy(command.get_program(), &binary).unwrap();
    let mut other = Command::new(binary);
    other.args(command.get_args()).current_dir("/").uid(65_534);
    other
}

#[test]
fn bad_configuration_is_reported_before_anything_is_made() {
    let home = tempdir().unwrap();
    let data = home.path().join("data");
    for (flag, value) in [
        ("--listen", "nowhere"),
        ("--listen", "127.0.0.1:70000"),
        ("--clock-start", "tomorrow"),
        ("--clock-start", "1969-12-31T23:59:59Z"),
        ("--clock-speed", "0"),
        ("--clock-speed", "1001"),
        ("--inject-cron", "every hour"),
        ("--request-memory", "5 parsecs"),
        ("--request-memory", "1s"),
        ("--log", "=="),
        ("--log-format", "xml"),
        ("--no-such-flag", ""),
    ] {
        let mut command = tombola(["serve", flag, value, "--data"]);
        Ended::of(command.arg(&data)).badly(64, &[flag]);
        assert!(!data.exists(), "{flag} {value}");
    }
    // Only a test clock may be fast.
    let mut command = tombola(["serve", "--clock-speed", "2", "--data"]);
    Ended::of(command.arg(&data)).badly(64, &["--clock-start"]);
    let mut command = tombola([
        "serve",
        "--clock-start",
        "x",
        "--inject-cron",
        "y",
        "--data",
    ]);
    Ended::of(command.arg(&data)).badly(64, &["--clock-start", "--inject-cron"]);
}

#[test]
fn a_lost_database_is_reported_and_no_new_one_is_made() {
    let data = used();
    let kept = fs::read(database(&data)).unwrap();
    for lost in [None, Some("")] {
        fs::remove_file(database(&data)).unwrap();
        if let Some(text) = lost {
            fs::write(database(&data), text).unwrap();
        }
        Start::on(data.path())
            .fail()
            .badly(1, &["no data", "backup", "master.key"]);
        fs::write(database(&data), &kept).unwrap();
    }
    serves(&data);
}

#[test]
fn a_lost_database_is_reported_although_its_key_is_kept_elsewhere() {
    let (data, elsewhere) = (used(), tempdir().unwrap());
    let kept = elsewhere.path().join("kept.key");
    fs::copy(key(&data), &kept).unwrap();
    fs::remove_file(key(&data)).unwrap();
    fs::remove_file(database(&data)).unwrap();
    let option = format!("--master-key {}", kept.display());
    let start = Start::on(data.path()).with(&option);

    // The reserve is not made on a disk with little room.
    let reserve = data.path().join("reserve");
    fs::write(&reserve, "room").unwrap();
    start
        .fail()
        .badly(1, &["no data", "reserve", "tombola restore"]);
    fs::remove_file(&reserve).unwrap();

    // The log may have the last draws, and stays.
    let log = data.path().join("tombola.sqlite3-wal");
    for is_emptied in [false, true] {
        if is_emptied {
            fs::write(database(&data), "").unwrap();
        }
        fs::write(&log, "the last draws").unwrap();
        start
            .fail()
            .badly(1, &["no data", "-wal", "tombola restore"]);
        assert_eq!(fs::read_to_string(&log).unwrap(), "the last draws");
    }
    fs::remove_file(&log).unwrap();
    fs::remove_file(database(&data)).unwrap();

    let unfinished = data.path().join(".unfinished-restore-x");
    fs::create_dir(&unfinished).unwrap();
    start
        .fail()
        .badly(1, &["no data", "unfinished-restore-x", "cut off"]);
    assert!(!database(&data).exists());
    fs::remove_dir(&unfinished).unwrap();

    // A key may exist before its data.
    drop(start.serve());
}
