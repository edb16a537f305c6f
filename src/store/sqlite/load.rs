//! Reading what rules work on: a campaign's counters as the writer has them, and the windows that
//! are kept as rows.

use rusqlite::{Connection, params};

use super::{
    columns::fork_mark,
    state::CampaignState,
    windows::{load_live, read_window},
};
use crate::{
    model::{Moment, PoolNo},
    store::{
        Result,
        rules::{Changes, PoolState, State},
    },
};

/// A campaign as a rule sees it, with the windows that rules always see and those that are asked
/// for.
pub(super) fn load(
    db: &Connection,
    campaign: &CampaignState,
    now: Moment,
    asked: &[(PoolNo, Moment)],
) -> Result<State> {
    let mut state = State {
        now,
        fork: fork_mark(db)?,
        view: campaign.view.clone(),
        stock: campaign.stock.iter().map(|stock| stock.units).collect(),
        pools: campaign.pools.iter().map(|p| p.known.clone()).collect(),
        changes: Changes::default(),
    };
    for (no, pool) in (0..).map(PoolNo).zip(&mut state.pools) {
        if let PoolState::Schedule(schedule) = pool {
            schedule.windows = load_live(db, campaign.no, no, now)?;
        }
    }
    add_windows(db, campaign.no, &mut state, asked)?;
    state.check()?;
    Ok(state)
}

/// Brings further windows to the state; those that do not exist stay away.
pub(super) fn add_windows(
    db: &Connection,
    campaign: i64,
    state: &mut State,
    asked: &[(PoolNo, Moment)],
) -> Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT start, record FROM windows WHERE campaign = ?1 AND pool = ?2 AND start = ?3",
    )?;
    for (no, start) in asked {
        let Some(PoolState::Schedule(schedule)) = state.pools.get_mut(usize::from(no.0)) else {
            continue;
        };
        if schedule.windows.contains_key(start) {
            continue;
        }
        let key = params![campaign, no.0, start.as_micros()];
        let mut rows = statement.query_and_then(key, read_window)?;
        if let Some((start, window)) = rows.next().transpose()? {
            schedule.windows.insert(start, window);
        }
    }
    Ok(())
}
