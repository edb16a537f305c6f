//! `tombola envelope`, and opening a store from before there were envelopes.

use rusqlite::Connection;

use super::Desk;
use crate::{process::Start, support::embedded::WITHOUT_INDEX};

#[test]
fn an_envelope_is_created_grabbed_shown_and_cancelled() {
    let desk = Desk::new();
    let create = "envelope create e --sender boss --total 1000 --currency CNY --packets 4 --ttl 2h \
                  --attribute greeting=luck";
    let output = desk.run(create, &[]).well();
    assert!(output.contains("e: open"), "{output}");
    assert!(output.contains("CNY 10.00"), "{output}");
    let again = desk.run(create, &[]).well();
    assert!(again.contains("by an earlier call"), "{again}");

    let first = desk.json("envelope grab e user-1");
    assert_eq!(first["outcome"], "GRAB_OUTCOME_GRABBED");
    assert_eq!(first["attributes"]["greeting"], "luck");
    assert_eq!(first["durability"], "DURABILITY_EMBEDDED");
    let second = desk.json("envelope grab e user-1");
    assert_eq!(second["outcome"], "GRAB_OUTCOME_ALREADY_GRABBED");
    assert_eq!(second["amountMinor"], first["amountMinor"]);
    assert_eq!(second["ledgerId"], first["ledgerId"]);

    let shown = desk.run("envelope show e", &[]).well();
    for word in ["user-1", "greeting=luck", "commitment", "waiting"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    assert!(
        !shown.contains("\nseed"),
        "not as long as it is open: {shown}"
    );
    let json = desk.json("envelope show e");
    assert_eq!(json["grabs"][0]["userId"], "user-1");
    assert_eq!(json["envelope"]["state"], "ENVELOPE_STATE_OPEN");
    assert_eq!(json["envelope"]["seed"], "");

    desk.run("envelope cancel e", &[]).badly(1, &["--yes"]);
    let output = desk.run("envelope cancel e --yes", &[]).well();
    assert!(output.contains("cancelled"), "{output}");
    let output = desk.run("envelope cancel e --yes", &[]).well();
    assert!(output.contains("nothing was left to cancel"), "{output}");
    let late = desk.run("envelope grab e user-2", &[]).well();
    assert!(late.contains("time is over"), "{late}");
    let json = desk.json("envelope show e");
    assert_eq!(json["envelope"]["refund"]["packets"], 3);
    assert_eq!(json["envelope"]["seed"].as_str().unwrap().len(), 64);

    let stats = desk.run("stats", &[]).well();
    for word in ["CNY", "10.00", "balanced", "(it answers)"] {
        assert!(stats.contains(word), "{word}: {stats}");
    }
    let stats = desk.json("stats");
    assert_eq!(stats["balanced"], true);
    assert_eq!(stats["replicas"][0]["state"], "REPLICA_STATE_READY");
    assert_eq!(stats["lanes"][0]["kind"], "LANE_KIND_WRITES");
    assert_eq!(stats["ledger"]["partitions"].as_array().unwrap().len(), 1);
    assert_eq!(stats["envelopes"][0]["createdMinor"], "1000");
}

#[test]
fn all_problems_of_a_bad_envelope_are_reported() {
    let desk = Desk::new();
    let line = "envelope create e --sender boss --total 3 --currency RMB --packets 4 --ttl 365d \
        --rain 400d";
    let words = ["total_minor", "the yuan is CNY", "ttl", "30 days"];
    desk.run(line, &[]).badly(1, &words);
    let good = "envelope create e --sender boss --currency EUR --packets 4 --total";
    desk.run(good, &["100"]).well();
    let words = ["another envelope", "envelope show"];
    desk.run(good, &["101"]).badly(1, &words);
    let late = "envelope create f --sender s --currency EUR --packets 4 --total 9 --start \
        2020-01-01T00:00:00Z";
    desk.run(late, &[]).badly(1, &["start_time", "too early"]);
    let missing = desk.run("envelope grab none user-1", &["--json"]);
    let missing = missing.badly(1, &["ENVELOPE_NOT_FOUND"]);
    assert!(missing.contains("\"no\""), "{missing}");
    desk.run("envelope show none", &[])
        .badly(1, &["no envelope"]);
    desk.run("envelope grab a{b} user-1", &[])
        .badly(64, &["'{'"]);
}

#[test]
fn an_envelope_for_few_starts_later_and_rains() {
    let desk = Desk::new();
    let list = desk.file("list.txt", "a\nb\n");
    let line = "envelope create e --sender s --total 500 --currency JPY --packets 5 --start +1h \
        --ttl 1h --rain 30m --allow-file";
    let output = desk.run(line, &[&list]).well();
    assert!(output.contains("scheduled"), "{output}");
    let early = desk.run("envelope grab e a", &[]).well();
    assert!(early.contains("starts"), "{early}");
    let other = desk.run("envelope grab e z", &[]).well();
    assert!(other.contains("not on the envelope's list"), "{other}");
    let shown = desk.run("envelope show e", &[]).well();
    assert!(shown.contains("2 users"), "{shown}");
    let empty = desk.file("empty.txt", "\n");
    let line = "envelope create f --sender s --total 500 --currency JPY --packets 5 --allow-file";
    desk.run(line, &[&empty]).badly(1, &["names no user"]);
}

/// Opens a store of schema 1, from before there were envelopes.
#[test]
fn an_older_store_is_brought_up_to_date_with_all_it_has() {
    let mut desk = Desk::with_wheel();
    let drawn = desk.json("draw wheel user-1 --request-id r1");
    desk.server.kill();
    let data = desk.directory.path().join("data");
    let db = Connection::open(data.join("tombola.sqlite3")).unwrap();
    db.execute_batch(WITHOUT_INDEX).unwrap();
    db.execute_batch(
        "DROP TABLE envelopes; DROP TABLE packets; DROP TABLE grabs; DROP TABLE envelope_users;
         DROP TABLE envelope_sums; DROP TABLE removed_envelopes;
         ALTER TABLE ledger DROP COLUMN envelope;
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(db);
    desk.server = Start::on(&data).serve();
    let again = desk.json("draw wheel user-1 --request-id r1");
    assert_eq!(again["results"], drawn["results"]);
    assert_eq!(again["replayed"], true);
    let create = "envelope create e --sender s --total 100 --currency CNY --packets 2";
    desk.run(create, &[]).well();
    desk.run("envelope grab e user-1", &[]).well();
    assert_eq!(desk.json("stats wheel")["balanced"], true);
}
