//! The connections that read beside the writer.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rusqlite::Connection;

use super::faults::unavailable;
use crate::{
    store::{Executed, Result, StoreError},
    trace::{self, Operation},
};

/// Connections for reading.
#[derive(Clone)]
pub(super) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    returned: Arc<Condvar>,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        Self {
            idle: Arc::new(Mutex::new(connections)),
            returned: Arc::default(),
        }
    }

    /// Reads on one of the connections, in one transaction; waits while all are in use.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let lent = Lent {
            db: Some(self.take()),
            readers: self,
        };
        let Some(db) = &lent.db else {
            return Err(unavailable(Executed::No, "a reader has failed"));
        };
        db.execute_batch("BEGIN")?;
        let value = work(db)?;
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
