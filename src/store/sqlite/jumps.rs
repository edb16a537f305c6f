//! The numbers that forks have passed over: no entry has them, so they do not wait to be settled.

use rusqlite::{Connection, OptionalExtension as _, params};

/// A fork's jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump {
    /// The last entry before the fork.
    base: u64,
    /// The first entry of the fork.
    first: u64,
}

/// The jumps of a store, from the oldest that may not be settled yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Jumps(Vec<Jump>);

impl Jumps {
    /// Reads them.
    pub(super) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT value FROM meta WHERE key = 'jump'";
        let mut statement = db.prepare_cached(sql)?;
        let found = statement.query_row([], |row| row.get::<_, String>(0));
        let text = found.optional()?.unwrap_or_default();
        Ok(Self::parse(&text))
    }

    /// Stores them.
    pub(super) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('jump', ?1)";
        db.prepare_cached(sql)?.execute(params![self.text()])?;
        Ok(())
    }

    /// Adds that of a fork from entry `base` to entry `first`. Those before entry `settled` are
    /// left out from now on.
    pub(super) fn add(&mut self, base: u64, first: u64, settled: u64) {
        self.0.retain(|jump| jump.first > settled);
        self.0.push(Jump { base, first });
    }

    /// The number of entries after `settled`, up to `last`.
    pub(super) fn entries(&self, settled: u64, last: u64) -> u64 {
        let ahead = self.0.iter().filter(|jump| jump.first > settled);
        let passed_over = ahead.map(|jump| jump.first - 1 - jump.base.max(settled));
        last - settled - passed_over.sum::<u64>()
    }

    /// The last entry before each fork and the first one of it, with blanks in between.
    fn text(&self) -> String {
        let jumps = self.0.iter();
        let jumps = jumps.map(|jump| format!("{} {}", jump.base, jump.first));
        jumps.collect::<Vec<_>>().join(" ")
    }

    fn parse(text: &str) -> Self {
        let numbers = text.split(' ').map_while(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        let jumps = numbers.chunks_exact(2).map(|pair| Jump {
            base: pair[0],
            first: pair[1],
        });
        Self(jumps.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_fork_has_passed_over_do_not_wait_to_be_settled() {
        let mut jumps = Jumps::default();
        assert_eq!(jumps.entries(290, 300), 10);
        jumps.add(300, 5_000, 290);
        // 10 entries wait before the fork, and 3 of the fork: 5000, 5001 and 5002.
        assert_eq!(jumps.entries(290, 5_002), 13);
        // The sink had settled what the backup does not have.
        assert_eq!(jumps.entries(320, 5_002), 3);
        assert_eq!(jumps.entries(5_000, 5_002), 2);
        assert_eq!(jumps.entries(5_002, 5_002), 0);
        // It is restored once more before anything was settled.
        jumps.add(5_002, 9_000, 290);
        assert_eq!(jumps.entries(290, 9_000), 14);
        assert_eq!(jumps.entries(5_001, 9_000), 2);
        assert_eq!(Jumps::parse(&jumps.text()), jumps);
        jumps.add(9_000, 20_000, 5_001);
        assert_eq!(jumps.text(), "5002 9000 9000 20000");
    }
}
