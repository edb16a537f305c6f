//! The tables, as they are made and brought to this version.

use std::path::Path;

use rusqlite::StatementStatus;

use super::*;

/// The kinds of entries about campaigns and envelopes.
const KINDS: [&str; 9] = [
    "applied",
    "operated",
    "recovered",
    "revoked",
    "refund",
    "draw",
    "grab",
    "delivered",
    "injected",
];

/// A file of the version before the indexes had other conditions.
fn earlier(file: &Path) -> Connection {
    let db = connect(file).unwrap();
    prepare_up_to(&db, BEFORE_LOOKUP).unwrap();
    lookup::build(&db).unwrap();
    prepare_up_to(&db, BEFORE_LISTS).unwrap();
    lists::build(&db).unwrap();
    prepare_up_to(&db, BEFORE_LISTS + 1).unwrap();
    db
}

/// Adds two entries of each kind, one of them with a request id.
fn add_entries(db: &Connection, first: usize) {
    for (index, kind) in KINDS.iter().cycle().take(2 * KINDS.len()).enumerate() {
        let sql =
            "INSERT INTO entries (partition, sequence, at, kind, campaign, request_id, format,
                       body)
                   VALUES (0, ?1, ?1, ?2, 'spring', ?3, 1, x'')";
        let request = (index < KINDS.len()).then_some("request");
        db.execute(sql, params![first + index, kind, request])
            .unwrap();
    }
}

fn rows(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// The instructions of the program that SQLite makes of a statement.
fn opcodes(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("EXPLAIN {sql}")).unwrap();
    let rows = statement.raw_query().mapped(|row| row.get(1));
    rows.map(Result::unwrap).collect()
}

#[test]
fn indexes_with_new_conditions_have_the_rows_that_they_had() {
    const OPERATIONS: &str = "SELECT sql FROM sqlite_schema WHERE name LIKE 'entries_operations_%'
                              ORDER BY name";
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let db = earlier(&file);
    add_entries(&db, 1);
    let other = connect(&file).unwrap();
    let before = rows(&other, OPERATIONS);
    assert!(before[0].contains("kind IN ("), "{before:?}");

    prepare_schema(&db).unwrap();
    let new = connect(&file).unwrap();
    // The second connection still has the conditions of before.
    for (first, db) in [(101, &db), (201, &other), (301, &new)] {
        add_entries(db, first);
        assert_eq!(rows(db, "PRAGMA integrity_check"), ["ok"]);
    }
    let indexed = "SELECT count(*) || '' FROM entries INDEXED BY entries_operations_by_campaign
                   WHERE campaign = 'spring'
                       AND (kind = 'applied' OR kind = 'operated' OR kind = 'recovered'
                           OR kind = 'revoked' OR kind = 'refund' AND request_id IS NOT NULL)";
    for db in [&db, &new] {
        assert_eq!(rows(db, "PRAGMA integrity_check"), ["ok"]);
        assert_eq!(rows(db, indexed), ["36"]);
    }
    let fresh = Connection::open_in_memory().unwrap();
    prepare_schema(&fresh).unwrap();
    assert_eq!(rows(&new, OPERATIONS), rows(&fresh, OPERATIONS));
    assert_eq!(rows(&db, OPERATIONS), rows(&fresh, OPERATIONS));
}

#[test]
fn an_entry_is_settled_without_temporary_tables() {
    let db = Connection::open_in_memory().unwrap();
    prepare_schema(&db).unwrap();
    let entry = "INSERT INTO entries (partition, sequence, at, kind, format, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let win = "INSERT INTO wins (partition, sequence, number, at, campaign, version, user_id,
                   request_id, pool, prize, unit_id)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    for sql in [entry, win] {
        let opcodes = opcodes(&db, sql);
        assert!(opcodes.iter().any(|opcode| opcode == "OpenWrite"));
        let temporary = ["OpenEphemeral", "OpenAutoindex", "OpenPseudo", "SorterOpen"];
        let opened = opcodes
            .iter()
            .find(|opcode| temporary.contains(&opcode.as_str()));
        assert_eq!(opened, None, "{sql}");
    }
}

#[test]
fn statements_are_not_prepared_anew_for_each_limit() {
    let directory = tempfile::tempdir().unwrap();
    let db = connect(&directory.path().join("database")).unwrap();
    prepare_schema(&db).unwrap();
    let sql = "SELECT sequence FROM ledger WHERE sequence > ?1 ORDER BY sequence LIMIT ?2";
    let mut statement = db.prepare(sql).unwrap();
    for limit in 1..5 {
        assert!(!statement.exists([0, limit]).unwrap());
    }
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
}
