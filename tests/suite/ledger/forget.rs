//! `tombola user forget` erases what names a user, and nothing else.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use rusqlite::Connection;
use tombola::{
    ledger::{
        SinkError,
        forget::{Change, Erasable, Eraser, Reason, forget},
        read::EntryRow,
    },
    proto::{ForgetUserRequest, ForgetUserResponse, ledger_service_client::LedgerServiceClient},
    store::sqlite::DATABASE_FILE,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    Database,
    audit::{holds, work},
    cut::{When, port_while},
};
use crate::{
    process::{Ended, Server, Start, tombola},
    support::postgres::{PASSWORD, Postgres},
};

/// Where the ledger of a service is settled.
enum Sink {
    Postgres(Database),
    OwnFile(PathBuf),
}

impl Sink {
    /// The options that name it.
    fn options(&self) -> [String; 2] {
        match self {
            Self::Postgres(database) => ["--postgres-url".into(), database.url_text()],
            Self::OwnFile(directory) => ["--data".into(), directory.to_str().unwrap().into()],
        }
    }

    /// The texts that a query gives.
    async fn texts(&self, sql: &str) -> Vec<String> {
        match self {
            Self::Postgres(database) => {
                let rows = database.server.query(&database.name, sql).await;
                rows.iter().map(|row| row.get(0)).collect()
            }
            Self::OwnFile(directory) => {
                let db = Connection::open(directory.join(DATABASE_FILE)).unwrap();
                let sql = sql
                    .replace("tombola.", "")
                    .replace("encode(body, 'escape')", "CAST(body AS TEXT)");
                let mut statement = db.prepare(&sql).unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
        }
    }

    async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(database) => {
                let client = database.server.connect(&database.name).await;
                client.batch_execute(sql).await.unwrap();
            }
            Self::OwnFile(directory) => {
                let db = Connection::open(directory.join(DATABASE_FILE)).unwrap();
                let sql = sql
                    .replace("tombola.", "")
                    .replace("convert_from(body, 'UTF8')", "CAST(body AS TEXT)")
                    .replace("convert_to(", "CAST(")
                    .replace(", 'UTF8')", " AS BLOB)");
                db.execute_batch(&sql).unwrap();
            }
        }
    }

    fn forget(&self, user: &str, more: &[&str]) -> Ended {
        let mut arguments = vec!["user".to_owned(), "forget".into(), user.into()];
        arguments.extend(self.options());
        arguments.extend(more.iter().map(|&it| it.to_owned()));
        Ended::of(&mut tombola(arguments))
    }

    fn audit(&self) -> Ended {
        let mut arguments = vec!["audit".to_owned(), "--without-service".into()];
        arguments.extend(self.options());
        Ended::of(&mut tombola(arguments))
    }
}

/// Every text of the ledger.
const TEXTS: &str = "SELECT coalesce(user_id, '') || ' ' || coalesce(request_id, '') || ' ' ||
                         coalesce(people, '') || ' ' || encode(body, 'escape')
                     FROM tombola.entries
                     UNION ALL
                     SELECT user_id || ' ' || request_id || ' ' || delivery_reference
                     FROM tombola.wins";
const BODIES: &str = "SELECT encode(body, 'escape') FROM tombola.entries ORDER BY sequence";

/// Acts that name the user, alone and with another one, and a delivered win.
async fn more_work(server: &Server) {
    let reason = ["--reason", "for the loyal user-1"];
    let alone = ["grant", "spring", "user-1", "--draws", "1"];
    server.run(&[&alone[..], &reason].concat()).well();
    let both = [
        "block", "spring", "user-1", "user-2", "--reason", "scripted",
    ];
    server.run(&both).well();
    let wins = server
        .run(&["wins", "--campaign", "spring", "--user", "user-1", "--json"])
        .well();
    let wins: serde_json::Value = serde_json::from_str(&wins).unwrap();
    let unit = wins["wins"][0]["unitId"].as_str().unwrap();
    let deliver = ["win", "deliver", "spring", unit, "--reference"];
    server
        .run(&[&deliver[..], &["parcel of user-1"]].concat())
        .well();
}

/// A sink in which another user is erased just after the rows of this one were read.
struct Beside {
    sink: Box<dyn Eraser>,
    other: Option<(Box<dyn Eraser>, &'static str)>,
}

#[async_trait]
impl Eraser for Beside {
    async fn find(&mut self, user: &str) -> Result<(Vec<EntryRow>, u64), SinkError> {
        let found = self.sink.find(user).await?;
        if let Some((mut sink, user)) = self.other.take() {
            forget(&mut *sink, user, &reason()).await.unwrap();
        }
        Ok(found)
    }

    async fn find_later(&mut self) -> Result<Vec<EntryRow>, SinkError> {
        self.sink.find_later().await
    }

    async fn count_wins(&mut self, user: &str) -> Result<u64, SinkError> {
        self.sink.count_wins(user).await
    }

    async fn count_references(&mut self, users: &[String]) -> Result<u64, SinkError> {
        self.sink.count_references(users).await
    }

    async fn write(&mut self, changes: &[Change], reason: &Reason) -> Result<u64, SinkError> {
        self.sink.write(changes, reason).await
    }
}

fn reason() -> Reason {
    Reason {
        operator: "tester".into(),
        text: String::new(),
    }
}

async fn two_users_are_erased_at_once(server: Server, sink: Sink, erasable: Erasable) {
    work(&server).await;
    more_work(&server).await;
    let [option, value] = sink.options();
    holds(&server.run(&["audit", &option, &value]).well());
    let mut beside = Beside {
        sink: erasable.open().await.unwrap(),
        other: Some((erasable.open().await.unwrap(), "user-1")),
    };
    forget(&mut beside, "user-2", &reason()).await.unwrap();
    // The block of both is one entry.
    let left = sink.texts(TEXTS).await;
    for user in ["\"user-1\"", "\"user-2\"", "user-1 ", "user-2 "] {
        let found: Vec<_> = left.iter().filter(|text| text.contains(user)).collect();
        assert!(found.is_empty(), "{user}: {found:?}");
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_erasures_at_once_bring_nobody_back() {
    let (database, data) = (Database::new().await, tempfile::tempdir().unwrap());
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {}", database.url_text()))
        .serve();
    let erasable = Erasable::Database(Box::new(database.url()));
    two_users_are_erased_at_once(server, Sink::Postgres(database), erasable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_erasures_at_once_in_an_embedded_store_bring_nobody_back() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let erasable = Erasable::File(data.path().into());
    two_users_are_erased_at_once(server, Sink::OwnFile(data.path().into()), erasable).await;
}

async fn erases_a_user(server: Server, sink: Sink) {
    work(&server).await;
    more_work(&server).await;
    let [option, value] = sink.options();
    holds(&server.run(&["audit", &option, &value]).well());

    let unknown = sink.forget("user-99", &["--yes"]).well();
    assert!(
        unknown.contains("nothing of user user-99 was found"),
        "{unknown}"
    );
    let before = sink.texts(TEXTS).await;
    let bodies = sink.texts(BODIES).await;
    assert!(before.iter().any(|text| text.contains("user-1")));
    let dry = sink.forget("user-1", &["--dry-run"]).well();
    assert!(dry.contains("would be erased from"), "{dry}");
    sink.forget("user-1", &[])
        .badly(1, &["cannot be undone", "--yes"]);
    assert_eq!(sink.texts(TEXTS).await, before);

    let said = sink
        .forget("user-1", &["--yes", "--reason", "asked for it"])
        .well();
    for word in [
        "is erased from",
        "campaigns: spring",
        "envelopes: 2",
        "What stays",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let after = sink.texts(TEXTS).await;
    let named: Vec<_> = after
        .iter()
        .filter(|text| text.contains("user-1"))
        .collect();
    assert!(named.is_empty(), "{named:#?}");
    let of_another = |texts: &[String]| {
        let texts = texts.iter().filter(|text| text.contains("user-2"));
        texts.count()
    };
    assert_eq!(of_another(&after), of_another(&before));
    assert!(after.iter().any(|text| text.contains("\"scripted\"")));
    assert_eq!(sink.texts(BODIES).await, bodies);
    let erasures = "SELECT operator || ' ' || reason || ' ' || pseudonyms FROM tombola.erasures";
    let erasures = sink.texts(erasures).await;
    assert_eq!(erasures.len(), 1);
    assert!(erasures[0].contains("asked for it") && !erasures[0].contains("user-1"));

    holds(&server.run(&["audit", &option, &value]).well());
    let again = sink.forget("user-1", &["--yes"]).well();
    assert!(
        again.contains("nothing of user user-1 was found"),
        "{again}"
    );
    // Lists show the pseudonym.
    let wins = server.run(&["wins", "--campaign", "spring"]).well();
    assert!(
        !wins.contains("user-1") && wins.contains("user-2"),
        "{wins}"
    );
    drop(server);

    // The limits of an erased user are still checked.
    let list = &erasures[0][erasures[0].find('[').unwrap()..];
    let pseudonyms: Vec<String> = serde_json::from_str(list).unwrap();
    let has_one = pseudonyms
        .iter()
        .map(|it| format!("convert_from(body, 'UTF8') LIKE '%{it}%'"));
    let has_one = has_one.collect::<Vec<_>>().join(" OR ");
    let counts = format!(
        "UPDATE tombola.entries SET body = convert_to(
             replace(convert_from(body, 'UTF8'), '\"paid_today\":', '\"paid_today\":3'), 'UTF8')
         WHERE kind = 'draw' AND ({has_one})"
    );
    sink.execute(&counts).await;
    sink.audit().badly(1, &["does not add up"]);
    let said = sink.audit().stdout;
    assert!(said.contains("NO   no limit was exceeded"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_erased_from_postgres() {
    let database = Database::new().await;
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {}", database.url_text()))
        .serve();
    erases_a_user(server, Sink::Postgres(database)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_erased_from_the_embedded_store_while_it_runs() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    erases_a_user(server, Sink::OwnFile(data.path().into())).await;
}

/// A user with at least two wins, and the units.
fn winner(server: &Server) -> (String, Vec<String>) {
    let wins = server
        .run(&["wins", "--campaign", "spring", "--json"])
        .well();
    let wins: serde_json::Value = serde_json::from_str(&wins).unwrap();
    let mut units = BTreeMap::<String, Vec<String>>::new();
    for win in wins["wins"].as_array().unwrap() {
        let text = |name: &str| win[name].as_str().unwrap().to_owned();
        units
            .entry(text("userId"))
            .or_default()
            .push(text("unitId"));
    }
    let mut winners = units.into_iter().filter(|(_, units)| units.len() >= 2);
    winners.next().unwrap()
}

/// One win of an erased user is delivered, another one is revoked.
async fn erases_what_comes_after_an_erasure(server: Server, sink: Sink) {
    work(&server).await;
    let (user, units) = winner(&server);
    let [option, value] = sink.options();
    // The audit waits until all is settled.
    let audit = || holds(&server.run(&["audit", &option, &value]).well());
    let named = async || {
        let mut texts = sink.texts(TEXTS).await;
        texts.retain(|text| text.contains(&user));
        texts
    };
    audit();
    sink.forget(&user, &["--yes"]).well();
    assert_eq!(named().await, Vec::<String>::new());

    let (unit, reference) = (units[0].as_str(), format!("parcel of {user}"));
    let deliver = ["win", "deliver", "spring", unit, "--reference", &*reference];
    let delivered = server.run(&deliver).well();
    assert!(!delivered.contains("won by user-"), "{delivered}");
    let (unit, reason) = (units[1].as_str(), format!("{user} cheated"));
    let revoke = ["win", "revoke", "spring", unit, "--reason", &*reason];
    server.run(&revoke).well();
    audit();
    // Two entries, and the row of the delivered win.
    let left = named().await;
    assert_eq!(left.len(), 3, "{left:#?}");
    let bodies = sink.texts(BODIES).await;

    let nothing = format!("nothing of user {user} was found");
    let dry = sink.forget(&user, &["--dry-run"]).well();
    let would = "users who were erased before would be erased from 2 entries and 1 win";
    assert!(dry.contains(&nothing) && dry.contains(would), "{dry}");
    let question = "Erase users who were erased before from 2 entries and 1 win?";
    sink.forget(&user, &[]).badly(1, &[question, "--yes"]);
    assert_eq!(named().await, left);
    let done = sink.forget(&user, &["--yes"]).well();
    let are = "users who were erased before are erased from 2 entries and 1 win";
    assert!(done.contains(&nothing) && done.contains(are), "{done}");

    assert_eq!(named().await, Vec::<String>::new());
    assert_eq!(sink.texts(BODIES).await, bodies);
    let states = "SELECT unit_id || ' ' || delivery FROM tombola.wins
                  WHERE delivery > 0 ORDER BY delivery";
    let expected = [format!("{} 1", units[0]), format!("{} 2", units[1])];
    assert_eq!(sink.texts(states).await, expected);
    audit();
    let again = sink.forget(&user, &["--yes"]).well();
    assert!(again.contains(&nothing), "{again}");
    assert!(!again.contains("erased before"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_an_erasure_is_erased_from_postgres() {
    let database = Database::new().await;
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {}", database.url_text()))
        .serve();
    erases_what_comes_after_an_erasure(server, Sink::Postgres(database)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_an_erasure_is_erased_from_the_embedded_store() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    erases_what_comes_after_an_erasure(server, Sink::OwnFile(data.path().into())).await;
}

/// Asks the service to erase a user, or only what it would erase.
async fn forget_by_call(
    server: &Server,
    user: &str,
    dry_run: bool,
) -> Result<ForgetUserResponse, Status> {
    let request = ForgetUserRequest {
        user_id: user.into(),
        dry_run,
        operator: "olga".into(),
        reason: "asked for it".into(),
    };
    let mut ledger = LedgerServiceClient::new(server.connect().await);
    Ok(ledger.forget_user(request).await?.into_inner())
}

async fn erases_by_call(server: Server, sink: Sink) {
    work(&server).await;
    more_work(&server).await;
    // The audit waits until all is settled.
    let [option, value] = sink.options();
    holds(&server.run(&["audit", &option, &value]).well());
    let before = sink.texts(TEXTS).await;
    let dry = forget_by_call(&server, "user-1", true).await.unwrap();
    assert_eq!(sink.texts(TEXTS).await, before);
    let done = forget_by_call(&server, "user-1", false).await.unwrap();
    assert_eq!(done, dry);
    assert!(done.entries > 0 && done.wins > 0, "{done:?}");
    assert_eq!(done.campaign_ids, ["spring"]);
    assert_eq!((done.envelopes, done.entries_of_format_1), (2, 0));
    let after = sink.texts(TEXTS).await;
    assert!(!after.iter().any(|text| text.contains("user-1")));
    let erasures = "SELECT operator || ' ' || reason FROM tombola.erasures";
    assert_eq!(sink.texts(erasures).await, ["olga asked for it"]);
    let again = forget_by_call(&server, "user-1", false).await.unwrap();
    assert_eq!(again, ForgetUserResponse::default());
    holds(&server.run(&["audit", &option, &value]).well());
    let refused = forget_by_call(&server, "", true).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_erases_a_user_from_its_own_file() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    erases_by_call(server, Sink::OwnFile(data.path().into())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_erases_a_user_from_postgres_if_it_has_a_role_for_it() {
    let database = Database::new().await;
    let data = tempfile::tempdir().unwrap();
    let url = database.url_text();
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {url}"))
        .serve();
    let refused = forget_by_call(&server, "user-1", true).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(
        refused.get_details_error_info().unwrap().reason,
        "ERASER_MISSING"
    );
    drop(server);
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {url} --postgres-eraser-url {url}"))
        .serve();
    erases_by_call(server, Sink::Postgres(database)).await;
}

/// No repetition helps against a missing right, so the answer says what to grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_says_which_rights_its_role_lacks_and_erases_nothing() {
    let (database, data) = (Database::new().await, tempfile::tempdir().unwrap());
    let url = database.url_text();
    let eraser = database.server.url("bare_eraser", &database.name);
    let options = format!("--postgres-url {url} --postgres-eraser-url {eraser}");
    let server = Start::on(data.path()).with(&options).serve();
    work(&server).await;
    // The audit waits until all is settled.
    holds(&server.run(&["audit", "--postgres-url", &url]).well());
    let sink = Sink::Postgres(database);
    let role = format!("CREATE ROLE bare_eraser LOGIN PASSWORD '{PASSWORD}'");
    sink.execute(&role).await;
    let before = sink.texts(TEXTS).await;
    for right in [
        "USAGE ON SCHEMA tombola",
        "SELECT ON ALL TABLES IN SCHEMA tombola",
        "UPDATE (user_id, request_id, people) ON tombola.entries",
        "INSERT ON tombola.erasures",
        "UPDATE (user_id, request_id, delivery_reference) ON tombola.wins",
    ] {
        let refused = forget_by_call(&server, "user-1", false).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "before {right}");
        let info = refused.get_details_error_info().unwrap();
        let said = (info.reason.as_str(), info.metadata["executed"].as_str());
        assert_eq!(said, ("ERASER_MISSING", "no"), "{refused:?}");
        let (kind, _) = right.split_once(" ON ").unwrap();
        for words in ["permission denied", kind] {
            assert!(refused.message().contains(words), "{words}: {refused:?}");
        }
        assert_eq!(sink.texts(TEXTS).await, before, "before {right}");
        sink.execute(&format!("GRANT {right} TO bare_eraser")).await;
    }
    let erased = forget_by_call(&server, "user-1", false).await.unwrap();
    assert!(erased.entries > 0 && erased.wins > 0, "{erased:?}");
    let after = sink.texts(TEXTS).await;
    assert!(!after.iter().any(|text| text.contains("user-1")));
}

/// PostgreSQL commits the erasure, and its answer is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_does_not_say_that_nothing_was_erased_if_an_answer_is_lost() {
    let (database, data) = (Database::new().await, tempfile::tempdir().unwrap());
    let (url, is_cut) = (database.url_text(), Arc::new(AtomicBool::new(true)));
    let postgres = database.server.port();
    let (port, _) = port_while(is_cut.clone(), "COMMIT", When::After, postgres).await;
    let eraser = Postgres::url_at(port, "postgres", &database.name);
    let options = format!("--postgres-url {url} --postgres-eraser-url {eraser}");
    let server = Start::on(data.path()).with(&options).serve();
    work(&server).await;
    // The audit waits until all is settled.
    holds(&server.run(&["audit", "--postgres-url", &url]).well());
    let sink = Sink::Postgres(database);
    let is_named = async || {
        let texts = sink.texts(TEXTS).await;
        texts.iter().any(|text| text.contains("user-1"))
    };
    assert!(is_named().await);

    let lost = forget_by_call(&server, "user-1", false).await.unwrap_err();
    let info = lost.get_details_error_info().unwrap();
    let said = (info.reason.as_str(), info.metadata["executed"].as_str());
    assert_eq!(said, ("STORE_UNAVAILABLE", "unknown"), "{lost:?}");
    assert!(!is_named().await);
    is_cut.store(false, Ordering::SeqCst);
    let again = forget_by_call(&server, "user-1", false).await.unwrap();
    assert_eq!(again, ForgetUserResponse::default());
}

#[test]
fn erasing_says_what_it_needs() {
    let ended = Ended::of(&mut tombola(["user", "forget", "user-1"]));
    ended.badly(64, &["--postgres-url", "--data"]);
    let nowhere = ["user", "forget", "user-1", "--data", "/nowhere"];
    Ended::of(&mut tombola(nowhere)).badly(1, &["/nowhere"]);
    // Data that no service of this version has opened yet.
    let data = tempfile::tempdir().unwrap();
    let db = Connection::open(data.path().join(DATABASE_FILE)).unwrap();
    db.execute_batch("CREATE TABLE meta (key TEXT); PRAGMA user_version = 10")
        .unwrap();
    let directory = data.path().to_str().unwrap();
    for command in [
        &["user", "forget", "user-1"][..],
        &["audit", "--without-service"],
    ] {
        let ended = Ended::of(tombola(command).args(["--data", directory]));
        ended.badly(1, &["start `tombola serve` of this version"]);
    }
}
