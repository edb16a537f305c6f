//! Codes from a file to their winners.

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    process::Stdio,
};

use rusqlite::{Connection, OpenFlags};
use tombola::ledger::{PostgresSink, PostgresUrl};

use super::Desk;
use crate::{
    faults::redis::directory_with_key,
    process::{Ended, NOW, Server, Start, project, tombola},
    support::{postgres::Postgres, redis_server::RedisServer},
};

const CAMPAIGN: &str = "
id: coupons
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-31T00:00:00+08:00
consolation: {id: thanks}
prizes: [{id: coupon, codes: true}, {id: mug, stock: 100}]
pools: [{id: deck, deck: {size: 10, cards: {coupon: 5}, onExhausted: RESHUFFLE}}]
";

/// Lines of codes.
fn lines(range: std::ops::Range<u64>) -> String {
    range.map(|index| format!("CODE-{index:06}\n")).collect()
}

fn with_coupons() -> Desk {
    let desk = Desk::new();
    let file = desk.file("coupons.yaml", CAMPAIGN);
    desk.run("apply -f", &[&file]).well();
    desk
}

#[test]
fn the_sample_with_codes_is_applied_imported_and_drawn() {
    let desk = Desk::new();
    let sample = project("deploy/campaigns/coupon-codes.yaml");
    desk.run("apply -f", &[sample.to_str().unwrap()]).well();
    let nothing = desk.json("draw coupon-codes user-0 --paid --count 20");
    let results = nothing["results"].as_array().unwrap();
    assert!(
        results
            .iter()
            .all(|it| it["outcome"] == "OUTCOME_CONSOLATION")
    );
    let file = desk.file("codes.txt", &lines(0..100));
    let said = desk
        .run("codes import coupon-codes coupon -f", &[&file])
        .well();
    assert!(said.contains("100 codes imported"), "{said}");
    let mut codes = BTreeSet::new();
    for user in 1..=20 {
        let draw = desk.json(&format!("draw coupon-codes user-{user} --paid --count 10"));
        for result in draw["results"].as_array().unwrap() {
            if result["outcome"] == "OUTCOME_WON" {
                assert_eq!(result["prizeId"], "coupon");
                codes.insert(result["code"].as_str().unwrap().to_owned());
            }
        }
    }
    let won = codes.len() as u64;
    assert!(
        (10..=20).contains(&won),
        "at most a coupon a user: {codes:?}"
    );
    let first: BTreeSet<String> = lines(0..won).lines().map(str::to_owned).collect();
    assert_eq!(codes, first);
    let stats = desk.json("stats coupon-codes");
    let left = (100 - won).to_string();
    assert_eq!(stats["prizes"][0]["codesLeft"], left, "{stats:#}");
    assert_eq!(stats["balanced"], true, "{stats:#}");
}

#[test]
fn an_import_goes_on_where_it_stopped_and_says_what_it_skipped() {
    let desk = with_coupons();
    let import = "codes import coupons coupon -f";
    let part = desk.file("codes.txt", &lines(0..12_345));
    let said = desk.run(import, &[&part]).well();
    assert!(said.contains("12,345 codes imported"), "{said}");
    let all = desk.file("codes.txt", &lines(0..30_000));
    let said = desk.run(import, &[&all]).well();
    assert!(said.contains("17,655 codes imported (12,345"), "{said}");
    let said = desk.run(import, &[&all]).well();
    assert!(said.contains("0 codes imported (30,000"), "{said}");
    // Another file is not taken for the same one, whether it is shorter or longer.
    for other in [40_000..40_100, 40_000..75_000] {
        let other = desk.file("other.txt", &lines(other));
        desk.run(import, &[&other])
            .badly(1, &["another code", "--first 30000"]);
    }
    let more = desk.file("more.txt", &lines(30_000..30_100));
    let said = desk.run(import, &[&more, "--first", "30000"]).well();
    assert!(said.contains("coupon has 30,100"), "{said}");
    desk.run(import, &[&more, "--first", "30101"])
        .badly(64, &["30,100 codes"]);
}

#[test]
fn two_imports_of_one_file_at_once_add_each_code_once() {
    let desk = with_coupons();
    let file = desk.file("codes.txt", &lines(0..30_000));
    let line = ["codes", "import", "coupons", "coupon", "-f", &file];
    let url = desk.server.url();
    let import = || Ended::of(tombola(line).args(["--server", &url]));
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(import));
        for imported in both {
            imported.join().unwrap().well();
        }
    });
    let said = import().well();
    assert!(said.contains("0 codes imported (30,000"), "{said}");
    let stats = desk.json("stats coupons");
    assert_eq!(stats["prizes"][0]["stock"], "30000", "{stats:#}");
    let unused = desk.run("codes export coupons coupon", &[]).well();
    assert!(unused.lines().eq(lines(0..30_000).lines()));
}

#[test]
fn wrong_lines_are_named_before_anything_is_sent() {
    let desk = with_coupons();
    let import = "codes import coupons coupon -f";
    let bad = desk.file("bad.txt", &format!("A\n\n B\n{}\nC\n", "x".repeat(256)));
    let words = [
        "line 2",
        "empty",
        "line 3",
        "white space",
        "line 4",
        "256 bytes",
    ];
    desk.run(import, &[&bad]).badly(1, &words);
    let path = desk.directory.path().join("binary");
    std::fs::write(&path, b"A\n\xff\xfe\n").unwrap();
    let path = path.to_str().unwrap().to_owned();
    desk.run(import, &[&path]).badly(1, &["line 2", "UTF-8"]);
    desk.run(import, &["/nowhere"]).badly(1, &["no such file"]);
    let good = desk.file("good.txt", &lines(0..10));
    let elsewhere = "codes import coupons mug -f";
    desk.run(elsewhere, &[&good]).badly(1, &["mug"]);
    desk.run("codes import coupons cup -f", &[&good])
        .badly(1, &["no prize cup"]);
    let stats = desk.json("stats coupons");
    assert_eq!(stats["prizes"][0]["stock"].as_str().unwrap_or("0"), "0");
}

#[test]
fn codes_are_read_from_a_file_and_not_from_a_pipe() {
    let desk = with_coupons();
    let line = "codes import coupons coupon -f /dev/stdin";
    let mut command = tombola(line.split_whitespace());
    command.args(["--server", &desk.server.url()]);
    let ended = Ended::of(command.stdin(Stdio::piped()));
    ended.badly(1, &["/dev/stdin", "a pipe", "more than once"]);
}

#[test]
fn a_duplicate_is_named_by_its_line_and_what_came_before_it_stays() {
    let desk = with_coupons();
    let import = "codes import coupons coupon -f";
    let twice = format!("{}CODE-000003\n", lines(0..20_000));
    let file = desk.file("twice.txt", &twice);
    desk.run(import, &[&file])
        .badly(1, &["line 20,001", "code 3 ", "20,000 codes of the file"]);
    let near = format!("{}CODE-020007\n", lines(0..20_010));
    let file = desk.file("near.txt", &near);
    desk.run(import, &[&file])
        .badly(1, &["line 20,011", "line 20,008"]);
    let file = desk.file("right.txt", &lines(0..20_020));
    let said = desk.run(import, &[&file]).well();
    assert!(said.contains("20 codes imported (20,000"), "{said}");
}

#[test]
fn unused_codes_are_exported_and_won_ones_are_not() {
    let desk = with_coupons();
    let file = desk.file("codes.txt", &lines(0..2_500));
    desk.run("codes import coupons coupon -f", &[&file]).well();
    let draw = desk
        .run("draw coupons user-1 --paid --count 10", &[])
        .well();
    assert!(draw.contains("CODE-000004"), "{draw}");
    let unused = desk.run("codes export coupons coupon", &[]).well();
    assert_eq!(unused.trim_end(), lines(5..2_500).trim_end());
    let json = desk.run("codes export coupons coupon", &["--json"]).well();
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["index"], "5");
    assert_eq!(first["code"], "CODE-000005");
    desk.run("codes export coupons mug", &[])
        .badly(1, &["has no codes"]);
    let acts = desk.json("stats coupons");
    assert_eq!(acts["prizes"][0]["codesLeft"], "2495");
}

#[test]
fn an_export_that_cannot_be_written_reads_no_further() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Start::on(&data).with("--admin 127.0.0.1:0").serve();
    let desk = Desk { server, directory };
    let campaign = desk.file("coupons.yaml", CAMPAIGN);
    desk.run("apply -f", &[&campaign]).well();
    let file = desk.file("codes.txt", &lines(0..2_500));
    desk.run("codes import coupons coupon -f", &[&file]).well();
    let full = File::options().write(true).open("/dev/full");
    let mut command = tombola(["codes", "export", "coupons", "coupon"]);
    command.args(["--server", &desk.server.url()]);
    let ended = Ended::of(command.stdout(full.unwrap()));
    ended.badly(1, &["cannot write the output"]);
    let (_, _, metrics) = desk.server.admin().get("/metrics");
    let is_count = |line: &&str| line.contains("_count{") && line.contains("/ListCodes\"");
    let calls = metrics.lines().find(is_count);
    let calls: Option<f64> = calls.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    assert_eq!(calls, Some(1.0), "{metrics}");
}

/// The files of a directory and of those within it.
fn files(directory: &Path) -> Vec<PathBuf> {
    let found = directory
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = found.map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    files.flatten().collect()
}

/// Imports codes and wins some of them. Returns what the metrics and the log say then.
fn win_codes(server: &Server, directory: &Path) -> [(String, Vec<u8>); 2] {
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let campaign = put("coupons.yaml", CAMPAIGN);
    let codes = put("codes.txt", &lines(0..1_000));
    server.run(&["apply", "-f", &campaign]).well();
    let import = ["codes", "import", "coupons", "coupon", "-f", &codes];
    server.run(&import).well();
    let mut is_seen = false;
    for user in ["ann", "bob", "carl"] {
        let draw = ["draw", "coupons", user, "--paid", "--count", "20"];
        is_seen |= server.run(&draw).well().contains("CODE-0");
    }
    assert!(is_seen, "their winners see them");
    let listed = server
        .run(&["wins", "--campaign", "coupons", "--json"])
        .well();
    assert!(listed.contains("coupon"), "the ledger is settled: {listed}");
    let (_, _, metrics) = server.admin().get("/metrics");
    [
        ("metrics".into(), metrics.into_bytes()),
        ("log".into(), server.log().into_bytes()),
    ]
}

/// Fails if one of these texts, or a file of one of these directories, has the text of a code.
fn have_no_code(texts: impl IntoIterator<Item = (String, Vec<u8>)>, directories: &[&Path]) {
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path.display().to_string(), bytes)
    };
    let found = directories.iter().flat_map(|directory| files(directory));
    for (name, bytes) in texts.into_iter().chain(found.map(read)) {
        let found = bytes.windows(6).any(|part| part == b"CODE-0");
        assert!(!found, "the text of a code is in {name}");
    }
}

#[test]
fn the_text_of_a_code_stands_in_no_file_no_log_and_at_no_admin_port() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let start = Start::on(&data).with("--admin 127.0.0.1:0");
    let mut server = start.serve();
    let texts = win_codes(&server, directory.path());
    let backup = data.join("copy.backup");
    server.run(&["backup", backup.to_str().unwrap()]).well();
    server.kill();
    assert!(files(&data).len() >= 3, "database, log of it, backup");
    have_no_code(texts, &[&data]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_code_stands_in_no_file_of_redis_or_postgresql() {
    let (mut redis, mut postgres) = (RedisServer::start(&[]), Postgres::start());
    let ledger = postgres.database("ledger").await;
    let parsed = PostgresUrl::parse(&ledger).unwrap();
    assert!(PostgresSink::migrate(&parsed).await.unwrap());
    let (key, texts) = (directory_with_key(), tempfile::tempdir().unwrap());
    let start = || Start::on_redis(key.path(), &redis.url()).at(NOW.into());
    start().init().well();
    let options = format!("--admin 127.0.0.1:0 --postgres-url {ledger}");
    let mut server = start().with(&options).serve();
    let said = win_codes(&server, texts.path());
    server.kill();
    redis.kill();
    postgres.stop();
    let kept = |path: &Path, text: &[u8]| {
        let mut read = files(path)
            .into_iter()
            .map(|path| std::fs::read(path).unwrap());
        read.any(|bytes| bytes.windows(text.len()).any(|part| part == text))
    };
    let kept_by_all = [redis.directory(), postgres.directory()].map(|at| kept(at, b"carl"));
    assert_eq!(kept_by_all, [true, true], "the files have the draws");
    have_no_code(said, &[redis.directory(), postgres.directory()]);
}

#[test]
fn a_code_takes_at_most_40_bytes_more_than_its_text_in_the_store_s_file() {
    const CODES: u64 = 30_000;
    let desk = with_coupons();
    let import = "codes import coupons coupon -f";
    let first = desk.file("codes.txt", &lines(0..1_000));
    desk.run(import, &[&first]).well();
    let size = || {
        let path = desk.directory.path().join("data/tombola.sqlite3");
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let of = |name| db.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        of("page_count").unwrap() * of("page_size").unwrap()
    };
    let before = size();
    let all = desk.file("codes.txt", &lines(0..1_000 + CODES));
    desk.run(import, &[&all]).well();
    let each = (size() - before) / CODES;
    let text = lines(0..1).trim().len() as u64;
    println!("{each} bytes for each code of {text} bytes");
    assert!(each <= text + 40, "{each}");
}
