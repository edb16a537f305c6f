//! Forgetting old requests.

use rusqlite::params;

use super::{
    columns::{entry_columns, read_entry},
    job::Command,
    rows::{Key, forgotten},
    step::Step,
};
use crate::store::{Result, entry::Body};

/// How many entries a step looks at: twice as many as were written since the step before, since a
/// batch has one such step at most, but within these bounds. The first step of a tick looks at the
/// fewest. Draws wait for about a millisecond while a step looks at the fewest.
const AT_ONCE_MIN: u64 = 100;
const AT_ONCE_MAX: u64 = 1000;

/// Forgets requests that are older than the memory.
pub(super) struct ForgetCommand;

impl Command for ForgetCommand {
    type Reply = bool;

    fn run(&self, step: &mut Step<'_>) -> Result<bool> {
        let before = step.core.forgot_at.take().unwrap_or(step.core.sequence);
        let written = step.core.sequence.saturating_sub(before);
        let at_once = (2 * written).clamp(AT_ONCE_MIN, AT_ONCE_MAX) as usize;
        let from = forgotten(step.db)?;
        let oldest = step.now - step.core.request_memory;
        let entries: Vec<_> = {
            let mut statement = step.db.prepare_cached(
                "SELECT sequence, at, body, (SELECT id FROM campaigns WHERE no = campaign), \
                 envelope, number, fork, campaign,
                 EXISTS (SELECT 1 FROM campaigns WHERE no = campaign AND removed IS NOT NULL)
                 FROM ledger
                 WHERE sequence > ?1 ORDER BY sequence LIMIT ?2",
            )?;
            let rows = statement.query_map(params![from, at_once], |row| {
                // All rows of a removed campaign are gone, or are being removed.
                let campaign: i64 = row.get(7)?;
                let has_rows = !row.get::<_, bool>(8)?;
                Ok((entry_columns(row)?, has_rows.then_some(campaign)))
            })?;
            // The ledger is in order of time: the first entry that is remembered ends the search.
            rows.take_while(|row| row.as_ref().map_or(true, |((_, at, ..), _)| *at < oldest))
                .collect::<rusqlite::Result<_>>()?
        };
        let more = entries.len() == at_once;
        match more {
            true => step.core.forgot_at = Some(step.core.sequence),
            false => step.core.users.ask(),
        }
        let Some(((last, ..), _)) = entries.last() else {
            return Ok(false);
        };
        step.db
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('forgotten', ?1)")?
            .execute([last.to_string()])?;
        for (columns, campaign) in entries {
            let Some(campaign) = campaign else { continue };
            let entry = read_entry(columns)?;
            let name = match &entry.body {
                Body::Draw(draw) => Some((&draw.user, &draw.request)),
                Body::Bonus(bonus) => Some((&bonus.user, &bonus.request)),
                _ => None,
            };
            if let Some(name) = name {
                let key = Key::request(campaign, name);
                step.core.users.forget(key, entry.id.sequence);
            }
        }
        Ok(more)
    }
}
