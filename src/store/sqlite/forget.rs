//! Forgetting old requests.

use rusqlite::params;

use super::{
    changed::forgotten,
    columns::{entry_columns, read_entry},
    job::Command,
    step::Step,
};
use crate::store::{Result, entry::Body, fill::CHUNK_UNITS_MAX};

/// Forgets requests that are older than the memory.
pub(super) struct ForgetCommand;

impl Command for ForgetCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        step.core.users.ask();
        let from = forgotten(step.db)?;
        let oldest = step.now - step.core.request_memory;
        let entries: Vec<_> = {
            let mut statement = step.db.prepare_cached(
                "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign), \
                 envelope, number, fork, campaign
                 FROM ledger
                 WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
            )?;
            let rows = statement.query_map(params![from, CHUNK_UNITS_MAX], |row| {
                Ok((entry_columns(row)?, row.get::<_, i64>(7)?))
            })?;
            // The ledger is in order of time: the first entry that is remembered ends the search.
            rows.take_while(|row| row.as_ref().map_or(true, |((_, at, ..), _)| *at < oldest))
                .collect::<rusqlite::Result<_>>()?
        };
        let more = entries.len() == CHUNK_UNITS_MAX;
        let Some(((last, ..), _)) = entries.last() else {
            return Ok(false);
        };
        step.db
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('forgotten', ?1)")?
            .execute([last.to_string()])?;
        for (columns, campaign) in entries {
            let entry = read_entry(columns)?;
            let name = match &entry.body {
                Body::Draw(draw) => Some((&draw.user, &draw.request)),
                Body::Bonus(bonus) => Some((&bonus.user, &bonus.request)),
                _ => None,
            };
            if let Some((user, request)) = name {
                step.db
                    .prepare_cached(
                        "DELETE FROM users WHERE campaign = ?1 AND user = ?2 AND request = ?3 AND \
                         sequence = ?4",
                    )?
                    .execute(params![
                        campaign,
                        user.as_str(),
                        request.as_str(),
                        entry.id.sequence
                    ])?;
            }
        }
        Ok(more)
    }
}
