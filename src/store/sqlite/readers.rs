//! The connections that read beside the writer.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::faults::unavailable;
use crate::{
    store::{Executed, Result, StoreError},
    trace::{self, Operation},
};

/// Steps of SQLite between two looks at the time.
const STEPS: i32 = 1_000;

/// Connections for reading.
#[derive(Clone)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    returned: Arc<Condvar>,
    /// How long a read may take.
    time_max: Option<Duration>,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self {
            idle: Arc::new(Mutex::new(connections)),
            returned: Arc::default(),
            time_max: None,
        }
    }

    /// The same. A read that takes longer than this is ended, and is `Overloaded`.
    pub(super) fn bounded(connections: Vec<Connection>, time_max: Duration) -> Self {
        Self {
            time_max: Some(time_max),
            ..Self::new(connections)
        }
    }

    /// Reads on one of the connections, in one transaction; waits while all are in use.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let mut lent = Lent {
            db: Some(self.take()),
            readers: self,
        };
        let Some(db) = &mut lent.db else {
            return Err(unavailable(Executed::No, "a reader has failed"));
        };
        let end = self.time_max.map(|time_max| Instant::now() + time_max);
        let is_late = move || end.is_some_and(|end| Instant::now() >= end);
        if end.is_some() {
            db.progress_handler(STEPS, Some(is_late))?;
        }
        db.execute_batch("BEGIN")?;
        let value = match work(db) {
            Err(_) if is_late() => return Err(StoreError::Overloaded),
            value => value?,
        };
        db.execute_batch("COMMIT")?;
        Ok(value)
    }

    fn take(&self) -> Connection {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(db) = idle.pop() {
                return db;
            }
            idle = self
                .returned
                .wait(idle)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads on one of the connections, in one transaction, on a thread that may block.
pub(super) async fn read<T: Send + 'static>(
    readers: &Readers,
    work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
) -> Result<T> {
    let readers = readers.clone();
    let span = trace::for_call(Operation::Reading);
    let read = tokio::task::spawn_blocking(move || readers.with(work))
        .await
        .unwrap_or_else(|_| Err(unavailable(Executed::No, "a reader has failed")));
    if let Some(span) = span {
        span.end(read.as_ref().err().map(StoreError::kind));
    }
    read
}

/// A connection that comes back, whatever becomes of its borrower.
struct Lent<'a> {
    /// Always there until it comes back.
    db: Option<Connection>,
    readers: &'a Readers,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Some(db) = self.db.take() else { return };
        if !db.is_autocommit() {
            // Where this fails, so does the next borrower's `BEGIN`, and it is tried again.
            let _ = db.execute_batch("ROLLBACK");
        }
        let idle = self.readers.idle.lock();
        idle.unwrap_or_else(PoisonError::into_inner).push(db);
        self.readers.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(readers: &Readers, sql: &str) -> Result<i64> {
        readers.with(|db| Ok(db.query_row(sql, [], |row| row.get(0))?))
    }

    #[test]
    fn a_read_that_takes_too_long_is_ended_and_the_next_one_works() {
        let connections = vec![Connection::open_in_memory().unwrap()];
        let readers = Readers::bounded(connections, Duration::from_millis(100));
        let endless = "WITH RECURSIVE all_of(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM all_of)
                       SELECT max(n) FROM all_of";
        for _ in 0..2 {
            let ended = number(&readers, endless);
            assert!(matches!(ended, Err(StoreError::Overloaded)), "{ended:?}");
            assert_eq!(number(&readers, "SELECT 7").unwrap(), 7);
        }
    }
}
