//! The way into this file for the settled ledger, which is in tables of its own. The store neither
//! reads nor writes these tables; their SQL is in `src/ledger`, except that of their index by ids
//! (`lookup.rs`).

use std::sync::Arc;

use rusqlite::Connection;

use super::{
    inbox::Inbox,
    job::Command,
    readers::{Readers, read},
    settling,
    step::Step,
    submit,
};
use crate::{model::Moment, store::Result};

/// The tables of the settled ledger in the file of an embedded store.
#[derive(Clone)]
pub struct LedgerTables {
    pub(super) inbox: Arc<Inbox>,
    pub(super) readers: Readers,
}

impl LedgerTables {
    /// Reads in one transaction, beside the writer.
    ///
    /// # Errors
    /// Those of `work`, and faults of the file.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
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
