//! What all lists of the ledger share: their options, following of pages, and formats.

use clap::{Args, ValueEnum};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

pub(super) mod draws;
pub(super) mod envelopes;
pub(super) mod history;
pub(super) mod operations;
pub(super) mod wins;

use super::{
    client::{Client, Outcome, whole},
    output::{Side, Table, is_open, note, say},
    time::{shown, to_wire},
};
use crate::model::{convert::sheets::csv, file};

/// Elements that are asked for at once.
const PAGE_SIZE: u32 = 1_000;

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For spreadsheets
    Csv,
    /// For programs
    Json,
}

/// Options of all lists.
#[derive(Args, Clone, Debug)]
pub(super) struct ListArgs {
    /// From this moment on, e.g. 2026-11-20T20:00:00+08:00
    #[arg(long, env = "TOMBOLA_FROM", value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Before this moment
    #[arg(long, env = "TOMBOLA_TO", value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// The largest number of elements, the newest ones [default: all]
    #[arg(long, env = "TOMBOLA_LIMIT", value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    limit: Option<u64>,
    /// The output format
    #[arg(long, env = "TOMBOLA_FORMAT", value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl ListArgs {
    fn start_time(&self) -> Option<prost_types::Timestamp> {
        self.from.map(to_wire)
    }

    fn end_time(&self) -> Option<prost_types::Timestamp> {
        self.to.map(to_wire)
    }

    fn format(&self, client: &Client) -> Format {
        if client.json {
            Format::Json
        } else {
            self.format
        }
    }
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let form = "a time is 2026-11-20T20:00:00+08:00, with its offset or Z";
    text.parse().map_err(|_| form.to_owned())
}

/// A page of a list.
struct Page<M> {
    elements: Vec<M>,
    next: String,
    complete_until: Option<prost_types::Timestamp>,
}

/// A list that the service has.
trait List {
    /// An element.
    type Element: prost::Message;
    /// The name of its elements in JSON.
    const NAME: &'static str;
    /// The name of an element's message.
    const MESSAGE: &'static str;

    /// Columns that a table has only if a row has something in them.
    const SPARSE: &'static [&'static str] = &[];

    /// The columns.
    fn columns(&self) -> Vec<(&'static str, Side)>;

    /// A row: a cell for each column.
    fn row(&self, element: &Self::Element, zone: &TimeZone) -> Vec<String>;

    /// What is left of an element for JSON.
    fn shown(&self, element: Self::Element) -> Self::Element {
        element
    }

    /// Asks for a page.
    async fn page(&mut self, size: u32, token: String) -> Outcome<Page<Self::Element>>;
}

/// Prints a list. CSV is printed page by page, so it may have any length.
async fn print<L: List>(client: &Client, mut list: L, args: &ListArgs, zone: &TimeZone) -> Outcome {
    let format = args.format(client);
    let mut table = Table::new(list.columns());
    let mut json = Vec::new();
    if format == Format::Csv {
        let names = list.columns();
        say(&csv::line(names.iter().map(|(name, _)| *name)));
    }
    let mut left = args.limit.unwrap_or(u64::MAX);
    let (mut token, mut complete_until) = (String::new(), None);
    while left > 0 && is_open() {
        let size = u32::try_from(left).unwrap_or(PAGE_SIZE).min(PAGE_SIZE);
        let page = list.page(size, token).await?;
        left -= page.elements.len() as u64;
        let mut lines = String::new();
        for element in page.elements {
            match format {
                Format::Table => table.row(list.row(&element, zone)),
                Format::Csv => lines.push_str(&csv::line(list.row(&element, zone))),
                Format::Json => json.push(file::to_json(L::MESSAGE, &list.shown(element))),
            }
        }
        if !lines.is_empty() {
            say(&lines);
        }
        complete_until = complete_until.or(page.complete_until);
        token = page.next;
        if token.is_empty() {
            break;
        }
    }
    match format {
        Format::Table if table.is_empty() => say(&format!("no {}", L::NAME)),
        Format::Table => say(&table.without_empty(L::SPARSE).render()),
        Format::Csv => {}
        Format::Json => say_json(L::NAME, json, complete_until.as_ref()),
    }
    note_behind(complete_until.as_ref(), zone);
    Ok(())
}

fn say_json(name: &str, elements: Vec<Value>, until: Option<&prost_types::Timestamp>) {
    let mut object = Map::new();
    object.insert(name.to_owned(), Value::Array(elements));
    if until.is_some() {
        let until = shown(until, &TimeZone::UTC);
        object.insert("completeUntil".into(), until.into());
    }
    say(&format!("{:#}", Value::Object(object)));
}

/// Says that a list is not complete.
fn note_behind(until: Option<&prost_types::Timestamp>, zone: &TimeZone) {
    if until.is_some() {
        let until = shown(until, zone);
        note(&format!(
            "settling is behind: the list is complete only before {until}"
        ));
    }
}

/// The zone in which a list is shown: that of the campaign, if one is named.
async fn zone_of(client: &Client, campaign: Option<&str>) -> TimeZone {
    match campaign {
        Some(campaign) => client.zone(campaign).await,
        None => TimeZone::UTC,
    }
}
