//! Lists, held against the tables whose rows are in them.

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::*;
use crate::store::sqlite::{
    open::{BEFORE_LISTS, SCHEMA_VERSION, prepare_schema},
    search::Search,
};

const CAMPAIGNS: [&str; 4] = ["spring", "summer", "autumn", "winter"];
const PRIZES: [&str; 3] = ["mug", "bag", "car"];

fn open(file: &Path) -> Connection {
    let db = Connection::open(file).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    db
}

/// Writes an entry, without lists: often a draw of the first campaign, rarely one of the last, with
/// up to three wins, or something else.
fn write(db: &Connection, sequence: u64, chance: &mut StdRng) {
    let kind = if chance.random_ratio(1, 20) {
        "injected"
    } else {
        "draw"
    };
    let campaign = [0, 0, 0, 0, 1, 1, 1, 2, 2][chance.random_range(0..9)];
    let campaign = CAMPAIGNS[campaign + usize::from(chance.random_ratio(1, 1_000))];
    let sql = "INSERT INTO entries (partition, sequence, at, kind, campaign, format, body)
               VALUES (0, ?1, ?1 * 10, ?2, ?3, 1, x'')";
    db.execute(sql, params![sequence, kind, campaign]).unwrap();
    let wins = if kind == "draw" {
        chance.random_range(0..4)
    } else {
        0
    };
    for number in 0..wins {
        let prize = PRIZES[chance.random_range(0..50_u8).saturating_sub(47) as usize];
        let sql = "INSERT INTO wins (partition, sequence, number, at, campaign, version, user_id,
                       request_id, pool, prize, unit_id)
                   VALUES (0, ?1, ?2, ?1 * 10, ?3, 1, 'anna', 'request', 'deck', ?4, 'unit')";
        db.execute(sql, params![sequence, number, campaign, prize])
            .unwrap();
    }
}

/// Numbers as the store has them: one after the other, with jumps now and then.
fn numbers(count: usize, chance: &mut StdRng) -> Vec<u64> {
    let mut number = 0;
    let numbers = (0..count).map(|_| {
        number += match chance.random_range(0..3_000) {
            0 => 1 << 32,
            1 => 10_000,
            2..100 => 2,
            _ => 1,
        };
        number
    });
    numbers.collect()
}

fn write_all(db: &Connection, numbers: &[u64], chance: &mut StdRng) {
    let transaction = db.unchecked_transaction().unwrap();
    for number in numbers {
        write(db, *number, chance);
    }
    transaction.commit().unwrap();
}

/// Adds what follows this entry, in batches.
fn add_batches(db: &Connection, numbers: &[u64], chance: &mut StdRng) {
    let mut rest = numbers;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(chance.random_range(1..=200).min(rest.len()));
        let mut additions = Additions::default();
        let in_batch = format!("BETWEEN {} AND {}", batch[0], batch[batch.len() - 1]);
        let sql = format!(
            "SELECT sequence, campaign FROM entries WHERE kind = 'draw' AND sequence {in_batch}"
        );
        let draws: Vec<(u64, String)> = all(db, &sql, |row| Ok((row.get(0)?, row.get(1)?)));
        let sql = format!("SELECT sequence, campaign, prize FROM wins WHERE sequence {in_batch}");
        let wins: Vec<(u64, String, String)> =
            all(db, &sql, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        for (sequence, campaign) in &draws {
            additions.add_draw(*sequence, campaign);
        }
        for (sequence, campaign, prize) in &wins {
            additions.add_win(*sequence, campaign, prize);
        }
        additions.write(db).unwrap();
        rest = later;
    }
}

fn all<T>(
    db: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], read).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

fn number(db: &Connection, sql: &str) -> u64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Each list has what is in the tables, as a whole and in parts.
fn check(db: &Connection, chance: &mut StdRng) {
    let mut lists = vec![
        (List::draws(None), "entries WHERE kind = 'draw'".to_owned()),
        (List::wins(None, None), "wins WHERE true".to_owned()),
    ];
    for campaign in CAMPAIGNS.into_iter().chain(["unknown"]) {
        let is_it = format!("campaign = '{campaign}'");
        let campaign = Some(campaign);
        let draws = format!("entries WHERE kind = 'draw' AND {is_it}");
        lists.push((List::draws(campaign), draws));
        let wins = format!("wins WHERE {is_it}");
        lists.push((List::wins(campaign, None), wins.clone()));
        for prize in PRIZES.into_iter().chain(["unknown"]) {
            let wins = format!("{wins} AND prize = '{prize}'");
            lists.push((List::wins(campaign, Some(prize)), wins));
        }
    }
    for (list, rows) in lists {
        let sql = format!("SELECT DISTINCT sequence FROM {rows} ORDER BY sequence");
        let expected: Vec<u64> = all(db, &sql, |row| row.get(0));
        let found = Search::list(list).all(db).unwrap();
        assert!(found == expected, "{list:?}");
        if expected.is_empty() {
            continue;
        }
        for _ in 0..20 {
            let mut some = || {
                let number = expected[chance.random_range(0..expected.len())];
                number.saturating_add_signed(chance.random_range(-1..=1))
            };
            let (from, to) = (some(), some());
            let wanted = chance.random_range(1..5_000);
            let within = expected.iter().rev().copied();
            let within = within.filter(|number| (from..to).contains(number));
            let part = newest(db, list, (from, to), wanted).unwrap();
            assert!(part == Vec::from_iter(within.take(wanted)), "{list:?}");
        }
    }
}

#[test]
fn lists_have_what_was_added_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(&directory.path().join("database"));
    prepare_schema(&db).unwrap();
    let mut chance = StdRng::seed_from_u64(1);
    let numbers = numbers(20_000, &mut chance);
    for part in numbers.chunks(9_000) {
        write_all(&db, part, &mut chance);
        add_batches(&db, part, &mut chance);
        check(&db, &mut chance);
    }
    // Both forms of blocks occur.
    for (condition, least) in [("=", 10), ("<", 10)] {
        let sql = format!("SELECT count(*) FROM listed WHERE length(entries) {condition} 512");
        assert!(number(&db, &sql) > least, "{condition}");
    }
    let longest = number(&db, "SELECT max(length(entries)) FROM listed");
    assert_eq!(longest, BITS_BYTES as u64);
}

#[test]
fn a_file_of_the_version_before_gets_lists_even_if_that_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("database");
    let mut chance = StdRng::seed_from_u64(2);
    let numbers = numbers(BUILT_AT_ONCE + 1_500, &mut chance);
    let (early, late) = numbers.split_at(BUILT_AT_ONCE + 500);
    let db = open(&file);
    prepare_schema(&db).unwrap();
    // As the version before left it.
    let before = "DROP TABLE listed;
                  CREATE INDEX wins_by_time ON wins (at);
                  CREATE INDEX entries_draws_by_time ON entries (at) WHERE kind = 'draw';
                  UPDATE meta SET value = '20' WHERE key = 'min_reader'; PRAGMA user_version = 20";
    db.execute_batch(before).unwrap();
    write_all(&db, early, &mut chance);
    // It ends after the first part.
    let cut = format!(
        "CREATE TEMP TRIGGER cut BEFORE INSERT ON meta WHEN new.value = '{}'
         BEGIN SELECT RAISE(FAIL, 'cut off'); END",
        early[early.len() - 1]
    );
    db.execute_batch(&cut).unwrap();
    assert!(prepare_schema(&db).is_err());
    assert_eq!(number(&db, "PRAGMA user_version"), BEFORE_LISTS as u64);
    assert!(number(&db, "SELECT count(*) FROM listed") > 0);
    drop(db);
    let db = open(&file);
    // The version before goes on, and adds nothing to lists.
    write_all(&db, late, &mut chance);
    prepare_schema(&db).unwrap();
    check(&db, &mut chance);
    assert_eq!(
        number(&db, "PRAGMA user_version"),
        u64::from(SCHEMA_VERSION)
    );
    let rest = "SELECT count(*) FROM meta WHERE key = 'listed'";
    assert_eq!(number(&db, rest), 0);
    let replaced = serde_json::json!(REPLACED).to_string();
    let sql = "SELECT count(*) FROM sqlite_schema
               WHERE name IN (SELECT value FROM json_each(?1))";
    let left: u64 = db.query_row(sql, [replaced], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn blocks_are_written_as_every_version_has_written_them() {
    let joined = |block, added: &[u16]| joined(block, added).unwrap();
    assert_eq!(joined(Vec::new(), &[1, 2, 259]), [1, 0, 2, 0, 3, 1]);
    assert_eq!(joined(vec![1, 0], &[4_095]), [1, 0, 255, 15]);
    let many: Vec<u16> = (0..256).map(|place| place * 16 + 1).collect();
    let few = joined(Vec::new(), &many[..255]);
    assert_eq!(few.len(), 510);
    for bits in [joined(Vec::new(), &many), joined(few, &many[255..])] {
        assert_eq!(bits, [2, 0].repeat(256));
        assert_eq!(places(&bits).unwrap(), many);
        let more = joined(bits, &[4_094, 4_095]);
        assert_eq!(more.last(), Some(&192));
    }
}

#[test]
fn a_damaged_block_is_neither_read_nor_written() {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(TABLE).unwrap();
    for damaged in [
        "x'00'",
        "x'020001'",
        "x'02000100'",
        "x'0010'",
        "zeroblob(514)",
    ] {
        let sql = format!("INSERT OR REPLACE INTO listed VALUES ('draw', '', '', 7, {damaged})");
        db.execute(&sql, []).unwrap();
        let all = (0, u64::from(u32::MAX));
        newest(&db, List::draws(None), all, 1).expect_err(damaged);
        for number in [7 * BLOCK + 100, 7 * BLOCK + 4_095] {
            let mut additions = Additions::default();
            additions.add_draw(number, "spring");
            additions.write(&db).expect_err(damaged);
        }
    }
}
