//! The users who may have a row: most users who draw for the first time need no look-up.
//!
//! This is a chain of Bloom filters in memory. Every row that is put adds its user. What the table
//! has from before the start is read in steps, one after each batch; until all of it is read, any
//! user may have a row. Users who are removed stay, which costs a look-up each.

use std::hash::BuildHasher as _;

use foldhash::quality::RandomState;
use rusqlite::{Connection, params};
use tracing::warn;

use super::rows::Key;
use crate::store::{Result, StoreError};

/// Rows of the table that a step reads: they are on a few pages.
const STEP_ROWS: usize = 100;
/// Words of a block, which is a line of the processor's cache.
const BLOCK_WORDS: usize = 8;
/// Users for each block of a full filter: 12 bits for each user, so about one look-up in a hundred
/// finds nothing.
const BLOCK_USERS: usize = 42;
/// Bits of a user, all in one block.
const USER_BITS: usize = 5;
/// Blocks of the first filter (64 KiB) and of the largest (16 MiB). Each is four times as large as
/// the one before; the largest takes all further users, and more and more look-ups are needed.
const BLOCKS_MIN: usize = 1 << 10;
const BLOCKS_MAX: usize = 1 << 18;

/// How far the table is read.
#[derive(Debug, PartialEq, Eq)]
enum Scan {
    /// Up to this key.
    UpTo(Key),
    /// To its end.
    Done,
    /// It could not be read, so any user may have a row.
    Failed,
}

impl Default for Scan {
    fn default() -> Self {
        Self::UpTo(Key::default())
    }
}

/// The users who were added.
#[derive(Default)]
pub(super) struct Seen {
    hasher: RandomState,
    /// Users are added to the last one.
    filters: Vec<Filter>,
    scan: Scan,
}

struct Filter {
    blocks: Vec<[u64; BLOCK_WORDS]>,
    /// How many users were added.
    users: usize,
}

impl Seen {
    /// Adds the user of a key.
    pub(super) fn add(&mut self, key: &Key) {
        let hash = self.hash(key);
        if self.has(hash) {
            return;
        }
        let blocks = match self.filters.last() {
            None => BLOCKS_MIN,
            Some(last) if last.is_full() && last.blocks.len() < BLOCKS_MAX => last.blocks.len() * 4,
            Some(_) => 0,
        };
        if blocks > 0 {
            self.filters.push(Filter {
                blocks: vec![[0; BLOCK_WORDS]; blocks],
                users: 0,
            });
        }
        if let Some(last) = self.filters.last_mut() {
            last.add(hash);
        }
    }

    /// Whether the user of a key may have a row; false if not.
    pub(super) fn may_have(&self, key: &Key) -> bool {
        self.scan != Scan::Done || self.has(self.hash(key))
    }

    /// Adds the users of the next rows of the table, as of the last commit.
    pub(super) fn read_on(&mut self, db: &Connection) {
        if let Scan::UpTo(from) = &self.scan {
            let from = from.clone();
            self.scan = self.read_from(db, from).unwrap_or_else(|error| {
                warn!(%error, "the table of users cannot be read: new users are looked up too");
                Scan::Failed
            });
        }
    }

    fn read_from(&mut self, db: &Connection, from: Key) -> Result<Scan> {
        let (user, request) = from.parts();
        let mut statement = db.prepare_cached(
            "SELECT campaign, user, request FROM users
             WHERE (campaign, user, request) > (?1, ?2, ?3)
             ORDER BY campaign, user, request LIMIT ?4",
        )?;
        let mut rows = statement.query(params![from.campaign, user, request, STEP_ROWS + 1])?;
        let (mut found, mut last) = (0, from.clone());
        while let Some(row) = rows.next()? {
            let (user, request): (Box<str>, Box<str>) = (row.get(1)?, row.get(2)?);
            let key = Key::new(row.get(0)?, &user, &request);
            // A damaged key could make the next step pass over others, or begin again.
            if key <= last || key.parts() != (&*user, &*request) {
                return Err(StoreError::corrupt("a key of a user is damaged"));
            }
            if request.is_empty() {
                self.add(&key);
            }
            found += 1;
            // The row after those of the step only shows that its last one is where it must be.
            if found > STEP_ROWS {
                return Ok(Scan::UpTo(last));
            }
            last = key;
        }
        Ok(Scan::Done)
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one((key.campaign, key.parts().0))
    }

    fn has(&self, hash: u64) -> bool {
        self.filters.iter().rev().any(|filter| filter.has(hash))
    }
}

impl Filter {
    fn is_full(&self) -> bool {
        self.users >= self.blocks.len() * BLOCK_USERS
    }

    fn add(&mut self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in bits(hash) {
            self.blocks[block][word] |= bit;
        }
        self.users += 1;
    }

    fn has(&self, hash: u64) -> bool {
        let block = &self.blocks[self.block(hash)];
        bits(hash).all(|(word, bit)| block[word] & bit != 0)
    }

    /// The block of a user: by the lowest bits, since there are a power of two of them.
    fn block(&self, hash: u64) -> usize {
        hash as usize & (self.blocks.len() - 1)
    }
}

/// The bits of a user as a word of the block and a bit of that word: nine bits of the hash each,
/// from those up that no number of a block needs.
fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..USER_BITS).map(move |index| {
        let bits = hash >> (BLOCKS_MAX.ilog2() as usize + 9 * index);
        ((bits >> 6) as usize % BLOCK_WORDS, 1 << (bits & 63))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Of an empty table.
    fn all_read() -> Seen {
        Seen {
            scan: Scan::Done,
            ..Seen::default()
        }
    }

    fn key(number: usize) -> Key {
        Key::new(1 + number as i64 % 3, &format!("user-{number}"), "")
    }

    #[test]
    fn all_who_were_added_are_found_and_hardly_anybody_else() {
        let mut seen = all_read();
        assert!(!seen.may_have(&key(0)));
        let users = (BLOCKS_MIN + BLOCKS_MIN * 4) * BLOCK_USERS + 20_000;
        for number in 0..users {
            seen.add(&key(number));
        }
        assert_eq!(seen.filters.len(), 3);
        assert!((0..users).all(|number| seen.may_have(&key(number))));
        let others = 20_000;
        let wrong = (users..users + others).filter(|number| seen.may_have(&key(*number)));
        assert!(wrong.count() < others / 20);
        // Users of one name in two campaigns are two users.
        assert!((0..100).any(|number| {
            let other = Key::new(9, key(number).parts().0, "");
            !seen.may_have(&other)
        }));
    }

    #[test]
    fn a_user_who_was_added_takes_no_room_again() {
        let mut seen = Seen::default();
        for _ in 0..3 {
            for number in 0..1_000 {
                seen.add(&key(number));
            }
        }
        assert!(seen.filters[0].users <= 1_000);
        assert!(seen.filters[0].users > 990);
    }

    #[test]
    fn the_largest_filter_takes_all_further_users() {
        let mut seen = all_read();
        seen.filters.push(Filter {
            blocks: vec![[0; BLOCK_WORDS]; BLOCKS_MAX],
            users: BLOCKS_MAX * BLOCK_USERS,
        });
        seen.add(&key(1));
        assert_eq!(seen.filters.len(), 1);
        assert!(seen.may_have(&key(1)));
    }

    #[test]
    fn the_page_on_capacity_says_how_much_memory_this_takes() {
        let sizes = std::iter::successors(Some(BLOCKS_MIN), |blocks| Some(blocks * 4));
        let blocks: usize = sizes.take_while(|blocks| *blocks <= BLOCKS_MAX).sum();
        let mebibytes = (blocks * size_of::<[u64; BLOCK_WORDS]>()) >> 20;
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/capacity.md");
        let page = std::fs::read_to_string(page).unwrap().replace('\n', " ");
        let words = format!("What tells new users from others takes up to {mebibytes} MiB.");
        assert!(page.contains(&words), "docs/capacity.md has no {words:?}");
    }
}
