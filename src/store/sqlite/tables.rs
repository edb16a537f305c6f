//! The way into this file for the settled ledger, which is in tables of its own. The store neither
//! reads nor writes these tables; their SQL is in `src/ledger`, except that of what finds their
//! rows (`lookup.rs` and `lists.rs`).

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::{
    faults::unavailable,
    inbox::Inbox,
    job::Command,
    readers::{Readers, read},
    settling,
    step::Step,
    submit,
};
use crate::{
    model::Moment,
    store::{Executed, Result},
};

/// How long a read may take: its caller has 10 seconds.
const READ_TIME_MAX: Duration = Duration::from_secs(8);

/// The tables of the settled ledger in the file of an embedded store.
#[derive(Clone)]
pub struct LedgerTables {
    inbox: Arc<Inbox>,
    readers: Readers,
    /// Turns of reads: those that wait take no thread.
    turns: Arc<Semaphore>,
}

impl LedgerTables {
    /// Reads go over these connections.
    pub(super) fn new(inbox: &Arc<Inbox>, connections: Vec<Connection>) -> Self {
        Self {
            inbox: Arc::clone(inbox),
            turns: Arc::new(Semaphore::new(connections.len())),
            readers: Readers::bounded(connections, READ_TIME_MAX),
        }
    }

    /// Reads in one transaction, beside the writer.
    ///
    /// # Errors
    /// Those of `work`, faults of the file, and `Overloaded` if it takes too long.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else {
            return Err(unavailable(Executed::No, "a reader has failed"));
        };
        let work = move |db: &Connection| {
            let _turn = turn;
            work(db)
        };
        read(&self.readers, work).await
    }

    /// Writes in a transaction that the writer shares with draws. `work` gets the store's clock. It
    /// may run more than once; what counts is its last run.
    ///
    /// # Errors
    /// Those of `work`, of the commit, and of a store that is closed.
    pub async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Connection, Moment) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = Box::new(work);
        submit(&self.inbox, TablesCommand { work, settled: 0 }).await
    }

    /// The same for a batch of settled entries. `settled` is the number of the last one: the store
    /// also gives up a chunk of the entries before it.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn settle<T: Send + 'static>(
        &self,
        settled: u64,
        work: impl Fn(&Connection, Moment) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = Box::new(work);
        submit(&self.inbox, TablesCommand { work, settled }).await
    }
}

type Work<T> = Box<dyn Fn(&Connection, Moment) -> Result<T> + Send>;

struct TablesCommand<T> {
    work: Work<T>,
    /// The last settled entry; 0 to give up nothing.
    settled: u64,
}

impl<T: Send + 'static> Command for TablesCommand<T> {
    type Reply = T;

    fn run(&self, step: &mut Step<'_>) -> Result<T> {
        let reply = (self.work)(step.db, step.now)?;
        if self.settled > 0 {
            settling::trim(step, self.settled)?;
        }
        Ok(reply)
    }
}
