//! Backups of the embedded store, made while it works, and stores that are made of them.

use std::{
    collections::HashSet,
    fs,
    ops::Range,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use tempfile::TempDir;
use tokio_stream::{Stream, StreamExt as _};
use tombola::{
    proto::{
        BackupRequest, BackupResponse, DrawRequest, DrawResponse, GetDrawRequest,
        admin_service_server::{AdminService, AdminServiceServer},
        backup_response::Part,
    },
    store::sqlite::DATABASE_FILE,
};
use tonic::{Request, Response, Status};

use crate::{
    faults::redis::House,
    ledger::Database,
    process::{Ended, Server, Start, tombola},
    support::{postgres::Postgres, redis_server::until},
};

/// A schedule that releases a unit about every second, and a deck.
const CAMPAIGN: &str = "
id: spring
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
limits: {drawsPerDay: 1000000}
prizes:
  - {id: coupon, stock: 2000000}
  - {id: mug, stock: 500000}
pools:
  - {id: hours, schedule: {perHour: {coupon: 3600}}}
  - {id: deck, deck: {size: 10, cards: {mug: 5}, onExhausted: RESHUFFLE}}
";
/// Each draw wins a code, from rounds that are dealt at once.
const COUPONS: &str = "
id: spring
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
prizes: [{id: coupon, codes: true}]
pools: [{id: deck, deck: {size: 1000, cards: {coupon: 1000}, onExhausted: RESHUFFLE}}]
";
/// Draws take units off stock.
const OFF_STOCK: &str = "
id: spring
timeZone: Asia/Shanghai
startTime: 2026-12-01T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
prizes: [{id: phone, stock: 90}, {id: mug, stock: 800}, {id: pin, unlimited: true}]
guarantees: [{id: fifth, prizes: [mug], within: 5}]
pools: [{id: own, personal: {odds: {phone: 10%}, fallback: pin}}]
";
/// When the campaign is drawn from, when a backup is restored, and when draws go on.
const THEN: &str = "2026-12-05T12:30:00+08:00";
const AFTER_THE_LOSS: &str = "2026-12-05T13:10:00+08:00";
const LATER: &str = "2026-12-05T13:30:00+08:00";
/// When draws are made on a clock that is ahead, and when the backup is restored then.
const AHEAD: &str = "2026-12-05T12:50:00+08:00";
const SET_BACK: &str = "2026-12-05T12:31:00+08:00";

/// A directory for backups and restored stores, and an embedded store.
struct Scene {
    data: TempDir,
    files: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            data: tempfile::tempdir().unwrap(),
            files: tempfile::tempdir().unwrap(),
        }
    }

    fn serve(data: &Path, at: &str, options: &str) -> Server {
        Start::on(data).at(at.into()).with(options).serve()
    }

    /// A server with the campaign.
    fn begin(&self, options: &str) -> Server {
        self.begin_with(CAMPAIGN, options)
    }

    fn begin_with(&self, campaign: &str, options: &str) -> Server {
        let server = Self::serve(self.data.path(), THEN, options);
        let file = self.files.path().join("spring.yaml");
        fs::write(&file, campaign).unwrap();
        server.run(&["apply", "-f", file.to_str().unwrap()]).well();
        server
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// A directory with nothing but the master key.
    fn only_key(&self, name: &str) -> PathBuf {
        let directory = self.file(name);
        fs::create_dir(&directory).unwrap();
        let key = self.data.path().join("master.key");
        fs::copy(key, directory.join("master.key")).unwrap();
        directory
    }

    fn restore(&self, backup: &Path, data: &Path, more: &[&str]) -> Ended {
        self.restore_at(AFTER_THE_LOSS, backup, data, more)
    }

    fn restore_at(&self, at: &str, backup: &Path, data: &Path, more: &[&str]) -> Ended {
        let mut arguments = vec!["restore", backup.to_str().unwrap()];
        arguments.extend(["--data", data.to_str().unwrap(), "--yes"]);
        arguments.extend(["--clock-start", at]);
        arguments.extend(more);
        Ended::of(&mut tombola(arguments))
    }
}

/// The draw of a number.
fn request(number: u32) -> DrawRequest {
    DrawRequest {
        campaign_id: "spring".into(),
        user_id: format!("user-{}", number % 50),
        request_id: format!("request-{number}"),
        count: 5,
        ..DrawRequest::default()
    }
}

async fn draw(server: &Server, numbers: impl IntoIterator<Item = u32>) -> Vec<DrawResponse> {
    let mut lottery = server.lottery().await;
    let mut drawn = Vec::new();
    for number in numbers {
        drawn.push(lottery.draw(request(number)).await.unwrap().into_inner());
    }
    drawn
}

fn units(drawn: &[DrawResponse]) -> HashSet<String> {
    let results = drawn.iter().flat_map(|drawn| &drawn.results);
    let units = results.map(|result| result.unit_id.clone());
    units.filter(|unit| !unit.is_empty()).collect()
}

/// The codes that were won, in order.
fn won_codes(drawn: &[DrawResponse]) -> Vec<String> {
    let results = drawn.iter().flat_map(|drawn| &drawn.results);
    results.map(|result| result.code.clone()).collect()
}

/// Codes by index.
fn codes(range: Range<u64>) -> Vec<String> {
    range.map(|index| format!("CODE-{index:05}")).collect()
}

fn audit(server: &Server, data: &Path) {
    let data = data.to_str().unwrap();
    server.run(&["audit", "--data", data]).well();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_under_load_has_what_was_acknowledged_before_and_gives_no_unit_twice() {
    let scene = Scene::new();
    let server = scene.begin("");
    let before = draw(&server, 0..200).await;
    let (file, is_made) = (scene.file("monday.backup"), AtomicBool::new(false));
    let meanwhile = async {
        let mut drawn = Vec::new();
        while !is_made.load(Ordering::Relaxed) || drawn.len() < 100 {
            let number = 1_000 + drawn.len() as u32;
            drawn.extend(draw(&server, [number]).await);
        }
        drawn
    };
    let backing_up = async {
        let (server, file) = (server.url(), file.clone());
        let arguments = ["--server", &server, "backup", file.to_str().unwrap()];
        let mut command = tombola(arguments);
        let ended = tokio::task::spawn_blocking(move || Ended::of(&mut command));
        let said = ended.await.unwrap().well();
        is_made.store(true, Ordering::Relaxed);
        said
    };
    let (meanwhile, said) = tokio::join!(meanwhile, backing_up);
    assert!(said.contains("The master key is not in it"), "{said}");
    let after = draw(&server, 5_000..5_200).await;
    drop(server);

    let data = scene.only_key("restored");
    let said = scene.restore(&file, &data, &["--withdraw-due"]).well();
    // Of mugs, only those of a round that has begun; the last draw may have taken its last one.
    assert!(
        said.contains("withdrawn") && said.contains("coupon"),
        "{said}"
    );
    assert_eq!(
        fs::read_dir(&data).unwrap().count(),
        3,
        "a lock, a key, data"
    );
    let server = Scene::serve(&data, LATER, "");
    let mut lottery = server.lottery().await;
    for (number, drawn) in (0..).zip(&before) {
        let request = request(number);
        let found = lottery.get_draw(GetDrawRequest {
            campaign_id: request.campaign_id,
            user_id: request.user_id,
            request_id: request.request_id,
        });
        let found = found.await.unwrap().into_inner().draw.unwrap();
        assert_eq!(found.results, drawn.results);
    }
    let anew = draw(&server, 9_000..9_300).await;
    let given = [&before[..], &meanwhile, &after].map(units);
    let anew = units(&anew);
    assert!(anew.len() > 300, "{}", anew.len());
    for given in &given {
        assert_eq!(anew.intersection(given).next(), None);
    }
    let operations = server.run(&["operations"]).well();
    assert!(operations.contains("recover"), "{operations}");
    audit(&server, &data);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgres_has_of_the_lost_entries_is_named_and_set_apart() {
    let (scene, database) = (Scene::new(), Database::new().await);
    let url = database.url_text();
    let sink = format!("--postgres-url {url}");
    let server = scene.begin(&sink);
    draw(&server, 0..50).await;
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    draw(&server, 100..150).await;
    server.run(&["audit", "--postgres-url", &url]).well();
    drop(server);

    let data = scene.only_key("restored");
    let accept = ["--accept", "--postgres-url", &url];
    let said = scene.restore(&file, &data, &accept).well();
    assert!(
        said.contains("request-100") && said.contains("request-149"),
        "{said}"
    );
    assert!(!said.contains("request-49"), "{said}");
    let server = Scene::serve(&data, LATER, &sink);
    draw(&server, 200..250).await;
    let said = server.run(&["audit", "--postgres-url", &url]).well();
    assert!(said.contains("lost"), "{said}");
    let draws = server.run(&["draws", "--user", "user-49"]).well();
    for request in ["request-49", "request-249"] {
        assert!(draws.contains(request), "{draws}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_store_has_settled_is_not_taken_for_a_loss() {
    let (scene, database) = (Scene::new(), Database::new().await);
    let server = scene.begin("");
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    drop(server);
    let other = "INSERT INTO tombola.meta (key, value) VALUES ('store_id', 'other')";
    database.server.query(&database.name, other).await;

    let (data, url) = (scene.only_key("restored"), database.url_text());
    let accept = ["--accept", "--postgres-url", &url];
    scene
        .restore(&file, &data, &accept)
        .badly(1, &["ledger of another store"]);
    assert!(!data.join(DATABASE_FILE).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn units_that_were_won_on_a_clock_that_was_ahead_are_not_won_again() {
    let (scene, database) = (Scene::new(), Database::new().await);
    let url = database.url_text();
    let sink = format!("--postgres-url {url}");
    let server = scene.begin(&sink);
    draw(&server, 0..10).await;
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    drop(server);
    let server = Scene::serve(scene.data.path(), AHEAD, &sink);
    let lost = draw(&server, 100..300).await;
    server.run(&["audit", "--postgres-url", &url]).well();
    drop(server);

    let data = scene.only_key("restored");
    let way = ["--withdraw-due", "--postgres-url", &url];
    scene.restore_at(SET_BACK, &file, &data, &way).well();
    let server = Scene::serve(&data, AFTER_THE_LOSS, &sink);
    let anew = draw(&server, 400..500).await;
    let (lost, anew) = (units(&lost), units(&anew));
    assert!(lost.len() > 100 && !anew.is_empty(), "{}", anew.len());
    assert_eq!(anew.intersection(&lost).next(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_not_served_before_it_is_restored() {
    let scene = Scene::new();
    let server = scene.begin("");
    draw(&server, 0..5).await;
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    draw(&server, 100..105).await;
    drop(server);

    let copied = scene.only_key("copied");
    fs::copy(&file, copied.join(DATABASE_FILE)).unwrap();
    let start = Start::on(&copied).at(LATER.into());
    start
        .fail()
        .badly(1, &["is a backup", "again", "tombola restore"]);

    let data = scene.only_key("restored");
    scene.restore(&file, &data, &["--accept"]).well();
    let server = Scene::serve(&data, LATER, "");
    draw(&server, 200..205).await;
}

/// The numbers that each restore passes over are no entries that wait to be settled.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_restored_again_before_anything_is_settled_refuses_no_draw() {
    let (scene, database) = (Scene::new(), Database::new().await);
    let sink = format!("--postgres-url {}", database.url_text());
    let server = scene.begin(&sink);
    // A list waits until all before it is settled. With the second one, the store knows of that.
    for from in [0, 50] {
        draw(&server, from..from + 50).await;
        server.run(&["draws", "--user", "user-49"]).well();
    }
    let mut file = scene.file("first.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    drop(server);
    let away = Postgres::url_at(1, "postgres", "ledger");
    let away = format!("--postgres-url {away}");
    for (name, from) in [("once", 100), ("twice", 200), ("thrice", 300)] {
        let data = scene.only_key(name);
        scene.restore(&file, &data, &["--accept"]).well();
        let server = Scene::serve(&data, LATER, &away);
        draw(&server, from..from + 50).await;
        file = scene.file(&format!("{name}.backup"));
        server.run(&["backup", file.to_str().unwrap()]).well();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_go_on_after_a_restore_behind_those_that_it_says_are_withdrawn() {
    let scene = Scene::new();
    let server = scene.begin_with(COUPONS, "");
    let lines = scene.file("codes.txt");
    let path = lines.to_str().unwrap();
    let import = ["codes", "import", "spring", "coupon", "-f", path];
    fs::write(&lines, codes(0..5_000).join("\n")).unwrap();
    server.run(&import).well();
    draw(&server, 0..40).await;
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    // Codes and wins that will be lost.
    fs::write(&lines, codes(0..6_000).join("\n")).unwrap();
    server.run(&import).well();
    let lost = draw(&server, 100..110).await;
    assert_eq!(won_codes(&lost), codes(200..250));
    drop(server);

    for (way, lost) in [("--withdraw-due", 50), ("--accept", 0)] {
        let data = scene.only_key(&way[2..]);
        let said = scene.restore(&file, &data, &[way, "--json"]).well();
        let restored: serde_json::Value = serde_json::from_str(&said).unwrap();
        let withdrawn = &restored["withdrawn"]["units"]["spring"]["coupon"];
        let withdrawn = withdrawn.as_u64().unwrap_or(0);
        assert_eq!(withdrawn > 0, lost > 0, "{said}");
        assert!(withdrawn >= lost, "each code that was lost: {said}");
        for file in [&file, &data.join(DATABASE_FILE)] {
            let bytes = fs::read(file).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains("coupon") && !text.contains("CODE-"));
        }
        let server = Scene::serve(&data, LATER, "");
        let said = server.run(&import).well();
        assert!(said.contains("1,000 codes imported (5,000"), "{said}");
        let replayed = draw(&server, 0..40).await;
        assert_eq!(won_codes(&replayed), codes(0..200));
        let next = 200 + withdrawn;
        let anew = draw(&server, 200..260).await;
        assert_eq!(won_codes(&anew), codes(next..next + 300));
        let unused = server.run(&["codes", "export", "spring", "coupon"]).well();
        assert!(unused.lines().eq(codes(next + 300..6_000)), "{unused}");
        audit(&server, &data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_lost_draws_may_have_won_is_withdrawn() {
    let scene = Scene::new();
    let server = scene.begin_with(OFF_STOCK, "");
    draw(&server, 0..100).await;
    let file = scene.file("monday.backup");
    server.run(&["backup", file.to_str().unwrap()]).well();
    draw(&server, 100..120).await;
    drop(server);

    let data = scene.only_key("restored");
    let said = scene.restore(&file, &data, &["--withdraw-due", "--json"]);
    let restored: serde_json::Value = serde_json::from_str(&said.well()).unwrap();
    // A hundred calls of five draws each gave a mug.
    let withdrawn = &restored["withdrawn"]["units"]["spring"];
    assert_eq!(withdrawn["mug"], 700, "{restored:#}");
    assert_eq!(withdrawn["pin"], serde_json::Value::Null, "{restored:#}");
    let server = Scene::serve(&data, LATER, "");
    let anew = draw(&server, 200..220).await;
    let results = anew.iter().flat_map(|drawn| &drawn.results);
    assert!(results.clone().all(|result| result.prize_id != "phone"));
    assert!(results.clone().all(|result| result.prize_id != "mug"));
    audit(&server, &data);
    let more = OFF_STOCK.replace("stock: 800", "stock: 803");
    let path = scene.file("more.yaml");
    fs::write(&path, more).unwrap();
    let path = path.to_str().unwrap();
    server.run(&["apply", path, "--base-version", "1"]).well();
    let anew = draw(&server, 300..310).await;
    let results = anew.iter().flat_map(|drawn| &drawn.results);
    assert_eq!(results.filter(|it| it.prize_id == "mug").count(), 3);
    audit(&server, &data);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overwritten_and_every_refusal_says_what_to_do() {
    let scene = Scene::new();
    let server = scene.begin("");
    let file = scene.file("monday.backup");
    let backup = || server.run(&["backup", file.to_str().unwrap()]);
    backup().well();
    let bytes = fs::read(&file).unwrap();
    backup().badly(1, &["is there already", "another file"]);
    let nowhere = scene.file("no/such/directory");
    server
        .run(&["backup", nowhere.to_str().unwrap()])
        .badly(1, &["cannot be written"]);

    let way = ["--accept"];
    let data = scene.only_key("data");
    scene
        .restore(&file, &data, &[])
        .badly(64, &["--withdraw-due", "--accept"]);
    let running = scene.data.path();
    scene.restore(&file, running, &way).badly(1, &["in use"]);
    // A copy of its file would lack what its log has.
    scene
        .restore(&running.join(DATABASE_FILE), &data, &way)
        .badly(1, &["-wal", "tombola backup"]);
    scene
        .restore(&scene.file("nothing"), &data, &way)
        .badly(1, &["cannot be read"]);
    let text = scene.file("text");
    fs::write(&text, "no store").unwrap();
    scene
        .restore(&text, &data, &way)
        .badly(1, &["is not a tombola database"]);
    let half = scene.file("half");
    fs::write(&half, &bytes[..bytes.len() / 2]).unwrap();
    scene
        .restore(&half, &data, &way)
        .badly(1, &["damaged", "another one"]);
    let keyless = scene.file("keyless");
    scene
        .restore(&file, &keyless, &way)
        .badly(1, &["master key", "missing"]);
    let other = scene.file("other");
    tombola([
        "key",
        "generate",
        other.join("master.key").to_str().unwrap(),
    ])
    .status()
    .unwrap();
    scene
        .restore(&file, &other, &way)
        .badly(1, &["not the one"]);
    // The log of a store whose file was moved away would be applied to the restored file.
    let log = data.join(format!("{DATABASE_FILE}-wal"));
    fs::write(&log, "the last draws").unwrap();
    scene
        .restore(&file, &data, &way)
        .badly(1, &["-wal", "left of another store", "move it away"]);
    fs::remove_file(&log).unwrap();
    for directory in [&data, &keyless, &other] {
        assert!(!directory.join(DATABASE_FILE).exists());
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    scene.restore(&file, &data, &way).well();
    let mode = fs::metadata(data.join(DATABASE_FILE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    scene
        .restore(&file, &data, &way)
        .badly(1, &["has a store already"]);
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

type Parts = Pin<Box<dyn Stream<Item = Result<BackupResponse, Status>> + Send>>;

/// A service whose backups stop after their first bytes.
struct Stuck;

#[tonic::async_trait]
impl AdminService for Stuck {
    type BackupStream = Parts;

    async fn backup(&self, _: Request<BackupRequest>) -> Result<Response<Parts>, Status> {
        let part = Some(Part::Chunk(vec![0; 1024]));
        let first: Result<_, Status> = Ok(BackupResponse { part });
        let parts = tokio_stream::iter([first]).chain(tokio_stream::pending());
        let parts: Parts = Box::pin(parts);
        Ok(Response::new(parts))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_interrupted_leaves_no_file() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let service = AdminServiceServer::new(Stuck);
    let server = tonic::transport::Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    let directory = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(directory.path()).unwrap().count();
    let file = directory.path().join("monday.backup");
    let mut command = tombola(["backup", file.to_str().unwrap(), "--server", &url]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    until("the backup has begun", || files() > 0);
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
    let ended = Ended::from(child.wait_with_output().unwrap());
    ended.badly(1, &["stopped before the backup was whole"]);
    assert_eq!(files(), 0);
    serving.abort();
}

#[test]
fn what_a_killed_backup_leaves_is_removed() {
    let scene = Scene::new();
    let left = scene.data.path().join(".unfinished-backup-x");
    fs::write(&left, "half").unwrap();
    let own = scene.data.path().join("backup-of-mine");
    fs::write(&own, "whole").unwrap();
    drop(scene.begin(""));
    assert!(!left.exists() && own.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_redis_is_backed_up_by_redis() {
    let (house, scene) = (House::new(), Scene::new());
    let server = house.start().serve();
    let file = scene.file("monday.backup");
    let said = server.run(&["backup", file.to_str().unwrap()]);
    said.badly(1, &["back up Redis by its own means"]);
    assert!(!file.exists());
}
