use std::fs;

use super::*;
use crate::store::sqlite::{
    lookup,
    open::{BEFORE_LATEST, BEFORE_LOOKUP, prepare_schema, prepare_up_to},
    rows::{Latest, answering, user_row},
};

/// What a store does at random: the finaliser of SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A store of users, and what it must say.
struct World {
    db: Connection,
    changed: Changed,
    waiting: Waiting,
    expected: Rows,
    /// The requests of all draws that count, in their order.
    ledger: Vec<(u64, Key)>,
    /// Those of the open transaction.
    drawn: Vec<(u64, Key)>,
    sequence: u64,
    forgotten: u64,
    campaign: i64,
}

impl World {
    fn new() -> Self {
        let db = Connection::open_in_memory().unwrap();
        prepare_schema(&db).unwrap();
        Self::of(db)
    }

    fn of(db: Connection) -> Self {
        let waiting = Waiting::default();
        Self {
            changed: Changed::load(&db, waiting.clone()).unwrap(),
            waiting,
            db,
            expected: Rows::new(),
            ledger: Vec::new(),
            drawn: Vec::new(),
            sequence: 0,
            forgotten: 0,
            campaign: 1,
        }
    }

    fn reopen(&mut self) {
        self.waiting = Waiting::default();
        self.changed = Changed::load(&self.db, self.waiting.clone()).unwrap();
    }

    /// Draws of random users in a transaction that is still open; what they must leave.
    fn stage(&mut self, dice: &mut Dice, draws: u64) -> Rows {
        self.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut expected = self.expected.clone();
        self.drawn.clear();
        for _ in 0..draws {
            self.sequence += 1;
            let campaign = self.campaign + dice.below(2) as i64;
            let user = format!("u{}", dice.below(60));
            let record = Columns {
                draws: self.sequence,
                more: (dice.below(5) == 0).then(|| "{}".into()),
                ..Columns::default()
            };
            let user = Key::new(campaign, &user, "");
            let before = self.user(&user).and_then(|columns| columns.latest);
            let before = before.filter(|before| before.sequence > self.forgotten);
            // A grant by an operator remembers nothing here.
            let request = (dice.below(8) > 0).then(|| format!("r{}", dice.below(12)));
            let mut columns = Box::new(record.clone());
            columns.latest = match &request {
                Some(request) => Some(Latest {
                    request: request.as_str().into(),
                    sequence: self.sequence,
                }),
                None => before.clone(),
            };
            self.changed.put_user(user.clone(), columns.clone(), before);
            assert_eq!(self.user(&user), Some(columns));
            expected.insert(user.clone(), Row::Record(Box::new(record)));
            if let Some(request) = request {
                let key = Key::new(campaign, user.parts().0, &request);
                self.drawn.push((self.sequence, key.clone()));
                expected.insert(key, Row::Remembered(self.sequence));
            }
        }
        expected
    }

    /// A user's row as the writer sees it.
    fn user(&self, key: &Key) -> Option<Box<Columns>> {
        self.changed.user(&self.db, key).unwrap()
    }

    /// Ends a transaction: it is committed, undone, or it seems to fail and yet counts.
    fn end(&mut self, dice: &mut Dice, expected: Rows) {
        self.changed.flush(&self.db).unwrap();
        match dice.below(8) {
            0 => {
                self.db.execute_batch("ROLLBACK").unwrap();
                self.changed.undo();
                self.changed.catch_up(&self.db).unwrap();
            }
            1 => {
                self.db.execute_batch("COMMIT").unwrap();
                self.changed.undo();
                self.changed.catch_up(&self.db).unwrap();
                self.count_draws(expected);
            }
            _ => self.commit(expected),
        }
    }

    fn commit(&mut self, expected: Rows) {
        self.db.execute_batch("COMMIT").unwrap();
        self.changed.publish();
        self.changed.read_on(&self.db);
        self.count_draws(expected);
    }

    fn count_draws(&mut self, expected: Rows) {
        self.expected = expected;
        self.ledger.append(&mut self.drawn);
    }

    fn forget(&mut self, upto: u64, asks: bool) {
        self.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('forgotten', ?1)";
        self.db.execute(sql, [upto.to_string()]).unwrap();
        let later = self
            .ledger
            .split_off(self.ledger.partition_point(|draw| draw.0 <= upto));
        for (sequence, request) in mem::replace(&mut self.ledger, later) {
            self.changed.forget(request, sequence);
        }
        if asks {
            self.changed.ask();
        }
        self.changed.flush(&self.db).unwrap();
        self.db.execute_batch("COMMIT").unwrap();
        self.changed.publish();
        self.forgotten = upto;
        let is_kept = |row: &Row| !matches!(row, Row::Remembered(entry) if *entry <= upto);
        self.expected.retain(|_, row| is_kept(row));
    }

    /// Ticks at which nothing is forgotten.
    fn rest(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.forget(self.forgotten, true);
        }
    }

    fn remove_campaign(&mut self) {
        let campaign = self.campaign;
        let mut steps = 0;
        while self.changed.remove(&self.db, campaign).unwrap() {
            self.reopen(); // each step leaves less, also in the log
            steps += 1;
            assert!(steps < 100);
        }
        let sql = "DELETE FROM users WHERE campaign = ?1";
        self.db.execute(sql, [campaign]).unwrap();
        self.campaign += 1;
        self.expected.retain(|key, _| key.campaign != campaign);
        let sql = "SELECT COUNT(*) FROM changed_users WHERE campaign = ?1 AND no > 0";
        assert_eq!(self.count(sql, [campaign]), 0);
    }

    /// Changes more users of a campaign than a step of a removal looks through.
    fn change_many(&mut self, campaign: i64) {
        self.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        for number in 0..=SEARCHED_MAX {
            let key = Key::new(campaign, &format!("u{number}"), "");
            self.changed.put(key, Row::Record(Box::default()));
        }
        self.changed.flush(&self.db).unwrap();
        self.db.execute_batch("COMMIT").unwrap();
        self.changed.publish();
    }

    fn count(&self, sql: &str, params: impl rusqlite::Params) -> u64 {
        self.db.query_row(sql, params, |row| row.get(0)).unwrap()
    }

    /// A user's record or a request, wherever it is; none if it is a request that is forgotten.
    fn find(&self, key: &Key) -> Option<Row> {
        let user = Key::new(key.campaign, key.parts().0, "");
        let columns = user_row(&self.db, self.waiting.get(&user), &user).unwrap();
        if *key == user {
            let columns = columns.map(|columns| Columns {
                latest: None,
                ..*columns
            });
            return columns.map(|columns| Row::Record(Box::new(columns)));
        }
        let waiting = self.waiting.get(key);
        let found = columns
            .as_deref()
            .and_then(|user| answering(&self.db, user, waiting, key).unwrap());
        found.map(Row::Remembered)
    }

    /// What a reader knows of some requests that are remembered after its first look.
    fn begin_reads(&self, dice: &mut Dice) -> Vec<(Key, Row, Option<Box<Columns>>)> {
        let is_request = |(key, _): &(&Key, &Row)| !key.parts().1.is_empty();
        let requests = self.expected.iter().filter(is_request);
        let some = requests.filter(|_| dice.below(8) == 0);
        some.map(|(key, row)| {
            let user = Key::new(key.campaign, key.parts().0, "");
            let columns = user_row(&self.db, self.waiting.get(&user), &user).unwrap();
            (key.clone(), row.clone(), columns)
        })
        .collect()
    }

    /// The second looks: what is remembered still is found, whatever has happened since.
    fn end_reads(&self, reads: Vec<(Key, Row, Option<Box<Columns>>)>) {
        for (key, row, columns) in reads {
            if self.expected.get(&key) == Some(&row) {
                let waiting = self.waiting.get(&key);
                let found = columns
                    .as_deref()
                    .and_then(|user| answering(&self.db, user, waiting, &key).unwrap());
                assert_eq!(found.map(Row::Remembered), Some(row), "{key:?}");
            }
        }
    }

    /// Every row is what it must be, for the writer and for readers, and nothing else is found.
    fn check(&self) {
        for (key, row) in &self.expected {
            assert_eq!(self.find(key).as_ref(), Some(row), "{key:?}");
            assert_eq!(self.waiting.get(key), self.changed.get(key));
            if let Row::Record(_) = row {
                assert!(self.user(key).is_some(), "{key:?}");
            }
        }
        let waiting = self
            .waiting
            .read(|rows| rows.keys().cloned().collect::<Vec<_>>());
        for key in waiting.into_iter().chain(self.keys()) {
            assert_eq!(self.find(&key).as_ref(), self.expected.get(&key), "{key:?}");
        }
    }

    /// The users and requests of the table.
    fn keys(&self) -> Vec<Key> {
        let sql = "SELECT campaign, user, request FROM users
                   UNION ALL SELECT campaign, user, latest FROM users WHERE latest IS NOT NULL";
        let mut statement = self.db.prepare_cached(sql).unwrap();
        let keys = statement.query_map([], |row| {
            let (user, request): (String, String) = (row.get(1)?, row.get(2)?);
            Ok(Key::new(row.get(0)?, &user, &request))
        });
        keys.unwrap().collect::<Result<_, _>>().unwrap()
    }
}

#[test]
fn users_are_as_they_were_changed_last_through_rollbacks_and_restarts() {
    for seed in 0..8 {
        let (mut world, mut dice) = (World::new(), Dice(seed));
        let mut reads = Vec::new();
        for _ in 0..150 {
            if dice.below(3) == 0 {
                world.end_reads(reads);
                reads = world.begin_reads(&mut dice);
            }
            match dice.below(20) {
                0 => world.reopen(),
                1 => {
                    let span = world.sequence - world.forgotten;
                    let upto = world.forgotten + dice.below(span + 1);
                    world.forget(upto, dice.below(2) == 0);
                }
                2 if dice.below(3) == 0 => world.remove_campaign(),
                3 if dice.below(3) == 0 => {
                    world.rest(dice.below(12));
                    world.reopen();
                }
                _ => {
                    let draws = dice.below(60);
                    let expected = world.stage(&mut dice, draws);
                    world.end(&mut dice, expected);
                }
            }
            world.check();
            let waiting = world.waiting.read(Rows::len);
            assert!(waiting < 1600, "{waiting}");
        }
        // A store at rest gets to an empty log, and its table has everything.
        world.rest(60);
        assert_eq!(
            world.count("SELECT COUNT(*) FROM changed_users WHERE no > 0", []),
            0
        );
        assert_eq!(world.waiting.read(Rows::len), 0);
        world.check();
        let keys: BTreeSet<_> = world.keys().into_iter().collect();
        assert!(keys.iter().eq(world.expected.keys()));
        let sql = "SELECT COUNT(*) FROM users WHERE sequence <= ?1";
        assert_eq!(world.count(sql, [world.forgotten]), 0);
    }
}

/// A database with a thousand users in the table.
fn with_users(db: &Connection) -> impl Fn(u32) -> Key + use<> {
    let user = |number: u32| Key::new(1, &format!("u{number:04}"), "");
    for number in 0..1000 {
        write_row(db, &user(number), &Row::Record(Box::default()), 0).unwrap();
    }
    user
}

#[test]
fn users_of_before_a_start_are_found_while_the_table_is_read_and_after_that() {
    let db = World::new().db;
    let user = with_users(&db);
    let mut world = World::of(db);
    // If the table is away, a user who is looked up is an error.
    let away = "ALTER TABLE users RENAME TO elsewhere";
    let back = "ALTER TABLE elsewhere RENAME TO users";
    let unknown = |world: &World| {
        world.db.execute_batch(away).unwrap();
        let found = (2000..2100).map(|number| world.changed.user(&world.db, &user(number)));
        let unknown = found.filter(|found| *found == Ok(None)).count();
        world.db.execute_batch(back).unwrap();
        unknown
    };
    for _ in 0..10 {
        assert_eq!(unknown(&world), 0);
        for number in (0..1000).step_by(37) {
            assert!(world.user(&user(number)).is_some());
        }
        world.changed.read_on(&world.db);
    }
    assert!(unknown(&world) > 90);
    assert!((0..1000).all(|number| world.user(&user(number)).is_some()));
    assert_eq!(world.user(&user(3000)), None);
}

#[test]
fn a_damaged_table_of_users_stops_no_batch_and_hides_no_user() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users.sqlite3");
    let db = Connection::open(&file).unwrap();
    prepare_schema(&db).unwrap();
    let user = with_users(&db);
    let [page_bytes, root] = [
        "PRAGMA page_size",
        "SELECT rootpage FROM sqlite_schema WHERE name = 'users'",
    ]
    .map(|sql| db.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap());
    drop(db);
    // The last child of the root becomes a page that is none.
    let mut bytes = fs::read(&file).unwrap();
    let child = (root - 1) * page_bytes + 8;
    let child: [u8; 4] = bytes[child..child + 4].try_into().unwrap();
    let child = (u32::from_be_bytes(child) as usize - 1) * page_bytes;
    bytes[child..child + 8].fill(0xff);
    fs::write(&file, bytes).unwrap();

    let mut world = World::of(Connection::open(&file).unwrap());
    let key = Key::new(1, "a", "");
    for _ in 0..12 {
        world.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        world.changed.put(key.clone(), Row::Record(Box::default()));
        world.changed.flush(&world.db).unwrap();
        // Within the transaction it must read nothing: SQLite commits none that has read damage.
        world.changed.read_on(&world.db);
        world.db.execute_batch("COMMIT").unwrap();
        world.changed.publish();
        world.changed.read_on(&world.db);
    }
    assert!(world.user(&key).is_some());
    // A user of that page is an error, not a new user.
    assert!(world.changed.user(&world.db, &user(999)).is_err());
    assert!(world.user(&user(0)).is_some());
}

#[test]
fn keys_that_are_damaged_end_the_reading_of_users() {
    let db = World::new().db;
    // Without its key, the table has its rows in any order.
    db.execute_batch("DROP TABLE users; CREATE TABLE users (campaign, user, request);")
        .unwrap();
    for (user, request) in [("b\0c", ""), ("a", "")] {
        let sql = "INSERT INTO users (campaign, user, request) VALUES (1, ?1, ?2)";
        db.execute(sql, [user, request]).unwrap();
    }
    let mut world = World::of(db);
    world.changed.read_on(&world.db);
    let unknown = Key::new(1, "x", "");
    assert!(world.changed.user(&world.db, &unknown).is_err());
}

/// Then the table has rows of which the memory of this process says that they wait.
#[test]
fn what_is_forgotten_after_a_commit_that_seemed_to_fail_leaves_the_table() {
    let (mut world, mut dice) = (World::new(), Dice(5));
    let expected = world.stage(&mut dice, 40);
    world.changed.ask(); // a round begins
    world.changed.flush(&world.db).unwrap();
    world.commit(expected);
    let expected = world.stage(&mut dice, 1);
    world.changed.asked = 20; // about half of the rows
    world.changed.flush(&world.db).unwrap();
    world.db.execute_batch("COMMIT").unwrap();
    world.changed.undo();
    world.changed.catch_up(&world.db).unwrap();
    world.count_draws(expected);
    world.forget(world.sequence, false);
    world.reopen();
    world.rest(10);
    world.check();
    let sql = "SELECT COUNT(*) FROM users WHERE request <> '' OR latest IS NOT NULL";
    assert_eq!(world.count(sql, []), 0);
}

/// What was read before the failure is not known yet, so it must be read again.
#[test]
fn a_log_that_cannot_be_read_to_its_end_is_read_again_from_the_last_known_row() {
    let (mut world, mut dice) = (World::new(), Dice(9));
    let expected = world.stage(&mut dice, 40);
    world.changed.flush(&world.db).unwrap();
    world.db.execute_batch("COMMIT").unwrap();
    world.changed.undo(); // the commit seemed to fail
    let sql = "INSERT INTO changed_users (no, campaign, user, request)
               SELECT MAX(no) + 1, 1, CAST(x'ff' AS TEXT), '' FROM changed_users";
    world.db.execute(sql, []).unwrap();
    world.changed.catch_up(&world.db).unwrap_err();
    let sql = "DELETE FROM changed_users WHERE no = (SELECT MAX(no) FROM changed_users)";
    world.db.execute(sql, []).unwrap();
    world.changed.catch_up(&world.db).unwrap();
    world.count_draws(expected);
    world.check();
}

/// A request of the user beside the user's record was not the latest then, and the same request may
/// have come again.
#[test]
fn a_log_of_the_version_before_keeps_all_its_requests() {
    let db = Connection::open_in_memory().unwrap();
    prepare_up_to(&db, BEFORE_LOOKUP).unwrap();
    lookup::build(&db).unwrap();
    prepare_up_to(&db, BEFORE_LATEST).unwrap();
    db.execute_batch(
        "INSERT INTO meta (key, value) VALUES ('forgotten', '10');
         INSERT INTO users (campaign, user, request, sequence, free_today, paid_today, draws,
                            bonus_used, wins)
         VALUES (1, 'anna', '', NULL, 4, 0, 4, 0, 0), (1, 'anna', 'r1', 11, NULL, NULL, NULL, NULL,
                 NULL), (1, 'bert', '', NULL, 1, 0, 4, 0, 0), (1, 'bert', 'r1', 12, NULL, NULL,
                 NULL, NULL, NULL), (1, 'carl', '', NULL, 1, 0, 1, 0, 0);
         INSERT INTO changed_users (no, campaign, user, request, sequence, free_today, paid_today,
                                    draws, bonus_used, wins)
         VALUES (0, 1, 'anna', '', 43, NULL, NULL, NULL, NULL, NULL),
                (40, 1, 'anna', 'r2', 9, 2, 0, 2, 0, 0), (41, 1, 'anna', 'r3', 21, 3, 0, 3, 0, 0),
                (42, 1, 'anna', 'r2', 22, 4, 0, 4, 0, 0), (43, 1, 'anna', 'r4', 23, NULL, NULL,
                 NULL, NULL, NULL), (44, 1, 'carl', '', NULL, 2, 0, 2, 0, 0)",
    )
    .unwrap();
    prepare_schema(&db).unwrap();
    let mut world = World::of(db);
    for _ in 0..2 {
        let draws = |user| world.user(&Key::new(1, user, "")).unwrap().draws;
        assert_eq!((draws("anna"), draws("bert"), draws("carl")), (4, 4, 2));
        let names = ["anna", "bert", "carl"];
        let found = names.map(|user| {
            ["r1", "r2", "r3", "r4"].map(|request| match world.find(&Key::new(1, user, request)) {
                Some(Row::Remembered(sequence)) => sequence,
                _ => 0,
            })
        });
        assert_eq!(found, [[11, 22, 21, 23], [12, 0, 0, 0], [0; 4]]);
        world.reopen();
        world.rest(10);
    }
    assert_eq!(world.waiting.read(Rows::len), 0);
}

#[test]
fn a_log_that_grows_on_is_trimmed_and_few_rows_wait() {
    let (mut world, mut dice) = (World::new(), Dice(7));
    let mut longest = (0, 0);
    for _ in 0..300 {
        let expected = world.stage(&mut dice, 20);
        world.changed.flush(&world.db).unwrap();
        world.commit(expected);
        let log = world.count("SELECT COUNT(*) FROM changed_users WHERE no > 0", []);
        longest = longest.max((log, world.waiting.read(Rows::len)));
    }
    world.check();
    assert!(longest.0 < 3000 && longest.1 < 1500, "{longest:?}");
}

#[test]
fn a_start_reads_no_rows_of_the_log_that_are_in_the_table() {
    let (mut world, mut dice) = (World::new(), Dice(7));
    let mut spared = 0;
    for _ in 0..300 {
        let expected = world.stage(&mut dice, 20);
        world.changed.flush(&world.db).unwrap();
        world.commit(expected);
        let before = world.changed.committed.clone();
        world.reopen();
        world.check();
        let after = &world.changed.committed;
        assert_eq!((after.done, after.last), (before.done, before.last));
        spared = spared.max(after.done - after.first + 1);
    }
    assert!(spared > 200, "{spared}");
    // An earlier version does not write it: then all of the log is read.
    let sql = "UPDATE changed_users SET day = NULL WHERE no = 0";
    world.db.execute(sql, []).unwrap();
    world.reopen();
    world.check();
    let after = &world.changed.committed;
    assert_eq!(after.done, after.first - 1);
}

#[test]
fn a_damaged_table_fails_the_batch_once_and_its_rows_stay_in_the_log() {
    let (mut world, mut dice) = (World::new(), Dice(3));
    let expected = world.stage(&mut dice, 10);
    world.changed.flush(&world.db).unwrap();
    world.commit(expected);
    let rows = world.waiting.read(Rows::len);
    // As a damaged page would, each row fails.
    let key = world.waiting.read(|rows| rows.keys().next().cloned());
    world.changed.stuck.extend(key);
    for _ in 0..4 {
        world.db.execute_batch("BEGIN IMMEDIATE").unwrap();
        world.changed.ask();
        world.changed.flush(&world.db).unwrap();
        world.db.execute_batch("COMMIT").unwrap();
        world.changed.publish();
    }
    assert_eq!(world.waiting.read(Rows::len), 1);
    assert!(rows > 1 && world.count("SELECT COUNT(*) FROM changed_users WHERE no > 0", []) > 1);
    world.check();
    world.reopen();
    world.check();
}

#[test]
fn a_removal_of_many_users_gets_to_its_end_through_restarts() {
    let mut world = World::new();
    world.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..3 * CHUNK_AT_TICK {
        let key = Key::new(world.campaign, &format!("u{number}"), "");
        world.changed.put(key, Row::Record(Box::default()));
    }
    world.changed.flush(&world.db).unwrap();
    world.db.execute_batch("COMMIT").unwrap();
    world.changed.publish();
    world.remove_campaign();
    assert_eq!(world.waiting.read(Rows::len), 0);
}

#[test]
fn removals_that_take_turns_both_come_to_an_end_through_faults() {
    let mut world = World::new();
    world.db.execute_batch("BEGIN IMMEDIATE").unwrap();
    for number in 0..=3 * SEARCHED_MAX {
        let key = Key::new(world.campaign, &format!("u{number}"), "");
        world.changed.put(key, Row::Record(Box::default()));
    }
    world.changed.flush(&world.db).unwrap();
    world.db.execute_batch("COMMIT").unwrap();
    world.changed.publish();
    let (one, other) = (world.campaign + 1, world.campaign + 2);
    let mut steps = 0;
    let mut remove = || {
        let [one, other] = [one, other].map(|it| world.changed.remove(&world.db, it).unwrap());
        world.changed.publish();
        // A command of another campaign fails in each batch that follows.
        world.changed.undo();
        world.changed.catch_up(&world.db).unwrap();
        one || other
    };
    while remove() {
        steps += 1;
        assert!(steps < 10, "they begin anew for ever");
    }
    assert!(steps > 1, "the log has one part only");
}

#[test]
fn a_removal_gets_to_its_end_although_the_log_grows_as_fast_as_it_is_looked_through() {
    let mut world = World::new();
    let (removed, drawn_from) = (world.campaign, world.campaign + 1);
    world.change_many(removed);
    let mut steps = 0;
    while world.changed.remove(&world.db, removed).unwrap() {
        world.change_many(drawn_from);
        steps += 1;
        assert!(steps < 10, "it goes on for ever");
    }
    let sql = "SELECT COUNT(*) FROM changed_users WHERE campaign = ?1 AND no > 0";
    assert_eq!(world.count(sql, [removed]), 0);
    let is_of_removed = |key: &Key| key.campaign == removed;
    assert!(!world.waiting.read(|rows| rows.keys().any(is_of_removed)));
    assert!(world.user(&Key::new(drawn_from, "u0", "")).is_some());
}

/// A round goes on after a restart from the key that it has written down, also if an earlier
/// version wrote it, whose keys had nothing but campaign and name.
#[test]
fn keys_are_in_the_order_of_campaigns_and_names() {
    let users = [
        "",
        "a",
        "ab",
        "b",
        "user-0000000001",
        "user-00000000010",
        "user-00000000011",
        "é",
    ];
    let mut keys = Vec::new();
    for campaign in [0, 1, 256] {
        for user in users {
            for request in ["", "r", "r-1", "request-1"] {
                let name = format!("{user}\0{request}");
                keys.push((Key::new(campaign, user, request), (campaign, name)));
            }
        }
    }
    keys.push((Key::default(), (0, String::new())));
    for (one, name) in &keys {
        for (other, other_name) in &keys {
            assert_eq!(
                one.cmp(other),
                name.cmp(other_name),
                "{name:?}, {other_name:?}"
            );
        }
    }
}
