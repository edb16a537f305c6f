//! Those who follow the ledger while something goes wrong: they are slow, are stopped, or the store
//! or PostgreSQL are away.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use tokio::{sync::Notify, time::timeout};
use tombola::{
    ledger::{
        PostgresSink, PostgresUrl,
        read::{definitions::Definitions, fresh, sqlite::SqliteReader},
    },
    proto::{DeliveryState, WatchEntriesRequest, ledger_service_client::LedgerServiceClient},
};
use tonic::Code;

use super::{
    place::Place,
    settle_all, settled,
    watch::{YAML, all, delivered, draw, is_refused, revoked, sequence, shop, take},
};
use crate::{
    faults::redis::witness::Witness,
    process::{Server, Start, tombola},
    support::{
        World,
        embedded::Embedded,
        in_memory::InMemory,
        minutes,
        postgres::Postgres,
        redis_server::{RedisServer, until},
        words::campaign_id,
    },
};

/// `tombola watch` as a process, whose lines go to a file.
struct Watcher(Child);

impl Watcher {
    fn start(server: &Server, directory: &Path, campaign: &str) -> Self {
        Self::start_writing_to(lines(directory), server, directory, campaign)
    }

    /// Begins after what is there now, unless the directory has a cursor.
    fn start_at_the_end(server: &Server, directory: &Path) -> Self {
        let mut command = Self::command(server, directory, "shop");
        command.args(["--from-end", "--unsettled"]);
        Self(command.stdout(lines(directory)).spawn().unwrap())
    }

    fn start_writing_to(output: Stdio, server: &Server, directory: &Path, campaign: &str) -> Self {
        let mut command = Self::command(server, directory, campaign);
        Self(command.stdout(output).spawn().unwrap())
    }

    fn command(server: &Server, directory: &Path, campaign: &str) -> Command {
        let options = [
            "watch",
            "--campaign",
            campaign,
            "--kind",
            "draw",
            "--cursor-file",
        ];
        let mut command = tombola(options);
        command.arg(directory.join("cursor"));
        command.args(["--server", &server.url()]);
        command.stderr(Stdio::null());
        command
    }

    /// Waits until it ends by itself; its exit code.
    fn ended(mut self) -> Option<i32> {
        until("watch ends", || self.0.try_wait().unwrap().is_some());
        self.0.wait().unwrap().code()
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(self) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status();
        assert!(sent.unwrap().success());
        assert_eq!(self.ended(), Some(0));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The file of a watcher's lines, which they are added to.
fn lines(directory: &Path) -> Stdio {
    let lines = directory.join("lines");
    let lines = File::options().create(true).append(true).open(lines);
    lines.unwrap().into()
}

/// The request ids of the draws that a watcher has printed, in order. A last line may be cut off.
fn requests(directory: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(directory.join("lines")).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let id = |line: serde_json::Value| line["entry"]["draw"]["requestId"].as_str().unwrap().into();
    lines.map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_is_interrupted_goes_on_where_it_was() {
    let data = tempfile::tempdir().unwrap();
    let (server, _) = shop(data.path()).await;
    let directory = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for life in 0..3 {
        let watcher = Watcher::start(&server, directory.path(), "shop");
        for number in 0..20 {
            let name = format!("r{life}-{number}");
            draw(&server, &name, 1).await;
            names.push(name);
        }
        // In its last life it may print all, in the others it is interrupted at some line.
        let wanted = names.len() - if life < 2 { 10 } else { 0 };
        until("lines", || requests(directory.path()).len() >= wanted);
        watcher.interrupt();
    }
    let found = requests(directory.path());
    let mut once = found.clone();
    once.dedup();
    assert_eq!(once, names, "in order, and at least once");
    // An entry comes again only if the watcher was stopped before it kept the cursor.
    assert!(found.len() <= names.len() + 2, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_begins_at_the_end_misses_nothing_after_it() {
    let data = tempfile::tempdir().unwrap();
    let (server, _) = shop(data.path()).await;
    let directory = tempfile::tempdir().unwrap();
    draw(&server, "r0", 1).await;
    let watcher = Watcher::start_at_the_end(&server, directory.path());
    until("a cursor", || directory.path().join("cursor").exists());
    watcher.interrupt();
    draw(&server, "r1", 1).await;
    let _watcher = Watcher::start_at_the_end(&server, directory.path());
    until("a line", || !requests(directory.path()).is_empty());
    assert_eq!(requests(directory.path()), ["r1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cursor_is_never_ahead_of_what_was_written() {
    let data = tempfile::tempdir().unwrap();
    let (server, _) = shop(data.path()).await;
    let directory = tempfile::tempdir().unwrap();
    draw(&server, "r0", 1).await;
    let full = File::options().write(true).open("/dev/full").unwrap();
    let watcher = Watcher::start_writing_to(full.into(), &server, directory.path(), "shop");
    assert_eq!(watcher.ended(), Some(1));

    // A reader of the output takes one line and goes away.
    let mut watcher = Watcher::start_writing_to(Stdio::piped(), &server, directory.path(), "shop");
    let mut line = String::new();
    let mut output = BufReader::new(watcher.0.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert!(line.contains("\"r0\""), "{line}");
    drop(output);
    draw(&server, "r1", 1).await;
    assert_eq!(watcher.ended(), Some(0));

    draw(&server, "r2", 1).await;
    let _watcher = Watcher::start(&server, directory.path(), "shop");
    until("lines", || requests(directory.path()).len() >= 2);
    assert_eq!(requests(directory.path()), ["r1", "r2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_entries_never_have_a_draw_that_a_rollback_undoes() {
    let mut postgres = Postgres::start();
    let url = postgres.database("ledger").await;
    PostgresSink::migrate(&PostgresUrl::parse(&url).unwrap())
        .await
        .unwrap();
    let mut redis = RedisServer::start(&[]);
    let options = format!("--postgres-url {url}");
    let mut witness = Witness::start_with(&redis.url(), &options).await;
    let directory = tempfile::tempdir().unwrap();
    let _watcher = Watcher::start(&witness.server, directory.path(), "wheel");
    let is_seen = |name: &str| {
        let seen = requests(directory.path());
        seen.iter().any(|request| request == name)
    };
    witness.draw("kept", 10).await;
    until("the draws before are settled", || is_seen("kept-9"));
    redis.back_up();

    // While PostgreSQL is away nothing is settled: only who asks for them sees the draws that will
    // be lost.
    let mut ledger = LedgerServiceClient::new(witness.server.connect().await);
    let unsettled = WatchEntriesRequest {
        campaign_id: "wheel".into(),
        kinds: vec!["draw".into()],
        unsettled: true,
        from_end: true,
        ..WatchEntriesRequest::default()
    };
    let stream = ledger.watch_entries(unsettled).await.unwrap();
    postgres.stop();
    witness.draw("lost", 10).await;
    let seen = take(&mut stream.into_inner(), 10).await;
    for (number, response) in seen.into_iter().enumerate() {
        let draw = response.entry.unwrap().draw.unwrap();
        assert_eq!(draw.request_id, format!("lost-{number}"));
    }

    redis.restart_from_backup();
    witness.server.says("halted, since Redis was rolled back");
    assert!(witness.loss().is_some());
    witness.recover("--accept --yes").well();
    crate::faults::redis::healthy(
        &witness.server,
        tonic_health::pb::health_check_response::ServingStatus::Serving,
    )
    .await;
    witness.draw("after", 10).await;
    postgres.restart();
    until("the draws afterwards are settled", || is_seen("after-9"));
    let seen: BTreeSet<_> = requests(directory.path()).into_iter().collect();
    let names = |what: &str| {
        (0..10)
            .map(move |number| format!("{what}-{number}"))
            .collect::<Vec<_>>()
    };
    let expected: BTreeSet<_> = [names("kept"), names("after")]
        .concat()
        .into_iter()
        .collect();
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_do_not_read_take_little_memory_and_hold_nobody_up() {
    const STREAMS: usize = 30;
    const DRAWS: usize = 600;
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path())
        .at("2026-12-02T00:00:00+08:00".into())
        .serve();
    let file = data.path().join("shop.yaml");
    std::fs::write(
        &file,
        YAML.replace("stock: 500", "stock: 100000")
            .replace("250", "50000"),
    )
    .unwrap();
    server.run(&["apply", "-f", file.to_str().unwrap()]).well();
    // Some 20 KB a message: 360 MB if all of them were kept for all streams.
    for number in 0..DRAWS {
        draw(&server, &format!("r{number}"), 100).await;
    }
    let (before, _) = server.memory_bytes();
    let mut slow = Vec::new();
    for _ in 0..STREAMS {
        let mut ledger = LedgerServiceClient::new(server.connect().await);
        slow.push(ledger.watch_entries(all("")).await.unwrap().into_inner());
    }
    // One that reads gets everything meanwhile.
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    let mut fast = ledger.watch_entries(all("")).await.unwrap().into_inner();
    let whole = take(&mut fast, DRAWS).await;
    let (after, _) = server.memory_bytes();
    let grown = after.saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
    // A slow one gets the same, in order and without a gap.
    let late = take(&mut slow[0], DRAWS).await;
    assert_eq!(late, whole);
    assert!(
        late.windows(2)
            .all(|pair| sequence(&pair[0]) + 1 == sequence(&pair[1]))
    );
    // The others do not keep the server from stopping.
    let mut server = server;
    server.signal("TERM");
    assert_eq!(server.ended().0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_or_revoked_while_postgres_is_away() {
    let mut postgres = Postgres::start();
    let url = postgres.database("ledger").await;
    PostgresSink::migrate(&PostgresUrl::parse(&url).unwrap())
        .await
        .unwrap();
    let data = tempfile::tempdir().unwrap();
    let start = Start::on(data.path()).at("2026-12-02T00:00:00+08:00".into());
    let server = start.with(&format!("--postgres-url {url}")).serve();
    let file = data.path().join("shop.yaml");
    std::fs::write(&file, YAML).unwrap();
    server.run(&["apply", "-f", file.to_str().unwrap()]).well();
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    let units = draw(&server, "r1", 2).await;
    // Waits until the win is settled.
    ledger
        .mark_delivered(delivered(&units[1], "parcel-0", "m0"))
        .await
        .unwrap();
    postgres.stop();
    let mark = delivered(&units[0], "parcel-1", "m1");
    let refused = ledger.mark_delivered(mark.clone()).await.unwrap_err();
    is_refused(&refused, Code::Unavailable, "LEDGER_UNAVAILABLE");
    let refused = ledger.revoke_win(revoked(&units[1])).await.unwrap_err();
    is_refused(&refused, Code::Unavailable, "LEDGER_UNAVAILABLE");
    postgres.restart();
    let marked = ledger.mark_delivered(mark).await.unwrap().into_inner();
    let delivery = marked.win.unwrap().delivery.unwrap();
    assert_eq!(delivery.state(), DeliveryState::Delivered);
    assert_eq!(delivery.reference, "parcel-1");
    ledger.revoke_win(revoked(&units[1])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_wakes_the_settler() {
    let world = World::new(Embedded::new()).await;
    world.begin(settled::YAML).await;
    let store = world.store();
    let reader = SqliteReader::new(store.ledger_tables().unwrap());
    let place = Place::own_file(&world);
    let wake = Notify::new();
    // This settler does nothing unless it is woken.
    let settler = async {
        wake.notified().await;
        let (mut carrier, mut sink) = place.settler(store).await;
        settle_all(&mut carrier, &mut *sink).await;
    };
    let list = fresh::wait(&**store, &reader, &wake, None);
    let (listed, woken) = tokio::join!(list, timeout(minutes(1), settler));
    listed.unwrap();
    woken.expect("the list has woken it");
}

/// Names in lists come from the ledger once the store does not have a campaign any more.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_read_from_the_ledger_if_the_store_has_none() {
    let world = World::new(Embedded::new()).await;
    let first = world.begin(settled::YAML).await;
    world
        .change(&settled::YAML.replace("stock: 5000", "stock: 6000"))
        .await;
    let place = Place::own_file(&world);
    let (mut carrier, mut sink) = place.settler(world.store()).await;
    settle_all(&mut carrier, &mut *sink).await;
    let reader = SqliteReader::new(world.store().ledger_tables().unwrap());
    let empty = World::new(InMemory::new()).await;
    let (store, definitions) = (&**empty.store(), Definitions::default());
    let version = async |number| {
        let found = definitions.version(store, &reader, &first.id, number).await;
        found.unwrap().map(|campaign| campaign.prizes[1].stock)
    };
    assert_eq!(version(1).await, Some(5_000));
    assert_eq!(version(2).await, Some(6_000));
    assert_eq!(version(3).await, None);
    let newest = definitions.newest(store, &reader, &first.id).await.unwrap();
    assert_eq!(newest.unwrap().prizes[1].stock, 6_000);
    let unknown = definitions
        .newest(store, &reader, &campaign_id("unknown"))
        .await;
    assert!(unknown.unwrap().is_none());
}
