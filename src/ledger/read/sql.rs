//! The statements of lists, for every sink that has tables: they differ only in the form of
//! parameters and moments.
//!
//! The conditions on `kind` are those of the partial indexes, so that the planners can use these
//! indexes. SQLite needs them word for word. In PostgreSQL the indexes of operators' acts have a
//! list of kinds (`IN`), and it finds by itself that the condition here means the same.

use std::{collections::BTreeSet, fmt::Write as _};

use super::query::{EntryQuery, Kinds, Position, Range, Removed, Seen, WinQuery};
use crate::{
    ledger::wins::Win,
    model::{CampaignId, Moment, Pattern, Patterns, RequestId, UserId},
    store::LEDGER_PAGE_BYTES,
};

/// The most bytes of entries that a page reads: a campaign's definition alone may have two million.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// The order of lists.
const NEWEST_FIRST: &str = "at DESC, partition DESC, sequence DESC";

/// The numbers after `after` that are in none of these ranges, which are sorted by their first
/// numbers: as pairs between which they are.
pub fn outside(lost: &[(u64, u64)], after: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut after) = (Vec::new(), after);
    for (first, last) in lost {
        if *first > after + 1 {
            parts.push((after, *first));
        }
        after = after.max(*last);
    }
    parts.push((after, i64::MAX.cast_unsigned()));
    parts
}

/// The columns of an entry.
pub const ENTRY_COLUMNS: &str = "partition, sequence, at, campaign, envelope, format, body, \
     number, fork, user_id, request_id, people";

/// The columns of a win.
pub const WIN_COLUMNS: &str = "partition, sequence, number, at, campaign, version, user_id, \
     request_id, pool, prize, unit_id, release_at, delivery, delivery_reference, delivery_at";

/// The columns of a removed campaign, and the definition of its last version.
pub const REMOVED_COLUMNS: &str = "removed.campaign, removed.partition, removed.version, entries, \
     removed.at, nonce, commitment, users, wins, consolations, nothings, record, definition";

/// The columns of a version of a removed campaign.
pub const VERSION_COLUMNS: &str = "version, at, operator, reason";

/// The entries that say what operators did.
pub(in crate::ledger) const OPERATIONS: &str =
    "(kind = 'applied' OR kind = 'operated' OR kind = 'recovered' OR kind = 'revoked'
     OR kind = 'refund' AND request_id IS NOT NULL)";

/// The condition of the indexes by time alone, which every row fulfils. PostgreSQL expects a
/// campaign's rows everywhere in a table, so it would take such an index for the list of a campaign
/// that ended a year ago, and read all rows since.
const BY_TIME: &str = " AND sequence >= 0";

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A small number, such as a partition.
    Small(i32),
    /// A moment.
    Moment(Moment),
}

/// A statement and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sql {
    /// The text; parameters are `$1`, `$2` and so on.
    pub text: String,
    /// The parameters.
    pub values: Vec<Value>,
}

/// Where a statement looks for entries and wins.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// In all rows of the tables whose names begin with this schema.
    Schema(&'a str),
    /// In the rows of entries with these numbers, in the one partition of an embedded store.
    Among(&'a [u64]),
}

impl Source<'_> {
    fn schema(&self) -> &str {
        match self {
            Self::Schema(schema) => schema,
            Self::Among(_) => "",
        }
    }
}

/// The rows of entries whose numbers are in a parameter as a JSON list, for `FROM`. SQLite looks
/// up each of them.
pub(in crate::ledger) fn among(table: &str, parameter: usize) -> String {
    format!(
        "json_each(${parameter}) AS found CROSS JOIN {table}
             ON {table}.partition = 0 AND {table}.sequence = found.value"
    )
}

/// The parameter of [`among`].
pub(in crate::ledger) fn numbers(sequences: &[u64]) -> String {
    serde_json::json!(sequences).to_string()
}

impl Sql {
    /// How far each partition is settled. `schema` is what the names of tables begin with.
    pub fn cursors(schema: &str) -> Self {
        Self {
            text: format!("SELECT partition, next_sequence, fork, at FROM {schema}cursors"),
            values: Vec::new(),
        }
    }

    /// The ranges of entries of a partition that the store has lost, as far as they end after a
    /// number; by their first one.
    pub fn lost_after(partition: u32, after: u64, schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT first_sequence, last_sequence FROM {schema}orphans WHERE"
        ));
        sql.with(" partition = ", Value::Small(partition.cast_signed()));
        sql.with(" AND last_sequence > ", Value::Number(after.cast_signed()));
        sql.add(" ORDER BY first_sequence");
        sql
    }

    /// Entries of a partition with numbers between two others. Entries that follow
    /// [`LEDGER_PAGE_BYTES`] are left out.
    pub fn entries_between(
        partition: u32,
        (after, before): (u64, u64),
        limit: usize,
        schema: &str,
    ) -> Self {
        let mut sql = Self::default();
        sql.begin_page("sequence");
        sql.add(&format!("{schema}entries WHERE"));
        sql.with(" partition = ", Value::Small(partition.cast_signed()));
        sql.with(" AND sequence > ", Value::Number(after.cast_signed()));
        sql.with(" AND sequence < ", Value::Number(before.cast_signed()));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        sql.with(" ORDER BY sequence LIMIT ", Value::Number(limit));
        sql.end_page("sequence", LEDGER_PAGE_BYTES);
        sql
    }

    /// The win of a unit. A win that the store has lost in a rollback is none.
    pub fn win(campaign: &CampaignId, unit: &str, source: Source<'_>) -> Self {
        let mut sql = Self::default();
        sql.add(&format!("SELECT {WIN_COLUMNS} FROM "));
        sql.rows("wins", source);
        sql.add(" WHERE true");
        sql.not_lost("wins", source);
        sql.equal("campaign", Some(campaign.as_str()));
        sql.equal("unit_id", Some(unit));
        sql.add(" ORDER BY sequence DESC LIMIT 1");
        sql
    }

    /// What came of a campaign's draws in the hours that begin between these moments.
    pub fn activity(campaign: &CampaignId, between: (Moment, Moment), schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT hour, draws, wins, consolations FROM {schema}activity WHERE true"
        ));
        sql.equal("campaign", Some(campaign.as_str()));
        sql.with(" AND hour >= ", Value::Moment(between.0));
        sql.with(" AND hour < ", Value::Moment(between.1));
        sql.add(" ORDER BY hour");
        sql
    }

    /// The entry that brought a version of a campaign into force, or the newest such entry. One
    /// that the store has lost in a rollback is none.
    pub fn applied(campaign: &CampaignId, version: Option<u32>, schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT {ENTRY_COLUMNS} FROM {schema}entries
             WHERE {OPERATIONS} AND kind = 'applied'"
        ));
        sql.equal("campaign", Some(campaign.as_str()));
        sql.not_lost("entries", Source::Schema(schema));
        // One act brings one version into force: they are numbered in the order of their entries.
        let offset = version.map_or(0, |version| i64::from(version.saturating_sub(1)));
        let order = if version.is_some() { "" } else { " DESC" };
        sql.with(
            &format!(" ORDER BY at{order}, sequence{order} LIMIT 1 OFFSET "),
            Value::Number(offset),
        );
        sql
    }

    /// The draw of a request. One that the store has lost in a rollback is none.
    pub fn draw(
        (campaign, user): (&CampaignId, &UserId),
        request: &RequestId,
        source: Source<'_>,
    ) -> Self {
        let mut sql = Self::default();
        sql.add(&format!("SELECT {ENTRY_COLUMNS} FROM "));
        sql.rows("entries", source);
        sql.add(" WHERE kind = 'draw'");
        sql.not_lost("entries", source);
        sql.equal("user_id", Some(user.as_str()));
        sql.equal("campaign", Some(campaign.as_str()));
        sql.equal("request_id", Some(request.as_str()));
        sql.add(" ORDER BY sequence DESC LIMIT 1");
        sql
    }

    /// Campaigns whose data have left the store, by id: this one, or those after an id.
    pub fn removed(which: Removed<'_>, schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT {REMOVED_COLUMNS} FROM {schema}removed_campaigns AS removed
             JOIN {schema}removed_versions AS versions
                 ON versions.campaign = removed.campaign AND versions.version = removed.version
             WHERE"
        ));
        match which {
            Removed::One(campaign) => {
                let id = campaign.as_str().to_owned();
                sql.with(" removed.campaign = ", Value::Text(id));
            }
            Removed::After(after, limit) => {
                sql.with(" removed.campaign > ", Value::Text(after.to_owned()));
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                sql.with(" ORDER BY removed.campaign LIMIT ", Value::Number(limit));
            }
        }
        sql
    }

    /// Who made the versions of a removed campaign, oldest first.
    pub fn removed_versions(campaign: &CampaignId, schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT {VERSION_COLUMNS} FROM {schema}removed_versions WHERE true"
        ));
        sql.equal("campaign", Some(campaign.as_str()));
        sql.add(" ORDER BY version");
        sql
    }

    /// The definition of a version of a removed campaign.
    pub fn removed_version(campaign: &CampaignId, version: u32, schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT definition FROM {schema}removed_versions WHERE true"
        ));
        sql.equal("campaign", Some(campaign.as_str()));
        sql.with(" AND version = ", Value::Small(version.cast_signed()));
        sql
    }

    /// The draws of these wins.
    pub fn draws_of(wins: &[&Win], schema: &str) -> Self {
        let mut sql = Self::default();
        sql.add(&format!(
            "SELECT {ENTRY_COLUMNS} FROM {schema}entries WHERE kind = 'draw'"
        ));
        // PostgreSQL has a table for each month.
        let moments = || wins.iter().map(|win| win.at);
        if let (Some(first), Some(last)) = (moments().min(), moments().max()) {
            sql.with(" AND at >= ", Value::Moment(first));
            sql.with(" AND at <= ", Value::Moment(last));
        }
        sql.add(" AND (partition, sequence) IN (VALUES ");
        let draws: BTreeSet<_> = wins
            .iter()
            .map(|win| (win.partition, win.sequence))
            .collect();
        for (index, (partition, sequence)) in draws.into_iter().enumerate() {
            let begin = if index == 0 { "(" } else { ", (" };
            sql.with(begin, Value::Small(partition.cast_signed()));
            sql.with(", ", Value::Number(sequence.cast_signed()));
            sql.add(")");
        }
        sql.add(")");
        sql
    }

    /// A part of the list of wins.
    pub fn wins(query: &WinQuery, source: Source<'_>) -> Self {
        let mut sql = Self::default();
        sql.add(&format!("SELECT {WIN_COLUMNS} FROM "));
        sql.rows("wins", source);
        sql.add(" WHERE true");
        sql.equal("user_id", query.user.as_ref().map(|user| user.as_str()));
        let campaign = query.campaign.as_ref();
        sql.equal("campaign", campaign.map(|campaign| campaign.as_str()));
        sql.equal("prize", query.prize.as_deref());
        sql.equal("unit_id", query.unit.as_deref());
        if query.unit.is_some() && query.campaign.is_none() {
            // PostgreSQL's index of units begins with the campaign.
            let schema = source.schema();
            sql.add(&format!(
                " AND campaign IN (SELECT DISTINCT campaign FROM {schema}prizes)"
            ));
        } else if query.user.is_none() && query.campaign.is_none() {
            sql.by_time(source);
        }
        if let Some(patterns) = &query.campaigns {
            sql.add(" AND ");
            sql.matches("campaign", patterns);
        }
        sql.range(&query.range, true);
        sql
    }

    /// A part of a list of entries. Entries that follow [`PAGE_BYTES_MAX`] bytes are left out.
    pub fn list(query: &EntryQuery, source: Source<'_>) -> Self {
        let mut sql = Self::default();
        sql.begin_page(NEWEST_FIRST);
        sql.rows("entries", source);
        let condition = condition(query.kinds);
        sql.add(&format!(" WHERE {condition}"));
        let request = query.request.as_ref();
        // Few draws have the same request id, but a planner without statistics would take the
        // index of a user or a campaign, which also has the order.
        let (user_column, campaign_column) = match request {
            Some(_) => ("coalesce(user_id, '')", "coalesce(campaign, '')"),
            None => ("user_id", "campaign"),
        };
        sql.equal(user_column, query.user.as_ref().map(|user| user.as_str()));
        let campaign = query.campaign.as_ref();
        sql.equal(campaign_column, campaign.map(|campaign| campaign.as_str()));
        let envelope = query.envelope.as_ref();
        sql.equal("envelope", envelope.map(|envelope| envelope.as_str()));
        sql.equal("request_id", request.map(|request| request.as_str()));
        let has_index =
            request.is_some() || matches!(query.kinds, Kinds::EnvelopesCreated | Kinds::Refunds);
        if !has_index && query.user.is_none() && campaign.is_none() && envelope.is_none() {
            sql.by_time(source);
        }
        sql.seen(&query.seen, source.schema());
        sql.range(&query.range, false);
        sql.end_page(NEWEST_FIRST, PAGE_BYTES_MAX);
        sql
    }

    /// Begins a page of entries in an order; what they are selected from follows.
    fn begin_page(&mut self, order: &str) {
        self.add(&format!(
            "SELECT {ENTRY_COLUMNS} FROM (
                 SELECT *, sum(octet_length(body)) OVER (
                     ORDER BY {order}
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
                 FROM (SELECT {ENTRY_COLUMNS} FROM "
        ));
    }

    /// Ends a page: entries that follow so many bytes are left out.
    fn end_page(&mut self, order: &str, bytes: usize) {
        self.add(&format!(
            ") AS page) AS page WHERE coalesce(bytes_before, 0) < {bytes} ORDER BY {order}"
        ));
    }

    fn add(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a parameter after this text.
    fn with(&mut self, text: &str, value: Value) {
        self.values.push(value);
        // Writing to memory does not fail.
        let _ = write!(self.text, "{text}${}", self.values.len());
    }

    /// Adds a table, under its name without the schema.
    fn rows(&mut self, table: &str, source: Source<'_>) {
        match source {
            Source::Schema(schema) => self.add(&format!("{schema}{table} AS {table}")),
            Source::Among(sequences) => {
                self.values.push(Value::Text(numbers(sequences)));
                self.add(&among(table, self.values.len()));
            }
        }
    }

    /// Leaves out what the store has lost in a rollback.
    fn not_lost(&mut self, table: &str, source: Source<'_>) {
        let schema = source.schema();
        self.add(&format!(
            " AND NOT EXISTS (
                 SELECT 1 FROM {schema}orphans AS orphans
                 WHERE orphans.partition = {table}.partition
                     AND {table}.sequence BETWEEN first_sequence AND last_sequence)"
        ));
    }

    /// For lists by time alone. Numbers that were found need no index.
    fn by_time(&mut self, source: Source<'_>) {
        if let Source::Schema(_) = source {
            self.add(BY_TIME);
        }
    }

    fn equal(&mut self, column: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.with(&format!(" AND {column} = "), Value::Text(value.to_owned()));
        }
    }

    /// Leaves out what the reader may not see.
    fn seen(&mut self, seen: &Seen, schema: &str) {
        if seen.campaigns.is_none() && seen.senders.is_none() {
            return;
        }
        self.add(" AND (");
        match &seen.campaigns {
            None => self.add("campaign IS NOT NULL"),
            Some(patterns) => self.matches("campaign", patterns),
        }
        match &seen.senders {
            None => self.add(" OR envelope IS NOT NULL"),
            Some(patterns) => {
                self.add(&format!(
                    " OR envelope IS NOT NULL AND EXISTS (
                         SELECT 1 FROM {schema}entries AS created
                         WHERE created.envelope = entries.envelope
                             AND created.envelope IS NOT NULL
                             AND created.kind = 'envelope_created' AND "
                ));
                self.matches("created.user_id", patterns);
                self.add(")");
            }
        }
        self.add(")");
    }

    /// The condition that one of these patterns matches.
    fn matches(&mut self, column: &str, patterns: &Patterns) {
        self.add("(false");
        for pattern in patterns.iter() {
            match pattern {
                Pattern::Exactly(id) => {
                    self.with(&format!(" OR {column} = "), Value::Text(id.clone()));
                }
                Pattern::Beginning(beginning) => {
                    let characters = beginning.chars().count();
                    self.with(
                        &format!(" OR substr({column}, 1, {characters}) = "),
                        Value::Text(beginning.clone()),
                    );
                }
            }
        }
        self.add(")");
    }

    /// The conditions on time come first and by themselves: they choose the monthly partitions.
    fn range(&mut self, range: &Range, are_wins: bool) {
        if let Some(from) = range.from {
            self.with(" AND at >= ", Value::Moment(from));
        }
        if let Some(to) = range.to {
            self.with(" AND at < ", Value::Moment(to));
        }
        if let Some(after) = range.after {
            self.after(after, are_wins);
        }
        let index = if are_wins { ", number DESC" } else { "" };
        self.add(&format!(
            " ORDER BY at DESC, partition DESC, sequence DESC{index} LIMIT "
        ));
        let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
        self.with("", Value::Number(limit));
    }

    fn after(&mut self, after: Position, are_wins: bool) {
        self.with(" AND at <= ", Value::Moment(after.at));
        let index = if are_wins { ", number" } else { "" };
        self.add(&format!(" AND (at, partition, sequence{index}) < ("));
        self.with("", Value::Moment(after.at));
        self.with(", ", Value::Small(after.id.partition.cast_signed()));
        self.with(", ", Value::Number(after.id.sequence.cast_signed()));
        if are_wins {
            self.with(", ", Value::Small(after.index.into()));
        }
        self.add(")");
    }
}

fn condition(kinds: Kinds) -> &'static str {
    match kinds {
        Kinds::Draws => "kind = 'draw'",
        Kinds::Envelopes => "envelope IS NOT NULL",
        Kinds::EnvelopesCreated => "envelope IS NOT NULL AND kind = 'envelope_created'",
        Kinds::Grabs => "envelope IS NOT NULL AND kind = 'grab'",
        Kinds::Refunds => "envelope IS NOT NULL AND kind = 'refund'",
        Kinds::Operations => OPERATIONS,
        Kinds::Deliveries => "kind = 'delivered'",
    }
}
