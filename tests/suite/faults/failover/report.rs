//! The rows of the table: the counts for each fault.

use std::{fmt::Write as _, fs, io::Write as _, ops::AddAssign, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Level, group::Layout, scenario::Fault};

/// The counts of one or more rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Draws that clients asked for.
    pub attempts: u64,
    pub acknowledged: u64,
    /// Acknowledged draws that the store does not have as they were answered.
    pub lost: u64,
    /// Lost draws whose partition is not halted.
    pub unnoticed: u64,
    /// Units that two draws got.
    pub doubled: u64,
    /// Sequence numbers that two draws got.
    pub sequence_twice: u64,
    /// Retries of an acknowledged draw that got another response.
    pub other_outcomes: u64,
    /// Draws that were reported as not made.
    pub refused: u64,
    /// Draws that were reported as not made, but are in the ledger.
    pub falsely_no: u64,
    /// Draws whose outcome nobody could find out.
    pub unknown: u64,
    /// Partitions that are halted at the end.
    pub halted: u64,
    /// Campaigns whose sums do not hold.
    pub unbalanced: u64,
    /// Rounds in which draws did not go on: after the fault in a partition that is not halted, or
    /// during the fault if no partition is halted.
    pub stuck: u64,
    /// The longest time in which a campaign had no acknowledged draw.
    pub pause: Duration,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let Self {
            attempts,
            acknowledged,
            lost,
            unnoticed,
            doubled,
            sequence_twice,
            other_outcomes,
            refused,
            falsely_no,
            unknown,
            halted,
            unbalanced,
            stuck,
            pause,
        } = other;
        self.attempts += attempts;
        self.acknowledged += acknowledged;
        self.lost += lost;
        self.unnoticed += unnoticed;
        self.doubled += doubled;
        self.sequence_twice += sequence_twice;
        self.other_outcomes += other_outcomes;
        self.refused += refused;
        self.falsely_no += falsely_no;
        self.unknown += unknown;
        self.halted += halted;
        self.unbalanced += unbalanced;
        self.stuck += stuck;
        self.pause = self.pause.max(pause);
    }
}

/// One fault on one layout at one level.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub fault: Fault,
    pub layout: Layout,
    pub level: Level,
    pub rounds: u64,
    pub counts: Counts,
}

impl Row {
    /// The expectations that do not hold.
    pub fn failures(&self) -> Vec<&'static str> {
        let counts = &self.counts;
        let is_safe = self.level == Level::Strict || self.layout == Layout::Single;
        let rules = [
            (
                counts.sequence_twice > 0,
                "a sequence number is given twice",
            ),
            (counts.unnoticed > 0, "a loss is not noticed"),
            (
                counts.falsely_no > 0,
                "a draw that was made is called not executed",
            ),
            (counts.unbalanced > 0, "sums do not hold"),
            (counts.stuck > 0, "draws do not go on"),
            (is_safe && counts.lost > 0, "an acknowledged draw is lost"),
            (is_safe && counts.doubled > 0, "a unit is given twice"),
            // At `local` the first of its two draws is lost, and the partition halts for it.
            (
                counts.doubled > 0 && counts.lost == 0,
                "a unit is given twice, and no draw is lost",
            ),
            (
                is_safe && counts.other_outcomes > 0,
                "a request has two outcomes",
            ),
            (is_safe && counts.halted > 0, "a partition is halted"),
        ];
        let broken = rules.into_iter().filter(|(is_broken, _)| *is_broken);
        broken.map(|(_, rule)| rule).collect()
    }
}

/// The file that records every round, one per line, so that a report can be made in several runs.
#[derive(Clone)]
pub struct Record(PathBuf);

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Round {
    fault: String,
    layout: String,
    level: String,
    counts: Counts,
}

impl Record {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The row with all recorded rounds of this combination.
    pub fn row(&self, fault: Fault, layout: Layout, level: Level) -> Row {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        let (mut rounds, mut counts) = (0, Counts::default());
        for line in text.lines() {
            let round: Round = serde_json::from_str(line).unwrap();
            if (&*round.fault, &*round.layout, &*round.level)
                == (fault.name(), layout.name(), level.name())
            {
                rounds += 1;
                counts += round.counts;
            }
        }
        Row {
            fault,
            layout,
            level,
            rounds,
            counts,
        }
    }

    pub fn add(&self, fault: Fault, layout: Layout, level: Level, counts: Counts) {
        let round = Round {
            fault: fault.name().into(),
            layout: layout.name().into(),
            level: level.name().into(),
            counts,
        };
        let line = serde_json::to_string(&round).unwrap() + "\n";
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.0);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}

const HEAD: &str = "\
| fault | store | level | rounds | draws | acknowledged | lost | of these unnoticed \
| units doubled | sequence twice | two outcomes | said no | falsely no | unknown \
| partitions halted | stalled | longest pause |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// The table in Markdown.
pub fn table(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let counts = &row.counts;
        let pause = counts.pause.as_secs_f64();
        let numbers = [
            row.rounds,
            counts.attempts,
            counts.acknowledged,
            counts.lost,
            counts.unnoticed,
            counts.doubled,
            counts.sequence_twice,
            counts.other_outcomes,
            counts.refused,
            counts.falsely_no,
            counts.unknown,
            counts.halted,
            counts.stuck,
        ];
        let numbers = numbers.map(|number| number.to_string()).join(" | ");
        let (fault, store, level) = (row.fault.name(), row.layout.name(), row.level.name());
        writeln!(
            text,
            "| {fault} | {store} | `{level}` | {numbers} | {pause:.1} s |"
        )
        .unwrap();
    }
    text
}

/// The page with the table. What follows the table in the page before stays.
pub fn page(rows: &[Row], before: &str) -> String {
    let rest = before.find("\n## ").map_or("", |at| &before[at..]);
    format!("{INTRODUCTION}\n{}{rest}", table(rows))
}

const INTRODUCTION: &str = "\
# Faults

What happens to draws when servers and services fail. The test suite writes the first table itself:

```sh norun
TOMBOLA_FAULT_ROUNDS=20 TOMBOLA_FAULTS_REPORT=docs/faults.md \\
    cargo test --locked --test suite -- --ignored --nocapture faults::failover::report
```

The suite records each round as a line of [faults.jsonl](faults.jsonl), so a run that was stopped
can go on. To begin again, remove the file.

Two services and 16 clients draw from twelve campaigns while the fault happens. Every client
records the responses to each draw. After the fault, the test compares these records with `GetDraw`,
`GetStats` and the whole ledger. The rounds alternate between Redis 7.0, Redis 8.0 and Valkey 8.1.
What some columns of the table mean:

- *lost*: acknowledged draws that the store does not have as they were answered. *of these
  unnoticed*: lost draws for which the partition did not halt.
- *units doubled*, *sequence twice*: units and sequence numbers that two draws got, lost draws
  included.
- *two outcomes*: retries of an acknowledged draw that got another response.
- *said no*: draws that were refused with `executed: no`. *falsely no*: such draws that are in the
  ledger.
- *unknown*: draws whose outcome the client could not find out by retries either. A halted partition
  does not say what became of earlier draws.
- *stalled*: rounds in which draws did not go on within a minute, although nothing halted them.
- *longest pause*: the longest time after the fault in which a campaign had no acknowledged draw.
  Campaigns of halted partitions do not count: 0.0 s means that all had halted.
";
