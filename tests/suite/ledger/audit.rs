//! `tombola audit` finds nothing wrong with a running system, and each row that someone changed.

use rusqlite::Connection;
use tombola::{
    proto::{
        CreateEnvelopeRequest, DrawRequest, Funding, GrabEnvelopeRequest, Split,
        envelope_service_client::EnvelopeServiceClient,
    },
    store::sqlite::DATABASE_FILE,
};

use super::Database;
use crate::process::{Ended, Server, Start, tombola};

/// A schedule, a deck that is dealt anew, and limits.
const CAMPAIGN: &str = "
id: spring
name: Spring
timeZone: Asia/Shanghai
startTime: 2026-11-20T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
limits: {drawsPerDay: 3, paidDrawsPerDay: 40, winsPerUser: 30}
consolation: {id: points, name: Points}
prizes:
  - {id: coupon, name: Coupon, stock: 90000}
  - {id: mug, name: Mug, stock: 5000, countsAsWin: false}
pools:
  - {id: hours, schedule: {perHour: {coupon: 100}}}
  - {id: deck, deck: {size: 10, cards: {mug: 2}, onExhausted: RESHUFFLE}}
";

/// Draws, grants, a pause and envelopes.
pub async fn work(server: &Server) {
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), CAMPAIGN).unwrap();
    server
        .run(&["apply", "-f", file.path().to_str().unwrap()])
        .well();
    server
        .run(&["grant", "spring", "user-1", "--draws", "2"])
        .well();
    let mut lottery = server.lottery().await;
    for number in 0..120 {
        let funding = if number % 3 == 0 {
            Funding::Free
        } else {
            Funding::Paid
        };
        let request = DrawRequest {
            campaign_id: "spring".into(),
            user_id: format!("user-{}", number % 7),
            request_id: format!("request-{number}"),
            count: 1 + number % 3,
            funding: funding.into(),
            ..DrawRequest::default()
        };
        drop(lottery.draw(request).await);
    }
    let mut envelopes = EnvelopeServiceClient::new(server.connect().await);
    for envelope in ["one", "two"] {
        let request = CreateEnvelopeRequest {
            envelope_id: envelope.into(),
            sender_id: "user-1".into(),
            total_minor: 1_000,
            currency: "CNY".into(),
            packets: 5,
            split: Split::Random.into(),
            ..CreateEnvelopeRequest::default()
        };
        envelopes.create_envelope(request).await.unwrap();
        for user in 0..6 {
            let request = GrabEnvelopeRequest {
                envelope_id: envelope.into(),
                user_id: format!("user-{user}"),
            };
            envelopes.grab_envelope(request).await.unwrap();
        }
    }
}

const HOLDS: [&str; 6] = [
    "yes  every unit and every packet has at most one winner",
    "yes  every unit and every amount is accounted for",
    "yes  no limit was exceeded",
    "yes  the entries are complete and in order",
    "yes  no unit was won before its release",
    "yes  what was settled is unchanged",
];

pub fn holds(said: &str) {
    for promise in HOLDS {
        assert!(said.contains(promise), "{said}");
    }
    assert!(
        said.contains("1 campaign compared with the service"),
        "{said}"
    );
}

/// What someone may do to the rows, in SQL of both databases, and a word of what is found. A win is
/// made twice by [`second_win`].
const CHANGES: [(&str, &str, &str); 9] = [
    (
        "a changed body",
        "UPDATE entries SET body = (SELECT body FROM entries e WHERE e.kind = 'draw' AND \
         e.sequence > (SELECT min(sequence) FROM entries WHERE kind = 'draw') ORDER BY sequence \
         LIMIT 1) WHERE sequence = (SELECT min(sequence) FROM entries WHERE kind = 'draw')",
        "NO ",
    ),
    (
        "a changed kind",
        "UPDATE entries SET kind = 'closed' WHERE sequence = (SELECT max(sequence) FROM entries \
         WHERE kind = 'draw')",
        "by its column",
    ),
    (
        "a removed entry",
        "DELETE FROM entries WHERE sequence = (SELECT max(sequence) - 3 FROM entries)",
        "what is between is missing",
    ),
    (
        "the last entry removed",
        "DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)",
        "and the last entry is",
    ),
    (
        "two entries swapped",
        "UPDATE entries SET body = CASE sequence WHEN (SELECT min(sequence) FROM entries WHERE \
         kind = 'draw') THEN (SELECT body FROM entries e WHERE kind = 'draw' ORDER BY sequence \
         DESC LIMIT 1) ELSE (SELECT body FROM entries e WHERE kind = 'draw' ORDER BY sequence \
         LIMIT 1) END WHERE sequence IN (SELECT min(sequence) FROM entries WHERE kind = 'draw' \
         UNION SELECT max(sequence) FROM entries WHERE kind = 'draw')",
        "do not follow",
    ),
    ("a win twice", "", "the rows of its wins"),
    (
        "a win removed",
        "DELETE FROM wins WHERE sequence = (SELECT max(sequence) FROM wins)",
        "the rows of its wins",
    ),
    (
        "a prize changed",
        "UPDATE wins SET prize = 'car' WHERE sequence = (SELECT max(sequence) FROM wins)",
        "the rows of its wins",
    ),
    (
        "a win after the last entry",
        "UPDATE wins SET sequence = sequence + 1000000 WHERE sequence = (SELECT max(sequence) FROM \
         wins)",
        "`wins` has number",
    ),
];

/// What the audit says of changed bytes that nothing else shows.
const DIGEST: &str = "do not have the digest that was kept of them";

/// The statement that makes the last win a second one; its columns differ between versions.
fn second_win(columns: &[String]) -> String {
    let list = columns.join(", ");
    let values: Vec<_> = columns
        .iter()
        .map(|column| match column.as_str() {
            "number" => "number + 50".to_owned(),
            other => other.to_owned(),
        })
        .collect();
    format!(
        "INSERT INTO wins ({list}) SELECT {} FROM wins ORDER BY sequence DESC, number DESC LIMIT 1",
        values.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_of_postgres_finds_every_changed_row() {
    let database = Database::new().await;
    let data = tempfile::tempdir().unwrap();
    let url = database.url_text();
    let server = Start::on(data.path())
        .with(&format!("--postgres-url {url}"))
        .serve();
    work(&server).await;
    holds(&server.run(&["audit", "--postgres-url", &url]).well());
    let json = server
        .run(&["audit", "--postgres-url", &url, "--json"])
        .well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["campaignsCompared"], 1);
    assert_eq!(json["findings"], serde_json::json!([]));
    drop(server);
    let client = database.server.connect(&database.name).await;
    client
        .batch_execute(
            "SET search_path = tombola; CREATE TABLE entries_kept AS TABLE entries; CREATE TABLE \
             wins_kept AS TABLE wins",
        )
        .await
        .unwrap();
    let columns = client
        .query(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = \
             'tombola' AND table_name = 'wins' ORDER BY ordinal_position",
            &[],
        )
        .await
        .unwrap();
    let columns: Vec<String> = columns.iter().map(|row| row.get(0)).collect();
    for (name, change, word) in CHANGES {
        let change = if change.is_empty() {
            second_win(&columns)
        } else {
            change.to_owned()
        };
        let changed = client.execute(&change, &[]).await.unwrap();
        assert!(changed > 0, "{name}");
        found(&["--postgres-url", &url], name, word);
        client
            .batch_execute(
                "TRUNCATE entries, wins; INSERT INTO entries SELECT * FROM entries_kept; INSERT \
                 INTO wins SELECT * FROM wins_kept",
            )
            .await
            .unwrap();
    }
    // A digit of the moment in the bytes, which nothing else depends on.
    let byte = "UPDATE entries SET body = set_byte(body, 21, 48 + (get_byte(body, 21) - 47) % 10)
                WHERE sequence = (SELECT max(sequence) - 2 FROM entries)";
    assert_eq!(client.execute(byte, &[]).await.unwrap(), 1);
    found(&["--postgres-url", &url], "a byte", DIGEST);
    let back = "UPDATE entries e SET body = k.body FROM entries_kept k
                WHERE e.partition = k.partition AND e.sequence = k.sequence";
    client.execute(back, &[]).await.unwrap();
    let again = ["audit", "--postgres-url", &url, "--without-service"];
    let said = Ended::of(&mut tombola(again)).well();
    assert!(!said.contains("digest"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_of_the_embedded_store_finds_every_changed_row() {
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    work(&server).await;
    let directory = data.path().to_str().unwrap();
    holds(&server.run(&["audit", "--data", directory]).well());
    let most = u64::MAX.to_string();
    let patient = ["audit", "--data", directory, "--wait-s", &most];
    holds(&server.run(&patient).well());
    drop(server);
    let file = data.path().join(DATABASE_FILE);
    let db = Connection::open(&file).unwrap();
    let columns: Vec<String> = db
        .prepare("SELECT name FROM pragma_table_info('wins')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    db.execute_batch(
        "CREATE TABLE entries_kept AS SELECT * FROM entries; CREATE TABLE wins_kept AS SELECT * \
         FROM wins",
    )
    .unwrap();
    for (name, change, word) in CHANGES {
        let change = if change.is_empty() {
            second_win(&columns)
        } else {
            change.to_owned()
        };
        assert!(db.execute(&change, []).unwrap() > 0, "{name}");
        found(&["--data", directory], name, word);
        db.execute_batch(
            "DELETE FROM entries; DELETE FROM wins; INSERT INTO entries SELECT * FROM \
             entries_kept; INSERT INTO wins SELECT * FROM wins_kept",
        )
        .unwrap();
    }
    // A digit of the moment in the bytes, which nothing else depends on.
    let byte = "UPDATE entries SET body = CAST(substr(CAST(body AS TEXT), 1, 21) ||
                    (substr(CAST(body AS TEXT), 22, 1) + 1) % 10 ||
                    substr(CAST(body AS TEXT), 23) AS BLOB)
                WHERE sequence = (SELECT max(sequence) - 2 FROM entries)";
    assert_eq!(db.execute(byte, []).unwrap(), 1);
    found(&["--data", directory], "a byte", DIGEST);
    db.execute_batch("DELETE FROM entries; INSERT INTO entries SELECT * FROM entries_kept")
        .unwrap();
    let again = ["audit", "--data", directory, "--without-service"];
    let said = Ended::of(&mut tombola(again)).well();
    assert!(!said.contains("digest"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_says_in_its_json_too_what_it_has_not_compared() {
    const OWN: &str = "
id: own
timeZone: Asia/Shanghai
startTime: 2026-11-20T00:00:00+08:00
endTime: 2026-12-20T00:00:00+08:00
prizes: [{id: mug, stock: 100}]
pools: [{id: chance, personal: {odds: {mug: 10%}}}]
";
    let data = tempfile::tempdir().unwrap();
    let server = Start::on(data.path()).serve();
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), OWN).unwrap();
    let apply = ["apply", "-f", file.path().to_str().unwrap()];
    server.run(&apply).well();
    server.run(&["draw", "own", "ann", "--count", "3"]).well();
    let audit = ["audit", "--data", data.path().to_str().unwrap()];
    let text = server.run(&audit).well();
    assert!(text.contains("not compared with the seed"), "{text}");
    let json = server.run(&[&audit[..], &["--json"]].concat()).well();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["resultsNotCompared"], 1, "{json:#}");
    assert_eq!(json["limitsNotChecked"], 0, "{json:#}");
}

/// The audit ends with 1 and says what it found.
fn found(sink: &[&str], name: &str, word: &str) {
    let arguments = ["audit", "--without-service"].iter().chain(sink);
    let ended = Ended::of(&mut tombola(arguments));
    assert_eq!(ended.code, Some(1), "{name}: {}", ended.stdout);
    assert!(ended.stdout.contains(word), "{name}: {}", ended.stdout);
}

#[test]
fn an_audit_says_what_it_needs() {
    let ended = Ended::of(&mut tombola(["audit"]));
    ended.badly(64, &["--postgres-url", "--data"]);
    let nowhere = ["audit", "--data", "/nowhere", "--without-service"];
    Ended::of(&mut tombola(nowhere)).badly(1, &["/nowhere"]);
}

/// The image sets the variable of the directory for every command, and services may have both.
#[test]
fn an_audit_reads_what_the_command_line_names_whatever_the_variables_say() {
    const CLOSED: &str = "postgres://reader@127.0.0.1:1/ledger";
    let audit = |options: &[&str], variables: &[(&str, &str)]| {
        let arguments = ["audit", "--without-service"].iter().chain(options);
        Ended::of(tombola(arguments).envs(variables.iter().copied()))
    };
    let (data, url) = (
        ("TOMBOLA_DATA", "/nowhere"),
        ("TOMBOLA_POSTGRES_URL", CLOSED),
    );
    for ended in [
        audit(&["--postgres-url", CLOSED], &[data]),
        audit(&[], &[data, url]),
    ] {
        ended.badly(69, &["127.0.0.1:1"]);
    }
    audit(&["--data", "/nowhere"], &[url]).badly(1, &["/nowhere"]);
    let both = ["--data", "/nowhere", "--postgres-url", CLOSED];
    audit(&both, &[]).badly(64, &["--postgres-url", "--data"]);
}
