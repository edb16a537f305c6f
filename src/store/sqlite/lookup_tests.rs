//! The index by ids, held against the tables whose rows it finds.

use std::path::Path;

use super::*;
use crate::{
    model::Moment,
    store::sqlite::{
        open::{BEFORE_LOOKUP, SCHEMA_VERSION, prepare_schema, prepare_up_to},
        search::Search,
    },
};

fn open(file: &Path) -> Connection {
    let db = Connection::open(file).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    db
}

fn prepared(file: &Path) -> Connection {
    let db = open(file);
    prepare_schema(&db).unwrap();
    db
}

/// The user, the request and the unit of an entry of these tests.
fn ids(sequence: u64) -> (String, String, String) {
    let user = format!("user-{}", (sequence % 7).pow(2) % 7);
    let unit = format!("deck:1:{}", sequence % 11);
    (user, format!("request-{sequence}"), unit)
}

/// Writes a draw, without the index. Each second draw wins.
fn write(db: &Connection, sequence: u64) {
    let (user, request, unit) = ids(sequence);
    let sql = "INSERT INTO entries (partition, sequence, at, kind, campaign, user_id, request_id,
                   format, body)
               VALUES (0, ?1, ?1 / 10 * 10, 'draw', 'spring', ?2, ?3, 1, x'')";
    db.execute(sql, params![sequence, user, request]).unwrap();
    if sequence.is_multiple_of(2) {
        let sql = "INSERT INTO wins (partition, sequence, number, at, campaign, version, user_id,
                       request_id, pool, prize, unit_id)
                   VALUES (0, ?1, 0, ?1, 'spring', 1, ?2, ?3, 'deck', 'mug', ?4)";
        db.execute(sql, params![sequence, user, request, unit])
            .unwrap();
    }
}

fn write_and_insert(db: &Connection, sequences: impl Iterator<Item = u64>) {
    let transaction = db.unchecked_transaction().unwrap();
    for sequence in sequences {
        write(db, sequence);
        insert(db, sequence, &Terms::read(db, sequence).unwrap().text()).unwrap();
    }
    merge(db, 200).unwrap();
    transaction.commit().unwrap();
}

fn numbers(db: &Connection, sql: &str) -> Vec<u64> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

fn count(db: &Connection, sql: &str) -> u64 {
    numbers(db, sql)[0]
}

/// Everything is found, and nothing else.
fn check(db: &Connection, last: u64) {
    let find = |term| Search::new([term]).all(db).unwrap();
    for user in 0..8 {
        let user = format!("user-{user}");
        let sql = format!(
            "SELECT sequence FROM entries WHERE user_id = '{user}'
             UNION SELECT sequence FROM wins WHERE user_id = '{user}' ORDER BY 1"
        );
        assert_eq!(find(Term::user(&user)), numbers(db, &sql), "{user}");
    }
    for number in 0..12 {
        let unit = format!("deck:1:{number}");
        let sql = format!("SELECT sequence FROM wins WHERE unit_id = '{unit}' ORDER BY 1");
        let found = find(Term::unit("spring", &unit));
        assert_eq!(found, numbers(db, &sql), "{unit}");
        assert!(find(Term::unit("autumn", &unit)).is_empty());
    }
    for sequence in [1, last / 2, last] {
        assert_eq!(find(Term::request(&ids(sequence).1)), [sequence]);
    }
    assert!(find(Term::request("request-0")).is_empty());
    let check = "INSERT INTO lookup (lookup) VALUES ('integrity-check')";
    db.execute(check, []).unwrap();
}

#[test]
fn what_is_inserted_is_found_and_its_runs_stay_few() {
    let directory = tempfile::tempdir().unwrap();
    let db = prepared(&directory.path().join("database"));
    let (mut last, mut runs) = (0, 0);
    for batch in 1..=1500 {
        let next = last + 1 + batch % 30;
        write_and_insert(&db, last + 1..=next);
        last = next;
        runs = runs.max(count(&db, "SELECT count(DISTINCT segid) FROM lookup_idx"));
    }
    assert!((5..40).contains(&runs), "{runs}");
    check(&db, last);
    let many = (1..500).map(|number| Term::unit(&format!("campaign-{number}"), "deck:1:3"));
    let many = many.chain([Term::unit("spring", "deck:1:3")]);
    assert_eq!(
        Search::new(many).all(&db).unwrap().len() as u64,
        last / 22 + 1
    );
    assert!(Search::new([]).all(&db).unwrap().is_empty());
}

#[test]
fn a_search_in_a_part_of_the_ledger_finds_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let db = prepared(&directory.path().join("database"));
    let moment = |at| Some(Moment::from_micros(at));
    let all = || Search::new((0..7).map(|user| Term::user(&format!("user-{user}"))));
    let empty = all().between(&db, moment(0), moment(5)).unwrap();
    assert!(empty.all(&db).unwrap().is_empty());
    // A fork, as after a restored backup.
    write_and_insert(&db, (1..=500).chain(1 << 32..(1 << 32) + 3));
    for (from, to, expected) in [
        (
            None,
            None,
            (1..=500).chain(1 << 32..(1 << 32) + 3).collect(),
        ),
        (moment(30), moment(50), (30..50).collect::<Vec<u64>>()),
        (moment(31), moment(50), (40..50).collect()),
        (
            moment(490),
            None,
            (490..=500).chain(1 << 32..(1 << 32) + 3).collect(),
        ),
        (None, moment(501), (1..=500).collect()),
        (moment(1 << 40), None, vec![]),
        (moment(60), moment(60), vec![]),
        (moment(60), moment(40), vec![]),
    ] {
        let search = all().between(&db, from, to).unwrap();
        assert_eq!(search.all(&db).unwrap(), expected, "{from:?} {to:?}");
    }
    let mut search = all().before(300);
    let mut next = |wanted| search.next(&db, wanted).unwrap();
    assert_eq!(next(200), Vec::from_iter((100..300).rev()));
    assert_eq!(next(3), [99, 98, 97]);
    assert_eq!(next(usize::MAX), Vec::from_iter((1..97).rev()));
    assert!(next(1).is_empty());
    assert!(next(1).is_empty());
}

#[test]
fn nothing_is_left_of_what_an_entry_was_found_by() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let db = prepared(&file);
    // So that freed pages are not searched, only what the index itself keeps.
    db.execute_batch("PRAGMA secure_delete = ON").unwrap();
    for batch in 0..20 {
        write_and_insert(&db, batch * 50 + 1..=batch * 50 + 50);
    }
    let of_user = Search::new([Term::user("user-2")]).all(&db).unwrap();
    let transaction = db.unchecked_transaction().unwrap();
    for sequence in &of_user {
        change(&db, *sequence, || {
            let sql = "UPDATE entries SET user_id = NULL, request_id = NULL WHERE sequence = ?1";
            db.execute(sql, [sequence])?;
            db.execute(
                "UPDATE wins SET user_id = 'user-7' WHERE sequence = ?1",
                [sequence],
            )
        })
        .unwrap();
    }
    transaction.commit().unwrap();
    let sql = "SELECT sequence FROM wins WHERE user_id = 'user-7' ORDER BY 1";
    let with_wins = numbers(&db, sql);
    assert!(!with_wins.is_empty() && with_wins.len() < of_user.len());
    assert_eq!(
        Search::new([Term::user("user-7")]).all(&db).unwrap(),
        with_wins
    );
    assert!(
        Search::new([Term::user("user-2")])
            .all(&db)
            .unwrap()
            .is_empty()
    );
    assert!(
        Search::new([Term::request(&ids(of_user[0]).1)])
            .all(&db)
            .unwrap()
            .is_empty()
    );
    db.execute_batch(
        "INSERT INTO lookup (lookup) VALUES ('integrity-check'); PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap();
    let bytes = std::fs::read(file).unwrap();
    // Pages have the end of a term: its beginning is that of the one before.
    let is_there = |term: &Term| {
        let text = term.to_string();
        let end = &text.as_bytes()[6..];
        bytes.windows(end.len()).any(|window| window == end)
    };
    assert!(is_there(&Term::user("user-1")) && is_there(&Term::request("request-1")));
    assert!(!is_there(&Term::user("user-2")));
    for sequence in of_user {
        assert!(!is_there(&Term::request(&ids(sequence).1)), "{sequence}");
    }
}

#[test]
fn a_file_that_has_the_index_keeps_it_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let db = open(&file);
    prepare_up_to(&db, BEFORE_LOOKUP).unwrap();
    build(&db).unwrap();
    prepare_up_to(&db, BEFORE_LOOKUP + 1).unwrap();
    write_and_insert(&db, 1..=300);
    prepare_schema(&db).unwrap();
    check(&db, 300);
}

#[test]
fn pages_of_the_indexes_that_it_replaces_hold_no_ids_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let holds_ids = || {
        let bytes = std::fs::read(&file).unwrap();
        bytes.windows(9).any(|window| window == b"request-1")
    };
    let db = open(&file);
    prepare_up_to(&db, BEFORE_LOOKUP).unwrap();
    let transaction = db.unchecked_transaction().unwrap();
    (1..=500).for_each(|sequence| write(&db, sequence));
    transaction.commit().unwrap();
    checkpoint(&db).unwrap();
    assert!(holds_ids());
    prepare_schema(&db).unwrap();
    // Nothing is left of rows that are deleted so: only pages of the indexes could hold ids.
    db.execute_batch("PRAGMA secure_delete = ON; DELETE FROM wins; DELETE FROM entries;")
        .unwrap();
    checkpoint(&db).unwrap();
    assert!(!holds_ids());
}

#[test]
fn a_file_of_the_version_before_gets_the_index_even_if_that_is_cut_off() {
    is_upgraded(false);
}

#[test]
fn the_index_is_built_anew_if_a_user_was_erased_meanwhile() {
    is_upgraded(true);
}

fn is_upgraded(is_erased: bool) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let db = open(&file);
    prepare_up_to(&db, BEFORE_LOOKUP).unwrap();
    let last = BUILT_AT_ONCE as u64 + 500;
    let transaction = db.unchecked_transaction().unwrap();
    (1..=last).for_each(|sequence| write(&db, sequence));
    transaction.commit().unwrap();
    drop(db);
    let db = open(&file);
    // It ends after the first part.
    let later = "CREATE TEMP TRIGGER cut BEFORE INSERT ON meta WHEN new.value = '20500 0'
                 BEGIN SELECT RAISE(FAIL, 'cut off'); END";
    db.execute_batch(later).unwrap();
    assert!(build(&db).is_err());
    assert_eq!(count(&db, "PRAGMA user_version"), 17);
    drop(db);
    if is_erased {
        // The version before erases a user.
        let erasure = "UPDATE entries SET user_id = NULL, request_id = NULL
                           WHERE user_id = 'user-2' AND sequence < 20000;
                       UPDATE wins SET user_id = 'user-7'
                           WHERE user_id = 'user-2' AND sequence < 20000;
                       INSERT INTO erasures VALUES (1, 1, 'anna', '', '[]', 1, 1)";
        open(&file).execute_batch(erasure).unwrap();
    }
    let db = prepared(&file);
    assert_eq!(count(&db, "PRAGMA user_version"), u64::from(SCHEMA_VERSION));
    assert_eq!(
        count(&db, "SELECT count(*) FROM meta WHERE key = 'looked_up'"),
        0
    );
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE name IN ('entries_by_user',
                       'entries_draws_by_request', 'wins_by_user', 'wins_by_unit')";
    assert_eq!(count(&db, indexes), 0);
    check(&db, last);
    write_and_insert(&db, last + 1..=last + 10);
    check(&db, last + 10);
}

#[test]
fn terms_are_written_as_every_version_has_written_them() {
    let terms = [
        (Term::user("user-1"), "uc6c289e49e9c"),
        (Term::request("request-1"), "r19f1064b619d"),
        (Term::unit("spring", "deck:1:3"), "wd1f5fd589676"),
    ];
    for (term, text) in terms {
        assert_eq!(term.to_string(), text);
    }
}
