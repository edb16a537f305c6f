//! Lists of an embedded store are found through an index. They are held against the same statements
//! without it, which look at all rows.

use rusqlite::{Connection, OptionalExtension as _, params_from_iter};
use tombola::{
    ledger::read::{
        EntryQuery, Kinds, LedgerReader as _, Position, Range, Seen, WinQuery,
        sql::{Source, Sql},
        sqlite::SqliteReader,
    },
    model::{CampaignId, EnvelopeId, Moment, Pattern, Patterns, RequestId, UserId},
    store::{LedgerId, sqlite::LedgerTables},
};

const KINDS: [Kinds; 7] = [
    Kinds::Draws,
    Kinds::Envelopes,
    Kinds::EnvelopesCreated,
    Kinds::Grabs,
    Kinds::Refunds,
    Kinds::Operations,
    Kinds::Deliveries,
];

/// Where a row is in a list: its time, and the numbers of its entry and of the win.
type Place = (i64, u64, u16);

/// What occurs in the tables, and the ranges of the lists.
struct Asked {
    campaigns: Vec<String>,
    envelopes: Vec<String>,
    users: Vec<String>,
    requests: Vec<String>,
    wins: Vec<(String, String, String)>,
    ranges: Vec<Range>,
    turn: usize,
}

impl Asked {
    async fn about(tables: &LedgerTables) -> Self {
        let column = async |column: &'static str| {
            let read = move |db: &Connection| {
                let sql = format!("SELECT DISTINCT {column} FROM entries LIMIT 7");
                let mut statement = db.prepare(&sql)?;
                let values = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
                let values: rusqlite::Result<Vec<_>> = values.collect();
                Ok(values?.into_iter().flatten().collect::<Vec<_>>())
            };
            tables.read(read).await.unwrap()
        };
        let wins = |db: &Connection| {
            let sql = "SELECT campaign, prize, unit_id FROM wins ORDER BY unit_id LIMIT 4";
            let mut statement = db.prepare(sql)?;
            let wins =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            Ok(wins.collect::<rusqlite::Result<_>>()?)
        };
        let middle = |db: &Connection| {
            let sql = "SELECT sequence, at FROM entries ORDER BY sequence
                       LIMIT 1 OFFSET (SELECT count(*) / 2 FROM entries)";
            Ok(db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
        };
        let (sequence, at): (u64, i64) = tables.read(middle).await.unwrap();
        let in_draw = |db: &Connection| {
            let sql = "SELECT sequence, at FROM wins ORDER BY number DESC, sequence LIMIT 1";
            let found = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
            Ok(found.optional()?)
        };
        let in_draw: Option<(u64, i64)> = tables.read(in_draw).await.unwrap();
        let at = Moment::from_micros(at);
        let whole = Range {
            limit: 10_000,
            ..Range::default()
        };
        let after = |(sequence, at), index| {
            let id = LedgerId {
                partition: 0,
                sequence,
            };
            Some(Position { at, id, index })
        };
        let in_draw = in_draw.map_or((sequence, at), |(sequence, at)| {
            (sequence, Moment::from_micros(at))
        });
        Self {
            campaigns: column("campaign").await,
            envelopes: column("envelope").await,
            users: column("user_id").await,
            requests: column("request_id").await,
            wins: tables.read(wins).await.unwrap(),
            turn: sequence as usize,
            ranges: vec![
                whole,
                Range { limit: 3, ..whole },
                Range {
                    from: Some(at),
                    ..whole
                },
                Range {
                    to: Some(at),
                    ..whole
                },
                Range {
                    after: after((sequence, at), 0),
                    limit: 7,
                    ..whole
                },
                Range {
                    after: after(in_draw, 1),
                    limit: 5,
                    ..whole
                },
            ],
        }
    }

    fn entry_queries(&self) -> Vec<EntryQuery> {
        let mut queries = Vec::new();
        let all = |kinds| EntryQuery {
            kinds,
            campaign: None,
            envelope: None,
            user: None,
            request: None,
            seen: Seen::default(),
            range: Range::default(),
        };
        for kinds in KINDS {
            queries.push(all(kinds));
            queries.extend(self.campaigns.iter().map(|id| EntryQuery {
                campaign: CampaignId::parse("id", id).ok(),
                ..all(kinds)
            }));
            for (campaigns, senders) in
                [(Some("s"), None), (None, Some("u")), (Some(""), Some("x"))]
            {
                let seen = Seen {
                    campaigns: campaigns.map(beginning),
                    senders: senders.map(beginning),
                };
                queries.push(EntryQuery { seen, ..all(kinds) });
            }
            for id in &self.users {
                let of_user = EntryQuery {
                    user: UserId::parse("id", id).ok(),
                    ..all(kinds)
                };
                queries.push(EntryQuery {
                    campaign: CampaignId::parse("id", &self.campaigns[0]).ok(),
                    ..of_user.clone()
                });
                queries.push(of_user);
            }
        }
        queries.extend(self.envelopes.iter().map(|id| EntryQuery {
            envelope: EnvelopeId::parse("id", id).ok(),
            ..all(Kinds::Envelopes)
        }));
        queries.extend(self.requests.iter().map(|id| EntryQuery {
            request: RequestId::parse("id", id).ok(),
            ..all(Kinds::Draws)
        }));
        self.in_turns(&mut queries, |query| &mut query.range);
        queries
    }

    fn win_queries(&self) -> Vec<WinQuery> {
        let mut queries = Vec::new();
        let all = WinQuery::default;
        queries.push(all());
        for start in ["s", "x"] {
            queries.push(WinQuery {
                campaigns: Some(beginning(start)),
                ..all()
            });
        }
        queries.extend(self.users.iter().map(|id| WinQuery {
            user: UserId::parse("id", id).ok(),
            ..all()
        }));
        for (campaign, prize, unit) in &self.wins {
            let of_campaign = WinQuery {
                campaign: CampaignId::parse("id", campaign).ok(),
                ..all()
            };
            queries.push(of_campaign.clone());
            queries.push(WinQuery {
                prize: Some(prize.clone()),
                ..of_campaign.clone()
            });
            queries.push(WinQuery {
                unit: Some(unit.clone()),
                ..of_campaign
            });
            queries.push(WinQuery {
                unit: Some(unit.clone()),
                ..all()
            });
        }
        self.in_turns(&mut queries, |query| &mut query.range);
        queries
    }

    /// Each query asks for one of the ranges. Which one differs from ledger to ledger.
    fn in_turns<Q>(&self, queries: &mut [Q], range: fn(&mut Q) -> &mut Range) {
        for (index, query) in queries.iter_mut().enumerate() {
            *range(query) = self.ranges[(index + self.turn) % self.ranges.len()];
        }
    }
}

/// All ids that begin so.
fn beginning(text: &str) -> Patterns {
    let mut patterns = Patterns::default();
    patterns.add(&Pattern::Beginning(text.into()));
    patterns
}

/// Checks each list of all that is settled in these tables; the number of rows in them.
pub async fn all_lists(tables: &LedgerTables) -> usize {
    let (reader, asked) = (
        SqliteReader::new(tables.clone()),
        Asked::about(tables).await,
    );
    let mut rows = 0;
    for query in asked.entry_queries() {
        let sql = Sql::list(&query, Source::Schema(""));
        let expected = tables.read(move |db| places(db, &sql, None)).await.unwrap();
        let found = reader.list(&query).await.unwrap().rows;
        let found: Vec<Place> = found
            .iter()
            .map(|entry| (entry.at.as_micros(), entry.id.sequence, 0))
            .collect();
        assert_eq!(found, expected, "{query:?}");
        rows += found.len();
    }
    for query in asked.win_queries() {
        let sql = Sql::wins(&query, Source::Schema(""));
        let number = Some("number");
        let expected = tables.read(move |db| places(db, &sql, number)).await;
        let found = reader.wins(&query).await.unwrap().rows;
        let found: Vec<Place> = found
            .iter()
            .map(|settled| &settled.win)
            .map(|win| (win.at.as_micros(), win.sequence, win.number.cast_unsigned()))
            .collect();
        assert_eq!(found, expected.unwrap(), "{query:?}");
        rows += found.len();
    }
    rows
}

fn places(db: &Connection, sql: &Sql, number: Option<&str>) -> tombola::store::Result<Vec<Place>> {
    let mut statement = db.prepare(&sql.text)?;
    let mut rows = statement.query(params_from_iter(&sql.values))?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let number = number.map_or(Ok(0), |number| row.get(number))?;
        places.push((row.get("at")?, row.get("sequence")?, number));
    }
    Ok(places)
}
