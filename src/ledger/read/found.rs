//! Reading what a search of an embedded store has found.

use rusqlite::{Connection, Row};

use super::{
    EntryQuery, Kinds, Range, WinQuery,
    row::EntryRow,
    sql::{PAGE_BYTES_MAX, Source, Sql},
    sqlite::rows,
};
use crate::{
    model::UserId,
    store::{
        Result as StoreResult,
        sqlite::{lists::List, lookup::Term, search::Search},
    },
};

/// Rows of the entries that a search finds, until there are as many as asked for, or `cut` says
/// that no further ones may follow. It takes away those that are too many.
pub(super) fn found<T>(
    db: &Connection,
    mut search: Search<'_>,
    range: Range,
    sql: impl Fn(Range, Source<'_>) -> Sql,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
    cut: fn(&mut Vec<T>) -> bool,
) -> StoreResult<Vec<T>> {
    let mut found = Vec::new();
    // One more, since the first one may be where the page before ended.
    let mut wanted = range.limit.saturating_add(1);
    while found.len() < range.limit {
        let rest = Range {
            limit: range.limit - found.len(),
            ..range
        };
        let sequences = search.next(db, wanted)?;
        if sequences.is_empty() {
            break;
        }
        wanted = usize::MAX;
        let sql = sql(rest, Source::Among(&sequences));
        found.extend(rows(db, &sql, read)?);
        if cut(&mut found) {
            break;
        }
    }
    Ok(found)
}

/// A search in a part of a list.
pub(super) fn within<'a>(
    db: &Connection,
    search: Search<'a>,
    range: &Range,
) -> StoreResult<Search<'a>> {
    let search = search.between(db, range.from, range.to)?;
    Ok(match range.after {
        // Further wins of the same draw may follow.
        Some(after) => search.before(after.id.sequence.saturating_add(1)),
        None => search,
    })
}

/// The search for wins.
pub(super) fn search_for_wins<'a>(db: &Connection, query: &'a WinQuery) -> StoreResult<Search<'a>> {
    let campaign = query.campaign.as_ref().map(|campaign| campaign.as_str());
    let Some(unit) = &query.unit else {
        let list = || Search::list(List::wins(campaign, query.prize.as_deref()));
        let of_user = |user: &UserId| Search::new([Term::user(user.as_str())]);
        return Ok(query.user.as_ref().map_or_else(list, of_user));
    };
    if let Some(campaign) = campaign {
        return Ok(Search::new([Term::unit(campaign, unit)]));
    }
    let mut statement = db.prepare_cached("SELECT DISTINCT campaign FROM prizes")?;
    let terms = statement.query_map([], |row| Ok(Term::unit(row.get_ref(0)?.as_str()?, unit)))?;
    let terms: Vec<Term> = terms.collect::<rusqlite::Result<_>>()?;
    Ok(Search::new(terms))
}

/// The search for entries; none if they have an index.
pub(super) fn search_for_entries(query: &EntryQuery) -> Option<Search<'_>> {
    let campaign = query.campaign.as_ref().map(|campaign| campaign.as_str());
    match (&query.request, &query.envelope, &query.user, query.kinds) {
        (Some(request), ..) => Some(Search::new([Term::request(request.as_str())])),
        (None, None, Some(user), _) => Some(Search::new([Term::user(user.as_str())])),
        (None, None, None, Kinds::Draws) => Some(Search::list(List::draws(campaign))),
        (None, ..) => None,
    }
}

/// Leaves out entries that follow [`PAGE_BYTES_MAX`]; whether no further ones may follow.
pub(super) fn cut_by_bytes(entries: &mut Vec<EntryRow>) -> bool {
    let mut bytes = 0;
    let is_large = |row: &EntryRow| {
        bytes += row.body.len();
        bytes >= PAGE_BYTES_MAX
    };
    let last = entries.iter().position(is_large);
    if let Some(last) = last {
        entries.truncate(last + 1);
    }
    last.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Moment, store::LedgerId};

    fn entry(sequence: u64, bytes: usize) -> EntryRow {
        EntryRow {
            id: LedgerId {
                partition: 0,
                sequence,
            },
            at: Moment::from_micros(0),
            campaign: None,
            envelope: None,
            format: 2,
            body: vec![0; bytes],
            number: None,
            fork: 0,
            user: None,
            request: None,
            people: None,
        }
    }

    #[test]
    fn entries_that_follow_the_most_bytes_of_a_page_are_left_out() {
        let half = PAGE_BYTES_MAX / 2;
        for (bytes, left, is_cut) in [
            (vec![], 0, false),
            (vec![half, half - 1], 2, false),
            (vec![half, half - 1, 0], 3, false),
            (vec![half, half], 2, true),
            (vec![half, half - 1, 1, 1, 1], 3, true),
            (vec![2 * PAGE_BYTES_MAX, 1], 1, true),
        ] {
            let numbered = bytes.iter().enumerate();
            let mut entries = numbered
                .map(|(number, bytes)| entry(number as u64, *bytes))
                .collect();
            assert_eq!(cut_by_bytes(&mut entries), is_cut, "{bytes:?}");
            assert_eq!(entries.len(), left, "{bytes:?}");
        }
    }
}
