//! A year of entries: pages are found by indexes, in the months that are asked for.
//!
//! `TOMBOLA_ENTRIES` sets how many draws there are. The bound on what a page reads is the same for
//! any number.

use std::time::Instant;

use tombola::{
    ledger::read::{
        EntryQuery, Kinds, LedgerReader as _, Position, Range, Seen, WinQuery,
        postgres::{PostgresReader, SCHEMA},
        sql::{Source, Sql, Value},
    },
    model::{CampaignId, EnvelopeId, Moment, RequestId, UserId},
    store::LedgerId,
};

use crate::{faults::kill::setting, ledger::Database};

/// Draws unless the variable says otherwise.
const ENTRIES: u64 = 200_000;
/// The most pages of 8 KiB that a list reads: a page of 100 elements, each in another place, in
/// each of the year's thirteen tables at worst.
const PAGES_MAX: u64 = 1_500;
/// The most rows that a list reads in vain. The list of one campaign by an index of time alone
/// would read all rows of the half year after it.
const ROWS_IN_VAIN_MAX: u64 = 2_000;

/// Draws of a year, 16 partitions, 50 campaigns one after the other and 10,000 users; every fourth
/// wins. Beside them an envelope event for every fourth draw and an operator's act for every
/// thousandth.
const YEAR: &str = r#"
SELECT tombola.make_month('2026-01-15T00:00:00Z'::timestamptz + make_interval(months => month))
FROM generate_series(0, 11) AS month;
CREATE TEMPORARY TABLE draws AS
SELECT n, n % 16 AS partition, 1 + n / 16 AS sequence,
       '2026-01-01T00:00:00Z'::timestamptz + interval '1 year' * n / COUNT AS at,
       'campaign-' || n * 50 / COUNT AS campaign, 'user-' || n * 7919 % 10000 AS user_id
FROM generate_series(0::bigint, COUNT - 1) AS n;
INSERT INTO tombola.entries
    (partition, sequence, at, kind, campaign, user_id, request_id, format, body, number, fork)
SELECT partition, sequence, at, 'draw', campaign, user_id, 'r' || n, 1,
       convert_to('{"kind":"draw","version":1,"user":"' || user_id || '","request":"r' || n ||
           '","funding":"free","results":[1],"counts":{"free_today":0,"paid_today":0,"draws":0,' ||
           '"bonus_used":0,"wins":0,"bonus_left":0}}', 'UTF8'), n, 0
FROM draws;
INSERT INTO tombola.entries
    (partition, sequence, at, kind, envelope, user_id, format, body, number, fork)
SELECT partition, sequence + 1000000000, at,
       CASE n % 40 WHEN 0 THEN 'envelope_created' WHEN 4 THEN 'refund' ELSE 'grab' END,
       'envelope-' || n / 40, 'user-' || n * 7919 % 10000, 1,
       convert_to('{"kind":"grab","user":"u","packet":1,"amount_minor":5}', 'UTF8'), n, 0
FROM draws WHERE n % 4 = 0;
INSERT INTO tombola.entries
    (partition, sequence, at, kind, campaign, request_id, format, body, number, fork)
SELECT partition, sequence + 2000000000, at, 'operated', campaign, 'o' || n, 1,
       convert_to('{"kind":"operated","operation":{"action":"pause"},"author":{"request":"o' || n ||
           '","operator":"olga"},"users":0}', 'UTF8'), n, 0
FROM draws WHERE n % 1000 = 0;
INSERT INTO tombola.wins
    (partition, sequence, number, at, campaign, version, user_id, request_id, pool, prize, unit_id)
SELECT partition, sequence, 0, at, campaign, 1, user_id, 'r' || n, 'pool',
       CASE n % 1000 WHEN 0 THEN 'car' ELSE 'coin' END, 'unit-' || n
FROM draws WHERE n % 4 = 0;
INSERT INTO tombola.prizes (campaign, version, prize, name, stock)
SELECT 'campaign-' || n, 1, prize, prize, 1000
FROM generate_series(0, 49) AS n, unnest(ARRAY['car', 'coin']) AS prize;
ANALYZE tombola.entries, tombola.wins, tombola.prizes;
"#;

fn moment(text: &str) -> Moment {
    Moment::from_timestamp(text.parse().unwrap())
}

fn year() -> Range {
    Range {
        limit: 101,
        ..Range::default()
    }
}

fn june() -> Range {
    Range {
        from: Some(moment("2026-06-01T00:00:00Z")),
        to: Some(moment("2026-06-30T00:00:00Z")),
        ..year()
    }
}

/// The middle of the list.
fn later_page() -> Range {
    Range {
        after: Some(Position {
            at: moment("2026-07-04T12:00:00Z"),
            id: LedgerId {
                partition: 7,
                sequence: 5,
            },
            index: 0,
        }),
        ..year()
    }
}

fn entries(kinds: Kinds, range: Range) -> EntryQuery {
    EntryQuery {
        kinds,
        campaign: None,
        envelope: None,
        user: None,
        request: None,
        seen: Seen::default(),
        range,
    }
}

/// Every list with the filters that have an index, over this range.
fn lists(range: &Range) -> Vec<(&'static str, Sql)> {
    let campaign = || Some(CampaignId::parse("id", "campaign-23").unwrap());
    let user = || Some(UserId::parse("id", "user-77").unwrap());
    let envelope = || Some(EnvelopeId::parse("id", "envelope-100").unwrap());
    let wins = |query: WinQuery| {
        let query = WinQuery {
            range: *range,
            ..query
        };
        Sql::wins(&query, Source::Schema(SCHEMA))
    };
    let list = |kinds, campaign, envelope, user| {
        let query = EntryQuery {
            campaign,
            envelope,
            user,
            ..entries(kinds, *range)
        };
        Sql::list(&query, Source::Schema(SCHEMA))
    };
    let all = WinQuery::default;
    vec![
        ("wins", wins(all())),
        (
            "wins of a user",
            wins(WinQuery {
                user: user(),
                ..all()
            }),
        ),
        (
            "wins of a campaign",
            wins(WinQuery {
                campaign: campaign(),
                ..all()
            }),
        ),
        (
            "wins of a prize",
            wins(WinQuery {
                campaign: campaign(),
                prize: Some("car".into()),
                ..all()
            }),
        ),
        (
            "wins of a unit",
            wins(WinQuery {
                unit: Some("unit-1000".into()),
                ..all()
            }),
        ),
        (
            "a draw by its request id",
            Sql::list(
                &EntryQuery {
                    request: RequestId::parse("id", "r777").ok(),
                    ..entries(Kinds::Draws, *range)
                },
                Source::Schema(SCHEMA),
            ),
        ),
        ("draws", list(Kinds::Draws, None, None, None)),
        (
            "draws of a campaign",
            list(Kinds::Draws, campaign(), None, None),
        ),
        ("draws of a user", list(Kinds::Draws, None, None, user())),
        (
            "draws of a user in a campaign",
            list(Kinds::Draws, campaign(), None, user()),
        ),
        ("envelopes", list(Kinds::Envelopes, None, None, None)),
        (
            "an envelope",
            list(Kinds::Envelopes, None, envelope(), None),
        ),
        (
            "envelopes of a user",
            list(Kinds::Envelopes, None, None, user()),
        ),
        ("creations", list(Kinds::EnvelopesCreated, None, None, None)),
        ("grabs", list(Kinds::Grabs, None, None, None)),
        ("refunds", list(Kinds::Refunds, None, None, None)),
        ("operations", list(Kinds::Operations, None, None, None)),
        (
            "operations of a campaign",
            list(Kinds::Operations, campaign(), None, None),
        ),
    ]
}

/// A statement with its parameters in it.
fn written(sql: &Sql) -> String {
    let mut text = sql.text.clone();
    for (index, value) in sql.values.iter().enumerate().rev() {
        let value = match value {
            Value::Text(text) => format!("'{text}'"),
            Value::Number(number) => number.to_string(),
            Value::Small(number) => number.to_string(),
            Value::Moment(moment) => format!("'{moment}'::timestamptz"),
        };
        text = text.replace(&format!("${}", index + 1), &value);
    }
    text
}

/// The plan of a statement after it has run.
async fn plan(database: &Database, sql: &Sql) -> String {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS) {}", written(sql));
    let rows = database.server.query(&database.name, &explain).await;
    let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    lines.join("\n")
}

/// The pages that a plan read: those of its first line, which has all that is below it.
fn pages(plan: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("Buffers: shared"));
    let words = line.unwrap_or_default().split_whitespace();
    let counts = words.filter_map(|word| {
        let count = word.strip_prefix("hit=").or(word.strip_prefix("read="))?;
        Some(count.parse::<u64>().unwrap())
    });
    counts.sum()
}

/// The rows that a plan read and left out.
fn rows_in_vain(plan: &str) -> u64 {
    let counts = plan
        .lines()
        .filter_map(|line| line.split_once("Rows Removed by Filter: "));
    counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_year_is_found_by_an_index() {
    let count = setting("TOMBOLA_ENTRIES").unwrap_or(ENTRIES);
    let database = Database::new().await;
    let client = database.server.connect(&database.name).await;
    client
        .batch_execute(&YEAR.replace("COUNT", &count.to_string()))
        .await
        .unwrap();
    for (name, range) in [
        ("year", year()),
        ("june", june()),
        ("later page", later_page()),
    ] {
        for (list, sql) in lists(&range) {
            let plan = plan(&database, &sql).await;
            let read = pages(&plan);
            let time = plan.lines().last().unwrap_or_default();
            eprintln!("{list}, {name}: {read} pages, {time}");
            assert!(
                read > 0 && read <= PAGES_MAX,
                "{list}, {name}: {read} pages\n{plan}"
            );
            assert!(
                rows_in_vain(&plan) <= ROWS_IN_VAIN_MAX,
                "{list}, {name}:\n{plan}"
            );
            assert!(
                !plan.contains("Seq Scan on entries_2"),
                "{list}, {name}:\n{plan}"
            );
            assert!(
                !plan.contains("Seq Scan on wins"),
                "{list}, {name}:\n{plan}"
            );
            if name == "june" && !list.starts_with("wins") {
                assert!(plan.contains("entries_2026_06"), "{list}:\n{plan}");
                for month in ["2026_05", "2026_07", "2026_12"] {
                    assert!(
                        !plan.contains(month),
                        "{list}: {month} is not pruned\n{plan}"
                    );
                }
            }
        }
    }
    time_of_pages(&database, count).await;
}

/// Reads a page of each list as the service does, and prints how long the slowest takes.
async fn time_of_pages(database: &Database, count: u64) {
    let reader = PostgresReader::new(database.url(), "store");
    let mut slowest = 0;
    for range in [year(), june(), later_page()] {
        for kinds in [Kinds::Draws, Kinds::Grabs, Kinds::Operations] {
            let query = entries(kinds, range);
            reader.list(&query).await.unwrap();
            let begun = Instant::now();
            let found = reader.list(&query).await.unwrap();
            slowest = slowest.max(begun.elapsed().as_millis());
            assert!(!found.rows.is_empty(), "{query:?}");
            assert!(
                found
                    .rows
                    .is_sorted_by_key(|entry| std::cmp::Reverse((entry.at, entry.id)))
            );
        }
        let wins = WinQuery {
            range,
            ..WinQuery::default()
        };
        assert_eq!(reader.wins(&wins).await.unwrap().rows.len(), range.limit);
    }
    eprintln!("{count} draws: the slowest page took {slowest} ms");
}
