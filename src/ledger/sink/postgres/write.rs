//! The transaction that settles a batch: the cursor first, whose row is locked until the end, then
//! the entries.

use std::pin::pin;

use tokio_postgres::{
    Client, IsolationLevel, Transaction,
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use crate::{
    ledger::{
        activity,
        deliveries::DeliveryChange,
        entry::{StoredEntry, to_system_time},
        sink::{Batch, Cursor, PrizeRow, SinkError},
        wins::Win,
    },
    store::SettledUpTo,
};

/// Writes a batch, unless the cursor is not at `before`.
pub(super) async fn write(
    client: &mut Client,
    before: Option<&Cursor>,
    batch: &Batch,
) -> Result<Option<Cursor>, SinkError> {
    let Some(after) = batch.cursor(before) else {
        return Ok(before.cloned());
    };
    let transaction = client.build_transaction();
    let transaction = transaction.isolation_level(IsolationLevel::ReadCommitted);
    let transaction = transaction.start().await?;
    if !move_cursor(&transaction, before, &after, batch.entries.len()).await? {
        transaction.rollback().await?;
        return Ok(None);
    }
    copy_entries(&transaction, &batch.entries).await?;
    copy_wins(&transaction, &batch.wins).await?;
    change_wins(&transaction, &batch.deliveries).await?;
    add_activity(&transaction, &batch.activity).await?;
    insert_prizes(&transaction, &batch.prizes).await?;
    for (campaign, salt) in &batch.salts {
        let sql = "INSERT INTO tombola.salts (partition, campaign, salt) VALUES ($1, $2, $3)
                   ON CONFLICT DO NOTHING";
        let values: [&(dyn ToSql + Sync); 3] = [&int(batch.partition), campaign, &&salt.0[..]];
        transaction.execute(sql, &values).await?;
    }
    if let Some((first, last)) = batch.orphans {
        insert_orphans(&transaction, batch.partition, first, last).await?;
    }
    transaction.commit().await?;
    Ok(Some(after))
}

/// Notes entries that the store has lost. What it lost before from the same entry on, as after two
/// restores of one backup, has its row already: the new one begins behind it.
async fn insert_orphans(
    transaction: &Transaction<'_>,
    partition: u32,
    mut first: u64,
    last: u64,
) -> Result<(), SinkError> {
    let sql = "SELECT last_sequence FROM tombola.orphans
               WHERE partition = $1 AND first_sequence = $2";
    let known = transaction.prepare(sql).await?;
    let partition = int(partition);
    while let Some(row) = transaction
        .query_opt(&known, &[&partition, &bigint(first)])
        .await?
    {
        first = row.get::<_, i64>(0).cast_unsigned() + 1;
    }
    if first <= last {
        let sql = "INSERT INTO tombola.orphans (partition, first_sequence, last_sequence)
                   VALUES ($1, $2, $3)";
        let values: [&(dyn ToSql + Sync); 3] = [&partition, &bigint(first), &bigint(last)];
        transaction.execute(sql, &values).await?;
    }
    Ok(())
}

/// Moves the cursor, if it is where the batch begins, and locks its row until the transaction ends.
/// Whoever else moves it waits for that, and then finds it elsewhere.
async fn move_cursor(
    transaction: &Transaction<'_>,
    before: Option<&Cursor>,
    after: &Cursor,
    entries: usize,
) -> Result<bool, SinkError> {
    let (partition, entries) = (int(after.partition), entries as i64);
    if before.is_some() {
        // The lock comes first, so that the comparison sees what the settler before has committed.
        let sql = "SELECT next_sequence, fork FROM tombola.cursors WHERE partition = $1 FOR UPDATE";
        let found = transaction.query_opt(sql, &[&partition]).await?;
        let found = found.map(|row| SettledUpTo {
            sequence: row.get::<_, i64>(0).cast_unsigned() - 1,
            fork: row.get(1),
        });
        if found.as_ref() != before.map(|before| &before.up_to) {
            return Ok(false);
        }
    }
    let sql = match before {
        None => {
            "INSERT INTO tombola.cursors
                 (partition, next_sequence, fork, at, format, digest, entries, chain,
                 chain_first, chain_last)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING"
        }
        Some(_) => {
            "UPDATE tombola.cursors SET next_sequence = $2, fork = $3, at = $4, format = $5,
                 digest = $6, entries = entries + $7, settled_at = now(), chain = $8,
                 chain_first = $9, chain_last = $10
             WHERE partition = $1"
        }
    };
    let chain = after.chain.as_ref();
    let values: [&(dyn ToSql + Sync); 10] = [
        &partition,
        &bigint(after.up_to.sequence + 1),
        &after.up_to.fork,
        &to_system_time(after.at),
        &after.format,
        &after.digest,
        &entries,
        &chain.map(|chain| chain.digest.to_vec()),
        &chain.map(|chain| bigint(chain.first)),
        &chain.map(|chain| bigint(chain.last)),
    ];
    Ok(transaction.execute(sql, &values).await? == 1)
}

async fn copy_entries(
    transaction: &Transaction<'_>,
    entries: &[StoredEntry],
) -> Result<(), SinkError> {
    let sql = "COPY tombola.entries (partition, sequence, at, kind, campaign, envelope, user_id,
                   request_id, format, body, number, fork, people) FROM STDIN BINARY";
    let types = [
        Type::INT4,
        Type::INT8,
        Type::TIMESTAMPTZ,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::INT2,
        Type::BYTEA,
        Type::INT8,
        Type::INT4,
        Type::TEXT,
    ];
    let writer = BinaryCopyInWriter::new(transaction.copy_in(sql).await?, &types);
    let mut writer = pin!(writer);
    for entry in entries {
        let values: [&(dyn ToSql + Sync); 13] = [
            &int(entry.partition),
            &bigint(entry.sequence),
            &to_system_time(entry.at),
            &entry.kind,
            &entry.campaign,
            &entry.envelope,
            &entry.user,
            &entry.request,
            &entry.format,
            &entry.body,
            &entry.number.map(bigint),
            &int(entry.fork),
            &entry.people,
        ];
        writer.as_mut().write(&values).await?;
    }
    writer.finish().await?;
    Ok(())
}

async fn copy_wins(transaction: &Transaction<'_>, wins: &[Win]) -> Result<(), SinkError> {
    if wins.is_empty() {
        return Ok(());
    }
    let sql = "COPY tombola.wins (partition, sequence, number, at, campaign, version, user_id,
                   request_id, pool, prize, unit_id, release_at) FROM STDIN BINARY";
    let types = [
        Type::INT4,
        Type::INT8,
        Type::INT2,
        Type::TIMESTAMPTZ,
        Type::TEXT,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TIMESTAMPTZ,
    ];
    let writer = BinaryCopyInWriter::new(transaction.copy_in(sql).await?, &types);
    let mut writer = pin!(writer);
    for win in wins {
        let values: [&(dyn ToSql + Sync); 12] = [
            &int(win.partition),
            &bigint(win.sequence),
            &win.number,
            &to_system_time(win.at),
            &win.campaign,
            &int(win.version),
            &win.user,
            &win.request,
            &win.pool,
            &win.prize,
            &win.unit,
            &win.release.map(to_system_time),
        ];
        writer.as_mut().write(&values).await?;
    }
    writer.finish().await?;
    Ok(())
}

/// A store that was rolled back may have lost an earlier win of the same unit, so the last one
/// before the entry is changed.
async fn change_wins(
    transaction: &Transaction<'_>,
    changes: &[DeliveryChange],
) -> Result<(), SinkError> {
    if changes.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE tombola.wins SET delivery = $1, delivery_at = $2,
                   delivery_reference = COALESCE($3, delivery_reference)
               WHERE campaign = $4 AND unit_id = $5 AND partition = $6 AND sequence = (
                   SELECT max(sequence) FROM tombola.wins
                   WHERE campaign = $4 AND unit_id = $5 AND partition = $6 AND sequence < $7)";
    let statement = transaction.prepare(sql).await?;
    for change in changes {
        let values: [&(dyn ToSql + Sync); 7] = [
            &change.code(),
            &to_system_time(change.at),
            &change.reference,
            &change.campaign,
            &change.unit,
            &int(change.partition),
            &bigint(change.sequence),
        ];
        transaction.execute(&statement, &values).await?;
    }
    Ok(())
}

async fn add_activity(
    transaction: &Transaction<'_>,
    sums: &activity::Sums,
) -> Result<(), SinkError> {
    let sql = "INSERT INTO tombola.activity AS known (campaign, hour, draws, wins, consolations)
               VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT (campaign, hour) DO UPDATE SET draws = known.draws + excluded.draws,
                   wins = known.wins + excluded.wins,
                   consolations = known.consolations + excluded.consolations";
    for ((campaign, hour), counts) in sums {
        let values: [&(dyn ToSql + Sync); 5] = [
            campaign,
            &to_system_time(*hour),
            &bigint(counts.draws),
            &bigint(counts.wins),
            &bigint(counts.consolations),
        ];
        transaction.execute(sql, &values).await?;
    }
    Ok(())
}

async fn insert_prizes(
    transaction: &Transaction<'_>,
    prizes: &[PrizeRow],
) -> Result<(), SinkError> {
    // A version that was lost in a rollback may come again with other contents.
    let sql = "INSERT INTO tombola.prizes (campaign, version, prize, name, stock, value_currency,
                   value_units, value_nanos) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
               ON CONFLICT (campaign, version, prize) DO UPDATE SET name = excluded.name,
                   stock = excluded.stock, value_currency = excluded.value_currency,
                   value_units = excluded.value_units, value_nanos = excluded.value_nanos";
    for prize in prizes {
        let (currency, units, nanos) = match &prize.value {
            Some((currency, units, nanos)) => (Some(currency), Some(units), Some(nanos)),
            None => (None, None, None),
        };
        let values: [&(dyn ToSql + Sync); 8] = [
            &prize.campaign,
            &int(prize.version),
            &prize.prize,
            &prize.name,
            &bigint(prize.stock),
            &currency,
            &units,
            &nanos,
        ];
        transaction.execute(sql, &values).await?;
    }
    Ok(())
}

/// Partitions and versions are far below 2^31.
pub(super) fn int(number: u32) -> i32 {
    number.cast_signed()
}

/// Numbers of entries and quantities are below 2^53.
pub(super) fn bigint(number: u64) -> i64 {
    number.cast_signed()
}
