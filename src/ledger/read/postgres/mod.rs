//! Reading the ledger in PostgreSQL.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use deadpool::managed::{self, Metrics, Pool, PoolError, RecycleError, RecycleResult, TimeoutType};
use tokio::time::timeout;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

mod rows;

use super::{LedgerReader, ReadError, SettledTo, SettledWin};
use crate::{
    ledger::sink::{PostgresSink, PostgresUrl, SinkError},
    model::CampaignId,
    store::Entry,
};

/// The most connections: lists are short, and PostgreSQL has other work.
const CONNECTIONS_MAX: usize = 4;
/// How long a call waits for a connection that others use.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take until it can be used.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take. PostgreSQL gives up a statement shortly before.
const ANSWER_MAX: Duration = Duration::from_secs(6);

/// Parameters of a statement, with their types.
type Parameters<'a> = Vec<(&'a (dyn ToSql + Sync), Type)>;

/// Reads the ledger in PostgreSQL over a few connections, which are made when they are needed.
pub struct PostgresReader {
    pool: Pool<Manager>,
}

impl PostgresReader {
    /// Of this store's ledger in the database of this URL. Nothing is connected yet.
    pub fn new(url: PostgresUrl, store_id: &str) -> Self {
        let manager = Manager {
            url,
            store_id: store_id.to_owned(),
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .runtime(managed::reexports::Runtime::Tokio1)
            .wait_timeout(Some(WAIT_MAX))
            .create_timeout(Some(2 * CONNECT_MAX))
            .queue_mode(managed::QueueMode::Lifo)
            .build();
        // It fails only for timeouts without a runtime.
        let pool = pool.unwrap_or_else(|error| unreachable!("{error}"));
        Self { pool }
    }

    /// Rows of a statement. It is planned for its parameters each time, so that partitions and
    /// indexes are chosen by them.
    async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, ReadError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        match timeout(ANSWER_MAX, client.query_typed(sql, &parameters)).await {
            Ok(rows) => Ok(rows.map_err(SinkError::from)?),
            Err(_) => {
                // Nobody knows what this connection is doing: it is closed.
                drop(managed::Object::take(client));
                Err(SinkError::TimedOut(ANSWER_MAX).into())
            }
        }
    }
}

/// Makes connections, and drops those that have ended.
struct Manager {
    url: PostgresUrl,
    store_id: String,
}

impl managed::Manager for Manager {
    type Type = Client;
    type Error = SinkError;

    async fn create(&self) -> Result<Client, SinkError> {
        PostgresSink::connect_to_read(&self.url, &self.store_id).await
    }

    async fn recycle(&self, client: &mut Client, _: &Metrics) -> RecycleResult<SinkError> {
        match client.is_closed() {
            true => Err(RecycleError::message("the connection has ended")),
            false => Ok(()),
        }
    }
}

fn no_connection(error: PoolError<SinkError>) -> ReadError {
    match error {
        PoolError::Backend(error) => error.into(),
        PoolError::Timeout(TimeoutType::Wait) => ReadError::Busy,
        // The pool is never closed, and has a runtime and no hooks.
        PoolError::Timeout(_)
        | PoolError::Closed
        | PoolError::NoRuntimeSpecified
        | PoolError::PostCreateHook(_) => SinkError::TimedOut(2 * CONNECT_MAX).into(),
    }
}

#[async_trait]
impl LedgerReader for PostgresReader {
    async fn cursors(&self) -> Result<BTreeMap<u32, SettledTo>, ReadError> {
        let sql = "SELECT partition, next_sequence, fork, at FROM tombola.cursors";
        let found = self.query(sql, Vec::new()).await?;
        Ok(found.iter().map(rows::cursor).collect())
    }

    async fn entries(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let sql = rows::ENTRY_COLUMNS.to_owned()
            + " FROM tombola.entries WHERE partition = $1 AND sequence > $2
               ORDER BY sequence LIMIT $3";
        let (partition, after) = (partition.cast_signed(), after.cast_signed());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: Parameters<'_> = vec![
            (&partition, Type::INT4),
            (&after, Type::INT8),
            (&limit, Type::INT8),
        ];
        let found = self.query(&sql, parameters).await?;
        found.iter().map(rows::entry).collect()
    }

    async fn win(
        &self,
        campaign: &CampaignId,
        unit: &str,
    ) -> Result<Option<SettledWin>, ReadError> {
        // A unit is won once; a store that was rolled back may have lost the earlier of two wins.
        let sql = rows::WIN_COLUMNS.to_owned()
            + " FROM tombola.wins WHERE campaign = $1 AND unit_id = $2
               ORDER BY partition, sequence DESC LIMIT 1";
        let campaign = campaign.as_str();
        let parameters: Parameters<'_> = vec![(&campaign, Type::TEXT), (&unit, Type::TEXT)];
        let found = self.query(&sql, parameters).await?;
        Ok(found.first().map(rows::win))
    }
}
