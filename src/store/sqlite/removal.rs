//! The end of a campaign's data. Its row in `campaigns` stays as the tombstone of its id.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    SqliteStore,
    columns::{PARTITION, moment},
    job::Command,
    proposals, settling,
    step::Step,
};
use crate::{
    model::{CampaignId, Moment},
    store::{
        ClosedCampaign, Refusal, RemovalFence, RemovalStore, Result, StoreError,
        removal::REMOVED_FIELDS_MAX,
    },
};

/// The tables of campaigns, except `operations`, with their keys apart from the campaign's number.
/// Definitions go last.
const TABLES: [(&str, &str); 11] = [
    ("units", "pool, prize, score, window, number"),
    ("queues", "pool, prize"),
    ("windows", "pool, start"),
    ("window_wins", "pool, window, prize"),
    ("pools", "pool"),
    ("stock", "prize"),
    ("codes", "prize, block"),
    ("users", "user, request"),
    ("deliveries", "pool, window, number, fork"),
    ("blocked", "user"),
    ("versions", "version"),
];

#[async_trait]
impl RemovalStore for SqliteStore {
    async fn closed_campaigns(
        &self,
        partition: u32,
        keep: Duration,
        after: Option<&ClosedCampaign>,
        limit: usize,
    ) -> Result<Vec<ClosedCampaign>> {
        if partition != PARTITION {
            return Ok(Vec::new());
        }
        let latest = ClosedCampaign::latest(self.clock_now(), keep);
        let after = after.cloned();
        self.read(move |db| closed_campaigns(db, latest, after.as_ref(), limit))
            .await
    }

    async fn begin_removal(&self, id: &CampaignId, fence: &RemovalFence) -> Result<bool> {
        self.submit(BeginCommand {
            campaign: id.clone(),
            entries: fence.entries,
        })
        .await
    }

    async fn remove_some(&self, id: &CampaignId) -> Result<bool> {
        self.submit(RemoveCommand {
            campaign: id.clone(),
        })
        .await
    }
}

/// Why there is no campaign of this id.
pub(super) fn not_found(db: &Connection, id: &CampaignId) -> Result<StoreError> {
    let sql = "SELECT removed FROM campaigns WHERE id = ?1 AND removed IS NOT NULL";
    let mut statement = db.prepare_cached(sql)?;
    let end = statement.query_row([id.as_str()], |row| moment(row, 0));
    Ok(match end.optional()? {
        Some(end) => Refusal::Removed { end }.into(),
        None => Refusal::CampaignNotFound.into(),
    })
}

/// Notes since when nothing has happened to a closed campaign. A step that is no act of anybody
/// does not begin that time anew.
pub(super) fn save_closed(db: &Connection, campaign: i64, now: Moment, is_act: bool) -> Result<()> {
    let sql = "UPDATE campaigns SET closed = ?2 WHERE no = ?1 AND (?3 OR closed IS NULL)";
    db.prepare_cached(sql)?
        .execute(params![campaign, now.as_micros(), is_act])?;
    Ok(())
}

fn closed_campaigns(
    db: &Connection,
    latest: Moment,
    after: Option<&ClosedCampaign>,
    limit: usize,
) -> Result<Vec<ClosedCampaign>> {
    let mut statement = db.prepare_cached(
        "SELECT closed, id FROM campaigns WHERE closed <= ?1 AND (closed, id) > (?2, ?3)
         ORDER BY closed, id LIMIT ?4",
    )?;
    let (since, id) = after.map_or((-1, ""), |after| {
        (after.since.as_micros(), after.id.as_str())
    });
    let values = params![latest.as_micros(), since, id, limit];
    let rows = statement.query_and_then(values, |row| -> Result<ClosedCampaign> {
        let id = CampaignId::parse("campaign", &row.get::<_, String>(1)?);
        Ok(ClosedCampaign {
            since: moment(row, 0)?,
            id: id.map_err(|problem| StoreError::corrupt(problem.message))?,
        })
    })?;
    rows.collect()
}

/// Makes a campaign's row its tombstone.
struct BeginCommand {
    campaign: CampaignId,
    entries: u64,
}

impl Command for BeginCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        let Some(state) = step.find(&self.campaign)? else {
            return Err(not_found(step.db, &self.campaign)?);
        };
        let view = &state.view;
        let latest = ClosedCampaign::latest(step.now, step.core.request_memory);
        let sql = "SELECT closed <= ?2 FROM campaigns WHERE no = ?1 AND closed IS NOT NULL";
        let mut statement = step.db.prepare_cached(sql)?;
        let values = params![state.no, latest.as_micros()];
        let is_closed = statement.query_row(values, |row| row.get(0)).optional()?;
        if !is_closed.unwrap_or(false) || state.entries != self.entries {
            step.put(state);
            return Ok(false);
        }
        let sql = "UPDATE campaigns SET removed = ?2, closed = 0, due = NULL, holds = NULL
                   WHERE no = ?1";
        let values = params![state.no, view.campaign.end.as_micros()];
        step.db.prepare_cached(sql)?.execute(values)?;
        step.changed(&state);
        Ok(true)
    }
}

/// Removes rows of a campaign that has a tombstone.
struct RemoveCommand {
    campaign: CampaignId,
}

impl Command for RemoveCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        let sql = "SELECT no FROM campaigns WHERE id = ?1 AND removed IS NOT NULL AND closed = 0";
        let mut statement = step.db.prepare_cached(sql)?;
        let no = statement.query_row([self.campaign.as_str()], |row| row.get::<_, i64>(0));
        let Some(no) = no.optional()? else {
            return Ok(false);
        };
        if step.core.users.remove(step.db, no)?
            || remove_operations(step, no)? == REMOVED_FIELDS_MAX
            || remove_rows(step.db, no)? == REMOVED_FIELDS_MAX
        {
            return Ok(true);
        }
        step.core.users.removed(no);
        // If the ledger is settled into this file, the table has the sink's salts.
        let sql = "DELETE FROM salts WHERE campaign = ?1 AND NOT EXISTS (SELECT 1 FROM cursors)";
        step.db
            .prepare_cached(sql)?
            .execute([self.campaign.as_str()])?;
        proposals::remove(step.db, &self.campaign)?;
        step.db
            .prepare_cached("UPDATE campaigns SET closed = NULL WHERE no = ?1")?
            .execute([no])?;
        if let Some(settled) = step.core.settled {
            settling::trim(step, settled.sequence)?;
        }
        Ok(false)
    }
}

/// Removes a chunk of a campaign's operators' acts; returns how many they were. Their entries in
/// the ledger stayed for retries, which the tombstone refuses. Those that trimming has passed go
/// too.
fn remove_operations(step: &Step<'_>, campaign: i64) -> Result<usize> {
    let sql = "DELETE FROM operations WHERE campaign = ?1 AND request IN (
                   SELECT request FROM operations WHERE campaign = ?1 LIMIT ?2)
               RETURNING sequence";
    let mut delete = step.db.prepare_cached(sql)?;
    let rows = delete.query_map(params![campaign, REMOVED_FIELDS_MAX], |row| row.get(0))?;
    let removed = rows.collect::<rusqlite::Result<Vec<u64>>>()?;
    let sql = "DELETE FROM ledger WHERE sequence = ?1";
    let mut delete = step.db.prepare_cached(sql)?;
    for sequence in removed.iter().filter(|it| **it < step.core.trimmed) {
        delete.execute([sequence])?;
    }
    Ok(removed.len())
}

/// Removes a chunk of a campaign's other rows; returns how many they were.
fn remove_rows(db: &Connection, campaign: i64) -> Result<usize> {
    let mut removed = 0;
    for (table, key) in TABLES {
        let sql = format!(
            "DELETE FROM {table} WHERE campaign = ?1 AND ({key}) IN (
                 SELECT {key} FROM {table} WHERE campaign = ?1 LIMIT ?2)"
        );
        let room = REMOVED_FIELDS_MAX - removed;
        removed += db.prepare_cached(&sql)?.execute(params![campaign, room])?;
        if removed == REMOVED_FIELDS_MAX {
            break;
        }
    }
    Ok(removed)
}
