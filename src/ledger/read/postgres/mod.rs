//! Reading the ledger in PostgreSQL.

use std::{collections::BTreeMap, panic, sync::Arc, time::Duration};

use async_trait::async_trait;
use deadpool::managed::{self, Metrics, Pool, PoolError, RecycleError, RecycleResult, TimeoutType};
use tokio::time::timeout;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

pub(in crate::ledger) mod rows;

pub(in crate::ledger) use rows::removed;

use super::{
    EntryQuery, LedgerReader, ReadError, Removed, Rows, SettledTo, SettledWin, WinQuery,
    row::{self, decode},
    sql::{Source, Sql, Value, outside},
};
use crate::{
    ledger::{
        activity::Hour,
        entry::to_system_time,
        removed::RemovedCampaign,
        sink::{PostgresSink, PostgresUrl, SinkError},
        wins::Win,
    },
    model::{Campaign, CampaignId, Moment, RequestId, UserId},
    store::{Entry, view::VersionInfo},
};

/// The most connections: lists are short, and PostgreSQL has other work.
const CONNECTIONS_MAX: usize = 4;
/// How long a call waits for a connection that others use.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take until it can be used.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take. PostgreSQL gives up a statement shortly before.
const ANSWER_MAX: Duration = Duration::from_secs(6);

/// What the names of tables begin with.
pub const SCHEMA: &str = "tombola.";

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
    async fn query(&self, sql: Sql) -> Result<Vec<Row>, ReadError> {
        let client = self.pool.get().await.map_err(no_connection)?;
        // If the caller goes away, PostgreSQL still works on the statement. The connection returns
        // to the pool only after that: statements of others would wait behind it.
        let asked = tokio::spawn(query_on(client, sql));
        match asked.await {
            Ok(rows) => rows,
            Err(error) => panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Rows of a statement, over this connection.
async fn query_on(client: managed::Object<Manager>, sql: Sql) -> Result<Vec<Row>, ReadError> {
    let owned: Vec<_> = sql.values.iter().map(parameter).collect();
    let parameters = owned.iter();
    let parameters = parameters.map(|(value, kind)| (&**value, kind.clone()));
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        parameters.map(|(value, kind)| (value as _, kind)).collect();
    match timeout(ANSWER_MAX, client.query_typed(&sql.text, &parameters)).await {
        Ok(rows) => Ok(rows.map_err(SinkError::from)?),
        Err(_) => {
            // Nobody knows what this connection is doing: it is closed.
            drop(managed::Object::take(client));
            Err(SinkError::TimedOut(ANSWER_MAX).into())
        }
    }
}

/// A parameter and its type.
fn parameter(value: &Value) -> (Box<dyn ToSql + Sync + Send>, Type) {
    match value {
        Value::Text(text) => (Box::new(text.clone()), Type::TEXT),
        Value::Number(number) => (Box::new(*number), Type::INT8),
        Value::Small(number) => (Box::new(*number), Type::INT4),
        Value::Moment(moment) => (Box::new(to_system_time(*moment)), Type::TIMESTAMPTZ),
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
        PostgresSink::connect_to_read(&self.url, Some(&self.store_id)).await
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
        let found = self.query(Sql::cursors(SCHEMA)).await?;
        Ok(found.iter().map(rows::cursor).collect())
    }

    async fn entries(
        &self,
        partition: u32,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, ReadError> {
        let lost = Sql::lost_after(partition, after, SCHEMA);
        let lost = self.query(lost).await?;
        let lost: Vec<_> = lost.iter().map(rows::lost).collect();
        for between in outside(&lost, after) {
            let sql = Sql::entries_between(partition, between, limit, SCHEMA);
            let found = self.query(sql).await?;
            if !found.is_empty() {
                return found.iter().map(rows::entry).map(decode).collect();
            }
        }
        Ok(Vec::new())
    }

    async fn win(
        &self,
        campaign: &CampaignId,
        unit: &str,
    ) -> Result<Option<SettledWin>, ReadError> {
        let found = self
            .query(Sql::win(campaign, unit, Source::Schema(SCHEMA)))
            .await?;
        Ok(found.first().map(rows::win))
    }

    async fn wins(&self, query: &WinQuery) -> Result<Rows<SettledWin>, ReadError> {
        let found = self.query(Sql::wins(query, Source::Schema(SCHEMA))).await?;
        Ok(Rows {
            more: found.len() == query.range.limit,
            rows: found.iter().map(rows::win).collect(),
        })
    }

    async fn draws_of(&self, wins: &[&Win]) -> Result<Vec<Entry>, ReadError> {
        let found = self.query(Sql::draws_of(wins, SCHEMA)).await?;
        found.iter().map(rows::entry).map(decode).collect()
    }

    async fn list(&self, query: &EntryQuery) -> Result<Rows<Entry>, ReadError> {
        let found = self.query(Sql::list(query, Source::Schema(SCHEMA))).await?;
        let found = found.iter().map(rows::entry).collect();
        Rows::of(found, query.range.limit)
    }

    async fn activity(
        &self,
        campaign: &CampaignId,
        between: (Moment, Moment),
    ) -> Result<Vec<Hour>, ReadError> {
        let sql = Sql::activity(campaign, between, SCHEMA);
        let found = self.query(sql).await?;
        Ok(found.iter().map(rows::hour).collect())
    }

    async fn applied(
        &self,
        campaign: &CampaignId,
        version: Option<u32>,
    ) -> Result<Option<Entry>, ReadError> {
        let found = self.query(Sql::applied(campaign, version, SCHEMA)).await?;
        found.first().map(rows::entry).map(decode).transpose()
    }

    async fn draw(
        &self,
        campaign: &CampaignId,
        user: &UserId,
        request: &RequestId,
    ) -> Result<Option<Entry>, ReadError> {
        let sql = Sql::draw((campaign, user), request, Source::Schema(SCHEMA));
        let found = self.query(sql).await?;
        found.first().map(rows::entry).map(decode).transpose()
    }

    async fn removed(&self, which: Removed<'_>) -> Result<Vec<RemovedCampaign>, ReadError> {
        let found = self.query(Sql::removed(which, SCHEMA)).await?;
        found.iter().map(rows::removed).map(row::removed).collect()
    }

    async fn removed_versions(&self, campaign: &CampaignId) -> Result<Vec<VersionInfo>, ReadError> {
        let found = self.query(Sql::removed_versions(campaign, SCHEMA)).await?;
        let columns = found.iter().map(rows::version);
        columns
            .map(|columns| row::version(campaign, columns))
            .collect()
    }

    async fn removed_version(
        &self,
        campaign: &CampaignId,
        version: u32,
    ) -> Result<Option<Arc<Campaign>>, ReadError> {
        let sql = Sql::removed_version(campaign, version, SCHEMA);
        let found = self.query(sql).await?;
        let found = found.first().map(|row| row.get::<_, &[u8]>(0));
        found
            .map(|bytes| row::definition(campaign, bytes))
            .transpose()
    }
}
