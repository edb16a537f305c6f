//! Whom the pseudonyms of a sink stand for. The books tell users apart by their pseudonyms, so it
//! does not matter whether clear ids were erased. Those that are there must fit the pseudonyms.

use std::collections::HashSet;

use super::{Audit, source::StoredRow};
use crate::{
    chance::Kind,
    ledger::{
        entry::{OWN_FORMAT, Unreadable},
        people::{user_of, walk},
    },
    model::CampaignId,
    store::{Entry, entry::Body},
};

/// Campaigns that have entries with clear ids in their bytes.
#[derive(Debug, Default)]
pub(super) struct Names {
    old: HashSet<CampaignId>,
}

impl Names {
    /// Looks at the next row, whose entry has pseudonyms, before it is booked.
    ///
    /// # Errors
    /// The columns with clear values are damaged.
    pub(super) fn look(
        &mut self,
        row: &StoredRow,
        entry: &Entry,
        audit: &mut Audit,
    ) -> Result<(), Unreadable> {
        if row.format == OWN_FORMAT {
            self.old.extend(entry.subject.campaign().cloned());
            return Ok(());
        }
        if let (Some(pseudonym), Some(clear)) = (user_of(&entry.body), &row.user) {
            let scope = (row.id.partition, row.campaign.as_deref());
            audit.users.name(scope, entry.id, pseudonym.as_str(), clear);
        }
        match entry.subject.campaign() {
            Some(id) if self.old.contains(id) => link(row, entry, id, audit),
            _ => Ok(()),
        }
    }
}

/// Finds the users of an entry among those whom earlier entries of the campaign name by clear ids.
fn link(
    row: &StoredRow,
    entry: &Entry,
    id: &CampaignId,
    audit: &mut Audit,
) -> Result<(), Unreadable> {
    let Some(campaign) = audit.campaign_no(entry.id.partition, id) else {
        return Ok(()); // no entry of it was booked, so there are no earlier users
    };
    let pseudonyms = users(&mut entry.body.clone());
    let clear = users(&mut row.body_with_clear_values()?);
    for (pseudonym, clear) in pseudonyms.iter().zip(&clear) {
        let clear = Some(clear.as_str()).filter(|clear| clear != pseudonym);
        audit.users.link(campaign, pseudonym, clear);
    }
    Ok(())
}

/// The users in a body, in its order.
fn users(body: &mut Body) -> Vec<String> {
    let mut users = Vec::new();
    let visited = walk(body, &mut |_, kind, value| {
        if kind == Kind::User {
            users.push(value.clone());
        }
        Ok(())
    });
    visited.map(|()| users).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;

    use super::*;
    use crate::{
        chance::{MasterKey, Salt},
        ledger::{
            audit::{
                Orphans, Outcome, run,
                source::{Source, Spans},
                tests::{begun, draw, entry},
            },
            chain::Chain,
            entry::StoredEntry,
            removed::RemovedRow,
            sink::{Cursor, SinkError},
            wins::{Win, wins},
        },
        model::convert::{campaign_from_proto, tests::spring_wheel},
        store::{LedgerId, SettledUpTo},
    };

    /// Rows in memory.
    struct Rows {
        rows: Vec<StoredRow>,
        wins: Vec<Win>,
    }

    #[async_trait]
    impl Source for Rows {
        async fn cursors(&mut self) -> Result<BTreeMap<u32, Cursor>, SinkError> {
            let mut chain = Chain::begin(1);
            for row in &self.rows {
                chain.add(&row.link());
            }
            let last = self.rows.last().unwrap();
            let cursor = Cursor {
                partition: 0,
                up_to: SettledUpTo {
                    fork: String::new(),
                    sequence: last.id.sequence,
                },
                at: last.at,
                format: OWN_FORMAT,
                digest: Vec::new(),
                chain: Some(chain),
            };
            Ok([(0, cursor)].into())
        }

        async fn orphans(&mut self) -> Result<Orphans, SinkError> {
            Ok(Orphans::new())
        }

        async fn entries(
            &mut self,
            _partition: u32,
            after: u64,
            limit: usize,
        ) -> Result<Vec<StoredRow>, SinkError> {
            let rows = self.rows.iter().filter(|row| row.id.sequence > after);
            Ok(rows.take(limit).cloned().collect())
        }

        async fn wins(
            &mut self,
            _partition: u32,
            first: u64,
            last: u64,
        ) -> Result<Vec<Win>, SinkError> {
            let wins = self.wins.iter();
            let wins = wins.filter(|win| (first..=last).contains(&win.sequence));
            Ok(wins.cloned().collect())
        }

        async fn spans(&mut self) -> Result<Spans, SinkError> {
            let entries = self.rows.iter().map(|row| row.id.sequence);
            let numbers = entries.chain(self.wins.iter().map(|win| win.sequence));
            let numbers: Vec<i64> = numbers.map(u64::cast_signed).collect();
            let (first, last) = (numbers.iter().min(), numbers.iter().max());
            let span = first.copied().zip(last.copied());
            Ok(span.into_iter().map(|span| (0, span)).collect())
        }

        async fn removed(&mut self) -> Result<Vec<(RemovedRow, Vec<u8>)>, SinkError> {
            Ok(Vec::new())
        }
    }

    /// A user's first draw has the clear id in its bytes, the second one a pseudonym. `counted` is
    /// the number of draws that the second one counts.
    fn two_draws(counted: u32) -> Rows {
        let key = MasterKey::from_bytes([7; 32]);
        let pseudonyms = key.pseudonyms("spring-wheel", &Salt([1; 32]));
        let mut second = draw("a", 1);
        second.counts.free_today = counted;
        second.counts.draws = counted.into();
        second.counts.wins = counted.into();
        let draws = [draw("a", 0), second].map(Body::Draw);
        let campaign = campaign_from_proto(&spring_wheel()).unwrap();
        let mut all = Rows {
            rows: Vec::new(),
            wins: Vec::new(),
        };
        for (sequence, body) in (1..).zip(begun().into_iter().chain(draws)) {
            let mut entry = entry(sequence, body);
            entry.number = (sequence == 4).then_some(1);
            if let Body::Draw(draw) = &entry.body {
                all.wins.extend(wins(&entry, draw, &campaign).unwrap());
            }
            all.rows.push(row(StoredEntry::of(&entry, &pseudonyms)));
        }
        all
    }

    fn row(stored: StoredEntry) -> StoredRow {
        StoredRow {
            id: LedgerId {
                partition: stored.partition,
                sequence: stored.sequence,
            },
            number: stored.number,
            fork: stored.fork,
            at: stored.at,
            kind: stored.kind.into(),
            campaign: stored.campaign,
            envelope: stored.envelope,
            format: stored.format,
            body: stored.body,
            user: stored.user,
            request: stored.request,
            people: stored.people,
        }
    }

    async fn audited(mut rows: Rows) -> (Outcome, Vec<String>) {
        let outcome = run::run(&mut rows, Audit::default(), |_| ()).await.unwrap();
        let findings = outcome.findings.shown();
        let texts = findings.map(|finding| finding.text.clone()).collect();
        (outcome, texts)
    }

    fn unknown_limits(outcome: &Outcome) -> u64 {
        let books = outcome.campaigns.values();
        books.map(|books| books.unknown_limits()).sum()
    }

    #[tokio::test]
    async fn a_user_is_the_same_before_and_after_pseudonyms() {
        let (outcome, found) = audited(two_draws(2)).await;
        assert_eq!((found, unknown_limits(&outcome)), (Vec::new(), 0));
        let (_, found) = audited(two_draws(1)).await;
        assert!(
            found[0].contains("draws 1, from the entries before it 2"),
            "{found:?}"
        );
    }

    #[tokio::test]
    async fn an_erased_user_with_entries_before_pseudonyms_is_not_checked() {
        let mut rows = two_draws(2);
        rows.rows[3].user = None;
        rows.rows[3].request = None;
        let pseudonym = rows.rows[3].entry().unwrap();
        let Body::Draw(draw) = &pseudonym.body else {
            panic!("{pseudonym:?}");
        };
        rows.wins[1].user = draw.user.as_str().into();
        rows.wins[1].request = draw.request.as_str().into();
        let (outcome, found) = audited(rows).await;
        assert_eq!((found, unknown_limits(&outcome)), (Vec::new(), 1));
    }

    #[tokio::test]
    async fn a_column_that_does_not_fit_its_pseudonym_is_found() {
        let mut rows = two_draws(2);
        rows.rows[3].user = Some("b".into());
        let (_, found) = audited(rows).await;
        assert!(
            found.iter().any(|text| text.contains("its wins")),
            "{found:?}"
        );
        let mut rows = two_draws(2);
        let mut third = rows.rows[3].clone();
        third.id.sequence = 5;
        third.number = Some(2);
        third.user = Some("b".into());
        rows.rows.push(third);
        let (_, found) = audited(rows).await;
        assert!(
            found.iter().any(|text| text.contains("column user_id")),
            "{found:?}"
        );
    }

    #[tokio::test]
    async fn wins_where_no_entry_is_are_found() {
        for sequence in [0, 5, u64::MAX] {
            let mut rows = two_draws(2);
            let win = Win {
                sequence,
                ..rows.wins[0].clone()
            };
            rows.wins.push(win);
            let (_, found) = audited(rows).await;
            let number = format!("has number {}", sequence.cast_signed());
            let is_found = found.iter().any(|text| text.ends_with(&number));
            assert!(is_found, "{found:?}");
        }
    }

    /// A batch of an audit ends with entry 2000.
    #[tokio::test]
    async fn a_number_that_is_there_twice_is_found_wherever_it_is() {
        for twice in [1, 1_999, 2_000, 2_001, 2_500] {
            let mut rows = two_draws(2);
            for sequence in 5..=2_500 {
                let mut closed = rows.rows[3].clone();
                closed.id.sequence = sequence;
                closed.number = Some(sequence - 3);
                closed.kind = "closed".into();
                closed.body = br#"{"body":{"kind":"closed"}}"#.to_vec();
                closed.user = None;
                rows.rows.push(closed);
            }
            let second = rows.rows[twice - 1].clone();
            rows.rows.insert(twice, second);
            let (_, found) = audited(rows).await;
            let text = format!("entry {twice} comes after entry {twice}");
            assert!(found.contains(&text), "{found:?}");
        }
    }

    #[tokio::test]
    async fn an_id_with_two_pseudonyms_is_found() {
        let mut rows = two_draws(2);
        let key = MasterKey::from_bytes([7; 32]);
        let pseudonyms = key.pseudonyms("spring-wheel", &Salt([1; 32]));
        let mut third = entry(5, Body::Draw(draw("c", 2)));
        third.number = Some(2);
        rows.rows.push(row(StoredEntry::of(&third, &pseudonyms)));
        rows.rows[4].user = Some("a".into());
        let (_, found) = audited(rows).await;
        assert!(
            found.iter().any(|text| text.contains("several pseudonyms")),
            "{found:?}"
        );
    }
}
