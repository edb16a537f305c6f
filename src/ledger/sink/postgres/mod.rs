//! The ledger in PostgreSQL: its tables, and the one transaction that writes entries. Only this
//! module and [`crate::ledger`]'s readers know SQL of PostgreSQL.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use async_trait::async_trait;
use jiff::{Timestamp, Zoned, tz::TimeZone};
use tokio::time::timeout;
use tokio_postgres::{Client, Row, types::ToSql};
use tracing::warn;

mod connect;
mod removed;
mod schema;
mod url;
mod write;

pub use url::{PostgresUrl, UrlError};

use super::{Batch, Cursor, Sink, SinkError};
use crate::{
    chance::Salt,
    ledger::{
        chain::Chain,
        contradiction::Contradiction,
        entry::{from_system_time, to_system_time},
        removed::{RemovedRow, VersionRow},
    },
    model::Moment,
    store::SettledUpTo,
};

/// How long a statement or a transaction may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long the tables may take to change: a later migration may rewrite some.
const MIGRATION_MAX: Duration = Duration::from_secs(6 * 3600);
/// How often the partitions of the coming months are made.
const MONTHS_INTERVAL: Duration = Duration::from_secs(3600);
/// What a connection that only reads begins with.
const ONLY_READ: &str = "
    SET default_transaction_read_only = on;
    SET statement_timeout = '5s';
";
/// Selects all cursors.
pub(in crate::ledger) const CURSORS: &str = "SELECT partition, next_sequence, fork, at, format,
    digest, chain, chain_first, chain_last FROM tombola.cursors";
/// Months that are made ahead.
const MONTHS_AHEAD: i32 = 3;

/// An open connection to the tables of one store's ledger. After an error it is dropped, and what
/// was committed is read from the cursors over a new one.
pub struct PostgresSink {
    client: Client,
    /// Months whose partition is there, or that stay in the default one.
    months: HashSet<Month>,
    months_made: Option<Instant>,
}

/// A year and a month of UTC.
type Month = (i16, i8);

impl PostgresSink {
    /// Makes the tables, or brings them to this version; true if anything was changed.
    ///
    /// # Errors
    /// PostgreSQL is away or refuses, or its tables are of a newer version.
    pub async fn migrate(url: &PostgresUrl) -> Result<bool, SinkError> {
        let mut client = connect::connect(url).await?;
        bounded(MIGRATION_MAX, schema::migrate(&mut client)).await
    }

    /// Connects to the tables, which must be there, and takes them for this store unless they have
    /// another store's ledger.
    ///
    /// # Errors
    /// PostgreSQL is away, keeps less than it commits, or its tables are not this store's or of
    /// another version.
    pub async fn open(url: &PostgresUrl, store_id: &str) -> Result<Self, SinkError> {
        let client = connect::connect(url).await?;
        let work = async {
            schema::check(&client).await?;
            check_durability(&client).await?;
            check_store(&client, store_id).await
        };
        bounded(ANSWER_MAX, work).await?;
        Ok(Self {
            client,
            months: HashSet::new(),
            months_made: None,
        })
    }

    /// A connection that only reads the tables, which must be this store's, if one is named.
    ///
    /// # Errors
    /// PostgreSQL is away, or its tables are not this store's or of another version.
    pub(in crate::ledger) async fn connect_to_read(
        url: &PostgresUrl,
        store_id: Option<&str>,
    ) -> Result<Client, SinkError> {
        let client = connect::connect(url).await?;
        let work = async {
            schema::check(&client).await?;
            client.batch_execute(ONLY_READ).await?;
            match store_id {
                Some(id) => refuse_other_store(&client, id).await,
                None => Ok(()),
            }
        };
        bounded(ANSWER_MAX, work).await?;
        Ok(client)
    }

    /// A connection that may write to the tables, whichever store's they are.
    ///
    /// # Errors
    /// PostgreSQL is away, or its tables are of another version.
    pub(in crate::ledger) async fn connect_to_write(
        url: &PostgresUrl,
    ) -> Result<Client, SinkError> {
        let client = connect::connect(url).await?;
        bounded(ANSWER_MAX, schema::check(&client)).await?;
        Ok(client)
    }

    async fn execute(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), SinkError> {
        let work = async { Ok(self.client.execute(sql, values).await?) };
        bounded(ANSWER_MAX, work).await.map(drop)
    }

    /// Makes the partitions of the months ahead, from time to time, and those of past months that
    /// the batch has entries of. Later months go to the default partition, as do those that cannot
    /// be made now.
    async fn make_months(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut wanted = Vec::new();
        if self
            .months_made
            .is_none_or(|at| at.elapsed() >= MONTHS_INTERVAL)
        {
            self.months_made = Some(Instant::now());
            self.months.clear();
            wanted = months_ahead();
        }
        let now = month_of(from_system_time(SystemTime::now())).0;
        for entry in &batch.entries {
            let (month, start) = month_of(entry.at);
            if self.months.insert(month) && month < now {
                wanted.push(start);
            }
        }
        for start in wanted {
            let sql = "SELECT tombola.make_month($1)";
            let made = bounded(ANSWER_MAX, async {
                Ok(self
                    .client
                    .query_one(sql, &[&to_system_time(start)])
                    .await?)
            });
            match made.await {
                Err(SinkError::Postgres(error)) if !self.client.is_closed() => {
                    warn!(
                        %start,
                        "the month of {start} is not made, its entries go to entries_default: {}",
                        SinkError::Postgres(error)
                    );
                }
                made => drop(made?),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for PostgresSink {
    /// The advisory lock is held until the connection ends. It only saves the work of others: what
    /// keeps entries from being written twice is the cursor's row.
    async fn is_leader(&mut self) -> Result<bool, SinkError> {
        let sql = "SELECT pg_try_advisory_lock(hashtext('tombola.settle'))";
        let row = bounded(ANSWER_MAX, async {
            Ok(self.client.query_one(sql, &[]).await?)
        });
        Ok(row.await?.get(0))
    }

    async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError> {
        let work = async { Ok(self.client.query(CURSORS, &[]).await?) };
        let rows = bounded(ANSWER_MAX, work).await?;
        let cursors = rows.iter().map(read_cursor);
        Ok(cursors.map(|cursor| (cursor.partition, cursor)).collect())
    }

    /// A commit waits for its standbys, and so for all commits before it.
    async fn confirm(&mut self) -> Result<(), SinkError> {
        let sql = "UPDATE tombola.cursors SET settled_at = settled_at";
        let work = async { Ok(self.client.execute(sql, &[]).await?) };
        bounded(ANSWER_MAX, work).await?;
        Ok(())
    }

    async fn write(
        &mut self,
        before: Option<&Cursor>,
        batch: &Arc<Batch>,
    ) -> Result<Option<Cursor>, SinkError> {
        self.make_months(batch).await?;
        bounded(ANSWER_MAX, write::write(&mut self.client, before, batch)).await
    }

    async fn salt(&mut self, partition: u32, campaign: &str) -> Result<Option<Salt>, SinkError> {
        let sql = "SELECT salt FROM tombola.salts WHERE partition = $1 AND campaign = $2";
        let values: [&(dyn ToSql + Sync); 2] = [&partition.cast_signed(), &campaign];
        let work = async { Ok(self.client.query_opt(sql, &values).await?) };
        let row = bounded(ANSWER_MAX, work).await?;
        Ok(row.and_then(|row| row.get::<_, &[u8]>(0).try_into().ok().map(Salt)))
    }

    async fn has_entry(&mut self, partition: u32, sequence: u64) -> Result<bool, SinkError> {
        // If all that was settled up to it was dropped with old months, nobody knows.
        let sql = "SELECT EXISTS (SELECT 1 FROM tombola.entries
                                  WHERE partition = $1 AND sequence = $2)
                   OR NOT EXISTS (SELECT 1 FROM tombola.entries
                                  WHERE partition = $1 AND sequence <= $2)";
        let values: [&(dyn ToSql + Sync); 2] = [&partition.cast_signed(), &sequence.cast_signed()];
        let work = async { Ok(self.client.query_one(sql, &values).await?) };
        Ok(bounded(ANSWER_MAX, work).await?.get(0))
    }

    async fn last_number(&mut self, campaign: &str) -> Result<Option<u64>, SinkError> {
        bounded(ANSWER_MAX, removed::last_number(&self.client, campaign)).await
    }

    async fn keep_removed(
        &mut self,
        campaign: &RemovedRow,
        versions: &[VersionRow],
    ) -> Result<(), SinkError> {
        let kept = removed::keep(&mut self.client, campaign, versions);
        bounded(ANSWER_MAX, kept).await
    }

    async fn quarantine(&mut self, contradiction: &Contradiction) -> Result<(), SinkError> {
        let sql = "INSERT INTO tombola.quarantine (partition, sequence, alarm, detail)
                   VALUES ($1, $2, $3, $4)
                   ON CONFLICT (partition, sequence, alarm) DO UPDATE SET
                       seen_at = now(), detail = excluded.detail, ended_at = NULL";
        let values: [&(dyn ToSql + Sync); 4] = [
            &contradiction.partition.cast_signed(),
            &contradiction.sequence.cast_signed(),
            &contradiction.alarm.name(),
            &contradiction.detail,
        ];
        self.execute(sql, &values).await
    }

    async fn end_quarantine(&mut self, partition: u32) -> Result<(), SinkError> {
        let sql = "UPDATE tombola.quarantine SET ended_at = now()
                   WHERE partition = $1 AND ended_at IS NULL";
        self.execute(sql, &[&partition.cast_signed()]).await
    }
}

/// Waits for an answer for a time that is bounded.
async fn bounded<T>(
    most: Duration,
    work: impl Future<Output = Result<T, SinkError>>,
) -> Result<T, SinkError> {
    timeout(most, work)
        .await
        .unwrap_or(Err(SinkError::TimedOut(most)))
}

/// What is settled is given up by the store, so PostgreSQL must keep what it has committed.
async fn check_durability(client: &Client) -> Result<(), SinkError> {
    for (setting, fault) in [
        ("fsync", "fsync = off"),
        ("full_page_writes", "full_page_writes = off"),
    ] {
        let row = client
            .query_one("SELECT current_setting($1)", &[&setting])
            .await?;
        if row.get::<_, &str>(0) != "on" {
            return Err(SinkError::NotDurable(fault));
        }
    }
    Ok(())
}

/// The tables belong to the store that comes first.
async fn check_store(client: &Client, store_id: &str) -> Result<(), SinkError> {
    client
        .execute(
            "INSERT INTO tombola.meta (key, value) VALUES ('store_id', $1) ON CONFLICT DO NOTHING",
            &[&store_id],
        )
        .await?;
    refuse_other_store(client, store_id).await
}

/// Tables that belong to no store yet are empty.
async fn refuse_other_store(client: &Client, store_id: &str) -> Result<(), SinkError> {
    let sql = "SELECT value FROM tombola.meta WHERE key = 'store_id'";
    let found = client.query_opt(sql, &[]).await?;
    match found.map(|row| row.get::<_, String>(0)) {
        Some(found) if found != store_id => Err(SinkError::OtherStore {
            found,
            store: store_id.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A row of [`CURSORS`].
pub(in crate::ledger) fn read_cursor(row: &Row) -> Cursor {
    let next: i64 = row.get(1);
    Cursor {
        partition: row.get::<_, i32>(0).cast_unsigned(),
        up_to: SettledUpTo {
            sequence: next.cast_unsigned() - 1,
            fork: row.get(2),
        },
        at: from_system_time(row.get(3)),
        format: row.get(4),
        digest: row.get(5),
        chain: read_chain(row),
    }
}

fn read_chain(row: &Row) -> Option<Chain> {
    let bounds = |column| row.get::<_, Option<i64>>(column).map(i64::cast_unsigned);
    Some(Chain {
        digest: row.get::<_, Option<&[u8]>>(6)?.try_into().ok()?,
        first: bounds(7)?,
        last: bounds(8)?,
    })
}

/// The month of a moment, and its first moment.
fn month_of(moment: Moment) -> (Month, Moment) {
    let day = moment.to_timestamp().to_zoned(TimeZone::UTC);
    let start = start_of(&day);
    ((day.year(), day.month()), start)
}

fn start_of(day: &Zoned) -> Moment {
    let first = day.first_of_month().and_then(|first| first.start_of_day());
    Moment::from_timestamp(first.map_or(day.timestamp(), |first| first.timestamp()))
}

/// The first moments of this month and of those ahead.
fn months_ahead() -> Vec<Moment> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let first = start_of(&now).to_timestamp().to_zoned(TimeZone::UTC);
    (0..=MONTHS_AHEAD)
        .filter_map(|months| first.checked_add(jiff::Span::new().months(months)).ok())
        .map(|month| Moment::from_timestamp(month.timestamp()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_at_its_first_moment_in_utc() {
        let moment = |text: &str| Moment::from_timestamp(text.parse().unwrap());
        for (at, year, month, start) in [
            (
                "2026-12-31T23:59:59.999999Z",
                2026,
                12,
                "2026-12-01T00:00:00Z",
            ),
            ("2027-01-01T00:00:00Z", 2027, 1, "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(month_of(moment(at)), ((year, month), moment(start)));
        }
        let ahead = months_ahead();
        assert_eq!(ahead.len(), 4);
        assert!(ahead.iter().all(|&month| month_of(month).1 == month));
        assert!(ahead.is_sorted());
    }
}
