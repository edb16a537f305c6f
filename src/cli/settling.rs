//! The settler of a server, and what reads what it settles.

use std::sync::Arc;

use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    injector::Injector,
    ledger::{
        PostgresUrl, Settler, Target,
        forget::Erasable,
        read::{LedgerReader, SettledLedger, postgres::PostgresReader, sqlite::SqliteReader},
    },
};

/// What reads the settled ledger, from the same sink as [`Settling`] writes to.
///
/// `erasable` is where users can be erased.
pub(super) fn reader(
    injector: &Injector,
    url: Option<PostgresUrl>,
    erasable: Option<Erasable>,
) -> Option<SettledLedger> {
    let store = injector.store();
    let reader: Arc<dyn LedgerReader> = match url {
        Some(url) => Arc::new(PostgresReader::new(url, &store.info().store_id)),
        None => Arc::new(SqliteReader::new(store.ledger_tables()?)),
    };
    Some(SettledLedger {
        reader,
        wake: Arc::default(),
        erasable,
    })
}

/// The settler of this service, in a task of its own.
pub(super) struct Settling {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Settling {
    /// Starts it, if there is a sink: the database that is named, or else the embedded store's own
    /// file.
    pub(super) fn start(
        injector: &Injector,
        url: Option<PostgresUrl>,
        set: impl FnOnce(Settler) -> Settler,
    ) -> Option<Self> {
        let store = injector.store();
        let target = match url {
            Some(url) => Target::Postgres(Box::new(url)),
            None => Target::Embedded(store.ledger_tables()?),
        };
        let settler = Settler::new(Arc::clone(store), injector.key().clone(), target);
        let settler = set(settler);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(settler.run(async { drop(stopped.await) }));
        Some(Self { stop, task })
    }

    /// Ends it. Its share in the store is dropped then.
    pub(super) async fn end(self) {
        drop(self.stop);
        // A task that panicked has said so in the log.
        drop(self.task.await);
    }
}
